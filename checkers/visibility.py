"""Visibility: what was acknowledged against the marks that nodes show, on the rows of `checkers.points`.

A *mark* is the high watermark in an answer to Fetch or the end in one to ListOffsets(latest); it is *led* if only a
leader can have shown it (`checkers.answers`). Acknowledgements are sends that ended `ok` with an offset.

watermark-behind-ack   an offset o was acknowledged, and a led answer that was invoked after that shows a mark <= o.
watermark-frozen       led answers show one mark for FROZEN_NS or longer: from the end of the first that shows it to
                       the invocation of the last one (a *standstill*). An offset proves that it was frozen which was
                       acknowledged after the standstill began, FROZEN_NS or more before its end, and of which it is
                       the highest standstill at or below.
watermark-ahead        an answer shows a mark m, and what had been below it was not there: a send that was invoked after
                       the answer had ended took an offset < m (tagged `later append`; an `info` send that was read
                       counts, too), or a final read that was invoked after it found the end of the partition, and
                       ended `ok`, at an offset < m (tagged `missing`, if no later append proves it).

Two events on one instant are in no order. Eras that are UNSURE (`checkers.deletions`) are left out.

A finding of watermark-behind-ack is tagged by the answer that was invoked last, of the first of these sorts that has
one which contradicts the acknowledgement:

one epoch        neither of the last two, and the acknowledgement came after the answer's leader epoch had been known
                 for SETTLING_NS, or that epoch was never new: Metadata did not show it, or it is the partition's lowest
epoch unknown    nobody told the answer's leader epoch
epoch rose       neither of the two below, but the acknowledgement had come before that epoch had been known for so
                 long: the leader may have changed between them
epoch rose       the answer of a new leader
older epoch      the answer of a deposed leader (both: `checkers.points`)

watermark-frozen is judged by the last answer of its standstill that was neither of a new nor of a deposed leader, if
the acknowledgement came FROZEN_NS or more before it: tagged `epoch unknown` if nobody told its leader epoch, `epoch
rose` if the first answer is of another one, and else `one epoch`. If only answers of those two sorts prove it, it is
tagged by the very last one, `older epoch` or `new leader`.

Findings of watermark-behind-ack are one for each partition, node and tag, those of watermark-frozen one for each
partition, mark and tag, those of watermark-ahead one for each partition and tag; each with the first moment (of the
acknowledgement or the mark), the widest contradiction in time, and how many offsets prove it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.frame import FINDING, PLACE, History, Rule, together
from checkers.points import FROZEN_NS, points, with_own_epoch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SURE = "era >= 0"

RULES = (
    Rule(
        "watermark-behind-ack",
        "an answer shows less than was acknowledged before it was asked for",
        f"{SURE} and acked < led_upto",
        f"{SURE} and acked is not null and led_upto is not null",
        needs_acknowledgements=True,
    ),
    Rule(
        "watermark-frozen",
        "a watermark stands still while acknowledgements above it go on",
        f"{SURE} and acked > still_upto.led_shown and try_subtract(still_upto.led, acked) >= {FROZEN_NS}",
        f"{SURE} and acked is not null and led_upto is not null",
        needs_acknowledgements=True,
    ),
    Rule(
        "watermark-ahead",
        "a watermark above what was there",
        f"{SURE} and shown < greatest(appends_below, final_below)",
        f"{SURE} and shown is not null",
        needs_acknowledgements=True,
    ),
)

_ONE_EPOCH = "greatest(first_led_upto, own_led_upto)"
_SORTS = {
    _ONE_EPOCH: "one epoch",
    "unknown_led_upto": "epoch unknown",
    "led_upto": "epoch rose",
    "new_led_upto": "epoch rose",
    "old_led_upto": "older epoch",
}
_WHEN = " ".join(f"when acked.at < ({y}).at then struct({y} as y, '{tag}' as tag)" for y, tag in _SORTS.items())
_BEHIND = f"case {_WHEN} end"


def find_visibility(history: History, rules: Sequence[Rule]) -> DataFrame:
    """The findings of these rules."""
    rows = points(history, evidence=True).where(SURE)
    wanted = {rule.anomaly for rule in rules}
    found = [make(history, rows) for anomaly, make in _FIND.items() if anomaly in wanted]
    return together(found)


def _behind(history: History, rows: DataFrame) -> DataFrame:
    acked = with_own_epoch(history, rows)
    proven = acked.selectExpr(*PLACE, "offset", "acked as x", f"inline(array({_BEHIND}))").where("y is not null")
    return _findings(
        history, "watermark-behind-ack", proven.selectExpr("*", "y.node as node"), ["node"],
        "'offset %d was acknowledged at %.3f s, and node %s showed no more than that when asked at %.3f s;"
        " %d offsets prove it', worst.offset, {x}, coalesce(cast(worst.y.node as string), '?'), {y}, proofs",
    )  # fmt: skip


def _frozen(history: History, rows: DataFrame) -> DataFrame:
    lasted = f"try_subtract(still_upto.{{}}.at, acked.at) >= {FROZEN_NS}"
    proven = rows.where(f"acked.at > still_upto.led_shown.at and {lasted.format('led')}").selectExpr(
        *PLACE, "offset", "acked as x", "still_upto.offset as mark", "still_upto.led_shown as shown", "still_upto.led",
        f"if({lasted.format('settled')}, still_upto.settled, null) as settled",
    )  # fmt: skip
    proven = proven.selectExpr(
        *PLACE, "offset", "x", "mark", "coalesce(settled, led) as y",
        "case when settled is null then if(led.old, 'older epoch', 'new leader')"
        " when settled.told is null then 'epoch unknown' when settled.told <> shown.told then 'epoch rose'"
        " else 'one epoch' end as tag",
    )  # fmt: skip
    return _findings(
        history, "watermark-frozen", proven, ["mark"],
        "'%d was shown until %.3f s, although offset %d was acknowledged at %.3f s; %d offsets prove it',"
        " mark, {y}, worst.offset, {x}, proofs",
    )  # fmt: skip


def _ahead(history: History, rows: DataFrame) -> DataFrame:
    proven = rows.where("shown.at < greatest(appends_below.at, final_below.at)").selectExpr(
        *PLACE, "offset", "shown as x", "if(shown.at < appends_below.at, appends_below, final_below) as y",
        "if(shown.at < appends_below.at, 'later append', 'missing') as tag",
    )  # fmt: skip
    return _findings(
        history, "watermark-ahead", proven, [],
        "'node %s showed %d at %.3f s, and what was begun at %.3f s found less; %d marks prove it',"
        " coalesce(cast(worst.x.node as string), '?'), worst.offset, {x}, {y}, proofs",
    )  # fmt: skip


_FIND = {"watermark-behind-ack": _behind, "watermark-frozen": _frozen, "watermark-ahead": _ahead}


def _findings(history: History, anomaly: str, proven: DataFrame, keys: Sequence[str], detail: str) -> DataFrame:
    """A finding per partition, tag and whatever else tells them apart, from rows with the two events x and y."""
    from pyspark.sql import functions as sql

    grouped = proven.groupBy(*PLACE, *keys, "tag").agg(
        sql.count("*").alias("proofs"),
        sql.min("x.at").alias("first"),
        sql.max("y.other").alias("last"),
        sql.expr("max_by(struct(offset, x, y), try_subtract(y.at, x.at))").alias("worst"),
    )

    def seconds(op: str) -> str:
        return f"(cast(worst.{op}.at as double) - {history.sealed.first_time_ns}D) / 1e9"

    columns = {
        "anomaly": f"'{anomaly}'",
        "offset": "mark" if "mark" in keys else "worst.offset",
        "values": "array(worst.x.value, worst.y.value)",
        "processes": "array()",
        "nodes": "array_distinct(array_compact(array(worst.x.node, worst.y.node)))",
        "time": "first",
        "until": "last",
        "events": "array(worst.x.event, worst.y.event)",
        "tags": "array(tag)",
        "severity": "try_subtract(worst.y.at, worst.x.at)",
        "detail": f"format_string({detail.format(x=seconds('x'), y=seconds('y'))})",
    }
    return grouped.selectExpr(
        *(
            f"cast({f'array_compact({columns[name]})' if name == 'values' else columns.get(name, default)} as {type_})"
            f" as `{name}`"
            for name, (type_, default) in FINDING.items()
        )
    )


def find_behind_acks(history: History) -> DataFrame:
    """Answers that show less than was acknowledged before they were asked for."""
    return find_visibility(history, RULES[:1])


def find_frozen(history: History) -> DataFrame:
    """Watermarks that stand still while acknowledgements above them go on."""
    return find_visibility(history, RULES[1:2])


def find_ahead(history: History) -> DataFrame:
    """Watermarks above what was there."""
    return find_visibility(history, RULES[2:])
