"""How sentences name the facts of findings: times, durations, messages, nodes, partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from checkers.core.results import Finding
from harness.history.schema import ID_BITS

MS = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND


@dataclass(frozen=True)
class Wording:
    """How facts are named: what a run calls things."""

    first_ns: int = 0  # when its history began
    foreign: bool = False  # the upper bits of a value say nothing

    def at(self, time_ns: int | None) -> str:
        """A moment since the history began."""
        return "an unknown time" if time_ns is None else f"{(time_ns - self.first_ns) / SECOND:.3f} s"

    @staticmethod
    def lasted(time_ns: int) -> str:
        """How long something took, in the unit that suits it."""
        if abs(time_ns) < MS:
            return f"{time_ns / 1000:.0f} µs"
        if abs(time_ns) < SECOND:
            return f"{time_ns / MS:.0f} ms"
        return f"{time_ns / SECOND:.1f} s" if abs(time_ns) < 10 * MINUTE else f"{time_ns / MINUTE:.0f} min"

    def value(self, value: int) -> str:
        """A message: producer 3 #17, by its number among what that process did."""
        return f"value {value}" if self.foreign else f"producer {value >> ID_BITS} #{value % (1 << ID_BITS)}"

    @staticmethod
    def nodes(nodes: Iterable[int]) -> str:
        """Node 1; nodes 1 and 3."""
        names = [str(node) for node in nodes]
        if len(names) == 1:
            return f"node {names[0]}"
        return f"nodes {', '.join(names[:-1])} and {names[-1]}" if names else "an unknown node"

    @staticmethod
    def count(number: int, one: str, many: str = "") -> str:
        """1 offset, 2 offsets."""
        return f"{number:,} {one if number == 1 else many or f'{one}s'}"

    @staticmethod
    def place(topic: object, partition: int | None) -> str:
        """A partition."""
        return f"{topic}-{partition}"


Sentence = Callable[[Finding, Wording], str]
