"""Broken brokers: bends with a name that make a correct broker play one with a bug.

watermarks.py   watermarks and end offsets that are wrong
appends.py      appends that are lost, doubled, out of order or acknowledged wrongly
leadership.py   who leads, coordinates and belongs to the cluster; partitions that are not served
split_brain.py  two leaders at once
records.py      records, transactions and groups

They act on every topic but Kafka's own, for every client, and count instead of throwing dice: the same traffic meets
the same bug.
"""

from __future__ import annotations

from harness.foundation.config import suggestion
from harness.foundation.errors import UsageError
from harness.tap.broken import appends, leadership, records, split_brain, watermarks
from harness.tap.broken.base import Broken

_ALL: tuple[type[Broken], ...] = (
    watermarks.WatermarkIsNextOffset,
    watermarks.WatermarkOverwrittenByRetry,
    watermarks.WatermarkFrozen,
    leadership.MetadataListsSelfOnly,
    leadership.NotLeaderForever,
    leadership.FetchHangs,
    leadership.SlowPartition,
    appends.AcksThenForgets,
    appends.AppendsRetriesTwice,
    watermarks.ServesStaleReads,
    appends.Reorders,
    appends.ReusesOffsets,
    appends.AcksWithoutOffset,
    leadership.AnswersAsLeader,
    leadership.CoordinatorLies,
    records.SkipsRecords,
    records.FlipsBits,
    records.Misroutes,
    records.LeaksAborted,
    records.TearsTransactions,
    split_brain.SplitsBrain,
    records.ForgetsGroupOffsets,
    watermarks.EndOffsetGoesBack,
)
BROKEN: dict[str, type[Broken]] = {broken.name: broken for broken in _ALL}

__all__ = ["BROKEN", "Broken", "make_broken"]


def make_broken(text: str, seed: int) -> Broken:
    """The broken broker that NAME or NAME:ARGUMENT means."""
    name, colon, argument = text.partition(":")
    if name not in BROKEN:
        raise UsageError(f"there is no broken broker '{name}'", suggestion(name, list(BROKEN)))
    return BROKEN[name](argument if colon else None, seed)
