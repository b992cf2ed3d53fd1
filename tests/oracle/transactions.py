"""What became of transactions, by the words of the modules of `checkers.transactions`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from checkers.core.results import Finding
from harness.history.schema import F, FaultStage, Kind, Status, Type
from tests.oracle import Event, Told, compacted
from tests.oracle.common import deleted_topics, operations, reads_uncommitted, records
from tests.oracle.model_transactions import make_up
from tests.support.histories import Rows

ANOMALIES = frozenset({"torn", "wrong-outcome", "zombie-write", "offsets-not-atomic", "precommitted-read"})
NEVER = float("inf")


def write(rows: Rows, topic: int, random: Random) -> None:
    """Some transactions."""
    make_up(rows, topic, random)


class _Known:
    """What the rows say of values, partitions and transactions."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        gone = deleted_topics(rows)
        self.sends = [send for send in operations(rows, F.SEND) if send.get("topic") not in gone]
        handed = [record for record in records(rows) if record.get("topic") not in gone]
        self.good = [each for each in handed if each.get("value") is not None and each["status"] == Status.GOOD]
        self.seen_at: dict[int, set[int]] = defaultdict(set)  # by value, the offsets for readers of what is committed
        self.in_log: set[int] = set()
        for record in self.good:
            if reads_uncommitted(rows, record["process"]):
                self.in_log.add(record["value"])
            else:
                self.seen_at[record["value"]].add(record["offset"])
        self.reach: dict[Any, int] = defaultdict(lambda: -1)
        self.finals: dict[Any, list[int]] = defaultdict(list)  # when those that ended ok were invoked
        for record in handed:
            process = record["process"]
            if not reads_uncommitted(rows, process) and not rows.processes[process].get("group"):
                self._reached(record, record["offset"])
        for final in operations(rows, F.FINAL):
            told = final["type"] == Type.OK and final.get("topic") not in gone
            if told and not reads_uncommitted(rows, final["process"]):
                self.finals[_place(final)].append(final["invoked"])
                self._reached(final, -1 if final.get("end") is None else final["end"] - 1)
        self.moved: dict[Any, int] = defaultdict(lambda: -2)  # by transaction and partition, how far it moved a group
        for commit in operations(rows, F.COMMIT):
            if commit["type"] != Type.FAIL and commit.get("txn") is not None and commit.get("offset") is not None:
                place = commit["txn"], _place(commit)
                self.moved[place] = max(self.moved[place], commit["offset"])

    def _reached(self, event: Event, offset: int) -> None:
        self.reach[_place(event)] = max(self.reach[_place(event)], offset)

    def visible(self, send: Event) -> bool:
        """Whether a reader of what is committed was handed it."""
        return send["value"] in self.seen_at

    def read_after(self, send: Event) -> bool:
        """Whether its partition was read to the end after it."""
        return any(invoked >= send["time"] for invoked in self.finals[_place(send)])

    def missing(self, send: Event) -> bool:
        """Whether it should have been handed to somebody, and was not."""
        if self.visible(send) or compacted(self.rows, send.get("topic")):
            return False
        offset = send.get("offset")
        passed = offset is not None and 0 <= offset <= self.reach[_place(send)]
        return passed or (send["type"] == Type.OK and self.read_after(send))


def _place(event: Event) -> tuple[Any, Any]:
    return event.get("topic"), event.get("partition")


def find(rows: Rows) -> Iterator[Told]:
    """All that is wrong with transactions, but for their order."""
    known = _Known(rows)
    writes: dict[int, list[Event]] = defaultdict(list)
    for send in known.sends:
        if send.get("txn") is not None:
            writes[send["txn"]].append(send)
    inits: dict[str, list[Event]] = defaultdict(list)
    for init in operations(rows, F.INIT):
        if init["type"] == Type.OK and init.get("name") is not None:
            inits[init["name"]].append(init)
    for txn in operations(rows, F.TXN):
        if txn["op"] in writes:
            yield from _of_transaction(known, txn, writes[txn["op"]])
            yield from _of_fenced(known, txn, writes[txn["op"]], inits.get(txn.get("name") or "", []))
    yield from _own_reads(known, writes)
    yield from _inputs(known)


def _finding(anomaly: str, place: tuple[Any, Any], *tags: str, **evidence: Any) -> Told:
    names = ("offset", "values", "time", "until", "events")
    given = {"offset": None, "values": (), "time": None, "until": None, "events": ()} | evidence
    return (anomaly, *place, tags, *(given[name] for name in names))


def _lowest(events: list[Event], of: Callable[[Event], bool]) -> Event:
    return min((event for event in events if of(event)), key=lambda event: int(event["value"]))


def _of_transaction(known: _Known, txn: Event, writes: list[Event]) -> Iterator[Told]:
    visible = [write for write in writes if known.visible(write)]
    missing = [write for write in writes if known.missing(write)]
    kept = [write for write in writes if not compacted(known.rows, write.get("topic"))]
    here = {"time": txn["time"], "events": (txn["event"],)}
    place = min(_place(write) for write in writes)
    if txn["type"] != Type.FAIL and visible and missing:
        lost, seen = _lowest(missing, known.missing), _lowest(visible, known.visible)
        values = (lost["value"], seen["value"])
        yield _finding("torn", _place(lost), offset=_offset(lost), values=values, **here)
    if txn["type"] == Type.OK and not visible and kept and all(known.missing(write) for write in kept):
        lost = _lowest(missing, known.missing)
        if any(write["value"] in known.in_log for write in kept):
            columns = {"offset": _offset(lost), "values": (lost["value"],), **here}
            yield _finding("wrong-outcome", place, "commit", **columns)
    if txn["type"] == Type.FAIL and visible:
        yield _finding("wrong-outcome", place, "abort", values=(_lowest(visible, known.visible)["value"],), **here)


