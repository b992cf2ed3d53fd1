"""Both stacks as transactional producers, without anybody to talk to: errors are answers, and every call ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from kafka.errors import CommitFailedError, ProducerFencedError

from harness.foundation.error_codes import REFUSED_LOCALLY, UNNUMBERED
from harness.foundation.security import Security
from harness.history.outcomes import is_classified, outcome
from harness.history.schema import F, Type
from tests.support import eventually
from tests.support.worker_sessions import NOBODY, silent_broker
from workloads.base import TransactingSettings
from workloads.clients import confluent_transactional, make_transactional_producer
from workloads.clients.base import ClientError
from workloads.clients.kafka_python_transactional import KafkaPythonTransactionalProducer
from workloads.clients.transactional import TransactionalProducer

SOON_S = 0.2
CLIENTS = ("confluent-kafka", "kafka-python")


def settings_of(client: str) -> TransactingSettings:
    """Settings that name a client alone."""
    return TransactingSettings.model_validate({"client": client})


@pytest.fixture
def silent() -> Iterator[str]:
    """A broker that takes connections and says nothing."""
    with silent_broker() as address:
        yield address


@pytest.fixture(params=CLIENTS)
def producer(request: pytest.FixtureRequest, silent: str) -> Iterator[TransactionalProducer]:
    """An instance of an id that it cannot take."""
    made = make_transactional_producer(settings_of(request.param), [silent], Security(), "test", "id")
    yield made
    made.close(SOON_S)


def test_an_id_that_nobody_gives_is_waited_for_no_longer_than_asked(producer: TransactionalProducer) -> None:
    """An error that the table knows: nobody knows whether it was given."""
    error = producer.init(SOON_S)
    assert error is not None
    assert is_classified(F.INIT, error.code)
    assert outcome(F.INIT, error.code) is Type.INFO
    assert not error.fenced


def test_confluent_kafka_refuses_what_makes_no_sense_in_its_state() -> None:
    """With errors that say that nothing was sent."""
    settings = TransactingSettings()
    producer = make_transactional_producer(settings, [NOBODY], Security(), "test", "id")
    refused = [producer.begin(), producer.commit(SOON_S), producer.abort(SOON_S)]
    assert all(error is not None and outcome(F.TXN, error.code) is Type.FAIL for error in refused)
    producer.close(SOON_S)


class Manager:
    """A transaction manager of kafka-python's in some state; its requests get an answer, or none."""

    last_error = None

    def __init__(self, answer: Any = None) -> None:
        self._answer = answer

    def begin_commit(self) -> Any:
        """Something that is waited for."""
        return self

    def send_offsets_to_transaction(self, _offsets: Any, _member: Any) -> Any:
        """Something that is waited for."""
        return self

    def wait(self, timeout_ms: float) -> bool:
        """For the answer."""
        assert timeout_ms == SOON_S * 1000
        if isinstance(self._answer, Exception):
            raise self._answer
        return bool(self._answer)


def kafka_python(manager: Any) -> KafkaPythonTransactionalProducer:
    """A producer with this transaction manager, and a sender thread that has nothing to do."""
    made = KafkaPythonTransactionalProducer(
        TransactingSettings(client="kafka-python"), [NOBODY], Security(), "test", "id"
    )
    made._manager, made._sender = manager, type("Sender", (), {"wakeup": lambda _: None})()
    return made


def test_kafka_python_is_waited_for_no_longer_than_asked() -> None:
    """Its own commit would wait without end."""
    assert kafka_python(Manager(answer=True)).commit(SOON_S) is None
    late = kafka_python(Manager(answer=False)).commit(SOON_S)
    assert late is not None
    assert outcome(F.TXN, late.code) is Type.INFO
    assert is_classified(F.TXN, late.code)


def test_what_kafka_python_says_of_fencing() -> None:
    """And what is none."""
    fenced = kafka_python(Manager(ProducerFencedError())).commit(SOON_S)
    assert fenced is not None
    assert fenced.fenced
    stale = kafka_python(Manager(CommitFailedError("stale"))).send_offsets({}, "group", SOON_S)
    assert stale is not None
    assert not stale.fenced
    assert is_classified(F.COMMIT, stale.code)


def test_what_is_no_error_of_kafka_pythons_own_is_an_answer_as_well() -> None:
    """Nobody knows what happened."""

    def fail(*_: Any) -> None:
        raise TypeError("something else")

    manager = type("Manager", (), {"last_error": None, "begin_commit": fail, "send_offsets_to_transaction": fail})
    producer = kafka_python(manager())
    for wrong in (producer.commit(SOON_S), producer.send_offsets({}, "group", SOON_S)):
        assert wrong is not None
        assert (wrong.code, wrong.text) == (UNNUMBERED, "something else")
        assert outcome(F.TXN, wrong.code) is Type.INFO


def test_what_kafka_python_refuses_was_never_sent() -> None:
    """Whatever the reason, which is told."""
    from kafka.producer.transaction_manager import TransactionManager

    manager = TransactionManager(transactional_id="id")
    manager.transition_to_fatal_error(ProducerFencedError())
    producer = kafka_python(manager)
    for refused in (producer.begin(), producer.commit(SOON_S), producer.abort(SOON_S)):
        assert refused is not None
        assert (refused.code, refused.fenced) == (REFUSED_LOCALLY, True)


def test_no_thread_outlives_its_instance(silent: str) -> None:
    """Instances come and go by the dozen in a run."""
    before = psutil.Process().num_threads()
    for client in CLIENTS:
        made = make_transactional_producer(settings_of(client), [silent], Security(), "test", "id")
        made.init(SOON_S)
        made.close(SOON_S)
    eventually(lambda: psutil.Process().num_threads() <= before, "their threads are gone")


def test_a_call_of_confluent_kafka_that_does_not_come_back_is_given_up(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever time-out it was given: seen when the coordinator of a group was cut off. Nothing is asked after it."""
    monkeypatch.setattr(confluent_transactional, "BEYOND_S", 0.1)
    settings = settings_of("confluent-kafka")
    producer = confluent_transactional.ConfluentTransactionalProducer(settings, [silent], Security(), "me", "id")
    over = threading.Event()
    assert producer._aside(0.1, over.wait, 60) == ClientError(
        confluent_transactional.TIMED_OUT, "the library did not come back within 0 s"
    )
    error = producer.abort(0.1)
    assert error is not None
    assert error.code == confluent_transactional.TIMED_OUT
    assert outcome(F.TXN, error.code) is Type.INFO
    producer.close(0.1)
    over.set()
