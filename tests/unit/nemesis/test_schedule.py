"""From fault plans to slots."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from harness.clusters.external import ExternalCluster
from harness.clusters.node import Capability, Unavailable
from harness.foundation.config import parse
from harness.foundation.errors import CannotHere, UsageError
from harness.foundation.security import Security
from nemesis import FAULTS, check_plans, check_sense, check_slots, faults_on, resolve, schedule, scheduled
from nemesis.leadership import LeaderMove
from nemesis.schedule import FaultPlan, Slot, recorded, slot_seed, slots

SEED_OF_7 = 8304449839376387324
DRAWN_BY_7 = [
    ("c", 5.0, 6.247),
    ("a", 9.977, 12.127),
    ("c", 13.269, 16.053),
    ("a", 17.324, 19.029),
    ("b", 22.777, 24.162),
    ("b", 26.919, 28.811),
]


def plan(**settings: Any) -> FaultPlan:
    """A plan as a file would give it."""
    return parse(FaultPlan, {"fault": "leader-kill", **settings}, "a.toml")


def times(found: list[Slot]) -> list[tuple[float, float]]:
    """When the slots begin and end."""
    return [(slot.start_s, slot.end_s) for slot in found]


def test_a_plan_without_settings() -> None:
    """After 5 s, for 10 s, every 30 s, at whom the fault is made for."""
    assert times(slots([plan()], 60, 1)) == [(5, 15), (35, 45)]
    assert [(slot.target, slot.options) for slot in schedule([plan(times=1)], 60, 1)] == [("leader", {})]


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
    with pytest.raises(UsageError, match=r"'leader-kill' does not fit.*lasts 10 s: let the load last 15 s or more"):
        slots([plan()], 10, 1)


def test_a_list_with_times() -> None:
    """It comes then, and each time as long as it shall."""
    assert times(slots([plan(at=["5s", "20s", 40], **{"for": "2s"})], 60, 1)) == [(5, 7), (20, 22), (40, 42)]


def test_every_time_of_a_list_has_to_fit() -> None:
    """Who names a time means it."""
    with pytest.raises(UsageError, match=r"does not fit: it would end 50 s .* lasts 45 s: let the load last 50 s"):
        slots([plan(at=[5, 40])], 45, 1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"at": [5], "every": 30}, "'at' and 'every' of 'leader-kill' do not go together"),
        ({"at": [5], "times": 1}, "'at' and 'times'"),
        ({"at": [5], "after": 3}, "'at' and 'after'"),
        ({"at": [5], "quiet": 3}, "'at' and 'quiet'"),
        ({"quiet": 3, "every": 20}, "'quiet' and 'every'"),
        ({"at": [5, 14]}, "must rise by at least 10 s"),
        ({"at": [20, 5]}, "must rise by at least 10 s"),
        ({"at": ["soon"]}, "'at.0' is wrong"),
        ({"at": []}, "'at' of 'leader-kill' names no time"),
        ({"fault": "bandwidth", "rate": "fast"}, "'fast' is no rate"),
        ({"fault": "bandwidth", "rate": 0}, "0 is not between one byte and a terabyte per second"),
        ({"fault": "bandwidth", "rate": True}, "'rate' is wrong"),
        ({"quiet": 0, "for": 0}, "must be 0.1 s in all, or more"),
        ({"for": [5, 2]}, "begins with the shorter duration"),
        ({"for": [1, 2, 3]}, "a range has two durations"),
        ({"quiet": ["a", "b"]}, "'quiet' is wrong"),
        ({"for": ["2s", "40s"]}, "'every' must be at least 40 s"),
        ({"fault": []}, "at least one fault"),
        ({"fault": ["leader-kill", "leader-kill"]}, "each fault once"),
        ({"fault": [7]}, "fault"),
        ({"fault": None}, "fault"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, Any], said: str) -> None:
    """As a sentence."""
    with pytest.raises(UsageError) as refused:
        plan(**settings)
    assert said in str(refused.value)


def test_quiet_is_from_an_end_to_the_next_beginning() -> None:
    """However long the fault itself lasts."""
    assert times(slots([plan(quiet="3s", **{"for": "4s"})], 30, 1)) == [(5, 9), (12, 16), (19, 23), (26, 30)]


def test_ranges_are_drawn_from() -> None:
    """Each turn anew, to the millisecond; nothing before it ends."""
    found = slots([plan(quiet=["1s", "4s"], **{"for": ["2s", "3s"]})], 600, 1)
    lasted = {round(slot.end_s - slot.start_s, 6) for slot in found}
    rested = {round(later.start_s - earlier.end_s, 6) for earlier, later in itertools.pairwise(found)}
    assert len(lasted) > 50
    assert len(rested) > 50
    assert (min(lasted) >= 2, max(lasted) <= 3) == (True, True)
    assert (min(rested) >= 1, max(rested) <= 4) == (True, True)
    assert all(round(each, 3) == each for each in lasted | rested)


def test_a_mix_draws_one_of_its_faults_each_time() -> None:
    """All of them, in the long run, and not in turn."""
    names = ["leader-move", "leader-kill"]
    drawn = [slot.fault for slot in slots([plan(fault=names, **{"for": "1s"}, every="1s")], 200, 1)]
    assert set(drawn) == set(names)
    assert all(50 < drawn.count(name) < 150 for name in names)
    assert drawn not in ([names[0], names[1]] * 98, [names[1], names[0]] * 98)


def test_draws_stay_what_they_were() -> None:
    """The same seed gives the same schedule, in every version."""
    found = slots([plan(fault=["a", "b", "c"], quiet=[1, 5], **{"for": [1, 3]})], 30, 7)
    assert [(slot.fault, slot.start_s, slot.end_s) for slot in found] == DRAWN_BY_7


def test_drawing_less_shifts_nothing() -> None:
    """What a turn draws for one of its choices does not depend on the others."""
    mix = slots([plan(fault=["a", "b", "c"], quiet=2, **{"for": [1, 3]})], 30, 7)
    same = slots([plan(fault="a", quiet=2, **{"for": [1, 3]})], 30, 7)
    assert times(mix) == times(same)


def test_plans_are_called_by_their_faults() -> None:
    """As long as that is short."""
    assert plan(fault=["a", "b"]).title == "a+b"
    assert plan(fault=["a", "b", "c", "d"]).title == "mix"


def test_what_was_recorded_is_what_was_planned() -> None:
    """Through JSON and back."""
    found = schedule([plan(fault=["leader-move", "leader-kill"], quiet=[1, 5])], 60, 7)
    assert recorded(json.loads(json.dumps([vars(slot) for slot in found]))) == found


def row(**changes: Any) -> dict[str, Any]:
    """A slot as run.json has it."""
    return {**vars(Slot(1, "latency", "all", 5.0, 15.0, 1, {"by": 0.2}, 0)), **changes}


def test_what_was_left_out_of_a_record_is_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older version may not have known all options."""
    slow = type("Slow", (LeaderMove,), {"name": "slow", "roles": ("all", "leader"), "options": {"by": 0.2, "to": 3}})
    monkeypatch.setitem(FAULTS, "slow", slow)
    (found,) = scheduled([row(fault="slow", target="", options={"by": "300ms"})])
    assert (found.target, found.options) == ("all", {"by": 0.3, "to": 3})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"options": {"by": "soon"}}, "fault 1: 'by' is wrong: 'soon' is not a valid duration"),
        ({"options": {"by": -1}}, "fault 1: 'by' is wrong"),
        ({"options": {"probability": 7}}, "fault 1: 'probability' cannot be 7"),
        ({"options": {"rate": "fast"}}, "fault 1: 'rate' is wrong"),
        ({"options": {"fault": "kill"}}, "fault 1 has an option 'fault', which there is not"),
        ({"options": 5}, "schedule.0.options"),
        ({"fault": 7}, "schedule.0.fault"),
        ({"start_s": "5"}, "schedule.0.start_s"),
        ({"start_s": float("nan")}, "contradict each other"),
        ({"end_s": float("inf")}, "use 0 s to 7 days"),
        ({"number": 0}, "contradict each other"),
        ({"start_s": -5.0}, "contradict each other"),
    ],
)
def test_a_record_is_held_to_what_plans_may_say(changes: dict[str, Any], said: str) -> None:
    """One sentence for what makes no sense."""
    with pytest.raises(ValueError, match=re.escape(said)):
        scheduled([row(**changes)])


