"""A run that takes too long is ended, once, and not before there is something to check."""

import threading

import pytest

from harness.foundation import interrupts as stopping
from harness.foundation.interrupts import StopAfter


def ended(stop: StopAfter) -> bool:
    """Whether the watcher has asked for the end."""
    for thread in threading.enumerate():
        if thread.name == "time limit":
            thread.join(10)
    return stop.out_of_time


def test_the_end_is_asked_for_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its user would, once."""
    monkeypatch.setattr(stopping, "TICK_S", 0.001)
    stop = StopAfter()
    stop.may_wait = True
    with stop.within(0):
        assert ended(stop)
    assert stop.asked == 1


def test_before_anything_can_be_checked_the_end_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would throw away what has begun."""
    monkeypatch.setattr(stopping, "TICK_S", 0.001)
    stop = StopAfter()
    with stop.within(0):
        pass
    assert not ended(stop)
    assert stop.asked == 0


def test_who_asked_before_is_not_overruled() -> None:
    """What the user stopped was not out of time."""
    stop = StopAfter()
    stop.asked = 1
    stop.end()
    assert not stop.out_of_time


def test_a_load_that_has_ended_is_not_asked_to_end() -> None:
    """What follows it takes as long as it takes, and the run is a whole one."""
    stop = StopAfter()
    stop.load_is_over = True
    stop.end()
    assert (stop.asked, stop.out_of_time) == (0, False)
