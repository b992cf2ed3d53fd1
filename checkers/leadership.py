"""Leadership: who acts as the leader of a partition.

S is SETTLING_NS of `checkers.metadata.family`, which also says what a claim is, with its `first` and its node, leader
and epoch; `begun` is the lowest `invoked` of a claim. Claims and all that follows belong to one life of a topic (an era
of `checkers.core.deletions`); what may belong to two lives is left out. Rows without a node, topic or partition are
left out.

impostor-leader   an *act* is an answer with error 0, to a probe (api 1 or 2), or in an exchange of type ok of another
                  client than `tidegauge`: Produce with acks <> 0 and an offset >= 0 (an *append*), ListOffsets, or
                  Fetch below version 11, from which on followers may answer. Acts of one node in one second (`time div
                  10^9`, cut towards zero) are one: `began` is its lowest `invoked`, `ended` its highest `time`. Its
                  epoch is the highest one among the claims of other nodes with first < began - S. It is not known
                  (null) without one; or if none of them was made again after the act (last > ended), for nobody need
                  have heard yet of a leader that came since; or if any node has a claim of a higher epoch with begun <=
                  ended + S, or one may have begun by then (`since`, `checkers.core.node_answers`). An act whose epoch
                  is known, and for which all those claims of that epoch name one leader that is another node, is an
                  impostor's. One finding per partition, node and epoch, which tells of the impostor's acts alone;
                  `deposed` if another node has a claim of a lower epoch that names it; how many of its answers were
                  appends and Fetches (the others: ListOffsets) is told
split-brain       `one epoch`: two nodes have acts with appends of one known epoch; `overlapping`: in one second two
                  nodes have appends in acts of no known epoch, and one append of each ended before one of the other was
                  invoked. One finding per partition and epoch, or second, which tells of the appends of those nodes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, Ints, ints
from checkers.core.family import Family, FamilyResult, PiecewiseFamily
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.moments import MomentIndex
from checkers.core.node_answers import FETCH, LIST_OFFSETS, OF_LEADERS, PRODUCE, SETTLING_NS, Epochs
from checkers.core.other_nodes import RunningBest, taken
from checkers.core.piece import Piece
from checkers.core.run import SECOND_NS, RunContext
from checkers.shared.metadata_claims import (
    OF_A_PLACE,
    OF_EXCHANGES,
    OF_OTHERS,
    OF_PROBES,
    PLACE,
    ClaimColumns,
    HigherClaims,
    number_of,
    slot_of,
)
from harness.foundation.protocol import FETCH_OF_FOLLOWERS
from harness.history.schema import Type


class Acts(PiecewiseFamily):
    """What nodes do as only leaders do, beside who the others say leads."""

    name = "leaders at work"
    anomalies: ClassVar[Mapping[str, str]] = {
        "impostor-leader": "a node that does not lead answers as if it did",
        "split-brain": "two nodes acknowledge appends at once",
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "probes": OF_PROBES,
        "exchanges": (*OF_EXCHANGES, "acks", "offset", "api_version"),
    }

    def needs(self, run: RunContext) -> bool:
        """Requests that leaders answer."""
        return run.probes_by(FETCH, LIST_OFFSETS) or run.asks(*OF_LEADERS)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """Of the partitions in it."""
        made = acts(piece)
        if made.is_empty():
            return FamilyResult()
        told = ClaimColumns(piece.claims, PLACE)
        judged = with_epochs(made, told, Epochs(piece.epochs))
        of_epochs = judged.filter(pl.col("epoch").is_not_null())
        appended = appends(judged)
        findings = [_impostors(of_epochs.filter("impostor"), told.frame, run), _split(appended, run)]
        looked_at = {
            "impostor-leader": of_epochs.select(*PLACE, "epoch", "node").n_unique() if len(of_epochs) else 0,
            "split-brain": len(appended),
        }
        return FamilyResult(merge_findings(findings, run.limit), looked_at)


def acts(piece: Piece) -> pl.DataFrame:
    """What each node did in each second as only a leader does."""
    parts = [
        _acts(probes, exchanges)
        for probes, exchanges in piece.node_parts(Acts.reads["probes"], Acts.reads["exchanges"])
    ]
    if len(parts) == 1:
        return parts[0]
    return (
        pl.concat(parts)
        .group_by(*PLACE, "node", "slot", maintain_order=True)
        .agg(
            pl.col("acts", "appends", "fetches").sum(),
            pl.col("began", "first", "event", "append").min(),
            pl.col("ended", "last").max(),
        )
    )


def _acts(probes: pl.DataFrame, exchanges: pl.DataFrame) -> pl.DataFrame:
    of_probes = pl.col("api").is_in([FETCH, LIST_OFFSETS]) & (pl.col("error") == 0) & OF_A_PLACE
    appended = (pl.col("api") == PRODUCE) & (pl.col("acks").fill_null(-1) != 0) & (pl.col("offset") >= 0)
    fetched = (pl.col("api") == FETCH) & (pl.col("api_version") < FETCH_OF_FOLLOWERS)
    led = appended | fetched | (pl.col("api") == LIST_OFFSETS)
    of_clients = (pl.col("type") == Type.OK) & (pl.col("error") == 0) & OF_OTHERS & OF_A_PLACE
    columns = (*PLACE, "node", "api", "invoked", "time", "event")
    rows = [probes.filter(of_probes).select(columns), exchanges.filter(led & of_clients).select(columns)]
    append = pl.col("api") == PRODUCE
    return (
        pl.concat(rows)
        .with_columns(
            append=append,
            fetch=pl.col("api") == FETCH,
            acknowledged=pl.when(append).then("time"),
            asked=pl.when(append).then("invoked"),
            appending=pl.when(append).then("event"),
        )
        .group_by(*PLACE, "node", slot=slot_of("time", SECOND_NS), maintain_order=True)
        .agg(
            acts=pl.len(),
            appends=pl.col("append").sum(),
            fetches=pl.col("fetch").sum(),
            began=pl.col("invoked").min(),
            ended=pl.col("time").max(),
            first=pl.col("acknowledged").min(),
            last=pl.col("asked").max(),
            event=pl.col("event").min(),
            append=pl.col("appending").min(),
        )
    )


def with_epochs(made: pl.DataFrame, told: ClaimColumns, epochs: Epochs) -> pl.DataFrame:
    """Acts, each with its epoch, null if it is not known, and whether it is an impostor's, and who leads then."""
    places = told.frame.select(PLACE).unique(maintain_order=True).with_row_index("lane")
    lane = ints(made.join(places, on=PLACE, how="left", maintain_order="left"), "lane", -1)
    node, ended = ints(made, "node"), ints(made, "ended")
    first, last, epoch, leader = (told.column(name) for name in ("first", "last", "epoch", "leader"))
    heard = MomentIndex(told.lane, first).last(lane, ints(made, "began") - SETTLING_NS)

    def best(by: Ints) -> Ints:
        """Of what other nodes had claimed, the highest epoch; of those with it the highest by this."""
        return RunningBest(told.lane, np.lexsort((by, epoch))).best_of_others(heard, told.column("node"), node)

    newest = best(last)
    upheld = taken(last, newest) > ended
    possible = ints(pl.DataFrame({"epoch": epochs.possible(made, pl.col("ended") + SETTLING_NS)}), "epoch")
    outdated = (taken(_soonest_of_higher(told), newest) <= ended + SETTLING_NS) | (possible > taken(epoch, newest))
    is_known = (newest >= 0) & upheld & ~outdated
    highest, lowest = taken(leader, best(leader)), taken(leader, best(-leader))
    known = pl.Series(is_known)
    return made.with_columns(
        epoch=pl.when(known).then(pl.Series(taken(epoch, newest))),
        impostor=known & pl.Series((highest == lowest) & (highest != node)),
        leader=pl.Series(highest),
    )


