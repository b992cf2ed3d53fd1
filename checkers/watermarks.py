"""Watermarks: what nodes showed of a partition, in real time. `checkers.core.node_answers` says what an answer is.

Two answers are in order only when one ended before the other was invoked.

watermark-regression    an answer to Fetch shows a lower high watermark than one that had ended before it was invoked
end-offset-regression   the same for ListOffsets(latest), which clients act on
lso-regression          the same for last stable offsets: of Fetch, and by itself of ListOffsets(latest committed)
log-start-regression    the same for log starts: of Fetch, and by itself of ListOffsets(earliest)
lso-above-hw            an answer shows a high watermark (of ListOffsets: an end) below a last stable offset that an
                        answer of the same sort, Fetch or ListOffsets, had shown and that had ended before it was
                        invoked; or, tagged `one answer`, an answer to Fetch shows a last stable offset above its own
                        high watermark (a broker reads the two one after the other, and the watermark may rise between)
lso-stuck               one node shows one last stable offset under one told leader epoch (none is one, too), with a
                        higher high watermark beside it, in answers to Fetch; and from the end of the first of them to
                        the invocation of the last at least `lso_stuck_s` seconds pass (a limit of the scenario), those
                        left out in which faults lasted, from injection until the cluster was whole again (without that,
                        to undoing): more than any transaction is given, for it ends when its coordinator and the
                        leaders of its partitions can be reached. Only where there are transactions.

Followers answer Fetch too, from version 11 on, with a watermark that lags by design, and an exchange does not say who
led. So exchanges are compared node by node (those without one among themselves, if they are led, else with nothing);
only those of an older Fetch, which followers refuse, that named its leader epoch are compared with answers of all
nodes, as probes are.

The question is a running maximum: the highest mark shown by answers that ended before this one was invoked. Answers
that are compared with each other are a *lane*: in the order of their ends their marks have a running maximum, and an
answer is held against that of the last one that ended before its own `invoked`; what ends at that instant is not before
it. A partition is in one piece, so this needs nothing from elsewhere. Whether anything fell at all is asked of every
lane; who had shown more, and under which leader, only of those in which something fell.

Whether a fall is a broken promise depends on the leader. Answers of one *era* were given under one leader epoch. An
answer to Fetch tells its epoch for certain where the request could name it, and one to ListOffsets, from version 4 on,
names the epoch of whoever gave it. Otherwise Metadata answers have to do. They show each leader epoch for the first
time at some moment, and it began between the last answer of its leader before that, from its invocation on, and that
moment (`checkers.core.node_answers`); if nothing was shown before it, at any time until then. That span is a *rise*,
but for epoch 0; for it nobody saw change. An era lies between two rises, and no rise is within SETTLING_NS of its
answers, for nodes do not learn of a leader at one instant and are asked only every so often. In a partition of which
Metadata showed more than one epoch, an era of answers that do not tell theirs is of one node: another that answers
meanwhile may be deposed, and need not know. (An answer that tells its epoch and one that does not are of different
eras.) Where Metadata tells no epochs, a rise is a change of the leader that it names. A finding is, for one node that
answered too low, tagged

one epoch        an answer of the same era had shown more: no leader change lies between
older epoch      it told an older epoch than the answer that had shown more: a leader that did not know its successor;
                 of lso-stuck: a higher epoch may have begun SETTLING_NS after the last answer at the latest
epoch rose       only answers beyond a rise, or close to one, or of another node, had shown more
epoch unknown    the same as `one epoch`, but no metadata answer told an epoch of the partition: the leader may have
                 changed and come back
restarted        the same as `one epoch`, but the answer is not led, Metadata did not show that node as the leader of
                 its epoch, and it had shown more before a fault was over that began before it was answered: a follower
                 that restarts knows an older watermark until it hears from its leader

and `same node` or `across nodes` (or nobody said which), by the answer that had shown more: of those of the same era,
if there are any, the one that had shown most (then that ended last, then that of the highest node). Answers of one sort
(Fetch or ListOffsets), partition, node and set of tags are one finding, with the first moment, the widest fall and the
number of answers. (lso-stuck has a finding for each offset, node and epoch, and no tag but `older epoch`.)

A topic that the workload deletes begins again, and so do its leader epochs. Answers of one of its lives (an `era` of
`checkers.deletions`; below always a *life*, to tell it from the eras of leaders) are compared with each other alone; so
are those that may belong to two, and what is found among these is tagged `deleted topic`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import NONE, Bools, Groups, Ints, Lanes, ints
from checkers.core.deletions import UNSURE
from checkers.core.family import Family, Known, Outcome
from checkers.core.findings import Findings, found, together
from checkers.core.node_answers import (
    ALWAYS,
    EXCHANGES,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    PROBES,
    SETTLING_NS,
    Epochs,
    moves,
)
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from harness.foundation.protocol import Api
from harness.history.schema import F, Kind, Type

MARKS = ("shown", "stable", "start")
REGRESSIONS = {"watermark-regression": FETCH, "end-offset-regression": LIST_OFFSETS}
ABOVE = "lso-above-hw"
STUCK = "lso-stuck"
# the mark that an answer raises, and the one that is held against it
SIDES: Mapping[str, tuple[str, str]] = {
    "watermark-regression": ("shown", "shown"),
    "end-offset-regression": ("shown", "shown"),
    "lso-regression": ("stable", "stable"),
    "log-start-regression": ("start", "start"),
    ABOVE: ("stable", "shown"),
}
ONE_EPOCH, OLDER, ROSE, UNKNOWN, ONE_ANSWER, RESTARTED = range(6)
CHANGES = ("one epoch", "older epoch", "epoch rose", "epoch unknown", "one answer", "restarted")
FACTS = ("shown_before", "before_node", "before_ns", "before_epoch", "shown", "node", "at_ns", "epoch", "answers")
LIFE = ("topic", "partition", "era")
_DENSE = 1 << 31
_WIDEST = 1 << 62


@dataclass
class Seen:
    """What was found in a piece, and in how much of it."""

    findings: Findings = field(default_factory=Findings)
    looked_at: dict[str, int] = field(default_factory=dict)


class OfPartitions(Family):
    """A family that a piece by itself tells everything: all answers of a partition are in one."""

    reads: ClassVar[Mapping[str, Sequence[str]]] = {"probes": PROBES, "exchanges": EXCHANGES}

    def gather(self, surveys: Sequence[Seen], run: RunContext, known: Known) -> Seen:
        """Sums, and the first and the worst of what was found."""
        looked_at = {name: sum(each.looked_at.get(name, 0) for each in surveys) for name in self.anomalies}
        return Seen(together((each.findings for each in surveys), run.limit), looked_at)

    def conclude(
        self,
        mine: Seen,
        judged: Sequence[object],
        run: RunContext,
        known: Known,
    ) -> Outcome:
        """As it was gathered."""
        return Outcome(mine.findings, mine.looked_at)


class Watermarks(OfPartitions):
    """Marks that fall."""

    name = "watermarks"
    anomalies: ClassVar[Mapping[str, str]] = {
        "watermark-regression": "a later answer to Fetch shows a lower high watermark",
        "end-offset-regression": "a later answer to ListOffsets shows a lower end",
        "lso-regression": "a later answer shows a lower last stable offset",
        "log-start-regression": "a later answer shows a lower log start",
        ABOVE: "a last stable offset above the high watermark",
    }

    def needs(self, run: RunContext) -> bool:
        """Anything that a node answered."""
        return run.has(Kind.PROBE) or run.has(Kind.EXCHANGE)

    def survey(self, piece: Piece, run: RunContext) -> Seen:
        """Everything about the partitions in it."""
        wanted = [anomaly for anomaly in SIDES if run.wants(anomaly)]
        if piece.answers.is_empty() or not wanted:
            return Seen()
        shown = Shown.of(piece.answers)
        before = Before(shown.lane, shown.invoked, shown.time)
        highest = {mark: before.highest(shown.marks[mark]) for mark in {SIDES[anomaly][0] for anomaly in wanted}}
        looked_at = {anomaly: int(_looked_at(anomaly, shown, highest).sum()) for anomaly in wanted}
        fell = np.zeros(len(shown.time), np.bool_)
        for anomaly in wanted:
            fell |= shown.fell(anomaly, highest[SIDES[anomaly][0]])
            if anomaly == ABOVE:
                fell |= shown.above_itself
        if not fell.any():
            return Seen(looked_at=looked_at)
        in_lane = np.zeros(int(shown.lane.max()) + 1, np.bool_)
        in_lane[shown.lane[fell]] = True
        rows = piece.answers.filter(in_lane[shown.lane]).filter(pl.col("led") | pl.col("node").is_not_null())
        return Seen(_fallen(rows, piece, wanted, run), looked_at)


def _looked_at(anomaly: str, shown: Shown, highest: Mapping[str, Ints]) -> Bools:
    """Which answers could be held against others."""
    raised, asked = SIDES[anomaly]
    before: Bools = highest[raised] != NONE
    if anomaly in REGRESSIONS:
        before &= shown.api == REGRESSIONS[anomaly]
        return before
    there: Bools = shown.marks[asked] != NONE
    return there & (before | (shown.marks[raised] != NONE)) if anomaly == ABOVE else there & before


@dataclass(frozen=True)
class Shown:
    """Answers as arrays; NONE where something is null."""

    api: Ints
    lane: Ints  # answers that may be compared with each other
    node: Ints
    told: Ints
    invoked: Ints
    time: Ints
    event: Ints
    marks: Mapping[str, Ints]

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Shown:
        """Of all of these."""
        api, node, told, invoked, time, event = (
            ints(rows, name) for name in ("api", "node", "told", "invoked", "time", "event")
        )
        lane = numbered(api, *(ints(rows, name) for name in (*LIFE, "scope")))
        return cls(api, lane, node, told, invoked, time, event, {mark: ints(rows, mark) for mark in MARKS})

    def fell(self, anomaly: str, highest: Ints) -> Bools:
        """Which show less than the highest mark before them."""
        asked = self.marks[SIDES[anomaly][1]]
        fell: Bools = (highest > asked) & (asked != NONE)
        if anomaly in REGRESSIONS:
            fell &= self.api == REGRESSIONS[anomaly]
        return fell

    @property
    def above_itself(self) -> Bools:
        """Which are answers to Fetch that show a last stable offset above their own high watermark."""
        shown = self.marks["shown"]
        above: Bools = (self.api == FETCH) & (self.marks["stable"] > shown) & (shown != NONE)
        return above


def numbered(*columns: Ints) -> Ints:
    """Of each row a number, from 0 on, that it shares with those alone that are the same in all columns."""
    number, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        other, width = (column - low, high - low + 1) if high - low < _DENSE else _dense(column)
        if size * width > _DENSE:
            (number, size), (other, width) = _dense(number), _dense(other)
        number, size = number * width + other, size * width
    return number if size <= 2 * len(number) else _dense(number)[0]


def _dense(column: Ints) -> tuple[Ints, int]:
    different, number = np.unique(column, return_inverse=True)
    return number.astype(np.int64, copy=False), len(different)


def _different(values: Ints) -> Ints:
    """All values once, in order; ten times as fast as `np.unique`, which hashes them first."""
    ordered: Ints = np.sort(values)
    different: Ints = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return different


class Moments:
    """Moments of lanes, in the order of lanes and then of time, to count those before another moment."""

    def __init__(self, lane: Ints, at: Ints) -> None:
        self._top = int(lane.max(initial=-1)) + 1
        self._low, high = (int(at.min()), int(at.max())) if len(at) else (0, 0)
        self._width = high - self._low + 2
        self._different: Ints | None = None
        if self._width * (self._top + 1) > _WIDEST:
            self._different = _different(at)
            self._width = len(self._different) + 1
        keys = self._keys(lane, at)
        self.order = np.argsort(keys)
        self._ordered = keys[self.order]

    def before(self, lane: Ints, moment: Ints) -> Ints:
        """How many moments, those of lower lanes included, come before this one in this lane."""
        keys = self._keys(lane, moment)
        order = np.argsort(keys)  # what is asked in order is answered several times as fast
        count = np.empty(len(keys), np.int64)
        count[order] = np.searchsorted(self._ordered, keys[order])
        return count

    def settle(self, *ties: Ints) -> None:
        """Put those that fall on one instant into the order of something else."""
        same = self._ordered[1:] == self._ordered[:-1]
        if not same.any():
            return
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = self.order[tied]
        self.order[tied] = rows[np.lexsort([*(tie[rows] for tie in reversed(ties)), self._ordered[tied]])]

    def _keys(self, lane: Ints, moment: Ints) -> Ints:
        if self._different is None:
            tick = np.clip(moment - self._low, 0, self._width - 1)
        else:
            tick = np.searchsorted(self._different, moment)
        return np.minimum(lane, self._top) * self._width + tick


class Before:
    """For each answer those of its lane that had ended before it was invoked, and what they had shown."""

    def __init__(self, lane: Ints, invoked: Ints, time: Ints, *ties: Ints) -> None:
        ended = Moments(lane, time)
        if ties:
            ended.settle(*ties)
        self._order = ended.order
        ordered = lane[ended.order]
        self._lanes = Lanes(ordered)
        last = ended.before(lane, invoked) - 1
        self._last = np.where((last >= 0) & (ordered[last] == lane), last, -1)

    def highest(self, values: Ints) -> Ints:
        """The highest of them; NONE where there is none."""
        running = self._lanes.upto(values[self._order])
        return np.where(self._last >= 0, running[self._last], NONE)

    def who(self, values: Ints) -> Ints:
        """Who had shown the highest, and of several the last in order; -1 where there is none."""
        ordered = values[self._order]
        running = self._lanes.upto(ordered)
        raises = np.where((ordered == running) & (ordered != NONE), np.arange(len(ordered)), -1)
        latest = np.maximum.accumulate(raises)
        return np.where((self._last >= 0) & (running[self._last] != NONE), self._order[latest[self._last]], -1)


def _fallen(rows: pl.DataFrame, piece: Piece, wanted: Sequence[str], run: RunContext) -> Findings:
    """Of lanes in which something fell: a finding per partition, node and set of tags."""
    falls = Falls(rows, piece, {SIDES[anomaly][0] for anomaly in wanted}, run)
    return together((part for anomaly in wanted for part in falls.findings(anomaly, run)), run.limit)


@dataclass(frozen=True)
class Leaders:
    """Under which leader answers were given, as far as anybody told."""

    era: Ints
    settled: Bools  # whether no rise is near
    known: Bools  # whether any epoch was told
    alone: Bools  # whether an era is of one node

    @classmethod
    def of(cls, rows: pl.DataFrame, shown: Shown, epochs: Epochs, piece: Piece) -> Leaders:
        """By the epochs that answers tell, and the rises that Metadata showed."""
        era, settled, known = shown.told.copy(), np.ones(len(rows), np.bool_), np.ones(len(rows), np.bool_)
        alone = np.zeros(len(rows), np.bool_)
        untold = np.flatnonzero(shown.told == NONE)
        if not len(untold):
            return cls(era, settled, known, alone)
        table = _with_moves(rows[untold], epochs, piece)
        count = len(untold)
        columns = (np.concatenate([ints(rows, name)[untold], ints(table, name)]) for name in LIFE)
        life = numbered(*columns)
        mine, theirs = life[:count], life[count:]
        seen, since = ints(table, "seen"), ints(table, "since", ALWAYS)
        is_rise, is_told = table["is_rise"].to_numpy(), table["is_told"].to_numpy()
        changes = is_rise | (table["leader_epoch"].fill_null(0) > 0).to_numpy()
        invoked, time = shown.invoked[untold], shown.time[untold]
        era[untold] = -1 - Moments(theirs[is_rise], seen[is_rise]).before(mine, invoked + 1)
        begun = Moments(theirs[changes], since[changes]).before(mine, time + SETTLING_NS + 1)
        over = Moments(theirs[changes], seen[changes]).before(mine, invoked - SETTLING_NS)
        settled[untold] = begun == over
        known[untold] = np.isin(mine, theirs[is_told])
        alone[untold] = np.isin(mine, theirs[is_rise])
        return cls(era, settled, known, alone)


def _with_moves(rows: pl.DataFrame, epochs: Epochs, piece: Piece) -> pl.DataFrame:
    """Leader epochs, and where there are none what Metadata says of leaders."""
    told = epochs.table.with_columns(is_told=pl.lit(value=True))
    without = rows.select(LIFE).unique().join(told, on=LIFE, how="anti")
    if without.is_empty():
        return told
    moved = moves(piece.probes, piece.exchanges).join(without, on=LIFE, how="semi")
    changes = moved.with_columns(is_rise=pl.lit(value=True), is_told=pl.lit(value=False))
    return pl.concat([told, changes], how="diagonal")


class Falls:
    """Who showed too little, and who had shown more."""

    def __init__(self, rows: pl.DataFrame, piece: Piece, marks: Collection[str], run: RunContext) -> None:
        self._rows, self._epochs, self._shown = rows, Epochs(piece.epochs), Shown.of(rows)
        self._piece, self._run = piece, run
        shown = self._shown
        self._leaders = Leaders.of(rows, shown, self._epochs, piece)
        times_and_ties = (shown.invoked, shown.time, shown.node, shown.event)
        before = Before(shown.lane, *times_and_ties)
        self._anybody = {mark: before.who(shown.marks[mark]) for mark in marks}
        whose = np.where(self._leaders.alone, shown.node, NONE)
        before = Before(numbered(shown.lane, self._leaders.era, whose), *times_and_ties)
        settled = self._leaders.settled
        self._of_era = {mark: before.who(np.where(settled, shown.marks[mark], NONE)) for mark in marks}
        self._of_node = numbered(shown.api, *(ints(rows, name) for name in (*LIFE, "node")))
        self._answer = _dense(ints(rows, "answer"))[0]

    def findings(self, anomaly: str, run: RunContext) -> Iterator[Findings]:
        """Those that contradict others, and those that contradict themselves."""
        shown, raised = self._shown, SIDES[anomaly][0]
        before = self._anybody[raised]
        highest = np.where(before >= 0, shown.marks[raised][before], NONE)
        low = np.flatnonzero(shown.fell(anomaly, highest))
        if len(low):
            yield self._found(anomaly, low, *self._higher(anomaly, low), run)
        if anomaly == ABOVE and len(low := np.flatnonzero(shown.above_itself)):
            yield self._found(anomaly, low, low, np.full(len(low), ONE_ANSWER), run)

    def _higher(self, anomaly: str, low: Ints) -> tuple[Ints, Ints]:
        """For answers that show too little the one that had shown most, if possible of the same era, and the change."""
        leaders, told, mark = self._leaders, self._shown.told, SIDES[anomaly][0]
        raised, asked = (self._shown.marks[mark] for mark in SIDES[anomaly])
        anybody, of_era = self._anybody[mark][low], self._of_era[mark][low]
        in_era = leaders.settled[low] & (of_era >= 0) & (raised[of_era] > asked[low])
        higher = np.where(in_era, of_era, anybody)
        older = (told[low] != NONE) & (told[anybody] > told[low])
        sorts = [in_era & ~leaders.known[low], in_era & self._restarted(low, higher), in_era, older]
        return higher, np.select(sorts, [UNKNOWN, RESTARTED, ONE_EPOCH, OLDER], ROSE)

    def _restarted(self, low: Ints, higher: Ints) -> Bools:
        """Whether a follower may have answered, and restarted since somebody was shown more."""
        shown, restarted = self._shown, np.zeros(len(low), np.bool_)
        anybody = np.flatnonzero(~self._rows["led"].to_numpy()[low])
        between = in_faults(shown.time[low[anybody]], self._run) > in_faults(shown.invoked[higher[anybody]], self._run)
        some = anybody[between]
        if len(some):
            rows = self._rows[low[some]]
            asked = rows.with_columns(epoch=pl.coalesce("told", self._epoch(rows)))
            restarted[some] = ~leads(asked, self._piece)
        return restarted

    def _found(self, anomaly: str, low: Ints, higher: Ints, change: Ints, run: RunContext) -> Findings:
        """The widest fall of each partition, node and set of tags, and the number of answers that show one."""
        shown, (raised, asked) = self._shown, SIDES[anomaly]
        same_node = (shown.node[low] == shown.node[higher]) & (shown.node[low] != NONE)
        fall = shown.marks[raised][higher] - shown.marks[asked][low]
        groups = grouped(self._of_node[low], 2 * change + same_node)
        number = groups.number()
        worst = last_of(groups, number, fall, shown.time[low], shown.event[low])
        frame = self._pairs(anomaly, low[worst], higher[worst]).with_columns(
            answers=pl.Series(distinct(number, self._answer[low])),
            first=pl.Series(groups.min(shown.time[low])),
            change=pl.Series(CHANGES).gather(change[worst]),
        )
        return _regressions(anomaly, frame, run)

    def _pairs(self, anomaly: str, low: Ints, higher: Ints) -> pl.DataFrame:
        """Of answers that show too little and those that had shown more what is evidence."""
        raised, asked = SIDES[anomaly]
        # what contradicts itself says nothing of epochs but what it tells
        one = pl.Series(low == higher)
        mine, theirs = (
            each.with_columns(epoch=pl.when(one).then("told").otherwise(pl.coalesce("told", self._epoch(each))))
            for each in (self._rows[low], self._rows[higher])
        )
        return mine.select(
            *LIFE, "node", "event", "epoch", at_ns=pl.col("time"), shown=pl.col(asked),
        ).with_columns(
            theirs.select(
                before_node="node", before_event="event", before_ns="time", before_epoch="epoch", shown_before=raised
            )
        )  # fmt: skip

    def _epoch(self, rows: pl.DataFrame) -> pl.Series:
        return self._epochs.highest(rows, pl.col("invoked"))


def leads(rows: pl.DataFrame, piece: Piece) -> Bools:
    """Of each node whether Metadata ever named it as the leader of an epoch of a partition."""
    keys = (*LIFE, "node", "epoch")
    named = (pl.col("api") == METADATA) & (pl.col("error") == 0) & (pl.col("leader_epoch") >= 0)
    columns = {name: pl.col(name).cast(pl.Int64) for name in LIFE} | {
        "node": pl.col("leader").cast(pl.Int64),
        "epoch": pl.col("leader_epoch").cast(pl.Int64),
    }
    claims = [piece.probes.filter(named).select(**columns),
              piece.exchanges.filter(named & (pl.col("type") == Type.OK)).select(**columns)]  # fmt: skip
    known = pl.concat(claims).unique().with_columns(leads=pl.lit(value=True))
    asked = rows.select(pl.col(name).cast(pl.Int64) for name in keys)
    told = asked.join(known, on=list(keys), how="left", maintain_order="left")["leads"]
    return told.fill_null(value=False).to_numpy()


def _regressions(anomaly: str, frame: pl.DataFrame, run: RunContext) -> Findings:
    whose = pl.when(pl.col("before_node") == pl.col("node")).then(pl.lit("same node")).otherwise(pl.lit("across nodes"))
    told = frame.with_columns(
        whose=pl.when(pl.col("change") != CHANGES[ONE_ANSWER]).then(whose),
        gone=_gone(),
        fall=pl.col("shown_before") - pl.col("shown"),
    )
    return found(
        anomaly, told, run, offset="shown", processes=(), nodes=("before_node", "node"), time="first",
        events=("before_event", "event"), tags=("change", "whose", "gone"), severity="fall", facts=FACTS,
    )  # fmt: skip


def _gone() -> pl.Expr:
    return pl.when(pl.col("era") == UNSURE).then(pl.lit("deleted topic"))


def grouped(*columns: Ints) -> Groups:
    """Rows that are the same in all columns."""
    number = numbered(*columns)
    return Groups(number, np.argsort(number))


def distinct(number: Ints, values: Ints) -> Ints:
    """How many different values each group has; both are numbers from 0 on."""
    width = int(values.max()) + 1
    return np.bincount(_different(number * width + values) // width)


def last_of(groups: Groups, number: Ints, *columns: Ints) -> Ints:
    """For each group its last row in the order of these columns."""
    chosen = np.ones(len(number), np.bool_)
    for column in columns:
        chosen &= column == groups.max(column, chosen)[number]
    rows = np.flatnonzero(chosen)
    return rows[np.unique(number[rows], return_index=True)[1]]


class StandingTransactions(OfPartitions):
    """Last stable offsets that stand still."""

    name = "standing transactions"
    anomalies: ClassVar[Mapping[str, str]] = {
        STUCK: "a last stable offset that stands still for longer than a transaction may take"
    }

    def needs(self, run: RunContext) -> bool:
        """Anything that a node answered, and transactions."""
        asked = run.asks(Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN, Api.TXN_OFFSET_COMMIT)
        return (asked or run.does(F.TXN)) and (run.has(Kind.PROBE) or run.has(Kind.EXCHANGE))

    def survey(self, piece: Piece, run: RunContext) -> Seen:
        """Everything about the partitions in it."""
        blocked = piece.answers.filter((pl.col("api") == FETCH) & (pl.col("stable") < pl.col("shown")))
        if blocked.is_empty() or not run.wants(STUCK):
            return Seen()
        groups = grouped(*(ints(blocked, name) for name in (*LIFE, "node", "told", "stable")))
        first, last = groups.min(ints(blocked, "time")), groups.max(ints(blocked, "invoked"))
        outside = last - first - (in_faults(last, run) - in_faults(first, run))
        stands = (last > first) & (outside >= run.limit_ns("lso_stuck_s"))
        rows = blocked.filter(stands[groups.number()]) if stands.any() else blocked.clear()
        return Seen(_stuck(rows, Epochs(piece.epochs), run), {STUCK: len(groups)})


def in_faults(moment: Ints, run: RunContext) -> Ints:
    """How much of the time before each moment faults lasted, until the cluster was whole again."""
    windows = sorted(window for fault in run.line.faults if (window := run.line.until_whole_ns(fault)))
    if not windows:
        return np.zeros(len(moment), np.int64)
    starts, ends = (np.array(bounds, np.int64) for bounds in zip(*windows, strict=True))
    ended = np.maximum.accumulate(ends)
    begins = np.append(True, starts[1:] > ended[:-1])  # a window that touches none before it
    start, end = starts[begins], np.maximum.reduceat(ends, np.flatnonzero(begins))
    over = np.append(0, np.cumsum(end - start))
    begun = np.searchsorted(start, moment, side="right")
    last = np.maximum(begun - 1, 0)
    return np.where(begun > 0, over[last] + np.minimum(moment, end[last]) - start[last], 0)


def _stuck(rows: pl.DataFrame, epochs: Epochs, run: RunContext) -> Findings:
    """A finding per last stable offset, node and epoch."""
    if rows.is_empty():
        return Findings()
    groups = grouped(*(ints(rows, name) for name in (*LIFE, "node", "told", "stable")))
    number = groups.number()
    time, invoked, event = (ints(rows, name) for name in ("time", "invoked", "event"))
    frame = rows[last_of(groups, number, -time, -event)].select(
        *LIFE, "node", "told", "stable", first="time", first_event="event"
    ).with_columns(
        last=pl.Series(groups.max(invoked)), until=pl.Series(groups.max(time)),
        highest=pl.Series(groups.max(ints(rows, "shown"))),
        last_event=pl.Series(event[last_of(groups, number, invoked, event)]),
    )  # fmt: skip
    deposed = epochs.possible(frame, pl.col("last") + SETTLING_NS) > frame["told"]
    told = frame.with_columns(
        older=pl.when(deposed).then(pl.lit(CHANGES[OLDER])), gone=_gone(), lasted_ns=pl.col("last") - pl.col("first")
    )
    return found(
        STUCK, told, run, offset="stable", processes=(), nodes=("node",), time="first", until="until",
        events=("first_event", "last_event"), tags=("older", "gone"), severity="lasted_ns",
        facts=("node", "stable", "highest", "lasted_ns"),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (Watermarks(), StandingTransactions())