def test_an_unknown_fault_in_a_record_is_refused_as_elsewhere() -> None:
    """With what was perhaps meant."""
    with pytest.raises(UsageError, match=r"no nemesis 'latenc': did you mean 'latency'"):
        scheduled([row(fault="latenc")])


def test_a_slot_that_lasts_as_long_as_its_fault_may_is_not_too_long() -> None:
    """8.3 and 120 make a little more than 128.3, as computers add."""
    longest = plan(fault="leader-move", after=8.3, times=1, **{"for": "120s"})
    (found,) = schedule([longest], 200, 1)
    assert found.end_s - found.start_s > 120
    check_slots([found], Shelf(*Capability))


def test_a_fault_may_refuse_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a plan and in a slot; `random` leaves it out. It is asked with its defaults filled in."""

    def refuse(options: Any) -> str:
        return "a delay of nothing is none" if options["by"] == 0 and options["to"] == 3 else ""

    strict = {"name": "strict", "options": {"by": 0.2, "to": 3}, "refuse": staticmethod(refuse)}
    monkeypatch.setitem(FAULTS, "strict", type("Strict", (LeaderMove,), strict))
    every = Shelf(*Capability)
    check_sense([plan(fault="strict")])
    with pytest.raises(UsageError, match="'strict' would not bite so: a delay of nothing is none"):
        check_sense([plan(fault=["strict"], by=0)])
    with pytest.raises(UsageError, match="'strict' would not bite so"):
        check_slots([Slot(1, "strict", "leader", 5, 15, 1, {"by": 0})], every)
    assert "strict" in resolve([plan(fault="random", by="1s", to=3)], every)[0].faults
    with pytest.raises(CannotHere):
        resolve([plan(fault="random", by=0, to=3)], every)


def test_faults_are_made_with_tags_that_nobody_else_uses() -> None:
    """A rule of a scenario may be called tg1; two runs on one cluster have different ones. Others' felled are known."""
    makers = [faults_on(Shelf(*Capability), lambda: ["t"]) for _ in range(2)]
    slot = Slot(1, "leader-move", "leader", 5, 15, 1)
    made = [makers[0](slot), makers[0](replace(slot, number=2)), makers[1](slot, lambda: {3})]
    assert len({fault.context.tag for fault in made} | {"tg1", "tg2"}) == 5
    assert [set(fault.context.out_of_service()) for fault in made] == [set(), set(), {3}]


