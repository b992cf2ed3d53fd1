"""Metadata answers are measured before they are read, and have their addresses changed without being read."""

from __future__ import annotations

import struct

import pytest
from kafka.protocol.metadata import MetadataResponse

from harness.foundation import metadata_answer
from harness.foundation.frame_skim import Garbled
from harness.foundation.metadata_answer import BROKERS_AT_MOST, PARTITIONS_AT_MOST
from harness.foundation.protocol import Api
from harness.tap import codec

VERSIONS = range(codec.CODECS[Api.METADATA].newest + 1)
MILLION = 1_000_000
CORRELATION = 7


def answer(version: int, brokers: int = 3, partitions: int = 2) -> bytes:
    """As a broker gives it."""
    listed = [
        MetadataResponse.MetadataResponseBroker(
            version=version, node_id=number, host=f"host-{number}", port=9_000 + number, rack="r" if version else None
        )
        for number in range(brokers)
    ]
    made = [
        MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
            version=version, error_code=0, partition_index=number, leader_id=1, leader_epoch=4,
            replica_nodes=[1, 2], isr_nodes=[1], offline_replicas=[],
        )
        for number in range(partitions)
    ]  # fmt: skip
    topic = MetadataResponse.MetadataResponseTopic(
        version=version, error_code=0, name="orders", is_internal=False, partitions=made
    )
    response = MetadataResponse(
        version=version, throttle_time_ms=0, brokers=listed, cluster_id="c", controller_id=1, topics=[topic]
    )
    return codec.encode_response(response, CORRELATION, Api.METADATA, version)


def test_it_knows_every_version_that_the_codec_knows() -> None:
    """A newer one would go past it."""
    assert max(VERSIONS) <= metadata_answer.NEWEST


@pytest.mark.parametrize("version", VERSIONS)
def test_other_addresses_and_nothing_else(version: int) -> None:
    """Read as a whole, the answer is what it was."""
    moved = metadata_answer.with_addresses(answer(version), version, lambda node, host, port: ("tap" + host, port + 50))
    before = codec.decode_response(answer(version), Api.METADATA, version)
    after = codec.decode_response(moved, Api.METADATA, version)
    assert codec.correlation_of(moved) == CORRELATION
    assert [(b.node_id, b.host, b.port) for b in after.brokers] == [
        (b.node_id, "tap" + b.host, b.port + 50) for b in before.brokers
    ]
    for broker in after.brokers:
        broker.host, broker.port = broker.host.removeprefix("tap"), broker.port - 50
    assert codec.encode_response(after, CORRELATION, Api.METADATA, version) == answer(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_of_a_usual_size_is_read(version: int) -> None:
    """Clusters may have many partitions."""
    assert not metadata_answer.refusal(answer(version, partitions=2_000), version)
    assert not metadata_answer.too_many_brokers(answer(version), version)


def millions_of_partitions(version: int = 7) -> bytes:
    """One topic with a million partitions, by hand: a library would take minutes to make it."""
    partition = struct.pack(">hiiiiiii", 0, 0, 1, 4, 0, 0, 0, 0)[:26]
    head = struct.pack(">iiihi", CORRELATION, 0, 0, -1, 1)
    topic = struct.pack(">ihh", 1, 0, 1) + b"a" + struct.pack(">bi", 0, MILLION)
    return head + topic + partition * MILLION


def test_a_million_brokers_or_partitions_are_refused_by_number() -> None:
    """Without reading them."""
    broker = struct.pack(">ih", 1, 1) + b"h" + struct.pack(">ih", 9092, -1)
    many = struct.pack(">iii", CORRELATION, 0, MILLION) + broker * MILLION
    assert "1,000,000 brokers" in metadata_answer.refusal(many, 7)
    assert metadata_answer.too_many_brokers(many, 7) == MILLION > BROKERS_AT_MOST
    assert f"more than {PARTITIONS_AT_MOST:,} partitions" in metadata_answer.refusal(millions_of_partitions(), 7)


def test_many_topics_without_partitions_are_refused_as_well() -> None:
    """They take as long to read."""
    topic = struct.pack(">hh", 0, 1) + b"a" + struct.pack(">bi", 0, 0)
    head = struct.pack(">iiihii", CORRELATION, 0, 0, -1, 1, MILLION)
    assert "partitions" in metadata_answer.refusal(head + topic * MILLION, 7)


@pytest.mark.parametrize("size", [0, 3, 8, 12, 20])
def test_an_answer_that_ends_early_is_for_its_reader_to_refuse(size: int) -> None:
    """It says what is wrong with it."""
    assert not metadata_answer.refusal(answer(7)[:size], 7)
    with pytest.raises(Garbled):
        metadata_answer.with_addresses(answer(7)[:size], 7, lambda node, host, port: (host, port))


def test_a_version_of_the_future_is_nobodys_to_measure() -> None:
    """Its layout is not known."""
    with pytest.raises(Garbled):
        metadata_answer.too_many_brokers(answer(7), metadata_answer.NEWEST + 1)
