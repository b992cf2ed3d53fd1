"""Progress: whether sends get through while something is broken and afterwards, and how long they take.

Limits are seconds, of the scenario (`[limits]`, harness/foundation/limits.py). Topics that the workload deleted are
left out, and sends without a topic or a partition. A *second* is `time` div 10^9.

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

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, Ints, RangeMaximum, ints
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.core.tables import topic_and_partition
from checkers.core.timeline import Timeline
from harness.history.schema import F, Type

SEGMENTS_AT_MOST = 200
BUCKETS = 12  # of a doubling
CHUNK = 1 << 14  # stretches that are judged at once
NO_PROGRESS, SLOW_RECOVERY = "no-progress-in-fault", "slow-recovery"
WAITS: Mapping[str, str] = {
    NO_PROGRESS: "no send to a partition got through for longer than the limit",
    SLOW_RECOVERY: "no send to a partition got through for too long after a fault was undone",
}


class Faults:
    """Those that were injected, in the order of their injection; of those at one moment the last name comes first."""

    def __init__(self, line: Timeline) -> None:
        windows = [(window, fault) for fault in line.faults if (window := line.window_ns(fault))]
        windows.sort(key=lambda each: each[1].name, reverse=True)
        windows.sort(key=lambda each: each[0][0])
        self.names = [fault.name for _, fault in windows]
        self.began: Ints = np.array([began for (began, _), _ in windows], np.int64)
        self.ended: Ints = np.array([ended for (_, ended), _ in windows], np.int64)
        self.undone: Bools = np.array([fault.undone_ns is not None for _, fault in windows], np.bool_)
        after = np.searchsorted(self.began, self.ended, side="right")
        self.quiet: Ints = np.append(self.began, NEVER)[after]  # until the next one is injected after its end
        self._end, self._length = RangeMaximum(self.ended), RangeMaximum(self.ended - self.began)

    def shared_most(self, since: Ints, until: Ints) -> tuple[Ints, Ints]:
        """Of each stretch the fault that it shares most with, and how much; -1 and 0 if it shares nothing.

        Of the faults that began before the stretch, the one that ended last shares most. Of those that began in it,
        the first that outlasts it shares more than any later one; what began before that one is shared whole.
        """
        before, beyond = np.searchsorted(self.began, since), np.searchsorted(self.began, until)
        latest = np.maximum.accumulate(self.ended)
        reached = np.minimum(np.append(NONE, latest)[before], until)
        earlier = np.where(before > 0, np.searchsorted(latest, reached), -1)
        outlasting = np.minimum(self._end.next_above(before, until), beyond)
        whole = self._length.best(before, outlasting)
        cut = np.where(outlasting < beyond, outlasting, -1)

        def shared(fault: Ints) -> Ints:
            return np.minimum(until, self.ended[fault]) - np.maximum(since, self.began[fault])

        return _longest((earlier, whole, cut), shared, len(self.names))

    def outlasted(self, since: Ints, until: Ints) -> tuple[Ints, Ints]:
        """Of each stretch the fault after whose undoing it lasted longest, and for how long; -1 and 0 without any.

        In the order of their ends, the first fault that was quiet beyond the stretch outlasts all later ones.
        """
        order = np.flatnonzero(self.undone)
        order = order[np.argsort(self.ended[order], kind="stable")]
        ended, quiet = self.ended[order], self.quiet[order]
        first, beyond = np.searchsorted(ended, since), np.searchsorted(ended, until)
        unbroken = np.clip(np.searchsorted(quiet, until, side="right"), first, np.maximum(first, beyond))
        whole = RangeMaximum(quiet - ended, order).best(first, unbroken)
        cut = np.where(unbroken < beyond, unbroken, -1)

        def after(place: Ints) -> Ints:
            return np.minimum(until, quiet[place]) - ended[place]

        place, lasted = _longest((whole, cut), after, len(order), order)
        return np.where(place < 0, -1, np.append(order, -1)[place]), lasted

    def ends_in(self, since: Ints, until: Ints, *, undone: bool) -> Bools:
        """Whether a fault ends in a stretch: any, or one that was undone."""
        ended = np.sort(self.ended[self.undone] if undone else self.ended)
        inside: Bools = np.searchsorted(ended, since) < np.searchsorted(ended, until)
        return inside


def _longest(
    candidates: Sequence[Ints], span_of: Callable[[Ints], Ints], count: int, order: Ints | None = None
) -> tuple[Ints, Ints]:
    """Of each stretch, of its few candidates (-1: none), the one with the longest span, then the first injected."""
    best, lasted = np.full(len(candidates[0]), -1), np.zeros(len(candidates[0]), np.int64)
    if not count:
        return best, lasted
    injected = np.append(np.arange(count) if order is None else order, NEVER)
    for candidate in candidates:
        span = np.where(candidate < 0, 0, span_of(np.maximum(candidate, 0)))
        better = (span > lasted) | ((span == lasted) & (span > 0) & (injected[candidate] < injected[best]))
        best, lasted = np.where(better, candidate, best), np.where(better, span, lasted)
    return best, lasted


def waits(stretches: pl.DataFrame, run: RunContext) -> FamilyResult:
    """What is wrong with stretches in which no send got through."""
    faults = Faults(run.line)
    since, until = ints(stretches, "since"), ints(stretches, "until")
    looked_at = {NO_PROGRESS: len(stretches), SLOW_RECOVERY: int(faults.ends_in(since, until, undone=True).sum())}
    shortest = min(run.limit_ns("no_progress_s"), run.limit_ns("recovery_s"))
    findings = Findings()
    for part in stretches.filter(pl.col("until") - pl.col("since") > shortest).iter_slices(CHUNK):
        findings.add(_judged(part, faults, run), run.limit)
    return FamilyResult(findings, looked_at)


def _judged(stretches: pl.DataFrame, faults: Faults, run: RunContext) -> Findings:
    """Of stretches that may be too long."""
    since, until = ints(stretches, "since"), ints(stretches, "until")
    lasted = until - since
    met, shared = faults.shared_most(since, until)
    outlasted, after = faults.outlasted(since, until)
    alone = (met < 0) & ~faults.ends_in(since, until, undone=False)
    spans = np.where(alone, lasted, shared)
    rows = stretches.with_columns(*topic_and_partition(pl.col("place")), lasted_ns=pl.Series(lasted))
    findings = Findings()
    for anomaly, fault, span, limit in (
        (NO_PROGRESS, met, spans, "no_progress_s"),
        (SLOW_RECOVERY, outlasted, after, "recovery_s"),
    ):
        names = pl.Series([*faults.names, None], dtype=pl.String)[fault % (len(faults.names) + 1)]
        wrong = rows.with_columns(fault=names, tag=names.fill_null("no fault"), span_ns=pl.Series(span))
        findings.add(
            make_findings(
                anomaly, wrong.filter(pl.col("span_ns") > run.limit_ns(limit)), run, time="since", until="until",
                processes=(), tags=["tag"], severity="span_ns", facts=["lasted_ns", "fault", "span_ns"],
            ),
            run.limit,
        )  # fmt: skip
    return findings


class SendLatency(Family):
    """How many sends got through, and how long that took."""

    name = "latency"
    reads: ClassVar[Mapping[str, Sequence[str]]] = {"sends": ("type", "invoked", "time")}

    def needs(self, run: RunContext) -> bool:
        """Sends."""
        return run.does(F.SEND)

    def survey(self, piece: Piece, run: RunContext) -> pl.DataFrame:
        """Sends by the segment that they were completed in and by how long they took: no bucket if not `ok`."""
        bounds = np.array(run.line.bounds_ns()[:SEGMENTS_AT_MOST], np.int64)
        segment = np.searchsorted(bounds, ints(piece.sends, "time"), side="right")
        took = pl.max_horizontal(pl.col("time") - pl.col("invoked"), 0)
        rows = piece.sends.select(
            segment=pl.Series(segment, dtype=pl.Int32), took=pl.when(pl.col("type") == Type.OK).then(took)
        )
        bucket = (BUCKETS * (1 + pl.col("took")).log(2)).floor().cast(pl.Int32)
        return rows.group_by("segment", bucket=bucket).agg(
            sends=pl.len().cast(pl.Int64), longest_ns=pl.col("took").max()
        )

    def gather(self, surveys: Sequence[pl.DataFrame], run: RunContext, others: ByFamily) -> pl.DataFrame:
        """Of all sends, in order."""
        whole = pl.concat(surveys or [self.survey(Piece({}, run), run)])
        counted = whole.group_by("segment", "bucket").agg(pl.col("sends").sum(), pl.col("longest_ns").max())
        return counted.sort("segment", "bucket")

    def conclude(
        self,
        gathered: pl.DataFrame,
        judged: Sequence[object],
        run: RunContext,
        others: ByFamily,
    ) -> FamilyResult:
        """Per segment: when, which faults, how many sends, and how long the acknowledged ones took, in milliseconds."""
        bounds = run.line.bounds_ns()[:SEGMENTS_AT_MOST]
        first, last = run.first_time_ns, run.last_time_ns
        edges = [min(first, *bounds), *bounds, max(last, *bounds)] if bounds else [first, last]
        windows = [(fault.name, window) for fault in run.line.faults if (window := run.line.window_ns(fault))]
        told = []
        for part in gathered.partition_by("segment", maintain_order=True):
            start, end = edges[int(part["segment"][0])], edges[int(part["segment"][0]) + 1]
            faults = [name for name, (began, ended) in windows if began <= start < end <= ended]
            told.append({"from_s": run.seconds(start), "to_s": run.seconds(end), "faults": faults, **_share(part)})
        return FamilyResult(summary=told or None)


def _share(counted: pl.DataFrame) -> dict[str, Any]:
    """Of the sends of a segment: how many got through, and how long these took."""
    took = counted.drop_nulls("bucket")
    sends, ok = int(counted["sends"].sum()), int(took["sends"].sum())
    return {
        "sends": sends,
        "ok": ok,
        "availability": ok / sends,
        "p50_ms": _percentile_ms(took, 0.5),
        "p99_ms": _percentile_ms(took, 0.99),
        "max_ms": None if took.is_empty() else round(int(ints(took, "longest_ns").max()) / 1e6, 3),
    }


def _percentile_ms(took: pl.DataFrame, share: float) -> float | None:
    """The middle of the bucket in which this share of all is reached."""
    if took.is_empty():
        return None
    seen = took["sends"].cum_sum().to_numpy()
    bucket = int(took["bucket"][int(np.searchsorted(seen, share * int(seen[-1])))])
    return float(round(2 ** ((bucket + 0.5) / BUCKETS) / 1e6, 3))


FAMILIES: tuple[Family, ...] = (SendLatency(),)
