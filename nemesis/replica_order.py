"""The order of a partition's replicas: the first is the preferred leader, and a new order needs no copying."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from harness.clusters.cluster_view import ClusterView, TopicPartition
from harness.clusters.waiting import wait_until
from harness.foundation.errors import ClusterError
from harness.foundation.protocol import ErrorCode
from nemesis.admin.asking import RETRY_EVERY_S, until_done
from nemesis.admin.replicas import DONE, election, is_reassigning, reassignment
from nemesis.base import FaultContext

# The first replica may be out of sync: whoever leads goes on leading.
MAYBE_LATER = {*DONE, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
REASSIGNED_TIMEOUT_S = 10.0  # for somebody else who gives a partition other replicas

Orders = Mapping[TopicPartition, tuple[int, ...]]


def put_in_order(context: FaultContext, orders: Orders, elected: Collection[int]) -> None:
    """The replicas in this order, which needs no copying, and an election of the first ones, all at once."""
    names = ", ".join(f"{topic}-{partition}" for topic, partition in orders)
    until_done(context.cluster, f"reassigning {names}", reassignment(orders), DONE)
    until_done(context.cluster, f"electing a leader of {names}", election(orders), elected)


def put_back_in_order(context: FaultContext, old: Orders) -> None:
    """The replicas that there are now in their old order: which ones they are may be somebody else's business."""
    views: list[ClusterView] = []

    def settled() -> bool:
        views[:] = [context.look_again(old)]
        moving = (is_reassigning(context.cluster, *key) for key in old if key in views[0].partitions)
        return bool(views[0].answers) and not any(moving)

    with suppress(TimeoutError):
        wait_until(settled, REASSIGNED_TIMEOUT_S, "replicas are being moved", RETRY_EVERY_S)
    if not views[0].answers:
        raise ClusterError("no node answers, so no replicas can be put in their old order", "start the nodes first")
    if orders := _as_before(views[0], old):
        put_in_order(context, orders, MAYBE_LATER)


def out_of_order(context: FaultContext, old: Orders) -> str:
    """Which replicas are not in their old order, in a few words; of a topic that is gone, none."""
    view = context.look_again(old)
    if not view.answers:
        return "no node says in which order the replicas are"
    return "; ".join(
        f"the replicas of {topic}-{partition} are not {', '.join(map(str, replicas))}"
        for (topic, partition), replicas in _as_before(view, old).items()
        if view.partitions[topic, partition].replicas != replicas
    )


def _as_before(view: ClusterView, old: Orders) -> Orders:
    """Those of the old replicas that are there, in the old order, and whoever has come since behind them."""
    now = {key: view.partitions[key].replicas for key in old if key in view.partitions}
    return {
        key: (*(each for each in old[key] if each in replicas), *(each for each in replicas if each not in old[key]))
        for key, replicas in now.items()
    }


def put_first(heir: int, replicas: tuple[int, ...]) -> tuple[int, ...]:
    """The same replicas, this one before the others."""
    return heir, *(replica for replica in replicas if replica != heir)
