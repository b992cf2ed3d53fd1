"""What was sent, acknowledged and read: `checkers.delivery.family`, `checkers.keys` and offsets."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from random import Random

from checkers.core.results import Finding
from harness.history.schema import F, FaultStage, Kind, OffsetView, Status, Type
from tests.oracle import Event, Told, compacted
from tests.oracle.common import operations, reads_uncommitted, records
from tests.oracle.eras import UNSURE, Eras
from tests.oracle.model_log import make_up
from tests.support.histories import SECOND_NS, Rows

ANOMALIES = frozenset(
    {
        "lost-write", "lost-tail", "unseen", "phantom", "aborted-read", "duplicate", "false-ack", "inconsistent-offset",
        "shared-offset", "corrupt", "misrouted",
    }
)  # fmt: skip
STUCK_NS = 5 * SECOND_NS
SETTLING_NS = 10 * SECOND_NS
FETCH, LIST_OFFSETS, PRODUCE = 1, 2, 0
Place = tuple[int | None, int | None]


def write(rows: Rows, topic: int, random: Random) -> None:
    """A model log, its clients, and what goes wrong with it."""
    make_up(rows, topic, random)


def key(finding: Finding, topic: int | None) -> Told:
    """All but what proves it."""
    return _told(
        finding.anomaly, (topic, finding.partition), finding.offset, finding.values, finding.time_ns, *finding.tags
    )


def _told(anomaly: str, place: Place, offset: int | None, values: Iterable[int], time: int | None, *tags: str) -> Told:
    return (anomaly, *place, offset, tuple(values), time, tuple(sorted(tags)))


def find(rows: Rows) -> Iterator[Told]:
    """Everything."""
    known = _Known(rows)
    for value in known.sends.keys() | known.reads.keys():
        yield from _of_value(known, value)
    for send in known.sends.values():
        if send["type"] == Type.OK:
            yield from _of_acknowledgement(known, send)
    yield from _of_offsets(known)
    yield from _of_odd_records(known)
    yield from _of_keys(known)


def _place(event: Event) -> Place:
    return event.get("topic"), event.get("partition")


def _has_offset(send: Event) -> bool:
    return send.get("offset") is not None and send["offset"] >= 0


def _shows(send: Event, record: Event) -> bool:
    return record["status"] == Status.GOOD and _place(record) == _place(send)


def _believed(record: Event) -> bool:
    return record.get("value") is not None and record.get("status") in {Status.GOOD, Status.MISROUTED}


class _Known:
    """All that there is, by value and by place."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.eras = Eras(rows)
        self.sends = {send["value"]: send for send in operations(rows, F.SEND)}
        self.reads: dict[int, list[Event]] = defaultdict(list)
        self.records: dict[Place, list[Event]] = defaultdict(list)
        self.finals: dict[Place, list[Event]] = defaultdict(list)
        self.probes: dict[Place, list[Event]] = defaultdict(list)
        for record in records(rows):
            self.records[_place(record)].append(record)
            if _believed(record):
                self.reads[record["value"]].append(record)
        for final in operations(rows, F.FINAL):
            self.finals[_place(final)].append(final)
        for probe in rows.events[Kind.PROBE]:
            if probe.get("error") == 0 and not self.eras.deleted(probe.get("topic")):
                self.probes[_place(probe)].append(probe)
        self.numbered_anew = _numbered_anew(rows)
        self.over = _over(rows)

    def about(self, event: Event) -> Event:
        """What the manifest says of who wrote it."""
        return self.rows.processes[event["process"]]

    def counts(self, record: Event, send: Event | None) -> bool:
        """Of what was sent in a transaction, only reads of committed records do."""
        in_transaction = send is not None and send.get("txn") is not None
        return not (in_transaction and reads_uncommitted(self.rows, record["process"]))

    def proven(self) -> Iterator[Event]:
        """Sends of which nobody was told that they happened, and which did, at an offset that no record shows."""
        unknown = [send for send in self.sends.values() if send["type"] == Type.INFO]
        good = {
            send["value"]: [record for record in self.reads[send["value"]] if _shows(send, record)] for send in unknown
        }
        committed = {
            send["txn"]
            for send in unknown
            if send.get("txn") is not None and any(self.counts(record, send) for record in good[send["value"]])
        }
        for send in unknown:
            shown = {(self.eras.of_read(record), record["offset"]) for record in good[send["value"]]}
            happened = shown or send.get("txn") in committed
            if happened and _has_offset(send) and (self.eras.of(send), send["offset"]) not in shown:
                yield send

    def gone(self, send: Event) -> list[str]:
        """The tag of what was sent or seen before the last deletion."""
        seen = [send["invoked"], *(record["time"] for record in self.reads[send["value"]])]
        return ["deleted topic"] if self.eras.may_be_gone(send["topic"], min(seen)) else []


