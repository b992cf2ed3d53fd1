"""The workload of transactions: what it draws, and what a worker does with it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.history.schema import COLUMNS, F, Kind, Type
from tests.support.worker_sessions import FakeConsumer, FakeProducer, message, polled, rows, session, settings_of
from tests.unit.workloads.test_transacting import FakeTransactional
from workloads import producing
from workloads.base import CONSUMER, PRODUCER, Role
from workloads.clients.base import ClientError, PolledRecords
from workloads.consuming import RecordingConsumer
from workloads.producing import RecordingProducer
from workloads.transacting import Transactor
from workloads.transactions import (
    PLAIN,
    TransactionPlan,
    Transactions,
    TransactionsSettings,
    TransactionWorker,
    draw,
    window,
)

SECOND = 1_000_000_000
TOPIC = "run-transactions"


def drawn(count: int = 400, *, fence: bool = False, **settings: object) -> list[TransactionPlan]:
    """That many plans."""
    chance, model = random.Random(7), TransactionsSettings(**settings)  # type: ignore[arg-type]
    return [draw(chance, model, fence=fence) for _ in range(count)]


def test_aborts_come_at_every_step() -> None:
    """Right after the beginning, after each operation, and when all is delivered."""
    plans = drawn(abort=1, max_txn_length=3)
    for length in (1, 2, 3):
        assert {plan.abort_at for plan in plans if len(plan.polls) == length} == set(range(length + 2))


def test_only_a_share_is_aborted() -> None:
    """As the settings say."""
    assert {plan.abort_at for plan in drawn(abort=0)} == {None}
    aborted = [plan for plan in drawn() if plan.abort_at is not None]
    assert 40 <= len(aborted) <= 120


def test_a_transaction_that_is_fenced_has_something_to_be_refused() -> None:
    """It sends, and is not aborted; the second instance comes at every step."""
    plans = drawn(fence=True, abort=1, polls=1, max_txn_length=2)
    assert all(plan.polls[0] is False and plan.abort_at is None for plan in plans)
    assert {plan.fence_at for plan in plans} == {0, 1, 2}


def test_the_same_seed_draws_the_same() -> None:
    """So that a run can be repeated."""
    assert drawn() == drawn()


def test_the_window_of_partitions_moves_on() -> None:
    """One partition at a time, and round."""
    settings = TransactionsSettings(partitions=4, key_count=2, rotate=3)
    assert window(settings, 10, 10) == [0, 1]
    assert window(settings, 4 * SECOND, 0) == [1, 2]
    assert window(settings, 9 * SECOND, 0) == [3, 0]
    assert window(TransactionsSettings(partitions=2, key_count=9), 0, 0) == [0, 1]


def test_who_reads_what() -> None:
    """Producers what is committed, consumers by turns; unless told otherwise."""
    workload, settings = Transactions(), TransactionsSettings()
    roles = [Role(PRODUCER, 1), Role(CONSUMER, 0), Role(CONSUMER, 1)]
    usual = [workload.isolation(settings, role) for role in roles]
    assert usual == ["read_committed", "read_committed", "read_uncommitted"]
    told = TransactionsSettings(isolation_level="read_uncommitted")
    assert {workload.isolation(told, role) for role in roles} == {"read_uncommitted"}
    assert workload.reads_raw(settings)
    assert workload.idempotent(settings, roles[0])


def test_plain_producers_are_numbered_after_the_others() -> None:
    """There are none unless told."""
    (roles,) = Transactions().stages(TransactionsSettings(producers=1, consumers=1), 0)
    assert roles == [Role(CONSUMER, 0, 1, finite=False), Role(PRODUCER, 0, 1, finite=False)]
    (roles,) = Transactions().stages(TransactionsSettings(producers=1, plain_producers=2, consumers=0), 0)
    assert [(role.number, role.of, role.task) for role in roles] == [(0, 3, ""), (1, 3, PLAIN), (2, 3, PLAIN)]


def test_plain_producers_send_to_all_partitions_in_no_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what they sent is acknowledged by itself."""
    at = session(
        tmp_path, "transactions", task=PLAIN, number=1, of=2,
        settings={"plain_producers": 1, "plain_rate": 0, "partitions": 4},
    )  # fmt: skip
    library = FakeProducer()
    sender = RecordingProducer(at, settings_of(at), library)
    monkeypatch.setattr(producing, "open_producer", lambda *_: sender)
    monkeypatch.setattr(sender, "make_room", lambda: at.control.stop() if len(library.sent) >= 40 else None)
    Transactions().work(at, settings_of(at))
    assert {(topic, partition) for topic, partition, _ in library.sent} == {(TOPIC, number) for number in range(4)}
    for kind in (Kind.INVOKE, Kind.COMPLETE):
        events = rows(at)[1][kind]
        assert len(events) == len(library.sent)
        assert set(events["txn"].tolist()) == {COLUMNS["txn"].null}
    assert set(rows(at)[1][Kind.COMPLETE]["type"].tolist()) == {Type.OK}


