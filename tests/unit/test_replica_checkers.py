"""What replicas hold, and how it is read: everything that checkers look at in one Spark job."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from checkers import replicas
from checkers.coverage import Coverage, Fault, FaultCoverage, Span
from checkers.frame import History
from checkers.results import CheckResults, Finding, as_finding
from harness.history import COLUMNS, F, Kind, Status, Type
from harness.observe import PartitionView
from harness.policies import PlannedFault, RunFacts, judge
from harness.wire import WireError
from tests.histories import Rows, told, write
from tests.sessions import rows, session, settings_of, target
from tests.spark_sessions import spark_session
from workloads.base import REPLICA
from workloads.replica_read import FETCH, replica_read
from workloads.session import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOTH = """s1 assign ─ ok @0
          s2 assign ─ ok @0
          s1 replica ─ ok @3 end 3
          s2 replica ─ ok @3 end 3
       """
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "replicas that hold the same": (BOTH + "s1 poll ─ @0:a @2:b\ns2 poll ─ @0:a @2:b", ()),
    "another value at one offset": (
        BOTH + "s1 poll ─ @0:a @1:b\ns2 poll ─ @0:a @1:c",
        ("replica-divergence b,c 0@1 1,2",),
    ),
    "a record that is damaged on one node": (
        BOTH + "s1 poll ─ @1:b\ns2 poll ─ @1:!",
        ("replica-divergence b 0@1 1,2",),
    ),
    "one that is damaged on both": (BOTH + "s1 poll ─ @1:!\ns2 poll ─ @1:!", ()),
    "one that is damaged where it is, and not there on the other": (
        BOTH + "s1 poll ─ @0:a @1:!\ns2 poll ─ @0:a",
        ("replica-divergence 0@1 1,2 missing",),
    ),
    "a record that one node lacks": (
        BOTH + "s1 poll ─ @0:a @1:b @2:c\ns2 poll ─ @0:a @2:c",
        ("replica-divergence b 0@1 1,2 missing",),
    ),
    "beyond where one of them stopped": (
        """s1 assign ─ ok @0
           s2 assign ─ ok @1
           s1 replica ─ ok @3 end 3
           s2 replica ─ info @2 end 3
           s1 poll ─ @0:a @1:b @2:c
           s2 poll ─ @1:b""",
        (),
    ),
    "beyond the watermark of one of them": (
        """s1 assign ─ ok @0
           s2 assign ─ ok @0
           s1 replica ─ ok @3 end 3
           s2 replica ─ ok @3 end 2
           s1 poll ─ @0:a @1:b @2:c
           s2 poll ─ @0:a @1:b @2:d""",
        (),
    ),
    "a read that nobody knows the reach of": (
        """s1 assign ─ ok @0
           s1 replica ─ ok @1 end 1
           s2 assign ─ ok @0
           s2 replica ─ info @
           s3 replica ─ ok @1 end 1
           s1 poll ─ @0:a
           s2 poll ─ @0:b
           s3 poll ─ @0:c""",
        (),
    ),
    "what clients were handed is another matter": (BOTH + "s1 poll ─ @0:a\ns2 poll ─ @0:a\nc1 poll ─ @0:b @1:c", ()),
    "three replicas, of which one is odd": (
        BOTH + "s3 assign ─ ok @0\ns3 replica ─ ok @3 end 3\ns1 poll ─ @0:a\ns2 poll ─ @0:a\ns3 poll ─ @0:b",
        ("replica-divergence a,b 0@0 1,2,3",),
    ),
    "compacted, each by itself": (
        BOTH + "s1 poll ─ @0:a @1:b @2:c\ns2 poll ─ @1:d @2:c",
        ("replica-divergence b,d 0@1 1,2",),
    ),
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """One session for all."""
    with spark_session() as running:
        yield running


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    """Every case in a topic of its own."""
    made = Rows()
    for topic, (text, _) in enumerate(CASES.values()):
        write(made, topic, text)
    compacted = frozenset({len(CASES) - 1})
    return History(spark, made.store(tmp_path_factory.mktemp("replicas")), compacted=compacted)


@pytest.fixture(scope="module")
def found(history: History) -> dict[str, list[str]]:
    """By topic, what is found."""
    names: dict[str, list[str]] = {name: [] for name in history.sealed.topics.values()}
    findings: DataFrame = replicas.find_replica_divergences(history)
    for row in findings.collect():
        finding = as_finding(row.asDict(), history.sealed.topics)
        nodes = ",".join(map(str, finding.nodes))
        names[str(finding.topic)].append(" ".join([told(finding), nodes, *finding.tags]))
    return names


@pytest.mark.parametrize("topic", range(len(CASES)), ids=list(CASES))
def test_it_finds_what_is_there_and_nothing_else(topic: int, found: dict[str, list[str]]) -> None:
    """Below the watermark, where both were read."""
    assert found[f"t{topic}"] == list(list(CASES.values())[topic][1])


def test_no_client_was_handed_what_replicas_hold(history: History) -> None:
    """Other checkers do not see their records."""
    assert {row.process for row in history.records.select("process").distinct().collect()} == {101}


KILLED = FaultCoverage(Fault(1, "leader-kill", injected_ns=10, undone_ns=20, bit=True), *[Span(3, 3)] * 4)
FACTS = RunFacts(acks="1", faults=(PlannedFault("leader-kill", changes_leaders=True),))


@pytest.mark.parametrize(
    ("tags", "facts", "holes", "status"),
    [
        ((), FACTS, False, "illegal"),  # whatever the acknowledgements
        ((), replace(FACTS, unclean_election=True), False, "allowed"),
        (("missing",), FACTS, True, "unproven"),
        ((), FACTS, True, "illegal"),
        (("deleted topic",), FACTS, False, "allowed"),
    ],
)
def test_what_is_allowed(tags: tuple[str, ...], facts: RunFacts, holes: bool, status: str) -> None:  # noqa: FBT001
    """Nothing but what an unclean election may do."""
    finding = Finding("replica-divergence", "t", 0, 7, (), (1,), (1, 2), 15, 16, (1,), tags, "")
    results = CheckResults(events=9, anomalies={}, coverage=Coverage(faults=[KILLED]), has_holes=holes)
    assert judge(finding, results, facts).status == status


def _batch(first: int, *payloads: bytes, control: bool = False) -> bytes:
    """As a broker stores it."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 20,
    )  # fmt: skip
    for number, value in enumerate(payloads):
        builder.append(number, timestamp=0, key=None, value=value, headers=[])
    made = bytearray(builder.build())
    struct.pack_into(">q", made, 0, first)
    if control:
        made[22] |= 0x20
    return bytes(made)


