"""confluent-kafka (librdkafka) as a member of a group: the classic protocol and KIP-848."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as LibraryPartition

from harness.foundation.error_codes import code_of
from harness.foundation.security import Security
from workloads.clients.base import ClientError, PolledRecords, TopicPartition
from workloads.clients.confluent import FULL_QUEUE_BACKOFF_MS, LOG, _connection, _error, _given
from workloads.clients.member import COMMIT_S, GroupConsumer, GroupListener, Joining
from workloads.clients.settings import GroupSettings

NO_OFFSET = KafkaError._NO_OFFSET  # noqa: SLF001 - its public name
WRONG_STATE = KafkaError._STATE  # noqa: SLF001 - its public name
TIMED_OUT = KafkaError._TIMED_OUT  # noqa: SLF001 - its public name
NOT_YET_S = 0.05
SEEK_S = 3.0


class ConfluentMember(GroupConsumer):
    """`confluent_kafka.Consumer`, subscribed."""

    def __init__(
        self, settings: GroupSettings, servers: Sequence[str], security: Security, client_id: str, joining: Joining
    ) -> None:
        options = _connection(settings, servers, security, client_id) | {
            "group.id": joining.group,
            "group.protocol": settings.group_protocol,
            "enable.auto.commit": joining.automatic,
            "auto.commit.interval.ms": settings.auto_commit_interval_ms,
            "auto.offset.reset": "earliest",
            "isolation.level": settings.isolation_level,
            "client.rack": settings.client_rack,
            "fetch.queue.backoff.ms": FULL_QUEUE_BACKOFF_MS,
            "socket.timeout.ms": int(COMMIT_S * 1000),  # with the library's own minute a commit takes as long
        }
        if settings.group_protocol == "consumer":
            options["group.remote.assignor"] = settings.assignor
        else:
            options["session.timeout.ms"] = settings.session_timeout_ms
            options["heartbeat.interval.ms"] = settings.session_timeout_ms // 4
            options["partition.assignment.strategy"] = settings.assignor
        if joining.automatic:
            options["on_commit"] = self._on_commit
        self._consumer: Any = confluent_kafka.Consumer(_given(options), logger=LOG)
        self._listener: GroupListener | None = None
        self._given_up: list[threading.Thread] = []  # commits that nobody waits for any more
        self._within = False  # a callback of the library

    def join(self, topics: Sequence[str], listener: GroupListener) -> ClientError | None:
        """Subscribe; the library assigns by itself what the listener was told of."""
        self._listener = listener
        try:
            self._consumer.subscribe(
                list(topics),
                on_assign=lambda _, given: self._tell(listener.assigned, given),
                on_revoke=lambda _, taken: self._tell(listener.revoked, taken),
                on_lost=lambda _, taken: self._tell(listener.lost, taken),
            )
        except KafkaException as error:
            return _error(error.args[0])
        return None

    def poll(self, max_records: int, timeout_s: float) -> PolledRecords:
        """As many messages as are there within the time."""
        try:
            messages = self._consumer.consume(max_records, timeout_s)
        except KafkaException as error:
            time.sleep(NOT_YET_S)  # an error that comes back at once must not make a busy loop
            return PolledRecords(errors=[_error(error.args[0])])
        errors = [_error(message.error()) for message in messages if message.error()]
        messages = [message for message in messages if not message.error()] if errors else messages
        return PolledRecords(
            [message.topic() for message in messages],
            [message.partition() for message in messages],
            [message.offset() for message in messages],
            [message.value() for message in messages],
            errors,
        )

    def seek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """One call of the library per partition; one that was given just now is waited for."""
        give_up_at = time.monotonic() + SEEK_S
        errors = {tp: self._seek(tp, offset, give_up_at) for tp, offset in positions.items()}
        return {tp: error for tp, error in errors.items() if error}

    def _seek(self, tp: TopicPartition, offset: int, give_up_at: float) -> ClientError | None:
        while True:
            try:
                self._consumer.seek(LibraryPartition(*tp, offset))
            except KafkaException as error:
                if error.args[0].code() != WRONG_STATE or time.monotonic() > give_up_at:
                    return _error(error.args[0])
                time.sleep(NOT_YET_S)
            else:
                return None

    def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """One request for all; the library says for each partition what became of it.

        Its call waits for a coordinator as long as a session lasts, which with KIP-848 cannot be set. So it is made
        aside; but not within a callback, where the library answers no other thread: there it is made at once, unless
        one before is still without an answer and this would wait as long.
        """
        if self._within and self._waits():
            return dict.fromkeys(offsets, ClientError(TIMED_OUT, "a commit before is still without an answer"))
        if self._within:
            return _commit(self._consumer, offsets)
        answered: SimpleQueue[dict[TopicPartition, ClientError]] = SimpleQueue()
        consumer, wanted = self._consumer, dict(offsets)
        aside = threading.Thread(target=lambda: answered.put(_commit(consumer, wanted)), daemon=True, name="commit")
        aside.start()
        try:
            return answered.get(timeout=COMMIT_S)
        except Empty:
            self._given_up.append(aside)
            return dict.fromkeys(offsets, ClientError(TIMED_OUT, f"no answer to the commit within {COMMIT_S:.0f} s"))

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, int] | ClientError:
        """OffsetFetch, in one call for all."""
        try:
            answers = self._consumer.committed([LibraryPartition(*tp) for tp in partitions], timeout=timeout_s)
        except KafkaException as error:
            return _error(error.args[0])
        wrong = next((each.error for each in answers if each.error), None)
        if wrong is not None:
            return _error(wrong)
        return {(each.topic, each.partition): max(each.offset, -1) for each in answers}

    @property
    def member_id(self) -> str:
        """As the library says."""
        return str(self._consumer.memberid() or "") if self._consumer is not None else ""

    @property
    def generation(self) -> int | None:
        """The library does not tell; taps see it."""
        return None

    def metadata(self) -> Any:
        """`ConsumerGroupMetadata`."""
        return self._consumer.consumer_group_metadata()

    def leave(self) -> ClientError | None:
        """Close the library, which lets go of everything first.

        It must not be closed in the middle of a call: with a commit still under way it is let go of instead.
        """
        give_up_at = time.monotonic() + COMMIT_S
        for commit in self._given_up:
            commit.join(max(0.0, give_up_at - time.monotonic()))
        try:
            if self._waits():
                return ClientError(TIMED_OUT, "a commit is still under way")
            self._consumer.close()
        except KafkaException as error:
            return _error(error.args[0])
        finally:
            self._consumer = None
        return None

    def drop(self) -> None:
        """Let the library be destroyed without having been closed."""
        self._consumer = None

    def _waits(self) -> bool:
        """Whether a commit is under way that nobody waits for."""
        return any(commit.is_alive() for commit in self._given_up)

    def _tell(self, tell: Callable[[Sequence[TopicPartition]], None], given: Sequence[LibraryPartition]) -> None:
        self._within = True
        try:
            tell([(each.topic, each.partition) for each in given])
        finally:
            self._within = False

    def _on_commit(self, error: KafkaError | None, offsets: Sequence[LibraryPartition]) -> None:
        """Pass on what the library committed by itself; to have had nothing to commit is not an error."""
        by_error: dict[ClientError | None, dict[TopicPartition, int]] = {}
        for each in offsets:
            wrong = each.error or error
            if each.offset >= 0 and (wrong is None or wrong.code() != NO_OFFSET):
                of_error = by_error.setdefault(_error(wrong) if wrong else None, {})
                of_error[each.topic, each.partition] = each.offset
        for failed, of_error in by_error.items():
            if self._listener is not None:
                self._listener.committed(of_error, failed, None)


def _commit(consumer: Any, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
    """Commit these: those that were not committed."""
    wanted = [LibraryPartition(*tp, offset) for tp, offset in offsets.items()]
    try:
        answers = consumer.commit(offsets=wanted, asynchronous=False)
    except KafkaException as error:
        return dict.fromkeys(offsets, _error(error.args[0]))
    except RuntimeError as error:  # closed
        return dict.fromkeys(offsets, ClientError(code_of(error), str(error)))
    return {(each.topic, each.partition): _error(each.error) for each in answers if each.error}
