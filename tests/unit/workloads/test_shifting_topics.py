"""The topics workload: what producers and consumers make of topics that come, go and grow, and what the keeper does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka.errors import (
    KafkaTimeoutError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from harness.foundation.config import parse
from harness.foundation.error_codes import UNNUMBERED
from harness.foundation.errors import UsageError
from harness.foundation.security import Security
from harness.history.schema import F, Kind, Type
from tests.support import eventually
from tests.support.worker_sessions import FakeConsumer, FakeProducer, rows, session, settings_of
from workloads import consuming, producing, shifting_topics, topic_changes
from workloads.base import ADMIN, CONSUMER, PRODUCER, TopicSpec
from workloads.clients import confluent, kafka_python
from workloads.consuming import RecordingConsumer
from workloads.producing import RecordingProducer
from workloads.session import WorkerSession
from workloads.shifting_topics import LASTING, Topics, TopicsSettings, TopicWatch, number_of
from workloads.topic_changes import TopicChanger
from workloads.topics import LiveTopic

TOPICS = Topics()


@pytest.mark.parametrize(
    ("given", "says"), [({"topics": 13}, "topics_at_most=12"), ({"partitions": 13}, "partitions_at_most=12")]
)
def test_limits_that_are_broken_from_the_beginning_are_refused(given: dict[str, Any], says: str) -> None:
    """With a sentence."""
    with pytest.raises(UsageError, match=says):
        parse(TopicsSettings, given, "here")


def test_a_topic_has_the_number_that_its_name_says() -> None:
    """So that all workers agree."""
    topics = TOPICS.topics(TopicsSettings(topics=11))
    assert [number_of(topic.full_name("tg-1234abcd")) for topic in topics] == [topic.number for topic in topics]
    assert [topic.number for topic in topics] == list(range(11))


def test_faults_are_aimed_at_the_topic_that_lasts() -> None:
    """Whether one bit could not be told of a topic that is gone."""
    assert [topic.number for topic in TOPICS.topics_in_use(TopicsSettings(), 1, 0)] == [LASTING]


def test_its_workers() -> None:
    """One keeper beside producers and consumers."""
    (stage,) = TOPICS.stages(TopicsSettings(), 0)
    assert [role.name for role in stage] == [CONSUMER] * 2 + [PRODUCER] * 2 + [ADMIN]
    assert not any(role.finite for role in stage)


class Cluster:
    """Topics by name, in place of a cluster; `refuse` says what to do to the next calls."""

    def __init__(self, *names: str) -> None:
        self.topics = {name: LiveTopic(f"first {name}", 3) for name in names}
        self.refuse: list[Exception | None] = []
        self.asked: list[str] = []
        self.before_look: Callable[[], None] = lambda: None

    def admin(self, *_: Any) -> Cluster:
        """As `TopicAdmin` is made."""
        return self

    def _next(self, what: str) -> None:
        self.asked.append(what)
        if self.refuse and (error := self.refuse.pop(0)):
            raise error

    def create_anew(self, topic: TopicSpec, prefix: str) -> None:
        """One with an id of its own."""
        self._next(f"create {topic.number}")
        name = topic.full_name(prefix)
        if name in self.topics:
            raise TopicAlreadyExistsError(name)
        self.topics[name] = LiveTopic(f"{len(self.asked)} {name}", topic.partitions)

    def delete(self, name: str) -> None:
        """At once."""
        self._next(f"delete {number_of(name)}")
        del self.topics[name]

    def grow(self, name: str, partitions: int) -> None:
        """At once."""
        self._next(f"grow {number_of(name)}")
        self.topics[name] = LiveTopic(self.topics[name].id, partitions)

    def live_topics(self, prefix: str) -> dict[str, LiveTopic]:
        """All of the run."""
        self.before_look()
        return {name: topic for name, topic in self.topics.items() if name.startswith(prefix)}

    def close(self) -> None:
        """Nothing to do."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The four topics of the beginning."""
    made = Cluster(*(f"run-topic-{number}" for number in range(4)))
    monkeypatch.setattr("workloads.topics.TopicAdmin", made.admin)
    monkeypatch.setattr(topic_changes, "TopicAdmin", made.admin)
    monkeypatch.setattr(topic_changes, "AGAIN_S", 0.001)
    monkeypatch.setattr(shifting_topics, "LOOK_EVERY_S", 0.001)
    return made


