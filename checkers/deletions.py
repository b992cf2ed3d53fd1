"""Topics that the workload itself deleted: what may be gone, and what may be compared with what.

A deletion lasts from its invocation to SETTLING_NS after the topic was created again, for nodes do not learn of that at
one instant; or to the end of time, if it never was. One that certainly failed is none. Between two deletions lies an
*era*: what certainly happened in one era can be compared with what happened in the same one, and with nothing else.
Whatever may belong to two eras has the era UNSURE.

A reader of the load may hand out late what it fetched before a deletion; only the final readers, who begin when all is
over, certainly read what is there. Deletions are few: they are read before the check, and become SQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from checkers.few import few_rows
from harness.history import F, Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from harness.seal import Sealed

SETTLING_NS = 2_000_000_000
NEVER_NS = (1 << 63) - 1
UNSURE = -1
Window = tuple[int, int]


@dataclass(frozen=True)
class Deletions:
    """By the number of the topic, when it was being deleted: windows in the order of time, apart from each other."""

    windows: Mapping[int, tuple[Window, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.windows)

    def until(self) -> str:
        """SQL: what began before this may be gone; null in a topic that nobody deleted."""
        return self._of_topic([windows[-1][1] for windows in self.windows.values()], "bigint")

    def era(self, began: str, ended: str) -> str:
        """SQL: the era in which something happened that lasted from one column to the other."""
        if not self.windows:
            return "0"
        bounds = self._of_topic([list(chain(*windows)) for windows in self.windows.values()], "array<bigint>")
        first, last = (f"size(mine_) - size(filter(mine_, bound_ -> bound_ > {column}))" for column in (began, ended))
        era = f"if({first} = {last} and ({first}) % 2 = 0, ({first}) div 2, {UNSURE})"
        return f"cast(transform(array({bounds}), mine_ -> if(mine_ is null, 0, {era}))[0] as int)"

    def untouched(self) -> str:
        """SQL: a topic that nobody deleted."""
        return f"{self._place} = 0" if self.windows else "true"

    @property
    def _place(self) -> str:
        """SQL: which of the deleted topics it is, from 1 on."""
        return f"array_position({_constant(list(self.windows), 'int')}, topic)"

    def _of_topic(self, values: Sequence[Any], kind: str) -> str:
        """SQL: the value of the topic, null if it has none."""
        return f"get({_constant(values, kind)}, cast({self._place} as int) - 1)" if values else "null"


def _constant(values: Sequence[Any], kind: str) -> str:
    """SQL: an array as one node of a plan, however many values it has: the optimizer visits every node many times."""
    return f"from_json('{json.dumps(values, separators=(',', ':'))}', 'array<{kind}>')"


def segment(bounds_ns: list[int], first: int = 0, column: str = "time") -> str:
    """SQL: how many of the bounds are at or before a column, found as in a search tree."""
    if not bounds_ns:
        return str(first)
    middle = len(bounds_ns) // 2
    left = segment(bounds_ns[:middle], first, column)
    right = segment(bounds_ns[middle + 1 :], first + middle + 1, column)
    return f"if({column} < {bounds_ns[middle]}L, {left}, {right})"


def read_deletions(sealed: Sealed, spark: SparkSession | None = None) -> Deletions:
    """From the operations on topics; of a history elsewhere by asking Spark."""
    columns = ("topic", "f", "type", "invoked", "time")
    return deletions(few_rows(sealed, spark, Kind.COMPLETE, columns, (F.DELETE, F.CREATE)))


def deletions(rows: Iterable[Mapping[str, Any]]) -> Deletions:
    """From completions of CREATE and DELETE."""
    windows: dict[int, list[Window]] = {}
    known = [row for row in rows if row["topic"] is not None]
    created = [row for row in known if row["f"] == F.CREATE and row["type"] == Type.OK]
    for row in sorted(known, key=lambda row: int(row["invoked"])):
        if row["f"] != F.DELETE or row["type"] == Type.FAIL:
            continue
        anew = (each["time"] for each in created if each["topic"] == row["topic"] and each["invoked"] >= row["invoked"])
        end = min((time + SETTLING_NS for time in anew), default=NEVER_NS)
        mine = windows.setdefault(row["topic"], [])
        if mine and row["invoked"] <= mine[-1][1]:
            mine[-1] = (mine[-1][0], max(end, mine[-1][1]))
        else:
            mine.append((row["invoked"], end))
    return Deletions({topic: tuple(found) for topic, found in windows.items()})
