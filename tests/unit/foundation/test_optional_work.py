"""What nobody waits for is given up by signals and by failures."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

import pytest

from harness.foundation import optional_work
from harness.foundation.interrupts import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_it_up(number: signal.Signals) -> None:
    """The first one already, which only ends the load."""
    stop = StopRequest()
    stop.may_wait = True
    assert optional_work.is_wanted()
    with stop.listening():
        os.kill(os.getpid(), number)
        assert not optional_work.is_wanted()


def test_a_failure_gives_it_up_before_anything_is_undone() -> None:
    """Undoing is when it would be done."""
    seen: list[bool] = []

    def fail() -> None:
        with ExitStack() as undo:
            undo.callback(lambda: seen.append(optional_work.is_wanted()))
            undo.push(optional_work.give_up_on_error)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert seen == [False]


def test_a_good_end_leaves_time_for_it() -> None:
    """Nothing was wrong."""
    with ExitStack() as undo:
        undo.push(optional_work.give_up_on_error)
    assert optional_work.is_wanted()
