"""Consume, transform, produce: every way a transaction can end, against a broker in memory that keeps its promises."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.foundation.config import parse
from harness.foundation.errors import UsageError
from harness.history.schema import F, Kind, Type
from tests.support.broker_in_memory import EACH, IN, OUT, PARTITIONS, Broker, Instance, Library, source
from tests.support.worker_sessions import FakeConsumer, FakeProducer, rows, session, settings_of
from workloads import consuming, draining, membership, producing, transacting, transforming
from workloads.base import CONSUMER, PRODUCER, Churn, Role
from workloads.clients.base import ClientError, TopicPartition
from workloads.consuming import RecordingConsumer
from workloads.draining import DrainCheck
from workloads.exactly_once import FEED, READ, TRANSFORM, ExactlyOnce
from workloads.exactly_once_settings import INPUT, OUTPUT, ExactlyOnceSettings
from workloads.producing import RecordingProducer
from workloads.session import WorkerSession
from workloads.transaction_fates import RESTARTS, Chances, TransactionFate, TransactionStep
from workloads.transforming import Transformer

TIMED_OUT, UNSTABLE = ClientError(-185, "no"), ClientError(88, "no")
BATCH = 4  # EACH is whole batches: nobody waits for more than there is


@dataclass
class Stage:
    """A transformer over that broker."""

    broker: Broker
    session: WorkerSession
    transformer: Transformer
    libraries: list[Library]

    def step(
        self, way: TransactionFate = TransactionFate.COMMIT, at: TransactionStep = TransactionStep.OFFSETS
    ) -> None:
        """One transaction."""
        self.transformer._transform(way, at)

    def finish(self) -> None:
        """Transactions until all is through; a few are enough, and then nothing is there twice."""
        for _ in range(EACH):
            if not self.broker.through:
                self.step()
        expected = [(partition, source(partition, offset)) for partition in range(PARTITIONS) for offset in range(EACH)]
        assert sorted(self.broker.outputs) == expected
        assert self.broker.committed == {(IN, partition): EACH for partition in range(PARTITIONS)}
        for partition in range(PARTITIONS):
            made = [value for where, value in self.broker.outputs if where == partition]
            assert made == sorted(made)

    def ended(self, f: F) -> list[int]:
        """How the operations of a kind ended, in their order."""
        ended = rows(self.session)[1][Kind.COMPLETE]
        return [int(type_) for type_ in ended[ended["f"] == f]["type"]]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stage]:
    """Make one."""

    def make(**given: Any) -> Stage:
        settings = {"partitions": PARTITIONS, "linger": 60, "batch": BATCH, "abort": 0, "restart_every": 0, **given}
        at = session(tmp_path, "exactly-once", role=CONSUMER, task=TRANSFORM, of=3, settings=settings)
        made = Stage(Broker(), at, Transformer(at, settings_of(at)), [])

        def member(*_: object) -> Library:
            made.libraries.append(Library(made.broker, keeps_positions=settings.get("client") == "kafka-python"))
            return made.libraries[-1]

        monkeypatch.setattr(membership, "make_member", member)
        monkeypatch.setattr(transacting, "make_transactional_producer", lambda *_: Instance(made.broker))
        monkeypatch.setattr(transforming, "NAP_S", 0)
        monkeypatch.setattr(transacting, "NAP_S", 0)
        return made

    return make


def test_a_transaction_has_an_output_for_each_input_and_the_positions_after_them(stage: Callable[..., Stage]) -> None:
    """Recorded as what it is: sends with their sources, commits of the group, and the whole."""
    at = stage()
    at.step()
    ended = rows(at.session)[1][Kind.COMPLETE]
    whole, sent, commits = (ended[ended["f"] == f] for f in (F.TXN, F.SEND, F.COMMIT))
    assert [whole["type"].tolist(), whole["count"].tolist()] == [[Type.OK], [3]]
    columns = ("type", "topic", "partition", "source", "txn")
    assert sorted(zip(*(sent[name].tolist() for name in columns), strict=True)) == [
        (Type.OK, OUTPUT, partition, source(partition, offset), whole["op"][0])
        for partition in range(2)
        for offset in range(2)
    ]
    columns = ("type", "topic", "partition", "offset", "txn")
    assert sorted(zip(*(commits[name].tolist() for name in columns), strict=True)) == [
        (Type.OK, INPUT, partition, 2, whole["op"][0]) for partition in range(2)
    ]
    assert set(rows(at.session)[1][Kind.RECORD]["txn"].tolist()) == {int(whole["op"][0])}
    at.finish()


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python"])
@pytest.mark.parametrize(
    ("way", "at", "leaves"),
    [
        *itertools.product(TransactionFate, TransactionStep, [True]),
        *itertools.product([TransactionFate.LOSE_CONSUMER], TransactionStep, [False]),
    ],
)
def test_whatever_is_given_up_at_whatever_step_each_input_comes_out_once(
    stage: Callable[..., Stage],
    client: str,
    way: TransactionFate,
    at: TransactionStep,
    leaves: bool,  # noqa: FBT001 - a parameter
) -> None:
    """At the first transaction, and in the middle; what nobody asked to commit has failed."""
    on = stage(client=client)
    on.transformer._chances.leaves = lambda: leaves  # type: ignore[method-assign]
    on.step(way, at)
    too_late = leaves and at in {TransactionStep.READ, TransactionStep.SENT, TransactionStep.DELIVERED}
    commits = way is TransactionFate.COMMIT or (way is TransactionFate.LOSE_CONSUMER and not too_late)
    assert on.ended(F.TXN) == [Type.OK if commits else Type.FAIL]
    on.step()
    on.step(way, at)
    on.finish()


def test_a_consumer_that_left_cannot_commit_what_it_read(stage: Callable[..., Stage]) -> None:
    """Its generation is over: the transaction is aborted, and the next member starts where the group is."""
    on = stage()
    on.transformer._chances.leaves = lambda: True  # type: ignore[method-assign]
    on.step(TransactionFate.LOSE_CONSUMER, TransactionStep.SENT)
    assert on.ended(F.COMMIT) == [Type.FAIL] * PARTITIONS
    assert on.ended(F.TXN) == [Type.FAIL]
    assert on.broker.outputs == []
    on.finish()
    assert len(on.libraries) == 2


def test_outputs_that_are_delivered_too_late_for_their_positions_are_aborted(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delivered by the time of the commit, they would be committed alone, and the next member would make them again."""
    on, late = stage(), [False]
    deliver = transacting.Transaction.deliver
    monkeypatch.setattr(transacting.Transaction, "deliver", lambda txn: late.pop() if late else deliver(txn))
    on.transformer._chances.leaves = lambda: True  # type: ignore[method-assign]
    on.step(TransactionFate.LOSE_CONSUMER, TransactionStep.SENT)
    assert on.ended(F.COMMIT) == []
    assert on.ended(F.TXN) == [Type.FAIL]
    assert on.broker.outputs == []
    on.finish()


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python"])
def test_work_on_partitions_that_the_group_took_away_is_aborted(stage: Callable[..., Stage], client: str) -> None:
    """Even if they come back at once: the library may hand out again what was read."""
    on = stage(client=client, batch=6)
    on.step(TransactionFate.ABORT, TransactionStep.BEGUN)
    on.libraries[0].instead_of_polls = [None, on.libraries[0].rebalance]
    on.step()
    assert on.ended(F.TXN) == [Type.FAIL, Type.FAIL]
    on.finish()
    assert set(on.ended(F.REVOKE)) == {Type.OK}


