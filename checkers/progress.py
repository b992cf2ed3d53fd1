"""Progress: whether sends get through while something is broken and afterwards, and how long they take.

Limits are seconds, of the scenario (`[limits]`, harness/limits.py). Topics that the workload deleted are left out, and
sends without a topic or a partition. A *second* is `time` div 10^9.

Seconds of a partition with an `ok` send cut its time into *stretches*, each from such a second (the first one: from the
beginning) to the next. A stretch lasts from the later of two moments: the last `ok` in the second that begins it (the
first one has none), and the earliest `invoked` of all sends that were completed in its other seconds or in the second
that ends it. It lasts to the first `ok` in the second that ends it; the last stretch, to the last completion in its
other seconds, and without any there is none. Nothing is asked of one that does not end later than it begins. A fault
lasts from its injection to its undoing, or else to the end of the load; one that was never injected is none.

no-progress-in-fault   a stretch shares more than `no_progress_s` with a fault, or lasts for more than that and shares
                       nothing with any fault and contains the end of none (tagged `no fault`); tagged with the name of
                       the fault that it shares most with (then the first injected)
slow-recovery          a stretch contains the moment at which a fault was undone (begins before or then, ends after),
                       and lasts for more than `recovery_s` from there to its end, or to the next injection of a fault
                       after that moment; tagged with the name of the fault with the longest (then the first injected)

**Availability and latency** are told and not judged: of sends that were completed in each segment between the
beginnings and ends of load and faults (the first SEGMENTS_AT_MOST), the share of those that were `ok`, and how long
these took. They are counted in buckets of a twelfth of a doubling, so that a percentile is off by less than 6 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from checkers.deletions import segment
from checkers.frame import Family, History, Rows, Rule, Study, as_findings, seconds, together
from checkers.stretches import stretches
from harness.history import F, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEGMENTS_AT_MOST = 200
BUCKETS = 12  # of a doubling

RULES = (
    Rule(
        "no-progress-in-fault",
        "no send to a partition got through for longer than the limit",
        "stuck",
        "waited",
    ),
    Rule(
        "slow-recovery",
        "no send to a partition got through for too long after a fault was undone",
        "slow",
        "waited and outlasted is not null",
    ),
)


def find_waits(history: History, rules: Sequence[Rule]) -> DataFrame:
    """A finding per stretch and anomaly."""
    frames = []
    rows = stretches(history)
    for rule in rules:
        fault, span = (
            ("coalesce(met.name, 'no fault')", "coalesce(met.span, lasted)")
            if rule.anomaly == "no-progress-in-fault"
            else ("outlasted.name", "outlasted.span")
        )
        columns = {
            "anomaly": f"'{rule.anomaly}'",
            "time": "since",
            "until": "until",
            "tags": f"array({fault})",
            "severity": span,
            "detail": "format_string('no send got through for %.1f s, from %.3f s on; of these %.1f s %s',"
            f" lasted / 1e9, {seconds(history, 'since')}, {span} / 1e9, {_words(rule.anomaly, fault)})",
        }
        frames.append(as_findings(rows.where(rule.where), columns))
    return together(frames)


def _words(anomaly: str, fault: str) -> str:
    if anomaly == "slow-recovery":
        return f"concat('after ', {fault}, ' had been undone')"
    return f"if(met is null, 'without a fault', concat('while ', {fault}, ' lasted'))"


def _latencies(history: History) -> DataFrame:
    """Sends by the segment that they were completed in and by how long they took, in place of topic and partition."""
    bounds = history.line.bounds_ns() if history.line else []
    ok = f"type = {Type.OK:d}"
    took = f"if({ok}, greatest(0L, try_subtract(time, invoked)), null)"
    return history.sends.selectExpr(f"{segment(bounds[:SEGMENTS_AT_MOST])} as topic", f"{took} as took").selectExpr(
        "topic", "took", f"cast(floor({BUCKETS} * log2(1 + took)) as int) as partition"
    )


def _summary(history: History, rows: Rows) -> list[dict[str, Any]]:
    """Per segment: when, which faults, how many sends, and how long the acknowledged ones took, in milliseconds."""
    line = history.line
    first, last = history.sealed.first_time_ns, history.sealed.last_time_ns
    bounds = (line.bounds_ns() if line else [])[:SEGMENTS_AT_MOST]
    edges = [min(first, *bounds), *bounds, max(last, *bounds)] if bounds else [first, last]
    windows = [(fault.name, line.window_ns(fault)) for fault in line.faults] if line else []
    told = []
    for number in sorted({row["topic"] for row in rows}):
        start, end = edges[number], edges[number + 1]
        mine = [row for row in rows if row["topic"] == number]
        took = sorted((row["partition"], row["sends"]) for row in mine if row["partition"] is not None)
        sends, ok = sum(row["sends"] for row in mine), sum(count for _, count in took)
        longest = max((row["longest_ns"] for row in mine if row["longest_ns"] is not None), default=None)
        told.append({
            "from_s": (start - first) / 1e9,
            "to_s": (end - first) / 1e9,
            "faults": [name for name, window in windows if window and window[0] <= start < end <= window[1]],
            "sends": sends,
            "ok": ok,
            "availability": ok / sends,
            "p50_ms": _percentile_ms(took, 0.5),
            "p99_ms": _percentile_ms(took, 0.99),
            "max_ms": None if longest is None else round(longest / 1e6, 3),
        })  # fmt: skip
    return told


def _percentile_ms(took: Sequence[tuple[int, int]], share: float) -> float | None:
    """The middle of the bucket in which this share of all is reached."""
    wanted, seen = share * sum(count for _, count in took), 0
    for bucket, count in took:
        seen += count
        if seen >= wanted:
            return round(2 ** ((bucket + 0.5) / BUCKETS) / 1e6, 3)
    return None


LATENCIES = Family(
    "latency",
    _latencies,
    (),
    figures={"sends": "count(*)", "longest_ns": "max(took)"},
    needs=lambda history: history.does(F.SEND),
    summary=_summary,
)

FAMILIES: tuple[Family, ...] = (LATENCIES,)
STUDIES: tuple[Study, ...] = ()