def _soonest_of_higher(told: ClaimColumns) -> Ints:
    """Of each claim when one of a higher epoch was asked for first."""
    higher = HigherClaims(told, told.lane)
    begun = told.column("begun")[higher.order]
    soonest = RunningBest(higher.lane, np.argsort(-begun, kind="stable")).best(higher.upto)
    found_at = np.empty(len(begun), np.int64)
    found_at[higher.order] = np.where(soonest >= 0, taken(begun, soonest), NEVER)
    return found_at


def _impostors(caught: pl.DataFrame, told: pl.DataFrame, run: RunContext) -> Findings:
    if caught.is_empty():
        return Findings()
    named = (
        told.filter(pl.col("node") != pl.col("leader")).group_by(*PLACE, node="leader").agg(led=pl.col("epoch").min())
    )
    by_epoch = caught.group_by(*PLACE, "epoch", "node").agg(
        pl.col("event", "leader").min(),
        answers=pl.col("acts").sum(),
        appends=pl.col("appends").sum(),
        fetches=pl.col("fetches").sum(),
        began_ns=pl.col("began").min(),
        ended_ns=pl.col("ended").max(),
    )
    frame = by_epoch.join(named, on=[*PLACE, "node"], how="left").with_columns(
        deposed=pl.when(pl.col("led") < pl.col("epoch")).then(pl.lit("deposed"))
    )
    return make_findings(
        "impostor-leader",
        frame,
        run,
        nodes=("node",),
        time="began_ns",
        until="ended_ns",
        events=("event",),
        tags=("deposed",),
        severity="answers",
        facts=("answers", "appends", "fetches", "leader", "epoch", "began_ns", "ended_ns"),
    )


