"""What breaks a cluster under test: one module per family of fault.

`FAULTS` names all of them. A fault plan becomes slots (`nemesis.schedule`), and the conductor (`nemesis.conductor`)
makes a fault for each slot when its time has come.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from harness.clusters.base import Cluster
from harness.config import suggestion
from harness.errors import UsageError
from nemesis.base import Fault, Field, refuse_unless_possible
from nemesis.leadership import LeaderKill, LeaderMove
from nemesis.schedule import Plan, Slot

FAULTS: dict[str, type[Fault]] = {fault.name: fault for fault in (LeaderMove, LeaderKill)}


def fault_named(name: str) -> type[Fault]:
    """The fault of this name."""
    if name not in FAULTS:
        raise UsageError(f"there is no nemesis '{name}'", suggestion(name, list(FAULTS)))
    return FAULTS[name]


def check_plans(plans: Sequence[Plan], cluster: Cluster) -> None:
    """An error for the first plan that cannot be carried out on this cluster, which need not be up."""
    for plan in plans:
        fault = fault_named(plan.fault)
        if plan.target not in fault.roles:
            known = list(fault.roles)
            raise UsageError(f"'{fault.name}' cannot be aimed at '{plan.target}'", suggestion(plan.target, known))
        if plan.for_ > fault.longest_s:
            raise UsageError(
                f"'{fault.name}' for {plan.for_:g} s is too long", f"it lasts {fault.longest_s:g} s at most"
            )
        refuse_unless_possible(fault, cluster)


def faults_on(cluster: Cluster, topics: Callable[[], Sequence[str]]) -> Callable[[Slot], Fault]:
    """What makes the fault of a slot: on this cluster, aimed at the topics in use, by chance from the slot's seed."""

    def make(slot: Slot) -> Fault:
        return fault_named(slot.fault)(Field(cluster, topics, random.Random(slot.seed), slot.target))  # noqa: S311

    return make
