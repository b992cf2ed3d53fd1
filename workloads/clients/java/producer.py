"""`KafkaProducer`: messages cross over in chunks, and their futures stay in the JVM until they are done."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jpype
import numpy as np

from harness.foundation.error_codes import REFUSED_LOCALLY
from harness.foundation.protocol import NO_OFFSET
from harness.foundation.security import Security
from workloads.clients.base import MARK, ClientError, DeliveredMessages, KeyedMessages, Producer
from workloads.clients.java.failures import failure
from workloads.clients.java.loops import FAILED, NOT_DONE, Longs, loops
from workloads.clients.java.machine import java_class, options, seconds
from workloads.clients.java.settings import producer_options
from workloads.clients.settings import ClientSettings

PART = 100  # messages that the library is handed without a look at the clock: a full buffer holds each of them up
NAP_S = 0.002
BEYOND_S = 1.0  # that the library may take to close longer than it was given


@dataclass
class _Sent:
    """Messages on their way, in the order in which they were sent, and what the library gave for each."""

    payloads: list[bytes]
    futures: Any


class JavaProducer(Producer):
    """The library, with acknowledgements asked for from time to time."""

    chunk = 1000

    def __init__(
        self,
        settings: ClientSettings,
        servers: Sequence[str],
        security: Security,
        client_id: str,
        given: dict[str, object] | None = None,
    ) -> None:
        given = given or producer_options(settings, servers, security, client_id)
        self._producer = java_class("clients.producer.KafkaProducer")(options(given))
        self._block_at_most_s = settings.block_at_most_s
        self._known: set[str] = set()  # topics that the library has metadata of
        self._on_the_way: list[_Sent] = []
        self._refused: list[tuple[bytes, ClientError]] = []
        self._sent = self._handed_back = 0

    def send(
        self, topic: str, partitions: Sequence[int], payloads: Sequence[bytes], keyed: KeyedMessages | None = None
    ) -> None:
        """A part at a time; a topic that nobody knows is waited for once, and not for each message."""
        self._sent += len(payloads)
        give_up_at = time.monotonic() + self._block_at_most_s
        if (unknown := self._ask_for(topic)) is not None:
            self._refuse(payloads, unknown)
            return
        for start in range(0, len(payloads), PART):
            part = slice(start, start + PART)
            if time.monotonic() >= give_up_at:
                full = f"the buffer of the library was full for {self._block_at_most_s:.0f} s"
                self._refuse(payloads[start:], ClientError(REFUSED_LOCALLY, full))
                return
            keys = None if keyed is None else KeyedMessages(keyed.keys[part], keyed.tombstones[part])
            self._send_part(topic, partitions[part], payloads[part], keys)

    def _ask_for(self, topic: str) -> ClientError | None:
        """Its metadata, which the first send would wait for."""
        if topic in self._known:
            return None
        try:
            self._producer.partitionsFor(topic)
        except jpype.JException as error:
            return ClientError(REFUSED_LOCALLY, failure(error).text)
        self._known.add(topic)
        return None

    def _send_part(
        self, topic: str, partitions: Sequence[int], payloads: Sequence[bytes], keyed: KeyedMessages | None
    ) -> None:
        """In one call; where the library throws, the message is refused, and the next one follows."""
        if keyed is not None and any(keyed.tombstones):
            self._send_each(topic, partitions, payloads, keyed)
            return
        while payloads:
            futures = jpype.JArray(jpype.JObject)(len(payloads))
            keys = _objects([None] * len(payloads) if keyed is None else keyed.keys)
            values = jpype.JArray(jpype.JArray(jpype.JByte))(list(payloads))
            where = jpype.JArray(jpype.JObject)([_number(int(partition)) for partition in partitions])
            try:
                loops().send(self._producer, java_class("java.lang.String")(topic), where, keys, values, futures)
            except jpype.JException as error:
                taken = next(index for index, future in enumerate(futures) if future is None)
                self._note(payloads[:taken], jpype.JArray(jpype.JObject)(list(futures)[:taken]))
                self._refuse(payloads[taken : taken + 1], ClientError(REFUSED_LOCALLY, failure(error).text))
                partitions, payloads = partitions[taken + 1 :], payloads[taken + 1 :]
                keyed = keyed and KeyedMessages(keyed.keys[taken + 1 :], keyed.tombstones[taken + 1 :])
            else:
                self._note(payloads, futures)
                return

    def _send_each(
        self, topic: str, partitions: Sequence[int], payloads: Sequence[bytes], keyed: KeyedMessages
    ) -> None:
        """Tombstones carry the message in a header."""
        record = java_class("clients.producer.ProducerRecord")
        for partition, payload, key, tombstone in zip(partitions, payloads, keyed.keys, keyed.tombstones, strict=True):
            message = record(topic, _number(int(partition)), _bytes(key), None if tombstone else _bytes(payload))
            if tombstone:
                message.headers().add(MARK, _bytes(payload))
            try:
                future = self._producer.send(message)
            except jpype.JException as error:
                self._refuse([payload], ClientError(REFUSED_LOCALLY, failure(error).text))
            else:
                self._note([payload], jpype.JArray(jpype.JObject)([future]))

    def _note(self, payloads: Sequence[bytes], futures: Any) -> None:
        if len(payloads):
            self._on_the_way.append(_Sent(list(payloads), futures))

    def _refuse(self, payloads: Sequence[bytes], error: ClientError) -> None:
        self._refused += [(payload, error) for payload in payloads]

    def delivered(self, wait_s: float) -> DeliveredMessages:
        """Ask for all that are on their way, again and again until one is done or the time is up."""
        give_up_at = time.monotonic() + wait_s
        while True:
            found = self._collect()
            if found.payloads or time.monotonic() >= give_up_at:
                self._handed_back += len(found.payloads)
                return found
            time.sleep(NAP_S)

    def _collect(self) -> DeliveredMessages:
        payloads = [payload for payload, _ in self._refused]
        errors = {index: error for index, (_, error) in enumerate(self._refused)}
        offsets = [NO_OFFSET] * len(payloads)
        self._refused = []
        left = []
        for sent in self._on_the_way:
            outcomes = loops().outcomes(sent.futures)
            done = np.flatnonzero(outcomes != NOT_DONE)
            errors |= {
                len(payloads) + place: _failed(sent.futures[int(index)])
                for place, index in enumerate(done)
                if outcomes[index] == FAILED
            }
            payloads += [sent.payloads[index] for index in done.tolist()]
            offsets += np.maximum(outcomes[done], NO_OFFSET).tolist()
            if len(done) < len(outcomes):
                left.append(_rest(sent, outcomes) if len(done) else sent)
        self._on_the_way = left
        return DeliveredMessages(payloads, offsets, errors)

    @property
    def outstanding(self) -> int:
        """Sent and not handed back."""
        return self._sent - self._handed_back

    def close(self, timeout_s: float) -> None:
        """Close the library, which gives up on what is outstanding by then.

        On a thread of its own: where a broker says nothing, the library takes as long as one of its requests may take.
        """
        closing = threading.Thread(
            target=self._producer.close, args=(seconds(timeout_s),), daemon=True, name="closing a producer"
        )
        closing.start()
        closing.join(timeout_s + BEYOND_S)


def _rest(sent: _Sent, outcomes: Longs) -> _Sent:
    """Those that are not done."""
    left = np.flatnonzero(outcomes == NOT_DONE).tolist()
    return _Sent(
        [sent.payloads[index] for index in left], jpype.JArray(jpype.JObject)([sent.futures[index] for index in left])
    )


def _failed(future: Any) -> ClientError:
    """Why."""
    try:
        future.get()
    except jpype.JException as error:
        return failure(error)
    raise AssertionError("a future that failed has a reason")


@cache
def _number(number: int) -> Any:
    return java_class("java.lang.Integer").valueOf(number)


def _bytes(content: bytes) -> Any:
    return jpype.JArray(jpype.JByte)(content)


def _objects(contents: Sequence[bytes | None]) -> Any:
    return jpype.JArray(jpype.JObject)([None if content is None else _bytes(content) for content in contents])
