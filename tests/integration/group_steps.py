"""Members that die on their way into a group and out of it: a process per step, killed when it has come that far.

Run as a program with a line of JSON as its argument (`Walk`). It imports everything once and forks a member for each
step, which records as a worker does, in a group of its own, and kills itself at its step; and then an heir for each. An
heir comes when its forerunner is dead, or waits to be asked to let go, and takes over everything: it asks what was
committed, reads to the end and leaves.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.support.worker_sessions import session
from workloads.base import MemberSettings, NodeAddress
from workloads.clients.base import ClientError, TopicPartition
from workloads.membership import Member, open_member
from workloads.session import WorkerSession

STEPS = (
    "before-subscribe", "subscribed", "in-assign", "polled",
    "committing", "committed", "commit-recorded", "in-revoke", "in-leave", "left",
)  # fmt: skip
WITHOUT_COMMIT = STEPS[: STEPS.index("committed")]  # in the group; one of them has tried
PARTITIONS, RECORDS = 3, 20  # each partition has that many
HEIRS = 100  # processes of the history, from this number on
PATIENCE_S = 90.0


@dataclass(frozen=True)
class Walk:
    """What the members need to know."""

    directory: str
    client: str
    group_protocol: str
    addresses: tuple[str, ...]
    topic: str
    steps: tuple[str, ...] = STEPS

    def argument(self) -> str:
        """As the program takes it."""
        return json.dumps(asdict(self))

    @property
    def settings(self) -> MemberSettings:
        """Of every member."""
        return MemberSettings(client=self.client, group_protocol=self.group_protocol)  # type: ignore[arg-type]

    @property
    def places(self) -> list[TopicPartition]:
        """All that there is to read."""
        return [(self.topic, partition) for partition in range(PARTITIONS)]

    def segment(self, process: int) -> Path:
        """Where a process records."""
        return Path(self.directory) / f"{process}.segment"

    def session(self, process: int) -> WorkerSession:
        """Of a process of the history."""
        nodes = [NodeAddress(id=number, address=address) for number, address in enumerate(self.addresses, 1)]
        at = self.segment(process)
        return session(Path(self.directory), "groups", process=process, segment=at, nodes=nodes)

    def member(self, process: int, step: str) -> Member:
        """Not yet in its group."""
        return open_member(self.session(process), self.settings, f"{self.topic}-{step}")


class Doomed:
    """The member of one step."""

    def __init__(self, walk: Walk, step: str) -> None:
        self._walk, self._step = walk, step
        self._member = walk.member(STEPS.index(step), step)
        consumer = self._member.consumer
        commit, leave = consumer.commit, consumer.leave
        deadly: dict[str, tuple[Any, str, Callable[..., Any]]] = {
            "in-assign": (self._member, "on_assign", die),
            "committing": (consumer, "commit", die),
            "committed": (consumer, "commit", lambda offsets: commit(offsets) or die()),
            "left": (consumer, "leave", lambda: leave() or die()),
        }
        if step in deadly:
            setattr(*deadly[step])

    def walk(self, tell: int) -> None:
        """Up to its step, and no further; `tell` is written to when an heir is awaited."""
        self._reached("before-subscribe")
        self._member.join({self._walk.topic: 0})
        self._reached("subscribed")
        read(self._member, dict.fromkeys(self._walk.places, 0))
        self._reached("polled")
        self._member.commit(self._member.positions)
        self._reached("commit-recorded")
        self._member.on_revoke = die
        if self._step == "in-revoke":
            os.write(tell, b".")
            until_polled(self._member, lambda: False)
        self._member.on_revoke = die if self._step == "in-leave" else lambda _: None
        self._member.leave()

    def _reached(self, step: str) -> None:
        if step == self._step:
            die()


def die(_: object = None) -> NoReturn:
    """Without a word."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def until_polled(member: Member, done: Callable[[], bool]) -> None:
    """Poll again and again, but not for ever."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError
        member.poll()


def read(member: Member, begun: Mapping[TopicPartition, int]) -> None:
    """To the end of everything, from these offsets."""
    until_polled(member, lambda: {**begun, **member.positions} == dict.fromkeys(begun, RECORDS))


def inherit(walk: Walk, step: str) -> None:
    """Take over what a dead member had."""
    member = walk.member(HEIRS + STEPS.index(step), step)
    member.join({walk.topic: 0})
    until_polled(member, lambda: member.owned == set(walk.places))
    answer = member.committed(walk.places)
    assert not isinstance(answer, ClientError), answer
    read(member, {place: max(0, offset) for place, offset in answer.items()})
    member.leave()


def fork(run: Callable[[], None]) -> int:
    """A process that does this; its end is not to be mistaken for that of whoever died."""
    pid = os.fork()
    if not pid:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the statuses of workers
        run()
        os._exit(0)
    return pid


def ends(walk: Walk, step: str) -> tuple[int, int]:
    """How the member of a step ended, and its heir."""
    awaited, tell = os.pipe()
    doomed = fork(lambda: Doomed(walk, step).walk(tell))
    os.close(tell)
    os.read(awaited, 1)  # a word, or the end of the only one who could say it
    heir = fork(lambda: inherit(walk, step))
    return tuple(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in (doomed, heir))  # type: ignore[return-value]


def main() -> None:
    """All side by side; the answer says how each ended."""
    walk = Walk(**json.loads(sys.argv[1]))
    answer, found = os.pipe()
    pids = []
    for step in walk.steps:
        pid = os.fork()
        if not pid:
            os.write(found, json.dumps([step, *ends(walk, step)]).encode() + b"\n")
            os._exit(0)
        pids.append(pid)
    os.close(found)
    for pid in pids:
        os.waitpid(pid, 0)
    with os.fdopen(answer) as lines:
        sys.stdout.write(lines.read())


if __name__ == "__main__":
    main()
