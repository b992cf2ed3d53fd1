"""Whatever is put into a message comes out of it, and damage never goes unnoticed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.history.schema import Status
from workloads import payload
from workloads.base import LEAST_VALUE_BYTES

INT64 = st.integers(-(2**63), 2**63 - 1)
NATURAL = st.integers(0, 2**63 - 1)
SMALL = st.integers(0, 2**31 - 1)


@given(
    run=INT64,
    who=st.tuples(SMALL, SMALL),
    rows=st.lists(st.tuples(SMALL, NATURAL, NATURAL), min_size=1, max_size=20),
    size_bytes=st.integers(LEAST_VALUE_BYTES, 300),
    invoked=NATURAL,
)
def test_round_trip(
    run: int, who: tuple[int, int], rows: list[tuple[int, int, int]], size_bytes: int, invoked: int
) -> None:
    """Any numbers, any size."""
    producer, topic = who
    partition, value, sequence = (np.array(column) for column in zip(*rows, strict=True))
    built = payload.PayloadBuilder(run, producer, size_bytes).build(
        len(rows), topic=topic, partition=partition, value=value, sequence=sequence, invoked=invoked
    )
    found = payload.parse(list(built), topic, partition, run)
    assert found.status.tolist() == [Status.GOOD] * len(rows)
    assert found.value.tolist() == value.tolist()
    assert found.sequence.tolist() == sequence.tolist()
    assert found.producer.tolist() == [producer] * len(rows)
    assert payload.headers(built)["invoked"].tolist() == [invoked] * len(rows)


@given(data=st.data(), size_bytes=st.integers(LEAST_VALUE_BYTES, 200))
def test_one_flipped_bit_is_always_seen(data: st.DataObject, size_bytes: int) -> None:
    """Wherever it is: the message is not good any more."""
    (message,) = payload.PayloadBuilder(1, 2, size_bytes).build(1, topic=3, partition=4, value=5, sequence=6, invoked=7)
    bit = data.draw(st.integers(0, size_bytes * 8 - 1))
    damaged = bytearray(message)
    damaged[bit // 8] ^= 1 << bit % 8
    assert payload.parse([bytes(damaged)], 3, 4, 1).status.tolist() == [Status.CORRUPT]


@given(st.lists(st.none() | st.binary(max_size=200), max_size=20))
def test_anything_can_be_read(payloads: list[bytes | None]) -> None:
    """Records of others, of any length, are never taken for ours and never an error."""
    found = payload.parse(payloads, 0, 0, 0x1234_5678_9ABC_DEF0)
    assert Status.GOOD not in found.status.tolist()
    assert len(found.status) == len(payloads)
