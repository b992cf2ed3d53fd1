"""Committed offsets: what a group answers about its commits.

A group is a name: `name` of an operation, `detail` of an exchange. Events without a group, a topic or a partition are
left out, and so are topics that the workload deleted: their offsets go with them.

A *commit* is a COMMIT operation or an OffsetCommit exchange (api 8), with an offset >= 0. It is
*acknowledged* if the operation is `ok`, or if the exchange has type 1 and error 0. It *may have happened* from its
`invoked` on: until its `time` if it was acknowledged, else for ever; unless its operation is `fail`, or its exchange
has type 2. A TxnOffsetCommit exchange (api 28, not of type 2) may have happened for ever, and is never acknowledged:
the operations say how its transaction ended. An *answer* is a COMMITTED operation that is `ok`, or an OffsetFetch
exchange (api 9) with type 1 and error 0, with an offset; below 0 is none. The *last* commit before an answer is, of
those acknowledged with `time` < the answer's `invoked`, the one with the latest `invoked` (then the highest offset,
then the latest `time` and event).

committed-offset-vanished     the answer is none, and there is a last commit before it
committed-offset-regression   the answer is below the last commit, and whatever commit of that very offset may have
                              happened (`invoked` <= the answer's `time`) had ended before the last one was `invoked`:
                              so somebody who goes back on purpose, or late, explains it. What was committed without a
                              trace, by a client that was killed, is above the last commit or was before it

Findings of one group, place and set of tags are one, with their number. Tagged `transaction`: the last commit was an
operation in a transaction, and the answer one that need not wait for its end (an exchange, or an operation of a process
that reads what is not committed); such an end is acknowledged before it is seen everywhere. Tagged `moved`: the
coordinator may have moved since, and the one before it need not know that yet. The answer was invoked at most
COORDINATORS_KNOWN_NS after the last commit's `time`, and nothing shows that one node alone coordinates: that all
exchanges of the group and place with api 8 or 9, type 1 and error 0, one at least, have one and the same `node`.

All events of a group and place are in one piece: each piece is judged by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import polars as pl

from checkers.core.arrays import NEVER
from checkers.core.family import Family, FamilyResult, PiecewiseFamily
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from harness.foundation.protocol import Api
from harness.history.schema import F, Type

GROUP = ("group", "topic", "partition")
VANISHED, REGRESSION = "committed-offset-vanished", "committed-offset-regression"
COORDINATORS_KNOWN_NS = 10_000_000_000  # until everybody knows who coordinates what
_OK = pl.col("type") == Type.OK
_ACKNOWLEDGED = _OK & (pl.col("error") == 0)  # of an exchange
_MAY_HAVE_HAPPENED = pl.col("type") != Type.FAIL
_OF_AN_OFFSET = pl.col("offset") >= 0
_TOLD = pl.col("offset").is_not_null() & pl.col("invoked").is_not_null()


class CommittedOffsets(PiecewiseFamily):
    """Answers of groups against the commits before them."""

    name = "committed offsets"
    anomalies: ClassVar[Mapping[str, str]] = {
        REGRESSION: "a group answers with a lower offset than the one committed last",
        VANISHED: "a group answers that nothing is committed, after something was",
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "ops": ("event", "time", "process", "invoked", "f", "type", "topic", "partition", "offset", "txn", "name"),
        "exchanges": (
            "event", "time", "invoked", "type", "api", "node", "topic", "partition", "offset", "error", "detail"
        ),
    }  # fmt: skip

    def needs(self, run: RunContext) -> bool:
        """Whether anybody asked a group for its offsets."""
        return run.does(F.COMMITTED) or run.asks(Api.OFFSET_FETCH)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """Both anomalies."""
        done = operations(piece.ops, run, F.COMMIT, F.COMMITTED)
        seen = pl.concat([_exchanges(rows, run) for rows in piece.parts("exchanges", self.reads["exchanges"])])
        last = _with_last(_answers(done, seen, run), _acknowledged(done, seen))
        answers = last.join(_steady(seen), on=GROUP, how="left").with_columns(
            moved=pl.col("steady").is_null() & (pl.col("invoked") <= pl.col("committed_ns") + COORDINATORS_KNOWN_NS)
        )
        vanished = answers.filter(pl.col("shown") < 0)
        shown = answers.filter(pl.col("shown") >= 0)
        below = _unexplained(shown.filter(pl.col("committed") > pl.col("shown")), done, seen)
        findings = merge_findings((_found(VANISHED, vanished, run), _found(REGRESSION, below, run)), run.limit)
        return FamilyResult(findings, {REGRESSION: len(shown), VANISHED: len(vanished) + len(shown)})


def operations(ops: pl.DataFrame, run: RunContext, *functions: F) -> pl.DataFrame:
    """Operations of members, with their group."""
    return _of_groups(ops, run, pl.col("f").is_in([int(f) for f in functions]), "name")


def _exchanges(exchanges: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    of_offsets = pl.col("api").is_in([Api.OFFSET_COMMIT, Api.OFFSET_FETCH, Api.TXN_OFFSET_COMMIT])
    return _of_groups(exchanges, run, of_offsets, "detail")


def _of_groups(rows: pl.DataFrame, run: RunContext, chosen: pl.Expr, group: str) -> pl.DataFrame:
    named = rows.filter(chosen).rename({group: "group"})
    return named.filter(run.deletions.untouched(), *(pl.col(name).is_not_null() for name in GROUP))


def _acknowledged(done: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    """Acknowledged commits, the one that counts as the later one further down."""
    columns = (*GROUP, "invoked", "offset", "time", "event")
    of_ops = done.filter(pl.col("f") == F.COMMIT, _OK, _OF_AN_OFFSET).select(*columns, "txn")
    of_tap = seen.filter(pl.col("api") == Api.OFFSET_COMMIT, _ACKNOWLEDGED, _OF_AN_OFFSET)
    commits = pl.concat([of_ops, of_tap.select(*columns, pl.lit(None, pl.Int64).alias("txn"))])
    return commits.sort("invoked", "offset", "time", "event")


def _answers(done: pl.DataFrame, seen: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Answers; a loose one need not wait for the end of a transaction."""
    columns = (*GROUP, pl.col("offset").alias("shown"), "invoked", "time", "event")
    of_ops = done.filter(pl.col("f") == F.COMMITTED, _OK, _TOLD).select(*columns, loose=by(run.sees_aborted))
    of_tap = seen.filter(pl.col("api") == Api.OFFSET_FETCH, _ACKNOWLEDGED, _TOLD)
    return pl.concat([of_ops, of_tap.select(*columns, loose=pl.lit(value=True))])


