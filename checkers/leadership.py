"""Leadership: who acts as the leader of a partition, and whether clients find it.

S is SETTLING_NS of `checkers.metadata`, which also says what a claim is, with its `first` and its node, leader and
epoch; `begun` is the lowest `invoked` of a claim. Claims and all that follows belong to one life of a topic (an era of
`checkers.core.deletions`); what may belong to two lives is left out. Rows without a node, topic or partition are left
out.

not-leader-loop   exchanges of type ok of one client (by its client id; not null, and not `tidegauge`, which asks every
                  node on purpose), one partition and one of the requests Produce, Fetch, ListOffsets. A *refusal* has
                  error 6, 74 or 75, a *success* error 0, and all others do not count. Rows of one `op` are one answer.
                  Refusals in the order of `time`, with no success of the same client, partition and request at a `time`
                  between them (at one instant refusals come first), are a run. A run of 5 or more is a finding if some
                  node refused twice in it with a refresh between: an exchange of api 3, type ok, of that client, with a
                  row for that partition, that was invoked after the first refusal of that node in the run had ended
                  (strictly), and that ended before another refusal of that node was invoked (strictly). `brief` if the
                  last `time` of the run <= the first + S; `moved` if the leader may have changed meanwhile: a higher
                  epoch than all that Metadata had shown by the first - S, but for its lowest, may have begun by the
                  last + S (`since`, `checkers.core.node_answers`). What it cost: sends of the process in the client id
                  (tidegauge-ROLE-PROCESS) to that topic and partition (or none) that did not end ok, and that ended
                  between the first `time` of the run and the last + S
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
from typing import Any, ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, Ints, Lanes, ints
from checkers.core.deletions import UNSURE
from checkers.core.family import ByFamily, Family, FamilyResult, PiecewiseFamily
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.node_answers import FETCH, LIST_OFFSETS, METADATA, PRODUCE, SETTLING_NS, Epochs
from checkers.core.other_nodes import MomentIndex, RunningBest, taken
from checkers.core.piece import Piece
from checkers.core.run import SECOND_NS, RunContext
from checkers.shared.metadata_claims import (
    OF_EXCHANGES,
    OF_OTHERS,
    OF_PROBES,
    PLACE,
    PLACED,
    ClaimColumns,
    HigherClaims,
    answers,
    claims,
    number_of,
    slot_of,
)
from checkers.shared.workers import worker
from harness.foundation.protocol import FETCH_OF_FOLLOWERS, NOT_LEADING
from harness.history.schema import Type

LOOP = 5
OF_LOGS = (PRODUCE, FETCH, LIST_OFFSETS)

_ASKED = ("client", *PLACE, "api")
_OF_A_PLACE = pl.col("node").is_not_null() & PLACED & (pl.col("era") != UNSURE)
_REFUSED = pl.col("error").is_in(NOT_LEADING)


class Loops(PiecewiseFamily):
    """Refusals, of each client and partition; what they cost is known when the sends have been looked at."""

    name = "refusals"
    anomalies: ClassVar[Mapping[str, str]] = {
        "not-leader-loop": "a client gets NOT_LEADER again and again, even after it refreshed its metadata"
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "exchanges": (
            "event",
            "time",
            "invoked",
            "op",
            "type",
            "client",
            "node",
            "api",
            "topic",
            "partition",
            "error",
            "leader",
            "leader_epoch",
        ),
        "probes": ("time", "invoked", "node", "api", "topic", "partition", "error", "leader", "leader_epoch"),
        "sends": ("process", "type", "topic", "partition", "offset", "value", "time"),
    }

    def needs(self, run: RunContext) -> bool:
        """Requests, and refreshes between them."""
        return run.asks(METADATA) and run.asks(*OF_LOGS)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """Of the partitions in it."""
        passed = (pl.col("type") == Type.OK) & pl.col("client").is_not_null() & OF_OTHERS
        rows = piece.exchanges.filter(passed & _OF_A_PLACE)
        refused = rows.filter(pl.col("api").is_in(OF_LOGS) & _REFUSED)
        often = refused.group_by(_ASKED).len().filter(pl.col("len") >= LOOP).drop("len").with_row_index("asker")
        if often.is_empty():
            return FamilyResult()
        runs = runs_of(refused.join(often, on=_ASKED), rows, often)
        loops = runs.filter((pl.col("refusals") >= LOOP) & pl.col("again")).join(often, on="asker")
        return FamilyResult(_loops(loops, Epochs(piece.epochs), run), {"not-leader-loop": len(runs)})

    def needs_judging(self, gathered: FamilyResult, run: RunContext, others: ByFamily) -> bool:
        """If it may have cost anything."""
        return any(row["processes"] for row in _kept(gathered))

    def judge(self, piece: Piece, gathered: FamilyResult, run: RunContext, others: ByFamily) -> Ints:
        """How many sends each loop that is kept cost."""
        return given_up(_kept(gathered), piece.sends)

    def conclude(
        self, gathered: FamilyResult, judged: Sequence[Any], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """With what they cost."""
        rows = _kept(gathered)
        cost = np.sum([np.zeros(len(rows), np.int64), *judged], axis=0)
        for row, sends in zip(rows, cost.tolist(), strict=True):
            row["facts"]["given_up"] = sends
        return gathered


def runs_of(refused: pl.DataFrame, rows: pl.DataFrame, often: pl.DataFrame) -> pl.DataFrame:
    """Refusals with no success between: how many, by whom, and whether one refused again after a refresh."""
    succeeded = rows.filter(pl.col("api").is_in(OF_LOGS) & (pl.col("error") == 0)).join(often, on=_ASKED)
    refreshed = rows.filter(pl.col("api") == METADATA).join(often, on=[name for name in _ASKED if name != "api"])
    answered = refused.group_by("asker", op=pl.coalesce("op", "event"), maintain_order=True).agg(
        pl.col("node", "invoked", "time").max(), pl.col("event").min()
    )
    asker, successes, refreshes = ints(answered, "asker"), _in_order(succeeded), _in_order(refreshed)
    latest = Lanes(ints(refreshes, "asker")).upto(ints(refreshes, "invoked"))
    by_node = (
        answered.with_columns(
            after=pl.Series(_before(successes).last(asker, ints(answered, "time"))),
            refreshed=pl.Series(taken(latest, _before(refreshes).last(asker, ints(answered, "invoked")))),
        )
        .group_by("asker", "after", "node")
        .agg(
            pl.col("event").min(),
            first=pl.col("time").min(),
            last=pl.col("time").max(),
            refusals=pl.len(),
            again=pl.col("refreshed").max() > pl.col("time").min(),
        )
    )
    return by_node.group_by("asker", "after").agg(
        pl.col("first", "event").min(),
        pl.col("last").max(),
        pl.col("refusals").sum(),
        pl.col("again").any(),
        nodes=pl.col("node").sort(),
    )


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("asker", "time", "invoked").sort("asker", "time")


def _before(rows: pl.DataFrame) -> MomentIndex:
    return MomentIndex(ints(rows, "asker"), ints(rows, "time"))


def _loops(loops: pl.DataFrame, epochs: Epochs, run: RunContext) -> Findings:
    brief = pl.col("last") <= pl.col("first") + SETTLING_NS
    frame = loops.with_columns(
        worker=worker(),
        brief=pl.when(brief).then(pl.lit("brief")),
        moved=pl.when(epochs.may_rise(loops, pl.col("first") - SETTLING_NS, pl.col("last") + SETTLING_NS)).then(
            pl.lit("moved")
        ),
        first_ns="first",
        last_ns="last",
    )
    return make_findings(
        "not-leader-loop",
        frame,
        run,
        processes=("worker",),
        nodes="nodes",
        time="first_ns",
        until="last_ns",
        events=("event",),
        tags=("brief", "moved"),
        severity="refusals",
        facts=("client", "refusals", "api", "first_ns", "last_ns"),
    )


def _kept(gathered: FamilyResult) -> list[dict[str, Any]]:
    return [row for rows in gathered.findings.rows.values() for row in rows]


def given_up(loops: Sequence[Mapping[str, Any]], sends: pl.DataFrame) -> Ints:
    """Of each loop the sends of its process to its partition, or to none, that failed meanwhile or soon after."""
    asked = pl.DataFrame(
        {
            "process": [row["processes"][0] if row["processes"] else None for row in loops],
            "topic": [row["topic"] for row in loops],
            "partition": [row["partition"] for row in loops],
            "first": [row["time"] for row in loops],
            "over": [row["until"] + SETTLING_NS for row in loops],
        },
        schema={"process": pl.Int32, "topic": pl.Int32, "partition": pl.Int32, "first": pl.Int64, "over": pl.Int64},
    )
    of_none = asked.with_columns(partition=pl.lit(None, pl.Int32))
    failed = sends.filter((pl.col("type") != Type.OK) & pl.col("process").is_in(asked["process"].implode()))
    return _between(asked, failed) + _between(of_none, failed)


def _between(asked: pl.DataFrame, failed: pl.DataFrame) -> Ints:
    keys = ["process", "topic", "partition"]
    lanes = asked.select(keys).unique().with_row_index("lane")
    mine = failed.join(lanes, on=keys, nulls_equal=True).sort("lane", "time")
    of_asked = ints(asked.join(lanes, on=keys, nulls_equal=True, how="left", maintain_order="left"), "lane")
    ended = MomentIndex(ints(mine, "lane"), ints(mine, "time"))
    return ended.count(of_asked, ints(asked, "over") + 1) - ended.count(of_asked, ints(asked, "first"))


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
        return run.probes_by(FETCH, LIST_OFFSETS) or run.asks(*OF_LOGS)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """Of the partitions in it."""
        made = acts(piece)
        if made.is_empty():
            return FamilyResult()
        told = ClaimColumns(claims(answers(piece)), PLACE)
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
    of_probes = pl.col("api").is_in([FETCH, LIST_OFFSETS]) & (pl.col("error") == 0) & _OF_A_PLACE
    appended = (pl.col("api") == PRODUCE) & (pl.col("acks").fill_null(-1) != 0) & (pl.col("offset") >= 0)
    fetched = (pl.col("api") == FETCH) & (pl.col("api_version") < FETCH_OF_FOLLOWERS)
    led = appended | fetched | (pl.col("api") == LIST_OFFSETS)
    of_clients = (pl.col("type") == Type.OK) & (pl.col("error") == 0) & OF_OTHERS & _OF_A_PLACE
    columns = (*PLACE, "node", "api", "invoked", "time", "event")
    rows = [piece.probes.filter(of_probes).select(columns), piece.exchanges.filter(led & of_clients).select(columns)]
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


FAMILIES: tuple[Family, ...] = (Loops(), Acts())
