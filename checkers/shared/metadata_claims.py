"""What nodes claim in answers to Metadata: who leads a partition in which epoch, and which claims contradict others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, GroupBy, Ints, Lanes, ints
from checkers.core.deletions import UNSURE
from checkers.core.node_answers import METADATA, SETTLING_NS
from checkers.core.other_nodes import RunningBest, first_of_each, inverse, pair_of, taken
from checkers.core.piece import Piece
from harness.history.schema import Type

OWN_CLIENT = "tidegauge"  # of all that is no worker
OF_OTHERS = pl.col("client").ne_missing(OWN_CLIENT)
PLACED = pl.col("topic").is_not_null() & pl.col("partition").is_not_null()
OF_A_PLACE = pl.col("node").is_not_null() & PLACED & (pl.col("era") != UNSURE)  # of one life of it
PLACE = ("topic", "partition", "era")
OF_PROBES = ("event", "time", "invoked", "node", "api", "topic", "partition", "leader", "leader_epoch", "error",
             "brokers")  # fmt: skip
OF_EXCHANGES = (*OF_PROBES, "type", "client")
_ANSWER = (*PLACE, "node", "leader", "leader_epoch", "error", "brokers", "invoked", "time", "event")


def answers(piece: Piece) -> Iterator[pl.DataFrame]:
    """Every answer to Metadata, some at a time."""
    for probes, exchanges in piece.node_parts(OF_PROBES, OF_EXCHANGES):
        asked = (pl.col("api") == METADATA) & pl.col("node").is_not_null()
        of_probes = probes.select(*_ANSWER, "api").filter(asked)  # which copies no column that nobody looks at
        yield pl.concat([of_probes.select(_ANSWER), _of_clients(exchanges).select(_ANSWER)])


def of_clients(piece: Piece) -> Iterator[pl.DataFrame]:
    """Those that clients got."""
    return (_of_clients(rows) for rows in piece.parts("exchanges", OF_EXCHANGES))


def _of_clients(exchanges: pl.DataFrame) -> pl.DataFrame:
    passed = (pl.col("api") == METADATA) & (pl.col("type") == Type.OK) & pl.col("node").is_not_null()
    return exchanges.select(*_ANSWER, "api", "type", "client").filter(passed & OF_OTHERS)


def claims(answers: Iterable[pl.DataFrame], *of: str) -> pl.DataFrame:
    """What was claimed in these answers, all of a partition and life together, in the order in which it was first."""
    keys = (*PLACE, *of)
    parts = [_claimed(rows, *of) for rows in answers]
    texts = {name: pl.concat([part.select(name) for part in parts]).unique().sort(name) for name in ("brokers", *of)}
    made = coded(pl.concat(parts), texts)
    if len(parts) > 1:
        made = made.group_by(*keys, "node", "leader", "epoch", "brokers").agg(
            pl.col("begun", "first").min(), pl.col("last").max(), pl.col("event").min()
        )
    ordered = in_order(made, (*keys, "first"), ("node", "leader", "epoch", "brokers"))
    return ordered.with_columns(texts[name][name].gather(ordered[name]).alias(name) for name in texts)


def _claimed(rows: pl.DataFrame, *of: str) -> pl.DataFrame:
    claimed = PLACED & (pl.col("error") == 0) & (pl.col("leader") >= 0) & (pl.col("leader_epoch") >= 0)
    chosen = rows.filter(claimed & (pl.col("era") != UNSURE)).rename({"leader_epoch": "epoch"})
    texts = {name: chosen.select(name).unique().sort(name) for name in ("brokers", *of)}
    made = (
        coded(chosen, texts)
        .group_by(*PLACE, *of, "node", "leader", "epoch", "brokers")
        .agg(
            begun=pl.col("invoked").min(),
            first=pl.col("time").min(),
            last=pl.col("invoked").max(),
            event=pl.col("event").min(),
        )
    )
    return made.with_columns(texts[name][name].gather(made[name]).alias(name) for name in texts)


def coded(rows: pl.DataFrame, texts: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """With the ranks of texts instead of texts, which is half the work where there are many claims."""
    for name, text in texts.items():
        ranks = text.with_row_index("rank")
        rows = rows.join(ranks, on=name, how="left", nulls_equal=True, maintain_order="left")
        rows = rows.drop(name).rename({"rank": name})
    return rows


def in_order(rows: pl.DataFrame, keys: Sequence[str], then: Sequence[str]) -> pl.DataFrame:
    """By these keys, and where all of them are the same, which is rare, by the others."""
    ordered = rows[np.lexsort([ints(rows, key) for key in reversed(keys)])]
    same = np.append(number_of(ordered, keys), -1)
    tied = np.flatnonzero((same[:-1] == same[1:]) | (same[:-1] == np.roll(same, 1)[:-1]))
    if not len(tied):
        return ordered
    place = np.arange(len(ordered))
    place[tied] = tied[ordered[tied].select(pl.arg_sort_by(*keys, *then)).to_series().to_numpy()]
    return ordered[place]


def number_of(frame: pl.DataFrame, keys: Sequence[str]) -> Ints:
    """Of rows that are in order by these keys, the number of each combination."""
    if frame.is_empty():
        return np.zeros(0, np.int64)
    new = pl.any_horizontal(pl.col(key).ne_missing(pl.col(key).shift()) for key in keys)
    return ints(frame.select(number=new.cum_sum()), "number") - 1


def slot_of(moment: str, width_ns: int) -> pl.Expr:
    """Time cut into slots, towards zero."""
    return pl.col(moment).sign() * (pl.col(moment).abs() // width_ns)


@dataclass(frozen=True)
class ClaimColumns:
    """Claims as columns of numbers; a *lane* has those that are compared with each other, the first first."""

    frame: pl.DataFrame
    keys: tuple[str, ...]

    @cached_property
    def lane(self) -> Ints:
        """Of each claim."""
        return number_of(self.frame, self.keys)

    def column(self, name: str) -> Ints:
        """Numbers of each claim."""
        return ints(self.frame, name)

    @cached_property
    def of_epoch(self) -> Ints:
        """What claims of one lane and epoch share."""
        return pair_of(self.lane, self.column("epoch"))

    @cached_property
    def in_company(self) -> int:
        """How many are not alone in their lane."""
        size = GroupBy(self.lane).count()
        return int(size[size > 1].sum())

    @cached_property
    def of_node(self) -> Ints:
        """What claims of one lane and node share, as a number from 0 on."""
        return GroupBy(pair_of(self.lane, self.column("node"))).number()


@dataclass(frozen=True)
class Contradictions:
    """Of each group of claims the two that were first apart, as rows, and until when they were."""

    lower: Ints
    higher: Ints
    until: Ints


def one_epoch(lines: ClaimColumns) -> Contradictions:
    """Claims of one epoch with different leaders: the very first of an epoch, and the first with another leader."""
    groups = GroupBy(lines.of_epoch)
    number, rows, leader = groups.number(), np.arange(len(lines.frame)), lines.column("leader")
    first = groups.min(rows)
    other = groups.min(rows, leader != leader[first][number])
    until = groups.max(np.maximum(lines.column("first"), lines.column("last")))
    apart = other != NEVER
    return Contradictions(first[apart], other[apart], until[apart])


def stale(lines: ClaimColumns) -> Contradictions:
    """Claims that last, beside those of other nodes that name other leaders of higher epochs."""
    higher = HigherClaims(lines, lines.lane)
    late = higher.late(higher.ranked.best(higher.upto), SETTLING_NS)
    node, leader = lines.column("node")[higher.order], lines.column("leader")[higher.order]
    best = np.full(len(node), -1)
    best[late] = higher.ranked.best_of_strangers(higher.upto[late], (node, leader), (node[late], leader[late]))
    return higher.contradictions(best, SETTLING_NS, pair_of(lines.of_node, lines.column("epoch")))


def back(lines: ClaimColumns) -> Contradictions:
    """Claims that last, of nodes that had claimed a higher epoch."""
    higher = HigherClaims(lines, lines.of_node)
    best = higher.ranked.best(higher.upto)
    return higher.contradictions(best, 0, pair_of(lines.of_node, lines.column("epoch")))


def back_across(lines: ClaimColumns) -> Contradictions:
    """Claims that last, beside those of other nodes of a higher epoch."""
    higher = HigherClaims(lines, lines.lane)
    node = lines.column("node")[higher.order]
    best = higher.ranked.best_of_others(higher.upto, node, node)
    return higher.contradictions(best, SETTLING_NS, lines.of_epoch)


class HigherClaims:
    """Claims by lane and falling epoch: up to where those of higher epochs lie, and which of these was first."""

    def __init__(self, lines: ClaimColumns, lane: Ints) -> None:
        epoch = lines.column("epoch")
        self.lines = lines
        self.order = np.argsort(pair_of(lane, -epoch), kind="stable")
        self.lane, self.epoch = lane[self.order], epoch[self.order]
        starts = Lanes(pair_of(self.lane, self.epoch)).starts
        before = np.repeat(starts, np.diff(np.append(starts, len(epoch)))) - 1
        self.upto = np.where(taken(self.lane, before) == self.lane, before, -1)
        self.ranked = RunningBest(self.lane, inverse(self.order)[::-1])

    def late(self, higher: Ints, settling_ns: int) -> Ints:
        """Which claims last longer than the first of these higher ones allows."""
        first = taken(self.lines.column("first")[self.order], higher)
        last = self.lines.column("last")[self.order]
        return np.flatnonzero((higher >= 0) & (last > first + settling_ns))

    def contradictions(self, higher: Ints, settling_ns: int, group: Ints) -> Contradictions:
        """Of claims with these higher ones, by their group."""
        late = self.late(higher, settling_ns)
        low, high = self.order[late], self.order[higher[late]]
        first, node = self.lines.column("first"), self.lines.column("node")
        groups = GroupBy(group[low])
        chosen = first_of_each(groups, first[high], first[low], node[low], node[high], low)
        return Contradictions(low[chosen], high[chosen], groups.max(self.lines.column("last")[low]))
