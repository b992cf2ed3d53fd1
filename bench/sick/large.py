"""Healthy, but large: very many partitions, or very many faults."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bench.history_plan import (
    MS,
    PROBE,
    START_NS,
    TOPIC,
    Numbers,
    make_rows,
)
from bench.sick.load import SickLoad
from bench.sick.rows import FAULT_NAMES, TEXT, Streams, null, where
from harness.foundation.protocol import Api
from harness.history.schema import NEMESIS_PROCESS, FaultStage, Kind
from harness.history.sources import Rows


class Wide(SickLoad):
    """Nothing is wrong with it."""

    PARTITIONS = 10_000

    def probes(self) -> Iterator[Rows]:
        """It takes long to ask for all partitions, so that the next node is asked for the next one."""
        for rows in super().probes():
            asked = (rows["event"] >> 2) % 3 + 1
            cut = rows["brokers"] == TEXT["2,3"]
            where(rows, rows["api"] == Api.METADATA, node=np.where(cut & (asked == 1), 2, asked))
            yield rows


class ManyFaults(SickLoad):
    """Time stands still for clients as long as a fault lasts: what was under way goes on when it is over."""

    FAULTS: ClassVar[int] = 199  # and the one that every load has
    LASTS_NS: ClassVar[int] = 2_000 * MS
    PROBES: ClassVar[int] = 20  # while it lasts

    @cached_property
    def begins(self) -> Numbers:
        """In the time of clients."""
        return START_NS + (1 + np.arange(self.FAULTS)) * self.pace(self.FAULTS + 1)

    def streams(self) -> Streams:
        """With the time of the world."""
        streams: Streams = {}
        for kind, found in super().streams().items():
            streams[kind] = [map(self._in_the_world, each) for each in found]
        streams[Kind.FAULT].append(iter([self._faults()]))
        streams[Kind.PROBE].append(iter([self._probes_in_faults()]))
        return streams

    def processes(self) -> dict[int, dict[str, Any]]:
        """Another one asks while time stands still."""
        return super().processes() | {PROBE + 1: {"role": "probe"}}

    def _in_the_world(self, rows: Rows) -> Rows:
        for name in {"time", "invoked"} & {*(rows.dtype.names or ())}:
            known = rows[name] != null(name)
            rows[name] += np.where(known, np.searchsorted(self.begins, rows[name]) * self.LASTS_NS, 0)
        return rows

    @property
    def _since(self) -> Numbers:
        return self.begins + np.arange(self.FAULTS) * self.LASTS_NS

    def _faults(self) -> Rows:
        stages = (FaultStage.INJECTED, FaultStage.BIT, FaultStage.UNDONE, FaultStage.HEALED)
        faults, turns = np.repeat(np.arange(self.FAULTS), len(stages)), np.tile(np.arange(len(stages)), self.FAULTS)
        names = np.array([TEXT[name] for name in FAULT_NAMES])
        return make_rows(
            Kind.FAULT, len(faults), process=NEMESIS_PROCESS, counter=100 + np.arange(len(faults)), fault=2 + faults,
            time=self._since[faults] + self.LASTS_NS // 10 * np.array([1, 2, 8, 9])[turns],
            stage=np.array(stages)[turns], name=names[faults % len(names)], node=faults % 3 + 1,
            detail=TEXT["killed, paused or cut off"],
        )  # fmt: skip

    def _probes_in_faults(self) -> Rows:
        plan, numbers = self.plan, np.arange(self.FAULTS * self.PROBES)
        faults, partitions = numbers // self.PROBES, numbers % plan.partitions
        invoked = self._since[faults] + (numbers % self.PROBES) * (self.LASTS_NS // self.PROBES)
        leader, epoch = plan.leader(partitions, self.begins[faults])
        mark = plan.watermark(partitions, self.begins[faults])
        return make_rows(
            Kind.PROBE, len(numbers), process=PROBE + 1, counter=numbers, invoked=invoked, time=invoked + MS,
            api=Api.FETCH, node=leader, topic=TOPIC, partition=partitions, leader_epoch=epoch, error=0,
            high_watermark=mark, last_stable_offset=mark, log_start=0,
        )  # fmt: skip