def test_a_member_without_a_name_commits_nothing(stage: Callable[..., Stage]) -> None:
    """Its library has forgotten the generation: brokers would not know that it is over."""
    on = stage()
    on.step()
    on.libraries[0].name = ""
    on.step()
    assert on.ended(F.TXN) == [Type.OK, Type.FAIL]
    on.libraries[0].name = "another"
    on.finish()


@pytest.mark.parametrize("generation", [-1, None])
def test_a_member_without_a_generation_commits_nothing(stage: Callable[..., Stage], generation: int | None) -> None:
    """As far as its library tells: it keeps the name of one that was thrown out."""
    on = stage(client="kafka-python")
    on.step()
    on.libraries[0].says = SimpleNamespace(generation_id=generation)
    on.step()
    assert on.ended(F.TXN) == [Type.OK, Type.FAIL]
    assert "send_offsets" not in on.broker.log[on.broker.log.index("commit") :]
    on.libraries[0].says = None
    on.finish()


def test_a_rebalance_without_work_disturbs_nothing(stage: Callable[..., Stage]) -> None:
    """The transaction that waits for its first record goes on."""
    on = stage()
    on.step()
    on.libraries[0].instead_of_polls = [on.libraries[0].rebalance]
    on.finish()
    assert set(on.ended(F.TXN)) == {Type.OK}


