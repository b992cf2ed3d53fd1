"""What replicas hold, and how it is read."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from checkers.core.family import FamilyResult
from checkers.core.results import CheckResults, Finding
from checkers.core.tables import tables_of
from checkers.core.timeline import Fault
from checkers.replicas import DIVERGENCE, FAMILIES
from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from harness.clusters.cluster_view import PartitionView
from harness.clusters.wire import WireError
from harness.foundation.protocol import Api
from harness.history.schema import COLUMNS, F, Kind, Status, Type
from harness.judging.policies import PlannedFault, RunFacts, judge
from tests.support.histories import SECOND_NS, Rows, told, write
from tests.support.kernels import SIZES, WHOLE, Size, check_rows, context, findings_of, frame_of
from tests.support.worker_sessions import rows, session, settings_of, target
from workloads.base import REPLICA
from workloads.replica_read import replica_read
from workloads.session import WorkerSession

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


COMPACTED = [len(CASES) - 1]


@pytest.fixture(scope="module")
def history() -> Rows:
    """Every case in a topic of its own."""
    made = Rows()
    for topic, (text, _) in enumerate(CASES.values()):
        write(made, topic, text)
    return made


def _check(history: Rows, size: Size = WHOLE) -> tuple[FamilyResult, list[Finding]]:
    outcomes, _ = check_rows(history, FAMILIES, size, compact=COMPACTED)
    return outcomes["replicas"], findings_of(history, outcomes)


@pytest.fixture(scope="module")
def found(history: Rows) -> list[Finding]:
    """All findings."""
    return _check(history)[1]


@pytest.mark.parametrize("topic", range(len(CASES)), ids=list(CASES))
def test_it_finds_what_is_there_and_nothing_else(topic: int, found: list[Finding]) -> None:
    """Below the watermark, where both were read."""
    here = [each for each in found if each.topic == f"t{topic}"]
    names = [" ".join([told(each), ",".join(map(str, each.nodes)), *each.tags]) for each in here]
    assert names == list(list(CASES.values())[topic][1])


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_however_the_history_is_cut(history: Rows, found: list[Finding], size: Size) -> None:
    """The same is found, in as many offsets."""
    outcome, others = _check(history, size)
    assert sorted(map(repr, others)) == sorted(map(repr, found))
    assert outcome.looked_at == {DIVERGENCE: 19}


def test_the_facts_are_who_has_it_and_who_has_not(found: list[Finding]) -> None:
    """Of records that differ, only who has any."""
    names = list(CASES)
    facts = {names[int(str(each.topic)[1:])]: each.facts for each in found}
    assert facts["three replicas, of which one is odd"] == {"holders": [1, 2, 3]}
    assert facts["a record that one node lacks"] == {"holders": [1], "lacking": [2]}


def test_the_events_are_those_that_differ(found: list[Finding]) -> None:
    """The lowest value and the highest, each where it was handed out first."""
    (odd,) = (each for each in found if each.nodes == (1, 2, 3))
    assert odd.processes == (1201, 1203)
    assert (odd.time_ns, odd.until_ns) == (65 * SECOND_NS, 85 * SECOND_NS)


def _replica(history: Rows, reader: str, node: int, asked: range, *holes: int) -> None:
    """A node that has all that was asked for, but for some."""
    begin, stop = asked.start, asked.stop
    common = {"topic": 0, "partition": 0, "invoked": 1, "time": 1}
    history.topics[0] = "t0"
    history.add(Kind.COMPLETE, reader, f=F.ASSIGN, type=Type.OK, offset=begin, **common)
    for offset in set(asked) - set(holes):
        history.add(Kind.RECORD, reader, offset=offset, value=offset, status=Status.GOOD, **common)
    history.add(Kind.COMPLETE, reader, f=F.REPLICA, type=Type.OK, offset=stop, end=stop, **common)
    history.processes[max(history.processes)] |= {"node": node}


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_many_nodes_as_a_number_has_bits(size: Size) -> None:
    """The last of them lacks one, and one of the others is read by two processes."""
    history = Rows()
    for number in range(63):
        _replica(history, f"s{number}", 100 + number, range(20), *[7] * (number == 62))
    _replica(history, "s63", 100, range(5, 30))
    outcome, (finding,) = _check(history, size)
    assert finding.facts == {"holders": list(range(100, 162)), "lacking": [162]}
    assert (finding.offset, finding.nodes) == (7, tuple(range(100, 163)))
    assert outcome.looked_at == {DIVERGENCE: 20}


def test_what_one_node_has_is_compared_with_nothing() -> None:
    """And its records need not be looked at again."""
    history = Rows()
    _replica(history, "s1", 1, range(5), 3)
    _replica(history, "s2", 1, range(2, 9))
    outcome, found = _check(history)
    assert (outcome.looked_at, found) == ({DIVERGENCE: 0}, [])


def test_no_client_was_handed_what_replicas_hold(history: Rows) -> None:
    """Other checkers do not see their records."""
    wanted = {"records": ("process",), "copies": ("process",)}
    parts = tables_of(Kind.RECORD, frame_of(history, Kind.RECORD), wanted, context(history))
    assert parts["records"]["process"].unique().to_list() == [101]
    assert set(parts["copies"]["process"]) == {1201, 1202, 1203}


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
    finding = Finding("replica-divergence", "t", 0, 7, (), (1,), (1, 2), 15, 16, (1,), tags)
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
            return SimpleNamespace(api_keys=[SimpleNamespace(api_key=Api.FETCH, min_version=0, max_version=self._most)])
        at = request.topics[0].partitions[0]
        self.asked.append((at.fetch_offset, version))
        if at.fetch_offset not in {0, *self._batches}:
            raise WireError("gone")
        answer = SimpleNamespace(
            error_code=0, high_watermark=self._watermark, log_start_offset=0,
            records=self._batches.get(at.fetch_offset, b""),
        )  # fmt: skip
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[answer])])


def _read(tmp_path: Path, node: _Node, monkeypatch: pytest.MonkeyPatch, records: int = 3) -> tuple[WorkerSession, Any]:
    """Node 2 of three, which has a replica of partition 0 and none of partition 1."""
    views = {("run-batch", at): PartitionView(1, 0, (1, 2 + at), (1,)) for at in (0, 1)}
    monkeypatch.setattr("workloads.replica_read.NodeConnection", lambda *_: node)
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