def test_choices_left_out_are_the_faults_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each fault of a mix its own; what is said is said for all."""
    slow = type("Slow", (LeaderMove,), {"name": "slow", "roles": ("all", "leader"), "options": {"by": 0.2, "to": 3}})
    monkeypatch.setitem(FAULTS, "slow", slow)
    made = schedule([plan(fault="slow", times=1), plan(fault="slow", times=1, target="leader", by="1s")], 60, 1)
    assert [(slot.target, slot.options) for slot in made] == [
        ("all", {"by": 0.2, "to": 3}),
        ("leader", {"by": 1.0, "to": 3}),
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fault": ["leader-kill", "leader-kil"]}, "did you mean 'leader-kill'?"),
        ({"fault": ["leader-move", "leader-kill"], "target": "moon"}, "'leader-move' cannot be aimed at 'moon'"),
        ({"fault": ["leader-move", "random"]}, "'random' is a mix of its own"),
        ({"fault": "randm"}, "did you mean 'random'?"),
        ({"fault": ["leader-move", "leader-kill"], "by": "1s"}, "'leader-move' does not take 'by'"),
        ({"for": ["1s", "500s"], "every": "500s"}, "'leader-kill' for 500 s is too long"),
    ],
)
def test_plans_that_make_no_sense_are_refused(settings: dict[str, Any], said: str) -> None:
    """In a mix, by the first fault that cannot do it."""
    with pytest.raises(UsageError) as refused:
        check_sense([plan(**settings)])
    assert said in str(refused.value)


class Shelf(ExternalCluster):
    """A cluster that can do what it is told."""

    def __init__(self, *able: Capability) -> None:
        super().__init__(("h:1",), Security())
        self.able = frozenset(able)

    def cannot(self, capability: Capability) -> Unavailable | None:
        """What it was not told."""
        return None if capability in self.able else Unavailable("it is on a shelf", "take it down")


def test_random_is_everything_that_is_possible_and_tame(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the names; what changes something for good is left out."""
    wild = type("Wild", (LeaderMove,), {"name": "a-wild-one", "tame": False})
    lasting = type("Lasting", (LeaderMove,), {"name": "b-lasting", "endless": True})
    for name in list(FAULTS):
        if name not in {"leader-move", "leader-kill"}:
            monkeypatch.delitem(FAULTS, name)
    monkeypatch.setitem(FAULTS, "a-wild-one", wild)
    monkeypatch.setitem(FAULTS, "b-lasting", lasting)
    plans = [plan(fault="random"), plan()]
    every = Shelf(*Capability)
    assert [each.faults for each in resolve(plans, every)] == [
        ("b-lasting", "leader-kill", "leader-move"),
        ("leader-kill",),
    ]
    assert resolve(plans, every, endless=False)[0].faults == ("leader-kill", "leader-move")
    assert resolve(plans, Shelf(Capability.ADMIN), endless=False)[0].faults == ("leader-move",)
    with pytest.raises(CannotHere, match="no such fault that is possible here with --cluster external"):
        resolve(plans, Shelf())


