"""Histories of any size to measure checkers with: what a healthy run records, and known flaws in it.

Everything is a function of a message's number (`bench.history_plan`), so that any part can be made by itself, in
bounded memory. Of a hundred events of a large history about

    22, 22   are invocations and completions of sends, 22 records of the load's consumers, 22 of the final read,
     5       answers to probes (Fetch, ListOffsets, Metadata), 4 exchanges at the tap (Produce, Fetch),
     3       polls, transactions with their records, members of a group and their commits;

and there are phases and a fault that moves leaders. Messages go to partitions in runs of ten, one run is one batch, and
is appended, acknowledged and read as a whole; three partitions make hot ones, a thousand make wide ones.

Flaws (`Planted`) lie where files are cut, and anywhere. What they are is returned, and found by `bench.duck` as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.history_load import Extras, Load
from bench.history_plan import (
    FIRST_CONSUMER,
    FIRST_FINAL,
    FIRST_PRODUCER,
    PROBE,
    TEXTS,
    TOPIC,
    TXN_FINAL,
    TXN_MEMBER,
    TXN_PARTITIONS,
    TXN_PRODUCER,
    TXN_RAW,
    TXN_TOPIC,
    Plan,
    Planted,
)
from harness.history.places import HISTORY
from harness.history.schema import FIRST_TAP, NEMESIS_PROCESS, Kind
from harness.history.sealed import MANIFEST
from harness.history.sealing import write_history
from harness.history.sources import Rows


@dataclass(frozen=True)
class Made:
    """A history, and what is wrong with it: topic 0, and of each flaw the partition and the offset."""

    run: Path
    events: int
    lost: frozenset[tuple[int, int]] = frozenset()
    doubled: frozenset[tuple[int, int]] = frozenset()
    backward: frozenset[tuple[int, int]] = frozenset()
    fallen: tuple[int, ...] = ()  # partitions, one for each answer
    behind: tuple[int, ...] = ()  # partitions of answers that showed less than what was acknowledged


def generate(directory: Path, events: int, partitions: int, *, seed: int = 1, plants: int = 6) -> Made:
    """A sealed run with so many events, about, and so many flaws of each sort."""
    plan = Plan.of(events, partitions)
    planted = plan.plant(np.random.default_rng(seed), plants) if plants else Planted()
    load = Load(plan, planted)
    streams: dict[Kind, list[Iterator[Rows]]] = {kind: [] for kind in Kind}
    for kind, rows in Extras(plan).rows.items():
        streams[kind].append(iter([rows]))
    for kind in (Kind.INVOKE, Kind.COMPLETE):
        streams[kind] += [load.sends(kind), load.polls(kind), load.finals(kind)]
    streams[Kind.RECORD] += [load.reads(), load.final_reads()]
    streams[Kind.PROBE].append(load.probes())
    streams[Kind.EXCHANGE] += [load.produces(), load.fetches()]
    about = {
        "processes": {str(number): told for number, told in processes_of(plan).items()},
        "topics": {str(TOPIC): "load", str(TXN_TOPIC): "transfers"},
        "damage": [],
        "damaged_processes": [],
        "has_holes": False,
    }
    write_history(directory, streams, TEXTS, about)
    listed = json.loads((directory / HISTORY / MANIFEST).read_text())["files"]
    return Made(directory, sum(file["rows"] for file in listed), **plan.told(planted))


def processes_of(plan: Plan) -> dict[int, dict[str, Any]]:
    """What the manifest says of the processes of a plan."""
    uncommitted, committed = {"isolation": "read_uncommitted"}, {"isolation": "read_committed"}
    return {
        0: {"role": "runner"},
        NEMESIS_PROCESS: {"role": "nemesis"},
        PROBE: {"role": "probe"},
        **{FIRST_PRODUCER + n: {"role": "producer", "idempotent": True} for n in range(plan.clients)},
        **{FIRST_CONSUMER + n: {"role": "consumer", **uncommitted} for n in range(plan.clients)},
        **{FIRST_FINAL + n: {"role": "final", **uncommitted} for n in range(2)},
        **{TXN_PRODUCER + n: {"role": "producer", "idempotent": True} for n in range(TXN_PARTITIONS)},
        **{TXN_MEMBER + n: {"role": "consumer", "group": True, **committed} for n in range(2)},
        TXN_FINAL: {"role": "final", **committed},
        TXN_RAW: {"role": "raw", **uncommitted},
        FIRST_TAP: {"role": "tap"},
    }
