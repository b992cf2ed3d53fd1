"""Probes: what nodes answer becomes rows, with nothing invented."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters.wire import WireError
from harness.foundation.protocol import Api
from harness.foundation.security import Security
from harness.history.schema import COLUMNS, Kind, OffsetView, now
from tests.support.worker_sessions import rows, session, settings_of
from workloads.base import PROBE
from workloads.probe import NodeProbe, probe
from workloads.session import WorkerSession

NOT_LEADER = 6
TOPIC = "run-batch"


class _Node:
    """Answers as a leader of partition 0 and a follower of partition 1."""

    def __init__(self, **versions: tuple[int, int]) -> None:
        self.asked: list[tuple[str, int]] = []
        self._versions = {"fetch": (4, 18), "list_offsets": (1, 11), "metadata": (0, 13)} | versions

    def ask(self, request: Any, response: Any, version: int) -> Any:
        """By the kind of request."""
        name = type(request).__name__
        self.asked.append((name, version))
        return getattr(self, name)(request)

    def ApiVersionsRequest(self, _: Any) -> Any:  # noqa: N802 - named after what is asked
        """What was given."""
        numbers = {"fetch": Api.FETCH, "list_offsets": Api.LIST_OFFSETS, "metadata": Api.METADATA}
        return SimpleNamespace(
            api_keys=[
                SimpleNamespace(api_key=numbers[name], min_version=low, max_version=high)
                for name, (low, high) in self._versions.items()
            ]
        )

    def MetadataRequest(self, _: Any) -> Any:  # noqa: N802
        """Two partitions, the second without a leader."""
        return SimpleNamespace(
            brokers=[SimpleNamespace(node_id=node) for node in (3, 1, 2)],
            topics=[
                SimpleNamespace(
                    name=TOPIC,
                    error_code=0,
                    partitions=[
                        SimpleNamespace(partition_index=0, error_code=0, leader_id=1, leader_epoch=4, isr_nodes=[3, 1]),
                        SimpleNamespace(partition_index=1, error_code=5, leader_id=-1, leader_epoch=-1, isr_nodes=[]),
                    ],
                )
            ],
        )

    def ListOffsetsRequest(self, request: Any) -> Any:  # noqa: N802
        """The beginning or the end."""
        timestamp = request.topics[0].partitions[0].timestamp
        answers = [
            SimpleNamespace(partition_index=0, error_code=0, offset=2 if timestamp == -2 else 9, leader_epoch=4),
            SimpleNamespace(partition_index=1, error_code=NOT_LEADER, offset=-1, leader_epoch=-1),
        ]
        return SimpleNamespace(topics=[SimpleNamespace(name=TOPIC, partitions=answers)])

    def FetchRequest(self, request: Any) -> Any:  # noqa: N802
        """Watermarks."""
        assert [partition.fetch_offset for partition in request.topics[0].partitions] == [9, 0, 0]
        answers = [
            SimpleNamespace(
                partition_index=0, error_code=0, high_watermark=9, last_stable_offset=8, log_start_offset=2
            ),
            SimpleNamespace(
                partition_index=1,
                error_code=NOT_LEADER,
                high_watermark=-1,
                last_stable_offset=-1,
                log_start_offset=-1,
            ),
        ]
        return SimpleNamespace(responses=[SimpleNamespace(topic=TOPIC, partitions=answers)])


def asked(directory: Path, node: Any, lock: Any = None) -> tuple[WorkerSession, NodeProbe]:
    """One round of questions to this node."""
    at = session(directory, role=PROBE)
    prober = NodeProbe(at, settings_of(at), at.config.nodes[0], lock or threading.Lock())
    prober._versions = prober._negotiate(node)
    prober.round(node)
    return at, prober


def test_a_round_is_a_row_per_answer_and_partition(tmp_path: Path) -> None:
    """Metadata, three views of the offsets and the watermarks, with the time of each question."""
    at, _ = asked(tmp_path, _Node())
    segment, found = rows(at)
    probes = found[Kind.PROBE]
    assert probes["api"].tolist() == [Api.METADATA] * 2 + [Api.LIST_OFFSETS] * 6 + [Api.FETCH] * 2
    assert set(probes["node"].tolist()) == {1}
    assert (probes["invoked"] <= probes["time"]).all()
    assert probes["partition"].tolist() == [0, 1] * 5
    first, second = probes[:2]
    assert (first["leader"], first["leader_epoch"], first["count"]) == (1, 4, 3)
    assert (segment.texts[int(first["brokers"])], segment.texts[int(first["isr"])]) == ("1,2,3", "1,3")
    assert (second["leader"], second["leader_epoch"], second["error"]) == (-1, COLUMNS["leader_epoch"].null, 5)


def test_rows_have_the_time_at_which_it_was_their_turn(tmp_path: Path) -> None:
    """Threads share a segment: with the time of the answer they would overtake each other."""
    lock = _Lock()
    at, prober = asked(tmp_path, _Node(), lock)
    prober._failed(0, "gone")
    times = rows(at)[1][Kind.PROBE]["time"]
    assert len(set(times.tolist())) == len(lock.taken) == 6
    for taken, time in zip(lock.taken, sorted(set(times.tolist())), strict=True):
        assert time >= taken


class _Lock:
    """Knows when it was taken."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def __enter__(self) -> None:
        self.taken.append(now())

    def __exit__(self, *_: object) -> None:
        """Nothing to do."""


