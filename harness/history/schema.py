"""The schema of a history: kinds of events, their columns, and what numbers in them mean.

An event is a row of one *kind*; a kind is a set of columns (`KINDS`), and a column means the same everywhere
(`COLUMNS`). While a run goes on, each process appends its rows to a segment of its own (`harness.history.recorder`);
sealing turns all segments into Parquet files, one directory per kind (`harness.history.sealing`). docs/history.md is
the specification.

An invocation is handed to the operating system before the call that it announces is made, so a process killed at any
instant leaves at most operations without a completion; sealing completes them as `info`. A completion carries the
time of its invocation: no check has to join the two.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

SCHEMA_VERSION = 2
ID_BITS = 40  # of an event or an operation: the process above, its counter below
RUNNER_PROCESS, NEMESIS_PROCESS, FIRST_WORKER = 0, 1, 2
FIRST_TAP = 1_000_000  # the tap, and those that took its place when it died
NO_CONNECTION = -1  # in place of an error code: nobody answered


class Kind(IntEnum):
    """What an event is about; each kind is a directory of Parquet files."""

    INVOKE = 1  # a client call is about to be made
    COMPLETE = 2  # how it ended
    RECORD = 3  # a record that a poll returned
    PROBE = 4  # what one node answered about one partition
    EXCHANGE = 5  # a request and its response, seen on the wire
    FAULT = 6  # a fault begins, bites, ends
    BROKER = 7  # a line of a broker's log
    PHASE = 8  # a phase of the run begins

    @property
    def directory(self) -> str:
        """As Spark names partition directories."""
        return f"kind={self.name.lower()}"


class F(IntEnum):
    """What a client call does."""

    SEND = 1
    POLL = 2
    FINAL = 3  # the final read of one partition, from its start to its end
    CREATE = 4  # a topic
    ASSIGN = 5  # a consumer takes a partition, or goes on at another offset of it
    SUBSCRIBE = 6  # a consumer joins a group; what its membership does refers to it
    REVOKE = 7  # a partition is taken from a member: ok when it let go in time, info when the group took it
    LEAVE = 8  # a consumer leaves its group
    COMMIT = 9  # an offset of a group
    COMMITTED = 10  # a group is asked for its offset
    INIT = 11  # a transactional id is taken
    TXN = 12  # a transaction, from its beginning to its end: ok is committed, fail is aborted
    DELETE = 13  # a topic
    GROW = 14  # a topic gets more partitions
    RAW = 15  # the final read once more, with what was aborted
    CRASH = 16  # a client is gone without a word
    REPLICA = 17  # one node is asked for what it has of a partition, whoever leads it


class Type(IntEnum):
    """How an operation ended."""

    OK = 1
    FAIL = 2  # certainly did not happen
    INFO = 3  # nobody knows


class Status(IntEnum):
    """What the payload of a record that was read says about itself."""

    GOOD = 0
    CORRUPT = 1  # its checksum does not hold
    MISROUTED = 2  # it was sent to another topic or partition
    FOREIGN = 3  # nothing that this run writes


class OffsetView(IntEnum):
    """Which offset a ListOffsets probe asked for."""

    EARLIEST = 1
    LATEST = 2  # read_uncommitted: the high watermark
    LATEST_COMMITTED = 3  # read_committed: the last stable offset


class FaultStage(IntEnum):
    """Where a fault is in its life."""

    INJECTED = 1
    BIT = 2  # with the proof
    UNDONE = 3
    MISSED = 4  # it ended without having bitten
    FAILED = 5  # it could not be injected or undone
    HEALED = 6  # the cluster is whole again after it


INT64, INT32, INT16, INT8 = "<i8", "<i4", "<i2", "i1"
_PACKED = {8: "q", 4: "i", 2: "h", 1: "b"}  # as struct calls them
TEXT = "text"  # an id of the recorder's text table in a segment, a string in Parquet


@dataclass(frozen=True)
class Column:
    """One column of the schema."""

    type: str
    about: str

    @property
    def stored(self) -> np.dtype[Any]:
        """How a segment holds it."""
        return np.dtype(INT32 if self.type == TEXT else self.type)

    @property
    def null(self) -> int:
        """What stands for null in a segment: the smallest number of its type, which no column uses."""
        return int(np.iinfo(self.stored).min)


COLUMNS: dict[str, Column] = {
    "event": Column(INT64, "unique in the run: the process in the upper bits, its counter in the lower 40"),
    "time": Column(
        INT64,
        "CLOCK_MONOTONIC, nanoseconds; of a completion: not before its end, of an invocation: not after its start",
    ),
    "process": Column(INT32, "the process that wrote the event; run.json and the manifest describe each process"),
    "op": Column(
        INT64,
        "the operation, unique in the run; shared by an invocation and its completion, and by all rows of an exchange",
    ),
    "invoked": Column(INT64, "the time of the invocation; of a probe or an exchange, when its request left"),
    "f": Column(
        INT8,
        "what the operation does: 1 send, 2 poll, 3 final read, 4 create topic, 5 assign, 6 subscribe, 7 revoke,"
        " 8 leave, 9 commit, 10 committed, 11 init, 12 transaction, 13 delete topic, 14 grow topic, 15 raw read,"
        " 16 crash, 17 replica read",
    ),
    "type": Column(
        INT8,
        "1 ok, 2 fail (certainly did not happen), 3 info (nobody knows); of an exchange: 1 the client got an answer,"
        " from the broker or made by a rule; 2 neither side got anything;"
        " 3 the broker got the request, the client got no answer",
    ),
    "topic": Column(INT32, "number of the topic; the manifest has the names"),
    "partition": Column(INT32, "partition of the topic"),
    "offset": Column(
        INT64,
        "of a send: as acknowledged; of a record: its own; of a final or replica read: where it stopped; of an "
        "assignment: where it starts, null if the library decides; of a commit: what is committed; of committed: "
        "the answer, -1 none; of ListOffsets: the answer; of a Produce exchange: the base offset in the answer; of"
        " a Fetch exchange: the base offset of the batch; of group offsets: the committed one, -1 none",
    ),
    "asked": Column(INT64, "the offset that a Fetch asks for; the timestamp that a ListOffsets asks for"),
    "value": Column(INT64, "what was sent or read: the operation of the send; null if the record does not say"),
    "sequence": Column(
        INT64, "sequence number of the message in its producer and partition, from 0; of an exchange: the base sequence"
    ),
    "producer": Column(INT32, "the process that sent the record, as its payload says"),
    "key": Column(INT64, "the record's key, a number; null without one"),
    "source": Column(INT64, "the value of the record that this one was made from"),
    "txn": Column(INT64, "the operation of the transaction that this is part of; null outside a transaction"),
    "member": Column(INT64, "the operation that subscribed: identifies a membership in a group"),
    "count": Column(
        INT32,
        "records that a poll, a final or replica read or a batch had; brokers that a Metadata answer lists;"
        " partitions that a topic should have",
    ),
    "end": Column(
        INT64,
        "of a final read: the end offset the leader showed when it stopped;"
        " of a replica read: the high watermark of its node",
    ),
    "status": Column(INT8, "of a record: 0 good, 1 corrupt, 2 misrouted, 3 foreign"),
    "node": Column(INT32, "the node that was queried, or that a fault or log line is about"),
    "api": Column(INT16, "Kafka's number of the request: 0 Produce, 1 Fetch, 2 ListOffsets, 3 Metadata, …"),
    "api_version": Column(INT16, "the version of the request"),
    "view": Column(
        INT8,
        "of ListOffsets: 1 earliest, 2 latest, 3 latest committed; of a Fetch exchange: 2 read_uncommitted,"
        " 3 read_committed",
    ),
    "acks": Column(INT16, "acks of a Produce request: -1 is all"),
    "error": Column(INT16, "Kafka's error code; negative ones come from the client; 0 is none"),
    "high_watermark": Column(INT64, "as the node answered"),
    "last_stable_offset": Column(INT64, "as the node answered"),
    "log_start": Column(INT64, "as the node answered"),
    "leader": Column(INT32, "leader of the partition, according to the answer; -1 none"),
    "leader_epoch": Column(INT32, "epoch of that leader; of a Fetch exchange: the epoch in the request"),
    "producer_id": Column(INT64, "Kafka's producer id"),
    "producer_epoch": Column(INT16, "Kafka's producer epoch"),
    "crc": Column(INT32, "checksum in the header of a batch, as a signed number; a resent batch has the same"),
    "generation": Column(INT32, "generation of the consumer group"),
    "connection": Column(INT32, "number of the client connection at the tap"),
    "stage": Column(
        INT8, "of a fault: 1 injected, 2 took effect (`bit`), 3 undone, 4 had no effect (`missed`), 5 failed, 6 healed"
    ),
    "fault": Column(INT32, "number of the fault in the run"),
    "brokers": Column(TEXT, "node ids in a Metadata answer, comma-separated, ascending"),
    "isr": Column(TEXT, "in-sync replicas in a Metadata answer, comma-separated, ascending"),
    "client": Column(TEXT, "client id of the request"),
    "name": Column(
        TEXT,
        "name of the fault, the phase or the log pattern; of an exchange: the rule that changed it; of an operation:"
        " its group or transactional id",
    ),
    "detail": Column(
        TEXT,
        "an error's text, a member's id, a fault's proof, a log line; of an exchange: the transaction, group or address"
        " in it",
    ),
}

_ALWAYS = ("event", "time", "process")
KINDS: dict[Kind, tuple[str, ...]] = {
    Kind.INVOKE: (
        *_ALWAYS, "op", "f", "topic", "partition", "offset", "value", "sequence", "key", "source", "txn", "member",
        "count", "name",
    ),
    Kind.COMPLETE: (
        *_ALWAYS, "op", "invoked", "f", "type", "topic", "partition", "offset", "value", "sequence", "key", "source",
        "txn", "member", "generation", "count", "end", "error", "name", "detail",
    ),
    Kind.RECORD: (
        *_ALWAYS, "op", "invoked", "topic", "partition", "offset", "value", "producer", "sequence", "key", "source",
        "txn", "status",
    ),
    Kind.PROBE: (
        *_ALWAYS, "invoked", "node", "api", "view", "topic", "partition", "offset", "high_watermark",
        "last_stable_offset", "log_start", "leader", "leader_epoch", "count", "error", "brokers", "isr", "detail",
    ),
    Kind.EXCHANGE: (
        *_ALWAYS, "op", "invoked", "type", "connection", "client", "node", "api", "api_version", "name", "topic",
        "partition", "offset", "asked", "view", "count", "error", "high_watermark", "last_stable_offset", "log_start",
        "leader", "leader_epoch", "acks", "producer_id", "producer_epoch", "sequence", "crc", "generation", "brokers",
        "isr", "detail",
    ),
    Kind.FAULT: (*_ALWAYS, "fault", "stage", "name", "node", "topic", "partition", "leader", "leader_epoch", "detail"),
    Kind.BROKER: (
        *_ALWAYS, "node", "name", "topic", "partition", "offset", "high_watermark", "leader_epoch", "detail",
    ),
    Kind.PHASE: (*_ALWAYS, "name", "detail"),
}  # fmt: skip


def row_type(kind: Kind) -> np.dtype[Any]:
    """A row of this kind in a segment: packed, in the order of the schema."""
    return np.dtype([(name, COLUMNS[name].stored) for name in KINDS[kind]])


def row_struct(kind: Kind) -> struct.Struct:
    """The same for rows that are packed one by one."""
    return struct.Struct("<" + "".join(_PACKED[COLUMNS[name].stored.itemsize] for name in KINDS[kind]))


def now() -> int:
    """The time of events."""
    return time.monotonic_ns()
