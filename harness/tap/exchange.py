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

from dataclasses import dataclass
from typing import Any

from harness.foundation.frame_skim import Garbled
from harness.foundation.protocol import Api
from harness.tap import codec
from harness.tap.codec import REQUESTS, RESPONSES, PartitionPart, RequestHeader, TopicNames
from harness.tap.effects import NOTHING, Effects
from harness.tap.synthetic_responses import NO_ANSWER, add_part, topic_key, whole_error


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
            add_part(self.response, self.header, self._key_of(part), part.partition, fields)
        self._answers = []

    def _key_of(self, part: PartitionPart) -> dict[str, Any]:
        """The topic as the request names it."""
        original = codec.decode_request(self.request_frame, self.header)
        layout = REQUESTS[Api(self.api)]
        for topic in getattr(original, layout.topics):
            if self.world.names.of(topic, layout.name) == part.topic:
                return topic_key(topic, layout.name)
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
                    fields = {"error_code": code, **NO_ANSWER.get(self.api, {})}
                    key = topic_key(topic, layout.name)
                    add_part(response, self.header, key, getattr(each, layout.index), fields)
            return response
        return whole_error(self.request, self.header, response, code)


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