@pytest.mark.parametrize(
    "settings", [{"idempotence": False}, {"acks": "1"}, {"delivery_timeout_ms": 20_000}, {"max_in_flight": 6}]
)
def test_what_cannot_be_is_refused(settings: dict[str, object]) -> None:
    """Before anything starts."""
    with pytest.raises(ValidationError):
        TransactionsSettings(**settings)  # type: ignore[arg-type]


class Stage:
    """A worker over libraries that do as they are told."""

    def __init__(
        self, directory: Path, *polls: PolledRecords, errors: dict[str, ClientError] | None = None, **own: object
    ) -> None:
        settings = {"delay": 0, "abort": 0, "fence_every": 0, "max_txn_length": 1, **own}
        self.session = session(directory, "transactions", settings=settings)
        self.consumer = FakeConsumer(polls)
        self.instances: list[FakeTransactional] = []
        self._errors = errors or {}
        model = settings_of(self.session)
        transactor = Transactor(self.session, model, "id", self._open)
        self.worker = TransactionWorker(
            self.session, model, transactor, RecordingConsumer(self.session, model, self.consumer)
        )
        self.worker.follow()

    def _open(self) -> FakeTransactional:
        self.instances.append(FakeTransactional(self._errors))
        return self.instances[-1]

    def ended(self, f: F) -> list[tuple[int, int, int, int]]:
        """Type, partition, offset and transaction of completions."""
        completed = rows(self.session)[1][Kind.COMPLETE]
        columns = ("type", "partition", "offset", "txn")
        return [tuple(int(row[name]) for name in columns) for row in completed[completed["f"] == f]]  # type: ignore[misc]


def records(*at: tuple[int, int]) -> PolledRecords:
    """A poll's answer: partition and offset of each record."""
    return polled(*((partition, offset, message(partition, offset)) for partition, offset in at), topic=TOPIC)


def test_what_was_polled_in_vain_is_polled_again(tmp_path: Path) -> None:
    """The consumer goes back to where the aborted transaction began, in the partitions that it polled."""
    stage = Stage(tmp_path, records((1, 4), (2, 8), (1, 5)), polls=1, abort=1)
    while not stage.ended(F.POLL):  # some are aborted before they poll
        assert stage.worker.transact() is Type.FAIL
    ((type_, _, _, txn),) = stage.ended(F.POLL)
    assert type_ == Type.OK
    assert txn == rows(stage.session)[1][Kind.RECORD]["txn"][0] != COLUMNS["txn"].null
    assert stage.ended(F.ASSIGN)[-2:] == [
        (Type.OK, 1, 4, COLUMNS["txn"].null),
        (Type.OK, 2, 8, COLUMNS["txn"].null),
    ] or stage.ended(F.ASSIGN)[-2:] == [(Type.OK, 2, 8, COLUMNS["txn"].null), (Type.OK, 1, 4, COLUMNS["txn"].null)]
    assert (stage.consumer.positions[TOPIC, 1], stage.consumer.positions[TOPIC, 2]) == (4, 8)


def test_what_was_polled_in_a_committed_transaction_stays_read(tmp_path: Path) -> None:
    """And its poll is one of its operations."""
    stage = Stage(tmp_path, records((1, 4)), polls=1)
    before = len(stage.ended(F.ASSIGN))
    assert stage.worker.transact() is Type.OK
    assert len(stage.ended(F.ASSIGN)) == before
    assert stage.consumer.positions[TOPIC, 1] == 5
    completed = rows(stage.session)[1][Kind.COMPLETE]
    assert completed[completed["f"] == F.TXN]["count"].tolist() == [1]


def test_nobody_knows_is_polled_again_as_well(tmp_path: Path) -> None:
    """As if it had been aborted."""
    stage = Stage(tmp_path, records((1, 4)), polls=1, errors={"commit": ClientError(-185, "late")})
    assert stage.worker.transact() is Type.INFO
    assert stage.consumer.positions[TOPIC, 1] == 4


def test_a_second_instance_comes_in_the_middle_and_goes_on(tmp_path: Path) -> None:
    """The first one brings its transaction to whatever end, and is closed."""
    stage = Stage(tmp_path, polls=0, fence_every=0.000001)
    stage.worker.transact()
    first, second = stage.instances
    assert first.calls == ["init", "begin", "commit"]
    assert first.closed
    assert second.calls == ["init"]
    assert not second.closed
    stage.worker.transact()
    assert second.calls[:2] == ["init", "begin"]


def test_sends_go_to_partitions_in_use(tmp_path: Path) -> None:
    """Up to as many messages as the settings say."""
    stage = Stage(tmp_path, polls=0, max_txn_length=4, partitions=9, key_count=1, rotate=3600 * 24 * 7, messages=5)
    for _ in range(20):
        assert stage.worker.transact() is Type.OK
    sent = rows(stage.session)[1][Kind.INVOKE]
    sent = sent[sent["f"] == F.SEND]
    assert len(set(sent["partition"].tolist())) == 1
    assert len(stage.instances) == 1
