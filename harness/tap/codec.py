"""What a frame says: headers, requests and responses, and the partitions in them, whatever the version.

The codecs are kafka-python's, generated from Kafka's own schemas; `schemas` has what is missing there. What they do not
know (an API of the future, a newer version, garbage) is `None` or `Garbled` here, and passes through the tap as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl

from harness.foundation.frame_skim import FrameSkim, Garbled, skip_tags
from harness.foundation.protocol import Api
from harness.tap import schemas

_MODULES = (
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
    schemas,
)
_START = struct.Struct(">hhih")  # API, version, correlation, length of the client id
_CORRELATION = struct.Struct(">i")
HEADER_BYTES = _START.size
NO_ID = UUID(int=0)
MODEST_BYTES = 1024 * 1024  # what is read without a second look
PARTS_AT_MOST = 10_000  # partitions in a larger Produce
TOPICS_AT_MOST = 100_000  # in a larger Metadata
TRANSACTIONS_SINCE, TOPIC_IDS_SINCE = 3, 13  # versions of Produce


@dataclass(frozen=True)
class Codec:
    """An API: its name as Kafka writes it, and the classes that read and write it."""

    name: str
    request: Any
    response: Any

    @property
    def newest(self) -> int:
        """The newest version that both directions are known in."""
        return int(min(self.request.max_version, self.response.max_version))


def _codecs() -> dict[int, Codec]:
    classes: dict[str, Any] = {
        name: getattr(module, name)
        for module in _MODULES
        for name in dir(module)
        if name.endswith(("Request", "Response")) and hasattr(getattr(module, name), "API_KEY")
    }
    return {
        cls.API_KEY: Codec(name.removesuffix("Request"), cls, classes[f"{name.removesuffix('Request')}Response"])
        for name, cls in classes.items()
        if name.endswith("Request") and f"{name.removesuffix('Request')}Response" in classes
    }


CODECS: dict[int, Codec] = _codecs()
API_NAMES = {codec.name: api for api, codec in CODECS.items()}
WITH_ADDRESSES = frozenset({Api.PRODUCE, Api.FETCH, Api.METADATA, Api.FIND_COORDINATOR, Api.DESCRIBE_CLUSTER})


class RequestHeader(NamedTuple):
    """The beginning of a request."""

    api: int
    version: int
    correlation: int
    client: str
    body: int  # where the request itself begins in its frame; 0 when nobody knows


def codec_of(api: int, version: int) -> Codec | None:
    """Who reads this API in this version, if anybody does."""
    codec = CODECS.get(api)
    return codec if codec is not None and 0 <= version <= codec.newest else None


def read_header(frame: bytes) -> RequestHeader:
    """The header of a request (a frame without its length)."""
    try:
        api, version, correlation, length = _START.unpack_from(frame)
    except struct.error as error:
        raise Garbled(f"a request of {len(frame)} bytes") from error
    end = HEADER_BYTES + max(length, 0)
    if end > len(frame):
        raise Garbled("a client id that is longer than its request")
    client = frame[HEADER_BYTES:end].decode("utf-8", "replace")
    codec = codec_of(api, version)
    if codec is None:
        return RequestHeader(api, version, correlation, client, 0)
    if codec.request.flexible_version_q(version):
        end = skip_tags(frame, end)
    return RequestHeader(api, version, correlation, client, end)


def is_modest(frame: bytes, header: RequestHeader) -> bool:
    """Whether a request can be read in no time: large ones are sends of a few large parts, or name many topics."""
    if not header.body or len(frame) <= MODEST_BYTES:
        return True
    skim = FrameSkim(frame, header.body, compact=bool(CODECS[header.api].request.flexible_version_q(header.version)))
    if header.api == Api.METADATA:
        return skim.length(4) <= TOPICS_AT_MOST
    return header.api == Api.PRODUCE and _has_few_parts(skim, header)


def _has_few_parts(skim: FrameSkim, header: RequestHeader) -> bool:
    """Skims a Produce request, from length to length."""
    try:
        if header.version >= TRANSACTIONS_SINCE:
            skim.skip(skim.length(2))
        skim.skip(6)  # acks and time-out
        for _ in range(skim.length(4)):
            skim.skip(16 if header.version >= TOPIC_IDS_SINCE else skim.length(2))
            for _ in range(skim.length(4)):
                skim.parts += 1
                skim.skip(4)
                skim.skip(skim.length(4))
                skim.tags()
                if skim.parts > PARTS_AT_MOST:
                    return False
            skim.tags()
            skim.parts += 1
            if skim.parts > PARTS_AT_MOST:
                return False
    except Garbled:
        return False
    return True


def correlation_of(frame: bytes) -> int:
    """Which request a response answers."""
    if len(frame) < _CORRELATION.size:
        raise Garbled(f"a response of {len(frame)} bytes")
    return int(_CORRELATION.unpack_from(frame)[0])


def with_correlation(frame: bytes, correlation: int) -> bytes:
    """A request frame with another number."""
    return frame[:4] + _CORRELATION.pack(correlation) + frame[8:]


def decode_request(frame: bytes, header: RequestHeader) -> Any:
    """The request of a frame."""
    return _decode(CODECS[header.api].request, memoryview(frame)[header.body :], header.version)


def encode_request(request: Any, frame: bytes, header: RequestHeader) -> bytes:
    """The frame again, with this request in it."""
    return frame[: header.body] + _encode(request, header.version)


def decode_response(frame: bytes, api: int, version: int) -> Any:
    """The response of a frame."""
    response = CODECS[api].response
    return _decode(response, memoryview(frame)[_response_body(frame, api, version) :], version)


def encode_response(response: Any, correlation: int, api: int, version: int) -> bytes:
    """A frame with this response."""
    tags = b"\x00" if _has_tags(api, version) else b""
    return _CORRELATION.pack(correlation) + tags + _encode(response, version)


def _decode(cls: Any, body: memoryview, version: int) -> Any:
    try:
        message = cls.decode(body, version=version)
    except Exception as error:  # codecs meet garbage in many ways
        raise Garbled(f"no {cls.__name__} of version {version} ({error})") from error
    message._header = None  # noqa: SLF001 - kafka-python cannot encode a decoded message without it
    return message


def _encode(message: Any, version: int) -> bytes:
    try:
        return bytes(message.encode(version=version))
    except Exception as error:  # values that the wire has no room for
        raise Garbled(f"no {type(message).__name__} of version {version} ({error})") from error


def _has_tags(api: int, version: int) -> bool:
    # the answer to ApiVersions has the oldest header, because the client does not know yet what is understood
    return api != Api.API_VERSIONS and bool(CODECS[api].response.flexible_version_q(version))


def _response_body(frame: bytes, api: int, version: int) -> int:
    return skip_tags(frame, _CORRELATION.size) if _has_tags(api, version) else _CORRELATION.size


class TopicNames:
    """Names of topics by their ids, learnt from what passes: newer versions of some requests have ids alone."""

    def __init__(self) -> None:
        self._names: dict[UUID, str] = {}
        self._lives: dict[str, int] = {}

    def learn(self, topic_id: UUID | None, name: str | None) -> None:
        """An answer told both."""
        if topic_id and topic_id != NO_ID and name and topic_id not in self._names:
            self._names[topic_id] = name
            self._lives[name] = self._lives.get(name, 0) + 1

    def told_apart(self, name: str) -> str:
        """The name for the history: a topic that was deleted and made again is another one, and begins at 0 again."""
        lives = self._lives.get(name, 1)
        return name if lives == 1 else f"{name} ({lives})"

    def of(self, topic: Any, field: str) -> str:
        """The name of a topic in a message, or its id when nobody said what it is called."""
        name = getattr(topic, field, None)
        if name:
            return str(name)
        topic_id = getattr(topic, "topic_id", None)
        return self._names.get(topic_id) or f"id:{topic_id}" if topic_id else ""


@dataclass(frozen=True)
class PartitionLayout:
    """Where a message has its topics and partitions."""

    topics: str
    name: str
    partitions: str
    index: str


REQUESTS = {
    Api.PRODUCE: PartitionLayout("topic_data", "name", "partition_data", "index"),
    Api.FETCH: PartitionLayout("topics", "topic", "partitions", "partition"),
    Api.LIST_OFFSETS: PartitionLayout("topics", "name", "partitions", "partition_index"),
    Api.OFFSET_COMMIT: PartitionLayout("topics", "name", "partitions", "partition_index"),
    Api.TXN_OFFSET_COMMIT: PartitionLayout("topics", "name", "partitions", "partition_index"),
}
RESPONSES = {
    Api.PRODUCE: PartitionLayout("responses", "name", "partition_responses", "index"),
    Api.FETCH: PartitionLayout("responses", "topic", "partitions", "partition_index"),
    Api.LIST_OFFSETS: PartitionLayout("topics", "name", "partitions", "partition_index"),
    Api.METADATA: PartitionLayout("topics", "name", "partitions", "partition_index"),
    Api.OFFSET_COMMIT: PartitionLayout("topics", "name", "partitions", "partition_index"),
    Api.OFFSET_FETCH: PartitionLayout("topics", "name", "partitions", "partition_index"),
    Api.TXN_OFFSET_COMMIT: PartitionLayout("topics", "name", "partitions", "partition_index"),
    Api.ADD_PARTITIONS_TO_TXN: PartitionLayout("topic_results", "name", "results_by_partition", "partition_index"),
}


class PartitionPart(NamedTuple):
    """One partition in a message; `message` is its part of it, or None where that is a bare number."""

    topic: str
    partition: int
    message: Any


def request_parts(api: int, request: Any, names: TopicNames) -> Iterator[PartitionPart]:
    """The partitions that a request is about."""
    if api in {Api.OFFSET_FETCH, Api.ADD_PARTITIONS_TO_TXN}:
        field = "partition_indexes" if api == Api.OFFSET_FETCH else "partitions"
        for topic in _numbered_topics(api, request):
            for partition in getattr(topic, field) or ():
                yield PartitionPart(names.of(topic, "name"), partition, None)
    elif api == Api.METADATA:
        for topic in request.topics or ():
            yield PartitionPart(names.of(topic, "name"), -1, topic)
    elif layout := REQUESTS.get(Api(api)) if api in REQUESTS else None:
        yield from _parts(getattr(request, layout.topics), layout, names)


def response_parts(api: int, response: Any, names: TopicNames) -> Iterator[PartitionPart]:
    """The partitions that a response is about."""
    if api not in RESPONSES:
        return
    layout = RESPONSES[Api(api)]
    if api == Api.OFFSET_FETCH:
        for holder in (response, *(response.groups or ())):
            yield from _parts(holder.topics, layout, names)
    elif api == Api.ADD_PARTITIONS_TO_TXN:
        yield from _parts(response.results_by_topic_v3_and_below, layout, names)
        for transaction in response.results_by_transaction or ():
            yield from _parts(transaction.topic_results, layout, names)
    else:
        yield from _parts(getattr(response, layout.topics), layout, names)


def _numbered_topics(api: int, request: Any) -> Iterator[Any]:
    if api == Api.OFFSET_FETCH:
        for holder in (request, *(request.groups or ())):
            yield from holder.topics or ()
        return
    yield from request.v3_and_below_topics or ()
    for transaction in request.transactions or ():
        yield from transaction.topics or ()


def _parts(topics: Any, layout: PartitionLayout, names: TopicNames) -> Iterator[PartitionPart]:
    for topic in topics or ():
        name = names.of(topic, layout.name)
        for message in getattr(topic, layout.partitions) or ():
            yield PartitionPart(name, getattr(message, layout.index), message)
