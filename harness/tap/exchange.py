"""One request with its response on its way through the tap, and what a bend can do to it.

A `Bend` is asked about each exchange of the APIs it names, once when the request has come from the client and once when
the response has come from the broker. It looks at the decoded messages, may change them in place, and returns effects:

    Delay(0.3)            let it wait, and what comes after it on this connection too
    Hold(gate, 10.0)      the same until the gate opens, or that long at most
    Drop(then)            the request never reaches the broker, or the response never the client
    Answer(response)      (requests) answer in the broker's place, in the order of the connection
    Duplicate(frame)      (requests) the broker gets it twice; the second answer is swallowed
    Swap(0.5)             (requests) the next request of this connection overtakes it, if one comes within that time
    Close(reset, after)   end the connection with the client, at once or after a time in which nothing passes
    CHANGED               the message was changed in place and has to be encoded anew

Kafka's clients expect answers in the order of their requests. So one that is dropped in silence takes everything behind
it on that connection with it, as a lost packet would, until the client has had enough.

What is recorded of an exchange is what the client sent and what the client got, except for addresses: those are the
brokers' own.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.foundation.frame_skim import Garbled
from harness.foundation.protocol import Api
from harness.tap import codec
from harness.tap.codec import REQUESTS, RESPONSES, PartitionPart, RequestHeader, TopicNames

Then = Literal["silence", "close", "reset"]


@dataclass(frozen=True)
class Delay:
    """Wait before it goes on."""

    seconds: float
    unless: asyncio.Event | None = dataclasses.field(default=None, compare=False)  # ends the wait


@dataclass(frozen=True)
class Hold:
    """Wait for the gate; `then` says what becomes of the client's connection meanwhile."""

    gate: asyncio.Event
    at_most_s: float = 600.0
    then: Then = "silence"


@dataclass(frozen=True)
class Drop:
    """It goes nowhere; `then` says what becomes of the connection."""

    then: Then = "silence"


@dataclass(frozen=True)
class Answer:
    """A response of ours."""

    response: Any
    is_old: bool = False  # a broker gave it, but not now: where it says that brokers are is no news


@dataclass(frozen=True)
class Duplicate:
    """The broker gets another request after this one, the same one unless a frame is given."""

    frame: bytes | None = None


@dataclass(frozen=True)
class Swap:
    """The next request overtakes this one."""

    at_most_s: float = 0.5


@dataclass(frozen=True)
class Close:
    """The connection with the client ends, in order or by a reset."""

    reset: bool = False
    after: Delay | None = None  # (requests) nothing passes for that long before


@dataclass(frozen=True)
class Changed:
    """Encode the message anew."""

    noticed: bool = True  # False: neither side can tell, so the exchange does not count as bent


CHANGED, UNNOTICED = Changed(), Changed(noticed=False)
Effect = Delay | Hold | Drop | Answer | Duplicate | Swap | Close | Changed
Effects = Sequence[Effect]
NOTHING: Effects = ()


@dataclass(frozen=True)
class TapContext:
    """What all exchanges of a tap process share."""

    names: TopicNames
    nodes: dict[int, tuple[str, int]]  # every node that is known, and where it really is

    @property
    def node_ids(self) -> list[int]:
        """All nodes, rising."""
        return sorted(self.nodes)


