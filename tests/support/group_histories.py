"""What the history of a group has to look like, over rows as dictionaries, however they were read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset

from harness.history.schema import COLUMNS, KINDS, F, Kind, Type
from tests.support.worker_sessions import rows

Row = dict[str, Any]


@dataclass(frozen=True)
class Interval:
    """A member had a partition from its assignment to its end."""

    member: int
    place: tuple[int, int]
    start: int
    end: int
    lost: bool  # nobody asked it to let go


@dataclass(frozen=True)
class History:
    """Invocations, completions and records."""

    invokes: Sequence[Row]
    completes: Sequence[Row]
    records: Sequence[Row]

    @classmethod
    def of_segments(cls, segments: Iterable[Path]) -> History:
        """What workers wrote while they ran."""
        found: dict[Kind, list[Row]] = {kind: [] for kind in (Kind.INVOKE, Kind.COMPLETE, Kind.RECORD)}
        for path in segments:
            texts = rows(path)[0].texts
            for kind, into in found.items():
                into += [_plain(kind, row, texts) for row in rows(path)[1][kind]]
        return cls(found[Kind.INVOKE], found[Kind.COMPLETE], found[Kind.RECORD])

    @classmethod
    def of_run(cls, run: Path) -> History:
        """What is left of them in a run that was sealed."""
        kinds = (Kind.INVOKE, Kind.COMPLETE, Kind.RECORD)
        return cls(
            *(pyarrow.dataset.dataset(run / "history" / kind.directory).to_table().to_pylist() for kind in kinds)
        )

    def ended(self, *kinds: F) -> list[Row]:
        """Completions of these kinds of operation, in the order of time."""
        return sorted((row for row in self.completes if row["f"] in kinds), key=lambda row: int(row["time"]))

    def sealed(self) -> History:
        """The same with what has no outcome as `info`, as sealing has it."""
        left, end = self.without_outcome(), max(row["time"] for row in [*self.invokes, *self.completes])
        blank = dict.fromkeys(KINDS[Kind.COMPLETE])
        ended = [
            {**blank, **row, "type": Type.INFO, "invoked": row["time"], "time": end}
            for row in self.invokes
            if row["op"] in left
        ]
        return History(self.invokes, [*self.completes, *ended], self.records)

    def of(self, process: int) -> History:
        """What one process wrote."""
        kinds = (self.invokes, self.completes, self.records)
        return History(*([row for row in rows_ if row["process"] == process] for rows_ in kinds))

    def without_outcome(self) -> set[int]:
        """Operations that were begun and have no completion."""
        return {row["op"] for row in self.invokes} - {row["op"] for row in self.completes}

    def intervals(self) -> list[Interval]:
        """Who had what from when to when."""
        last = {row["process"]: row["time"] for row in sorted(self.completes, key=lambda row: int(row["time"]))}
        gone = {row["member"]: row["time"] for row in self.ended(F.LEAVE, F.CRASH)}
        had: dict[tuple[int, int, int], tuple[int, int]] = {}
        found = []
        for row in self.ended(F.ASSIGN, F.REVOKE):
            if row["member"] is None or (row["f"] == F.ASSIGN and row["offset"] is not None):
                continue  # a consumer without a group, or one that goes back
            key = (row["member"], row["topic"], row["partition"])
            if row["f"] == F.ASSIGN:
                assert key not in had, f"{key} was given twice"
                had[key] = (row["time"], row["process"])
            else:
                start, _ = had.pop(key)
                found.append(Interval(key[0], key[1:], start, row["time"], row["type"] != Type.OK))
        for (member, *place), (start, process) in had.items():
            found.append(Interval(member, (place[0], place[1]), start, gone.get(member, last[process]), lost=True))
        return found

    def owned_twice(self) -> list[tuple[Interval, Interval]]:
        """Partitions that were given to a member while another one that had not lost them still had them."""
        by_place: dict[tuple[int, int], list[Interval]] = defaultdict(list)
        for interval in sorted(self.intervals(), key=lambda interval: interval.start):
            by_place[interval.place].append(interval)
        return [
            (before, after)
            for here in by_place.values()
            for index, before in enumerate(here)
            for after in here[index + 1 :]
            if not before.lost and after.start < before.end
        ]

    def read_unowned(self) -> list[Row]:
        """Records that a member was handed of a partition that was not its own when it was handed them."""
        members = {row["op"]: row["member"] for row in self.ended(F.POLL) if row["member"] is not None}
        had: dict[tuple[int, tuple[int, int]], list[Interval]] = defaultdict(list)
        for interval in self.intervals():
            had[interval.member, interval.place].append(interval)
        return [
            row
            for row in self.records
            if row["op"] in members
            and not any(
                interval.start <= row["time"] <= interval.end
                for interval in had[members[row["op"]], (row["topic"], row["partition"])]
            )
        ]

    def committed_unread(self) -> list[Row]:
        """Commits of more than anybody had read by then."""
        read: dict[tuple[int, int], int] = defaultdict(int)
        events = [(row["time"], 0, row) for row in self.records] + [
            (row["time"], 1, row) for row in self.ended(F.COMMIT)
        ]
        found = []
        for _, is_commit, row in sorted(events, key=lambda event: event[:2]):
            place = (row["topic"], row["partition"])
            if not is_commit:
                read[place] = max(read[place], row["offset"] + 1)
            elif row["offset"] > read[place]:
                found.append(row)
        return found

    def wrong_answers(self) -> list[Row]:
        """Committed offsets that are below one that was acknowledged before, or that nobody has tried to commit."""
        commits: dict[tuple[int, int], list[Row]] = defaultdict(list)
        for row in self.ended(F.COMMIT):
            commits[row["topic"], row["partition"]].append(row)
        found = []
        for row in self.ended(F.COMMITTED):
            if row["type"] != Type.OK:
                continue
            here = commits[row["topic"], row["partition"]]
            sure = [
                commit["offset"] for commit in here if commit["type"] == Type.OK and commit["time"] < row["invoked"]
            ]
            tried = {
                commit["offset"] for commit in here if commit["type"] != Type.FAIL and commit["invoked"] < row["time"]
            }
            if row["offset"] < max(sure, default=-1) or (row["offset"] not in tried and row["offset"] != -1):
                found.append(row)
        return found

    def rebalances(self) -> int:
        """Moments at which somebody was given partitions."""
        return len({(row["member"], row["invoked"]) for row in self.ended(F.ASSIGN) if row["offset"] is None})


def _plain(kind: Kind, row: Any, texts: Any) -> Row:
    found: Row = {}
    for name in KINDS[kind]:
        value = row[name].item()
        if value == COLUMNS[name].null:
            found[name] = None
        else:
            found[name] = texts[value] if COLUMNS[name].type == "text" else value
    return found
