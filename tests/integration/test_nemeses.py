"""Every fault on every kind of cluster it is offered on: it bites, it goes, and the cluster is whole again.

They need real nodes: only they show whether a fault takes effect. All but the quick ones run at night.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from harness.clusters.node import Capability
from harness.clusters.spec import make_cluster
from harness.foundation.errors import CannotHere
from harness.foundation.progress import SilentProgress
from nemesis import FAMILIES, FAULTS
from nemesis.base import Fault, refuse_unless_possible
from tests.integration.fault_stage import Stage, spec_of, stage
from tests.support import docker_or_skip

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

KINDS = ("local", "docker")
CLIENTS = {"client-kill", "client-pause"}  # need a load of worker processes: they are played in whole runs
# Those that are over in a few seconds are tried at every change, on processes; all of them, and containers, nightly.
QUICK = {
    "leader-move", "preferred-election", "leader-churn", "pause-all", "replication-cut", "client-cut", "packet-loss",
    "bandwidth", "latency", "reset", "drop-responses", "hold-end-txn", "disk-slow", "add-partitions", "min-isr",
    "shrink-replicas",
}  # fmt: skip
Stages = Callable[[str, type[Fault]], Stage]


@pytest.fixture(scope="module")
def stages() -> Iterator[Stages]:
    """One cluster of each kind for all faults, with all that can be had but the clocks, which make nodes slow."""
    with ExitStack() as open_stages:
        known: dict[tuple[str, bool], Stage] = {}

        def on(kind: str, fault: type[Fault]) -> Stage:
            clocks = Capability.CLOCK in fault.needs
            if (kind, clocks) not in known:
                cluster = make_cluster(spec_of(kind), SilentProgress())
                wanted = set(Capability) - ({Capability.CLOCK} if not clocks else set())
                needs = {capability for capability in wanted if not cluster.cannot(capability)}
                known[kind, clocks] = open_stages.enter_context(stage(kind, needs, transactions=True))
            return known[kind, clocks]

        yield on


def cases() -> Iterator[Any]:
    """Each fault on each kind; what is not quick is for the night."""
    for kind in KINDS:
        for name in FAULTS:
            marks = [pytest.mark.docker] if kind == "docker" else []
            marks += [] if kind == "local" and name in QUICK else [pytest.mark.nightly]
            if name not in CLIENTS:
                yield pytest.param(kind, name, id=f"{kind}-{name}", marks=marks)


@pytest.mark.parametrize(("kind", "name"), list(cases()))
def test_a_fault_bites_and_heals(
    stages: Stages, kind: str, name: str, record_property: Callable[[str, object], None]
) -> None:
    """Injected, proven, undone twice, and afterwards every replica in sync and messages acknowledged."""
    fault = FAULTS[name]
    if kind == "docker":
        docker_or_skip()
    try:
        refuse_unless_possible(fault, make_cluster(spec_of(kind), SilentProgress()))
    except CannotHere as refused:
        pytest.skip(str(refused))
    carried = stages(kind, fault).carry_out(fault)
    record_property("proof", carried.proof)
    record_property("bit_after_s", carried.bit_after_s)
    record_property("whole_after_s", carried.whole_after_s)


def test_each_family_is_tried_at_every_change() -> None:
    """But for the clocks, which need what is rarely there, and for what takes several faults in a row."""
    assert set(FAULTS) >= QUICK
    for family, faults in FAMILIES.items():
        assert family in {"clocks", "sequences"} or QUICK & {fault.name for fault in faults}, family
