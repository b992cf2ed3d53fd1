"""Effects: what a bend may have done to an exchange, on its way to the broker or back."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Then = Literal["silence", "close", "reset"]


@dataclass(frozen=True)
class Delay:
    """Wait before it goes on."""

    seconds: float
    unless: asyncio.Event | None = dataclasses.field(default=None, compare=False)  # ends the wait


@dataclass(frozen=True)
class Hold:
    """Wait for the gate; `then` says what becomes of the client's connection meanwhile."""

    gate: asyncio.Event
    at_most_s: float = 600.0
    then: Then = "silence"


@dataclass(frozen=True)
class Drop:
    """It goes nowhere; `then` says what becomes of the connection."""

    then: Then = "silence"


@dataclass(frozen=True)
class Answer:
    """A response of ours."""

    response: Any
    is_old: bool = False  # a broker gave it, but not now: where it says that brokers are is no news


@dataclass(frozen=True)
class Duplicate:
    """The broker gets another request after this one, the same one unless a frame is given."""

    frame: bytes | None = None


@dataclass(frozen=True)
class Swap:
    """The next request overtakes this one."""

    at_most_s: float = 0.5


@dataclass(frozen=True)
class Close:
    """The connection with the client ends, in order or by a reset."""

    reset: bool = False
    after: Delay | None = None  # (requests) nothing passes for that long before


@dataclass(frozen=True)
class Changed:
    """Encode the message anew."""

    noticed: bool = True  # False: neither side can tell, so the exchange does not count as bent


CHANGED, UNNOTICED = Changed(), Changed(noticed=False)
Effect = Delay | Hold | Drop | Answer | Duplicate | Swap | Close | Changed
Effects = Sequence[Effect]
NOTHING: Effects = ()
