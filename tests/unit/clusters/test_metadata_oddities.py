"""Metadata that cannot be true: each contradiction is a sentence, and nothing connects to where it points."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.clusters.metadata_oddities import SHOWN_AT_MOST, TIMEOUT_S, ask_all, odd_metadata, shared_ids
from harness.clusters.node import Node
from harness.foundation.protocol import Api
from harness.foundation.security import Security
from tests.support.strange_broker import LOOPBACK, Elsewhere, strange_brokers


def odd(nodes: Sequence[Node], timeout_s: float = TIMEOUT_S) -> list[str]:
    """Of a cluster of these nodes."""
    return [str(each) for each in odd_metadata(ask_all(nodes, Security(), timeout_s), nodes)]


def test_metadata_that_is_true_is_not_odd() -> None:
    """Every node lists every node, and a controller among them."""
    with strange_brokers() as brokers:
        assert odd(brokers.nodes) == []


def test_one_id_for_all_brokers() -> None:
    """As each node says."""
    with strange_brokers(one_id=7) as brokers:
        found = odd(brokers.nodes)
        assert shared_ids(ask_all(brokers.nodes, Security())) == [7]
    assert found == [f"node {node} lists 3 brokers with the id 7" for node in (1, 2, 3)]


def test_addresses_outside_of_the_cluster() -> None:
    """Named, and not connected to."""
    with Elsewhere() as elsewhere:
        with strange_brokers(also_listed=((9, LOOPBACK, elsewhere.port),)) as brokers:
            found = odd(brokers.nodes)
        assert not elsewhere.was_visited
    said = f"lists a broker at {LOOPBACK}:{elsewhere.port}, which is not in the cluster; nothing of ours connects to it"
    assert found == [f"node {node} {said}" for node in (1, 2, 3)]


def test_no_controller_and_nodes_that_are_missing() -> None:
    """Both are said; a controller that is not listed, too."""
    with strange_brokers(no_controller=True) as brokers:
        whole = brokers.nodes
        gone = brokers.ports.pop(3)
        found = odd(whole[:2] + whole[2:])
    assert [each for each in found if each.startswith("node 1 ")] == [
        f"node 1 does not list node 3 ({LOOPBACK}:{gone})",
        "node 1 knows of no controller",
    ]


def test_numbers_that_were_exchanged() -> None:
    """A node that is listed as another one."""
    with strange_brokers() as brokers:
        nodes = brokers.nodes
        brokers.ports[1], brokers.ports[2] = brokers.ports[2], brokers.ports[1]
        found = odd(nodes)
        own_choice = [each.own_choice for each in odd_metadata(ask_all(nodes, Security()), nodes)]
    assert all(own_choice)
    assert f"node 3 lists {nodes[0].address} as node 2, and it is node 1" in found


@pytest.mark.parametrize("how", ["silent", "garbled"])
def test_a_node_that_does_not_answer_contradicts_nobody(how: str) -> None:
    """Others see that."""
    with strange_brokers(**{how: frozenset({Api.METADATA})}) as brokers:
        assert odd(brokers.nodes, timeout_s=0.1) == []


def test_no_list_is_endless() -> None:
    """However many brokers an answer names."""
    many = tuple((100 + each, LOOPBACK, 1 + each) for each in range(50))
    with strange_brokers(also_listed=many) as brokers:
        found = odd(brokers.nodes)
    assert len(found) == SHOWN_AT_MOST + 1
    assert found[-1] == "and 140 more contradictions in Metadata"
