"""Histories for tests of checkers, written as lines of text or row by row, stored as Parquet as sealing stores them.

A line is a process, what it does, and how that ended. One line takes the time from 10 s times its number to 5 s later,
unless it ends with its own, as in `[3..7]`. `1@4` is offset 4 of partition 1, `@4` of partition 0, `1@` no offset.

    p1 send a ─ ok @0              p producers; ok, fail or info; `ok 0@-1` is an acknowledgement without an offset;
                                   `txn` at the end makes it part of a transaction
    i1 send a ─ ok @0              i producers that the manifest calls idempotent, j those that it calls plain
    c1 poll ─ @0:a @1:b            c consumers of the load; `@2:!` corrupt, `@2:?` foreign, `@2:~a` misrouted
    c1 poll ─ info                 a poll that was open when its process was killed
    g1 poll ─ @0:a @1:b            g consumers of the load that are members of a group
    u1 poll ─ @0:a @1:b            u consumers of the load that read with read_uncommitted
    r1 final ─ ok @2               r final readers: the read of a partition that ended at its end offset, or
    r1 final ─ info @2 of 5        did not
    w1 raw ─ ok @2                 w raw readers
    s1 replica ─ ok @2 end 2       s readers of the replica of a node, after `s1 assign ─ ok @0` and polls
    k1 delete ─ ok                 k keepers, who delete and create the topic
    n1 fetch ─ @7                  a node's answer: the high watermark; `from 3` adds a log start, `error 6` an error,
                                   `epoch 4` the leader epoch that it named
    n1 list ─ @7                   the end offset
    n1 metadata ─ epoch 4          the leader epoch
    t1 fetch ─ @7                  the same, seen by the tap of a node: `version 10` makes it a fetch that followers
                                   refuse, and `lost` one whose answer the client never got
    t1 produce ─ @5 sequence 3     any request of `APIS`; `@` is its offset
    p1 txn T ─ ok                  any other operation of a client: init, txn, subscribe, assign, revoke, leave, commit,
    g1 commit ─ ok @5 member M     committed, crash; a capital names one, so that others can be `in T` (a transaction)
    p1 send a ─ ok @0 in T         or of a `member M`

Whatever follows as a pair of a column's name and a word is that column: `count 2`, `client x`, `leader 3`; `source a`
is the value that it was made from.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.parquet import parquet_schema
from harness.history.schema import COLUMNS, ID_BITS, KINDS, TEXT, F, Kind, OffsetView, Status, Type
from harness.history.sealed import Sealed

if TYPE_CHECKING:
    from checkers.core.results import Finding

SECOND_NS = 1_000_000_000
ROLES = {"p": ("producer", 0), "c": ("consumer", 100), "r": ("final", 200), "n": ("probe", 300), "x": ("runner", 400),
         "t": ("tap", 500), "u": ("consumer", 600), "w": ("raw", 700), "k": ("admin", 800), "i": ("producer", 900),
         "j": ("producer", 1000), "g": ("consumer", 1100), "s": ("replica", 1200)}  # fmt: skip
ABOUT: dict[str, dict[str, Any]] = {
    "u": {"isolation": "read_uncommitted"},
    "w": {"isolation": "read_uncommitted"},
    "i": {"idempotent": True},
    "j": {"idempotent": False},
    "g": {"group": True},
}
NOBODY = 99  # the process that should have sent a value nobody sent
VALUES_OF_A_TOPIC = 1000
APIS = {"produce": 0, "fetch": 1, "list": 2, "metadata": 3, "offset_commit": 8, "offset_fetch": 9, "coordinator": 10,
        "join": 11, "heartbeat": 12, "leave_group": 13, "sync": 14, "init_pid": 22, "add_partitions": 24,
        "add_offsets": 25, "end_txn": 26, "txn_offset_commit": 28}  # fmt: skip
_LINE = re.compile(r"([pcrntuwkijgs])(\d+) (\w+) ?(\w*) ─ (.*?)(?: \[(\d+)\.\.(\d+)\])?$")
_PLACE = re.compile(r"(\d*)@(-?\d*)")
_RECORD = re.compile(r"(\d*)@(\d+):([!?]|~?\w)")
_MARKS = {"!": Status.CORRUPT, "?": Status.FOREIGN}


@dataclass(frozen=True)
class Case:
    """A history, as text, and what is to be found in it, written as the module that tests it likes to."""

    name: str
    text: str
    expected: tuple[str, ...] = ()


@dataclass
class Rows:
    """Events in the making; ids are given out as a recorder does."""

    events: dict[Kind, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    processes: dict[int, dict[str, Any]] = field(default_factory=dict)
    topics: dict[int, str] = field(default_factory=dict)
    _counter: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, kind: Kind, who: str, **columns: Any) -> None:
        """One event of `p1`, `c1`, `r1`, `n1`, `t1` or `x1`."""
        role = ROLES[who[0]][0]
        process = process_of(who)
        node = {"node": int(who[1:])} if role == "replica" else {}
        self.processes[process] = {"role": role, **ABOUT.get(who[0], {}), **node}
        event = (process << ID_BITS) + self._counter[process]
        self._counter[process] += 1
        self.events[kind].append({"event": event, "process": process, **columns})

    def store(self, directory: Path, **damage: Any) -> Sealed:
        """As Parquet."""
        files: dict[Kind, list[Path]] = {kind: [] for kind in Kind}
        times = [
            row[name] for rows in self.events.values() for row in rows for name in ("time", "invoked") if name in row
        ]
        for kind, rows in self.events.items():
            ordered = sorted(rows, key=lambda row: row["time"])
            columns = {name: [row.get(name) for row in ordered] for name in KINDS[kind]}
            files[kind] = [directory / kind.directory / "part-00000.parquet"]
            files[kind][0].parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(columns, schema=parquet_schema(kind)), files[kind][0])
        whole: dict[str, Any] = {"damage": [], "damaged_processes": frozenset(), "has_holes": False}
        return Sealed(
            directory=directory,
            files=files,
            rows={kind: len(self.events.get(kind, [])) for kind in Kind},
            processes=self.processes,
            topics=self.topics,
            first_time_ns=min(times, default=0),
            last_time_ns=max(times, default=0),
            **(whole | damage),
        )


def process_of(who: str) -> int:
    """Its number; roles do not meet, however many of one there are."""
    base, number = ROLES[who[0]][1], int(who[1:])
    return base + number if number < 100 else (base + 100) * 1000 + number


def value_of(topic: int, name: str, producer: int) -> int:
    """The id of a value that the text calls by a letter."""
    return (producer << ID_BITS) + topic * VALUES_OF_A_TOPIC + ord(name)


def op_of(topic: int, name: str) -> int:
    """The id of an operation that the text calls by a capital."""
    return (NOBODY << ID_BITS) + topic * VALUES_OF_A_TOPIC + ord(name)


def _columns(topic: int, outcome: str) -> dict[str, Any]:
    """Columns that the text names, each with a word."""
    words = outcome.split()
    pairs = dict(pairwise(words))
    found: dict[str, Any] = {
        name: word if COLUMNS[name].type == TEXT else int(word)
        for name, word in pairs.items()
        if name in COLUMNS and name not in {"member", "txn", "source"}
    }
    references = {"txn": pairs.get("in"), "member": pairs.get("member")}
    return found | {name: op_of(topic, word) for name, word in references.items() if word}


def write(rows: Rows, topic: int, text: str) -> None:
    """Add the history that the text tells, in a topic of its own."""
    rows.topics[topic] = f"t{topic}"
    lines = [line.strip() for line in text.strip().splitlines()]
    senders = {words[2]: int(words[0][1:]) for line in lines if (words := line.split())[1] == "send"}
    for number, line in enumerate(lines):
        match = _LINE.match(line)
        assert match, line
        who, index, action, name, outcome, start, end = match.groups()
        invoked = (int(start) if start else 10 * number) * SECOND_NS
        time = (int(end) if end else 10 * number + 5) * SECOND_NS
        common = {"time": time, "invoked": invoked, "topic": topic, **_columns(topic, outcome)}
        if source := re.search(r" source (\w)", outcome):
            common["source"] = value_of(topic, source[1], senders[source[1]])
        if action == "send":
            _send(rows, who + index, value_of(topic, name, int(index)), outcome, common)
        elif action == "poll":
            op = op_of(topic, "@") + (number << 24)
            _poll(rows, who + index, senders, outcome, {"op": op, **common})
        elif action in {"final", "raw"}:
            _final(rows, who + index, outcome, common)
        elif action in {"delete", "create"}:
            rows.add(Kind.COMPLETE, who + index, f=F[action.upper()], type=Type[outcome.upper()], **common)
        elif action.upper() in F.__members__:
            op = op_of(topic, name) if name else op_of(topic, "@") + (number << 24)
            type_ = Type[outcome.split(maxsplit=1)[0].upper()]
            place = _place(outcome) if "@" in outcome else {}
            rows.add(Kind.COMPLETE, who + index, **({"op": op, "f": F[action.upper()], "type": type_} | place | common))
        else:
            _probe(rows, who + index, action, outcome, common)


def _place(text: str) -> dict[str, int | None]:
    match = _PLACE.search(text)
    partition, offset = match.groups() if match else ("", "")
    return {"partition": int(partition or 0), "offset": int(offset) if offset else None}


def _send(rows: Rows, who: str, value: int, outcome: str, common: dict[str, Any]) -> None:
    type_ = Type[outcome.split(maxsplit=1)[0].upper()]
    txn = {"txn": 1} if outcome.endswith("txn") else {}
    columns = {"f": F.SEND, "op": value, "value": value, "type": type_, **_place(outcome), **txn}
    rows.add(Kind.COMPLETE, who, **(columns | common))


def _poll(rows: Rows, who: str, senders: dict[str, int], outcome: str, common: dict[str, Any]) -> None:
    found = _RECORD.findall(outcome)
    type_, count = (Type.INFO, None) if outcome.startswith("info") else (Type.OK, len(found))
    rows.add(Kind.COMPLETE, who, f=F.POLL, type=type_, count=count, **common)
    for partition, offset, name in found:
        status = _MARKS.get(name, Status.MISROUTED if name[0] == "~" else Status.GOOD)
        producer = senders.get(name[-1], NOBODY)
        value = None if name in _MARKS else value_of(common["topic"], name[-1], producer)
        rows.add(
            Kind.RECORD, who, partition=int(partition or 0), offset=int(offset), status=status, value=value,
            producer=None if value is None else producer, **common,
        )  # fmt: skip


def _final(rows: Rows, who: str, outcome: str, common: dict[str, Any]) -> None:
    words = outcome.split()
    place = _place(outcome)
    end = int(words[3]) if "of" in words else place["offset"]
    f = F.RAW if who[0] == "w" else F.FINAL
    rows.add(Kind.COMPLETE, who, f=f, type=Type[words[0].upper()], end=end, **place, **common)


def _probe(rows: Rows, who: str, action: str, outcome: str, common: dict[str, Any]) -> None:
    words = outcome.split()
    extra = {name: int(words[words.index(name) + 1]) for name in ("from", "error", "epoch", "version") if name in words}
    place = _place(outcome)
    columns: dict[str, Any] = {"node": int(who[1:]), "error": extra.get("error", 0), "partition": place["partition"]}
    if action == "fetch":
        columns |= {"api": 1, "high_watermark": place["offset"], "log_start": extra.get("from", 0)}
    elif action == "list":
        columns |= {"api": 2, "view": OffsetView.LATEST, "offset": place["offset"]}
    else:
        columns |= {"api": APIS[action], "offset": place["offset"]}
    columns |= {"leader_epoch": extra["epoch"]} if "epoch" in extra else {}
    if who[0] == "t":
        columns |= {"type": Type.INFO if "lost" in words else Type.OK, "api_version": extra.get("version", 12)}
    rows.add(Kind.EXCHANGE if who[0] == "t" else Kind.PROBE, who, **(columns | common))


def told(finding: Finding) -> str:
    """A finding in the words of the text: the anomaly, its values, and where."""
    names = ",".join(chr(value % (1 << ID_BITS) % VALUES_OF_A_TOPIC) for value in finding.values)
    place = (
        f"{'' if finding.partition is None else finding.partition}@{'' if finding.offset is None else finding.offset}"
    )
    return " ".join(part for part in (finding.anomaly, names, place) if part)
