"""The brokers of a Metadata answer, and how many partitions it holds, found without reading all of it.

A broker may answer with a million of either. What reads such an answer as a whole takes minutes and gigabytes, so
whoever reads one asks first (`refusal`), and the tap changes the addresses of brokers where they lie in a large answer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from harness.foundation.frame_skim import FrameSkim, Garbled

BROKERS_AT_MOST = 250
PARTITIONS_AT_MOST = 50_000
CORRELATION_BYTES = 4
BROKER_BYTES, TOPIC_BYTES, PARTITION_BYTES = 9, 4, 10  # or more
FLEXIBLE_SINCE, NEWEST = 9, 13
Locate = Callable[[int, str, int], tuple[str, int]]  # node, host, port -> host and port instead


@dataclass(frozen=True)
class NamedBroker:
    """A broker in an answer, and where its address lies in the frame."""

    node: int
    host: str
    port: int
    start: int
    end: int


def refusal(frame: bytes, version: int) -> str:
    """Why an answer is not to be read; empty when it is of a size that clusters have."""
    try:
        skim = _skim(frame, version)
        _to_brokers(skim, version)
        brokers = skim.count(BROKER_BYTES)
        if brokers > BROKERS_AT_MOST:
            return f"a Metadata answer with {brokers:,} brokers, where {BROKERS_AT_MOST} are the most that is read"
        _pass_brokers(skim, version, brokers)
        if _has_more_partitions(skim, version):
            return f"a Metadata answer with more than {PARTITIONS_AT_MOST:,} partitions, which is the most that is read"
    except Garbled:
        return ""  # whoever reads it says what is wrong with it
    return ""


def too_many_brokers(frame: bytes, version: int) -> int:
    """How many brokers an answer has, if those are more than clusters have; 0 otherwise."""
    skim = _skim(frame, version)
    _to_brokers(skim, version)
    brokers = skim.count(BROKER_BYTES)
    return brokers if brokers > BROKERS_AT_MOST else 0


def with_addresses(frame: bytes, version: int, locate: Locate) -> bytes:
    """The answer with other addresses for its brokers; all else stays as it is, and is not looked at."""
    skim = _skim(frame, version)
    _to_brokers(skim, version)
    brokers = _pass_brokers(skim, version, skim.count(BROKER_BYTES))
    parts, at = [], 0
    for broker in brokers:
        host, port = locate(broker.node, broker.host, broker.port)
        parts += [frame[at : broker.start], _text(host, compact=version >= FLEXIBLE_SINCE), struct.pack(">i", port)]
        at = broker.end
    return b"".join([*parts, frame[at:]])


def _skim(frame: bytes, version: int) -> FrameSkim:
    if not 0 <= version <= NEWEST:
        raise Garbled(f"nobody knows version {version} of Metadata")
    skim = FrameSkim(frame, 0, compact=version >= FLEXIBLE_SINCE)
    skim.skip(CORRELATION_BYTES)
    skim.tags()
    return skim


def _to_brokers(skim: FrameSkim, version: int) -> None:
    if version >= 3:
        skim.skip(4)  # throttle time


def _pass_brokers(skim: FrameSkim, version: int, count: int) -> list[NamedBroker]:
    found = []
    for _ in range(count):
        node, start = skim.number(), skim.at
        host, port = skim.text(), skim.number()
        found.append(NamedBroker(node, host, port, start, skim.at))
        if version >= 1:
            skim.text()  # rack
        skim.tags()
    return found


def _has_more_partitions(skim: FrameSkim, version: int) -> bool:
    """Goes through topics until there are too many; a topic without partitions counts as one."""
    if version >= 2:
        skim.text()  # cluster id
    if version >= 1:
        skim.number()  # controller
    seen = 0
    for _ in range(skim.count(TOPIC_BYTES)):
        skim.skip(2)
        skim.text()
        skim.skip((16 if version >= 10 else 0) + (1 if version >= 1 else 0))  # topic id, whether it is internal
        partitions = skim.count(PARTITION_BYTES)
        seen += max(partitions, 1)
        if seen > PARTITIONS_AT_MOST:
            return True
        for _ in range(partitions):
            _pass_partition(skim, version)
        skim.skip(4 if version >= 8 else 0)  # authorised operations
        skim.tags()
    return False


def _pass_partition(skim: FrameSkim, version: int) -> None:
    skim.skip(14 if version >= 7 else 10)  # error, number, leader, its epoch
    for _ in range(3 if version >= 5 else 2):  # replicas, those in sync, those offline
        skim.skip(4 * skim.length(4))
    skim.tags()


def _text(value: str, *, compact: bool) -> bytes:
    encoded = value.encode()
    if not compact:
        return struct.pack(">h", len(encoded)) + encoded
    size, prefix = len(encoded) + 1, bytearray()
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*prefix, size]) + encoded