def _with_last(answers: pl.DataFrame, commits: pl.DataFrame) -> pl.DataFrame:
    """Answers that have a last commit before them, with that."""
    known = (
        commits.select(*GROUP, "time", last=pl.row_index().cast(pl.Int64))
        .sort("time")
        .with_columns(pl.col("last").cum_max().over(GROUP))
    )
    joined = answers.sort("invoked").join_asof(
        known.rename({"time": "acknowledged"}), left_on="invoked", right_on="acknowledged", by=list(GROUP),
        strategy="backward", allow_exact_matches=False, check_sortedness=False,
    ).filter(pl.col("last").is_not_null())  # fmt: skip
    last = commits[joined["last"]]
    return joined.with_columns(
        committed=last["offset"], began=last["invoked"], committed_ns=last["time"], commit=last["event"],
        in_txn=joined["loose"] & last["txn"].is_not_null(),
    )  # fmt: skip


def _steady(seen: pl.DataFrame) -> pl.DataFrame:
    """Groups and places for which one node alone answered."""
    answered = seen.filter(pl.col("api").is_in([Api.OFFSET_COMMIT, Api.OFFSET_FETCH]), _ACKNOWLEDGED)
    nodes = answered.group_by(GROUP).agg(pl.col("node").n_unique().alias("nodes"), pl.col("node").first())
    one = (pl.col("nodes") == 1) & pl.col("node").is_not_null()
    return nodes.filter(one).select(*GROUP, steady=pl.lit(value=True))


def _unexplained(below: pl.DataFrame, done: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    """Of answers below the last commit those that no commit of what they show explains."""
    if below.is_empty():
        return below
    keys = [*GROUP, "shown"]
    tried = _tried(done, seen).sort("invoked").with_columns(pl.col("until").cum_max().over(keys))
    joined = below.drop("invoked").sort("time").join_asof(
        tried, left_on="time", right_on="invoked", by=keys, strategy="backward", check_sortedness=False
    )  # fmt: skip
    return joined.filter((pl.col("until") < pl.col("began")).fill_null(value=True))


def _tried(done: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    """Commits that may have happened, and until when."""

    def tried(rows: pl.DataFrame, sure: pl.Expr) -> pl.DataFrame:
        until = pl.when(sure).then("time").otherwise(NEVER)
        possible = rows.filter(_MAY_HAVE_HAPPENED, _OF_AN_OFFSET)
        return possible.select(*GROUP, "invoked", until=until, shown=pl.col("offset"))

    of_tap = pl.col("api") == Api.OFFSET_COMMIT
    return pl.concat([
        tried(done.filter(pl.col("f") == F.COMMIT), _OK),
        tried(seen.filter(of_tap | (pl.col("api") == Api.TXN_OFFSET_COMMIT)), of_tap & _ACKNOWLEDGED),
    ])  # fmt: skip


def _found(anomaly: str, wrong: pl.DataFrame, run: RunContext) -> Findings:
    """A finding per group, place and set of tags: the first answer, and how many there were."""
    first = wrong.sort("time", "event").group_by(*GROUP, "in_txn", "moved", maintain_order=True)
    one = first.agg(
        pl.all().first(), times=pl.len(), severity=(pl.col("committed") - pl.col("shown")).max()
    ).with_columns(
        tag=pl.when("in_txn").then(pl.lit("transaction")), moved=pl.when("moved").then(pl.lit("moved")),
        shown=pl.max_horizontal("shown", -1), shown_ns=pl.col("time"),
    )  # fmt: skip
    return make_findings(
        anomaly, one, run, offset="committed", time="committed_ns", until="shown_ns", events=("commit", "event"),
        tags=("tag", "moved"), severity="severity",
        facts=("group", "committed", "shown", "committed_ns", "shown_ns", "times"),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (CommittedOffsets(),)