_TOGETHER = (*PLACE, "epoch", "second")


def appends(judged: pl.DataFrame) -> pl.DataFrame:
    """What each node appended in each epoch; where that is not known, in each second."""
    appended = judged.filter(pl.col("appends") > 0)
    second = pl.when(pl.col("epoch").is_null()).then("slot")
    return appended.group_by(*PLACE, "epoch", "node", second=second).agg(
        pl.col("appends").sum(), pl.col("first", "append").min(), pl.col("last").max()
    )


def _split(appended: pl.DataFrame, run: RunContext) -> Findings:
    several = appended.filter(pl.len().over(_TOGETHER) > 1)
    if several.is_empty():
        return Findings()
    of_epochs = several.filter(pl.col("epoch").is_not_null())
    sides = pl.concat([of_epochs, overlapping(several.filter(pl.col("epoch").is_null()))])
    frame = (
        sides.with_columns(ended=pl.max_horizontal("first", "last"))
        .sort(*_TOGETHER, "node")
        .group_by(_TOGETHER, maintain_order=True)
        .agg(
            nodes="node",
            events="append",
            appends="appends",
            began_ns="first",
            ended_ns="ended",
            time=pl.col("first").min(),
            until=pl.col("ended").max(),
            severity=pl.col("appends").sum(),
        )
        .with_columns(tag=pl.when(pl.col("epoch").is_null()).then(pl.lit("overlapping")).otherwise(pl.lit("one epoch")))
    )
    return make_findings(
        "split-brain",
        frame,
        run,
        nodes="nodes",
        time="time",
        until="until",
        events="events",
        tags="tag",
        severity="severity",
        facts=("epoch", "appends", "began_ns", "ended_ns"),
    )


def overlapping(sides: pl.DataFrame) -> pl.DataFrame:
    """Of those that appended in one second the ones that did so before and after another."""
    ordered = sides.sort(*_TOGETHER, "first", "node")
    lane, first, last = number_of(ordered, _TOGETHER), ints(ordered, "first"), ints(ordered, "last")
    node = ints(ordered, "node")
    upto = MomentIndex(lane, first).last(lane, last)
    longest = RunningBest(lane, np.argsort(last, kind="stable")).best_of_others(upto, node, node)
    return ordered.filter(pl.Series(taken(last, longest) > first))


FAMILIES: tuple[Family, ...] = (Acts(),)
