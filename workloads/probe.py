"""Probes: every node asked on a connection of its own, many times a second, for what it says about every partition.

A round asks one node for Metadata, ListOffsets (earliest, latest, latest committed) and the watermarks of a Fetch. Each
answer is one row per partition, errors included; a connection that fails is one row with error -1 and the reason. A
thread per node: one that hangs does not hold up the others. They share the recorder, one at a time.

Fetch is asked at version 10 or less: from version 11 on followers answer as well, with a watermark that lags by design.
It names the leader epoch that the node's own Metadata gave, so that a leader of another epoch refuses to answer: the
epoch of a watermark is then known for certain.
Connections are plain text only: with SASL, or with TLS and no tap that speaks it, there are no probes, and the worker
says so.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from harness.clusters.wire import NodeConnection, WireError
from harness.foundation.protocol import (
    CONSUMER_REPLICA,
    EARLIEST,
    LATEST,
    NO_SESSION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Api,
)
from harness.history.schema import COLUMNS, NO_CONNECTION, Kind, OffsetView, now
from workloads import find_workload
from workloads.base import NodeAddress, Settings, TopicSpec
from workloads.session import WorkerSession

# The least that says enough, and the most that is wanted.
VERSIONS = {Api.FETCH: (4, 10), Api.LIST_OFFSETS: (2, 5), Api.METADATA: (1, 8)}
FETCH_WITH_EPOCH = 9
TIMEOUT_S = 2.0
JOIN_S = 2 * TIMEOUT_S
VIEWS = (
    (OffsetView.EARLIEST, EARLIEST, READ_UNCOMMITTED),
    (OffsetView.LATEST, LATEST, READ_UNCOMMITTED),
    (OffsetView.LATEST_COMMITTED, LATEST, READ_COMMITTED),
)


class PartitionAnswer(NamedTuple):
    """What an answer says about one partition, by names of columns; -1 is unknown."""

    topic: int
    partition: int
    error: int
    values: dict[str, int]


def probe(session: WorkerSession, settings: Settings) -> None:
    """Ask until told to stop."""
    if session.security.protocol != "PLAINTEXT":
        session.status.detail = (
            f"no probes: nodes can be asked one by one in plain text only, not over {session.security.protocol}"
        )
        return
    lock = threading.Lock()
    askers = [NodeProbe(session, settings, node, lock) for node in session.config.nodes]
    threads = [threading.Thread(target=asker.run, daemon=True, name=f"node {asker.node.id}") for asker in askers]
    for thread in threads:
        thread.start()
    while not session.control.wait(0.2):
        session.status.detail = f"{sum(asker.rounds for asker in askers):,} rounds of probes"
        session.status.show()
    for thread in threads:
        thread.join(JOIN_S)


class NodeProbe:
    """Asks one node."""

    def __init__(self, session: WorkerSession, settings: Settings, node: NodeAddress, lock: threading.Lock) -> None:
        self.node = node
        self.rounds = 0
        self._session = session
        self._settings = settings
        self._workload = find_workload(session.config.workload)
        self._lock = lock
        self._versions: dict[Api, int] = {}
        self._latest: dict[tuple[int, int], int] = {}
        self._epochs: dict[tuple[int, int], int] = {}

    def run(self) -> None:
        """Round after round, with a new connection after each failure."""
        while not self._session.control.stopped:
            asked_at = now()
            try:
                self._rounds()
            except WireError as error:
                self._failed(asked_at, str(error))
            except Exception as error:  # noqa: BLE001 - an answer no codec foresaw must not end the probing of a node
                self._failed(asked_at, f"{type(error).__name__}: {error}")
            self._session.control.wait(1 / self._settings.probe_rate)

    def _rounds(self) -> None:
        """On one connection, for as long as it holds."""
        with ExitStack() as stack:
            connection = stack.enter_context(NodeConnection(self.node.address, TIMEOUT_S))
            self._versions = self._negotiate(connection)
            while not self._session.control.stopped:
                began = now()
                self.round(connection)
                self.rounds += 1
                self._session.control.wait(max(0.0, 1 / self._settings.probe_rate - (now() - began) / 1e9))

    def _negotiate(self, connection: NodeConnection) -> dict[Api, int]:
        answer = connection.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        offered = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        chosen = {}
        for api, (least, most) in VERSIONS.items():
            lowest, highest = offered.get(api, (0, -1))
            chosen[api] = min(most, highest)
            if chosen[api] < max(least, lowest):
                raise WireError(
                    f"{self.node.address} offers versions {lowest} to {highest} of request {api}: none is usable"
                )
        return chosen

    def round(self, connection: NodeConnection) -> None:
        """Every question once."""
        config = self._session.config
        topics = self._workload.topics_in_use(self._settings, now(), config.began)
        names = {topic.full_name(config.prefix): topic for topic in topics}
        self._ask_metadata(connection, names)
        for view, timestamp, isolation in VIEWS:
            self._ask_offsets(connection, names, view, timestamp, isolation)
        self._ask_watermarks(connection, names)

    def _ask_metadata(self, connection: NodeConnection, names: dict[str, TopicSpec]) -> None:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        asked_at = now()
        answer = connection.ask(request, MetadataResponse, self._versions[Api.METADATA])
        rows, isrs = [], []
        for topic in answer.topics:
            number = names[topic.name].number
            if not topic.partitions:
                rows.append(
                    PartitionAnswer(
                        number, COLUMNS["partition"].null, topic.error_code, {"leader": -1, "leader_epoch": -1}
                    )
                )
                isrs.append("")
            for at in topic.partitions:
                leader = {"leader": at.leader_id, "leader_epoch": at.leader_epoch}
                rows.append(PartitionAnswer(number, at.partition_index, at.error_code, leader))
                isrs.append(_ids(at.isr_nodes))
        self._epochs = {(row.topic, row.partition): row.values["leader_epoch"] for row in rows}
        brokers = [broker.node_id for broker in answer.brokers]
        with self._lock:
            self._write(
                Api.METADATA, rows, asked_at, count=len(brokers), brokers=_ids(brokers),
                isr=np.array([self._session.recorder.text(isr) for isr in isrs], np.int32),
            )  # fmt: skip

    def _ask_offsets(
        self, connection: NodeConnection, names: dict[str, TopicSpec], view: OffsetView, timestamp: int, isolation: int
    ) -> None:
        request = ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA,
            isolation_level=isolation,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                            partition_index=partition, current_leader_epoch=-1, timestamp=timestamp
                        )
                        for partition in range(topic.partitions)
                    ],
                )
                for name, topic in names.items()
            ],
        )
        asked_at = now()
        answer = connection.ask(request, ListOffsetsResponse, self._versions[Api.LIST_OFFSETS])
        rows = [
            PartitionAnswer(names[topic.name].number, at.partition_index, at.error_code,
                {"offset": at.offset, "leader_epoch": at.leader_epoch})
            for topic in answer.topics for at in topic.partitions
        ]  # fmt: skip
        if view == OffsetView.LATEST:
            self._latest = {(row.topic, row.partition): row.values["offset"] for row in rows if not row.error}
        with self._lock:
            self._write(Api.LIST_OFFSETS, rows, asked_at, view=view)

    def _ask_watermarks(self, connection: NodeConnection, names: dict[str, TopicSpec]) -> None:
        request = FetchRequest(
            replica_id=CONSUMER_REPLICA,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,  # the watermarks are wanted, not the records
            isolation_level=READ_COMMITTED,  # with which the last stable offset is answered as well
            session_id=0,
            session_epoch=NO_SESSION,
            topics=[
                FetchRequest.FetchTopic(
                    topic=name, partitions=[self._fetch(topic, at) for at in range(topic.partitions)]
                )
                for name, topic in names.items()
            ],
            forgotten_topics_data=[],
        )
        asked_at = now()
        answer = connection.ask(request, FetchResponse, self._versions[Api.FETCH])
        rows = [
            PartitionAnswer(names[topic.topic].number, at.partition_index, at.error_code,
                {"high_watermark": at.high_watermark, "last_stable_offset": at.last_stable_offset,
                 "log_start": at.log_start_offset,
                 "leader_epoch": self._epoch(names[topic.topic], at.partition_index)})
            for topic in answer.responses for at in topic.partitions
        ]  # fmt: skip
        with self._lock:
            self._write(Api.FETCH, rows, asked_at)

    def _fetch(self, topic: TopicSpec, partition: int) -> Any:
        return FetchRequest.FetchTopic.FetchPartition(
            partition=partition,
            current_leader_epoch=self._epoch(topic, partition),
            fetch_offset=self._latest.get((topic.number, partition), 0),
            log_start_offset=-1,
            partition_max_bytes=1,
        )

    def _epoch(self, topic: TopicSpec, partition: int) -> int:
        """The leader epoch that a Fetch names; -1 when none is known or the version cannot say it."""
        known = self._epochs.get((topic.number, partition), -1)
        return known if self._versions[Api.FETCH] >= FETCH_WITH_EPOCH else -1

    def _write(self, api: int, rows: Sequence[PartitionAnswer], asked_at: int, **columns: Any) -> None:
        """One row per partition, as of now; the caller holds the lock, so that rows are in the order of their times."""
        if not rows:
            return
        for name in rows[0].values:
            values = np.array([row.values[name] for row in rows], np.int64)
            unknown_is = -1 if name == "leader" else COLUMNS[name].null
            columns[name] = np.where(values < 0, unknown_is, values)
        self._session.recorder.write(
            Kind.PROBE, len(rows), invoked=asked_at, node=self.node.id, api=api,
            topic=_column(row.topic for row in rows), partition=_column(row.partition for row in rows),
            error=_column(row.error for row in rows), **columns,
        )  # fmt: skip

    def _failed(self, asked_at: int, why: str) -> None:
        with self._lock:
            self._session.recorder.write(
                Kind.PROBE, invoked=asked_at, node=self.node.id, error=NO_CONNECTION, detail=why
            )


def _column(values: Iterable[int]) -> np.ndarray[Any, Any]:
    return np.fromiter(values, np.int64)


def _ids(nodes: Iterable[int]) -> str:
    return ",".join(map(str, sorted(nodes)))