def _over(rows: Rows) -> int | None:
    """When the last fault was over; None if there was none, or one was not."""
    stages: dict[int, dict[int, int]] = defaultdict(dict)
    for row in sorted(rows.events[Kind.FAULT], key=lambda row: int(row["time"])):
        stages[row["fault"]][row["stage"]] = row["time"]
    injected = [times for times in stages.values() if FaultStage.INJECTED in times]
    if not injected or any(not {FaultStage.UNDONE, FaultStage.HEALED} <= times.keys() for times in injected):
        return None
    return max(times[stage] for times in injected for stage in (FaultStage.UNDONE, FaultStage.HEALED))


def _numbered_anew(rows: Rows) -> set[int]:
    """Producers that the taps saw with two producer ids or epochs."""
    numbers: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for row in rows.events[Kind.EXCHANGE]:
        name = re.fullmatch(r"tidegauge-[a-z]+-(\d+)", row.get("client") or "")
        number, epoch = row.get("producer_id"), row.get("producer_epoch")
        if row.get("api") == PRODUCE and name and number is not None and number >= 0 and epoch is not None:
            numbers[int(name[1])].add((number, epoch))
    return {process for process, each in numbers.items() if len(each) > 1}


def _of_value(known: _Known, value: int) -> Iterator[Told]:
    """Phantoms, aborted reads and duplicates."""
    send, reads = known.sends.get(value), known.reads[value]
    good = [record for record in reads if record["status"] == Status.GOOD]
    astray = [record for record in good if send and None not in _place(send) and _place(record) != _place(send)]
    good = [record for record in good if record not in astray]
    for place, offset in {(_place(record), record["offset"]) for record in astray}:
        first = min(each["time"] for each in astray if (_place(each), each["offset"]) == (place, offset))
        yield _told("misrouted", place, offset, [value], first)
    happened = send and (send["type"] == Type.OK or (send["type"] == Type.INFO and good))
    acknowledged = [send] if send and happened and _has_offset(send) else []
    place = _place(send) if send else _place(good[0]) if good else (None, None)
    offsets = {each["offset"] for each in [*good, *acknowledged]}
    lowest = min(offsets, default=None)
    first = min(each["time"] for each in [*reads, *([send] if send else [])])
    if send is None:
        yield _told("phantom", place, lowest, [value], first)
    elif send["type"] == Type.FAIL and any(known.counts(record, send) for record in reads):
        yield _told("aborted-read", place, lowest, [value], first)
    if len(offsets) > 1:
        eras = {(known.eras.of_read(record), record["offset"]) for record in good}
        eras |= {(known.eras.of(each), each["offset"]) for each in acknowledged}
        lives = [era for era, _ in eras if era != UNSURE]
        tags = [] if len(lives) > len(set(lives)) else ["deleted topic"]
        yield _told("duplicate", place, lowest, [value], first, *tags, *(_sender(known, send) if send else []))


def _sender(known: _Known, send: Event) -> Iterator[str]:
    idempotent = known.about(send).get("idempotent")
    if send.get("txn") is not None:
        yield "transactional"
    elif idempotent is not None:
        yield "idempotent" if idempotent else "plain"
    if send["process"] in known.numbered_anew:
        yield "numbered anew"


def _of_acknowledgement(known: _Known, send: Event) -> Iterator[Told]:
    """What is lost or stuck, and acknowledgements that cannot be true."""
    told = (_place(send), send.get("offset"), [send["value"]], send["time"])
    gone = known.gone(send)
    if not _has_offset(send):
        yield _told("false-ack", *told, "no offset", *gone)
    elif any(
        (probe.get("log_start") or 0) > send["offset"] and probe["time"] < send["invoked"]
        for probe in known.probes[_place(send)]
    ):
        yield _told("false-ack", *told, *gone)
    unread = not any(known.counts(record, send) for record in known.reads[send["value"]])
    if not unread or compacted(known.rows, send["topic"]):
        return
    ended = any(final["type"] == Type.OK and final["invoked"] >= send["time"] for final in known.finals[_place(send)])
    tags = [*gone, *(["settled"] if _settled(known, send) else [])]
    if not _has_offset(send):
        if ended:
            yield _told("lost-write", *told, "no offset", *tags)
    elif send["offset"] <= _reached(known, send):
        yield _told("lost-write", *told, *tags)
    elif ended:
        yield _told("lost-tail", *told, *tags)
    elif _stuck(known, _place(send)) and send["offset"] < _end(known, send):
        yield _told("unseen", *told, *tags)


def _settled(known: _Known, send: Event) -> bool:
    """Whether all faults were over when it was acknowledged, and no leader changed since."""
    told = [(probe.get("leader_epoch"), probe["time"]) for probe in known.probes[_place(send)]]
    epochs = [(epoch, time) for epoch, time in told if epoch is not None and epoch >= 0]
    if known.over is None or not epochs:
        return False
    highest = max(epoch for epoch, _ in epochs)
    led_since = min(time for epoch, time in epochs if epoch == highest)
    settled = led_since <= known.over or send["time"] > led_since + SETTLING_NS
    return bool(known.over < send["time"] < max(time for _, time in epochs) and settled)


