"""What a product can do, asked of small brokers that know little."""

from __future__ import annotations

from harness.clusters.admin_calls import (
    CALLS,
    CREATE_TOPICS,
    DESCRIBE_CLUSTER,
    ELECT_LEADERS,
    FIND_COORDINATOR,
    LIST_OFFSETS,
    METADATA,
)
from harness.clusters.product_support import CallOutcome, ProductSupport, by_node, find_out
from harness.foundation.protocol import Api
from nemesis import FAULTS
from tests.support.strange_broker import NODES, strange_brokers


def test_each_call_is_tried_on_each_node() -> None:
    """An error about nobody's topic is an answer; what is not offered is not tried."""
    with strange_brokers() as brokers:
        found = find_out(brokers.nodes)
        assert set(found.outcomes) == {call.name for call in CALLS}
        assert all(set(nodes) == set(NODES) for nodes in found.outcomes.values())
        assert found.outcomes[METADATA][1] == CallOutcome(works=True, detail="yes")
        assert found.outcomes[LIST_OFFSETS][2] == CallOutcome(works=True, detail="yes (UNKNOWN_TOPIC_OR_PARTITION)")
        assert found.outcomes[ELECT_LEADERS][3] == CallOutcome(works=False, detail="not offered")
        assert 43 not in {api for _, api in brokers.asked}
    assert found.missing(METADATA) == ""
    assert found.missing(ELECT_LEADERS) == "no node does ElectLeaders (node 1, 2, 3: not offered)"
    assert found.as_json()[ELECT_LEADERS] == {"1": "not offered", "2": "not offered", "3": "not offered"}
    assert METADATA not in found.as_json()


def test_one_node_that_does_it_is_enough() -> None:
    """Whoever needs it asks all of them."""
    with strange_brokers(refuse_creation=frozenset({1, 2})) as brokers:
        found = find_out(brokers.nodes, {CREATE_TOPICS})
    assert {node: outcome.works for node, outcome in found.outcomes[CREATE_TOPICS].items()} == {
        1: False,
        2: False,
        3: True,
    }
    assert found.missing(CREATE_TOPICS) == ""
    assert found.outcomes[CREATE_TOPICS][1].detail == "NOT_CONTROLLER"


def test_an_api_that_is_never_answered_costs_seconds() -> None:
    """All others are asked all the same."""
    with strange_brokers(silent=frozenset({Api.DESCRIBE_CLUSTER})) as brokers:
        found = find_out(brokers.nodes, {DESCRIBE_CLUSTER}, timeout_s=0.1)
    assert "accepts connections and does not answer" in found.missing(DESCRIBE_CLUSTER)
    assert "\n" not in found.missing(DESCRIBE_CLUSTER)


def test_what_cannot_be_read_is_a_line() -> None:
    """Nothing raises, whatever comes back."""
    with strange_brokers(garbled=frozenset({Api.DESCRIBE_CLUSTER, Api.LIST_OFFSETS})) as brokers:
        found = find_out(brokers.nodes, {DESCRIBE_CLUSTER, LIST_OFFSETS})
    assert "cannot be understood" in found.missing(DESCRIBE_CLUSTER)
    assert found.missing(LIST_OFFSETS)


def test_nodes_that_offer_nothing_are_tried() -> None:
    """A product without ApiVersions may do all the rest."""
    with strange_brokers(unknown=frozenset({Api.API_VERSIONS})) as brokers:
        found = find_out(brokers.nodes[:1], {METADATA, FIND_COORDINATOR})
    assert found.missing(METADATA) == ""
    assert "closed the connection" in found.missing(FIND_COORDINATOR)


def test_nobody_who_was_asked_misses_nothing() -> None:
    """Faults are refused for what is known to be missing."""
    assert ProductSupport({}).missing(METADATA) == ""
    assert by_node([(1, "a"), (2, "b"), (3, "a")]) == "node 1, 3: a; node 2: b"


def test_faults_need_calls_that_are_probed() -> None:
    """A name that nobody probes would never refuse anything."""
    assert {call for fault in FAULTS.values() for call in fault.calls} <= {call.name for call in CALLS}
    assert FAULTS["leader-move"].calls
