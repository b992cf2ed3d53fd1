"""Waiting in vain is known by what has not moved, and counts only while nothing is broken on purpose."""

from __future__ import annotations

import pytest

from harness.foundation.limits import Limits, patience_s
from harness.runs.idleness import Idleness, waited_for

NOTHING = {"sent": 0, "ok": 0, "fail": 0, "info": 0, "read": 0}


class HandClock:
    """Time that passes when a test says so."""

    now_s = 100.0

    def __call__(self) -> float:
        """What it shows."""
        return self.now_s


def test_nothing_moves_for_long_enough() -> None:
    """Sends that only leave are no movement: what counts is what becomes of them."""
    clock = HandClock()
    idle = Idleness(10, clock)
    idle.look(NOTHING, 0)
    clock.now_s += 9
    idle.look({**NOTHING, "sent": 50}, 0)
    assert not idle.in_vain
    clock.now_s += 1
    assert idle.in_vain


@pytest.mark.parametrize(("name", "ended"), [("ok", 0), ("fail", 0), ("info", 0), ("read", 0), ("sent", 1)])
def test_every_movement_begins_anew(name: str, ended: int) -> None:
    """An outcome, a record, or the end of a worker."""
    clock = HandClock()
    idle = Idleness(10, clock)
    idle.look(NOTHING, 0)
    clock.now_s += 9
    idle.look({**NOTHING, name: 1}, ended)
    clock.now_s += 9
    assert not idle.in_vain


def test_a_fault_excuses_standing_still() -> None:
    """Time counts from its end."""
    clock = HandClock()
    idle = Idleness(10, clock)
    idle.look(NOTHING, 0)
    clock.now_s += 60
    idle.look(NOTHING, 0, excused=True)
    assert not idle.in_vain
    clock.now_s += 10
    idle.look(NOTHING, 0)
    assert idle.in_vain


def test_a_wait_says_what_it_waits_for_once_it_is_worth_a_word() -> None:
    """And how long it will last."""
    clock = HandClock()
    idle = Idleness(25, clock)
    assert not idle.sentence("records")
    clock.now_s += 7
    assert idle.sentence("records") == "waiting for records: nothing has moved for 7 of 25 s"


def test_what_a_load_waits_for() -> None:
    """Answers while there are sends without one; records afterwards."""
    producers = {"sent": 5000, "ok": 4000, "fail": 1, "info": 0, "read": 0}
    consumers = {**NOTHING, "read": 3500}
    assert waited_for(producers, consumers, sending=True) == "answers to 999 sends"
    assert waited_for(producers, consumers, sending=False) == "records (3,500 read, 4,000 acknowledged)"


@pytest.mark.parametrize(
    ("watched", "in_group", "faults", "settings", "expected_s"),
    [
        (True, False, False, {}, 25),
        (False, False, False, {}, 32),
        (True, True, False, {}, 42),
        (True, False, True, {}, 32),
        (True, False, False, {"transaction_timeout_ms": 60_000}, 82),
    ],
)
def test_no_phase_ends_before_each_check_has_seen_enough(
    settings: dict[str, object], expected_s: float, *, watched: bool, in_group: bool, faults: bool
) -> None:
    """A stalled partition has to have stalled for as long as the check of it asks for, and a little more."""
    given = Limits().model_dump()
    assert patience_s(given, settings, watched=watched, in_group=in_group, faults=faults) == expected_s


def test_longer_limits_of_checks_make_for_longer_waits() -> None:
    """Whoever gives brokers more time gets runs that wait for longer."""
    given = Limits(no_progress_s=60.0).model_dump()
    assert patience_s(given, {}, watched=True, in_group=False, faults=False) == 62


def test_time_in_which_nobody_looked_hardly_counts() -> None:
    """The harness did not run, and perhaps nothing else did."""
    clock = HandClock()
    idle = Idleness(25, clock)
    clock.now_s += 60
    idle.look(NOTHING, 0)
    idle.begin()
    clock.now_s += 600
    idle.look(NOTHING, 0)
    assert (idle.lasted_s, idle.in_vain) == (10, False)
    clock.now_s += 10
    idle.look(NOTHING, 0)
    assert not idle.in_vain
    clock.now_s += 5
    assert idle.in_vain
