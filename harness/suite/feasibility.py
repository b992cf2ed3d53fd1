"""What each case needs of a cluster, whether this machine has it, and in which order cases run: before anything starts.

A case that this machine, this kind of cluster or the product that was asked for cannot do is told as skipped, with the
reason. One that could never be run anywhere is an error of the suite. Cases on one cluster come together, in the order
of the file, those that spoil it last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.clusters.node import Capability
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.errors import CannotHere, UsageError
from harness.foundation.progress import SilentProgress
from harness.runs.planning import plan_of
from harness.suite.spec import SuiteCase
from nemesis import check_sense, fault_named, needs_of

SPOILING = frozenset({Capability.FILES, Capability.DISK, Capability.CLOCK})  # what is done to these may leave something
Prepare = Callable[[ClusterSpec], ClusterSpec]  # makes sure of the image, where there is one


@dataclass(frozen=True)
class PlannedCase:
    """A case, and what it takes."""

    case: SuiteCase
    cluster: ClusterSpec
    needs: frozenset[Capability] = frozenset()
    spoils: bool = False  # whether the cluster may be another one afterwards
    skipped: str = ""  # why it cannot be had here


def planned(cases: Sequence[SuiteCase], prepare: Prepare) -> list[PlannedCase]:
    """All of them, in the order in which they are run."""
    found = [_plan(case, prepare) for case in cases]
    specs = list(dict.fromkeys(each.cluster for each in found))
    return sorted(found, key=lambda each: (specs.index(each.cluster), each.spoils))


def _plan(case: SuiteCase, prepare: Prepare) -> PlannedCase:
    spec = case.scenario.cluster
    try:
        check_sense(case.scenario.nemesis)
        if case.cannot:
            return PlannedCase(case, spec, skipped=case.cannot)
        spec = prepare(spec)
        # the seed decides when faults of a mix come, and no seed asks for more than the whole mix does
        slots = plan_of(case.scenario, make_cluster(spec, SilentProgress()))
    except CannotHere as error:
        return PlannedCase(case, spec, skipped=str(error))
    except UsageError as error:
        raise UsageError(f"the case {case.name} could never be run: {error.message}", error.remedy) from None
    faults = {name for plan in case.scenario.nemesis for name in plan.faults if name != "random"}
    faults |= {slot.fault for slot in slots}
    kinds = [fault_named(name) for name in faults]
    needs = frozenset[Capability]().union(needs_of(slots), *(kind.needs for kind in kinds))
    return PlannedCase(case, spec, needs, any(kind.needs & SPOILING or not kind.tame for kind in kinds))
