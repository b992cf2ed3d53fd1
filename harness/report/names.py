"""Short names for what a report shows: p0 for a partition, producer 3 #17 for a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.history.schema import ID_BITS

FOREIGN = frozenset({"tap", "import"})  # kinds of runs whose values say nothing about who sent them


@dataclass(frozen=True)
class Names:
    """How a run's partitions, messages and processes are named."""

    topics: tuple[str, ...] = ()
    processes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    foreign: bool = False

    @classmethod
    def of(cls, facts: Mapping[str, Any], results: Mapping[str, Any], series: Mapping[str, Any] | None) -> Names:
        """From what the check and its series mention."""
        counted = (row["topic"] for row in results["figures"]["table"])
        found = (each["topic"] for anomaly in results["anomalies"].values() for each in anomaly["findings"])
        drawn = (place.rpartition("-")[0] for place in (series or {}).get("partitions", ()))
        topics = tuple(dict.fromkeys(str(topic) for topic in (*counted, *found, *drawn) if topic))
        foreign = facts.get("kind") in FOREIGN or bool(facts.get("traffic_only"))
        return cls(topics, (series or {}).get("processes", {}), foreign)

    def partition(self, topic: object, partition: object) -> str:
        """p0; with its topic where a run has several."""
        short = "p?" if partition is None else f"p{partition}"
        if topic is None or (str(topic),) == self.topics:
            return short
        return f"{str(topic)[len(self._shared) :]} {short}"

    def place(self, name: str) -> str:
        """The same for a name like `orders-0`."""
        return self.partition(*name.rpartition("-")[::2])

    def shortened(self, text: str) -> str:
        """A text of ours in which partitions have their whole names, with short ones."""
        for topic in self.topics:
            text = text.replace(f"{topic}-", f"{topic[len(self._shared) :]} p" if self.topic is None else "p")
        return text

    def anchor(self, place: str) -> str:
        """An id for what is about a partition; topics are numbered, because nobody knows what is in their names."""
        topic, _, partition = place.rpartition("-")
        number = self.topics.index(topic) if topic in self.topics else len(self.topics)
        return f"{number}-{partition}"

    def value(self, value: int) -> str:
        """A message: who sent it, and its number among what that process did."""
        return f"value {value}" if self.foreign else f"producer {value >> ID_BITS} #{value % (1 << ID_BITS)}"

    def about(self, process: object) -> Mapping[str, Any]:
        """What is known of a process."""
        return self.processes.get(str(process), {})

    @property
    def topic(self) -> str | None:
        """The topic of a run that has one only."""
        return self.topics[0] if len(self.topics) == 1 else None

    @property
    def _shared(self) -> str:
        """What the names of all topics begin with, up to a hyphen."""
        if len(self.topics) < 2:
            return ""
        first, last = min(self.topics), max(self.topics)
        same = next((n for n, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
        return first[: first.rfind("-", 0, same) + 1]


def counted(number: int, one: str, many: str = "") -> str:
    """1 message, 2 messages."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