class _Node:
    """A node with one partition of which it is a replica, and with a marker in its log."""

    address = "somewhere"

    def __init__(self, batches: dict[int, bytes], watermark: int, most: int = 18) -> None:
        self._batches, self._watermark, self._most = batches, watermark, most
        self.asked: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, request: Any, response: Any, version: int) -> Any:
        """By the kind of request."""
        if type(request).__name__ == "ApiVersionsRequest":
            return SimpleNamespace(api_keys=[SimpleNamespace(api_key=FETCH, min_version=0, max_version=self._most)])
        at = request.topics[0].partitions[0]
        self.asked.append((at.fetch_offset, version))
        if at.fetch_offset not in {0, *self._batches}:
            raise WireError("gone")
        answer = SimpleNamespace(
            error_code=0, high_watermark=self._watermark, log_start_offset=0,
            records=self._batches.get(at.fetch_offset, b""),
        )  # fmt: skip
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[answer])])


def _read(tmp_path: Path, node: _Node, monkeypatch: pytest.MonkeyPatch, records: int = 3) -> tuple[Session, Any]:
    """Node 2 of three, which has a replica of partition 0 and none of partition 1."""
    views = {("run-batch", at): PartitionView(1, 0, (1, 2 + at), (1,)) for at in (0, 1)}
    monkeypatch.setattr("workloads.replica_read.Connection", lambda *_: node)
    monkeypatch.setattr("workloads.replica_read.ask_partitions", lambda *_: views)
    targets = (target(0, 4), target(1, 4))
    run = session(tmp_path, role=REPLICA, number=1, of=3, targets=targets, settings={"replica_records": records})
    replica_read(run, settings_of(run))
    run.recorder.close()
    return run, rows(run)[1]


def test_the_newest_records_of_a_node_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From where it was told to begin to the watermark, markers passed over, with how far it came."""
    node = _Node({2: _batch(1, b"one", b"two", b"three"), 4: _batch(4, b"end", control=True)}, watermark=5)
    _, seen = _read(tmp_path, node, monkeypatch)
    assert node.asked == [(0, 12), (2, 12), (4, 12)]
    assert seen[Kind.RECORD]["offset"].tolist() == [2, 3]
    assert set(seen[Kind.RECORD]["status"].tolist()) == {Status.FOREIGN}
    done = seen[Kind.COMPLETE]
    assert done["f"].tolist() == [F.ASSIGN, F.REPLICA]
    assert done["type"].tolist() == [Type.OK, Type.OK]
    assert done["partition"].tolist() == [0, 0]
    assert done["offset"].tolist() == [2, 5]
    assert done["end"].tolist() == [COLUMNS["end"].null, 5]
    assert done["count"].tolist()[1] == 2


def test_a_node_that_does_not_answer_was_read_as_far_as_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the worker says so, and ends."""
    run, seen = _read(tmp_path, _Node({2: _batch(2, b"two")}, watermark=5), monkeypatch)
    done = seen[Kind.COMPLETE][-1]
    assert (done["f"], done["type"], done["offset"], done["end"]) == (F.REPLICA, Type.INFO, 3, 5)
    assert run.status.detail == "node 2 was not read to the end: gone"


def test_followers_of_old_brokers_are_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would refuse."""
    run, seen = _read(tmp_path, _Node({}, watermark=5, most=10), monkeypatch)
    assert len(seen[Kind.COMPLETE]) == 0
    assert "Fetch up to version 10" in run.status.detail
