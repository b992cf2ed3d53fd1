"""Transactions: whatever belongs to one ends with it, and as it does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.foundation.error_codes import REFUSED_LOCALLY
from harness.history.schema import COLUMNS, F, Kind, Type
from tests.support.worker_sessions import FakeProducer, rows, session
from workloads.base import TransactingSettings
from workloads.clients.base import ClientError, DeliveredMessages, TopicPartition
from workloads.clients.transactional import TransactionalProducer
from workloads.session import WorkerSession
from workloads.transacting import Transaction, Transactor

TIMED_OUT, FENCED, NOT_LEADER, ILLEGAL_GENERATION, OLD_EPOCH = -185, 90, 6, 22, 47
TOPIC = "run-t"


class FakeTransactional(FakeProducer, TransactionalProducer):
    """Does as it is told, and remembers the calls."""

    def __init__(self, errors: Mapping[str, ClientError], **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[str] = []
        self._errors = dict(errors)

    def _call(self, name: str) -> ClientError | None:
        self.calls.append(name)
        return self._errors.get(name)

    def init(self, timeout_s: float) -> ClientError | None:
        """As told."""
        return self._call("init")

    def begin(self) -> ClientError | None:
        """As told."""
        return self._call("begin")

    def send_offsets(self, offsets: Mapping[TopicPartition, int], member: Any, timeout_s: float) -> ClientError | None:
        """As told."""
        return self._call("send_offsets")

    def commit(self, timeout_s: float) -> ClientError | None:
        """As told."""
        return self._call("commit")

    def abort(self, timeout_s: float) -> ClientError | None:
        """As told."""
        return self._call("abort")


class Stage:
    """A transactor whose instances are made as a script says, one after the other."""

    def __init__(self, directory: Path, *scripts: Mapping[str, ClientError], **options: Any) -> None:
        self.session: WorkerSession = session(directory)
        self.instances: list[FakeTransactional] = []
        self._scripts, self._options = list(scripts), options
        self.transactor = Transactor(self.session, TransactingSettings(), "id", self._open)
        self.transactor.timeout_s = 0.05

    def _open(self) -> FakeTransactional:
        self.instances.append(FakeTransactional(self._scripts.pop(0) if self._scripts else {}, **self._options))
        return self.instances[-1]

    def begin(self) -> Transaction:
        """One that has begun."""
        transaction = self.transactor.begin()
        assert transaction is not None
        return transaction

    def sent(self, count: int = 2) -> Transaction:
        """One that has sent something."""
        transaction = self.begin()
        transaction.send(0, TOPIC, np.arange(count))
        return transaction

    def ended(self, f: F) -> Any:
        """Completions of a kind."""
        completed = rows(self.session)[1][Kind.COMPLETE]
        return completed[completed["f"] == f]

    def types(self, f: F) -> list[int]:
        """How these ended."""
        return [int(type_) for type_ in self.ended(f)["type"]]


def offsets(transaction: Transaction) -> ClientError | None:
    """Two partitions' offsets of a group."""
    return transaction.offsets({TOPIC: 0}, {(TOPIC, 0): 5, (TOPIC, 1): 6}, object(), "group", 77)


def test_all_parts_of_a_committed_transaction_are_ok(tmp_path: Path) -> None:
    """They refer to it, and are completed no earlier than it is committed."""
    stage = Stage(tmp_path)
    transaction = stage.sent()
    offsets(transaction)
    transaction.drain(0)
    assert stage.types(F.SEND) == stage.types(F.COMMIT) == []
    assert transaction.commit() is Type.OK
    sends, commits, (whole,) = stage.ended(F.SEND), stage.ended(F.COMMIT), stage.ended(F.TXN)
    assert stage.types(F.SEND) == stage.types(F.COMMIT) == [Type.OK] * 2
    assert sends["offset"].tolist() == [0, 1]
    assert commits["offset"].tolist() == [5, 6]
    assert set(commits["member"].tolist()) == {77}
    assert (whole["type"], whole["op"], whole["count"]) == (Type.OK, transaction.id, 2)
    invoked = rows(stage.session)[1][Kind.INVOKE]
    for parts in (sends, commits, invoked[np.isin(invoked["f"], [F.SEND, F.COMMIT])]):
        assert set(parts["txn"].tolist()) == {transaction.id}
    assert stage.instances[0].calls == ["init", "begin", "send_offsets", "commit"]
    assert (stage.session.status.sent, stage.session.status.ok) == (2, 2)


