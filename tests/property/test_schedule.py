"""Schedules: what holds for any plans, any time and any seed."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from nemesis.schedule import Plan, Slot, slots

TENTHS = st.integers(1, 200).map(lambda tenths: tenths / 10)


@st.composite
def some_plans(draw: st.DrawFn) -> Plan:
    """A plan that has a turn within 60 s."""
    for_s = draw(TENTHS)
    settings = {
        "fault": draw(st.sampled_from(["leader-move", "leader-kill"])),
        "after": draw(TENTHS),
        "every": round(for_s + draw(TENTHS), 6),
        "for": for_s,
        "times": draw(st.none() | st.integers(1, 5)),
    }
    return Plan.model_validate(settings)


PLANS = st.lists(some_plans(), min_size=1, max_size=4)
SEEDS = st.integers(-(2**63), 2**63)


def unnumbered(found: list[Slot]) -> set[tuple[str, float, float, int]]:
    """The slots without their place among the others."""
    return {(slot.fault, slot.start_s, slot.end_s, slot.seed) for slot in found}


@given(PLANS, SEEDS)
def test_slots_are_in_order_and_in_time(plans: list[Plan], seed: int) -> None:
    """Numbered in the order of their beginnings, all over when the run is."""
    found = slots(plans, 60, seed)
    assert [slot.number for slot in found] == list(range(1, len(found) + 1))
    assert [slot.start_s for slot in found] == sorted(slot.start_s for slot in found)
    assert all(0 <= slot.start_s <= slot.end_s <= 60 for slot in found)


@given(PLANS, SEEDS)
def test_turns_of_one_plan_do_not_overlap(plans: list[Plan], seed: int) -> None:
    """The next begins when the one before is over."""
    for plan in plans:
        found = slots([plan], 60, seed)
        assert all(a.end_s <= b.start_s for a, b in itertools.pairwise(found))
        assert plan.times is None or len(found) <= plan.times


@given(PLANS, SEEDS)
def test_the_same_seed_gives_the_same_slots(plans: list[Plan], seed: int) -> None:
    """And no two slots share theirs."""
    found = slots(plans, 60, seed)
    assert found == slots(plans, 60, seed)
    assert len({slot.seed for slot in found}) == len(found)


@given(PLANS, some_plans(), SEEDS)
def test_another_plan_shifts_nothing(plans: list[Plan], another: Plan, seed: int) -> None:
    """What was there stays as it was, seeds included; the same for a longer run."""
    before = unnumbered(slots(plans, 60, seed))
    assert before <= unnumbered(slots([*plans, another], 60, seed))
    assert before <= unnumbered(slots(plans, 75, seed))
