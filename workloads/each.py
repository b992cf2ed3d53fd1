"""Operations on several partitions at once: one operation each, written as one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.history import COLUMNS, F, Kind, Recorder, Type, Values, now
from harness.outcomes import outcome
from workloads.clients.base import ClientError, Place


@dataclass(frozen=True)
class Each:
    """Operations of one kind, one per partition, that were invoked together."""

    invoked: int
    columns: dict[str, Any]  # what their invocations and their completions share
    count: int


def begin_each(
    recorder: Recorder, f: F, numbers: Mapping[str, int], places: Sequence[Place], **columns: Values | str | None
) -> Each:
    """Record their invocations, now or at the `time` that is given; make the call after this returns."""
    count, time = len(places), columns.pop("time", None)
    invoked = time if isinstance(time, int) else now()
    shared: dict[str, Any] = {
        "f": f,
        "op": np.arange(count) + recorder.new_ops(count),
        "topic": np.array([numbers[topic] for topic, _ in places], np.int32),
        "partition": np.array([partition for _, partition in places], np.int32),
        **columns,
    }
    recorder.write(Kind.INVOKE, count, time=invoked, **shared)
    return Each(invoked, shared, count)


def end_each(recorder: Recorder, each: Each, type_: Type | Values, **columns: Values | str | None) -> None:
    """Record how they ended: all alike, or as arrays say."""
    recorder.write(Kind.COMPLETE, each.count, type=type_, invoked=each.invoked, **(each.columns | columns))


def end_each_by(
    recorder: Recorder, each: Each, errors: Sequence[ClientError | None], **columns: Values | str | None
) -> None:
    """Record how they ended, each by its own error or none, in the order of the operations."""
    f = each.columns["f"]
    nothing, stored = COLUMNS["detail"].null, COLUMNS["detail"].stored
    end_each(
        recorder, each, np.array([outcome(f, error.code) if error else Type.OK for error in errors], np.int8),
        error=np.array([error.code if error else 0 for error in errors], np.int16),
        detail=np.array([recorder.text(error.text) if error else nothing for error in errors], stored),
        **columns,
    )  # fmt: skip
