"""Whatever comes over the wire: the codecs say `Garbled`, the reader `BadFrame`, and the tap goes on serving others."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.foundation.frame_skim import Garbled
from harness.foundation.protocol import Api
from harness.tap import codec
from harness.tap.codec import CODECS
from harness.tap.frames import BadFrame, FrameBudget, FrameReader, framed
from harness.tap.rules import Rule, bends
from tests.support import tap_frames as frames

AT_MOST = 1000
BOMBS = (b"\x7f\xff\xff\xff", b"\x00\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f")  # claims of 2**31


class Captured(NamedTuple):
    """A real frame."""

    api: int
    version: int
    answer: bool
    frame: bytes


def captured() -> list[Captured]:
    """Requests and responses of all APIs in old and new versions, and some with partitions in them."""
    found = []
    for api, known in CODECS.items():
        for version in sorted({0, known.newest // 2, known.newest}):
            found.append(Captured(api, version, answer=False, frame=frames.request_frame(api, version)))
            found.append(Captured(api, version, answer=True, frame=frames.response_frame(api, version)))
    two = {"orders": [0, 1], "bills": [2]}
    told = frames.response_parts(two)
    for version in (3, 9, 13):
        found.append(Captured(Api.PRODUCE, version, answer=False, frame=frames.produce(two, version)))
        found.append(Captured(Api.PRODUCE, version, answer=True, frame=frames.produced(told, version)))
    for version in (4, 12, 16):
        found.append(Captured(Api.FETCH, version, answer=False, frame=frames.fetch(two, version)))
        found.append(Captured(Api.FETCH, version, answer=True, frame=frames.fetched(told, version)))
    for version in (1, 9):
        asked = frames.request_frame(Api.METADATA, version, topics=[{"name": "orders"}])
        found.append(Captured(Api.METADATA, version, answer=False, frame=asked))
        found.append(Captured(Api.METADATA, version, answer=True, frame=frames.metadata(version)))
    asked = frames.request_frame(Api.OFFSET_FETCH, 5, group_id="g", topics=[{"name": "o", "partition_indexes": [0, 1]}])
    found.append(Captured(Api.OFFSET_FETCH, 5, answer=False, frame=asked))
    return found


CAPTURED = captured()
REAL = st.sampled_from(CAPTURED)


FLIPS = st.lists(st.integers(0, 8 * 400), min_size=1, max_size=6)
RULES = (
    Rule(action="answer", api=("Produce", "Fetch", "ListOffsets"), topic="*", partition=(1,), with_=6),
    Rule(action="answer", api=("Produce", "Fetch", "Metadata", "FindCoordinator"), with_=6, name="answer all"),
    Rule(action="rewrite", api=("Fetch",), topic="orders", fields={"high_watermark": "-5"}),
    Rule(action="rewrite", api=("Produce",), fields={"base_offset": "+9223372036854775807"}),
    Rule(action="drop-response", api=("Metadata", "Fetch", "Produce"), error="NOT_LEADER_OR_FOLLOWER"),
    Rule(action="stale", api=("Metadata", "Fetch", "Produce", "OffsetFetch")),
    Rule(action="stale", api=("Metadata", "Fetch"), topic="orders", name="stale orders"),
    Rule(action="close", api=("Produce",), topic="bills", by=0.0),
    Rule(action="delay", api=("OffsetFetch", "AddPartitionsToTxn", "OffsetCommit"), partition=(0,), by=0.0),
)


# codecs


def read(frame: bytes, as_answer: Captured | None = None) -> None:
    """Read a frame the whole way; nothing but `Garbled` may come of it."""
    with contextlib.suppress(Garbled):
        if as_answer is not None:
            codec.correlation_of(frame)
            codec.decode_response(frame, as_answer.api, as_answer.version)
            return
        header = codec.read_header(frame)
        assert 0 <= header.body <= len(frame)
        if header.body:
            codec.decode_request(frame, header)


@given(st.binary(max_size=300), REAL)
def test_random_bytes_are_read_or_garbled(content: bytes, like: Captured) -> None:
    """As a request, as a response to anything, and behind a header that makes sense."""
    read(content)
    read(content, like)
    body = codec.read_header(like.frame).body if not like.answer else 4
    read(like.frame[:body] + content, like if like.answer else None)


@given(REAL, FLIPS)
def test_flipped_bits_are_read_or_garbled(real: Captured, bits: list[int]) -> None:
    """Frames that look nearly right."""
    read(frames.flip(real.frame, bits), real if real.answer else None)


@given(REAL, st.integers(0, 400))
def test_torn_frames_are_read_or_garbled(real: Captured, at: int) -> None:
    """Whatever is missing at the end."""
    read(real.frame[: at % len(real.frame)], real if real.answer else None)


@given(REAL, st.integers(0, 400), st.sampled_from(BOMBS), st.booleans())
def test_claims_cost_nothing(real: Captured, at: int, bomb: bytes, torn: bool) -> None:  # noqa: FBT001 - hypothesis
    """Two thousand million elements that did not come: no time and no room are spent on them."""
    at %= len(real.frame)
    frame = real.frame[:at] + bomb + (b"" if torn else real.frame[at + len(bomb) :])
    read(real.frame, real if real.answer else None)  # kafka-python compiles a codec when it is first used
    tracemalloc.start()
    try:
        read(frame, real if real.answer else None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * 1024 * 1024


@given(REAL, FLIPS, st.binary(max_size=200))
def test_rules_take_whatever_comes(real: Captured, bits: list[int], response: bytes) -> None:
    """They act or do not, and raise nothing."""
    if real.answer:
        request, response = frames.request_frame(real.api, real.version), frames.flip(real.frame, bits)
    else:
        request = frames.flip(real.frame, bits)
    with contextlib.suppress(Garbled):
        passing = frames.exchange(request)
        for bend in bends(RULES, 1):
            if passing.api in bend.apis:
                bend.on_request(passing)
        passing.response_frame = response
        for bend in bends(RULES, 1):
            if passing.api in bend.apis:
                bend.on_response(passing)


# frames


def pieces(stream: bytes, sizes: list[int]) -> list[bytes]:
    """The stream in pieces of these sizes, over and over."""
    cut, at, turn = [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        cut.append(stream[at : at + size])
        at, turn = at + size, turn + 1
    return cut


SIZES = st.lists(st.integers(1, 50), min_size=1, max_size=5)


@given(st.lists(st.binary(max_size=60), max_size=8), st.binary(max_size=3), SIZES)
def test_frames_however_they_are_cut(sent: list[bytes], rest: bytes, sizes: list[int]) -> None:
    """The same frames come out; what is unfinished is accounted for, and forgotten in the end."""
    budget = FrameBudget()
    reader = FrameReader(AT_MOST, budget)
    stream = b"".join(framed(frame) for frame in sent) + rest
    assert [frame for piece in pieces(stream, sizes) for frame in reader.feed(piece)] == sent
    assert budget.held == len(rest)
    assert reader.close() == len(rest)
    assert budget.held == 0


@given(st.binary(max_size=200), SIZES)
@example(b"\x7f\xff\xff\xff", [4])
@example(b"\x00\x00\x03\xe9", [1])
@example(b"\x80\x00\x00\x00", [2])
def test_a_reader_of_anything(content: bytes, sizes: list[int]) -> None:
    """Frames, patience or `BadFrame`, and never more set aside than came."""
    budget = FrameBudget()
    reader = FrameReader(AT_MOST, budget)
    with contextlib.suppress(BadFrame):
        came = 0
        for piece in pieces(content, sizes):
            came += len(piece)
            assert all(len(frame) <= AT_MOST for frame in reader.feed(piece))
            assert 0 <= budget.held <= came
    reader.close()
    assert budget.held == 0


@pytest.mark.parametrize("length", [-1, -(2**31), AT_MOST + 1, 2**31 - 1])
def test_lengths_that_are_none(length: int) -> None:
    """Refused with their first four bytes."""
    reader = FrameReader(AT_MOST, FrameBudget())
    with pytest.raises(BadFrame, match="a frame of"):
        reader.feed(length.to_bytes(4, signed=True))


@given(st.lists(st.integers(5, 100), min_size=2, max_size=10))
def test_all_connections_share_one_budget(sizes: list[int]) -> None:
    """Whoever goes beyond it is refused, and what is held stays near it."""
    budget = FrameBudget(150, spared=0)
    for size in sizes:
        reader = FrameReader(AT_MOST, budget)
        piece = framed(bytes(AT_MOST))[:size]
        before = budget.held
        if before + size > budget.at_most:
            with pytest.raises(BadFrame, match="more than 150 bytes"):
                reader.feed(piece)
            reader.close()
            assert budget.held == before
        else:
            assert reader.feed(piece) == []
            assert budget.held == before + size
