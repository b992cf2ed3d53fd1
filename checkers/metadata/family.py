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

A topic that the workload deletes begins again. Claims of one life (an era of `checkers.core.deletions`) are compared
with each other alone, and those that may belong to two lives are left out everywhere.

Left-out brokers: time is cut into slots of S (`time div S`), and all answers count that have a list of brokers,
whatever their topic and error. Broker b is *left out* by node n in a slot in which both n and b answered, n never
listed b, and some other node than n, b itself perhaps, listed b in each of its answers; it is *listed* if both answered
and n listed it; other slots say nothing. Slots in which b is left out, with none between in which it is listed, are one
finding if the highest `invoked` of n's answers in them > the lowest `time` + S; also `always` if no list of n has b.

Leaderless: an answer about a partition with error 0 and leader >= 0 names a leader; one with error 5, or with error 0
and leader < 0, says that there is none; others do not count. A second (`time div 10^9`) is dark if an answer in it said
that there is none, and none in it named a leader. Dark seconds are one stretch unless between them a leader was named,
or for more than SILENT_S nobody answered: what nobody asked for may have been otherwise. A stretch is a finding if the
highest `invoked` of the answers in it > the lowest `time` + limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import polars as pl

from checkers.core.arrays import ints
from checkers.core.deletions import UNSURE
from checkers.core.family import ByFamily, Family, FamilyResult, PiecewiseFamily
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.node_answers import METADATA, SETTLING_NS
from checkers.core.piece import Piece
from checkers.core.run import SECOND_NS, RunContext
from checkers.metadata.broker_lists import SLOT_AND_NODE, answer_spans, any_and_each, unlisted_stretches
from checkers.shared.metadata_claims import (
    OF_EXCHANGES,
    OF_PROBES,
    PLACE,
    PLACED,
    ClaimColumns,
    Contradictions,
    answers,
    back,
    back_across,
    claims,
    coded,
    of_clients,
    one_epoch,
    slot_of,
    stale,
)
from harness.foundation.protocol import ErrorCode

SILENT_S = 5  # between answers of one stretch without a leader


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
        lines = ClaimColumns(piece.claims, PLACE)
        if lines.frame.is_empty():
            return FamilyResult()
        looked_at = {name: len(lines.frame) for name in self.anomalies} | {"metadata-disagreement": lines.in_company}
        return FamilyResult(merge_findings(_of_nodes(lines, run), run.limit), looked_at)


class ClientClaims(PiecewiseFamily):
    """What nodes told one client of a partition."""

    name = "what clients were told"
    anomalies: ClassVar[Mapping[str, str]] = {
        "epoch-regression": "a client got an older leader epoch than before",
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {"exchanges": OF_EXCHANGES}

    def needs(self, run: RunContext) -> bool:
        """Answers that clients got."""
        return run.asks(METADATA)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """Of the partitions in it."""
        told = (rows.filter(pl.col("client").is_not_null()) for rows in of_clients(piece))
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
        told = PLACED & (pl.col("era") != UNSURE) & (names | has_none)
        seconds = pl.concat([by_second(rows.with_columns(lit=names).filter(told)) for rows in answers(piece)])
        dark = dark_stretches(seconds).filter(pl.col("until") > pl.col("since") + run.limit_ns("leaderless_s"))
        findings = make_findings(
            "leaderless",
            dark.with_columns(severity=pl.col("until") - pl.col("since")),
            run,
            time="since",
            until="until",
            severity="severity",
            facts=("answers",),
        )
        return FamilyResult(findings, {"leaderless": int(seconds["answers"].sum())})


def by_second(rows: pl.DataFrame) -> pl.DataFrame:
    """Of answers that are `lit`, or else dark, each second: whether any was, and the first and the last of them."""
    return rows.group_by(*PLACE, slot=slot_of("time", SECOND_NS)).agg(
        pl.col("lit").any(),
        dark=~pl.col("lit").all(),
        since=pl.col("time").min(),
        until=pl.col("invoked").max(),
        answers=pl.len().cast(pl.Int64),
    )


def dark_stretches(parts: pl.DataFrame) -> pl.DataFrame:
    """The dark seconds with no lit one or silence between, put together."""
    places = parts.filter("dark").select(PLACE).unique()
    seconds = (
        parts.join(places, on=PLACE, how="semi")
        .group_by(*PLACE, "slot")
        .agg(pl.col("lit").any(), pl.col("since").min(), pl.col("until").max(), pl.col("answers").sum())
        .sort(*PLACE, "slot")
        .with_columns(
            lights=pl.col("lit").cum_sum(), silences=(pl.col("slot").diff() > SILENT_S).cum_sum().fill_null(0)
        )
    )
    stretches = seconds.filter(~pl.col("lit")).group_by(*PLACE, "lights", "silences", maintain_order=True)
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
        return _together([self._said(rows) for rows in answers(piece)])

    def _said(self, answered: pl.DataFrame) -> pl.DataFrame:
        rows = answered.filter(pl.col("brokers").is_not_null())
        texts = rows.select("brokers").unique()
        said = (
            coded(rows, {"brokers": texts})
            .group_by(*SLOT_AND_NODE[1:], "brokers", slot=slot_of("time", SETTLING_NS))
            .agg(first=pl.col("time").min(), last=pl.col("invoked").max())
        )
        lists = texts.select(pl.col("brokers").str.split(",").list.unique().list.sort().list.join(","))
        said = said.with_columns(lists["brokers"].gather(said["brokers"]).alias("brokers"))
        return answer_spans(said).join(any_and_each(said, "brokers"), on=SLOT_AND_NODE)

    def gather(self, surveys: Sequence[pl.DataFrame], run: RunContext, others: ByFamily) -> pl.DataFrame:
        """Of all partitions."""
        if not surveys:
            return pl.DataFrame()
        return _together(surveys)

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
            frame.with_columns(
                severity=pl.col("until") - pl.col("since"),
                tag=pl.lit("broker"),
                always=pl.when("always").then(pl.lit("always")),
            ),
            run,
            nodes=("node", "other"),
            time="since",
            until="until",
            tags=("tag", "always"),
            severity="severity",
            facts=("node", "other"),
        )
        return FamilyResult(findings, looked_at)


def _together(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """What nodes listed, of several parts."""
    if len(parts) == 1:
        return parts[0]
    said = pl.concat(parts)
    in_any, in_each = any_and_each(said, "any").drop("each"), any_and_each(said, "each").drop("any")
    return answer_spans(said).join(in_any, on=SLOT_AND_NODE).join(in_each, on=SLOT_AND_NODE)


FAMILIES: tuple[Family, ...] = (Claims(), ClientClaims(), Leaderless(), Brokers())