def _reached(known: _Known, send: Event) -> int:
    """How far those got who count, by themselves; in a topic that was deleted, those who read at the end."""
    return max(
        (
            record["offset"]
            for record in known.records[_place(send)]
            if known.counts(record, send)
            and not known.about(record).get("group")
            and (not known.eras.deleted(send["topic"]) or known.about(record)["role"] in {"final", "raw"})
        ),
        default=-1,
    )


def _stuck(known: _Known, place: Place) -> bool:
    """Whether final reads gave up, and none ended ok."""
    finals = known.finals[place]
    if not finals or any(final["type"] == Type.OK for final in finals):
        return False
    moved = [final["invoked"] for final in finals]
    moved += [record["time"] for record in known.records[place] if known.about(record)["role"] == "final"]
    return bool(max(final["time"] for final in finals) - max(moved) >= STUCK_NS)


def _end(known: _Known, send: Event) -> int:
    """The end of the partition, as the final read or else the probes know it."""
    finals = known.finals[_place(send)]
    last = max(final["time"] for final in finals)
    ends = [final["end"] for final in finals if final["time"] == last and final.get("end") is not None]
    if ends:
        return int(max(ends))
    shown = [
        probe.get("high_watermark") if probe["api"] == FETCH else probe.get("offset")
        for probe in known.probes[_place(send)]
        if probe["api"] == FETCH or (probe["api"] == LIST_OFFSETS and probe.get("view") == OffsetView.LATEST)
    ]
    known_ends = [end for end in shown if end is not None]
    return max(known_ends, default=-1) if send.get("txn") is None else -1


def _of_offsets(known: _Known) -> Iterator[Told]:
    """Offsets that hold several values, or were acknowledged to several sends."""
    held: dict[tuple[int | None, ...], dict[int, int]] = defaultdict(dict)  # when a value was first known to be there
    acknowledged: dict[tuple[int | None, ...], dict[int, int]] = defaultdict(dict)

    def learn(log: dict[tuple[int | None, ...], dict[int, int]], era: int, event: Event) -> None:
        values = log[*_place(event), era, event["offset"]]
        values[event["value"]] = min(event["time"], values.get(event["value"], event["time"]))

    for send in known.sends.values():
        if send["type"] == Type.OK and _has_offset(send):
            for log in (held, acknowledged):
                learn(log, known.eras.of(send), send)
    for record in chain.from_iterable(known.reads.values()):
        learn(held, known.eras.of_read(record), record)
    for send in known.proven():
        learn(held, known.eras.of(send), send)
    for anomaly, log in (("inconsistent-offset", held), ("shared-offset", acknowledged)):
        for (topic, partition, era, offset), values in log.items():
            if len(values) > 1:
                low, high = min(values), max(values)
                tags = ["deleted topic"] if era == UNSURE else []
                yield _told(anomaly, (topic, partition), offset, [low, high], min(values[low], values[high]), *tags)


def _of_odd_records(known: _Known) -> Iterator[Told]:
    """Records that say of themselves that something is wrong, each place once."""
    names = {Status.CORRUPT: "corrupt", Status.MISROUTED: "misrouted", Status.FOREIGN: "phantom"}
    odd: dict[tuple[str, Place, int], list[Event]] = defaultdict(list)
    for place, of_place in known.records.items():
        for record in of_place:
            if record.get("status") in names:
                odd[names[record["status"]], place, record["offset"]].append(record)
    for (anomaly, place, offset), same in odd.items():
        values = [record["value"] for record in same if record.get("value") is not None]
        tags = ["foreign"] if anomaly == "phantom" else []
        first = min(record["time"] for record in same)
        yield _told(anomaly, place, offset, [max(values)] if values else [], first, *tags)


def _of_keys(known: _Known) -> Iterator[Told]:
    """Last writes of keys that are gone."""
    writes: dict[tuple[Place, int], list[Event]] = defaultdict(list)
    for send in known.sends.values():
        acknowledged = send["type"] == Type.OK and _has_offset(send)
        to_stay = compacted(known.rows, send["topic"]) and not known.eras.may_be_gone(send["topic"], send["invoked"])
        if acknowledged and to_stay and send.get("key") is not None:
            writes[_place(send), send["key"]].append(send)
    for (place, number), sends in writes.items():
        written = max(send["offset"] for send in sends)
        found = [
            record
            for record in known.records[place]
            if record.get("key") == number and known.about(record)["role"] == "final"
        ]
        returned = {record.get("value") for record in found}
        last = max(
            (send for send in sends if send["offset"] == written),
            key=lambda send: (send["value"] not in returned, send["value"]),
        )
        ended = any(final["type"] == Type.OK and final["invoked"] >= last["time"] for final in known.finals[place])
        superseded = any(record["offset"] > written for record in found)
        if ended and last["value"] not in returned and not superseded:
            yield _told("lost-write", place, written, [last["value"]], last["time"], "last of its key")
