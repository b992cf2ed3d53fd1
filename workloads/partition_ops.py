"""Operations on several partitions at once: one operation each, written as one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.history.outcomes import outcome
from harness.history.recorder import Recorder, Values
from harness.history.schema import COLUMNS, F, Kind, Type, now
from workloads.clients.base import ClientError, TopicPartition


@dataclass(frozen=True)
class PartitionOps:
    """Operations of one kind, one per partition, that were invoked together."""

    invoked: int
    columns: dict[str, Any]  # what their invocations and their completions share
    count: int


def begin_ops(
    recorder: Recorder,
    f: F,
    numbers: Mapping[str, int],
    partitions: Sequence[TopicPartition],
    **columns: Values | str | None,
) -> PartitionOps:
    """Record their invocations, now or at the `time` that is given; make the call after this returns."""
    count, time = len(partitions), columns.pop("time", None)
    invoked = time if isinstance(time, int) else now()
    shared: dict[str, Any] = {
        "f": f,
        "op": np.arange(count) + recorder.new_ops(count),
        "topic": np.array([numbers[topic] for topic, _ in partitions], np.int32),
        "partition": np.array([partition for _, partition in partitions], np.int32),
        **columns,
    }
    recorder.write(Kind.INVOKE, count, time=invoked, **shared)
    return PartitionOps(invoked, shared, count)


def end_ops(recorder: Recorder, ops: PartitionOps, type_: Type | Values, **columns: Values | str | None) -> None:
    """Record how they ended: all alike, or as arrays say."""
    recorder.write(Kind.COMPLETE, ops.count, type=type_, invoked=ops.invoked, **(ops.columns | columns))


def end_ops_by_error(
    recorder: Recorder, ops: PartitionOps, errors: Sequence[ClientError | None], **columns: Values | str | None
) -> None:
    """Record how they ended, each by its own error or none, in the order of the operations."""
    f = ops.columns["f"]
    nothing, stored = COLUMNS["detail"].null, COLUMNS["detail"].stored
    end_ops(
        recorder, ops, np.array([outcome(f, error.code) if error else Type.OK for error in errors], np.int8),
        error=np.array([error.code if error else 0 for error in errors], np.int16),
        detail=np.array([recorder.text(error.text) if error else nothing for error in errors], stored),
        **columns,
    )  # fmt: skip