@pytest.mark.parametrize("commits_anyway", [True, False])
def test_when_nobody_knows_whether_it_was_committed_the_group_is_asked(
    stage: Callable[..., Stage],
    commits_anyway: bool,  # noqa: FBT001 - a parameter
) -> None:
    """After a new instance took the transactional id, and so made an end of it."""
    on = stage()
    on.broker.fails, on.broker.commits_anyway = {"commit": [TIMED_OUT]}, commits_anyway
    on.step()
    assert on.ended(F.TXN) == [Type.INFO]
    on.broker.log.clear()
    on.step()
    assert on.broker.log.index("init") < on.broker.log.index("committed") < on.broker.log.index("seek")
    on.finish()


def test_a_member_that_gets_no_answer_asks_again_and_at_last_makes_room_for_another(
    stage: Callable[..., Stage],
) -> None:
    """Nothing is read before it is known where to go on."""
    on = stage()
    on.step(TransactionFate.ABORT, TransactionStep.SENT)
    on.broker.fails = {"committed": [UNSTABLE] * 3}
    read = len(rows(on.session)[1][Kind.RECORD])
    for _ in range(3):
        on.step()
    assert len(rows(on.session)[1][Kind.RECORD]) == read
    assert on.ended(F.LEAVE) == [Type.OK]
    on.finish()


@pytest.mark.parametrize("call", ["join", "init", "begin", "send_offsets", "abort"])
def test_any_call_may_fail(stage: Callable[..., Stage], call: str) -> None:
    """And is made again, as a new operation."""
    on = stage()
    on.broker.fails = {call: [TIMED_OUT]}
    on.step(TransactionFate.ABORT if call == "abort" else TransactionFate.COMMIT, TransactionStep.SENT)
    on.finish()


