"""What sick histories have in common: a story made of streams of rows, their texts, and how rows are changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.history_plan import (
    MS,
    START_NS,
    TEXTS,
    make_rows,
)
from harness.foundation.error_codes import NUMBERS
from harness.history.schema import COLUMNS, FIRST_TAP, Kind
from harness.history.sources import Rows

Streams = dict[Kind, list[Iterator[Rows]]]
SECOND_TAP = FIRST_TAP + 1  # what lies beside the load is seen by a tap of its own, whose events are in order, too
STRANGE_TOPIC = 2
TIMED_OUT = NUMBERS["_MSG_TIMED_OUT"]  # the client's own
TXN_PRODUCERS, MEMBERS = 20, 500
GROUPS = 20_000
FIRST_MEMBER = 100
FAULT_NAMES = ("leader-kill", "pause", "partition-halves")
SICK_TEXTS = (
    *TEXTS, "1,2", "1,3", "pause", "partition-halves", "killed, paused or cut off", "Local: Message timed out",
    "the client got no answer", "stranger",
    *(f"transaction-{n}" for n in range(TXN_PRODUCERS)),
    *(f"tidegauge-consumer-{FIRST_MEMBER + n}" for n in range(MEMBERS)),
    *(f"group-{n}" for n in range(GROUPS)),
)  # fmt: skip
TEXT = {text: number for number, text in enumerate(SICK_TEXTS)}


@dataclass(frozen=True)
class Story:
    """A history that is still to be written."""

    streams: Streams
    processes: dict[int, dict[str, Any]]
    topics: dict[int, str]


def null(name: str) -> int:
    """What a column has where it says nothing."""
    return COLUMNS[name].null


def only(chosen: Any, **columns: Any) -> dict[str, Any]:
    """Columns that are null but in the chosen rows."""
    return {name: np.where(chosen, values, null(name)) for name, values in columns.items()}


def where(rows: Rows, chosen: Any, **columns: Any) -> None:
    """Change columns of the chosen rows."""
    for name, values in columns.items():
        rows[name] = np.where(chosen, values, rows[name])


def phases(end_ns: int, final_ns: int) -> Rows:
    """When the load, the recovery and the final read began."""
    times = {
        "load": START_NS,
        "heal": end_ns,
        "recover": end_ns + MS,
        "recovered": end_ns + 2 * MS,
        "final": final_ns - MS,
    }
    return make_rows(Kind.PHASE, len(times), process=0, counter=np.arange(len(times)), time=list(times.values()),
                     name=[TEXT[name] for name in times])  # fmt: skip
