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
`checkers.core.deletions`; below always a *life*, to tell it from the eras of leaders) are compared with each other
alone; so are those that may belong to two, and what is found among these is tagged `deleted topic`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import NONE, Bools, ints
from checkers.core.family import Family, FamilyResult, PiecewiseFamily
from checkers.core.findings import Findings, make_findings
from checkers.core.node_answers import (
    EXCHANGES,
    FETCH,
    PROBES,
    SETTLING_NS,
    Epochs,
)
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.watermarks.earlier_windows import LANE, AskedWindow, asked_windows, in_lanes
from checkers.watermarks.fallen_marks import (
    ABOVE,
    CHANGES,
    LIFE,
    OLDER,
    REGRESSIONS,
    SIDES,
    deleted_topic_tag,
    fallen_marks,
    grouped,
    in_faults,
    last_of,
)
from harness.foundation.protocol import Api
from harness.history.schema import F, Kind

STUCK = "lso-stuck"


class Watermarks(PiecewiseFamily):
    """Marks that fall."""

    name = "watermarks"
    anomalies: ClassVar[Mapping[str, str]] = {
        "watermark-regression": "a later answer to Fetch shows a lower high watermark",
        "end-offset-regression": "a later answer to ListOffsets shows a lower end",
        "lso-regression": "a later answer shows a lower last stable offset",
        "log-start-regression": "a later answer shows a lower log start",
        ABOVE: "a last stable offset above the high watermark",
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {"probes": PROBES, "exchanges": EXCHANGES}

    def needs(self, run: RunContext) -> bool:
        """Anything that a node answered."""
        return run.has(Kind.PROBE) or run.has(Kind.EXCHANGE)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """Everything about the partitions in it."""
        wanted = [anomaly for anomaly in SIDES if run.wants(anomaly)]
        looked_at: Counter[str] = Counter()
        lanes = []
        for window in asked_windows(piece, {SIDES[anomaly][0] for anomaly in wanted}):
            looked_at.update({each: int(_looked_at(each, window).sum()) for each in wanted})
            lanes.append(window.answers.filter(_fell(window, wanted)).select(LANE).unique())
        fallen = pl.concat(lanes).unique() if lanes else pl.DataFrame()
        if fallen.is_empty():
            return FamilyResult(looked_at=dict(looked_at))
        rows = in_lanes(piece, fallen).filter(pl.col("led") | pl.col("node").is_not_null())
        return FamilyResult(fallen_marks(rows, piece, wanted, run), dict(looked_at))


def _fell(window: AskedWindow, wanted: Sequence[str]) -> Bools:
    """Which answers show too little."""
    shown, fell = window.shown, np.zeros(len(window.asked), np.bool_)
    for anomaly in wanted:
        fell |= shown.fell(anomaly, window.highest[SIDES[anomaly][0]])
        if anomaly == ABOVE:
            fell |= shown.above_itself
    return fell & window.asked


def _looked_at(anomaly: str, window: AskedWindow) -> Bools:
    """Which answers could be held against others."""
    raised, asked = SIDES[anomaly]
    shown = window.shown
    before: Bools = window.asked & (window.highest[raised] != NONE)
    if anomaly in REGRESSIONS:
        before &= shown.api == REGRESSIONS[anomaly]
        return before
    there: Bools = window.asked & (shown.marks[asked] != NONE)
    return there & (before | (shown.marks[raised] != NONE)) if anomaly == ABOVE else there & before


class StandingTransactions(PiecewiseFamily):
    """Last stable offsets that stand still."""

    name = "standing transactions"
    anomalies: ClassVar[Mapping[str, str]] = {
        STUCK: "a last stable offset that stands still for longer than a transaction may take"
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {"probes": PROBES, "exchanges": EXCHANGES}

    def needs(self, run: RunContext) -> bool:
        """Anything that a node answered, and transactions."""
        asked = run.asks(Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN, Api.TXN_OFFSET_COMMIT)
        return (asked or run.does(F.TXN)) and (run.has(Kind.PROBE) or run.has(Kind.EXCHANGE))

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """Everything about the partitions in it."""
        if not run.wants(STUCK):
            return FamilyResult()
        parts = [standing for answers in piece.answer_parts() if len(standing := _standing(answers))]
        if not parts:
            return FamilyResult()
        whole = _first_and_last(pl.concat(parts)) if len(parts) > 1 else parts[0]
        first, last = ints(whole, "first"), ints(whole, "last")
        outside = last - first - (in_faults(last, run) - in_faults(first, run))
        stands = (last > first) & (outside >= run.limit_ns("lso_stuck_s"))
        return FamilyResult(_stuck(whole.filter(stands), Epochs(piece.epochs), run), {STUCK: len(whole)})


def _standing(answers: pl.DataFrame) -> pl.DataFrame:
    """Last stable offsets below watermarks, by node and epoch, each from its first answer to its last one."""
    blocked = answers.filter((pl.col("api") == FETCH) & (pl.col("stable") < pl.col("shown")))
    return _first_and_last(
        blocked.select(
            *LIFE,
            "node",
            "told",
            "stable",
            first="time",
            first_event="event",
            last="invoked",
            last_event="event",
            until="time",
            highest="shown",
        )
    )


def _first_and_last(rows: pl.DataFrame) -> pl.DataFrame:
    """One row for each last stable offset, node and epoch; of answers, or of some that were put together."""
    if rows.is_empty():
        return rows
    groups = grouped(*(ints(rows, name) for name in (*LIFE, "node", "told", "stable")))
    number = groups.number()
    first, first_event, last, last_event = (ints(rows, name) for name in ("first", "first_event", "last", "last_event"))
    lasts = last_of(groups, number, last, last_event)
    return rows[last_of(groups, number, -first, -first_event)].with_columns(
        last=pl.Series(last[lasts]), last_event=pl.Series(last_event[lasts]),
        until=pl.Series(groups.max(ints(rows, "until"))), highest=pl.Series(groups.max(ints(rows, "highest"))),
    )  # fmt: skip


def _stuck(frame: pl.DataFrame, epochs: Epochs, run: RunContext) -> Findings:
    """A finding per last stable offset, node and epoch."""
    if frame.is_empty():
        return Findings()
    deposed = epochs.possible(frame, pl.col("last") + SETTLING_NS) > frame["told"]
    told = frame.with_columns(
        older=pl.when(deposed).then(pl.lit(CHANGES[OLDER])),
        gone=deleted_topic_tag(),
        lasted_ns=pl.col("last") - pl.col("first"),
    )
    return make_findings(
        STUCK, told, run, offset="stable", processes=(), nodes=("node",), time="first", until="until",
        events=("first_event", "last_event"), tags=("older", "gone"), severity="lasted_ns",
        facts=("node", "stable", "highest", "lasted_ns"),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (Watermarks(), StandingTransactions())
