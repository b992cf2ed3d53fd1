"""What a run would do, without doing it: its cluster, its load, its faults, and about how long it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.clusters.spec import make_cluster
from harness.foundation.progress import SilentProgress
from harness.runs.planning import plan_of
from harness.runs.replay import Replay
from harness.runs.scenario import Scenario
from nemesis.schedule import Slot
from workloads import find_workload

# What the phases around a load take on two cores, roughly.
FINISH_S = 12.0  # from the end of the load to the report
RECOVERY_S = 5.0  # after faults


@dataclass(frozen=True)
class DryRun:
    """The plan."""

    scenario: Scenario
    product: str
    slots: tuple[Slot, ...]
    ends_by_itself: bool

    @property
    def expected_s(self) -> float:
        """About how long the run takes, at most."""
        start_s = self.scenario.cluster.of.start_s
        recovery_s = RECOVERY_S if self.slots else 0.0
        return start_s + self.scenario.settings.topic_age_s + self.scenario.time + recovery_s + FINISH_S

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "scenario": self.scenario.as_file(),
            "product": self.product,
            "schedule": [vars(slot) for slot in self.slots],
            "expected_s": self.expected_s,
        }

    def lines(self) -> list[tuple[str, str]]:
        """For people: titles and texts."""
        until = "at most " if self.ends_by_itself else ""
        settings, time_s = self.scenario.settings, self.scenario.time
        rows = [
            ("cluster", self.product),
            ("load", f"{self.scenario.workload} for {until}{time_s:g} s, {settings.client}, acks={settings.acks}"),
        ]
        faults = [f"{slot.start_s:g} s to {slot.end_s:g} s: {slot.fault}, {slot.target}" for slot in self.slots]
        rows += [("faults" if not number else "", text) for number, text in enumerate(faults or ["none"])]
        rows += [("bug", name) for name in self.scenario.tap.broken]
        rows += [("seed", str(self.scenario.seed)), ("takes", f"{until or 'about '}{self.expected_s:.0f} s")]
        return rows


def dry_run(scenario: Scenario, replay: Replay | None = None) -> DryRun:
    """Plan it; an error for what could not be run."""
    spec = scenario.cluster
    assumed = spec.of.assumed(spec)
    slots = plan_of(scenario, make_cluster(assumed, SilentProgress()), replay)
    target = spec.of.target(spec)
    product = (
        f"{target.name} {target.version}, {target.nodes} nodes, {spec.kind}" if target else ",".join(spec.bootstrap)
    )
    stages = find_workload(scenario.workload).stages(scenario.settings, len(slots))
    finite = all(role.finite for stage in stages for role in stage)
    return DryRun(scenario, product, tuple(slots), finite)