def test_an_aborted_transaction_fails_with_all_its_parts(tmp_path: Path) -> None:
    """The offset that a delivery report gave is kept."""
    stage = Stage(tmp_path)
    transaction = stage.sent()
    offsets(transaction)
    assert transaction.abort() is Type.FAIL
    assert stage.types(F.TXN) == [Type.FAIL]
    assert stage.types(F.SEND) == stage.types(F.COMMIT) == [Type.FAIL] * 2
    assert stage.ended(F.SEND)["offset"].tolist() == [0, 1]
    assert stage.session.status.fail == 2
    assert stage.begin().commit() is Type.OK
    assert len(stage.instances) == 1


def test_an_error_of_commit_leaves_everything_open_to_doubt(tmp_path: Path) -> None:
    """Fencing as well: EndTxn may have left. The next transaction is another instance's."""
    for code in (TIMED_OUT, FENCED):
        stage = Stage(tmp_path / str(code), {"commit": ClientError(code, "no", fenced=code == FENCED)})
        transaction = stage.sent()
        offsets(transaction)
        assert transaction.commit() is Type.INFO
        assert stage.types(F.SEND) == stage.types(F.COMMIT) == [Type.INFO] * 2
        assert stage.ended(F.TXN)["error"].tolist() == [code]
        assert stage.instances[0].closed
        assert stage.transactor.fenced is (code == FENCED)
        assert stage.sent().commit() is Type.OK
        assert stage.types(F.INIT) == [Type.OK, Type.OK]
        assert len(stage.instances) == 2


def test_a_commit_that_the_library_refuses_did_not_happen(tmp_path: Path) -> None:
    """Nothing left the client."""
    stage = Stage(tmp_path, {"commit": ClientError(REFUSED_LOCALLY, "not in this state")})
    assert stage.sent().commit() is Type.FAIL
    assert stage.instances[0].closed


def test_what_was_not_delivered_is_aborted_instead(tmp_path: Path) -> None:
    """Each send keeps its own error."""
    stage = Stage(tmp_path, refuse=lambda index: ClientError(NOT_LEADER, "not here") if index == 1 else None)
    assert stage.sent().commit() is Type.FAIL
    assert stage.instances[0].calls == ["init", "begin", "abort"]
    sends = stage.ended(F.SEND)
    assert sends["type"].tolist() == [Type.FAIL] * 2
    assert sends["error"].tolist() == [0, NOT_LEADER]
    assert sends["offset"].tolist() == [0, COLUMNS["offset"].null]
    (whole,) = stage.ended(F.TXN)
    assert whole["error"] == 0
    assert rows(stage.session)[0].texts[int(whole["detail"])] == "aborted because of: not here"


def test_what_is_not_delivered_in_time_is_aborted_instead(tmp_path: Path) -> None:
    """A send that nobody said anything of has neither an offset nor an error."""
    stage = Stage(tmp_path, silent=True)
    assert stage.sent().commit() is Type.FAIL
    assert stage.instances[0].calls == ["init", "begin", "abort"]
    for column in ("offset", "error"):
        assert stage.ended(F.SEND)[column].tolist() == [COLUMNS[column].null] * 2
    assert stage.instances[0].closed  # what it says later must not be taken for another transaction's


def test_offsets_that_the_group_refuses_abort_the_transaction(tmp_path: Path) -> None:
    """They end as it does, with their own error."""
    stage = Stage(tmp_path, {"send_offsets": ClientError(ILLEGAL_GENERATION, "too late")})
    transaction = stage.sent()
    assert offsets(transaction) is not None
    assert transaction.broken
    assert transaction.commit() is Type.FAIL
    assert stage.ended(F.COMMIT)["error"].tolist() == [ILLEGAL_GENERATION] * 2
    assert "commit" not in stage.instances[0].calls


@pytest.mark.parametrize(("code", "fenced", "type_"), [(TIMED_OUT, False, Type.INFO), (FENCED, True, Type.FAIL)])
def test_an_abort_that_did_not_work(tmp_path: Path, code: int, fenced: bool, type_: Type) -> None:  # noqa: FBT001
    """Who is fenced can never commit; of all else nobody knows. The instance is over in any case."""
    stage = Stage(tmp_path, {"abort": ClientError(code, "no", fenced=fenced)})
    assert stage.sent().abort() is type_
    assert stage.types(F.SEND) == [type_] * 2
    assert (stage.transactor.fenced, stage.instances[0].closed) == (fenced, True)


def test_a_message_may_say_that_its_producer_was_fenced(tmp_path: Path) -> None:
    """Although the abort is refused for another reason: nobody can commit it any more."""
    errors = {"abort": ClientError(REFUSED_LOCALLY, "not in this state")}
    stage = Stage(tmp_path, errors, refuse=lambda _: ClientError(OLD_EPOCH, "an old epoch"))
    assert stage.sent().commit() is Type.FAIL
    assert stage.transactor.fenced
    assert stage.instances[0].closed


