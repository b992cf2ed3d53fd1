"""What a run will do to its cluster: which fault comes when, and what the nodes have to be given for that."""

from __future__ import annotations

from collections.abc import Collection

from harness.clusters.base import Cluster
from harness.clusters.node import Capability
from harness.foundation.errors import UsageError
from harness.foundation.view import View
from harness.runs.replay import Replay
from harness.runs.scenario import Scenario
from nemesis import check_plans, check_slots, resolve, schedule
from nemesis.schedule import Slot
from workloads import find_workload


def plan_of(scenario: Scenario, cluster: Cluster, replay: Replay | None = None) -> list[Slot]:
    """Which fault comes when; an error for what this cluster, which is not up yet, cannot have."""
    workload = find_workload(scenario.workload)
    if workload.tap_rules(scenario.settings) and not scenario.tap.on:
        raise UsageError(
            f"what '{scenario.workload}' does to its clients happens at the taps, and there are none",
            "leave --no-tap out, or choose another workload",
        )
    stages = workload.stages(scenario.settings, len(scenario.nemesis))
    endless = not all(role.finite for stage in stages for role in stage)
    if replay:
        plan = replay.within(scenario.time)
    else:
        plans = resolve(scenario.nemesis, cluster, taps=scenario.tap.on, endless=endless)
        check_plans(plans, cluster, taps=scenario.tap.on, endless=endless)
        plan = schedule(plans, scenario.time, scenario.seed)
    check_slots(plan, cluster, taps=scenario.tap.on, endless=endless)
    return plan


def equip(cluster: Cluster, needs: Collection[Capability], view: View) -> None:
    """Give the nodes what the faults are made with, and say what that is."""
    had = cluster.capabilities
    cluster.equip(needs)
    if gained := sorted(cluster.capabilities - had):
        view.happened(f"the faults need it: nodes are prepared for {', '.join(gained)}")
