"""A broker in memory behind a bend, so that tests see what clients would: real frames, appends and offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder

from harness.foundation.protocol import Api
from harness.tap import codec
from harness.tap.batches import RecordBatch, cut, join, split, with_base
from harness.tap.codec import TopicNames
from harness.tap.effects import CHANGED, Answer, Drop, Effect, Hold
from harness.tap.exchange import Bend, Exchange, TapContext
from tests.support.tap_frames import TOPIC_IDS, request_frame, response_frame, topics

TOPIC = "orders"
OLD = {Api.PRODUCE: 3, Api.FETCH: 4, Api.LIST_OFFSETS: 0, Api.METADATA: 1}
MIDDLE = {Api.PRODUCE: 8, Api.FETCH: 11, Api.LIST_OFFSETS: 5, Api.METADATA: 8}
NEWEST = {Api(api): codec.CODECS[api].newest for api in MIDDLE}
VERSIONS = [OLD, MIDDLE, NEWEST]
NOT_LEADER = 6
OFFSET_OUT_OF_RANGE = 1
MANY_BYTES = 1 << 20


def batch_of(*values: bytes, producer: int = -1, sequence: int = 0, transactional: bool = False) -> RecordBatch:
    """A batch as a producer sends it."""
    is_known = producer >= 0
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=transactional, producer_id=producer,
        producer_epoch=is_known - 1, base_sequence=sequence if is_known else -1, batch_size=MANY_BYTES,
    )  # fmt: skip
    for number, value in enumerate(values):
        builder.append(number, 1_000, None, value, [])
    return RecordBatch(bytes(builder.build()))


@dataclass
class Outcome:
    """How an exchange went."""

    exchange: Exchange
    on_request: list[Effect]
    on_response: list[Effect]
    response: Any  # what the client got

    @property
    def parts(self) -> dict[int, Any]:
        """The answers by partition."""
        found = codec.response_parts(self.exchange.api, self.response, self.exchange.world.names)
        return {part.partition: part.message for part in found}

    @property
    def part(self) -> Any:
        """The answer for the only partition."""
        (found,) = self.parts.values()
        return found

    @property
    def gate(self) -> Hold:
        """What its request waited for."""
        return next(effect for effect in self.on_request if isinstance(effect, Hold))


@dataclass
class Broker:
    """Three nodes and a topic; what one of them answers goes through a bend."""

    bend: Bend
    versions: dict[Api, int] = field(default_factory=lambda: dict(NEWEST))
    leaders: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(4), 1))
    log: dict[int, list[RecordBatch]] = field(default_factory=dict)
    followers_serve: bool = True

    def __post_init__(self) -> None:
        names = TopicNames()
        for name, topic_id in TOPIC_IDS.items():
            names.learn(topic_id, name)
        self.world = TapContext(names, {node: (f"host-{node}", 9_000 + node) for node in (1, 2, 3)})

    def end(self, partition: int = 0) -> int:
        """Where a partition really ends."""
        log = self.log.get(partition)
        return log[-1].next_offset if log else 0

    # what clients ask

    def produce(self, *batches: RecordBatch, partition: int = 0, acks: int = -1, **how: Any) -> Outcome:
        """Append to a partition."""
        given = [{"partition": partition, "records": join(batches)}]
        return self.ask(Api.PRODUCE, {TOPIC: given}, {"acks": acks, "timeout_ms": 1_000}, **how)

    def fetch(self, offset: int = 0, partition: int = 0, **how: Any) -> Outcome:
        """Read a partition."""
        return self.fetch_many({partition: offset}, **how)

    def fetch_many(self, offsets: dict[int, int], *, most: int = MANY_BYTES, isolation: int = 0, wait_ms: int = 500,
                   session: tuple[int, int] = (0, 0), **how: Any) -> Outcome:  # fmt: skip
        """Read partitions."""
        given = [{"partition": p, "fetch_offset": at, "partition_max_bytes": most} for p, at in offsets.items()]
        fields: dict[str, Any] = {"max_wait_ms": wait_ms, "min_bytes": 1, "isolation_level": isolation}
        if self.versions[Api.FETCH] >= 7:
            fields |= {"session_id": session[0], "session_epoch": session[1]}
        return self.ask(Api.FETCH, {TOPIC: given}, fields, **how)

    def latest(self, partition: int = 0, *, timestamp: int = -1, **how: Any) -> int:
        """The end of a partition, as ListOffsets says it."""
        given: dict[str, Any] = {"partition": partition, "timestamp": timestamp}
        if self.versions[Api.LIST_OFFSETS] == 0:
            given["max_num_offsets"] = 1
        answer = self.ask(Api.LIST_OFFSETS, {TOPIC: [given]}, {"replica_id": -1}, **how).part
        if self.versions[Api.LIST_OFFSETS] == 0:
            return int(answer.old_style_offsets[0]) if answer.old_style_offsets else -1
        return int(answer.offset)

    def metadata(self, **how: Any) -> Outcome:
        """Who leads."""
        return self.ask(Api.METADATA, {}, {"topics": None}, **how)

    def values(self, answer: Any) -> dict[int, bytes | None]:
        """The records in a Fetch answer by their offsets."""
        return {
            record.offset: record.value
            for batch in split(answer.records)
            for record in batch.records or ()
            if not batch.is_control
        }

    # how that goes through the bend

    def ask(self, api: Api, parts: dict[str, Any], fields: dict[str, Any], *, node: int = 1, client: str = "me",
            connection: int = 1) -> Outcome:  # fmt: skip
        """A request of a client, and what becomes of it."""
        version = self.versions[api]
        named = topics(api, version, parts) if parts else {}
        frame = request_frame(api, version, client, **fields, **named)
        exchange = Exchange(self.world, connection, node, codec.read_header(frame), frame, 0)
        before = list(self.bend.on_request(exchange)) if api in self.bend.apis else []
        answer = next((effect for effect in before if isinstance(effect, Answer)), None)
        if answer is not None or exchange.nothing_left:
            exchange.response = answer.response if answer else exchange.empty_response()
            exchange.put_answers()
            return Outcome(exchange, before, [], self._received(exchange))
        if CHANGED in before:
            frame = codec.encode_request(exchange.request, frame, exchange.header)
        exchange.response_frame = self._answer(api, version, node, codec.decode_request(frame, exchange.header))
        after = list(self.bend.on_response(exchange)) if api in self.bend.apis else []
        if any(isinstance(effect, Drop) for effect in after):
            return Outcome(exchange, before, after, None)
        if CHANGED in after or exchange.answered_parts:
            exchange.put_answers()
            return Outcome(exchange, before, after, self._received(exchange))
        response = codec.decode_response(exchange.response_frame, api, version)
        return Outcome(exchange, before, after, response)

    def _received(self, exchange: Exchange) -> Any:
        api, version = exchange.api, exchange.version
        return codec.decode_response(codec.encode_response(exchange.response, 42, api, version), api, version)

    # the broker

    def _answer(self, api: Api, version: int, node: int, request: Any) -> bytes:
        if api == Api.METADATA:
            return self._metadata(version)
        answer = {Api.PRODUCE: self._append, Api.FETCH: self._read, Api.LIST_OFFSETS: self._end}[api]
        found = [
            {"partition": part.partition, **answer(node, part.partition, part.message)}
            for part in codec.request_parts(api, request, self.world.names)
        ]
        return response_frame(api, version, **topics(api, version, {TOPIC: found}, answer=True))

    def _append(self, node: int, partition: int, asked: Any) -> dict[str, Any]:
        if self.leaders[partition] != node:
            return {"error_code": NOT_LEADER, "base_offset": -1}
        (batch,) = split(asked.records)
        log = self.log.setdefault(partition, [])
        for known in log:
            if batch.producer_id >= 0 and known.producer_id == batch.producer_id and known.crc == batch.crc:
                return {"base_offset": known.base_offset}
        base = self.end(partition)
        log.append(with_base(batch, base, 3))
        return {"base_offset": base}

    def _read(self, node: int, partition: int, asked: Any) -> dict[str, Any]:
        end = self.end(partition)
        if self.leaders[partition] != node and not self.followers_serve:
            return {"error_code": NOT_LEADER, "high_watermark": -1}
        if asked.fetch_offset > end:
            return {"error_code": OFFSET_OUT_OF_RANGE, "high_watermark": -1}
        found = [batch for batch in self.log.get(partition, []) if batch.next_offset > asked.fetch_offset]
        while len(found) > 1 and len(join(found)) > asked.partition_max_bytes:
            found.pop()
        shown = [kept for batch in found if (kept := cut(batch, end)) is not None]
        offsets = {"last_stable_offset": end, "log_start_offset": 0} if self.versions[Api.FETCH] >= 5 else {}
        return {"high_watermark": end, "records": join(shown), **offsets}

    def _end(self, node: int, partition: int, asked: Any) -> dict[str, Any]:
        if self.leaders[partition] != node:
            return {"error_code": NOT_LEADER}
        offset = {-1: self.end(partition), -2: 0}.get(asked.timestamp, -1)
        return {"old_style_offsets": [offset]} if self.versions[Api.LIST_OFFSETS] == 0 else {"offset": offset}

    def _metadata(self, version: int) -> bytes:
        partitions = [
            {"partition": p, "leader_id": leader, "replica_nodes": [1, 2, 3], "isr_nodes": [1, 2, 3],
             **({"leader_epoch": 3} if version >= 7 else {})}
            for p, leader in self.leaders.items()
        ]  # fmt: skip
        brokers = [{"node_id": node, "host": host, "port": port} for node, (host, port) in self.world.nodes.items()]
        named = topics(Api.METADATA, version, {TOPIC: partitions}, answer=True)
        return response_frame(Api.METADATA, version, brokers=brokers, controller_id=1, **named)