def test_a_transaction_that_is_abandoned_can_never_be_committed(tmp_path: Path) -> None:
    """Its instance is closed without a word to the coordinator."""
    stage = Stage(tmp_path)
    assert stage.sent().abandon() is Type.FAIL
    assert stage.instances[0].calls == ["init", "begin"]
    assert stage.instances[0].closed
    assert stage.types(F.SEND) == [Type.FAIL] * 2
    assert stage.sent().commit() is Type.OK
    assert len(stage.instances) == 2


def test_an_id_that_cannot_be_taken_is_tried_again_by_another_instance(tmp_path: Path) -> None:
    """There is no transaction meanwhile."""
    stage = Stage(tmp_path, {"init": ClientError(TIMED_OUT, "nothing answers")})
    stage.session.control.stop()  # nobody naps
    assert stage.transactor.begin() is None
    assert stage.types(F.INIT) == [Type.INFO]
    assert stage.types(F.TXN) == []
    assert stage.begin().commit() is Type.OK
    assert len(stage.instances) == 2


def test_a_transaction_that_could_not_begin_failed(tmp_path: Path) -> None:
    """Nothing of it was ever sent; the instance is over."""
    stage = Stage(tmp_path, {"begin": ClientError(FENCED, "no", fenced=True)})
    assert stage.transactor.begin() is None
    assert stage.types(F.TXN) == [Type.FAIL]
    assert stage.transactor.fenced
    assert stage.instances[0].closed


def test_sequences_go_on_from_instance_to_instance(tmp_path: Path) -> None:
    """Also to that of a rival: it is the same producer of the history."""
    stage = Stage(tmp_path, {"commit": ClientError(TIMED_OUT, "late")})
    stage.sent().commit()
    stage.sent().commit()
    rival = stage.transactor.rival()
    rival.init()
    transaction = rival.begin()
    assert transaction is not None
    transaction.send(0, TOPIC, np.arange(2))
    transaction.commit()
    stage.sent().commit()
    assert stage.ended(F.SEND)["sequence"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len(stage.instances) == 3


def test_what_comes_after_the_end_is_ignored(tmp_path: Path) -> None:
    """A report on a message of the transaction before says nothing about this one."""
    stage = Stage(tmp_path)
    stage.sent().commit()
    early = [payload for _, _, payload in stage.instances[0].sent]
    transaction = stage.sent(1)
    late = [stage.instances[0].sent[-1][2], *early]
    told = DeliveredMessages(late, [9, 7, 8], {2: ClientError(NOT_LEADER, "no")})
    stage.instances[0].delivered = lambda wait_s: told  # type: ignore[method-assign]
    assert transaction.commit() is Type.OK
    assert stage.ended(F.SEND)["offset"].tolist() == [0, 1, 9]


def test_an_invocation_is_in_the_file_before_the_call(tmp_path: Path) -> None:
    """So that a process killed in it leaves the operation behind."""
    stage = Stage(tmp_path)
    seen: list[tuple[str, int]] = []
    original = FakeTransactional._call

    class Watching(FakeTransactional):
        def _call(self, name: str) -> ClientError | None:
            seen.append((name, int(rows(stage.session)[1][Kind.INVOKE]["f"][-1])))
            return original(self, name)

    stage.transactor = Transactor(stage.session, TransactingSettings(), "id", lambda: Watching({}))
    transaction = stage.begin()
    offsets(transaction)
    transaction.commit()
    assert seen == [("init", F.INIT), ("begin", F.TXN), ("send_offsets", F.COMMIT), ("commit", F.COMMIT)]


def test_messages_say_what_they_were_made_from(tmp_path: Path) -> None:
    """In their invocations, their payloads and their completions."""
    stage = Stage(tmp_path)
    transaction = stage.begin()
    transaction.send(0, TOPIC, np.arange(2), np.array([41, 42]))
    transaction.commit()
    assert stage.ended(F.SEND)["source"].tolist() == [41, 42]
    assert rows(stage.session)[1][Kind.INVOKE]["source"][-2:].tolist() == [41, 42]


@pytest.mark.parametrize(("timeout_ms", "waits_s"), [(4000, 4), (600_000, 10)])
def test_a_call_is_never_waited_for_longer_than_whoever_has_to_end_can(
    tmp_path: Path, timeout_ms: int, waits_s: float
) -> None:
    """However long a transaction may stay open."""
    settings = TransactingSettings(transaction_timeout_ms=timeout_ms)
    assert Transactor(session(tmp_path), settings, "id").timeout_s == waits_s
