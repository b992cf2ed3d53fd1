"""Files of a partition's log: what of them was flushed, and where each batch begins."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INTERNAL_TOPICS = "__consumer_offsets", "__transaction_state"
METADATA_DIR = "__cluster_metadata-0"
PARTITION_DIR = re.compile(r".+-\d+")
KEPT = frozenset({"meta.properties", "bootstrap.checkpoint", METADATA_DIR})  # who the node is, and the controllers' log
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
BATCH = struct.Struct(
    ">qi11xi"
)  # base offset, length of what follows, and the offset of the last record after the base
LENGTH_END = 12


@dataclass(frozen=True)
class Tail:
    """A batch at the end of a log that a power failure could take."""

    position: int
    records: int


def recovery_points(data: Path) -> dict[str, int]:
    """Up to which offset each partition was flushed for certain, as the node itself has noted."""
    try:
        lines = (data / RECOVERY_POINTS).read_text().splitlines()[2:]  # a version and a count come first
    except FileNotFoundError:
        return {}
    noted = [line.rsplit(maxsplit=2) for line in lines]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in noted}


def last_segment(directory: Path) -> Path:
    """The file that a partition's log is appended to."""
    try:
        return max(directory.glob("*.log"))
    except ValueError:
        raise FileNotFoundError(f"there is no log in {directory}") from None


def batches(log: Path) -> Iterator[tuple[int, Tail]]:
    """Where each whole batch of a log begins, and how many records it holds, by the offset of its first one."""
    position, size = 0, log.stat().st_size
    with log.open("rb") as file:
        while len(header := file.read(BATCH.size)) == BATCH.size:
            offset, length, last = BATCH.unpack(header)
            if length <= 0 or position + LENGTH_END + length > size:
                return
            yield offset, Tail(position, last + 1)
            position += LENGTH_END + length
            file.seek(position)
