"""Foreign histories for tests: a recorded run with events of every kind, and files to import."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console

from harness.foundation.view import PlainView
from harness.history.exchange.exporting import Exported, export_run
from harness.history.exchange.importing import Imported, import_history
from harness.history.exchange.jepsen_lines import OPERATION, ParsedChunk
from harness.history.recorder import Recorder
from harness.history.schema import SCHEMA_VERSION, F, FaultStage, Kind, OffsetView, Status, Type
from harness.history.sealing import open_history, seal
from harness.history.sources import segment_path
from harness.history.store import Run

HEADER: dict[str, Any] = {"tidegauge": "history", "version": 1}
SETTINGS = {"acks": "all", "idempotence": True, "client": "confluent-kafka"}
QUIET = PlainView(Console(quiet=True))


def take(file: Path, store: Path, **options: Any) -> Imported:
    """Import a file."""
    return import_history(file, store, QUIET, **options)


def give(run: Run | Imported, file: Path) -> Exported:
    """Export a run."""
    return export_run(run.run if isinstance(run, Imported) else run, file, None, QUIET)


def jsonl(path: Path, *events: dict[str, Any] | str, header: dict[str, Any] | str = HEADER) -> Path:
    """A file of the exchange format; texts are written as they are."""
    lines = [each if isinstance(each, str) else json.dumps(each) for each in (header, *events)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def invoke(op: int, time: int, **columns: Any) -> dict[str, Any]:
    """A send, unless told otherwise."""
    plain = {"kind": "invoke", "time": time, "process": 2, "op": op, "f": "send"}
    if columns.get("f", "send") == "send":
        plain |= {"topic": "t", "partition": 0, "value": op}
    return plain | columns


def complete(op: int, time: int, **columns: Any) -> dict[str, Any]:
    """Its completion."""
    return invoke(op, time, **{"kind": "complete", "type": "ok", **columns})


def rows_of(run: Run, kind: Kind) -> list[dict[str, Any]]:
    """The events of a kind, in the order of time, without their nulls."""
    sealed = open_history(run.path)
    found = [row for path in sealed.files[kind] for row in pq.read_table(path).to_pylist()]
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def recorded(path: Path, **facts: Any) -> Run:
    """A run of three processes with events of every kind, one operation of which is left open."""
    run = Run(path)
    path.mkdir(parents=True)
    with Recorder(segment_path(path, 0), 0, {"role": "runner"}) as runner:
        runner.topic(0, "orders")
        runner.topic(3, "päivä")
        runner.write(Kind.PHASE, name="load")
        runner.write(Kind.FAULT, fault=1, stage=FaultStage.INJECTED, name="leader-kill", node=1, topic=0, partition=1)
        runner.write(Kind.BROKER, node=2, name="elected", detail='a "quoted"\nline \\ and ☃', leader_epoch=4)
    with Recorder(segment_path(path, 2), 2, {"role": "producer", "isolation": "read_committed"}) as producer:
        txn = producer.begin(F.TXN, name="tx-1", count=1)
        send = producer.begin(F.SEND, topic=0, partition=1, value=7, key=-5, source=3, txn=txn.id, sequence=0)
        place: dict[str, Any] = {"topic": 0, "partition": 1, "value": 7, "txn": txn.id}
        producer.end(send, Type.OK, offset=12, error=0, **place)
        producer.end(txn, Type.OK, name="tx-1")
        producer.begin(F.SEND, topic=3, partition=0, value=8)
    with Recorder(segment_path(path, 3), 3, {"role": "consumer"}) as consumer:
        member = consumer.begin(F.SUBSCRIBE, name="group")
        consumer.end(member, Type.OK, name="group", generation=4, detail="member-1")
        poll = consumer.begin(F.POLL, member=member.id)
        consumer.end(poll, Type.OK, count=2, member=member.id)
        where: dict[str, Any] = {"op": poll.id, "invoked": poll.invoked, "topic": 0, "partition": 1}
        consumer.write(Kind.RECORD, offset=12, value=7, status=Status.GOOD, producer=2, **where)
        consumer.write(Kind.RECORD, offset=13, status=Status.CORRUPT, **where)
        consumer.write(
            Kind.PROBE, invoked=poll.invoked, node=1, api=2, view=OffsetView.LATEST_COMMITTED, topic=0, partition=1,
            offset=14, error=0, brokers="1,2,3",
        )  # fmt: skip
        consumer.write(
            Kind.EXCHANGE, op=consumer.new_ops(1), invoked=poll.invoked, type=Type.INFO, node=1, api=1, api_version=12,
            topic=0, partition=1, crc=-7, high_watermark=14, client="c", name="slow",
        )  # fmt: skip
    seal(path)
    run.update(
        schema_version=SCHEMA_VERSION,
        state="finished",
        title="stream",
        seed=5,
        scenario={"workload": "stream", "expect": "valid", "settings": SETTINGS, "cluster": {"kind": "local"}},
        idempotent=True,
        schedule=[{"fault": "leader-kill", "number": 1}],
        anchor={"monotonic_ns": 1, "wall_ns": 2},
        compacted=["orders"],
        machine={"cpus": 2},
        **facts,
    )
    return run


def edn(path: Path, lines: Sequence[str]) -> Path:
    """A Jepsen history; lines get their index, time and braces unless they have some."""
    whole = [
        line if line[:1] in {"{", "#", "[", "", "]", "("} else f"{{:index {index}, :time {index * 1000}, {line}}}"
        for index, line in enumerate(lines)
    ]
    path.write_text("".join(f"{line}\n" for line in whole))
    return path


def passages_are_equal(one: ParsedChunk, other: ParsedChunk) -> bool:
    """Whether two passages say the same, whatever the numbers of their texts."""
    return _plain(one) == _plain(other)


def _plain(passage: ParsedChunk) -> dict[str, Any]:
    at = OPERATION.index("detail")
    details = [None if number < 0 else passage.texts[number] for number in passage.operations[at].tolist()]
    return vars(passage) | {
        "operations": np.delete(passage.operations, at, axis=0).tolist(),
        "details": details,
        "records": passage.records.tolist(),
        "texts": sorted(passage.texts),
        "wrong": str(passage.wrong),
    }


# Process 0 sends 1 and 2 to key 5 in a transaction; 1 is never read although 2 is. Process 1's transaction with 3
# aborted, and its value was read.
LOST_AND_ABORTED = (
    ":type :invoke, :process 0, :f :assign, :value [5]",
    ":type :ok, :process 0, :f :assign, :value [5]",
    ":type :invoke, :process 0, :f :txn, :value [[:send 5 1] [:poll] [:send 5 2]]",
    ":type :ok, :process 0, :f :txn, :value [[:send 5 [10 1]] [:poll {}] [:send 5 [11 2]]]",
    ":type :invoke, :process 1, :f :send, :value [[:send 5 3]]",
    ':type :info, :process :nemesis, :f :start-partition, :value [:isolated {"n1" #{"n2"}}]',
    ':type :fail, :process 1, :f :send, :value [[:send 5 3]], :error [:aborted "by us"]',
    ":type :invoke, :process 2, :f :poll, :value [[:poll]], :poll-ms 1000",
    ":type :ok, :process 2, :f :poll, :value [[:poll {5 [[11 2] [13 3]]}]], :poll-ms 1000",
    ":type :invoke, :process 3, :f :crash, :value nil",
    ":type :info, :process 3, :f :crash, :value nil",
    ":type :invoke, :process 1, :f :send, :value [[:send 6 1]]",
)