def operations(at: WorkerSession) -> list[tuple[F, int, Type]]:
    """What was done to which topic, and how it ended."""
    ended = rows(at)[1][Kind.COMPLETE]
    return [(F(row["f"]), int(row["topic"]), Type(row["type"])) for row in ended]


def keeper_of(directory: Path, seed: int = 1, **settings: Any) -> tuple[WorkerSession, TopicChanger]:
    """A keeper of the four."""
    at = session(directory, "topics", role=ADMIN, seed=seed, settings=settings)
    return at, TopicChanger(at, settings_of(at))


def test_an_admin_process_creates_deletes_and_grows_within_its_limits(tmp_path: Path, cluster: Cluster) -> None:
    """Everything that was deleted is there again, and one topic always was."""
    at, pool = keeper_of(tmp_path, topics_at_most=6, partitions_at_most=5)
    for _ in range(200):
        pool.change()
    pool.bring_back()
    done = operations(at)
    assert {f for f, _, _ in done} == {F.CREATE, F.DELETE, F.GROW}
    assert {type_ for _, _, type_ in done} == {Type.OK}
    assert (F.DELETE, LASTING) not in {(f, topic) for f, topic, _ in done}
    assert sorted(cluster.topics) == [f"run-topic-{number}" for number in range(6)]
    assert {name: topic.partitions for name, topic in cluster.topics.items()} == dict.fromkeys(cluster.topics, 5)
    assert {number: f"run-topic-{number}" for number in (4, 5)}.items() <= rows(at)[0].topics.items()
    grown = rows(at)[1][Kind.INVOKE]
    assert grown["count"][grown["f"] == F.GROW].max() == 5


