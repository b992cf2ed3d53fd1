"""Ctrl-C: the first ends the load, the second ends everything, and afterwards signals mean what they meant before."""

import os
import signal
import threading
from contextlib import suppress

import pytest

from harness.foundation.interrupts import FIRST, SECOND, StopRequest


def send(number: int = signal.SIGINT) -> None:
    """A signal to this very process, handled before this returns."""
    os.kill(os.getpid(), number)


def test_before_anything_was_recorded_the_first_ends_everything() -> None:
    """There is nothing yet that could be checked."""
    stop = StopRequest()
    with stop.listening(), pytest.raises(KeyboardInterrupt):
        send()
    assert stop.asked == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_ends_the_load_and_the_second_everything(number: int) -> None:
    """The first is only counted."""
    stop = StopRequest()
    stop.may_wait = True
    with stop.listening():
        send(number)
        assert stop.asked == 1
        with pytest.raises(KeyboardInterrupt):
            send(number)


def test_on_the_way_out_nobody_is_heard() -> None:
    """A third Ctrl-C must not keep the undoing from its end."""
    stop = StopRequest()
    with stop.listening():
        with pytest.raises(KeyboardInterrupt):
            send()
        send()


def test_signals_are_given_back() -> None:
    """After the run they mean what they meant before."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopRequest().listening():
        pass
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def answers(*, may_wait: bool, times: int) -> list[str]:
    """What the user is told, in the order of the signals."""
    stop = StopRequest()
    heard: list[str] = []
    stop.may_wait, stop.answer = may_wait, heard.append
    with stop.listening():
        for _ in range(times):
            with suppress(KeyboardInterrupt):
                send()
            for thread in threading.enumerate():
                if thread.name == "answer":
                    thread.join()
    return heard


def test_the_user_is_answered_at_once() -> None:
    """With what happens next."""
    assert answers(may_wait=True, times=2) == [FIRST, SECOND]
    assert answers(may_wait=False, times=1) == [SECOND]
