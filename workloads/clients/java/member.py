"""`KafkaConsumer` as a member of a group, with the classic protocol and that of KIP-848."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import jpype

from harness.foundation.security import Security
from workloads.clients.base import ClientError, PolledRecords, TopicPartition
from workloads.clients.java.consumer import (
    NAP_S,
    NOT_SET_UP,
    close,
    offsets_of,
    partitions_of,
    polled_of,
    rebalance_listener,
    seek_each,
)
from workloads.clients.java.failures import failure
from workloads.clients.java.machine import java_class, options, partition_of, seconds
from workloads.clients.java.settings import member_options
from workloads.clients.member import COMMIT_S, GroupConsumer, GroupListener, Joining
from workloads.clients.settings import GroupSettings

LEAVE_S = 5.0


class JavaMember(GroupConsumer):
    """Subscribed by `join`."""

    def __init__(
        self, settings: GroupSettings, servers: Sequence[str], security: Security, client_id: str, joining: Joining
    ) -> None:
        self._options = member_options(settings, servers, security, client_id) | {
            "group.id": joining.group,
            "enable.auto.commit": joining.automatic,
        }
        self._consumer: Any = None
        self._listener: GroupListener | None = None
        self._in_java: list[Any] = []  # what Java calls has to be kept here
        self._automatic: deque[dict[TopicPartition, int]] = deque()
        self._last: Any = None  # what the library said of itself before it was closed, after which it says nothing

    def join(self, topics: Sequence[str], listener: GroupListener) -> ClientError | None:
        """Connect and subscribe."""
        self._listener = listener
        passing_on = rebalance_listener(listener.assigned, listener.revoked, listener.lost)
        self._in_java.append(passing_on)
        try:
            self._consumer = java_class("clients.consumer.KafkaConsumer")(options(self._options))
            if self._options["enable.auto.commit"]:
                self._in_java.append(watch_commits(self._consumer, self._automatic))
            self._consumer.subscribe(java_class("java.util.ArrayList")(list(topics)), passing_on)
        except jpype.JException as error:
            return failure(error)
        return None

    def poll(self, max_records: int, timeout_s: float) -> PolledRecords:  # noqa: ARG002 - `max.poll.records` says so
        """One poll of the library."""
        if self._consumer is None:
            time.sleep(timeout_s)
            return PolledRecords(errors=[NOT_SET_UP])
        try:
            return polled_of(self._consumer.poll(seconds(timeout_s)))
        except jpype.JException as error:
            time.sleep(NAP_S)  # an error that comes back at once must not make a busy loop
            return PolledRecords(errors=[failure(error)])
        finally:
            self._tell_commits()

    def seek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Asks nobody."""
        return dict.fromkeys(positions, NOT_SET_UP) if self._consumer is None else seek_each(self._consumer, positions)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """One request for all; the library throws the first error in the answer."""
        if self._consumer is None:
            return dict.fromkeys(offsets, NOT_SET_UP)
        try:
            self._consumer.commitSync(offsets_of(offsets), seconds(COMMIT_S))
        except jpype.JException as error:
            return dict.fromkeys(offsets, failure(error))
        return {}

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, int] | ClientError:
        """OffsetFetch."""
        if self._consumer is None:
            return NOT_SET_UP
        asked = java_class("java.util.HashSet")(partitions_of(partitions))
        try:
            found = self._consumer.committed(asked, seconds(timeout_s))
        except jpype.JException as error:
            return failure(error)
        answers = {tp: found.get(partition_of(*tp)) for tp in partitions}
        return {tp: -1 if answer is None else int(answer.offset()) for tp, answer in answers.items()}

    @property
    def member_id(self) -> str:
        """As the library has it."""
        return str(self.metadata().memberId()) if self.metadata() is not None else ""

    @property
    def generation(self) -> int | None:
        """The same."""
        generation = int(self.metadata().generationId()) if self.metadata() is not None else -1
        return generation if generation >= 0 else None

    def metadata(self) -> Any:
        """`ConsumerGroupMetadata`."""
        return self._last if self._consumer is None else self._consumer.groupMetadata()

    def leave(self) -> ClientError | None:
        """A last commit if it commits by itself, then a word to the group."""
        error = self._close(LEAVE_S, "LEAVE_GROUP")
        self._tell_commits()
        return error

    def drop(self) -> None:
        """The library can be closed without a word to the group."""
        self._close(0.0, "REMAIN_IN_GROUP")

    def _close(self, timeout_s: float, membership: str) -> ClientError | None:
        if self._consumer is None:
            return None
        self._last = self.metadata()
        error = close(self._consumer, timeout_s, membership)  # calls the listener, which may still commit
        self._consumer = None
        return error

    def _tell_commits(self) -> None:
        while self._automatic and self._listener is not None:
            self._listener.committed(self._automatic.popleft(), None, None)


def watch_commits(consumer: Any, noted: deque[dict[TopicPartition, int]]) -> Any:
    """Note what the library commits by itself: give it an interceptor, which it would make by the name of a class."""

    def on_commit(offsets: Any) -> None:
        noted.append({(str(tp.topic()), int(tp.partition())): int(offsets.get(tp).offset()) for tp in offsets.keySet()})

    methods = {"onConsume": lambda records: records, "onCommit": on_commit, "close": lambda: None}
    interceptor = jpype.JProxy("org.apache.kafka.clients.consumer.ConsumerInterceptor", dict=methods)
    delegate = field(consumer, "delegate")
    plugins = java_class("common.internals.Plugin").wrapInstances(
        java_class("java.util.ArrayList")([interceptor]), None, "interceptor.classes"
    )
    field(field(delegate, "interceptors"), "interceptorPlugins").addAll(plugins)
    return interceptor


def field(owner: Any, name: str) -> Any:
    """A private field."""
    declared = owner.getClass().getDeclaredField(name)
    declared.setAccessible(True)
    return declared.get(owner)