def test_after_the_load_transformers_go_on_until_all_is_through(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told to stop before they began, they still do everything; the last thing is to ask the group where it is."""
    on = stage()
    side = FakeConsumer(ends={(IN, partition): EACH for partition in range(PARTITIONS)})
    monkeypatch.setattr("workloads.clients.make_consumer", lambda *_: side)
    monkeypatch.setattr(draining, "ASK_EVERY_S", 0)
    on.session.control.stop()
    on.transformer.run()
    on.finish()
    assert side.closed
    ended = rows(on.session)[1][Kind.COMPLETE]
    assert ended[ended["f"] == F.COMMITTED]["offset"].tolist()[-PARTITIONS:] == [EACH] * PARTITIONS
    assert ended["f"].tolist()[-1] == F.LEAVE
    assert rows(on.session)[1][Kind.INVOKE]["op"].size == ended["op"].size


def test_the_drain_has_a_limit(stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends that nobody reaches are not waited for."""
    on = stage(drain=0)
    side = FakeConsumer(ends={(IN, partition): 10**6 for partition in range(PARTITIONS)})
    monkeypatch.setattr("workloads.clients.make_consumer", lambda *_: side)
    on.step()
    on.session.control.stop()
    on.transformer.run()
    assert len(on.ended(F.TXN)) == 1


def test_a_drain_that_finds_nobody_tries_again(stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is through meanwhile."""
    on = stage()
    on.step()
    side = FakeConsumer(ends={(IN, 0): 2, (IN, 1): 2})
    side.fails = [ClientError(-1010, "nobody there")] * 2
    monkeypatch.setattr("workloads.clients.make_consumer", lambda *_: side)
    monkeypatch.setattr(draining, "ASK_EVERY_S", 0)
    drain = DrainCheck(on.session, settings_of(on.session), IN)
    assert len(side.fails) == 2
    assert on.transformer._member is not None
    seen = []
    for _ in range(4):
        drain.look(on.transformer._member)
        seen.append(drain.over)
    assert seen == [False, False, False, True]
    drain.close()


def test_ends_that_move_are_not_believed(stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody feeds still; and a partition that does not answer is not through."""
    on = stage()
    on.step()
    side = FakeConsumer(ends={(IN, 0): 2, (IN, 1): 2})
    monkeypatch.setattr("workloads.clients.make_consumer", lambda *_: side)
    monkeypatch.setattr(draining, "ASK_EVERY_S", 0)
    drain = DrainCheck(on.session, settings_of(on.session), IN)
    member = on.transformer._member
    assert member is not None
    seen = []
    for ends in ({0: 1, 1: 2}, {0: 2}, {0: 2, 1: 2}, {0: 2, 1: 2}):
        side.ends = {(IN, partition): end for partition, end in ends.items()}
        drain.look(member)
        seen.append(drain.over)
    assert seen == [False, False, False, True]


def test_the_workers() -> None:
    """Transformers and readers are consumers with numbers of their own; all read what is committed."""
    workload, settings = ExactlyOnce(), ExactlyOnceSettings()
    (roles,) = workload.stages(settings, 3)
    assert roles == [
        Role(CONSUMER, 0, 3, finite=False, task=TRANSFORM),
        Role(CONSUMER, 1, 3, finite=False, task=TRANSFORM),
        Role(CONSUMER, 2, 3, finite=False, task=READ),
        Role(PRODUCER, 0, 1, finite=False, task=FEED),
    ]
    assert {workload.isolation(settings, role) for role in roles} == {"read_committed"}
    assert all(workload.idempotent(settings, role) for role in roles)
    assert workload.reads_raw(settings)
    assert [(topic.number, topic.name, topic.partitions) for topic in workload.topics(settings)] == [
        (0, "input", 6),
        (1, "output", 6),
    ]


def test_consumers_are_killed_and_paused_past_their_session() -> None:
    """Unless nobody wants that."""
    settings = ExactlyOnceSettings()
    churn = ExactlyOnce().churn(settings)
    assert churn == Churn(15, crash=True, pause_s=9)
    churn = ExactlyOnce().churn(ExactlyOnceSettings(session_timeout_ms=45_000))
    assert churn is not None
    assert churn.pause_s == 48
    assert ExactlyOnce().churn(ExactlyOnceSettings(pause=0)) == Churn(15, crash=True, pause_s=0)
    assert ExactlyOnce().churn(ExactlyOnceSettings(pause=7)) == Churn(15, crash=True, pause_s=7)
    assert ExactlyOnce().churn(ExactlyOnceSettings(churn_every=0)) is None


def test_the_drain_outlasts_a_session() -> None:
    """Partitions of a member that is gone are another's in time, whatever the protocol."""
    for protocol in ("classic", "consumer"):
        settings = ExactlyOnceSettings(group_protocol=protocol)
        assert settings.drain > 2 * settings.session_s


@pytest.mark.parametrize(
    "given",
    [
        {"abort": 1.5},
        {"transformers": 0},
        {"restart_every": "often"},
        {"acks": "1"},
        {"pause": "6s"},
        {"pause": 8, "session_timeout_ms": 10_000},
        {"client": "kafka-python", "group_protocol": "consumer"},
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    """At once."""
    with pytest.raises(UsageError, match="here"):
        parse(ExactlyOnceSettings, given, "here")


def test_chances_follow_from_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restarts when their time has come, aborts by their share, and every step has its turn."""
    clock = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    settings = ExactlyOnceSettings(abort=0.5, restart_every=20)
    drawn = [Chances(settings, 1).next() for _ in range(2)]
    assert drawn[0] == drawn[1]
    chances = Chances(settings, 1)
    ways = [chances.next() for _ in range(2000)]
    assert {step for _, step in ways} == set(TransactionStep)
    assert {way for way, _ in ways} == set(TransactionFate)
    aborts = sum(way is TransactionFate.ABORT for way, _ in ways)
    restarts = sum(way in RESTARTS for way, _ in ways)
    assert 800 < aborts < 1100
    assert 80 < restarts < 240
    never = Chances(ExactlyOnceSettings(abort=0, restart_every=0), 1)
    assert {never.next()[0] for _ in range(100)} == {TransactionFate.COMMIT}


def test_feeders_write_to_the_partitions_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each begins elsewhere."""
    at = session(
        tmp_path, "exactly-once", task=FEED, number=1, of=2, settings={"rate": 0, "partitions": 4, "producers": 2}
    )
    library = FakeProducer()
    sender = RecordingProducer(at, settings_of(at), library)
    monkeypatch.setattr(producing, "open_producer", lambda *_: sender)
    monkeypatch.setattr(sender, "make_room", lambda: at.control.stop() if len(library.sent) >= 30 else None)
    ExactlyOnce().work(at, settings_of(at))
    assert {topic for topic, _, _ in library.sent} == {IN}
    assert [partition for _, partition, _ in library.sent][::10] == [2, 3, 0]


def test_readers_share_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition has exactly one of them."""
    shares: list[set[TopicPartition]] = []
    for number in (1, 2):
        at = session(
            tmp_path / str(number), "exactly-once", role=CONSUMER, task=READ, number=number, of=3,
            settings={"transformers": 1, "consumers": 2, "partitions": 3},
        )  # fmt: skip
        consumer = FakeConsumer()
        consumer.when_empty = at.control.stop
        monkeypatch.setattr(
            consuming, "open_consumer", lambda *_, at=at, c=consumer: RecordingConsumer(at, settings_of(at), c)
        )
        ExactlyOnce().work(at, settings_of(at))
        assert consumer.closed
        shares.append(set(consumer.assigned))
    assert shares == [{(OUT, 0), (OUT, 2)}, {(OUT, 1)}]
