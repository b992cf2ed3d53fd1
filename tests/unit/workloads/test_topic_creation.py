"""Topics on products that know less than Apache Kafka: each refusal has a next best way, or one clear sentence."""

from __future__ import annotations

import pytest

from harness.foundation.errors import ClusterError
from harness.foundation.protocol import Api
from harness.foundation.security import Security
from harness.tap.batches import join
from tests.support.strange_broker import NODES, strange_brokers
from tests.support.tap_broker import batch_of
from workloads import topic_creation, topics
from workloads.base import Settings
from workloads.topics import MadeTopics, adopt_topics, create_topics, delete_topics

SETTINGS = Settings()
SPEC = SETTINGS.topic_spec(0, "orders")
NAME = "run-orders"
MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
CREATE_PARTITIONS = 37


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was refused is asked for again; all else has its time."""
    for name in ("TRANSIENT_S", "AUTO_CREATION_S"):
        monkeypatch.setattr(topic_creation, name, 0.0)


def test_a_product_that_knows_all_gives_up_nothing() -> None:
    """The first node that is asked creates it, with all settings."""
    with strange_brokers() as brokers:
        assert create_topics(brokers.nodes, Security(), [SPEC], "run") == MadeTopics()
        assert brokers.topics == {NAME: 3}
        assert brokers.settings[NAME] == SPEC.config


def test_two_of_three_nodes_refuse() -> None:
    """The third one is asked as well, and nothing is given up."""
    with strange_brokers(refuse_creation=frozenset({1, 2})) as brokers:
        assert create_topics(brokers.nodes, Security(), [SPEC], "run") == MadeTopics()
        assert brokers.settings[NAME] == SPEC.config


@pytest.mark.parametrize(
    ("refused", "kept", "said"),
    [
        ({MIN_ISR}, {UNCLEAN}, f"the setting {MIN_ISR} was refused"),
        ({UNCLEAN}, {MIN_ISR}, f"the setting {UNCLEAN} was refused"),
        ({MIN_ISR, UNCLEAN}, set(), f"the settings {MIN_ISR}, {UNCLEAN} were refused"),
    ],
)
def test_settings_that_nobody_knows_are_given_up(refused: set[str], kept: set[str], said: str) -> None:
    """No more of them than has to be, and with what each node said."""
    others = [SETTINGS.topic_spec(1, "bills")]
    with strange_brokers(refuse_settings=frozenset(refused)) as brokers:
        made = create_topics(brokers.nodes, Security(), [SPEC, *others], "run")
        assert set(brokers.settings[NAME]) == kept
        assert made.given_up[0].startswith(f"topic {NAME}: {said} (node 1, 2, 3: INVALID_CONFIG, unknown ")
        assert [each.partition(":")[0] for each in made.given_up] == [f"topic {NAME}", "topic run-bills"]
        assert not made.troubles


def test_replicas_are_the_products_own_where_it_knows_none() -> None:
    """With nodes enough for them, it cannot be the number of nodes that is wrong."""
    with strange_brokers(refuse_replicas=True) as brokers:
        (given_up,) = create_topics(brokers.nodes, Security(), [SPEC], "run").given_up
        assert "replication_factor=3" in given_up
        assert brokers.topics == {NAME: 3}


def test_too_few_nodes_is_for_the_user_to_change() -> None:
    """Nothing is given up by itself."""
    with strange_brokers(refuse_replicas=True, auto_create=True) as brokers:
        with pytest.raises(ClusterError, match=r"cannot have 3 replicas on 2 nodes: lower replication_factor"):
            create_topics(brokers.nodes[:2], Security(), [SPEC], "run")
        assert not brokers.topics


@pytest.mark.parametrize("strange", ["unknown", "silent", "garbled"])
def test_auto_creation_is_the_next_best(strange: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many partitions as are needed, which another request gives it."""
    if strange == "silent":
        monkeypatch.setattr(topic_creation, "CREATE_TIMEOUT_S", 0.1)
    with strange_brokers(auto_create=True, **{strange: frozenset({Api.CREATE_TOPICS})}) as brokers:
        (given_up,) = create_topics(brokers.nodes, Security(), [SPEC], "run").given_up
        assert f"topic {NAME}: it was auto-created" in given_up
        assert brokers.topics == {NAME: 3}
        assert brokers.asked.count((1, Api.CREATE_TOPICS)) <= 1


def test_what_nobody_creates_is_for_the_user_to_create() -> None:
    """The sentence says what each node answered, in a line, and how to go on."""
    said = (
        r"^no node creates the topic run-orders \(node 1, 2, 3: NOT_CONTROLLER\)"
        r": create it yourself, with 3 partitions, and say `topic = run`$"
    )
    with strange_brokers(refuse_creation=frozenset(NODES)) as brokers:
        with pytest.raises(ClusterError, match=said):
            create_topics(brokers.nodes, Security(), [SPEC], "run")
        brokers.topics[NAME] = 3
        adopt_topics(brokers.nodes, Security(), [SPEC], "run")


def test_too_few_partitions_and_nobody_to_add_some() -> None:
    """An auto-created topic that is too small is no topic for the run."""
    gone = frozenset({Api.CREATE_TOPICS, CREATE_PARTITIONS})
    with strange_brokers(auto_create=True, unknown=gone) as brokers:
        with pytest.raises(ClusterError, match=r"no node creates .*UNSUPPORTED_VERSION, CreateTopics is not offered"):
            create_topics(brokers.nodes, Security(), [SPEC], "run")
        with pytest.raises(ClusterError, match=r"run-orders has 1 partitions, and the run needs 3"):
            adopt_topics(brokers.nodes, Security(), [SPEC], "run")


def test_a_topic_of_the_users_own_has_to_be_empty() -> None:
    """Records of others could not be told apart."""
    with strange_brokers() as brokers:
        brokers.topics[NAME] = 3
        adopt_topics(brokers.nodes, Security(), [SPEC], "run")
        brokers.append(NAME, 1, join([batch_of(b"somebody else's")]))
        with pytest.raises(ClusterError, match=r"already has records"):
            adopt_topics(brokers.nodes, Security(), [SPEC], "run")


def test_a_product_that_forgets_its_topics_is_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends, and says of each node what it does not list."""
    monkeypatch.setattr(topics, "CREATE_TIMEOUT_S", 0.0)
    with strange_brokers(forget_topics=True) as brokers:
        made = create_topics(brokers.nodes, Security(), [SPEC], "run")
    assert len(made.troubles) == len(NODES)
    assert all(f"lists 0 of 3 partitions of {NAME}" in each for each in made.troubles)


def test_topics_are_removed_by_whoever_does_it() -> None:
    """Those of the run, and no others."""
    with strange_brokers() as brokers:
        brokers.topics |= {NAME: 3, "other": 1}
        delete_topics(brokers.nodes, Security(), "run")
        assert brokers.topics == {"other": 1}
    with strange_brokers(unknown=frozenset({20})) as brokers:
        brokers.topics[NAME] = 3
        with pytest.raises(ClusterError, match=r"could not be removed .*: delete the topics that begin with run-"):
            delete_topics(brokers.nodes, Security(), "run")
