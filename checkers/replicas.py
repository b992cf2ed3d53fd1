"""Replicas: what each node has of a partition, asked of that node whoever leads, when all is over.

A *replica read* is a completed REPLICA operation of a process with the role `replica`; the manifest says its `node`.
It covers the offsets from where its ASSIGN of that place began (the process's only one there; the last one by `event`
counts) to the least of where it stopped (`offset`) and the high watermark that its node showed (`end`), exclusive. It
covers nothing if either is null, or if there is no such ASSIGN. However it ended: what it covers was read. Of a process
with more than one for a place the last one, by `event`, counts.

replica-divergence   an offset that the reads of two or more nodes cover, and that was handed out by one of them at
                     least, inside of what it covers: with two different values (a null is a value), or two different
                     statuses; or, tagged `missing` and only if that is not so, not by all of those nodes. The latter
                     not in a compacted topic: each replica is compacted by itself. Records at one offset and of one
                     era (`checkers.core.deletions`, by `invoked` and `time`) are one finding; `deleted topic` if the
                     era is UNSURE.

Records of replicas are no reads of clients: no other checker sees them. Markers of transactions are handed out by
nobody; what was aborted is by all.

What reads cover is gathered first, for operations and records may be in different pieces; then every piece is judged. A
set of nodes is a number with a bit for each of them: up to 63.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, GroupBy, Ints, ints, is_in, nullable
from checkers.core.deletions import UNSURE
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.partition_log import OffsetKeys
from checkers.core.piece import Piece
from checkers.core.run import ONE_STRETCH, REPLICA_ROLE, RunContext, by
from harness.history.schema import F, Kind

DIVERGENCE = "replica-divergence"
PLACE = ("topic", "partition")


@dataclass(frozen=True)
class ReplicaCoverage:
    """What replica reads cover."""

    nodes: list[int]  # by their bits
    ranges: pl.DataFrame  # by process and place: from `begin` to `stop`, and the `bit` of the node
    bounds: pl.DataFrame  # by place: of which nodes it is covered from an offset on


class Replicas(Family):
    """Offsets below the watermark at which replicas do not hold the same."""

    name = "replicas"
    anomalies: ClassVar[Mapping[str, str]] = {
        DIVERGENCE: "two replicas hold different records at one offset below the watermark"
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "ops": ("event", "process", "f", "topic", "partition", "offset", "end"),
        "copies": ("event", "time", "process", "topic", "partition", "offset", "value", "status"),
    }

    def needs(self, run: RunContext) -> bool:
        """Whether any replica was read."""
        return bool(_nodes(run)) and run.has(Kind.RECORD)

    def survey(self, piece: Piece, run: RunContext) -> pl.DataFrame:
        """From where to where replicas were read."""
        return _ranges(piece.ops, _nodes(run))

    def gather(self, surveys: Sequence[pl.DataFrame], run: RunContext, others: ByFamily) -> ReplicaCoverage:
        """Of all places, with the bits of nodes."""
        whole = pl.concat([*surveys, _ranges(Piece({}, run).ops, {})])
        read = set(whole["process"].unique().to_list())
        of_process = {process: node for process, node in _nodes(run).items() if process in read}
        nodes = sorted(set(of_process.values()))
        bits = pl.DataFrame(
            [(process, 1 << nodes.index(node)) for process, node in of_process.items()],
            schema={"process": pl.Int32, "bit": pl.Int64}, orient="row",
        )  # fmt: skip
        ranges = whole.join(bits, on="process")
        return ReplicaCoverage(nodes, ranges, _bounds(ranges))

    def needs_judging(self, gathered: ReplicaCoverage, run: RunContext, others: ByFamily) -> bool:
        """If there is an offset that two nodes were asked for."""
        return bool((np.bitwise_count(ints(gathered.bounds, "covering")) > 1).any())

    def judge(self, piece: Piece, gathered: ReplicaCoverage, run: RunContext, others: ByFamily) -> FamilyResult:
        """All copies of an offset are in one piece."""
        copies = piece.copies.join(gathered.ranges, on=["process", *PLACE])
        inside = pl.col("offset").is_between("begin", "stop", closed="left")
        held = ReplicaContents.of(copies.filter(inside, pl.col("offset") >= 0), gathered.bounds)
        different, missing = _different(held, gathered.nodes), _missing(held, gathered.nodes, run)
        findings = merge_findings((_found_different(different, run), _found_missing(missing, run)), run.limit)
        return FamilyResult(findings, {DIVERGENCE: int(held.compared.sum())})

    def conclude(
        self, gathered: ReplicaCoverage, judged: Sequence[FamilyResult], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """Of all pieces."""
        looked_at = sum(each.looked_at[DIVERGENCE] for each in judged)
        return FamilyResult(merge_findings((each.findings for each in judged), run.limit), {DIVERGENCE: looked_at})


def _nodes(run: RunContext) -> dict[int, int]:
    """By the process that asked it, each node."""
    found = sorted(run.processes.items())
    return {n: int(about["node"]) for n, about in found if about.get("role") == REPLICA_ROLE and "node" in about}


def _ranges(ops: pl.DataFrame, readers: Mapping[int, int]) -> pl.DataFrame:
    """By process and place, from where to where it read; without those that cover nothing."""
    asked = ops.filter(by(readers), pl.col("f").is_in([int(F.ASSIGN), int(F.REPLICA)])).sort("event")
    begun, read = pl.col("f") == F.ASSIGN, pl.col("f") == F.REPLICA
    reached = pl.when(pl.col("end").is_not_null()).then(pl.min_horizontal("offset", "end"))
    stop = pl.when(pl.col("offset").is_not_null()).then(reached)
    ends = asked.with_columns(stop=stop).group_by("process", *PLACE).agg(
        begin=pl.col("offset").filter(begun).last(), stop=pl.col("stop").filter(read).last()
    )  # fmt: skip
    return ends.filter(pl.col("begin") < pl.col("stop"))


def _bounds(ranges: pl.DataFrame) -> pl.DataFrame:
    """By place, at each offset where any range begins or stops, the nodes that are covered from there on."""
    of_node = (*PLACE, "bit")
    so_far = pl.col("stop").cum_max().shift(1).over(of_node)
    apart = (pl.col("begin") > so_far).fill_null(value=True)  # two processes may have read one node
    numbered = ranges.sort("begin").with_columns(apart=apart).with_columns(pl.col("apart").cum_sum().over(of_node))
    alone = numbered.group_by(*of_node, "apart").agg(pl.col("begin").min(), pl.col("stop").max())
    changes = pl.concat([
        alone.select(*PLACE, offset="begin", change="bit"),
        alone.select(*PLACE, offset="stop", change=-pl.col("bit")),
    ])  # fmt: skip
    summed = changes.group_by(*PLACE, "offset").agg(pl.col("change").sum()).sort("offset")
    return summed.select(*PLACE, "offset", covering=pl.col("change").cum_sum().over(PLACE))


@dataclass(frozen=True)
class ReplicaContents:
    """What replicas hold, one entry for each place, era and offset; sets of nodes are bits."""

    rows: pl.DataFrame
    groups: GroupBy
    places: pl.DataFrame
    holders: Ints
    covering: Ints
    low: Ints  # of its values (NEVER, NONE)
    high: Ints
    different: Bools

    @classmethod
    def of(cls, rows: pl.DataFrame, bounds: pl.DataFrame) -> Self:
        """From records that lie in what was covered."""
        keys = OffsetKeys.of([rows], ONE_STRETCH)
        at = keys.at(rows)
        groups = GroupBy(at, np.argsort(at))
        places = pl.DataFrame(keys.parts(groups.keys)).cast({"topic": pl.Int32, "partition": pl.Int32})
        value, status = ints(rows, "value"), ints(rows, "status")
        low, high, valued = groups.min(value, value != NONE), groups.max(value), groups.count(value != NONE)
        odd = groups.min(status, status != NONE) < groups.max(status)
        return cls(
            rows, groups, places, _union(groups, ints(rows, "bit")), _covering(places, bounds), low, high,
            different=(low < high) | ((valued > 0) & (valued < groups.count())) | odd,
        )  # fmt: skip

    @property
    def compared(self) -> Bools:
        """Where more than one node was asked."""
        return np.bitwise_count(self.covering) > 1

    @property
    def lacking(self) -> Ints:
        """Who was asked and has nothing."""
        return self.covering & ~self.holders

    def evidence(self, chosen: Bools) -> pl.DataFrame:
        """What is known of these."""
        time, event = ints(self.rows, "time"), ints(self.rows, "event")
        first_low, first_high = self._first(self.low), self._first(self.high)
        known = {
            "low": self.low, "high": self.high, "low_event": self.groups.min(event, first_low),
            "high_event": self.groups.max(event, first_high), "any_event": self.groups.min(event),
            "first_time": self.groups.min(time), "last_time": self.groups.max(time),
        }  # fmt: skip
        columns = [_column(name, values[chosen]) for name, values in known.items()]
        gone = pl.when(pl.col("era") == UNSURE).then(pl.lit("deleted topic"))
        return self.places.filter(pl.Series(chosen)).with_columns(*columns, gone=gone)

    def _first(self, value: Ints) -> Bools:
        """Rows with this value of their offset, as early as any."""
        number = self.groups.number()
        has_it = ints(self.rows, "value") == value[number]
        time = ints(self.rows, "time")
        first: Bools = has_it & (time == self.groups.min(time, has_it)[number])
        return first


def _column(name: str, values: Ints) -> pl.Series:
    return nullable(np.where(values == NEVER, NONE, values)).alias(name)


def _union(groups: GroupBy, bits: Ints) -> Ints:
    return np.bitwise_or.reduceat(bits[groups.order], groups.starts) if len(groups) else bits


def _covering(places: pl.DataFrame, bounds: pl.DataFrame) -> Ints:
    """The nodes that were asked for each of these offsets."""
    asked = places.select(*PLACE, "offset", row=pl.row_index()).sort("offset")  # eras of a place come one after another
    joined = asked.join_asof(bounds, on="offset", by=list(PLACE), strategy="backward", check_sortedness=False)
    return ints(joined.sort("row"), "covering", 0)


def _nodes_of(sets: Ints, nodes: Sequence[int]) -> pl.Series:
    """Sets of nodes as lists; null without any."""
    different = pl.Series("bits", sets).unique()
    row, column = np.nonzero((different.to_numpy()[:, None] >> np.arange(len(nodes))) & 1)
    listed = pl.DataFrame({"bits": different.gather(row), "nodes": np.array(nodes, np.int64)[column]})
    lists = listed.group_by("bits", maintain_order=True).agg("nodes")
    return pl.DataFrame({"bits": sets}).join(lists, on="bits", how="left", maintain_order="left")["nodes"]


def _different(held: ReplicaContents, nodes: Sequence[int]) -> pl.DataFrame:
    """Offsets at which records differ."""
    chosen = held.compared & held.different
    holders = held.holders[chosen]
    return held.evidence(chosen).with_columns(
        holders=_nodes_of(holders, nodes), severity=pl.Series(np.bitwise_count(holders), dtype=pl.Int64)
    )


def _missing(held: ReplicaContents, nodes: Sequence[int], run: RunContext) -> pl.DataFrame:
    """Offsets that some of those that were asked have, and others have not."""
    keeps_all = ~is_in(ints(held.places, "topic"), run.compacted)
    chosen = held.compared & ~held.different & (held.lacking != 0) & keeps_all
    lacking = held.lacking[chosen]
    return held.evidence(chosen).with_columns(
        holders=_nodes_of(held.holders[chosen], nodes), lacking=_nodes_of(lacking, nodes),
        asked=_nodes_of(held.covering[chosen], nodes), missing=pl.lit("missing"),
        severity=pl.Series(np.bitwise_count(lacking), dtype=pl.Int64),
    )  # fmt: skip


def _found_different(different: pl.DataFrame, run: RunContext) -> Findings:
    return make_findings(
        DIVERGENCE, different, run, offset="offset", values=("low", "high"), nodes="holders", time="first_time",
        until="last_time", events=("low_event", "high_event", "any_event"), tags=("gone",), severity="severity",
        facts=("holders",),
    )  # fmt: skip


def _found_missing(missing: pl.DataFrame, run: RunContext) -> Findings:
    return make_findings(
        DIVERGENCE, missing, run, offset="offset", values=("low",), nodes="asked", time="first_time",
        until="last_time", events=("any_event",), tags=("missing", "gone"), severity="severity",
        facts=("holders", "lacking"),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (Replicas(),)
