"""kafka-python as a member of a group.

Its listeners run on its own thread, which must not be blocked, while the thread that polls waits for it. So a listener
of ours gets a thread for the time of the call: it may commit and ask as it likes, and the library goes on meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka import AsyncConsumerRebalanceListener, OffsetAndMetadata
from kafka import TopicPartition as LibraryPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import CommitFailedError, KafkaError
from kafka.future import Future

from harness.foundation.security import Security
from harness.history.schema import now
from workloads.clients.base import ClientError, PolledRecords, TopicPartition
from workloads.clients.kafka_python import (
    BOOTSTRAP_S,
    NAP_S,
    NOT_CONNECTED,
    _connection,
    _error,
    open_consumer,
    polled_of,
    seek_each,
)
from workloads.clients.member import COMMIT_S, GroupConsumer, GroupListener, Joining
from workloads.clients.settings import GroupSettings

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
LEAVE_S = 5.0


class KafkaPythonMember(GroupConsumer):
    """`KafkaConsumer`, subscribed; it is made by `join`, because to make one means to connect.

    Whatever the library raises is an answer: it has errors that are none of its own.
    """

    def __init__(
        self, settings: GroupSettings, servers: Sequence[str], security: Security, client_id: str, joining: Joining
    ) -> None:
        self._options = _connection(settings, servers, security, client_id) | {
            "group_id": joining.group,
            "auto_offset_reset": "earliest",
            "max_poll_records": settings.max_poll_records,
            "isolation_level": settings.isolation_level or "read_uncommitted",
            "client_rack": settings.client_rack or "",
            "session_timeout_ms": settings.session_timeout_ms,
            "heartbeat_interval_ms": settings.session_timeout_ms // 4,
            "enable_auto_commit": joining.automatic,
            "auto_commit_interval_ms": settings.auto_commit_interval_ms,
        }
        if settings.assignor is not None:
            self._options["partition_assignment_strategy"] = (ASSIGNORS[settings.assignor],)
        self._consumer: Any = None
        self._listener: GroupListener | None = None
        self._automatic: deque[tuple[dict[TopicPartition, int], ClientError | None, int]] = deque()

    def join(self, topics: Sequence[str], listener: GroupListener) -> ClientError | None:
        """Connect and subscribe."""
        self._listener = listener
        try:
            self._consumer = open_consumer(**self._options)
            if self._options["enable_auto_commit"]:
                self._watch_commits()
            self._consumer.subscribe(list(topics), listener=_Listener(listener, self._consumer._net))  # noqa: SLF001
            self._know_topics()
        except Exception as error:  # noqa: BLE001 - see above
            return _error(error)
        return None

    def poll(self, max_records: int, timeout_s: float) -> PolledRecords:
        """One poll of the library."""
        if self._consumer is None:
            time.sleep(timeout_s)
            return PolledRecords(errors=[NOT_CONNECTED])
        try:
            batches = self._consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=max_records)
        except Exception as error:  # noqa: BLE001 - see above
            time.sleep(NAP_S)  # an error that comes back at once must not make a busy loop
            self._tell_commits()
            return PolledRecords(errors=[_error(error)])
        self._tell_commits()
        return polled_of(batches)

    def seek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Nothing is asked of anybody."""
        return (
            dict.fromkeys(positions, NOT_CONNECTED) if self._consumer is None else seek_each(self._consumer, positions)
        )

    def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """One request for all; the library raises the first error that it finds in the answer."""
        if self._consumer is None:
            return dict.fromkeys(offsets, NOT_CONNECTED)
        wanted = {LibraryPartition(*tp): OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()}
        try:
            self._consumer.commit(wanted, timeout_ms=int(COMMIT_S * 1000))
        except Exception as error:  # noqa: BLE001 - see above
            return dict.fromkeys(offsets, _commit_error(error))
        return {}

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, int] | ClientError:
        """One OffsetFetch for all, sent now: `committed()` may answer with one that was sent before it was called."""
        if self._consumer is None:
            return NOT_CONNECTED
        wanted, timeout_ms = [LibraryPartition(*tp) for tp in partitions], int(timeout_s * 1000)
        try:
            coordinator = self._consumer._coordinator  # noqa: SLF001 - see above
            coordinator.ensure_coordinator_ready(timeout_ms=timeout_ms)
            asked = coordinator._manager.call_soon(coordinator._send_offset_fetch_request, wanted)  # noqa: SLF001
            found = coordinator._net.run(coordinator._manager.wait_for, asked, timeout_ms)  # noqa: SLF001
        except Exception as error:  # noqa: BLE001 - see above
            return _error(error)
        return {tp: found[each].offset if each in found else -1 for tp, each in zip(partitions, wanted, strict=True)}

    @property
    def member_id(self) -> str:
        """As the coordinator of the library has it."""
        return str(self.metadata().member_id or "") if self._consumer is not None else ""

    @property
    def generation(self) -> int | None:
        """The same."""
        generation = self.metadata().generation_id if self._consumer is not None else -1
        return int(generation) if generation >= 0 else None

    def metadata(self) -> Any:
        """`ConsumerGroupMetadata`."""
        return self._consumer.group_metadata()

    def leave(self) -> ClientError | None:
        """Close the library: a last commit if it commits by itself, then a word to the group."""
        if self._consumer is None:
            return None
        try:
            self._consumer.close(timeout_ms=int(LEAVE_S * 1000))
        except Exception as error:  # noqa: BLE001 - see above
            return _error(error)
        finally:
            self._tell_commits()
        return None

    def drop(self) -> None:
        """Cut the connections, and end the thread of the library."""
        if self._consumer is None:
            return
        self._consumer._closed = True  # noqa: SLF001 - there is no other way to go without a word
        self._consumer._coordinator._close_heartbeat()  # noqa: SLF001
        with suppress(KafkaError, RuntimeError):
            self._consumer._client.close()  # noqa: SLF001

    def _know_topics(self) -> None:
        """Wait for the metadata of the topics, which the library does not.

        A leader that gets them while it joins joins once more, and never notices that it has, if its poll happens to
        time out before the group has answered: it is out of the group then, and does not know.
        """
        manager = self._consumer._manager  # noqa: SLF001 - there is no other way to wait
        asked = manager.cluster.request_update()
        with suppress(KafkaError):
            manager.run(manager.wait_for, asked, int(BOOTSTRAP_S * 1000))

    def _watch_commits(self) -> None:
        """Note every commit request: the library says nothing of those before a rebalance and at the end."""
        coordinator = self._consumer._coordinator  # noqa: SLF001 - the callback that it offers is told of some alone
        send, note = coordinator._send_offset_commit_request, self._automatic.append  # noqa: SLF001

        async def watched(offsets: Mapping[LibraryPartition, OffsetAndMetadata]) -> None:
            began = now()
            partitions = {(tp.topic, tp.partition): committed.offset for tp, committed in offsets.items()}
            try:
                await send(offsets)
            except KafkaError as error:
                note((partitions, _commit_error(error), began))
                raise
            note((partitions, None, began))

        coordinator._send_offset_commit_request = watched  # noqa: SLF001

    def _tell_commits(self) -> None:
        while self._automatic and self._listener is not None:
            offsets, error, began = self._automatic.popleft()
            if offsets:
                self._listener.committed(offsets, error, began)


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Passes on what the group gives and takes, each time on a thread of its own."""

    def __init__(self, listener: GroupListener, net: Any) -> None:
        self._listener = listener
        self._net = net

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Tell."""
        await self._aside(self._listener.assigned, assigned)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Tell."""
        await self._aside(self._listener.revoked, revoked)

    async def on_partitions_lost(self, lost: Any) -> None:
        """Tell."""
        await self._aside(self._listener.lost, lost)

    async def _aside(self, tell: Callable[[Sequence[TopicPartition]], None], taken: Any) -> None:
        partitions = sorted((tp.topic, tp.partition) for tp in taken)
        if not partitions:
            return
        told = Future()

        def run() -> None:
            try:
                tell(partitions)
            except BaseException as error:  # noqa: BLE001 - it is raised where the library waits
                wrong: BaseException = error
                self._net.call_soon_threadsafe(lambda: told.failure(wrong))
            else:
                self._net.call_soon_threadsafe(lambda: told.success(None))

        threading.Thread(target=run, daemon=True, name="listener").start()
        await told


def _commit_error(error: BaseException) -> ClientError:
    """What the broker answered, which the library may have wrapped."""
    cause = error.args[0] if isinstance(error, CommitFailedError) and error.args else None
    return _error(cause) if isinstance(cause, KafkaError) else _error(error)