def test_its_changes_come_from_its_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same again, and others with another one."""
    asked = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        made = Cluster(*(f"run-topic-{number}" for number in range(4)))
        monkeypatch.setattr(topic_changes, "TopicAdmin", made.admin)
        _, pool = keeper_of(tmp_path / name, seed)
        for _ in range(10):
            pool.change()
        asked.append(made.asked)
    assert asked[0] == asked[1] != asked[2]


def test_a_topic_that_could_not_be_made_again_goes_before_other_changes(tmp_path: Path, cluster: Cluster) -> None:
    """Nobody knows about the creation: it is tried again, as an operation of its own."""
    at, pool = keeper_of(tmp_path)
    cluster.refuse = [None, KafkaTimeoutError("nothing answers"), KafkaTimeoutError("still not")]
    pool._make_anew()
    (_, number, _) = operations(at)[0]
    assert pool.missing.keys() == {number}
    pool.change()
    pool.change()
    assert operations(at)[:4] == [
        (F.DELETE, number, Type.OK),
        (F.CREATE, number, Type.INFO),
        (F.CREATE, number, Type.INFO),
        (F.CREATE, number, Type.OK),
    ]
    assert not pool.missing
    assert f"run-topic-{number}" in cluster.topics


def test_a_deletion_nobody_knows_of_may_come_through_late(tmp_path: Path, cluster: Cluster) -> None:
    """After the topic was found to be there still: at the end it is looked for, and made again."""
    at, pool = keeper_of(tmp_path)
    cluster.refuse = [KafkaTimeoutError("nothing answers")]
    at.control.stop()  # nobody waits for it to be gone
    pool._make_anew()
    (number,) = {topic for _, topic, _ in operations(at)}
    assert [type_ for _, _, type_ in operations(at)] == [Type.INFO, Type.INFO]
    assert rows(at)[1][Kind.COMPLETE]["error"].tolist()[1] == TopicAlreadyExistsError.errno
    assert pool.missing.keys() == {number}
    del cluster.topics[f"run-topic-{number}"]
    pool.bring_back()
    assert operations(at)[2:] == [(F.CREATE, number, Type.OK)]
    assert f"run-topic-{number}" in cluster.topics


@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_deletion_that_never_came_through_is_made_again(
    tmp_path: Path,
    cluster: Cluster,
    at_the_end: bool,  # noqa: FBT001 - a parameter
) -> None:
    """The topic that is there still is not the one that was to take its place."""
    at, pool = keeper_of(tmp_path)
    before = dict(cluster.topics)
    cluster.refuse = [KafkaTimeoutError("nothing answers")]
    at.control.stop()  # nobody waits for it to be gone
    pool._make_anew()
    (number,) = {topic for _, topic, _ in operations(at)}
    if at_the_end:
        pool.bring_back()
    else:
        pool.change()
        pool.change()
    assert operations(at)[2:4] == [(F.DELETE, number, Type.OK), (F.CREATE, number, Type.OK)]
    assert not pool.missing
    name = f"run-topic-{number}"
    assert cluster.topics[name].id != before[name].id


def test_a_topic_is_back_when_another_one_has_its_name(tmp_path: Path, cluster: Cluster) -> None:
    """The creation that nobody knew of did take place: nothing more is asked for."""
    at, pool = keeper_of(tmp_path)
    cluster.refuse = [None, KafkaTimeoutError("nothing answers")]
    pool._make_anew()
    (number,) = pool.missing
    name = f"run-topic-{number}"
    old = pool.missing[number].id
    cluster.topics[name] = LiveTopic(str(old), 3)  # as a node says that lags behind
    asked = len(cluster.asked)
    pool.change()
    assert pool.missing.keys() == {number}
    cluster.topics[name] = LiveTopic("another", 3)
    pool.change()
    assert not pool.missing
    assert len(cluster.asked) == asked
    assert [type_ for _, _, type_ in operations(at)] == [Type.OK, Type.INFO]


def test_whatever_the_library_raises_is_recorded(tmp_path: Path, cluster: Cluster) -> None:
    """Nobody knows what happened, and the keeper goes on."""
    at, pool = keeper_of(tmp_path)

    def fail() -> None:
        raise ValueError("not a number")

    cluster.refuse = [None, ValueError("not a number")]
    pool._make_anew()
    assert [type_ for _, _, type_ in operations(at)] == [Type.OK, Type.INFO]
    assert rows(at)[1][Kind.COMPLETE]["error"].tolist() == [0, UNNUMBERED]
    cluster.before_look = fail
    pool.change()
    assert not pool.missing


def test_what_was_refused_changed_nothing(tmp_path: Path, cluster: Cluster) -> None:
    """A topic that certainly did not grow is asked to grow from where it is."""
    at, pool = keeper_of(tmp_path)
    cluster.refuse = [PolicyViolationError("no")]
    before = dict(pool.partitions)
    pool._grow()
    ((f, _, type_),) = operations(at)
    assert (f, type_) == (F.GROW, Type.FAIL)
    assert pool.partitions == before
    assert rows(at)[1][Kind.COMPLETE]["error"].tolist() == [PolicyViolationError.errno]


def test_the_end_is_not_waited_for_without_an_end(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that never has the topic again does not hold up the run."""
    _, pool = keeper_of(tmp_path)
    cluster.topics.clear()
    cluster.refuse = [UnknownTopicOrPartitionError("no")] * 10_000
    monkeypatch.setattr(topic_changes, "ALL_BACK_WITHIN_S", 0.01)
    pool.bring_back()
    assert pool.missing.keys() == {0, 1, 2, 3}


def test_an_admin_process_ends_when_it_is_told_to(tmp_path: Path, cluster: Cluster) -> None:
    """With everything in its place."""
    at = session(tmp_path, "topics", role=ADMIN, settings={"change_every": "1ms"})
    cluster.before_look = lambda: at.control.stop() if len(cluster.asked) > 5 else None
    TOPICS.work(at, settings_of(at))
    assert {"run-topic-0", "run-topic-1", "run-topic-2", "run-topic-3"} <= cluster.topics.keys()
    assert len(rows(at)[1][Kind.INVOKE]) == len(rows(at)[1][Kind.COMPLETE]) > 5


def test_a_watch_goes_on_when_nobody_answers(tmp_path: Path, cluster: Cluster) -> None:
    """What was known stays known, and the next look succeeds."""
    at = session(tmp_path, "topics")
    watch = TopicWatch(at)
    eventually(lambda: bool(watch.topics()), "the first look")

    def fail() -> None:
        raise KafkaTimeoutError("nothing answers")

    cluster.before_look = fail
    eventually(lambda: "nothing answers" in at.status.detail, "a look that failed")
    assert watch.topics()
    cluster.topics["run-topic-9"] = LiveTopic("new", 1)
    cluster.before_look = lambda: None
    eventually(lambda: "run-topic-9" in watch.topics(), "the next look")
    watch.close()
    assert rows(at)[0].topics[9] == "run-topic-9"