class Exchange:
    """A request, and later its response."""

    __slots__ = (
        "_answers", "_request", "_response", "bent", "connection", "header", "invoked", "node", "number",
        "request_frame", "response_frame", "world",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913, PLR0917 - made in one place, millions of times
        self, world: TapContext, connection: int, node: int, header: RequestHeader, frame: bytes, invoked: int
    ) -> None:
        self.world = world
        self.number = 0  # in the history
        self.connection = connection
        self.node = node  # the broker that was asked
        self.header = header
        self.request_frame = frame  # without its length, as the client sent it
        self.response_frame: bytes | None = None  # without its length, as the broker sent it
        self.invoked = invoked
        self.bent: list[str] = []  # who did something to it
        self._request: Any = None
        self._response: Any = None
        self._answers: list[tuple[PartitionPart, dict[str, Any]]] = []

    @property
    def api(self) -> int:
        """Kafka's number of the request."""
        return self.header.api

    @property
    def version(self) -> int:
        """The version of the request."""
        return self.header.version

    @property
    def client(self) -> str:
        """The client's id, as it calls itself."""
        return self.header.client

    @property
    def known(self) -> bool:
        """Whether there is a codec for it."""
        return self.header.body > 0

    def leave_unread(self) -> None:
        """Nobody looks into it from now on."""
        self.header = self.header._replace(body=0)

    @property
    def request(self) -> Any:
        """The request, decoded when first asked for; `Garbled` when it is none."""
        if self._request is None:
            if not self.known:
                raise Garbled(f"nobody knows version {self.version} of request {self.api}")
            self._request = codec.decode_request(self.request_frame, self.header)
        return self._request

    @property
    def response(self) -> Any:
        """The response, decoded when first asked for; what the broker said until somebody changes it."""
        if self._response is None:
            if self.response_frame is None or not self.known:
                raise Garbled("there is no response that anybody understands")
            self._response = codec.decode_response(self.response_frame, self.api, self.version)
        return self._response

    @response.setter
    def response(self, response: Any) -> None:
        self._response = response

    @property
    def answered(self) -> bool:
        """Whether there is a response, the broker's or ours."""
        return self._response is not None or self.response_frame is not None

    @property
    def expects_response(self) -> bool:
        """False for sends that nobody acknowledges."""
        return self.api != Api.PRODUCE or not self.known or self.request.acks != 0

    def request_parts(self) -> list[PartitionPart]:
        """The partitions of the request."""
        return list(codec.request_parts(self.api, self.request, self.world.names))

    def response_parts(self) -> list[PartitionPart]:
        """The partitions of the response."""
        return list(codec.response_parts(self.api, self.response, self.world.names))

    def answer_part(self, part: PartitionPart, **fields: Any) -> None:
        """Take a partition out of the request, and answer it ourselves with these fields of the response.

        For Produce, Fetch and ListOffsets, in `on_request`, with CHANGED as the effect. When nothing of the request is
        left the broker does not hear of it at all.
        """
        layout = REQUESTS[Api(self.api)]
        topics = getattr(self.request, layout.topics)
        for topic in topics:
            kept = [each for each in getattr(topic, layout.partitions) or () if each is not part.message]
            setattr(topic, layout.partitions, kept)
        setattr(self.request, layout.topics, [topic for topic in topics if getattr(topic, layout.partitions)])
        self._answers.append((part, fields))

    @property
    def answered_parts(self) -> bool:
        """Whether `answer_part` was used."""
        return bool(self._answers)

    @property
    def nothing_left(self) -> bool:
        """Whether `answer_part` left nothing for the broker."""
        return self.answered_parts and not getattr(self.request, REQUESTS[Api(self.api)].topics)

    def put_answers(self) -> None:
        """Put what `answer_part` promised into the response."""
        for part, fields in self._answers:
            _add_part(self.response, self.header, self._key_of(part), part.partition, fields)
        self._answers = []

    def _key_of(self, part: PartitionPart) -> dict[str, Any]:
        """The topic as the request names it."""
        original = codec.decode_request(self.request_frame, self.header)
        layout = REQUESTS[Api(self.api)]
        for topic in getattr(original, layout.topics):
            if self.world.names.of(topic, layout.name) == part.topic:
                return _topic_key(topic, layout.name)
        return {layout.name: part.topic}

    def empty_response(self) -> Any:
        """A response to this request that says nothing yet, and no error."""
        response = codec.CODECS[self.api].response(version=self.version)
        if self.api in RESPONSES and self.api in REQUESTS:
            setattr(response, RESPONSES[Api(self.api)].topics, [])
        return response

    def error_response(self, code: int) -> Any:
        """A response that gives this error for everything the request asks."""
        response = self.empty_response()
        if self.api in REQUESTS and self.api in RESPONSES:
            layout = REQUESTS[Api(self.api)]
            for topic in getattr(self.request, layout.topics) or ():
                for each in getattr(topic, layout.partitions) or ():
                    fields = {"error_code": code, **_NO_ANSWER.get(self.api, {})}
                    key = _topic_key(topic, layout.name)
                    _add_part(response, self.header, key, getattr(each, layout.index), fields)
            return response
        return _whole_error(self, response, code)


