"""Before the load: what a strange product cannot do is given up by name, and the run goes on."""

from __future__ import annotations

import pytest

from harness.clusters.external import ExternalCluster
from harness.foundation.protocol import Api
from harness.foundation.reasons import NOT_INJECTED, NOT_WHOLE
from harness.foundation.security import Security
from harness.judging.checking import run_facts_of
from harness.runs.preparing import Preparation, look_at, make_topics
from nemesis.schedule import Slot
from tests.support.strange_broker import LOOPBACK, Elsewhere, StrangeBrokers, strange_brokers
from workloads import topic_creation, topics
from workloads.base import Settings

TOPIC = Settings().topic_spec(0, "t")
MOVE, KILL = Slot(1, "leader-move", "", 1.0, 2.0, 0), Slot(2, "client-kill", "", 3.0, 4.0, 0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was refused is asked for again."""
    for name in ("TRANSIENT_S", "AUTO_CREATION_S"):
        monkeypatch.setattr(topic_creation, name, 0.0)
    monkeypatch.setattr(topics, "CREATE_TIMEOUT_S", 0.0)


def prepared(brokers: StrangeBrokers) -> Preparation:
    """As a run does it."""
    with ExternalCluster((brokers.nodes[0].address,), Security()) as cluster:
        found = look_at(cluster, [MOVE, KILL], probes=True, tapped=True)
        make_topics(cluster, [TOPIC], "run", found, own=False)
    return found


def test_a_fault_that_needs_more_is_refused_by_name() -> None:
    """Others stay in the plan."""
    with strange_brokers() as brokers:
        found = prepared(brokers)
    assert found.plan == [KILL]
    assert found.reasons[0].code == NOT_INJECTED
    assert str(found.reasons[0]) == found.given_up[0]
    assert found.given_up[0].startswith("fault 1 (leader-move) was refused: no node does AlterPartitionReassignments")
    assert set(found.missing) == {"AlterPartitionReassignments", "ElectLeaders"}


def test_probes_that_cannot_be_answered_are_given_up_by_name() -> None:
    """They still ask for all else."""
    with strange_brokers(unknown=frozenset({Api.LIST_OFFSETS})) as brokers:
        assert "probes do not ask for ends of partitions: no node does ListOffsets (node 1, 2, 3: not offered)" in (
            prepared(brokers).given_up
        )


def test_metadata_that_lies_is_evidence() -> None:
    """It is among the reasons, and in run.json; nothing connects to where it points."""
    with Elsewhere() as elsewhere:
        with strange_brokers(also_listed=((9, LOOPBACK, elsewhere.port),), forget_topics=True) as brokers:
            nodes = brokers.nodes
            with ExternalCluster((nodes[0].address,), Security()) as cluster:
                cluster.nodes = nodes  # as if it were ours
                found = look_at(cluster, [], probes=False, tapped=True)
                make_topics(cluster, [TOPIC], "run", found, own=False)
        assert not elsewhere.was_visited
    assert any(f"{LOOPBACK}:{elsewhere.port}" in each for each in found.odd_metadata)
    codes = [reason.code for reason in found.reasons]
    assert codes == [NOT_WHOLE] * 6  # three nodes say so, and three list no topic
    assert found.sentences == list(dict.fromkeys(found.sentences))


def test_whom_stateless_nodes_list_and_as_whom_is_their_own_choice() -> None:
    """It is noted all the same; of any other cluster it is a reason."""
    with strange_brokers() as brokers:
        nodes = brokers.nodes
        brokers.ports[1], brokers.ports[2] = brokers.ports[2], brokers.ports[1]
        with ExternalCluster((nodes[0].address,), Security()) as cluster:
            cluster.nodes = nodes  # as if it were ours
            held_to_it = look_at(cluster, [], probes=False, tapped=True)
            cluster.stateless = True
            free = look_at(cluster, [], probes=False, tapped=True)
    assert held_to_it.odd_metadata == free.odd_metadata
    assert len(held_to_it.reasons) == len(free.odd_metadata) > 0
    assert free.reasons == []


def test_what_was_given_up_is_in_the_verdicts_coverage() -> None:
    """From run.json."""
    with strange_brokers(refuse_settings=frozenset({"min.insync.replicas"})) as brokers:
        facts = prepared(brokers).as_json()
    assert any("min.insync.replicas was refused" in each for each in run_facts_of(facts).given_up)


def test_topics_of_the_users_own_are_left_as_they_are() -> None:
    """None is created."""
    with strange_brokers() as brokers:
        brokers.topics["mine-t"] = 5
        with ExternalCluster((brokers.nodes[0].address,), Security()) as cluster:
            make_topics(cluster, [TOPIC], "mine", Preparation(), own=True)
        assert brokers.topics == {"mine-t": 5}
