"""Topics that the workload itself deleted: what may be gone, and what may be compared with what.

A deletion lasts from its invocation to SETTLING_NS after the topic was created again, for nodes do not learn of that at
one instant; or to the end of time, if it never was. One that certainly failed is none. Between two deletions lies an
*era*: what certainly happened in one era can be compared with what happened in the same one, and with nothing else.
Whatever may belong to two eras has the era UNSURE.

A reader of the load may hand out late what it fetched before a deletion; only the final readers, who begin when all is
over, certainly read what is there. Deletions are few: they are read before the check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, Ints, ints
from checkers.core.node_answers import SETTLING_NS
from harness.history.schema import F, Type

UNSURE = -1
Window = tuple[int, int]


@dataclass(frozen=True)
class Deletions:
    """By the number of the topic, when it was being deleted: windows in the order of time, apart from each other."""

    windows: Mapping[int, tuple[Window, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.windows)

    @property
    def topics(self) -> list[int]:
        """Those that were deleted."""
        return sorted(self.windows)

    def untouched(self) -> pl.Expr:
        """Of a topic that nobody deleted; also where there is no topic."""
        return ~pl.col("topic").is_in(self.topics).fill_null(value=False) if self.windows else pl.lit(value=True)

    def until(self, topic: Ints) -> Ints:
        """What began before this may be gone; NONE in a topic that nobody deleted."""
        return self._of_topic(topic, {number: windows[-1][1] for number, windows in self.windows.items()})

    def eras(self, frame: pl.DataFrame) -> pl.Series:
        """The era in which each row happened, from its `invoked` to its `time`."""
        if not self.windows or frame.is_empty():
            return pl.Series("era", np.zeros(len(frame), np.int32))
        topic, began, ended = ints(frame, "topic"), ints(frame, "invoked"), ints(frame, "time")
        return pl.Series("era", self._era(topic, began, ended))

    def read_eras(self, frame: pl.DataFrame, fresh: Bools) -> pl.Series:
        """The same of records; what a reader that is not fresh was handed after a deletion may be from before it."""
        if not self.windows or frame.is_empty():
            return pl.Series("era", np.zeros(len(frame), np.int32))
        topic, began, ended = ints(frame, "topic"), ints(frame, "invoked"), ints(frame, "time")
        first = Deletions({number: windows[:1] for number, windows in self.windows.items()})
        late = np.where(first._era(topic, began, ended) == 0, 0, UNSURE)
        return pl.Series("era", np.where(fresh, self._era(topic, began, ended), late).astype(np.int32))

    def _era(self, topic: Ints, began: Ints, ended: Ints) -> Any:
        first, last = self._passed(topic, began), self._passed(topic, ended)
        return np.where((first == last) & (first % 2 == 0), first // 2, UNSURE).astype(np.int32)

    def _passed(self, topic: Ints, moment: Ints) -> Ints:
        """How many bounds of its topic's windows lie at or before a moment: by rank, so that no number is too large."""
        topics = np.array(self.topics)
        of_topic = [(rank, bound) for rank, number in enumerate(topics.tolist())
                    for window in self.windows[number] for bound in window]  # fmt: skip
        bounds = np.unique([bound for _, bound in of_topic])
        width = len(bounds) + 1
        keys = np.sort([rank * width + int(np.searchsorted(bounds, bound)) for rank, bound in of_topic])
        rank = np.minimum(np.searchsorted(topics, topic), len(topics) - 1)
        here = topics[rank] == topic
        passed = np.searchsorted(bounds, moment, side="right")
        count = np.searchsorted(keys, rank * width + passed) - np.searchsorted(keys, rank * width)
        return np.where(here, count, 0)

    def _of_topic(self, topic: Ints, values: Mapping[int, int]) -> Ints:
        if not values:
            return np.full(len(topic), NONE)
        topics = np.array(sorted(values))
        told = np.array([values[number] for number in topics.tolist()], np.int64)
        rank = np.minimum(np.searchsorted(topics, topic), len(topics) - 1)
        return np.where(topics[rank] == topic, told[rank], NONE)


def deletions(rows: Iterable[Mapping[str, Any]]) -> Deletions:
    """From completions of CREATE and DELETE."""
    windows: dict[int, list[Window]] = {}
    known = sorted((row for row in rows if row["topic"] is not None), key=lambda row: int(row["invoked"]))
    created: dict[int, list[Mapping[str, Any]]] = {}
    for row in known:
        if row["f"] == F.CREATE and row["type"] == Type.OK:
            created.setdefault(row["topic"], []).append(row)
    for row in known:
        if row["f"] != F.DELETE or row["type"] == Type.FAIL:
            continue
        anew = [each["time"] for each in created.get(row["topic"], []) if each["invoked"] >= row["invoked"]]
        end = min(anew) + SETTLING_NS if anew else NEVER
        mine = windows.setdefault(row["topic"], [])
        if mine and row["invoked"] <= mine[-1][1]:
            mine[-1] = (mine[-1][0], max(end, mine[-1][1]))
        else:
            mine.append((row["invoked"], end))
    return Deletions({topic: tuple(found) for topic, found in windows.items()})
