"""What a run decides before anything starts."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.external import ExternalCluster
from harness.clusters.node import Capability, Unavailable
from harness.foundation.errors import CannotHere, Exit, UsageError
from harness.foundation.security import Security
from harness.runs.planning import equip, plan_of
from harness.runs.replay import Replay
from harness.runs.scenario import load
from nemesis.schedule import Slot


class Shelf(ExternalCluster):
    """A cluster that can do what it is told, and is given what it lacks."""

    def __init__(self, *able: Capability) -> None:
        super().__init__(("h:1",), Security())
        self.able = frozenset(able)
        self.given: frozenset[Capability] = frozenset()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it has now."""
        return frozenset({Capability.KILL}) | self.given

    def cannot(self, capability: Capability) -> Unavailable | None:
        """What it was not told."""
        return None if capability in self.able else Unavailable("it is on a shelf", "take it down")

    def equip(self, needs: Collection[Capability]) -> None:
        """Whatever that is."""
        self.given = frozenset(needs)


class Ears:
    """A view that keeps what happened."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def happened(self, text: str) -> None:
        """Keep it."""
        self.heard.append(text)


EVERYTHING = Shelf(*Capability)
RECORDED = Replay(Path("/store/x/y"), (Slot(1, "leader-move", "leader", 3.25, 7.5, 42, {}, 0),))


def scenario(*nemesis: Any, time: str = "60s", workload: str = "stream", **tap: Any) -> Any:
    """A scenario with these faults."""
    return load(None, {"workload": workload, "nemesis": list(nemesis), "time": time, "seed": 7, "tap": tap or None})


def test_the_same_seed_gives_the_same_plan() -> None:
    """Random ones included, as long as the cluster can do the same."""
    mixed = scenario({"fault": "random", "quiet": ["1s", "4s"], "for": ["1s", "2s"]}, "leader-kill")
    plan = plan_of(mixed, EVERYTHING)
    assert plan == plan_of(mixed, Shelf(*Capability))
    assert len({slot.fault for slot in plan}) > 3
    assert all(slot.target for slot in plan)


def test_what_is_not_possible_is_refused_with_what_is_missing() -> None:
    """Exit code 6, also for a fault of a mix that would not have been drawn."""
    for nemesis in ("leader-kill", "leader-move,leader-kill"):
        with pytest.raises(CannotHere, match="'leader-kill' is not possible here: it is on a shelf") as refused:
            plan_of(scenario({"fault": nemesis.split(","), "times": 1}), Shelf(Capability.ADMIN, Capability.KILL))
        assert refused.value.exit_code is Exit.CANNOT_HERE


def test_without_taps_their_faults_are_refused_and_not_drawn() -> None:
    """The rest goes on."""
    with pytest.raises(CannotHere, match="made at the taps, and there are none"):
        plan_of(scenario("latency", on=False), EVERYTHING)
    drawn = plan_of(scenario({"fault": "random", "every": "1s", "for": "1s"}, on=False), EVERYTHING)
    assert not {"latency", "reset", "drop-responses"} & {slot.fault for slot in drawn}


def test_a_load_that_ends_by_itself_has_no_fault_that_needs_one_that_goes_on() -> None:
    """Which workload does is in the message."""
    with pytest.raises(UsageError, match="use --workload stream"):
        plan_of(scenario("client-kill", workload="large-batch"), EVERYTHING)
    assert plan_of(scenario("client-kill"), EVERYTHING)


def test_a_replay_is_what_was_recorded_and_nothing_else() -> None:
    """Whatever the plans of the scenario would give; checked against this cluster all the same."""
    assert plan_of(scenario("leader-kill"), EVERYTHING, RECORDED) == list(RECORDED.slots)
    with pytest.raises(UsageError, match=r"end 7\.5 s into the load, which lasts 7 s"):
        plan_of(scenario(time="7s"), EVERYTHING, RECORDED)
    with pytest.raises(CannotHere, match="'leader-move' is not possible here"):
        plan_of(scenario(), Shelf(), RECORDED)
    assert plan_of(scenario("leader-kill"), EVERYTHING, Replay(Path("/store/x/z"), ())) == []


def test_what_the_nodes_are_given_is_told() -> None:
    """If it is anything."""
    ears: Any = Ears()
    equip(Shelf(), {Capability.KILL, Capability.PARTITION}, ears)
    equip(Shelf(), {Capability.KILL}, ears)
    assert ears.heard == ["the faults need it: nodes are prepared for partition"]
