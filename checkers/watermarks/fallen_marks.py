"""Marks that nodes showed too low: pairs of answers that contradict each other, and under which leaders they were."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from checkers.core.arrays import NONE, Bools, GroupBy, Ints, ints
from checkers.core.deletions import UNSURE
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.moments import MomentIndex, different_values
from checkers.core.node_answers import (
    ALWAYS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OF_EPOCHS,
    SETTLING_NS,
    Epochs,
    moves,
)
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.watermarks.earlier_answers import EarlierAnswers, dense_ranks, numbered
from harness.history.schema import Type

MARKS = ("shown", "stable", "start")
REGRESSIONS = {"watermark-regression": FETCH, "end-offset-regression": LIST_OFFSETS}
ABOVE = "lso-above-hw"
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
OF_MOVES = (*OF_EPOCHS, "event")
LIFE = ("topic", "partition", "era")


@dataclass(frozen=True)
class ShownMarks:
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
    def of(cls, rows: pl.DataFrame) -> ShownMarks:
        """Of all of these."""
        api, node, told, invoked, time, event = (
            ints(rows, name) for name in ("api", "node", "told", "invoked", "time", "event")
        )
        if "lane" in rows.columns:
            lane = ints(rows, "lane")
        else:
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


def fallen_marks(rows: pl.DataFrame, piece: Piece, wanted: Sequence[str], run: RunContext) -> Findings:
    """Of lanes in which something fell: a finding per partition, node and set of tags."""
    falls = Falls(rows, piece, {SIDES[anomaly][0] for anomaly in wanted}, run)
    return merge_findings((part for anomaly in wanted for part in falls.findings(anomaly, run)), run.limit)


@dataclass(frozen=True)
class AnswerLeaders:
    """Under which leader answers were given, as far as anybody told."""

    era: Ints
    settled: Bools  # whether no rise is near
    known: Bools  # whether any epoch was told
    alone: Bools  # whether an era is of one node

    @classmethod
    def of(cls, rows: pl.DataFrame, shown: ShownMarks, epochs: Epochs, piece: Piece) -> AnswerLeaders:
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
        era[untold] = -1 - MomentIndex(theirs[is_rise], seen[is_rise]).count(mine, invoked + 1)
        begun = MomentIndex(theirs[changes], since[changes]).count(mine, time + SETTLING_NS + 1)
        over = MomentIndex(theirs[changes], seen[changes]).count(mine, invoked - SETTLING_NS)
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
    moved = moves(lambda: piece.node_parts(OF_MOVES, OF_MOVES)).join(without, on=LIFE, how="semi")
    changes = moved.with_columns(is_rise=pl.lit(value=True), is_told=pl.lit(value=False))
    return pl.concat([told, changes], how="diagonal")


class Falls:
    """Who showed too little, and who had shown more."""

    def __init__(self, rows: pl.DataFrame, piece: Piece, marks: Collection[str], run: RunContext) -> None:
        self._rows, self._epochs, self._shown = rows, Epochs(piece.epochs), ShownMarks.of(rows)
        self._piece, self._run = piece, run
        shown = self._shown
        self._leaders = AnswerLeaders.of(rows, shown, self._epochs, piece)
        times_and_ties = (shown.invoked, shown.time, shown.node, shown.event)
        before = EarlierAnswers(shown.lane, *times_and_ties)
        self._anybody = {mark: before.who(shown.marks[mark]) for mark in marks}
        whose = np.where(self._leaders.alone, shown.node, NONE)
        before = EarlierAnswers(numbered(shown.lane, self._leaders.era, whose), *times_and_ties)
        settled = self._leaders.settled
        self._of_era = {mark: before.who(np.where(settled, shown.marks[mark], NONE)) for mark in marks}
        self._of_node = numbered(shown.api, *(ints(rows, name) for name in (*LIFE, "node")))
        self._answer = dense_ranks(ints(rows, "answer"))[0]

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
    claims = [
        rows.select(**columns).unique()
        for probes, exchanges in piece.node_parts(OF_EPOCHS, OF_EPOCHS)
        for rows in (probes.filter(named), exchanges.filter(named & (pl.col("type") == Type.OK)))
    ]
    known = pl.concat(claims).unique().with_columns(leads=pl.lit(value=True))
    asked = rows.select(pl.col(name).cast(pl.Int64) for name in keys)
    told = asked.join(known, on=list(keys), how="left", maintain_order="left")["leads"]
    return told.fill_null(value=False).to_numpy()


def _regressions(anomaly: str, frame: pl.DataFrame, run: RunContext) -> Findings:
    whose = pl.when(pl.col("before_node") == pl.col("node")).then(pl.lit("same node")).otherwise(pl.lit("across nodes"))
    told = frame.with_columns(
        whose=pl.when(pl.col("change") != CHANGES[ONE_ANSWER]).then(whose),
        gone=deleted_topic_tag(),
        fall=pl.col("shown_before") - pl.col("shown"),
    )
    return make_findings(
        anomaly, told, run, offset="shown", processes=(), nodes=("before_node", "node"), time="first",
        events=("before_event", "event"), tags=("change", "whose", "gone"), severity="fall", facts=FACTS,
    )  # fmt: skip


def deleted_topic_tag() -> pl.Expr:
    """Tags what may belong to two lives of a topic."""
    return pl.when(pl.col("era") == UNSURE).then(pl.lit("deleted topic"))


def grouped(*columns: Ints) -> GroupBy:
    """Rows that are the same in all columns."""
    number = numbered(*columns)
    return GroupBy(number, np.argsort(number))


def distinct(number: Ints, values: Ints) -> Ints:
    """How many different values each group has; both are numbers from 0 on."""
    width = int(values.max()) + 1
    return np.bincount(different_values(number * width + values) // width)


def last_of(groups: GroupBy, number: Ints, *columns: Ints) -> Ints:
    """For each group its last row in the order of these columns."""
    chosen = np.ones(len(number), np.bool_)
    for column in columns:
        chosen &= column == groups.max(column, chosen)[number]
    rows = np.flatnonzero(chosen)
    return rows[np.unique(number[rows], return_index=True)[1]]


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