_NO_ANSWER: dict[int, dict[str, Any]] = {
    Api.PRODUCE: {"base_offset": -1, "log_append_time_ms": -1, "log_start_offset": -1},
    Api.FETCH: {
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "preferred_read_replica": -1,
        "aborted_transactions": None,
        "records": b"",  # null is legal, but librdkafka does not take it
    },
    Api.LIST_OFFSETS: {"timestamp": -1, "offset": -1, "leader_epoch": -1},
}


def _topic_key(topic: Any, name_field: str) -> dict[str, Any]:
    """How a message names a topic: by its name, its id, or both."""
    key = {name_field: getattr(topic, name_field, None), "topic_id": getattr(topic, "topic_id", None)}
    return {field: value for field, value in key.items() if value}


def _add_part(
    response: Any, header: RequestHeader, key: dict[str, Any], partition: int, fields: dict[str, Any]
) -> None:
    """Put one partition into a response of Produce, Fetch, ListOffsets or OffsetCommit."""
    api, version = header.api, header.version
    layout = RESPONSES[Api(api)]
    request_layout = REQUESTS[Api(api)]
    if request_layout.name in key and layout.name != request_layout.name:
        key = {**key, layout.name: key[request_layout.name]}
        del key[request_layout.name]
    topic_class = type(response)._struct.fields[layout.topics].data_class  # noqa: SLF001 - no public way to it
    part_class = topic_class._struct.fields[layout.partitions].data_class  # noqa: SLF001
    known = part_class._struct.fields  # noqa: SLF001
    part = part_class(version=version)
    for field, value in {**_NO_ANSWER.get(api, {}), "error_code": 0, **fields, layout.index: partition}.items():
        if field in known and known[field].for_version_q(version):
            setattr(part, field, value)
    topics = getattr(response, layout.topics) or ()
    for topic in topics:
        if all(getattr(topic, field) == value for field, value in key.items()):
            setattr(topic, layout.partitions, [*(getattr(topic, layout.partitions) or ()), part])
            return
    wanted = topic_class._struct.fields  # noqa: SLF001
    topic = topic_class(version=version, **{k: v for k, v in key.items() if wanted[k].for_version_q(version)})
    setattr(topic, layout.partitions, [part])
    setattr(response, layout.topics, [*topics, topic])


def _whole_error(exchange: Exchange, response: Any, code: int) -> Any:
    """For requests that are answered as a whole."""
    if exchange.api == Api.FIND_COORDINATOR and exchange.version >= 4:  # keys in a list since then
        coordinator = type(response)._struct.fields["coordinators"].data_class  # noqa: SLF001
        response.coordinators = [
            coordinator(version=exchange.version, key=key, node_id=-1, host="", port=-1, error_code=code)
            for key in exchange.request.coordinator_keys
        ]
        return response
    if exchange.api == Api.METADATA:
        topic_class = type(response)._struct.fields["topics"].data_class  # noqa: SLF001
        response.brokers = []
        response.topics = [
            topic_class(version=exchange.version, error_code=code, name=topic.name, topic_id=topic.topic_id,
                        is_internal=False, partitions=[])
            for topic in exchange.request.topics or ()
        ]  # fmt: skip
        return response
    field = type(response)._struct.fields.get("error_code")  # noqa: SLF001
    if field is None or not field.for_version_q(exchange.version):
        name = codec.CODECS[exchange.api].name
        raise Garbled(f"version {exchange.version} of {name} cannot be answered with an error")
    response.error_code = code
    return response


class Bend:
    """Does something to exchanges; by default nothing."""

    name: str = ""
    apis: frozenset[int] = frozenset()  # asked about these only; everything else is left alone

    def on_request(self, exchange: Exchange) -> Effects:  # noqa: ARG002 - for those who want to
        """The client sent this."""
        return NOTHING

    def on_response(self, exchange: Exchange) -> Effects:  # noqa: ARG002 - for those who want to
        """The broker answered this."""
        return NOTHING