def test_random_with_wishes_is_everything_that_can_fulfil_them() -> None:
    """A role, an option, a duration."""
    every = Shelf(*Capability)
    for wishes, left, out in (
        ({"target": "all-but-leader"}, "packet-loss", "leader-move"),
        ({"period": "1s"}, "leader-churn", "leader-move"),
    ):
        (found,) = resolve([plan(fault="random", **wishes)], every)
        assert left in found.faults
        assert out not in found.faults
        check_plans([found], every)
    with pytest.raises(CannotHere, match="finds no such fault"):
        resolve([plan(fault="random", every="1h", **{"for": "1h"})], every)


def test_slots_are_checked_wherever_they_come_from() -> None:
    """Against what there is now, and what the cluster can do."""
    good = Slot(1, "leader-move", "leader", 5, 15, 1)
    check_slots([good], Shelf(Capability.ADMIN))
    for bad, said in (
        (replace(good, fault="flood"), "no nemesis 'flood'"),
        (replace(good, target="moon"), "cannot be aimed at 'moon'"),
        (replace(good, options={"by": 1}), "does not take 'by'"),
    ):
        with pytest.raises(UsageError, match=said):
            check_slots([bad], Shelf(Capability.ADMIN))
    with pytest.raises(CannotHere, match="'leader-move' is not possible here: it is on a shelf: take it down"):
        check_slots([good], Shelf())


def test_a_load_that_ends_by_itself_cannot_have_every_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says which one would."""
    lasting = type("Lasting", (LeaderMove,), {"name": "lasting", "endless": True})
    monkeypatch.setitem(FAULTS, "lasting", lasting)
    check_plans([plan(fault="lasting")], Shelf(Capability.ADMIN))
    with pytest.raises(UsageError, match=r"needs a load that runs until it is stopped.*use --workload stream"):
        check_plans([plan(fault="lasting")], Shelf(Capability.ADMIN), endless=False)


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
    with pytest.raises(UsageError, match="'times' cannot be 0"):
        plan(times=0)