class _Stopping(FakeProducer):
    """Stops its worker after so many ticks, and has the cluster grow before."""

    def __init__(self, ticks: int, each: Callable[[int], None]) -> None:
        super().__init__()
        self._left, self._each = ticks, each

    def send(self, topic: str, partitions: Any, payloads: Any, keyed: Any = None) -> None:
        """Count the tick."""
        super().send(topic, partitions, payloads, keyed)
        self._left -= 1
        self._each(self._left)


def test_a_producer_goes_over_all_that_there_is(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics that have grown, and partitions that no topic had at first."""
    at = session(tmp_path, "topics", settings={"rate": 0})
    cluster.topics["run-topic-1"] = LiveTopic("grown", 12)
    library = _Stopping(60, lambda left: None if left else at.control.stop())
    monkeypatch.setattr(producing, "open_producer", lambda *_: RecordingProducer(at, settings_of(at), library))
    TOPICS.work(at, settings_of(at))
    assert {(topic, partition) for topic, partition, _ in library.sent} == {
        (name, partition) for name, topic in cluster.topics.items() for partition in range(topic.partitions)
    }
    sent = rows(at)[1][Kind.INVOKE]
    here = sent[(sent["topic"] == 1) & (sent["partition"] == 11)]
    assert here["sequence"].tolist() == list(range(len(here)))
    assert rows(at)[0].topics == {number: f"run-topic-{number}" for number in range(4)}


def test_consumers_take_up_a_topic_that_was_made_anew_from_its_beginning(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is let go of first, under the same name; the other topics are not touched."""
    at = session(tmp_path, "topics", role=CONSUMER, number=0, of=2)
    consumer = FakeConsumer()
    taken: list[set[Any]] = []
    monkeypatch.setattr(consumer, "assign", lambda positions: taken.append(set(positions)))
    reader = RecordingConsumer(at, settings_of(at), consumer)
    monkeypatch.setattr(consuming, "open_consumer", lambda *_: reader)

    def when_empty() -> None:
        cluster.topics["run-topic-1"] = LiveTopic("anew", 3)
        if len(taken) > 2:
            at.control.stop()

    consumer.when_empty = when_empty
    TOPICS.work(at, settings_of(at))
    own = {(f"run-topic-{number}", partition) for number in range(4) for partition in range(number % 2, 3, 2)}
    anew = {("run-topic-1", 1)}
    assert taken == [own, own - anew, own]
    assigned = rows(at)[1][Kind.COMPLETE]
    assigned = assigned[assigned["f"] == F.ASSIGN]
    places = list(zip(assigned["topic"].tolist(), assigned["partition"].tolist(), strict=True))
    assert sorted(places) == sorted([(number_of(name), partition) for name, partition in own] + [(1, 1)])


def test_consumers_share_whatever_there_is(tmp_path: Path) -> None:
    """A topic more moves nothing between them."""
    shares = []
    topics = {f"run-topic-{number}": LiveTopic("", partitions) for number, partitions in enumerate((3, 1, 12))}
    for number in (0, 1):
        at = session(tmp_path / str(number), "topics", role=CONSUMER, number=number, of=2)
        few = set(shifting_topics._share(at, {name: topics[name] for name in list(topics)[:2]}))
        shares.append(set(shifting_topics._share(at, topics)))
        assert few <= shares[-1]
    assert not shares[0] & shares[1]
    assert len(shares[0] | shares[1]) == 16
    assert np.ptp([len(share) for share in shares]) <= 2


def test_clients_look_for_new_partitions_all_the_time() -> None:
    """By themselves they would do so every five minutes, and refuse what goes to a partition that they do not know."""
    settings = TopicsSettings()
    assert confluent._connection(settings, [], Security(), "me")["topic.metadata.refresh.interval.ms"] == 1000
    assert kafka_python._connection(settings, [], Security(), "me")["metadata_max_age_ms"] == 1000
