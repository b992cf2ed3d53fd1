"""Schedules: what holds for any plans, any time and any seed."""

from __future__ import annotations

import itertools
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nemesis.schedule import FaultPlan, Slot, recorded, slots

TENTHS = st.integers(1, 200).map(lambda tenths: tenths / 10)


NAMES = ["leader-move", "leader-kill", "pause"]


@st.composite
def some_plans(draw: st.DrawFn) -> FaultPlan:
    """A plan that has a turn within 60 s, of any of the three forms."""
    for_s = sorted([draw(TENTHS), draw(TENTHS)])
    settings: dict[str, Any] = {
        "fault": draw(st.sampled_from(NAMES) | st.lists(st.sampled_from(NAMES), min_size=1, unique=True)),
        "for": draw(st.sampled_from([for_s, for_s[1]])),
    }
    form = draw(st.sampled_from(["every", "quiet", "at"]))
    if form == "at":
        first_s = draw(TENTHS)
        return FaultPlan.model_validate({**settings, "at": [first_s, round(first_s + for_s[1], 6)]})
    settings |= {"after": draw(TENTHS), "times": draw(st.none() | st.integers(1, 5))}
    if form == "quiet":
        return FaultPlan.model_validate({**settings, "quiet": draw(st.sampled_from([for_s, for_s[0], 0]))})
    return FaultPlan.model_validate({**settings, "every": round(for_s[1] + draw(TENTHS), 6)})


PLANS = st.lists(some_plans(), min_size=1, max_size=4)
SEEDS = st.integers(-(2**63), 2**63)


def unnumbered(found: list[Slot]) -> set[tuple[str, float, float, int]]:
    """The slots without their place among the others."""
    return {(slot.fault, slot.start_s, slot.end_s, slot.seed) for slot in found}


@given(PLANS, SEEDS)
def test_slots_are_in_order_and_in_time(plans: list[FaultPlan], seed: int) -> None:
    """Numbered in the order of their beginnings, all over when the run is."""
    found = slots(plans, 60, seed)
    assert [slot.number for slot in found] == list(range(1, len(found) + 1))
    assert [slot.start_s for slot in found] == sorted(slot.start_s for slot in found)
    assert all(0 <= slot.start_s <= slot.end_s <= 60 for slot in found)


@given(PLANS, SEEDS)
def test_turns_of_one_plan_do_not_overlap(plans: list[FaultPlan], seed: int) -> None:
    """The next begins when the one before is over; each is a fault of the plan, and lasts as long as it may."""
    for plan in plans:
        found = slots([plan], 60, seed)
        assert all(a.end_s <= b.start_s for a, b in itertools.pairwise(found))
        assert plan.times is None or len(found) <= plan.times
        assert {slot.fault for slot in found} <= set(plan.faults)
        assert all(slot.end_s - slot.start_s <= plan.longest_s + 1e-6 for slot in found)


@given(PLANS, SEEDS)
def test_what_was_recorded_is_the_same_again(plans: list[FaultPlan], seed: int) -> None:
    """Through JSON."""
    found = slots(plans, 60, seed)
    assert recorded(json.loads(json.dumps([vars(slot) for slot in found]))) == found


@given(PLANS, SEEDS)
def test_the_same_seed_gives_the_same_slots(plans: list[FaultPlan], seed: int) -> None:
    """And no two slots share theirs."""
    found = slots(plans, 60, seed)
    assert found == slots(plans, 60, seed)
    assert len({slot.seed for slot in found}) == len(found)


@given(PLANS, some_plans(), SEEDS)
def test_another_plan_shifts_nothing(plans: list[FaultPlan], another: FaultPlan, seed: int) -> None:
    """What was there stays as it was, seeds included; the same for a longer run."""
    before = unnumbered(slots(plans, 60, seed))
    assert before <= unnumbered(slots([*plans, another], 60, seed))
    assert before <= unnumbered(slots(plans, 75, seed))
