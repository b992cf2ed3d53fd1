"""Coordinators: where nodes say that they are, compared with each other.

coordinator-mismatch    what two nodes say of one thing contradicts

What counts are answers to FindCoordinator (api 10; exchanges of type ok, error 0, leader >= 0, of all clients) whose
detail is `WHAT at ADDRESS`, perhaps followed by a remark in brackets. Each says two things: that WHAT is at `node
LEADER`, and that `node LEADER` is at ADDRESS. What two different nodes say of a group or transaction contradicts if it
differs and if each node said it more than S after the other: the highest `invoked` of one > the lowest `time` of the
other + S, and the reverse. A broker does not move: two answers that give one node id different addresses contradict,
whoever gave them and however soon. One finding per thing: `address` of a node id; else `steadfast` if two nodes that
contradict each other never said anything else of it, or `moved`. It tells the time from the moment at which two of
those had both been said to the last one at which two of them, each by its highest `invoked`, still were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, ints
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings
from checkers.core.moments import MomentIndex
from checkers.core.node_answers import SETTLING_NS
from checkers.core.other_nodes import RunningBest, taken
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.shared.metadata_claims import coded, in_order, number_of
from harness.foundation.protocol import Api
from harness.history.schema import Type

WHEREABOUTS = r"^(.*) at (\S+)( \(.*\))?$"
COLUMNS = ("event", "time", "invoked", "node", "api", "leader", "error", "type", "detail")


class Coordinators(Family):
    """What nodes say of the whereabouts of things, which are of no partition: it is put together and then compared."""

    name = "coordinators"
    anomalies: ClassVar[Mapping[str, str]] = {
        "coordinator-mismatch": "nodes name different coordinators, or different addresses of one"
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {"exchanges": COLUMNS}

    def needs(self, run: RunContext) -> bool:
        """Answers to FindCoordinator."""
        return run.asks(Api.FIND_COORDINATOR)

    def survey(self, piece: Piece, run: RunContext) -> pl.DataFrame:
        """What each node said of each thing, from `first` to `last`."""
        answered = (pl.col("api") == Api.FIND_COORDINATOR) & (pl.col("type") == Type.OK) & (pl.col("error") == 0)
        named = (pl.col("leader") >= 0) & pl.col("node").is_not_null()
        parts = [
            rows.filter(answered & named)
            .group_by("node", "leader", "detail")
            .agg(pl.col("time").min().alias("first"), pl.col("invoked").max().alias("last"), pl.col("event").min())
            .filter(pl.col("detail").str.contains(WHEREABOUTS))
            for rows in piece.parts("exchanges", COLUMNS)
        ]
        rows = pl.concat(parts)
        leader, at, span = pl.format("node {}", "leader"), pl.col("detail").str, ("node", "first", "last", "event")
        of_things = rows.select(*span, thing=at.extract(WHEREABOUTS, 1), said=leader, address=pl.lit(value=False))
        of_nodes = rows.select(*span, thing=leader, said=at.extract(WHEREABOUTS, 2), address=pl.lit(value=True))
        return merged_claims([of_things, of_nodes])

    def gather(self, surveys: Sequence[pl.DataFrame], run: RunContext, others: ByFamily) -> pl.DataFrame:
        """Of all clients."""
        return merged_claims(surveys) if surveys else pl.DataFrame()

    def conclude(
        self, gathered: pl.DataFrame, judged: Sequence[object], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """A finding per thing."""
        if gathered.is_empty():
            return FamilyResult()
        texts = {name: gathered.select(name).unique().sort(name) for name in ("thing", "said")}
        made = in_order(coded(gathered, texts), ("thing", "first"), ("node", "said"))
        made = made.with_columns(alone=pl.len().over("thing", "node") == 1)
        return FamilyResult(_mismatches(made, texts, run), {"coordinator-mismatch": len(texts["thing"])})


def merged_claims(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """What one node said of one thing, always the same, is one row."""
    return (
        pl.concat(parts)
        .group_by("thing", "node", "said", "address")
        .agg(pl.col("first").min(), pl.col("last").max(), pl.col("event").min())
    )


def _mismatches(made: pl.DataFrame, texts: Mapping[str, pl.DataFrame], run: RunContext) -> Findings:
    apart = contradicted(made)
    if apart.is_empty():
        return Findings()
    steadfast = contradicted(made.filter("alone"))
    of_things = apart.group_by("thing").agg(pl.col("first").min().alias("since"), pl.col("until").max())
    moved = apart.join(steadfast, on="thing", how="anti")
    pairs = [
        _told(made.filter("alone"), steadfast).with_columns(tag=pl.lit("steadfast")),
        _told(made, moved).with_columns(tag=pl.lit("moved")),
    ]
    frame = of_things.join(pl.concat(pairs), on="thing").with_columns(
        severity=pl.col("until") - pl.col("since"),
        tag=pl.when("address").then(pl.lit("address")).otherwise("tag"),
    )
    of_texts = {"thing": "thing", "said": "said", "other_said": "said"}
    frame = frame.with_columns(texts[of][of].gather(frame[name]).alias(name) for name, of in of_texts.items())
    facts = ("thing", "node", "said", "since_ns", "until_ns")
    return make_findings(
        "coordinator-mismatch",
        frame,
        run,
        nodes=("node", "other"),
        time="since",
        until="until",
        events=("event", "other_event"),
        tags="tag",
        severity="severity",
        facts=(*facts, "other", "other_said", "other_since_ns", "other_until_ns"),
    )


def contradicted(made: pl.DataFrame) -> pl.DataFrame:
    """Of what was said those that another node had contradicted before, with the time until which both still did.

    Of two that contradict each other one was said first: it was, more than S before the other was said last, and it
    was still said more than S after the other was said first. Of all these the one that was said last tells it. Of
    addresses, which need not last, every other one that was said before contradicts, also of the same node.
    """
    lane, first, last = number_of(made, ["thing"]), ints(made, "first"), ints(made, "last")
    address, said = made["address"].to_numpy(), ints(made, "said")
    lasted = np.where(address, NEVER, last - SETTLING_NS)
    upto = MomentIndex(lane, first).last(lane, np.minimum(lasted, first + 1))
    keys = np.where(address, said, ints(made, "node")), said
    ranked = RunningBest(lane, np.argsort(last, kind="stable"))
    latest = taken(last, ranked.best_of_strangers(upto, keys, keys))
    until = np.maximum(first, np.minimum(last, latest))
    settled = np.where(address, NONE, first + SETTLING_NS)
    return made.with_columns(until=pl.Series(until)).filter(pl.Series(latest > settled))


def _told(made: pl.DataFrame, apart: pl.DataFrame) -> pl.DataFrame:
    """Of each thing the first that was contradicted, and what contradicts it: two claims in the order of texts."""
    columns = ["node", "said", "first", "last", "event"]
    lasted = (pl.col("first") < pl.col("last_later") - SETTLING_NS) & (
        pl.col("last") > pl.col("first_later") + SETTLING_NS
    )
    later = apart.unique("thing", keep="first", maintain_order=True).select("thing", *columns)
    both = (
        made.select("thing", "address", *columns)
        .join(later, on="thing", suffix="_later")
        .filter(
            (pl.col("said") != pl.col("said_later"))
            & (pl.col("first") <= pl.col("first_later"))
            & (pl.col("address") | ((pl.col("node") != pl.col("node_later")) & lasted))
        )
    )
    lower = pl.col("said") < pl.col("said_later")
    names = {"node": "node", "said": "said", "first": "since_ns", "last": "until_ns", "event": "event"}
    one = {new: pl.when(lower).then(old).otherwise(f"{old}_later") for old, new in names.items()}
    two = {new: pl.when(lower).then(f"{old}_later").otherwise(old) for old, new in names.items()}
    other = {"other" if new == "node" else f"other_{new}": value for new, value in two.items()}
    return (
        both.select("thing", "address", **one, **other)
        .sort("thing", "node", "other", "said", "other_said")
        .unique("thing", keep="first", maintain_order=True)
    )


FAMILIES: tuple[Family, ...] = (Coordinators(),)
