"""What nodes answered about a partition, to probes and, with a tap, to any client: the rows that marks are read from.

An *answer* is a response without an error, to a probe or to anybody's request that passed the tap and was answered. It
was given somewhere between `invoked` (its request left) and `time` (its response was there). It shows

    a high watermark, a last stable offset and a log start   to Fetch
    an end, a last stable offset or a log start              to ListOffsets (latest, latest committed or earliest)

as far as they are not null; a last stable offset or a log start that is negative is none. `told` is the leader epoch
that it names for certain: that of the request of a Fetch, and that of whoever answered a ListOffsets (but for the
earliest offset, where it is the epoch of a record); null if none, or negative.

An answer is *led*, only a leader can have given it, if it is to ListOffsets, to a probe, or to a Fetch of a version
below 11 that named its leader epoch. Followers answer Fetch too, from version 11 on, with marks that lag by design.

`life` is the era of a topic that the workload deleted (`checkers.deletions`), else 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers.frame import PLACE, History, together
from harness.history import Kind, Type, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTLING_NS = 2_000_000_000
FETCH, LIST_OFFSETS, METADATA = 1, 2, 3
FETCH_OF_FOLLOWERS = 11  # the first version that they answer
EVERYWHERE = -(1 << 40)  # the scope of answers that are compared with those of all nodes


def answers(history: History, *, every_view: bool = True) -> DataFrame:
    """A row per answer, and per batch of a Fetch; without `every_view` only those that show a watermark or an end."""
    views = ", ".join(str(int(view)) for view in (View if every_view else (View.LATEST,)))
    of_a_place = "topic is not null and partition is not null"
    chosen = f"{of_a_place} and error = 0 and (api = {FETCH} or (api = {LIST_OFFSETS} and view in ({views})))"
    life = history.deletions.era("invoked", "time")
    frames = []
    if history.has(Kind.PROBE):
        frames.append(_marks(history.probes.where(chosen), "true", f"{EVERYWHERE}L", "event", life))
    if history.has(Kind.EXCHANGE):
        of_leader = f"api = {FETCH} and api_version < {FETCH_OF_FOLLOWERS} and leader_epoch >= 0"
        led = f"coalesce(api = {LIST_OFFSETS} or ({of_leader}), false)"
        scope = f"if({of_leader}, {EVERYWHERE}L, coalesce(node, -1))"
        # a Fetch has a row for each batch: its number makes one answer of them
        frames.append(_marks(exchanges(history).where(chosen), led, scope, "coalesce(op, event)", life))
    return together(frames) if frames else _marks(history.probes, "true", f"{EVERYWHERE}L", "event", life)


def _marks(rows: DataFrame, led: str, scope: str, answer: str, life: str) -> DataFrame:
    def of(view: View) -> str:
        return f"if(view = {view:d}, offset, null)"

    def known(mark: str) -> str:
        return f"if({mark} >= 0, {mark}, null)"

    of_leader = f"leader_epoch >= 0 and not (api = {LIST_OFFSETS} and view = {View.EARLIEST:d})"
    return rows.selectExpr(
        "api", *PLACE, f"{life} as life", f"cast({scope} as bigint) as scope", f"{led} as led", f"{answer} as answer",
        "node", "invoked", "time", "event",
        f"if(api = {FETCH}, high_watermark, {of(View.LATEST)}) as shown",
        f"{known(f'if(api = {FETCH}, last_stable_offset, {of(View.LATEST_COMMITTED)})')} as stable",
        f"{known(f'if(api = {FETCH}, log_start, {of(View.EARLIEST)})')} as start",
        f"if({of_leader}, leader_epoch, null) as told",
    )  # fmt: skip


def exchanges(history: History) -> DataFrame:
    """What clients were told of a partition."""
    told = f"type = {Type.OK:d} and topic is not null and partition is not null"
    return history.kind(Kind.EXCHANGE).where(told)


def epochs(history: History) -> DataFrame:
    """Per partition and life its leader epochs in rising order, each with the moment at which it was shown first."""
    from pyspark.sql import functions as sql

    frames = [history.probes, *([exchanges(history)] if history.has(Kind.EXCHANGE) else [])]
    shown = f"api = {METADATA} and error = 0 and leader_epoch >= 0"
    columns = (*PLACE, f"{history.deletions.era('invoked', 'time')} as life", "leader_epoch", "time")
    return (
        together([frame.where(shown).selectExpr(*columns) for frame in frames])
        .groupBy(*PLACE, "life", "leader_epoch")
        .agg(sql.min("time").alias("seen"))
        .groupBy(*PLACE, "life")
        .agg(sql.expr("array_sort(collect_list(struct(leader_epoch, seen)))").alias("epochs"))
    )


def deposed(told: str, until: str) -> str:
    """SQL: whether a higher epoch than that was shown SETTLING_NS after this moment at the latest."""
    return f"exists(epochs, e -> e.leader_epoch > {told} and e.seen <= try_add({until}, {SETTLING_NS}))"
