"""How a run is stopped by its user, or because it takes too long."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from harness.foundation import optional_work

TICK_S = 0.2
FIRST = "interrupted: healing, then checking what there is; Ctrl-C again to quit"
SECOND = "quitting: undoing what was started"


class StopRequest:
    """Counts what Ctrl-C (or SIGTERM) asked for: the first time ends the load, the second time everything.

    As long as nothing was recorded that could be checked (`may_wait` is false), the first time ends everything too.
    The user is answered at once, in a thread: what was interrupted may be writing to the same screen.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.answer: Callable[[str], object] = lambda _: None
        self.may_wait = False
        self.load_is_over = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take both signals, and give them back."""
        before = {number: signal.signal(number, self._heard) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def ignore(self) -> None:
        """Nothing can be asked for any more: what goes on now is the way out."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _heard(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked += 1
        optional_work.give_up()
        ends = self.asked > 1 or not self.may_wait
        threading.Thread(target=self.answer, args=(SECOND if ends else FIRST,), name="answer", daemon=True).start()
        if ends:
            self.ignore()
            raise KeyboardInterrupt


class StopAfter(StopRequest):
    """A stop that asks for the end of the load by itself, once."""

    def __init__(self) -> None:
        super().__init__()
        self.out_of_time = False
        self._over = threading.Event()

    @contextmanager
    def within(self, limit_s: float) -> Iterator[None]:
        """Ask for the end when this has lasted so long; before anything can be checked, it waits for that."""
        deadline_s = time.monotonic() + limit_s

        def watch() -> None:
            while not self._over.wait(TICK_S):
                if time.monotonic() > deadline_s and self.may_wait:
                    self.end()
                    return

        threading.Thread(target=watch, name="time limit", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def end(self) -> None:
        """Time is up, unless the user has asked before, or the load has ended by itself."""
        if not self.asked and not self.load_is_over:
            self.out_of_time = True
            self.asked = 1
