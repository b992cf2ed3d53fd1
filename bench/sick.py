"""Histories of really sick brokers, of any size: what a check may not take long for, although very much is wrong.

    disputed leaders        at every metadata refresh every node names another leader for every partition, and leaves
                            out another broker; epochs that stay, that rise, and that nodes learn of seconds late
    refusals                answers that this node is not the leader, hundreds of thousands for a million events, to
                            eight clients that refresh their metadata all the time and are sent back there
    all info                every send times out, though all of it was appended
    acks=0                  nothing is acknowledged: sends end without an offset
    read twice, lost and shared
                            every record is handed out twice, every other value is lost and the one before it lies in
                            its place, every offset that was acknowledged was so to two sends
    falling watermarks      high watermarks, ends, last stable offsets and log starts fall at every answer
    transactions            about 75,000 of them for a million events, in 4 partitions each, half of them aborted; some
                            of what was aborted is read and some of what was committed is not, and transactions read
                            what others have not committed yet
    rebalances              a group of 500 members that rebalances all the time: partitions are given away before they
                            are let go of, committed offsets go back or vanish, and records are passed by
    10,000 partitions       healthy, and very wide
    200 faults              healthy, but clients wait through one fault after the other
    resends                 batches of others at the tap, each sent twice, acknowledged twice and read at both offsets
    sends and polls         healthy: sends and polls of eight partitions and nothing else, as Jepsen records it

Most of them are a healthy load (`bench.history_load`) of which something is changed, or beside which something lies
that makes up most of the events. Everything is a function of numbers here as well, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from bench.histories import processes_of
from bench.history_load import Extras, Load
from bench.history_plan import (
    EVENTS_OF_100,
    FINAL_POLL,
    FIRST_CONSUMER,
    FIRST_FINAL,
    FIRST_PRODUCER,
    LEAST_NS,
    MS,
    PACE_NS,
    PROBE,
    PROBES_OF_100,
    RUN,
    START_NS,
    TEXTS,
    TOPIC,
    TXN_TOPIC,
    Numbers,
    Plan,
    Planted,
    blocks,
    make_rows,
)
from harness.foundation.error_codes import NUMBERS
from harness.foundation.protocol import Api, ErrorCode
from harness.history.schema import (
    COLUMNS,
    FIRST_TAP,
    ID_BITS,
    NEMESIS_PROCESS,
    F,
    FaultStage,
    Kind,
    OffsetView,
    Status,
    Type,
)
from harness.history.sealing import write_history
from harness.history.sources import Rows

Streams = dict[Kind, list[Iterator[Rows]]]
SECOND_TAP = FIRST_TAP + 1  # what lies beside the load is seen by a tap of its own, whose events are in order, too
STRANGE_TOPIC = 2
TIMED_OUT = NUMBERS["_MSG_TIMED_OUT"]  # the client's own
POLL = 3  # the how-manieth operation of a stay
TXN_PRODUCERS, MEMBERS = 20, 500
FIRST_MEMBER = 100
FAULT_NAMES = ("leader-kill", "pause", "partition-halves")
SICK_TEXTS = (
    *TEXTS, "1,2", "1,3", "pause", "partition-halves", "killed, paused or cut off", "Local: Message timed out",
    "the client got no answer", "stranger",
    *(f"transaction-{n}" for n in range(TXN_PRODUCERS)),
    *(f"tidegauge-consumer-{FIRST_MEMBER + n}" for n in range(MEMBERS)),
)  # fmt: skip
TEXT = {text: number for number, text in enumerate(SICK_TEXTS)}


@dataclass(frozen=True)
class Story:
    """A history that is still to be written."""

    streams: Streams
    processes: dict[int, dict[str, Any]]
    topics: dict[int, str]


@dataclass(frozen=True)
class Shape:
    """A sort of sickness, for about so many events, and what a check has to know of it."""

    make: Callable[[int], Story]
    acks: str = "all"
    foreign: bool = False


def generate(directory: Path, name: str, events: int) -> Path:
    """A sealed run of that shape."""
    story = SHAPES[name].make(events)
    about = {
        "processes": {str(number): told for number, told in story.processes.items()},
        "topics": {str(number): told for number, told in story.topics.items()},
        "damage": [],
        "damaged_processes": [],
        "has_holes": False,
    }
    write_history(directory, story.streams, SICK_TEXTS, about)
    return directory


def _null(name: str) -> int:
    return COLUMNS[name].null


def _only(chosen: Any, **columns: Any) -> dict[str, Any]:
    """Columns that are null but in the chosen rows."""
    return {name: np.where(chosen, values, _null(name)) for name, values in columns.items()}


def _where(rows: Rows, chosen: Any, **columns: Any) -> None:
    """Change columns of the chosen rows."""
    for name, values in columns.items():
        rows[name] = np.where(chosen, values, rows[name])


@dataclass(frozen=True)
class SickLoad(Load):
    """A load with something wrong, and so many events beside it."""

    PARTITIONS: ClassVar[int] = 12
    SHARE: ClassVar[float] = 1.0  # of the events that are the load's
    OF_100: ClassVar[int] = EVENTS_OF_100  # events, about, of a hundred messages of the load

    extra: int = 0

    @classmethod
    def story(cls, events: int) -> Story:
        """As a run records it."""
        load = cls.of(events)
        return Story(load.streams(), load.processes(), load.topics())

    @classmethod
    def of(cls, events: int) -> Self:
        """With about so many events."""
        own = int((events - 2 * cls.PARTITIONS) * cls.SHARE)
        return cls(Plan.of(own * EVENTS_OF_100 // cls.OF_100, cls.PARTITIONS), Planted(), events - own)

    def streams(self) -> Streams:
        """All that is recorded."""
        streams: Streams = {kind: [] for kind in Kind}
        for kind, rows in Extras(self.plan).rows.items():
            streams[kind].append(iter([rows]))
        for kind in (Kind.INVOKE, Kind.COMPLETE):
            streams[kind] += [self.sends(kind), self.polls(kind), self.finals(kind)]
        streams[Kind.RECORD] += [self.reads(), self.final_reads()]
        streams[Kind.PROBE].append(self.probes())
        streams[Kind.EXCHANGE] += [self.produces(), self.fetches(), self.beside()]
        return streams

    def beside(self) -> Iterator[Rows]:
        """What else passed the tap."""
        return iter(())

    def processes(self) -> dict[int, dict[str, Any]]:
        """What the manifest says of them."""
        return {**processes_of(self.plan), SECOND_TAP: {"role": "tap"}}

    def topics(self) -> dict[int, str]:
        """By their numbers."""
        return {TOPIC: "load", TXN_TOPIC: "transfers"}

    def pace(self, count: int) -> int:
        """From one to the next of so many that are spread over the load."""
        return (self.plan.end_ns - START_NS - 10 * MS) // max(1, count)

    @cached_property
    def everybody(self) -> int:
        """Producers and consumers."""
        return 2 * self.plan.clients

    def refreshed(self, numbers: Numbers, op: Numbers, partitions: Numbers, **columns: Any) -> Rows:
        """Metadata, a row for each partition, told to one client after the other."""
        return make_rows(
            Kind.EXCHANGE, len(numbers), process=SECOND_TAP, counter=numbers, op=(SECOND_TAP << ID_BITS) + op,
            type=Type.OK, api=Api.METADATA, api_version=12, error=0, topic=TOPIC, partition=partitions, **columns,
        )  # fmt: skip

    def names(self, client: Numbers) -> Numbers:
        """The client ids of producers, then of consumers."""
        of_producers, of_consumers = TEXT["tidegauge-producer-10"], TEXT["tidegauge-consumer-20"] - self.plan.clients
        return client + np.where(client < self.plan.clients, of_producers, of_consumers)


class DisputedLeaders(SickLoad):
    """Half of the events are answers to Metadata, of three nodes in turn that never agree."""

    SHARE = 0.5

    def beside(self) -> Iterator[Rows]:
        """Four sorts of partitions: epochs stay, rise when all were asked or at every refresh, or are heard of late."""
        plan = self.plan
        refreshes = self.extra // plan.partitions + 1
        pace, late = self.pace(refreshes), refreshes // 6
        for numbers in blocks(self.extra):
            refresh, partitions = numbers // plan.partitions, numbers % plan.partitions
            node, turn = refresh % 3 + 1, refresh // 3
            epoch = np.choose(partitions % 4, [0 * turn, turn, refresh, np.maximum(0, refresh - late * (node - 1))])
            invoked = START_NS + refresh * pace
            yield self.refreshed(
                numbers, refresh, partitions, invoked=invoked, time=invoked + MS, node=node,
                client=self.names(refresh % self.everybody), connection=refresh % self.everybody, count=2,
                leader=(node + turn + partitions) % 3 + 1, leader_epoch=epoch,
                brokers=np.array([TEXT["1,3"], TEXT["1,2"], TEXT["2,3"]])[node - 1], isr=TEXT["1,2,3"],
            )  # fmt: skip


class Refusals(SickLoad):
    """Two thirds of the events are refusals, or refreshes that change nothing."""

    SHARE = 0.3
    AT_ONCE: ClassVar[int] = 20  # refusals of one client before it asks again who leads

    def beside(self) -> Iterator[Rows]:
        """Refusals to one client and its refresh, then those of the next."""
        plan, width = self.plan, self.AT_ONCE + self.plan.partitions
        pace = self.pace(self.extra)
        for numbers in blocks(self.extra):
            turn, inside = numbers // width, numbers % width
            refused = inside < self.AT_ONCE
            client = turn % self.everybody
            own = client % plan.clients + plan.clients * (inside % (plan.partitions // plan.clients))
            partitions = np.where(refused, own, inside - self.AT_ONCE)
            op = np.where(refused, numbers, turn * width + self.AT_ONCE)
            invoked = START_NS + op * pace
            leader, epoch = plan.leader(partitions, invoked)
            rows = self.refreshed(
                numbers, op, partitions, invoked=invoked, time=invoked + pace, connection=client,
                client=self.names(client), node=np.where(refused, leader, turn % 3 + 1), leader_epoch=epoch,
                **_only(~refused, leader=leader, brokers=TEXT["1,2,3"], isr=TEXT["1,2,3"], count=3),
            )  # fmt: skip
            self._refuse(rows, refused, client < plan.clients)
            yield rows

    def _refuse(self, rows: Rows, refused: Any, sends: Any) -> None:
        """Make refusals of some rows: to producers the batch that is next, to consumers what lies there."""
        plan, partitions = self.plan, rows["partition"].astype(np.int64)
        offset = plan.watermark(partitions, rows["invoked"])
        refusal = self._exchange(offset // RUN * plan.partitions + partitions, rows["invoked"])
        rows["api"] = np.where(refused, np.where(sends, Api.PRODUCE, Api.FETCH), Api.METADATA)
        rows["error"] = np.where(refused, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
        of_batch = {name: refusal[name] for name in ("sequence", "crc", "count")}
        of_batch |= {"acks": -1, "producer_id": plan.producer(partitions), "producer_epoch": 0}
        _where(rows, refused & sends, leader_epoch=_null("leader_epoch"), **of_batch)
        _where(rows, refused & ~sends, asked=offset, view=OffsetView.LATEST, count=0)


class AllInfo(SickLoad):
    """Clients hear nothing of what they send."""

    def sends(self, kind: Kind) -> Iterator[Rows]:
        """Until their time is over."""
        for rows in super().sends(kind):
            if kind is Kind.COMPLETE:
                rows["type"], rows["error"], rows["offset"] = Type.INFO, TIMED_OUT, _null("offset")
                rows["detail"] = TEXT["Local: Message timed out"]
                rows["time"] += 500 * MS
            yield rows

    def produces(self) -> Iterator[Rows]:
        """The answers are lost on their way back."""
        for rows in super().produces():
            rows["type"], rows["detail"] = Type.INFO, TEXT["the client got no answer"]
            yield rows


class NoAcknowledgements(SickLoad):
    """With acks=0 clients do not wait for answers; some libraries then tell an offset of -1, others none."""

    def sends(self, kind: Kind) -> Iterator[Rows]:
        """They end at once."""
        for rows in super().sends(kind):
            if kind is Kind.COMPLETE:
                rows["offset"] = np.where(rows["value"] % 2 == 0, -1, _null("offset"))
            yield rows

    def produces(self) -> Iterator[Rows]:
        """Without any answer."""
        for rows in super().produces():
            for name in ("offset", "error", "log_start", "producer_id", "producer_epoch", "sequence"):
                rows[name] = _null(name)
            rows["acks"] = 0
            yield rows

    def processes(self) -> dict[int, dict[str, Any]]:
        """Nobody numbers what he sends."""
        return {number: about | ({"idempotent": False} if "idempotent" in about else {})
                for number, about in super().processes().items()}  # fmt: skip


class TwiceLostAndShared(SickLoad):
    """Of two messages that follow each other the log has the first one twice, and both were acknowledged there."""

    PARTITIONS = 3
    OF_100 = EVENTS_OF_100 + 100

    def sends(self, kind: Kind) -> Iterator[Rows]:
        """The second one has the offset of the first."""
        for rows in super().sends(kind):
            if kind is Kind.COMPLETE:
                rows["offset"] -= rows["offset"] % 2
            yield rows

    def polls(self, kind: Kind) -> Iterator[Rows]:
        """With twice as many records."""
        for rows in super().polls(kind):
            self._apart(rows)
            if kind is Kind.COMPLETE:
                rows["count"] *= 2
            yield rows

    def reads(self) -> Iterator[Rows]:
        """Each record is handed out, and then again."""
        for rows in super().reads():
            self._apart(rows)
            twice = np.repeat(self._first(rows), 2)
            twice["event"][1::2] += 1
            yield twice

    def final_reads(self) -> Iterator[Rows]:
        """They find what is in the log."""
        return map(self._first, super().final_reads())

    @staticmethod
    def _first(rows: Rows) -> Rows:
        second = rows["offset"] % 2
        rows["value"] -= second
        rows["sequence"] -= second
        return rows

    @staticmethod
    def _apart(rows: Rows) -> None:
        """Leave an event free after each."""
        rows["event"] += rows["event"] - (rows["process"].astype(np.int64) << ID_BITS)


class FallingWatermarks(SickLoad):
    """Half of the events are answers to probes, and each shows less than all before it."""

    PARTITIONS = 3
    SHARE = 0.5
    OF_100 = EVENTS_OF_100 - PROBES_OF_100

    def probes(self) -> Iterator[Rows]:
        """Instead of the healthy ones."""
        plan, pace = self.plan, self.pace(self.extra)
        for numbers in blocks(self.extra):
            partitions = numbers // 4 % plan.partitions
            api = np.array([Api.FETCH, Api.LIST_OFFSETS, Api.METADATA, Api.LIST_OFFSETS])[numbers % 4]
            invoked, mark = START_NS + numbers * pace, self.extra - numbers
            leader, epoch = plan.leader(partitions, invoked)
            start, view = (
                np.maximum(0, mark - 100),
                np.where(numbers % 4 == 1, OffsetView.LATEST, OffsetView.LATEST_COMMITTED),
            )
            yield make_rows(
                Kind.PROBE, len(numbers), process=PROBE, counter=numbers, invoked=invoked,
                time=invoked + min(MS, pace // 2), api=api, node=leader, topic=TOPIC, partition=partitions,
                leader_epoch=epoch, error=0,
                **_only(api == Api.FETCH, high_watermark=mark, last_stable_offset=mark, log_start=start),
                **_only(api == Api.LIST_OFFSETS, offset=mark, view=view),
                **_only(api == Api.METADATA, leader=leader, brokers=TEXT["1,2,3"], isr=TEXT["1,2,3"], count=3),
            )  # fmt: skip

    def fetches(self) -> Iterator[Rows]:
        """They are shown marks that fall as well."""
        for rows in super().fetches():
            rows["high_watermark"] = 2 * self.plan.runs - rows["op"] % (1 << ID_BITS)
            rows["last_stable_offset"] = rows["high_watermark"]
            yield rows


class Wide(SickLoad):
    """Nothing is wrong with it."""

    PARTITIONS = 10_000

    def probes(self) -> Iterator[Rows]:
        """It takes long to ask for all partitions, so that the next node is asked for the next one."""
        for rows in super().probes():
            asked = (rows["event"] >> 2) % 3 + 1
            cut = rows["brokers"] == TEXT["2,3"]
            _where(rows, rows["api"] == Api.METADATA, node=np.where(cut & (asked == 1), 2, asked))
            yield rows


class ManyFaults(SickLoad):
    """Time stands still for clients as long as a fault lasts: what was under way goes on when it is over."""

    FAULTS: ClassVar[int] = 199  # and the one that every load has
    LASTS_NS: ClassVar[int] = 2_000 * MS
    PROBES: ClassVar[int] = 20  # while it lasts

    @cached_property
    def begins(self) -> Numbers:
        """In the time of clients."""
        return START_NS + (1 + np.arange(self.FAULTS)) * self.pace(self.FAULTS + 1)

    def streams(self) -> Streams:
        """With the time of the world."""
        streams: Streams = {}
        for kind, found in super().streams().items():
            streams[kind] = [map(self._in_the_world, each) for each in found]
        streams[Kind.FAULT].append(iter([self._faults()]))
        streams[Kind.PROBE].append(iter([self._probes_in_faults()]))
        return streams

    def processes(self) -> dict[int, dict[str, Any]]:
        """Another one asks while time stands still."""
        return super().processes() | {PROBE + 1: {"role": "probe"}}

    def _in_the_world(self, rows: Rows) -> Rows:
        for name in {"time", "invoked"} & {*(rows.dtype.names or ())}:
            known = rows[name] != _null(name)
            rows[name] += np.where(known, np.searchsorted(self.begins, rows[name]) * self.LASTS_NS, 0)
        return rows

    @property
    def _since(self) -> Numbers:
        return self.begins + np.arange(self.FAULTS) * self.LASTS_NS

    def _faults(self) -> Rows:
        stages = (FaultStage.INJECTED, FaultStage.BIT, FaultStage.UNDONE, FaultStage.HEALED)
        faults, turns = np.repeat(np.arange(self.FAULTS), len(stages)), np.tile(np.arange(len(stages)), self.FAULTS)
        names = np.array([TEXT[name] for name in FAULT_NAMES])
        return make_rows(
            Kind.FAULT, len(faults), process=NEMESIS_PROCESS, counter=100 + np.arange(len(faults)), fault=2 + faults,
            time=self._since[faults] + self.LASTS_NS // 10 * np.array([1, 2, 8, 9])[turns],
            stage=np.array(stages)[turns], name=names[faults % len(names)], node=faults % 3 + 1,
            detail=TEXT["killed, paused or cut off"],
        )  # fmt: skip

    def _probes_in_faults(self) -> Rows:
        plan, numbers = self.plan, np.arange(self.FAULTS * self.PROBES)
        faults, partitions = numbers // self.PROBES, numbers % plan.partitions
        invoked = self._since[faults] + (numbers % self.PROBES) * (self.LASTS_NS // self.PROBES)
        leader, epoch = plan.leader(partitions, self.begins[faults])
        mark = plan.watermark(partitions, self.begins[faults])
        return make_rows(
            Kind.PROBE, len(numbers), process=PROBE + 1, counter=numbers, invoked=invoked, time=invoked + MS,
            api=Api.FETCH, node=leader, topic=TOPIC, partition=partitions, leader_epoch=epoch, error=0,
            high_watermark=mark, last_stable_offset=mark, log_start=0,
        )  # fmt: skip


class Resends(SickLoad):
    """Half of the events are batches of others, in another topic."""

    SHARE = 0.5

    def topics(self) -> dict[int, str]:
        """And that one."""
        return super().topics() | {STRANGE_TOPIC: "strange"}

    def beside(self) -> Iterator[Rows]:
        """A batch is sent, read, sent again, and read again behind it; then the watermark falls."""
        plan, pace = self.plan, self.pace(self.extra)
        for numbers in blocks(self.extra):
            batch, turn = numbers // 4, numbers % 4
            partitions, base = batch % plan.partitions, batch // plan.partitions * 2 * RUN
            sends, again = turn % 2 == 0, turn // 2
            invoked, mark = START_NS + numbers * pace, base + np.where(again == 1, RUN, 2 * RUN)
            leader, epoch = plan.leader(partitions, invoked)
            common = self._exchange(batch, invoked) | {
                "process": SECOND_TAP, "topic": STRANGE_TOPIC, "partition": partitions, "offset": base + again * RUN,
                "sequence": batch // plan.partitions * RUN, "node": leader, "connection": partitions,
            }  # fmt: skip
            yield make_rows(
                Kind.EXCHANGE, len(numbers), counter=numbers, op=(SECOND_TAP << ID_BITS) + numbers, invoked=invoked,
                time=invoked + pace // 2, api=np.where(sends, Api.PRODUCE, Api.FETCH), api_version=10,
                client=TEXT["stranger"], producer_id=1_000 + partitions, producer_epoch=0, **_only(sends, acks=-1),
                **_only(~sends, asked=base, view=OffsetView.LATEST, high_watermark=mark, last_stable_offset=mark),
                **_only(~sends, leader_epoch=epoch), **common,
            )  # fmt: skip


class SendsAndPolls(SickLoad):
    """Values are numbers of their key, and so is all that is known of them."""

    PARTITIONS = 8
    OF_100 = 302

    def streams(self) -> Streams:
        """No phases, no probes, no tap, and nobody reads to the end."""
        streams: Streams = {kind: [] for kind in Kind}
        for kind in (Kind.INVOKE, Kind.COMPLETE):
            streams[kind] += [map(self._numbered, self.sends(kind)), self.polls(kind)]
        streams[Kind.RECORD].append(map(self._numbered, self.reads()))
        return streams

    def topics(self) -> dict[int, str]:
        """A single one."""
        return {TOPIC: "jepsen"}

    def processes(self) -> dict[int, dict[str, Any]]:
        """Any of them may do anything."""
        return {number: {"role": "consumer"} for first in (FIRST_PRODUCER, FIRST_CONSUMER)
                for number in range(first, first + self.plan.clients)}  # fmt: skip

    @staticmethod
    def _numbered(rows: Rows) -> Rows:
        rows["value"] = (rows["partition"].astype(np.int64) << ID_BITS) + rows["sequence"]
        for name in {"producer", "sequence"} & {*(rows.dtype.names or ())}:
            rows[name] = _null(name)
        return rows


@dataclass(frozen=True)
class Transactions:
    """Transaction t sends a message to each partition; twenty of them are open at any time, and half are aborted.

    Its reader is given some of what was aborted, and of some that were committed one message is missing. Every fourth
    one polls, and is handed what the fourth one after it, or before it, has not committed yet, or has.
    """

    EVENTS_OF_ONE: ClassVar[float] = 13.65
    PARTITIONS: ClassVar[int] = 4
    OPERATIONS: ClassVar[int] = 1 + PARTITIONS + 1  # the transaction, its sends and a poll
    EVENTS: ClassVar[int] = 2 * OPERATIONS + PARTITIONS

    count: int

    @classmethod
    def story(cls, events: int) -> Story:
        """As a run records it."""
        made = cls(max(2 * TXN_PRODUCERS, int(events / cls.EVENTS_OF_ONE)))
        committed = {"isolation": "read_committed"}
        processes: dict[int, dict[str, Any]] = {
            0: {"role": "runner"},
            **{FIRST_MEMBER + n: {"role": "consumer", "idempotent": True, **committed} for n in range(TXN_PRODUCERS)},
            FIRST_FINAL: {"role": "final", **committed},
        }
        return Story(made.streams(), processes, {TOPIC: "transfers"})

    def streams(self) -> Streams:
        """All that is recorded."""
        streams: Streams = {kind: [] for kind in Kind}
        for kind in (Kind.INVOKE, Kind.COMPLETE):
            streams[kind] += [iter([self._inits(kind)]), self._txns(kind), self._sends(kind), self._polls(kind)]
            streams[kind].append(self._finals(kind))
        streams[Kind.RECORD] += [self._polled(), self._final_reads()]
        streams[Kind.PHASE].append(iter([_phases(self.end_ns, self.final_ns)]))
        return streams

    @property
    def pace_ns(self) -> int:
        """From the beginning of one to that of the next."""
        return max(10 * PACE_NS, LEAST_NS // self.count)

    @property
    def end_ns(self) -> int:
        """When all have ended."""
        return START_NS + (self.count + TXN_PRODUCERS) * self.pace_ns + 10 * MS

    @property
    def final_ns(self) -> int:
        """When the final read begins."""
        return self.end_ns + 1_000 * MS

    @staticmethod
    def _process(txns: Numbers) -> Numbers:
        return FIRST_MEMBER + txns % TXN_PRODUCERS

    @staticmethod
    def _name(txns: Numbers) -> Numbers:
        return TEXT["transaction-0"] + txns % TXN_PRODUCERS

    def _op(self, txns: Numbers) -> Numbers:
        """Its own; those of its parts follow."""
        return (self._process(txns) << ID_BITS) + 1 + txns // TXN_PRODUCERS * self.OPERATIONS

    def _counter(self, txns: Numbers) -> Numbers:
        return 2 + txns // TXN_PRODUCERS * self.EVENTS

    def _at(self, txns: Numbers, paces: float) -> Numbers:
        """So many paces after its beginning."""
        return START_NS + 10 * MS + txns * self.pace_ns + int(paces * self.pace_ns)

    @staticmethod
    def _offset(txns: Numbers) -> Numbers:
        """In each partition: before it lie all messages before it, and the markers of those that have ended."""
        return txns + np.maximum(0, txns - TXN_PRODUCERS + 1)

    @staticmethod
    def _aborted(txns: Numbers) -> Any:
        return (txns + txns // TXN_PRODUCERS) % 2 == 1

    def _end(self, txns: Numbers) -> Numbers:
        return np.where(self._aborted(txns), Type.FAIL, Type.OK)

    def _inits(self, kind: Kind) -> Rows:
        producers = np.arange(TXN_PRODUCERS)
        return make_rows(
            kind, TXN_PRODUCERS, process=FIRST_MEMBER + producers, counter=0 + (kind is Kind.COMPLETE), f=F.INIT,
            op=(FIRST_MEMBER + producers) << ID_BITS, type=Type.OK, invoked=START_NS, time=START_NS + MS, error=0,
            name=self._name(producers),
        )  # fmt: skip

    def _txns(self, kind: Kind) -> Iterator[Rows]:
        for txns in blocks(self.count):
            counter = self._counter(txns) + (kind is Kind.COMPLETE) * (self.EVENTS - 1)
            yield make_rows(
                kind, len(txns), process=self._process(txns), counter=counter, op=self._op(txns), f=F.TXN,
                count=self.PARTITIONS, type=self._end(txns), invoked=self._at(txns, 0), time=self._at(txns, 15),
                error=0, name=self._name(txns),
            )  # fmt: skip

    def _sends(self, kind: Kind) -> Iterator[Rows]:
        first = 1 + (kind is Kind.COMPLETE) * (self.EVENTS // 2 + 2)
        for numbers in blocks(self.count * self.PARTITIONS):
            txns, partitions = numbers // self.PARTITIONS, numbers % self.PARTITIONS
            yield make_rows(
                kind, len(numbers), process=self._process(txns), counter=self._counter(txns) + first + partitions,
                f=F.SEND, op=self._op(txns) + 1 + partitions, txn=self._op(txns), type=self._end(txns), error=0,
                invoked=self._at(txns, 7), time=self._at(txns, 15), **self._message(txns, partitions),
            )  # fmt: skip

    def _message(self, txns: Numbers, partitions: Numbers) -> dict[str, Any]:
        return {"topic": TOPIC, "partition": partitions, "offset": self._offset(txns),
                "value": self._op(txns) + 1 + partitions, "sequence": txns // TXN_PRODUCERS}  # fmt: skip

    def _read(self, txns: Numbers, partitions: Numbers) -> dict[str, Any]:
        return self._message(txns, partitions) | {"producer": self._process(txns), "status": Status.GOOD}

    def _poll(self, txns: Numbers) -> dict[str, Any]:
        op = self._op(txns)
        return {"process": self._process(txns), "op": op + self.OPERATIONS - 1, "txn": op,
                "invoked": self._at(txns, 13), "time": self._at(txns, 14)}  # fmt: skip

    def _polls(self, kind: Kind) -> Iterator[Rows]:
        first = 1 + self.PARTITIONS + (kind is Kind.COMPLETE) * (self.PARTITIONS + 1)
        for txns in (4 * quarters for quarters in blocks(self.count // 4)):
            yield make_rows(kind, len(txns), counter=self._counter(txns) + first, f=F.POLL, type=Type.OK, error=0,
                            count=self.PARTITIONS, **self._poll(txns))  # fmt: skip

    def _polled(self) -> Iterator[Rows]:
        for numbers in blocks(self.count // 4 * self.PARTITIONS):
            txns, partitions = 4 * (numbers // self.PARTITIONS), numbers % self.PARTITIONS
            others = np.minimum(np.where(txns % 8 == 0, txns + 4, txns - 4), self.count - 1)
            yield make_rows(
                Kind.RECORD, len(numbers), counter=self._counter(txns) + 2 + self.PARTITIONS + partitions,
                **self._poll(txns), **self._read(others, partitions),
            )  # fmt: skip

    def _final(self, partitions: Numbers) -> dict[str, Any]:
        lasts = (self.count // FINAL_POLL + 3) * MS
        began = self.final_ns + partitions * lasts
        return {"process": np.full(len(partitions), FIRST_FINAL), "op": (FIRST_FINAL << ID_BITS) + partitions,
                "invoked": began, "time": began + lasts}  # fmt: skip

    def _finals(self, kind: Kind) -> Iterator[Rows]:
        partitions, end = np.arange(self.PARTITIONS), 2 * self.count
        yield make_rows(
            kind, len(partitions), counter=partitions * (self.count + 2) + (kind is Kind.COMPLETE) * (self.count + 1),
            f=F.FINAL, type=Type.OK, topic=TOPIC, partition=partitions, offset=end, end=end, count=self.count // 2,
            error=0, **self._final(partitions),
        )  # fmt: skip

    def _final_reads(self) -> Iterator[Rows]:
        for partition in range(self.PARTITIONS):
            for txns in blocks(self.count):
                partitions = np.full(len(txns), partition)
                handed = np.where(self._aborted(txns), txns % 10 == 3, (txns % 50 != 8) | (partitions != 1))
                columns = self._final(partitions)
                columns |= {
                    "time": columns["invoked"] + (txns // FINAL_POLL + 1) * MS,
                    "counter": partitions * (self.count + 2) + 1 + txns,
                }
                yield make_rows(Kind.RECORD, len(txns), **columns, **self._read(txns, partitions))[handed]


@dataclass(frozen=True)
class Rebalances:
    """In each round half of the members have a partition, and keep it until one of the other half has it, too.

    A member joins anew after eight such stays. The group remembers the offset of the round before, or an older one, or
    none. Stays are numbered round by round.
    """

    PARTITIONS: ClassVar[int] = MEMBERS // 2
    EVENTS_OF_ONE: ClassVar[float] = 20.0  # of a stay
    DOINGS: ClassVar[tuple[tuple[F, float], ...]] = (  # in a stay, and after so much of a round
        (F.SUBSCRIBE, 0.0), (F.ASSIGN, 0.1), (F.COMMITTED, 0.15), (F.POLL, 0.3), (F.COMMIT, 0.55), (F.REVOKE, 1.4),
        (F.LEAVE, 1.5),
    )  # fmt: skip
    OPERATIONS: ClassVar[int] = len(DOINGS)
    EVENTS: ClassVar[int] = 32  # of a stay, at most
    STAYS: ClassVar[int] = 8
    MESSAGES: ClassVar[int] = 2
    ROUND_NS: ClassVar[int] = 2_000 * MS

    rounds: int

    @classmethod
    def story(cls, events: int) -> Story:
        """As a run records it."""
        made = cls(max(2, round(events / cls.EVENTS_OF_ONE / cls.PARTITIONS)))
        uncommitted = {"isolation": "read_uncommitted"}
        processes: dict[int, dict[str, Any]] = {
            0: {"role": "runner"},
            FIRST_PRODUCER: {"role": "producer", "idempotent": True},
            FIRST_FINAL: {"role": "final", **uncommitted},
            FIRST_TAP: {"role": "tap"},
            **{FIRST_MEMBER + n: {"role": "consumer", "group": True, **uncommitted} for n in range(MEMBERS)},
        }
        return Story(made.streams(), processes, {TOPIC: "shared"})

    @property
    def count(self) -> int:
        """Of stays, one in each partition in each round."""
        return self.rounds * self.PARTITIONS

    @property
    def end_ns(self) -> int:
        """When the last one has let go."""
        return START_NS + (self.rounds + 2) * self.ROUND_NS

    @property
    def final_ns(self) -> int:
        """When the final read begins."""
        return self.end_ns + 1_000 * MS

    def streams(self) -> Streams:
        """All that is recorded; a partition is let go of late in the next round."""
        streams: Streams = {kind: [] for kind in Kind}
        for kind in (Kind.INVOKE, Kind.COMPLETE):
            streams[kind] += [self._operations(kind, turn) for turn in range(self.OPERATIONS)]
            streams[kind] += [self._sends(kind), self._finals(kind)]
        streams[Kind.RECORD] += [self._records(), self._final_reads()]
        streams[Kind.EXCHANGE] += [self._exchanges(Api.OFFSET_FETCH, 2), self._exchanges(Api.OFFSET_COMMIT, 4)]
        streams[Kind.PHASE].append(iter([_phases(self.end_ns, self.final_ns)]))
        return streams

    def _operations(self, kind: Kind, turn: int) -> Iterator[Rows]:
        f, after = self.DOINGS[turn]
        for numbers in blocks(self.count):
            stays = numbers
            if f is F.SUBSCRIBE:
                stays = stays[self._joined(stays) == stays]
            if f is F.LEAVE:
                stays = stays[self._joined(stays + 2 * self.PARTITIONS) > stays]
            invoked = self._at(stays, after)
            yield make_rows(
                kind, len(stays), process=self._process(stays), op=self._op(stays, turn), f=f, type=Type.OK, error=0,
                counter=self._turn(stays) * self.EVENTS + 4 * turn + 3 * (kind is Kind.COMPLETE), invoked=invoked,
                time=invoked + MS, member=self._op(self._joined(stays), 0), **self._told(f, stays),
            )  # fmt: skip

    def _told(self, f: F, stays: Numbers) -> dict[str, Any]:
        """What an operation says beside who it is of."""
        generation = 1 + stays // self.PARTITIONS
        told: dict[str, Any] = {"generation": generation, "name": TEXT["group"]}
        if f is F.POLL:
            return {"generation": generation, "count": np.where(self._passed(stays), 0, self.MESSAGES)}
        if f in {F.SUBSCRIBE, F.LEAVE}:
            return told
        told |= {"topic": TOPIC, "partition": self._partition(stays)}
        of_it: dict[F, dict[str, Any]] = {
            F.ASSIGN: {"detail": self._name(stays)},
            F.COMMITTED: {"offset": self._answer(stays)},
            F.COMMIT: {"offset": self._first(stays) + self.MESSAGES},
            F.REVOKE: {"generation": generation + 1},
        }
        return told | of_it[f]

    def _process(self, stays: Numbers) -> Numbers:
        return FIRST_MEMBER + stays % self.PARTITIONS * 2 + stays // self.PARTITIONS % 2

    def _turn(self, stays: Numbers) -> Numbers:
        """How many stays of its member come before."""
        return stays // self.PARTITIONS // 2

    def _op(self, stays: Numbers, turn: int) -> Numbers:
        return (self._process(stays) << ID_BITS) + self._turn(stays) * self.OPERATIONS + turn

    def _joined(self, stays: Numbers) -> Numbers:
        """The stay with which its membership began."""
        turn = self._turn(stays)
        before: Numbers = np.minimum(turn, (turn + stays % self.PARTITIONS) % self.STAYS)
        return stays - before * 2 * self.PARTITIONS

    def _at(self, stays: Numbers, rounds: float) -> Numbers:
        """So much of a round after its beginning; members come one after the other."""
        turn, slot = stays // self.PARTITIONS, stays % self.PARTITIONS
        start = START_NS + turn * self.ROUND_NS + slot * (self.ROUND_NS // self.PARTITIONS // 20)
        return start + int(rounds * self.ROUND_NS)

    def _partition(self, stays: Numbers) -> Numbers:
        return (stays + stays // self.PARTITIONS) % self.PARTITIONS

    @staticmethod
    def _passed(stays: Numbers) -> Any:
        """Whether it is handed nothing, and goes on behind what is there."""
        return stays % 10 == 7

    def _name(self, stays: Numbers) -> Numbers:
        return TEXT[f"tidegauge-consumer-{FIRST_MEMBER}"] + self._process(stays) - FIRST_MEMBER

    def _first(self, stays: Numbers) -> Numbers:
        """The offset that is first read in it."""
        return stays // self.PARTITIONS * self.MESSAGES

    def _answer(self, stays: Numbers) -> Numbers:
        """None, an old one, or the one that was committed."""
        first = self._first(stays)
        return np.choose(stays % 3, [np.full(len(stays), -1), np.maximum(-1, first - 2 * self.MESSAGES), first])

    def _messages(self, stays: Numbers, inside: Numbers) -> dict[str, Any]:
        """Each stay has its own."""
        partitions, offset = self._partition(stays), self._first(stays) + inside
        value = (FIRST_PRODUCER << ID_BITS) + stays * self.MESSAGES + inside
        return {"topic": TOPIC, "partition": partitions, "offset": offset, "value": value, "sequence": offset}

    def _each(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Every message: the stay in which it is read, and its number in it."""
        for numbers in blocks(self.count * self.MESSAGES):
            yield numbers // self.MESSAGES, numbers % self.MESSAGES

    def _sends(self, kind: Kind) -> Iterator[Rows]:
        for stays, inside in self._each():
            invoked = self._at(stays, 0.12)
            told = self._messages(stays, inside)
            yield make_rows(
                kind, len(stays), process=FIRST_PRODUCER, op=told["value"], f=F.SEND, type=Type.OK, error=0,
                counter=2 * (stays * self.MESSAGES + inside) + (kind is Kind.COMPLETE), invoked=invoked,
                time=invoked + 2 * MS, **told,
            )  # fmt: skip

    def _records(self) -> Iterator[Rows]:
        """Of all stays but those that pass them by."""
        for stays, inside in self._each():
            invoked = self._at(stays, self.DOINGS[POLL][1])
            rows = make_rows(
                Kind.RECORD, len(stays), process=self._process(stays), status=Status.GOOD, producer=FIRST_PRODUCER,
                counter=self._turn(stays) * self.EVENTS + 4 * POLL + 1 + inside, op=self._op(stays, POLL),
                invoked=invoked, time=invoked + MS, **self._messages(stays, inside),
            )  # fmt: skip
            yield rows[~self._passed(stays)]

    def _final(self, partitions: Numbers) -> dict[str, Any]:
        return {"process": np.full(len(partitions), FIRST_FINAL), "op": (FIRST_FINAL << ID_BITS) + partitions,
                "invoked": self.final_ns + partitions * MS}  # fmt: skip

    def _finals(self, kind: Kind) -> Iterator[Rows]:
        partitions, count = np.arange(self.PARTITIONS), self.rounds * self.MESSAGES
        yield make_rows(
            kind, len(partitions), counter=partitions * (count + 2) + (kind is Kind.COMPLETE) * (count + 1),
            f=F.FINAL, type=Type.OK, topic=TOPIC, partition=partitions, offset=count, end=count, count=count, error=0,
            time=self.final_ns + (partitions + 1) * MS, **self._final(partitions),
        )  # fmt: skip

    def _final_reads(self) -> Iterator[Rows]:
        count = self.rounds * self.MESSAGES
        for numbers in blocks(self.PARTITIONS * count):
            partitions, offset = numbers // count, numbers % count
            rounds = offset // self.MESSAGES
            stays = rounds * self.PARTITIONS + (partitions - rounds) % self.PARTITIONS
            yield make_rows(
                Kind.RECORD, len(numbers), counter=partitions * (count + 2) + 1 + offset, status=Status.GOOD,
                producer=FIRST_PRODUCER, time=self.final_ns + (partitions + 1) * MS, **self._final(partitions),
                **self._messages(stays, offset % self.MESSAGES),
            )  # fmt: skip

    def _exchanges(self, api: int, turn: int) -> Iterator[Rows]:
        """OffsetCommit and OffsetFetch, as the tap saw them."""
        commits = api == Api.OFFSET_COMMIT
        for stays in blocks(self.count):
            process, invoked = self._process(stays), self._at(stays, self.DOINGS[turn][1]) + MS // 4
            number = 2 * stays + commits
            offset = self._first(stays) + self.MESSAGES if commits else self._answer(stays)
            yield make_rows(
                Kind.EXCHANGE, len(stays), process=FIRST_TAP, counter=number, op=(FIRST_TAP << ID_BITS) + number,
                invoked=invoked, time=invoked + MS // 2, type=Type.OK, connection=process - FIRST_MEMBER,
                client=self._name(stays), node=1, api=api, api_version=8, topic=TOPIC,
                partition=self._partition(stays), offset=offset, error=0, detail=TEXT["group"],
                generation=1 + stays // self.PARTITIONS if commits else _null("generation"),
            )  # fmt: skip


def _phases(end_ns: int, final_ns: int) -> Rows:
    times = {
        "load": START_NS,
        "heal": end_ns,
        "recover": end_ns + MS,
        "recovered": end_ns + 2 * MS,
        "final": final_ns - MS,
    }
    return make_rows(Kind.PHASE, len(times), process=0, counter=np.arange(len(times)), time=list(times.values()),
                     name=[TEXT[name] for name in times])  # fmt: skip


SHAPES = {
    "disputed leaders": Shape(DisputedLeaders.story),
    "refusals": Shape(Refusals.story),
    "all info": Shape(AllInfo.story),
    "acks=0": Shape(NoAcknowledgements.story, acks="0"),
    "read twice, lost and shared": Shape(TwiceLostAndShared.story),
    "falling watermarks": Shape(FallingWatermarks.story),
    "transactions": Shape(Transactions.story),
    "rebalances": Shape(Rebalances.story),
    "10,000 partitions": Shape(Wide.story),
    "200 faults": Shape(ManyFaults.story),
    "resends": Shape(Resends.story),
    "sends and polls": Shape(SendsAndPolls.story, foreign=True),
}
