"""The replica read: each node is asked for the newest records that it has of a partition, whoever leads it.

One worker per node. Followers answer a consumer's Fetch from version 11 on, up to the high watermark that they know;
from version 13 on topics go by ids, so it is asked at 11 or 12. What is read ends at the watermark that the node showed
first, and begins `replica_records` before it, or where the node's log begins. Where it begins is recorded as an
`assign`, how far it came as a replica read: with the watermark as its `end`, and `info` where it did not get there.

Connections are plain text only, as those of probes are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from kafka import TopicPartition as LibraryPartition
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.record.memory_records import MemoryRecords

from harness.clusters.cluster_view import ask_partitions
from harness.clusters.wire import NodeConnection, WireError
from harness.foundation.protocol import CONSUMER_REPLICA, FETCH_OF_FOLLOWERS, NO_SESSION, Api
from harness.history.schema import F, Type
from workloads.base import FinalTarget, Settings
from workloads.clients.kafka_python import polled_of
from workloads.consuming import write_records
from workloads.session import WorkerSession

LAST_BY_NAMES = 12  # version of Fetch: from the next one on topics go by ids
TIMEOUT_S = 5.0
PATIENCE_S = 5.0  # without anything new from a node that has shown a higher watermark
WAIT_MS = 100
MAX_BYTES = 1 << 20


def replica_read(session: WorkerSession, settings: Settings) -> None:
    """Ask the node of this worker for all partitions that it has a replica of."""
    node = session.config.nodes[session.config.number]
    partitions = [(target.name, target.partition) for target in session.config.targets]
    try:
        held = ask_partitions(node.address, sorted({name for name, _ in partitions}), TIMEOUT_S)
        with NodeConnection(node.address, TIMEOUT_S) as connection:
            version = _version(connection)
            for target in session.config.targets:
                known = held.get((target.name, target.partition))
                if known and node.id in known.replicas and not session.control.stopped:
                    ReplicaRead(session, settings, connection, target, version).run()
    except WireError as error:
        session.status.detail = f"node {node.id} was not read to the end: {error}"


def _version(connection: NodeConnection) -> int:
    answer = connection.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
    most = max((api.max_version for api in answer.api_keys if api.api_key == Api.FETCH), default=-1)
    if most < FETCH_OF_FOLLOWERS:
        raise WireError(f"{connection.address} offers Fetch up to version {most}, which followers refuse")
    return min(most, LAST_BY_NAMES)


class ReplicaRead:
    """One partition, as one node has it."""

    def __init__(
        self, session: WorkerSession, settings: Settings, connection: NodeConnection, target: FinalTarget, version: int
    ) -> None:
        self._session, self._settings = session, settings
        self._connection, self._version = connection, version
        self._target = target
        self._columns = {"topic": target.topic, "partition": target.partition}
        self._count = 0

    def run(self) -> None:
        """From where it begins to the watermark; an answer that never comes ends it, and is told by the caller."""
        first = self._ask(0, 1)
        if first.error_code:
            self._end(self._session.recorder.begin(F.REPLICA, **self._columns), first.error_code)
            return
        end = first.high_watermark
        position = begin = max(0, first.log_start_offset, end - self._settings.replica_records)
        recorder = self._session.recorder
        recorder.topic(self._target.topic, self._target.name)
        recorder.end(recorder.begin(F.ASSIGN, **self._columns, offset=begin), Type.OK, **self._columns, offset=begin)
        op = recorder.begin(F.REPLICA, **self._columns)
        error, moved_at = 0, time.monotonic()
        try:
            while position < end and not error and time.monotonic() - moved_at < PATIENCE_S:
                answer = self._ask(position, MAX_BYTES)
                error, reached = answer.error_code, self._take(op, position, answer.records)
                if reached > position:
                    position, moved_at = reached, time.monotonic()
        finally:
            self._end(op, error, offset=position, end=end)

    def _end(self, op: Any, error: int, **columns: int) -> None:
        done = not error and columns["offset"] >= columns["end"]
        type_ = Type.OK if done else Type.INFO
        self._session.recorder.end(op, type_, **self._columns, count=self._count, error=error, **columns)
        self._session.status.show()

    def _take(self, op: Any, position: int, data: Any) -> int:
        """Record what came, and say where to go on; markers are passed over."""
        reached, found = position, []
        for batch in _batches(data):
            reached = max(reached, batch.next_offset)
            if not batch.is_control_batch:
                found += [record for record in batch if record.offset >= position]
        tp = LibraryPartition(self._target.name, self._target.partition)
        polled = polled_of({tp: found}, keyed=self._settings.keyed)
        write_records(self._session, polled, {self._target.name: self._target.topic}, op=op.id, invoked=op.invoked)
        self._count += len(found)
        self._session.status.read += len(found)
        return reached

    def _ask(self, offset: int, max_bytes: int) -> Any:
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=self._target.partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=max_bytes,
        )
        request = FetchRequest(
            replica_id=CONSUMER_REPLICA,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=0,
            session_id=0,
            session_epoch=NO_SESSION,
            topics=[FetchRequest.FetchTopic(topic=self._target.name, partitions=[partition])],
            forgotten_topics_data=[],
            rack_id="",
        )
        answer = self._connection.ask(request, FetchResponse, self._version)
        if not answer.responses or not answer.responses[0].partitions:
            name = self._target.name
            raise WireError(f"{self._connection.address} answers nothing about {name} (error {answer.error_code})")
        return answer.responses[0].partitions[0]


def _batches(data: Any) -> Iterator[Any]:
    records = MemoryRecords(bytes(data or b""))
    while (batch := records.next_batch()) is not None:
        yield batch
