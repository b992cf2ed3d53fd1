"""What breaks a cluster under test: one module per family of fault.

    leadership   leaders are moved, elected, killed
    process      nodes are killed, paused, stopped, restarted
    partition    nodes are cut off from each other, or from clients
    network      what passes is lost, late or slow
    client       clients are killed and paused, and made to try again
    disk         the nodes' data and where it lies
    clocks       the nodes' time
    topics       replicas, partitions and settings of the topics in use

`FAULTS` names all of them. A fault plan becomes slots (`nemesis.schedule`), and the conductor (`nemesis.conductor`)
makes a fault for each slot when its time has come.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

from harness.clusters.base import Capability, Cluster
from harness.config import suggestion
from harness.errors import UsageError
from harness.tap.taps import Taps
from nemesis import client, clocks, disk, leadership, network, partition, process, topics
from nemesis.base import Clients, Fault, Field, refuse_unless_possible
from nemesis.schedule import Plan, Slot

FAMILIES = {
    module.__name__.rpartition(".")[2]: module.FAULTS
    for module in (leadership, process, partition, network, client, disk, clocks, topics)
}
FAULTS: dict[str, type[Fault]] = {fault.name: fault for faults in FAMILIES.values() for fault in faults}


def fault_named(name: str) -> type[Fault]:
    """The fault of this name."""
    if name not in FAULTS:
        raise UsageError(f"there is no nemesis '{name}'", suggestion(name, list(FAULTS)))
    return FAULTS[name]


def settle(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """The plans with every choice made that was left to the fault; an error for one that makes no sense."""
    return tuple(_settled(plan) for plan in plans)


def _settled(plan: Plan) -> Plan:
    fault = fault_named(plan.fault)
    target = plan.target or fault.roles[0]
    if target not in fault.roles:
        raise UsageError(f"'{fault.name}' cannot be aimed at '{target}'", suggestion(target, list(fault.roles)))
    for option in plan.options:
        if option not in fault.options:
            raise UsageError(f"'{fault.name}' does not take '{option}'", suggestion(option, list(fault.options)))
    if plan.for_ > fault.longest_s:
        raise UsageError(f"'{fault.name}' for {plan.for_:g} s is too long", f"it lasts {fault.longest_s:g} s at most")
    return plan.model_copy(update={"target": target, **fault.options, **plan.options})


def needs_of(plans: Sequence[Plan]) -> Collection[Capability]:
    """What the cluster has to be equipped with for all of them."""
    return frozenset().union(*(fault_named(plan.fault).needs for plan in plans))


def check_plans(plans: Sequence[Plan], cluster: Cluster, *, taps: bool = True) -> None:
    """An error for the first plan that cannot be carried out on this cluster, which need not be up."""
    for plan in plans:
        refuse_unless_possible(fault_named(plan.fault), cluster, taps=taps)


def faults_on(
    cluster: Cluster,
    topics_in_use: Callable[[], Sequence[str]],
    taps: Taps | None = None,
    clients: Clients | None = None,
) -> Callable[[Slot], Fault]:
    """What makes the fault of a slot: on this cluster, aimed at the topics in use, by chance from the slot's seed."""

    def make(slot: Slot) -> Fault:
        field = Field(
            cluster,
            topics_in_use,
            random.Random(slot.seed),  # noqa: S311 - chance, not secrets
            slot.target,
            options=slot.options,
            tag=f"tg{slot.number}",
            taps=taps,
            clients=clients,
        )
        return fault_named(slot.fault)(field)

    return make
