"""What messages carry, built and read back in batches."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from harness.history.schema import COLUMNS, Status
from workloads import payload
from workloads.base import LEAST_VALUE_BYTES

RUN, TOPIC, PROCESS = 77, 3, 5


def messages(count: int = 4, size_bytes: int = 100, run: int = RUN) -> list[bytes]:
    """Messages 100, 101 and so on, to partitions 0 and 1 in turn."""
    number = np.arange(count)
    builder = payload.PayloadBuilder(run, PROCESS, size_bytes)
    return builder.build(count, topic=TOPIC, partition=number % 2, value=number + 100, sequence=number // 2, invoked=9)


def parsed(payloads: list[bytes | None], partition: Any = 0) -> payload.ParsedPayloads:
    """As read from one partition."""
    return payload.parse(payloads, TOPIC, partition, RUN)


@pytest.mark.parametrize("size_bytes", [LEAST_VALUE_BYTES, 100, 10_000])
def test_messages_say_what_they_were_built_from(size_bytes: int) -> None:
    """At every size, the smallest included."""
    built = messages(size_bytes=size_bytes)
    assert {len(message) for message in built} == {size_bytes}
    found = parsed(list(built), np.arange(4) % 2)
    assert found.value.tolist() == [100, 101, 102, 103]
    assert found.sequence.tolist() == [0, 0, 1, 1]
    assert found.producer.tolist() == [PROCESS] * 4
    assert found.status.tolist() == [Status.GOOD] * 4


def test_a_producer_finds_all_it_needs_in_its_own_message() -> None:
    """So that nothing has to be remembered per message."""
    head = payload.headers(messages())
    assert head["value"].tolist() == [100, 101, 102, 103]
    assert head["partition"].tolist() == [0, 1, 0, 1]
    assert head["topic"].tolist() == [TOPIC] * 4
    assert head["invoked"].tolist() == [9] * 4


def test_the_least_size_holds_header_and_checksum() -> None:
    """A smaller one would not."""
    assert payload.HEADER.itemsize + payload.CHECKSUM_BYTES <= LEAST_VALUE_BYTES


def test_the_last_four_bytes_are_the_checksum_of_the_others() -> None:
    """As the specification says, so that others can check it."""
    (message,) = messages(1)
    assert int.from_bytes(message[-4:], "little") == zlib.crc32(message[:-4], 0xFFFFFFFF) ^ 0xFFFFFFFF


def test_a_message_in_another_partition_is_misrouted() -> None:
    """And still says which one it is."""
    found = parsed(list(messages()), 0)
    assert found.status.tolist() == [Status.GOOD, Status.MISROUTED, Status.GOOD, Status.MISROUTED]
    assert found.value.tolist() == [100, 101, 102, 103]


def test_a_message_in_another_topic_is_misrouted() -> None:
    """Even if the partition is right."""
    found = payload.parse(list(messages(1)), TOPIC + 1, 0, RUN)
    assert found.status.tolist() == [Status.MISROUTED]


def test_a_message_of_another_run_is_foreign() -> None:
    """Whatever it says."""
    found = parsed(list(messages(1, run=RUN + 1)))
    assert found.status.tolist() == [Status.FOREIGN]
    assert found.value.tolist() == [COLUMNS["value"].null]


@pytest.mark.parametrize("stranger", [None, b"", b"x", b"hello", b"\0" * 100, b"a" * 1000])
def test_what_nobody_here_wrote_is_foreign(stranger: bytes | None) -> None:
    """Short, long, empty and null records, beside good ones of another length."""
    found = parsed([stranger, *messages(1)])
    assert found.status.tolist() == [Status.FOREIGN, Status.GOOD]
    assert found.value.tolist() == [COLUMNS["value"].null, 100]


def test_a_damaged_magic_is_corrupt_not_foreign() -> None:
    """The rest of the header gives it away."""
    (message,) = messages(1)
    assert parsed([b"\xff\xff\xff\xff" + message[4:]]).status.tolist() == [Status.CORRUPT]


@pytest.mark.parametrize("keep", [4, 40, 52, 99])
def test_a_message_that_was_cut_is_corrupt(keep: int) -> None:
    """As long as it still says that it is one of ours."""
    (message,) = messages(1)
    found = parsed([message[:keep]])
    assert found.status.tolist() == [Status.CORRUPT]
    assert found.value.tolist() == [COLUMNS["value"].null]


def test_zeros_are_not_taken_for_a_message() -> None:
    """Their checksum holds, alone and in a batch of good ones."""
    zeros = b"\0" * 100
    found = payload.parse([*messages(1), zeros], TOPIC, 0, 0)
    assert Status.GOOD not in found.status.tolist()
    assert parsed([*messages(1), zeros]).status.tolist() == [Status.GOOD, Status.FOREIGN]


def test_one_damaged_message_does_not_spoil_its_batch() -> None:
    """The batch fails, and then each is looked at."""
    first, second, third = messages(3)
    damaged = second[:70] + bytes([second[70] ^ 1]) + second[71:]
    found = parsed([first, damaged, third], np.arange(3) % 2)
    assert found.status.tolist() == [Status.GOOD, Status.CORRUPT, Status.GOOD]
    assert found.value.tolist() == [100, COLUMNS["value"].null, 102]


def test_nothing_read_is_nothing_parsed() -> None:
    """An empty poll."""
    assert len(parsed([]).value) == 0
