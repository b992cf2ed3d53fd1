"""Clients that die in the middle of a transaction: a process per step, killed when it has come that far.

Run as a program with a line of JSON as its argument (`Walk`). It imports everything once and forks a client for each
step, which records as a worker does and kills itself at its step. Two steps are in the middle of a call whose request
the taps hold: their clients wait to be killed by whoever sees that. Files in `pids` say which process is which, and how
it ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from confluent_kafka import Consumer

from harness.history.schema import FIRST_WORKER
from harness.history.sources import segment_path
from tests.support.worker_sessions import session
from workloads.base import NodeAddress, TransactingSettings
from workloads.clients import make_transactional_producer
from workloads.clients.base import TopicPartition
from workloads.clients.java.machine import java_class
from workloads.clients.transactional import TransactionalProducer
from workloads.session import WorkerSession
from workloads.transacting import Transaction, Transactor

STEPS = (
    "before-init", "initialised", "begun", "sent", "delivered", "offsets-sent",
    "committing", "committed", "commit-recorded", "aborting", "aborted", "abort-recorded",
)  # fmt: skip
HELD = ("committing", "aborting")  # while the taps hold their EndTxn
MESSAGES = 3
POSITION = 7  # the offset that is committed with the transaction


@dataclass(frozen=True)
class Walk:
    """What the clients need to know."""

    run: str
    client: str
    addresses: tuple[str, ...]
    prefix: str

    def argument(self) -> str:
        """As the program takes it."""
        return json.dumps(asdict(self))

    @property
    def settings(self) -> TransactingSettings:
        """A partition per step; nothing times out before it is looked at."""
        return TransactingSettings(client=self.client, partitions=len(STEPS), transaction_timeout_ms=60_000)

    @property
    def topic(self) -> str:
        """All write to this one."""
        return self.settings.topic_spec(0, "walk").full_name(self.prefix)

    @property
    def pids(self) -> Path:
        """Which process is which."""
        return Path(self.run) / "pids"

    def place(self, step: str) -> TopicPartition:
        """The partition that a step writes to."""
        return self.topic, STEPS.index(step)

    def process(self, step: str) -> int:
        """Which process of the history dies at a step."""
        return FIRST_WORKER + STEPS.index(step)

    def name(self, step: str) -> str:
        """The transactional id of a step's client, and its group."""
        return f"{self.prefix}-{step}"

    def session(self, process: int) -> WorkerSession:
        """Of a process of the history."""
        nodes = [NodeAddress(id=number, address=address) for number, address in enumerate(self.addresses, 1)]
        at = segment_path(Path(self.run), process)
        return session(Path(self.run), "transactions", process=process, segment=at, nodes=nodes, prefix=self.prefix)

    def member(self, step: str) -> Any:
        """What the client library takes for somebody of a step's group, which has no members."""
        if self.client == "kafka-python":
            return self.name(step)
        if self.client == "java":
            return java_class("clients.consumer.ConsumerGroupMetadata")(self.name(step))
        consumer = Consumer({"bootstrap.servers": self.addresses[0], "group.id": self.name(step)})
        return consumer.consumer_group_metadata()


class Doomed:
    """The client of one step."""

    def __init__(self, walk: Walk, step: str) -> None:
        self._walk, self._step = walk, step
        self._session = walk.session(walk.process(step))
        self._session.recorder.topic(0, walk.topic)
        self._transactor = Transactor(self._session, walk.settings, walk.name(step), self._open)

    def _open(self) -> TransactionalProducer:
        """An instance that dies in or after a call, if that is its step."""
        at, name = self._session, self._walk.name(self._step)
        producer = make_transactional_producer(self._walk.settings, at.addresses, at.security, at.client_id, name)
        commit, abort = producer.commit, producer.abort
        deadly = {
            "before-init": ("init", lambda _: die()),
            "committed": ("commit", lambda timeout_s: commit(timeout_s) or die()),
            "aborted": ("abort", lambda timeout_s: abort(timeout_s) or die()),
        }
        if self._step in deadly:
            setattr(producer, *deadly[self._step])
        return producer

    def walk(self) -> None:
        """Up to its step, and no further."""
        self._transactor.init()
        self._reached("initialised")
        transaction = self._transactor.begin()
        if transaction is None:
            raise RuntimeError("no transaction could be begun")
        self._reached("begun")
        topic, partition = self._walk.place(self._step)
        transaction.send(0, topic, np.full(MESSAGES, partition))
        self._reached("sent")
        transaction.deliver()
        self._reached("delivered")
        self._send_offsets(transaction)
        self._reached("offsets-sent")
        if self._step in {"aborting", "aborted", "abort-recorded"}:
            transaction.abort()
            self._reached("abort-recorded")
        else:
            transaction.commit()
            self._reached("commit-recorded")

    def _send_offsets(self, transaction: Transaction) -> None:
        place, member = self._walk.place(self._step), self._walk.member(self._step)
        transaction.offsets({place[0]: 0}, {place: POSITION}, member, self._walk.name(self._step), 0)

    def _reached(self, step: str) -> None:
        if step == self._step:
            die()


def die() -> NoReturn:
    """Without a word."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def main() -> None:
    """All side by side."""
    walk = Walk(**json.loads(sys.argv[1]))
    walk.pids.mkdir()
    steps = {}
    for step in STEPS:
        pid = os.fork()
        if not pid:
            Doomed(walk, step).walk()
            os._exit(1)  # it should have died
        (walk.pids / step).write_text(str(pid))
        steps[pid] = step
    while steps:
        pid, status = os.wait()
        (walk.pids / f"{steps.pop(pid)}.end").write_text(str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main()
