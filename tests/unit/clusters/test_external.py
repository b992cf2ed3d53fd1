"""Clusters of somebody else: who they are, by the word of whoever answers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import pytest

from harness.clusters import external
from harness.clusters.external import ExternalCluster, numbered
from harness.clusters.node import Node
from harness.foundation.errors import ClusterError
from harness.foundation.metadata_answer import BROKERS_AT_MOST
from harness.foundation.protocol import Api
from harness.foundation.security import Security
from tests.support.strange_broker import strange_brokers
from tests.support.worker_sessions import NOBODY

TLS = Security(tls=True)


def test_metadata_is_enough() -> None:
    """A DescribeCluster that cannot be read is not needed; the first address that answers is believed."""
    with (
        strange_brokers(garbled=frozenset({Api.DESCRIBE_CLUSTER})) as brokers,
        ExternalCluster((NOBODY, brokers.nodes[1].address), Security()) as cluster,
    ):
        assert cluster.nodes == brokers.nodes
        assert cluster.cluster_id == "strange"


def test_nobody_who_can_be_asked() -> None:
    """The sentence says what each address answered, in a line."""
    with strange_brokers(garbled=frozenset({Api.METADATA})) as brokers:
        address = brokers.nodes[0].address
        said = rf"no broker answers at {NOBODY},{address} over PLAINTEXT \({NOBODY} refuses connections .*; {address}"
        with pytest.raises(ClusterError, match=rf"{said} answers what cannot be understood .*without TLS and SASL"):
            ExternalCluster((NOBODY, address), Security()).start()


def test_one_id_for_all_brokers_does_not_hide_two_of_them() -> None:
    """Each address is a node, with a number of its own."""
    assert numbered([(1, "h:3"), (1, "h:1"), (1, "h:2")]) == (Node(1, "h:1"), Node(2, "h:2"), Node(3, "h:3"))
    assert numbered([(2, "h:1"), (2, "h:2"), (1, "h:3"), (1, "h:3")]) == (
        Node(1, "h:3"),
        Node(2, "h:1"),
        Node(3, "h:2"),
    )
    with strange_brokers(one_id=1) as brokers, ExternalCluster((brokers.nodes[0].address,), Security()) as cluster:
        assert {node.address for node in cluster.nodes} == {node.address for node in brokers.nodes}
        assert [node.id for node in cluster.nodes] == [1, 2, 3]


def test_a_cluster_of_nobody_or_of_too_many() -> None:
    """Neither is a cluster to test."""
    many = tuple((100 + each, "h", 1 + each) for each in range(BROKERS_AT_MOST))
    with (
        strange_brokers(also_listed=many) as brokers,
        pytest.raises(ClusterError, match=r"253 brokers, where 250 are the most"),
    ):
        ExternalCluster((brokers.nodes[0].address,), Security()).start()


class _Admin:
    """The admin client of a cluster with TLS, whose DescribeCluster cannot be read."""

    def __init__(self, **_: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def describe_cluster(self) -> dict[str, Any]:
        """Nonsense."""
        raise ValueError("cannot decode DescribeClusterResponse(version=0)")

    def metadata(self) -> dict[str, Any]:
        """As it should be."""
        return {"cluster_id": "abc", "brokers": [{"broker_id": 4, "host": "::1", "port": 9}]}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (None, nullcontext()),
        (
            ValueError("cannot decode MetadataResponse(version=9)"),
            pytest.raises(ClusterError, match=r"\(cannot decode\)"),
        ),
    ],
)
def test_with_tls_metadata_is_the_next_best(
    monkeypatch: pytest.MonkeyPatch, metadata: Exception | None, expected: AbstractContextManager[Any]
) -> None:
    """And where that cannot be read either, the sentence quotes no protocol object."""

    def fail(_: _Admin) -> None:
        assert metadata is not None
        raise metadata

    monkeypatch.setattr(external, "Admin", _Admin)
    if metadata:
        monkeypatch.setattr(_Admin, "metadata", fail)
    with expected, ExternalCluster((NOBODY,), TLS) as cluster:
        assert cluster.nodes == (Node(4, "[::1]:9"),)
