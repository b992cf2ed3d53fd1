"""What breaks a cluster under test: one module per family of fault.

    leadership   leaders are moved, elected, killed
    process      nodes are killed, paused, stopped, restarted
    partition    nodes are cut off from each other, or from clients
    network      what passes is lost, late or slow
    client       clients are killed and paused, and made to try again
    disk         the nodes' data and where it lies
    clocks       the nodes' time
    topics       replicas, partitions and settings of the topics in use
    sequences    several of these in a row, where one alone does no harm

Whatever module has `FAULTS` is a family; `FAULTS` in here names all of them. A fault plan becomes slots
(`nemesis.schedule`), and the conductor (`nemesis.conductor`) makes a fault for each slot when its time has come.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from harness.clusters.base import Cluster
from harness.clusters.node import Capability
from harness.foundation.config import suggestion
from harness.foundation.discovery import modules_with
from harness.foundation.errors import CannotHere, UsageError
from harness.tap.taps import Taps
from nemesis.base import Clients, Fault, FaultContext, refuse_unless_possible
from nemesis.schedule import RANDOM, FaultPlan, Slot, recorded, slots

FIRST = ("leadership", "process", "partition", "network", "client", "disk", "clocks", "topics", "sequences")


def families_in(directories: Iterable[str]) -> dict[str, tuple[type[Fault], ...]]:
    """The faults of each module of this package in these directories: in the order above, then by name."""
    modules = modules_with("FAULTS", __name__, directories, FIRST)
    return {module.__name__.rpartition(".")[2]: module.FAULTS for module in modules}


FAMILIES = families_in(__path__)
FAULTS: dict[str, type[Fault]] = {fault.name: fault for faults in FAMILIES.values() for fault in faults}


def fault_named(name: str) -> type[Fault]:
    """The fault of this name."""
    if name == RANDOM:
        raise UsageError(f"'{RANDOM}' is a mix of its own", "name no other fault with it, or only faults")
    if name not in FAULTS:
        raise UsageError(f"there is no nemesis '{name}'", suggestion(name, [*FAULTS, RANDOM]))
    return FAULTS[name]


def check_sense(plans: Sequence[FaultPlan]) -> None:
    """An error for a plan that asks a fault, or one of a mix, for what it does not do; whatever the cluster."""
    for plan in plans:
        for name in plan.faults if plan.fault != RANDOM else ():
            _check(fault_named(name), plan.target, plan.options, plan.longest_s)


def resolve(
    plans: Sequence[FaultPlan], cluster: Cluster, *, taps: bool = True, endless: bool = True
) -> tuple[FaultPlan, ...]:
    """The plans with `random` replaced by all faults that are possible here and leave nothing changed, in order.

    If such a plan has a target, options or a long duration, it stands for those faults that take them.
    """

    def possible(fault: type[Fault], plan: FaultPlan) -> bool:
        try:
            _check(fault, plan.target, plan.options, plan.longest_s)
            refuse_unless_possible(fault, cluster, taps=taps, endless=endless)
        except (CannotHere, UsageError):
            return False
        return fault.tame

    def resolved(plan: FaultPlan) -> FaultPlan:
        if plan.fault != RANDOM:
            return plan
        names = tuple(sorted(name for name, fault in FAULTS.items() if possible(fault, plan)))
        if not names:
            raise CannotHere(
                f"'{RANDOM}' finds no such fault that is possible here with --cluster {cluster.kind}",
                "see `tidegauge doctor` for what is missing, and `tidegauge list nemeses` for what faults take",
            )
        return plan.model_copy(update={"fault": names})

    return tuple(resolved(plan) for plan in plans)


def check_plans(plans: Sequence[FaultPlan], cluster: Cluster, *, taps: bool = True, endless: bool = True) -> None:
    """An error for the first plan that cannot be carried out: on this cluster, which need not be up, with this load."""
    check_sense(plans)
    for plan in plans:
        for name in plan.faults:
            refuse_unless_possible(fault_named(name), cluster, taps=taps, endless=endless)


def check_slots(found: Sequence[Slot], cluster: Cluster, *, taps: bool = True, endless: bool = True) -> None:
    """The same for slots, wherever they came from."""
    for slot in found:
        fault = fault_named(slot.fault)
        _check(fault, slot.target, slot.options, round(slot.end_s - slot.start_s, 6))
        refuse_unless_possible(fault, cluster, taps=taps, endless=endless)


def schedule(plans: Sequence[FaultPlan], time_s: float, seed: int) -> list[Slot]:
    """The slots, with every choice made that was left to the fault."""
    return [_chosen(slot) for slot in slots(plans, time_s, seed)]


def scheduled(rows: object) -> list[Slot]:
    """The same from what a run has recorded; ValueError for what cannot be understood."""
    return [_chosen(slot) for slot in recorded(rows)]


def _chosen(slot: Slot) -> Slot:
    fault = fault_named(slot.fault)
    return replace(slot, target=slot.target or fault.roles[0], options={**fault.options, **slot.options})


def needs_of(found: Sequence[Slot]) -> Collection[Capability]:
    """What the cluster has to be equipped with for all of them."""
    return frozenset().union(*(fault_named(slot.fault).needs for slot in found))


def _check(fault: type[Fault], target: str, options: Mapping[str, Any], lasts_s: float) -> None:
    if target and target not in fault.roles:
        raise UsageError(f"'{fault.name}' cannot be aimed at '{target}'", suggestion(target, list(fault.roles)))
    for option in options:
        if option not in fault.options:
            raise UsageError(f"'{fault.name}' does not take '{option}'", suggestion(option, list(fault.options)))
    if lasts_s > fault.longest_s:
        raise UsageError(f"'{fault.name}' for {lasts_s:g} s is too long", f"it lasts {fault.longest_s:g} s at most")
    if refused := fault.refuse({**fault.options, **options}):
        raise UsageError(f"'{fault.name}' would not bite so", refused)


class MakesFaults(Protocol):
    """Makes the fault of a slot."""

    def __call__(self, slot: Slot, out_of_service: Callable[[], Collection[int]] = ...) -> Fault:
        """Given what says which nodes other faults keep out of service at a moment."""


def faults_on(
    cluster: Cluster,
    topics_in_use: Callable[[], Sequence[str]],
    taps: Taps | None = None,
    clients: Clients | None = None,
) -> MakesFaults:
    """What makes the fault of a slot: on this cluster, aimed at the topics in use, by chance from the slot's seed."""
    token = secrets.token_hex(3)  # no rule of a user is called like that

    def make(slot: Slot, out_of_service: Callable[[], Collection[int]] = frozenset) -> Fault:
        context = FaultContext(
            cluster,
            topics_in_use,
            random.Random(slot.seed),  # noqa: S311 - chance, not secrets
            slot.target,
            options=slot.options,
            tag=f"tg{token}-{slot.number}",
            taps=taps,
            clients=clients,
            out_of_service=out_of_service,
        )
        return fault_named(slot.fault)(context)

    return make
