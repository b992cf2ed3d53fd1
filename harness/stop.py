"""How a run is stopped by its user."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Counts what Ctrl-C (or SIGTERM) asked for: the first time ends the load, the second time everything.

    As long as nothing was recorded that could be checked (`may_wait` is false), the first time ends everything too.
    """

    def __init__(self) -> None:
        self.asked = 0
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
        if self.asked > 1 or not self.may_wait:
            self.ignore()
            raise KeyboardInterrupt
