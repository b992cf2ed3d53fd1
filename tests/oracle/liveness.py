"""Stalls and waits, second by second: told by `checkers.liveness.family` and `checkers.progress`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.core.results import Finding
from harness.history.schema import F, Kind, OffsetView, Type
from tests.oracle import Event, Told
from tests.oracle.answers import FETCH, LIST_OFFSETS, Lasted, faults
from tests.oracle.common import operations, records
from tests.oracle.eras import Eras
from tests.oracle.model_load import make_up
from tests.support.histories import SECOND_NS, Rows

STALL_NS, STUCK_NS, GROUP_STALL_NS, LSO_STUCK_NS = (seconds * SECOND_NS for seconds in (5, 30, 40, 30))
NO_PROGRESS_NS, RECOVERY_NS = 20 * SECOND_NS, 30 * SECOND_NS
ANOMALIES = frozenset(["stall", "no-progress-in-fault", "slow-recovery"])
NOT_THE_LOAD = re.compile(r"tidegauge(-(final|raw|probe|replica).*)?")
write = make_up


@dataclass
class _Partition:
    """What happened to one."""

    sends: list[Event] = field(default_factory=list)
    reads: list[Event] = field(default_factory=list)
    assigns: list[Event] = field(default_factory=list)
    answers: list[Event] = field(default_factory=list)  # how far nodes said it is
    fetches: list[Event] = field(default_factory=list)  # of the load's clients

    @property
    def acks(self) -> list[Event]:
        """Sends that were acknowledged with an offset."""
        return [
            row for row in self.sends if row["type"] == Type.OK and row.get("offset") is not None and row["offset"] >= 0
        ]

    def handed(self, until: int) -> int:
        """The highest offset handed to the load up to a second."""
        return max((row["offset"] for row in self.reads if _second(row) <= until), default=-1)


@dataclass(frozen=True)
class _Load:
    """What all partitions share."""

    first_poll: int | None
    last_poll: int | None
    busy: frozenset[int]  # seconds
    members: frozenset[int]


def _second(row: Event) -> int:
    return int(row["time"]) // SECOND_NS


def find(rows: Rows) -> Iterator[Told]:
    """All of these anomalies."""
    load = {process for process, about in rows.processes.items() if about["role"] == "consumer"}
    polls = [row for row in operations(rows, F.POLL) if row["process"] in load and row.get("count") is not None]
    busy = {_second(row) for kind in (Kind.COMPLETE, Kind.PROBE) for row in rows.events[kind]}
    about = _Load(
        min((row["invoked"] for row in polls), default=None),
        max((row["time"] for row in polls), default=None),
        frozenset(busy),
        frozenset(process for process in load if rows.processes[process].get("group")),
    )
    partitions = _partitions(rows, load)
    lasted = faults(rows)
    by_topic: dict[int, list[_Partition]] = defaultdict(list)
    for (topic, _), partition in partitions.items():
        by_topic[topic].append(partition)
    for (topic, number), partition in partitions.items():
        for told in _stalls(partition, by_topic[topic], about):
            yield "stall", topic, number, *told
        for anomaly, *waited in _waits(partition, lasted):
            yield anomaly, topic, number, None, *waited


def _partitions(rows: Rows, load: set[int]) -> dict[tuple[int, int], _Partition]:
    eras = Eras(rows)
    found: dict[tuple[int, int], _Partition] = defaultdict(_Partition)

    def there(row: Event) -> bool:
        return row.get("topic") is not None and row.get("partition") is not None and not eras.deleted(row["topic"])

    for row in operations(rows, F.SEND, F.ASSIGN):
        if there(row) and row["f"] == F.SEND:
            found[row["topic"], row["partition"]].sends.append(row)
        elif there(row) and row["type"] == Type.OK and row["process"] in load:
            found[row["topic"], row["partition"]].assigns.append(row)
    for row in records(rows):
        if there(row) and row["process"] in load and row.get("offset") is not None:
            found[row["topic"], row["partition"]].reads.append(row)
    for kind in (Kind.PROBE, Kind.EXCHANGE):
        for row in rows.events[kind]:
            if there(row) and (row["topic"], row["partition"]) in found:
                _add_answer(found[row["topic"], row["partition"]], kind, row)
    return found


def _add_answer(partition: _Partition, kind: Kind, row: Event) -> None:
    latest = row.get("api") == LIST_OFFSETS and row.get("view") == OffsetView.LATEST
    fetch = row.get("api") == FETCH
    if row.get("error") == 0 and (fetch or latest) and (kind == Kind.PROBE or row["type"] == Type.OK):
        partition.answers.append(row)
    if kind == Kind.EXCHANGE and fetch and not NOT_THE_LOAD.fullmatch(row.get("client") or "somebody"):
        partition.fetches.append(row)


def _stalls(partition: _Partition, topic: Sequence[_Partition], load: _Load) -> Iterator[Told]:
    """Offset, begin, end and tags of stretches without a record that are too long, and of a partition that is late."""
    seconds = sorted({_second(row) for row in partition.reads})
    stalled = False
    for begin, end in zip([None, *seconds], [*seconds, None], strict=True):
        position = -1 if begin is None else partition.handed(begin)
        until = load.last_poll
        if end is not None:
            until = min(row["time"] for row in partition.reads if _second(row) == end)
        since = _behind_since(partition, begin, end, load)
        stalled = since is not None and until is not None and until - since >= STALL_NS
        if since is not None and until is not None and stalled:
            yield position + 1, since, until, _tags(partition, position, since, until, load)
    if not stalled and load.last_poll is not None and _is_late(partition, topic, load.last_poll):
        position = max(row["offset"] for row in partition.reads)
        yield position + 1, load.last_poll, load.last_poll, ("class 3",)


def _behind_since(partition: _Partition, begin: int | None, end: int | None, load: _Load) -> int | None:
    """When the stall of a stretch between two seconds began, if any second of it is behind."""
    if not partition.assigns and not partition.reads:
        return None
    known = {_second(row) for row in partition.acks} | ({begin} if begin is not None else set())
    inside = [second for second in known if (begin is None or second >= begin) and (end is None or second < end)]
    for second in sorted(inside):
        acked = max((row["offset"] for row in partition.acks if _second(row) <= second), default=-1)
        if acked > partition.handed(second):
            there = [row["time"] for row in partition.acks if _second(row) == second]
            moments: list[int] = [max(there or [row["time"] for row in partition.reads if _second(row) == second])]
            moments += [row["time"] for row in partition.reads if begin is not None and _second(row) == begin]
            opened = min((row["time"] for row in partition.assigns), default=load.first_poll)
            moments += [] if opened is None else [opened]
            return max(moments)
    return None


def _is_late(partition: _Partition, topic: Sequence[_Partition], last_poll: int) -> bool:
    def early(of: _Partition) -> list[int]:
        limit = last_poll // SECOND_NS - STALL_NS // SECOND_NS
        return [row["offset"] for row in of.acks if _second(row) <= limit]

    def highest(of: _Partition) -> int:
        return max((row["offset"] for row in of.reads), default=-1)

    readers, mine = {row["process"] for row in partition.reads}, early(partition)
    if len(readers) != 1 or not mine or 10 * (max(mine) - highest(partition)) <= len(mine):
        return False
    return any(
        early(other) and {row["process"] for row in other.reads} == readers and highest(other) >= max(early(other))
        for other in topic
        if other is not partition
    )


def _tags(partition: _Partition, position: int, since: int, until: int, load: _Load) -> tuple[str, ...]:
    inside = [row for row in partition.answers if row["invoked"] >= since and row["time"] <= until]
    shown = [row.get("high_watermark" if row["api"] == FETCH else "offset") for row in inside]
    fetches = [row for row in partition.fetches if row["invoked"] <= until and row["time"] >= since]
    given = [
        row for row in fetches
        if row["invoked"] >= since and row["time"] <= until and row["type"] == Type.OK and row.get("error") == 0
        and row.get("count") != 0
    ]  # fmt: skip
    in_txn = any(row.get("txn") is not None for row in partition.sends)
    known = [mark for mark in shown if mark is not None]
    if not known:
        tag = "class unknown"
    elif max(known) <= position + 1:
        tag = "class 1"
    else:
        tag = "class 2" if fetches and not given and not in_txn else "data available"
    limit = STALL_NS if tag in {"class 1", "class 2"} else STUCK_NS
    if in_txn:
        limit = max(limit, LSO_STUCK_NS)
    if any(row["process"] in load.members for row in partition.reads + partition.assigns):
        limit = max(limit, GROUP_STALL_NS)
    empty = [s for s in range(since // SECOND_NS + 1, until // SECOND_NS) if s not in load.busy]
    tags = [tag, *(["within the limit"] if until - since < limit else [])]
    return *tags, *(["stood still"] if until - since - len(empty) * SECOND_NS < STALL_NS else [])


def _waits(partition: _Partition, lasted: Sequence[Lasted]) -> Iterator[tuple[Any, ...]]:
    """Anomaly, begin, end and tags of each stretch in which no send got through."""
    good = [row for row in partition.sends if row["type"] == Type.OK]
    seconds = sorted({_second(row) for row in good})
    for begin, end in zip([None, *seconds], [*seconds, None], strict=True):
        others = [
            row for row in partition.sends
            if (begin is None or _second(row) > begin) and (end is None or _second(row) < end)
        ]  # fmt: skip
        ending = [row for row in partition.sends if _second(row) == end]
        begun = [row["time"] for row in good if _second(row) == begin]
        over = [row["time"] for row in good if _second(row) == end]
        if not over and not others:
            continue
        since = max([*begun, min(row["invoked"] for row in others + ending)])
        until = min(over) if over else max(row["time"] for row in others)
        if until > since:
            yield from _judged(since, until, lasted)


def _judged(since: int, until: int, lasted: Sequence[Lasted]) -> Iterator[tuple[Any, ...]]:
    shared = [(min(until, fault.ended) - max(since, fault.began), -fault.began, fault.name) for fault in lasted]
    met = max((each for each in shared if each[0] > 0), default=None)
    at_an_end = any(since <= fault.ended < until for fault in lasted)
    if met is not None and met[0] > NO_PROGRESS_NS:
        yield "no-progress-in-fault", since, until, (met[2],)
    elif met is None and not at_an_end and until - since > NO_PROGRESS_NS:
        yield "no-progress-in-fault", since, until, ("no fault",)
    after = []
    for fault in lasted:
        if fault.undone and since <= fault.ended < until:
            quiet = min([until, *(other.began for other in lasted if other.began > fault.ended)])
            after.append((quiet - fault.ended, -fault.began, fault.name))
    if after and max(after)[0] > RECOVERY_NS:
        yield "slow-recovery", since, until, (max(after)[2],)


def key(finding: Finding, topic: int | None) -> Told:
    """Where, from when to when, and what is said of it."""
    span = (finding.time_ns, finding.until_ns)
    return finding.anomaly, topic, finding.partition, finding.offset, *span, finding.tags