def test_what_a_follower_refuses_is_an_error_without_values(tmp_path: Path) -> None:
    """-1 in an answer is no offset."""
    at, _ = asked(tmp_path, _Node())
    probes = rows(at)[1][Kind.PROBE]
    offsets = probes[probes["api"] == Api.LIST_OFFSETS]
    null = COLUMNS["offset"].null
    assert offsets["view"].tolist() == [view for view in OffsetView for _ in range(2)]
    assert offsets["offset"].tolist() == [2, null, 9, null, 9, null]
    assert offsets["error"].tolist() == [0, NOT_LEADER] * 3
    watermarks = probes[probes["api"] == Api.FETCH]
    assert watermarks["high_watermark"].tolist() == [9, COLUMNS["high_watermark"].null]
    assert watermarks["last_stable_offset"].tolist() == [8, COLUMNS["last_stable_offset"].null]
    assert watermarks["log_start"].tolist() == [2, COLUMNS["log_start"].null]


def test_fetch_is_asked_at_a_version_that_only_leaders_answer(tmp_path: Path) -> None:
    """From version 11 on followers serve consumers, with a watermark that lags."""
    node = _Node()
    asked(tmp_path, node)
    assert dict(node.asked)["FetchRequest"] == 10
    assert dict(node.asked)["ListOffsetsRequest"] == 5


def test_an_old_node_is_asked_at_its_own_versions(tmp_path: Path) -> None:
    """As long as they say enough."""
    node = _Node(fetch=(0, 6), list_offsets=(0, 2), metadata=(0, 5))
    asked(tmp_path, node)
    assert {name: version for name, version in node.asked if name != "ApiVersionsRequest"} == {
        "MetadataRequest": 5,
        "ListOffsetsRequest": 2,
        "FetchRequest": 6,
    }


@pytest.mark.parametrize("offered", [(0, 3), (11, 18)])
def test_a_node_without_a_usable_version_is_said_to_be_one(tmp_path: Path, offered: tuple[int, int]) -> None:
    """Too old or too new; it becomes a row with this reason."""
    with pytest.raises(WireError, match="none is usable"):
        asked(tmp_path, _Node(fetch=offered))


def test_a_cluster_that_wants_tls_has_no_probes_and_says_so(tmp_path: Path) -> None:
    """Rather than looking at nothing and saying nothing."""
    at = session(tmp_path, role=PROBE)
    secure = WorkerSession(at.config, Security(tls=True), at.recorder, at.control, at.status)
    probe(secure, settings_of(at))
    assert at.status.detail.startswith("no probes: ")
    assert "SSL" in at.status.detail
