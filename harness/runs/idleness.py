"""Waiting in vain: for how long nothing of a load has moved, and what it waits for.

A load moves when a send gets its outcome, a record is read, or a worker ends. Time counts only while nothing is broken
on purpose: until a fault is over, and for as long as clients may take to recover from it, standing still is expected.
Nor does time count in which the harness itself did not run: a machine that is so busy may not have run anything else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

MOVING = ("ok", "fail", "info", "read")
SHOWN_FROM_S = 5.0
LONGEST_LOOK_S = 10.0  # between two looks; of a longer time the rest does not count


@dataclass
class Idleness:
    """How long nothing has moved; after `limit_s` more waiting is in vain."""

    limit_s: float
    clock: Callable[[], float] = time.monotonic
    _seen: tuple[int, ...] = ()
    _since_s: float = field(init=False)
    _looked_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._since_s = self._looked_s = self.clock()

    def look(self, counts: Mapping[str, int], ended: int, *, excused: bool = False) -> None:
        """Take in how far the load has come: its counts, and how many workers have ended."""
        now_s = self.clock()
        self._since_s += max(0.0, now_s - self._looked_s - LONGEST_LOOK_S)
        self._looked_s = now_s
        seen = (ended, *(counts[name] for name in MOVING))
        if excused or seen != self._seen:
            self._seen = seen
            self.begin()

    def begin(self) -> None:
        """Count from now on: something begins that may take as long again."""
        self._since_s = self._looked_s = self.clock()

    @property
    def lasted_s(self) -> float:
        """For how long nothing has moved."""
        return self.clock() - self._since_s

    @property
    def in_vain(self) -> bool:
        """Whether more waiting would change nothing."""
        return self.lasted_s >= self.limit_s

    def sentence(self, waits_for: str, patience_s: float | None = None) -> str:
        """What is waited for, once nothing has moved for a while; whoever waits may have a patience of its own."""
        if self.lasted_s < SHOWN_FROM_S:
            return ""
        return (
            f"waiting for {waits_for}: nothing has moved for {self.lasted_s:.0f} of {patience_s or self.limit_s:.0f} s"
        )


def waited_for(producers: Mapping[str, int], consumers: Mapping[str, int], *, sending: bool) -> str:
    """What a load waits for, by what its producers and consumers have done."""
    unanswered = producers["sent"] - producers["ok"] - producers["fail"] - producers["info"]
    parts = [f"answers to {unanswered:,} sends"] if sending and unanswered > 0 else []
    parts += [f"records ({consumers['read']:,} read, {producers['ok']:,} acknowledged)"] if not parts else []
    return parts[0]
