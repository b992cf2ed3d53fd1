"""Metadata: what nodes say of brokers and leaders, compared with each other and over time.

An *answer* is a row of a probe (api 3), or of an exchange (api 3) of type ok that a client got; the harness's own
requests (client id `tidegauge`) are left out there, for what they saw is in the probes. Rows without a node are left
out. It was given somewhere between `invoked` and `time`; A came before B only if A's `time` is less than B's `invoked`.
S is SETTLING_NS: nodes do not learn of a new leader, or of a broker that came or went, at one instant.

A *claim* is an answer about a partition with error 0, leader >= 0 and leader_epoch >= 0. Claims of one partition, node,
leader, epoch and list of brokers are one: `first` is their lowest `time`, `last` their highest `invoked`.

metadata-disagreement   `one epoch`: two claims of one epoch name different leaders (one finding per epoch); `stale`: a
                        claim with last > first + S, by the first of a claim that another node made of a higher epoch,
                        with another leader (one finding per node and epoch of the lower claim)
epoch-regression        `one node`: two claims of one node, the last of a lower epoch > the first of a higher one (one
                        finding per node and lower epoch); `one client`: among the claims that were told to one client
                        (of exchanges that have a client id), two of different nodes, the last of a lower epoch > the
                        first of a higher one + S (one finding per client and lower epoch)
metadata-incomplete     `leader`: a claim whose list of brokers (not null) has not its leader (one finding per node,
                        leader, epoch and list), also `brief` unless last > first + S; `broker`: as below
leaderless              as below; limit: `leaderless_s` of the scenario, else 10 s

Of two claims that contradict each other a finding tells the time from the lowest `first` of the higher ones to the
highest `last` of the lower ones. Of one epoch it tells that from the moment at which two leaders had been named to the
highest `first` or `last` of all that contradict each other.

A topic that the workload deletes begins again. Claims of one life (an era of `checkers.deletions`) are compared with
each other alone, and those that may belong to two lives are left out everywhere.

Left-out brokers: time is cut into slots of S (`time div S`), and all answers count that have a list of brokers,
whatever their topic and error. Broker b is *left out* by node n in a slot in which both n and b answered, n never
listed b, and some other node than n, b itself perhaps, listed b in each of its answers; it is *listed* if both answered
and n listed it; other slots say nothing. Slots in which b is left out, with none between in which it is listed, are one
finding if the highest `invoked` of n's answers in them > the lowest `time` + S.

Leaderless: an answer about a partition with error 0 and leader >= 0 names a leader; one with error 5, or with error 0
and leader < 0, says that there is none; others do not count. A second (`time div 10^9`) is dark if an answer in it said
that there is none, and none in it named a leader. Dark seconds with no second between them in which a leader was named
are one stretch: a finding if the highest `invoked` of the answers in it > the lowest `time` + limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, GroupBy, Ints, Lanes, ints
from checkers.core.deletions import UNSURE
from checkers.core.family import ByFamily, Family, FamilyResult, PiecewiseFamily
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.node_answers import METADATA, SETTLING_NS
from checkers.core.other_nodes import RunningBest, first_of_each, inverse, pair_of, taken
from checkers.core.piece import Piece
from checkers.core.run import SECOND_NS, RunContext
from harness.foundation.protocol import ErrorCode
from harness.history.schema import Type

OWN_CLIENT = "tidegauge"  # of all that is no worker
OF_OTHERS = pl.col("client").ne_missing(OWN_CLIENT)
PLACED = pl.col("topic").is_not_null() & pl.col("partition").is_not_null()
PLACE = ("topic", "partition", "era")
OF_PROBES = ("event", "time", "invoked", "node", "api", "topic", "partition", "leader", "leader_epoch", "error",
             "brokers")  # fmt: skip
OF_EXCHANGES = (*OF_PROBES, "type", "client")

_ANSWER = (*PLACE, "node", "leader", "leader_epoch", "error", "brokers", "invoked", "time", "event")


def answers(piece: Piece) -> pl.DataFrame:
    """Every answer to Metadata."""
    of_probes = piece.probes.filter((pl.col("api") == METADATA) & pl.col("node").is_not_null())
    return pl.concat([of_probes.select(_ANSWER), of_clients(piece).select(_ANSWER)])


def of_clients(piece: Piece) -> pl.DataFrame:
    """Those that clients got."""
    passed = (pl.col("api") == METADATA) & (pl.col("type") == Type.OK) & pl.col("node").is_not_null()
    return piece.exchanges.filter(passed & OF_OTHERS)


def claims(rows: pl.DataFrame, *of: str) -> pl.DataFrame:
    """What was claimed in these answers, all of a partition and life together, in the order in which it was first."""
    claimed = PLACED & (pl.col("error") == 0) & (pl.col("leader") >= 0) & (pl.col("leader_epoch") >= 0)
    chosen = rows.filter(claimed & (pl.col("era") != UNSURE)).rename({"leader_epoch": "epoch"})
    texts = {name: chosen.select(name).unique().sort(name) for name in ("brokers", *of)}
    keys = (*PLACE, *of)
    made = (
        coded(chosen, texts)
        .group_by(*keys, "node", "leader", "epoch", "brokers", maintain_order=True)
        .agg(
            begun=pl.col("invoked").min(),
            first=pl.col("time").min(),
            last=pl.col("invoked").max(),
            event=pl.col("event").min(),
        )
    )
    ordered = in_order(made, (*keys, "first"), ("node", "leader", "epoch", "brokers"))
    return ordered.with_columns(texts[name][name].gather(ordered[name]).alias(name) for name in texts)


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


def asked(run: RunContext) -> bool:
    """Whether anybody asked for Metadata."""
    return run.probes_by(METADATA) or run.asks(METADATA)


_INCOMPLETE = "a broker that answers, or a leader, is not among those that a node lists"


class Claims(PiecewiseFamily):
    """What nodes claim of a partition."""

    name = "claims"
    anomalies: ClassVar[Mapping[str, str]] = {
        "metadata-disagreement": "two nodes name different leaders: for one epoch, or for long",
        "epoch-regression": "a node names an older leader epoch than before",
        "metadata-incomplete": _INCOMPLETE,
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {"probes": OF_PROBES, "exchanges": OF_EXCHANGES}

    def needs(self, run: RunContext) -> bool:
        """Answers."""
        return asked(run)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """Of the partitions in it."""
        lines = ClaimColumns(claims(answers(piece)), PLACE)
        if lines.frame.is_empty():
            return FamilyResult()
        looked_at = {name: len(lines.frame) for name in self.anomalies} | {"metadata-disagreement": lines.in_company}
        return FamilyResult(merge_findings(_of_nodes(lines, run), run.limit), looked_at)


class ClientClaims(PiecewiseFamily):
    """What nodes told one client of a partition."""

    name = "what clients were told"
    anomalies: ClassVar[Mapping[str, str]] = {
        "epoch-regression": "a client is told an older leader epoch than before",
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {"exchanges": OF_EXCHANGES}

    def needs(self, run: RunContext) -> bool:
        """Answers that clients got."""
        return run.asks(METADATA)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """Of the partitions in it."""
        told = of_clients(piece).filter(pl.col("client").is_not_null())
        lines = ClaimColumns(claims(told, "client"), (*PLACE, "client"))
        if lines.frame.is_empty():
            return FamilyResult()
        findings = _contradicting("epoch-regression", "one client", lines, back_across(lines), run)
        return FamilyResult(findings, {"epoch-regression": lines.in_company})


def _of_nodes(lines: ClaimColumns, run: RunContext) -> Iterator[Findings]:
    if run.wants("metadata-disagreement"):
        yield _contradicting("metadata-disagreement", "one epoch", lines, one_epoch(lines), run)
        yield _contradicting("metadata-disagreement", "stale", lines, stale(lines), run)
    if run.wants("epoch-regression"):
        yield _contradicting("epoch-regression", "one node", lines, back(lines), run)
    if run.wants("metadata-incomplete"):
        yield _unlisted(lines.frame, run)


def _contradicting(anomaly: str, tag: str, lines: ClaimColumns, apart: Contradictions, run: RunContext) -> Findings:
    """The node that went on is `node`, with its leader and epoch; it should have followed `node_before`."""
    if not len(apart.lower):
        return Findings()
    before = lines.frame[apart.higher].select(
        node_before="node", leader_before="leader", epoch_before="epoch", since_ns="first", event_before="event"
    )
    lower = lines.frame[apart.lower]
    client = ["client"] if "client" in lower.columns else []
    told = ["node", "leader", "epoch"]
    frame = pl.concat(
        [lower.select("topic", "partition", *told, "event", *client), before], how="horizontal"
    ).with_columns(until_ns=pl.Series(apart.until), tag=pl.lit(tag))
    return make_findings(
        anomaly,
        frame.with_columns(severity=pl.col("until_ns") - pl.col("since_ns")),
        run,
        nodes=("node_before", "node"),
        time="since_ns",
        until="until_ns",
        events=("event_before", "event"),
        tags="tag",
        severity="severity",
        facts=(*(f"{name}_before" for name in told), "since_ns", *told, "until_ns", *client),
    )


def _unlisted(made: pl.DataFrame, run: RunContext) -> Findings:
    """Claims of a leader that is not among the brokers."""
    listed = pl.col("brokers").str.split(",").list.contains(pl.col("leader").cast(pl.String))
    pairs = made.select("leader", "brokers").unique().drop_nulls().filter(~listed)
    frame = made.join(pairs, on=["leader", "brokers"], how="semi", maintain_order="left").with_columns(
        until=pl.max_horizontal("first", "last"),
        severity=pl.col("last") - pl.col("first"),
        tag=pl.lit("leader"),
        brief=pl.when(pl.col("last") <= pl.col("first") + SETTLING_NS).then(pl.lit("brief")),
    )
    return make_findings(
        "metadata-incomplete",
        frame,
        run,
        nodes=("node", "leader"),
        time="first",
        until="until",
        events=("event",),
        tags=("tag", "brief"),
        severity="severity",
        facts=("node", "leader", "epoch", "brokers"),
    )


class Leaderless(PiecewiseFamily):
    """Partitions without a leader."""

    name = "leaderless"
    anomalies: ClassVar[Mapping[str, str]] = {"leaderless": "no node names a leader, for longer than the limit"}
    reads: ClassVar[Mapping[str, Sequence[str]]] = {"probes": OF_PROBES, "exchanges": OF_EXCHANGES}

    def needs(self, run: RunContext) -> bool:
        """Answers."""
        return asked(run)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """Of the partitions in it."""
        names = (pl.col("error") == 0) & (pl.col("leader") >= 0)
        has_none = (pl.col("error") == ErrorCode.LEADER_NOT_AVAILABLE) | (
            (pl.col("error") == 0) & (pl.col("leader") < 0)
        )
        rows = answers(piece).with_columns(lit=names).filter(PLACED & (pl.col("era") != UNSURE) & (names | has_none))
        dark = dark_stretches(rows).filter(pl.col("until") > pl.col("since") + run.limit_ns("leaderless_s"))
        findings = make_findings(
            "leaderless",
            dark.with_columns(severity=pl.col("until") - pl.col("since")),
            run,
            time="since",
            until="until",
            severity="severity",
            facts=("answers",),
        )
        return FamilyResult(findings, {"leaderless": len(rows)})


def dark_stretches(rows: pl.DataFrame) -> pl.DataFrame:
    """Of answers that are `lit`, or else dark: the dark seconds with no lit one between them, put together."""
    places = rows.filter(~pl.col("lit")).select(PLACE).unique()
    seconds = (
        rows.join(places, on=PLACE, how="semi")
        .group_by(*PLACE, slot=slot_of("time", SECOND_NS))
        .agg(pl.col("lit").any(), since=pl.col("time").min(), until=pl.col("invoked").max(), answers=pl.len())
        .sort(*PLACE, "slot")
        .with_columns(lights=pl.col("lit").cum_sum())
    )
    stretches = seconds.filter(~pl.col("lit")).group_by(*PLACE, "lights", maintain_order=True)
    return stretches.agg(pl.col("since").min(), pl.col("until").max(), pl.col("answers").sum())


class Brokers(Family):
    """Brokers that answer, and that other nodes leave out: nodes say that whichever partition they are asked for."""

    name = "brokers"
    anomalies: ClassVar[Mapping[str, str]] = {"metadata-incomplete": _INCOMPLETE}
    reads: ClassVar[Mapping[str, Sequence[str]]] = {"probes": OF_PROBES, "exchanges": OF_EXCHANGES}

    def needs(self, run: RunContext) -> bool:
        """Answers."""
        return asked(run)

    def survey(self, piece: Piece, run: RunContext) -> pl.DataFrame:
        """Per slot and node the brokers that it listed (in `any` answer, and in `each`), from `first` to `last`."""
        rows = answers(piece).filter(pl.col("brokers").is_not_null())
        texts = rows.select("brokers").unique()
        said = (
            coded(rows, {"brokers": texts})
            .group_by(*_OF_NODE[1:], "brokers", slot=slot_of("time", SETTLING_NS))
            .agg(first=pl.col("time").min(), last=pl.col("invoked").max())
        )
        lists = texts.select(pl.col("brokers").str.split(",").list.unique().list.sort().list.join(","))
        said = said.with_columns(lists["brokers"].gather(said["brokers"]).alias("brokers"))
        return _spans(said).join(any_and_each(said, "brokers"), on=_OF_NODE)

    def gather(self, surveys: Sequence[pl.DataFrame], run: RunContext, others: ByFamily) -> pl.DataFrame:
        """Of all partitions."""
        if not surveys:
            return pl.DataFrame()
        said = pl.concat(surveys)
        in_any, in_each = any_and_each(said, "any").drop("each"), any_and_each(said, "each").drop("any")
        return _spans(said).join(in_any, on=_OF_NODE).join(in_each, on=_OF_NODE)

    def conclude(
        self, gathered: pl.DataFrame, judged: Sequence[object], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """Two nodes that answered in one slot may leave out each other: so much was looked at."""
        if gathered.is_empty():
            return FamilyResult()
        nodes = ints(gathered.group_by("slot").len(), "len")
        looked_at = {"metadata-incomplete": int((nodes * (nodes - 1)).sum())}
        if gathered["any"].n_unique() == 1:
            return FamilyResult(looked_at=looked_at)
        frame = unlisted_stretches(gathered).filter(pl.col("until") > pl.col("since") + SETTLING_NS)
        findings = make_findings(
            "metadata-incomplete",
            frame.with_columns(severity=pl.col("until") - pl.col("since"), tag=pl.lit("broker")),
            run,
            nodes=("node", "other"),
            time="since",
            until="until",
            tags="tag",
            severity="severity",
            facts=("node", "other"),
        )
        return FamilyResult(findings, looked_at)


_OF_NODE = ("slot", "node")


def _spans(said: pl.DataFrame) -> pl.DataFrame:
    return said.group_by(_OF_NODE).agg(pl.col("first").min(), pl.col("last").max())


def any_and_each(said: pl.DataFrame, of: str) -> pl.DataFrame:
    """Per slot and node, of several lists the brokers that are in any of them, and those that are in each."""
    different = said.select(*_OF_NODE, pl.col(of).alias("any")).unique()
    is_alone = pl.len().over(_OF_NODE) == 1
    alone, several = different.filter(is_alone).with_columns(each="any"), different.filter(~is_alone)
    if several.is_empty():
        return alone
    groups = several.group_by(_OF_NODE).agg(answers=pl.len()).with_row_index("group")
    in_all = pl.col("listed") == pl.col("answers")
    merged = (
        _counted(several.join(groups, on=_OF_NODE))
        .join(groups, on="group")
        .sort("id")
        .group_by(_OF_NODE, maintain_order=True)
        .agg(any=pl.col("id").str.join(","), each=pl.col("id").filter(in_all).str.join(","))
    )
    return pl.concat([alone, merged])


def _counted(several: pl.DataFrame) -> pl.DataFrame:
    """Per group how many of its lists have a broker: as numbers, for this has a row for each broker of each list."""
    texts = several.select("any").unique().with_row_index("text")
    ids = texts.select("text", id=pl.col("any").str.split(",")).explode("id")
    names = ids.select("id").unique().with_row_index("number")
    numbered = ids.join(names, on="id").select("text", "number")
    rows = several.join(texts, on="any").select("group", "text").join(numbered, on="text")
    return rows.group_by("group", "number").agg(listed=pl.len()).join(names, on="number")


def _ids(said: pl.DataFrame, of: str) -> pl.DataFrame:
    """A row for each broker of each list."""
    texts = said.select(of).unique()
    ids = texts.with_columns(id=pl.col(of).str.split(",")).explode("id")
    return said.select(*_OF_NODE, of).join(ids, on=of).drop(of)


def left_out(said: pl.DataFrame) -> pl.DataFrame:
    """Who left out whom in which slot."""
    differing = said.filter(pl.col("any").n_unique().over("slot") > 1)
    vouched = _listed(differing, "each", differing).select("slot", "other").unique()
    return (
        differing.select("slot", "node", "first", "last")
        .join(vouched, on="slot")
        .filter(pl.col("node") != pl.col("other"))
        .join(_listed(differing, "any", differing), on=["slot", "node", "other"], how="anti")
    )


def _listed(said: pl.DataFrame, of: str, everybody: pl.DataFrame) -> pl.DataFrame:
    """Who listed whom in which slot, of those that answered in it."""
    answered = everybody.select("slot", other="node", id=pl.col("node").cast(pl.String))
    return _ids(said, of).join(answered, on=["slot", "id"]).select("slot", "node", "other")


def unlisted_stretches(said: pl.DataFrame) -> pl.DataFrame:
    """Of each pair the slots in which one was left out, with none between in which it was listed, put together."""
    missing = left_out(said)
    pairs = missing.select("node", "other").unique()
    listed = _listed(said.join(pairs, on="node", how="semi"), "any", said).join(pairs, on=["node", "other"], how="semi")
    both = pl.concat([missing.with_columns(lists=False), listed.with_columns(lists=True)], how="diagonal")
    stretches = (
        both.sort("node", "other", "slot")
        .with_columns(stretch=pl.col("lists").cum_sum())
        .filter(~pl.col("lists"))
        .group_by("node", "other", "stretch", maintain_order=True)
    )
    return stretches.agg(since=pl.col("first").min(), until=pl.col("last").max())


FAMILIES: tuple[Family, ...] = (Claims(), ClientClaims(), Leaderless(), Brokers())