def _offset(send: Event) -> int | None:
    offset = send.get("offset")
    return None if offset is None or offset < 0 else int(offset)


def _of_fenced(known: _Known, txn: Event, writes: list[Event], inits: list[Event]) -> Iterator[Told]:
    fences = [init["time"] for init in inits if init["invoked"] > txn["invoked"]]
    late = [write for write in writes if known.visible(write) and any(time < write["invoked"] for time in fences)]
    if late:
        newest = max(late, key=lambda write: (write["invoked"], write["value"]))
        times = {"time": min(fences), "until": newest["invoked"]}
        place = min(_place(write) for write in writes)
        yield _finding("zombie-write", place, values=(newest["value"],), events=(txn["event"],), **times)


def _own_reads(known: _Known, writes: dict[int, list[Event]]) -> Iterator[Told]:
    polled: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for record in known.good:
        if record.get("txn") is not None and not reads_uncommitted(known.rows, record["process"]):
            polled[record["txn"], record["value"]].append(record)
    for txn, of_txn in writes.items():
        for send in of_txn:
            if found := polled.get((txn, send["value"])):
                columns = {"offset": send.get("offset"), "values": (send["value"],)}
                events = (send["event"], min(record["event"] for record in found))
                time = min(record["time"] for record in found)
                yield _finding("precommitted-read", _place(send), time=time, events=events, **columns)


def _inputs(known: _Known) -> Iterator[Told]:
    """Inputs whose offset and whose output do not go together."""
    commits: dict[Any, list[Event]] = defaultdict(list)
    asks: dict[Any, list[Event]] = defaultdict(list)
    for event in operations(known.rows, F.COMMIT, F.COMMITTED):
        if event["type"] == Type.OK and event["f"] == F.COMMITTED:
            asks[_place(event)].append(event)
        elif event["type"] == Type.OK and event.get("txn") is not None:
            commits[_place(event)].append(event)
    outputs: dict[int, list[Event]] = defaultdict(list)
    for send in known.sends:
        if send.get("txn") is not None and send.get("source") is not None:
            outputs[send["source"]].append(send)
    healed = _healed(known.rows)
    for send in known.sends:
        place = _place(send)
        names = {event.get("name") or "" for event in [*commits[place], *asks[place]]}
        committed = [event["offset"] for event in commits[place] if event.get("offset") is not None]
        if committed and len(names) == 1 and known.visible(send):
            believed = [ask for ask in asks[place] if not reads_uncommitted(known.rows, ask["process"])]
            late = [ask for ask in believed if ask["invoked"] > healed]
            yield from _of_input(known, send, max(committed), late, outputs[send["value"]])


def _healed(rows: Rows) -> float:
    """When the last fault was over."""
    faults: dict[int, dict[int, int]] = defaultdict(dict)
    for event in sorted(rows.events[Kind.FAULT], key=lambda event: int(event["time"])):
        faults[event["fault"]][event["stage"]] = event["time"]
    ends = [
        times.get(FaultStage.HEALED, times.get(FaultStage.UNDONE, NEVER))
        for times in faults.values()
        if FaultStage.INJECTED in times
    ]
    return max(ends, default=-NEVER)


def _of_input(known: _Known, send: Event, committed: int, asks: list[Event], outputs: list[Event]) -> Iterator[Told]:
    offsets = known.seen_at[send["value"]]
    bound = [each for each in outputs if known.moved[each["txn"], _place(send)] > max(offsets)]
    counting, together = (
        sorted(each["value"] for each in some if each["type"] == Type.OK or known.visible(each))
        for some in (outputs, bound)
    )
    unsure = [
        each
        for each in outputs
        if each["type"] == Type.INFO and not (known.visible(each) or known.missing(each) or known.read_after(each))
    ]
    done = min((each["time"] for each in bound if each["type"] == Type.OK), default=None)
    lowest = -1 << 63
    answer = max(asks, key=lambda ask: (ask["invoked"], _or(ask.get("offset"), lowest)), default=None)
    asked = None if answer is None else answer["invoked"]

    def told(tag: str, *values: int) -> Told:
        columns = {"offset": max(offsets), "values": (send["value"], *values), "time": done, "until": asked}
        return _finding("offsets-not-atomic", _place(send), tag, **columns)

    if len(offsets) == 1 and len(together) > 1:
        yield told("twice", together[0], together[-1])
    if max(offsets) < committed and not counting and not unsure:
        yield told("no output")
    if len(offsets) == 1 and done is not None and answer is not None and done <= answer["invoked"]:
        at = answer.get("offset")
        if at is not None and at <= max(offsets):
            yield told("not committed", together[0])


def _or(number: int | None, otherwise: int) -> int:
    return otherwise if number is None else number


def key(finding: Finding, topic: int | None) -> Told:
    """What Spark found."""
    times = {"time": finding.time_ns, "until": finding.until_ns}
    columns = {"offset": finding.offset, "values": finding.values, "events": finding.events}
    return _finding(finding.anomaly, (topic, finding.partition), *finding.tags, **columns, **times)
