"""From fault plans to slots."""

from __future__ import annotations

from typing import Any

import pytest

from harness.config import parse
from harness.errors import UsageError
from nemesis.schedule import Plan, Slot, slot_seed, slots

SEED_OF_7 = 8304449839376387324


def plan(**settings: Any) -> Plan:
    """A plan as a file would give it."""
    return parse(Plan, {"fault": "leader-kill", **settings}, "a.toml")


def times(found: list[Slot]) -> list[tuple[float, float]]:
    """When the slots begin and end."""
    return [(slot.start_s, slot.end_s) for slot in found]


def test_a_plan_without_settings() -> None:
    """After 5 s, for 10 s, every 30 s, at the leader."""
    assert times(slots([plan()], 60, 1)) == [(5, 15), (35, 45)]
    assert plan().target == "leader"


def test_durations_are_written_as_people_do() -> None:
    """With their units."""
    found = slots([plan(after="500ms", every="2s", times=2, **{"for": "1.5s"})], 60, 1)
    assert times(found) == [(0.5, 2), (2.5, 4)]


def test_what_would_not_end_in_time_is_left_out() -> None:
    """A slot that ends with the run is in, one that ends later is not."""
    assert times(slots([plan()], 45, 1)) == [(5, 15), (35, 45)]
    assert times(slots([plan()], 44.9, 1)) == [(5, 15)]


def test_a_plan_that_never_comes_is_refused() -> None:
    """With how long the run would have to be."""
    with pytest.raises(UsageError, match=r"'leader-kill' would never come.*lasts 10 s: let the load last 15 s or more"):
        slots([plan()], 10, 1)


def test_plans_are_merged_in_order_of_time() -> None:
    """Numbered from one in that order; at the same moment, the first plan is first."""
    found = slots([plan(after=6), plan(fault="leader-move", after=0), plan(fault="leader-move", after=6)], 20, 1)
    assert [(slot.number, slot.fault, slot.start_s) for slot in found] == [
        (1, "leader-move", 0),
        (2, "leader-kill", 6),
        (3, "leader-move", 6),
    ]


def test_no_plans_no_slots() -> None:
    """A run without faults."""
    assert slots([], 60, 1) == []


def test_seeds_depend_on_the_run_the_plan_and_the_turn() -> None:
    """Any other of the three gives another seed, and each fits a signed 64-bit integer."""
    seeds = {slot_seed(run, index, nth) for run in (0, 1, -1) for index in range(3) for nth in range(3)}
    assert len(seeds) == 27
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_seeds_stay_what_they_were() -> None:
    """A recorded run is repeated by its seed: this number must never change."""
    assert slot_seed(7, 0, 0) == SEED_OF_7


def test_overlapping_turns_are_refused() -> None:
    """One turn must be over when the next begins; a single turn may last."""
    with pytest.raises(UsageError, match=r"every 5 s and last 10 s: 'every' must be at least 10 s"):
        plan(every=5)
    with pytest.raises(UsageError, match=r"'every' must be at least 0\.1 s"):
        plan(every=0, **{"for": 0})
    assert times(slots([plan(every=5, times=1)], 60, 1)) == [(5, 15)]


def test_mistakes_are_told_with_their_place() -> None:
    """An unknown key, a wrong number."""
    with pytest.raises(UsageError, match="unknown key 'evry': did you mean 'every'"):
        plan(evry=3)
    with pytest.raises(UsageError, match="'times' is wrong"):
        plan(times=0)
