"""Waiting until something holds."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], timeout_s: float, message: str, every_s: float = 0.2) -> None:
    """Until the condition holds, or TimeoutError with the message."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(message)
        time.sleep(every_s)
