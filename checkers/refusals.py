"""Refusals: clients that are told again and again that a node does not lead.

S is SETTLING_NS of `checkers.metadata.family`. All of it belongs to one life of a topic (an era of
`checkers.core.deletions`); what may belong to two lives is left out, and so are rows without a node, topic or
partition.

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
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import Ints, Lanes, ints
from checkers.core.family import ByFamily, Family, FamilyResult, PiecewiseFamily
from checkers.core.findings import Findings, make_findings
from checkers.core.moments import MomentIndex
from checkers.core.node_answers import METADATA, OF_LEADERS, SETTLING_NS, Epochs
from checkers.core.other_nodes import taken
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.shared.metadata_claims import (
    OF_A_PLACE,
    OF_OTHERS,
    PLACE,
)
from checkers.shared.workers import worker
from harness.foundation.protocol import NOT_LEADING
from harness.history.schema import Type

LOOP = 5

_CLIENT = ("client", *PLACE)
_ASKED = (*_CLIENT, "api")
_OF_LEADERS = pl.col("api").is_in(OF_LEADERS)
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
        return run.asks(METADATA) and run.asks(*OF_LEADERS)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """Of the partitions in it."""
        refused = pl.concat([rows.filter(_OF_LEADERS & _REFUSED) for rows in _passed(piece)])
        often = refused.group_by(_ASKED).len().filter(pl.col("len") >= LOOP).drop("len").with_row_index("asker")
        if often.is_empty():
            return FamilyResult()
        asking = often.select(_CLIENT).unique()
        rows = pl.concat([rows.join(asking, on=_CLIENT, how="semi") for rows in _passed(piece)])
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


def _passed(piece: Piece) -> Iterator[pl.DataFrame]:
    """What clients asked about a partition and got an answer to, some of it at a time."""
    passed = (pl.col("type") == Type.OK) & pl.col("client").is_not_null() & OF_OTHERS
    for rows in piece.parts("exchanges", Loops.reads["exchanges"]):
        yield rows.filter(passed & OF_A_PLACE)


def runs_of(refused: pl.DataFrame, rows: pl.DataFrame, often: pl.DataFrame) -> pl.DataFrame:
    """Refusals with no success between: how many, by whom, and whether one refused again after a refresh."""
    succeeded = rows.filter(_OF_LEADERS & (pl.col("error") == 0)).join(often, on=_ASKED)
    refreshed = rows.filter(pl.col("api") == METADATA).join(often, on=_CLIENT)
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


FAMILIES: tuple[Family, ...] = (Loops(),)
