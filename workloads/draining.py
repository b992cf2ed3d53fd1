"""Whether all of the input is through when the load ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from workloads.clients.base import ClientError, TopicPartition
from workloads.exactly_once_settings import ExactlyOnceSettings

if TYPE_CHECKING:
    from workloads.membership import Member
    from workloads.session import WorkerSession


ASK_EVERY_S = 1.0
ASK_S = 5.0


class DrainCheck:
    """Whether all that was fed is through: the group has committed the ends of the input, and they do not move."""

    def __init__(self, session: WorkerSession, settings: ExactlyOnceSettings, topic: str) -> None:
        from workloads.clients import make_consumer

        self.partitions = [(topic, partition) for partition in range(settings.partitions)]
        self._through = False
        self._ends: dict[TopicPartition, int] = {}
        self._next_at = time.monotonic()
        self._give_up_at = self._next_at + settings.drain
        servers = settings.servers(session.addresses)
        self._consumer = make_consumer(settings, servers, session.security, session.client_id)
        self._connected = False

    @property
    def over(self) -> bool:
        """Whether to wait no longer."""
        return self._through or time.monotonic() >= self._give_up_at

    def look(self, member: Member) -> None:
        """Ask, once in a while."""
        if (now_s := time.monotonic()) < self._next_at:
            return
        self._next_at = now_s + ASK_EVERY_S
        self._connected = self._connected or self._consumer.assign({}) is None
        if not self._connected:
            return
        before, self._ends = self._ends, self._consumer.end_offsets(self.partitions, ASK_S)
        answer = member.committed(self.partitions, ASK_S)
        self._through = not isinstance(answer, ClientError) and positions_of(answer) == self._ends == before

    def close(self) -> None:
        """Let go of the library."""
        self._consumer.close()


def positions_of(answer: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Where a member begins; at the start of the log where nothing was committed."""
    return {tp: max(0, offset) for tp, offset in answer.items()}
