"""Linearizability of each partition: exact, without a search, because offsets give the order.

A partition is a log with append → offset, read(offset) → value and end() → offset. Operations are

append   the sends that ended `ok` with one offset >= 0, as one operation: invoked when the last of them was, complete
         when the first of them was acknowledged or, if that is earlier, when a record of that offset was first handed
         to anybody (the end of that poll). What was sent in a transaction completes with the transaction, later than
         it was appended: that asks for less, never for more.
         An `info` send is an append, too, invoked as it was, at each offset of its partition at which a good record
         with its value was read; and never complete but by a read.
read     of an offset: it ends after the append. What nobody knows the send of is an append all the same, invoked at any
         time.
end      an answer to ListOffsets(latest) without an error (`checkers.core.node_answers`), of a probe or one that
         reached its client. Those that show the same end are one operation: invoked when the last of them was, complete
         when the first was.

The order of operations is that of offsets, end() → e right before the append at e. Each takes effect at a moment, not
before it was invoked and not after it was complete; and moments do not fall from one operation to the next one in the
order. (So two operations that touch at one instant do not contradict each other.) They exist if and only if no
operation x was complete before one of lower order was invoked, or an append before itself was: a maximum over all that
is below says it.

realtime-order     x was acknowledged before a send was invoked that was acknowledged with a lower offset.
not-linearizable   x contradicts an operation of lower order, or itself:
    append         an append x that was complete before an append at the same or a lower offset was invoked; where it is
                   no realtime-order
    end, behind    an append x that was complete before an end() → e was invoked, with e <= its offset; where neither of
                   the above contradicts it
    end, ahead     an end() → e that was complete before an append was invoked at an offset < e
    end, fell      an end() → e that was complete before an end() < e was invoked; where it is not ahead
    older epoch    beside `behind`, `fell`: all those end() of lower order were of deposed leaders
    (`checkers.shared.by_offset`)

Each x is one finding of each line at most, together with the operation of lower order that was invoked last. Eras that
are UNSURE (`checkers.core.deletions`) are left out.

What the rows of the log say by themselves is asked here as well (`checkers.linearizability.offsets`), and what nodes
showed of them (`checkers.linearizability.visibility`): all of it is one sort of what happened at offsets.

The summary gives each partition a verdict: `linearizable`; `monotonic only`, if appends and reads have their moments
and some end() has none; `violated`, also if one offset has two values. Partitions without acknowledgements have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import Bools, Ints
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.node_answers import EXCHANGES, PROBES
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.linearizability import offsets, visibility
from checkers.linearizability.offset_lanes import (
    LANE,
    PLACE,
    GatheredLanes,
    chosen_offsets,
    lanes_of,
    last_answers,
    late_sends,
    lower_moments,
    no_tables,
    proven_here,
    suspicious_lanes,
    with_lower_stretches,
)
from checkers.shared.by_offset import (
    ENDED,
    LATE,
    OLD_ENDED,
    SENT,
    Proofs,
)

LISTED = 50  # partitions that the summary names
VERDICTS = ("violated", "monotonic only", "linearizable", "linearizable; end() was never called")
REALTIME, NOT_LINEARIZABLE = "realtime-order", "not-linearizable"


class Linearizability(Family):
    """Everything that is asked of the order of offsets."""

    name = "linearizability"
    anomalies: ClassVar[Mapping[str, str]] = {
        **offsets.ABOUT,
        REALTIME: "a send that began after another was acknowledged got a lower offset",
        NOT_LINEARIZABLE: "operations that cannot have happened in the order of their offsets",
        **visibility.ABOUT,
    }
    needs_acknowledgements = frozenset({"shared-offset", REALTIME, NOT_LINEARIZABLE, *visibility.ABOUT})
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "sends": ("event", "time", "invoked", "type", "topic", "partition", "offset", "value"),
        "records": ("event", "time", "process", "topic", "partition", "offset", "value", "status"),
        "probes": PROBES,
        "exchanges": EXCHANGES,
        "ops": ("event", "time", "invoked", "f", "type", "topic", "partition", "end"),
    }

    def survey(self, piece: Piece, run: RunContext) -> dict[str, pl.DataFrame]:
        """A row for each lane: maxima, and whether anything in it contradicts something else in it."""
        offset_times = piece.offset_times
        return {
            "lanes": lanes_of(offset_times, run),
            "standstills": visibility.standstills(piece),
            **last_answers(piece, run),
        }

    def gather(self, surveys: Sequence[dict[str, pl.DataFrame]], run: RunContext, others: ByFamily) -> GatheredLanes:
        """With what the stretches below a lane have, and whether that contradicts what it has."""
        parts = {name: pl.concat([each[name] for each in surveys]) for name in surveys[0]} if surveys else no_tables()
        return GatheredLanes(
            lanes=with_lower_stretches(parts["lanes"].sort(LANE), parts["standstills"]),
            standstills=parts["standstills"],
            tops=parts["tops"],
            sent=parts["sent"],
            finals=parts["finals"],
        )

    def needs_judging(self, gathered: GatheredLanes, run: RunContext, others: ByFamily) -> bool:
        """If anything contradicts anything."""
        return bool(suspicious_lanes(gathered, others).any()) or ("fates" in others and len(others["fates"].proven) > 0)

    def judge(self, piece: Piece, gathered: GatheredLanes, run: RunContext, others: ByFamily) -> dict[str, Any]:
        """What is wrong with the lanes in which something may be."""
        findings, inconsistent = offsets.judge(piece, proven_here(piece, others), run)
        chosen = chosen_offsets(piece, gathered, others)
        if not chosen.any():
            return {
                "findings": findings, "violated": _violated([(inconsistent, 0)]), "visibility": visibility.nothing()
            }  # fmt: skip
        late = late_sends(piece, others)
        proofs = Proofs(piece, others["epochs"], late, lower_moments(piece, gathered, others), chosen)
        wrong = _contradictions(proofs)
        violated = np.concatenate([wrong["realtime"][0], wrong["append"][0]])
        ends = np.concatenate([wrong["behind"][0], wrong["ended_wrongly"][0]])
        return {
            "findings": merge_findings([findings, *(_told(proofs, sort, run) for sort in wrong.items())], run.limit),
            "violated": _violated([(inconsistent, 0), (proofs.place(violated), 0), (proofs.place(ends), 1)]),
            "visibility": visibility.judge(proofs, others["epochs"], gathered.standstills, run),
        }

    def conclude(
        self, gathered: GatheredLanes, judged: Sequence[dict[str, Any]], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """All pieces together."""
        parts = [each["findings"] for each in judged]
        parts.append(visibility.conclude([each["visibility"] for each in judged], run))
        return FamilyResult(
            merge_findings(parts, run.limit),
            _looked_at(gathered.lanes),
            _summary(
                gathered.lanes, pl.concat([each["violated"] for each in judged]) if judged else _violated([]), run
            ),
        )


Wrong = tuple[Ints, Ints, Ints, list[Bools]]  # rows, ranks of the two operations, and whether further tags hold


def _contradictions(proofs: Proofs) -> dict[str, Wrong]:
    """Rows with two operations that contradict each other: the one that was over first, and the one below it."""
    late, early = proofs.moments.late, proofs.moments.early
    appended = np.maximum(proofs.sent, proofs.late)
    sent_below = proofs.below(proofs.sent, SENT)
    appends_below, appends_upto = proofs.below(appended, SENT, LATE), proofs.upto(appended, SENT, LATE)
    ended_below, ended_upto = proofs.below(proofs.ended, ENDED), proofs.upto(proofs.ended, ENDED)
    old_below, old_upto = proofs.below(proofs.old_ended, OLD_ENDED), proofs.upto(proofs.old_ended, OLD_ENDED)
    acked, done, end = early(proofs.acked), early(proofs.done), early(proofs.end_shown)
    realtime = proofs.sure & (acked < late(sent_below))
    before_append = done < late(appends_upto)
    append = proofs.sure & before_append & ~realtime
    by_end, by_old = done < late(ended_upto), done < late(old_upto)
    behind = proofs.sure & (by_end | by_old) & ~before_append
    ahead, fell, fell_old = end < late(appends_below), end < late(ended_below), end < late(old_below)
    wrongly = proofs.sure & (ahead | fell | fell_old)
    of_end = np.where(by_end, ended_upto, old_upto)
    of_lower = np.where(ahead, appends_below, np.where(fell, ended_below, old_below))

    def rows(mask: Bools, x: Ints, y: Ints, *tags: Bools) -> Wrong:
        chosen = np.flatnonzero(mask)
        return chosen, x[chosen], y[chosen], [tag[chosen] for tag in tags]

    return {
        "realtime": rows(realtime, proofs.acked, sent_below),
        "append": rows(append, proofs.done, appends_upto),
        "behind": rows(behind, proofs.done, of_end, ~by_end),
        "ended_wrongly": rows(wrongly, proofs.end_shown, of_lower, ahead, ~ahead & ~fell),
    }


def _told(proofs: Proofs, sort: tuple[str, Wrong], run: RunContext) -> Findings:
    """Findings of one sort of contradiction."""
    name, (rows, x, y, more) = sort
    if not len(rows):
        return Findings()
    frame = pl.concat([proofs.place(rows), proofs.moments.of(x, "x"), proofs.moments.of(y, "y")], how="horizontal")
    frame = frame.with_columns(
        until=pl.max_horizontal("y_at", "y_other"), by_ns=pl.col("y_at") - pl.col("x_at"), **_tags(name, more)
    )
    return make_findings(
        REALTIME if name == "realtime" else NOT_LINEARIZABLE,
        frame,
        run,
        offset="offset",
        values=("x_value", "y_value"),
        nodes=("x_node", "y_node"),
        time="x_at",
        until="until",
        events=("x_event", "y_event"),
        tags=tuple(_TAGS[name]),
        severity="by_ns",
        facts=("x_value", "x_node", "y_value", "y_node", "by_ns"),
    )


_TAGS = {
    "realtime": (),
    "append": ("append",),
    "behind": ("end", "behind", "older"),
    "ended_wrongly": ("end", "how", "older"),
}


def _tags(name: str, more: list[Bools]) -> dict[str, Any]:
    def older(mask: Bools) -> pl.Expr:
        return pl.when(pl.Series(mask)).then(pl.lit("older epoch"))

    if name == "append":
        return {"append": pl.lit("append")}
    if name == "behind":
        return {"end": pl.lit("end"), "behind": pl.lit("behind"), "older": older(more[0])}
    if name == "ended_wrongly":
        how = pl.when(pl.Series(more[0])).then(pl.lit("ahead")).otherwise(pl.lit("fell"))
        return {"end": pl.lit("end"), "how": how, "older": older(more[1])}
    return {}


def _violated(wrong: Sequence[tuple[pl.DataFrame, int]]) -> pl.DataFrame:
    """The lowest offset of each partition that is wrong: by itself (0), or but for what end() said (1)."""
    schema = pl.Schema({"topic": pl.Int32, "partition": pl.Int32, "rank": pl.Int8, "offset": pl.Int64})
    found = [places.with_columns(rank=pl.lit(rank)).select(list(schema)).cast(schema) for places, rank in wrong]
    return (
        pl.concat([pl.DataFrame(schema=schema), *found])
        .group_by("topic", "partition", "rank")
        .agg(pl.col("offset").min())
    )


def _looked_at(lanes: pl.DataFrame) -> dict[str, int]:
    total = {
        name: int(lanes[name].sum()) for name in ("values", "acks", "sure_acks", "rows", "ends", "shown", "acks_led")
    }
    return {
        "inconsistent-offset": total["values"],
        "shared-offset": total["acks"],
        REALTIME: total["sure_acks"],
        NOT_LINEARIZABLE: max(total["rows"], total["ends"]),
        "watermark-behind-ack": total["acks_led"],
        "watermark-frozen": total["acks_led"],
        "watermark-ahead": total["shown"],
    }


def _summary(lanes: pl.DataFrame, violated: pl.DataFrame, run: RunContext) -> dict[str, Any]:
    """A verdict for each partition, those that are violated first."""
    places = lanes.group_by(PLACE).agg(pl.col("acks").sum(), pl.col("ends").sum()).filter(pl.col("acks") > 0)
    worst = violated.sort("rank", "offset").group_by(PLACE).first()
    told = places.join(worst, on=PLACE, how="left").with_columns(
        rank=pl.coalesce("rank", pl.when(pl.col("ends") > 0).then(2).otherwise(3))
    )
    counts = dict(told.group_by("rank").len().iter_rows())
    listed = told.sort("rank", *PLACE).head(LISTED).to_dicts()
    return {
        **{name: counts[number] for number, name in enumerate(VERDICTS) if counts.get(number)},
        "partitions": [
            {
                "partition": f"{run.topics.get(each['topic'], each['topic'])}-{each['partition']}",
                "verdict": VERDICTS[each["rank"]],
                **({} if each["offset"] is None else {"offset": each["offset"]}),
            }
            for each in listed
        ],
    }


FAMILIES: tuple[Family, ...] = (Linearizability(),)
