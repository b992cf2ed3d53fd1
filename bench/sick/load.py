"""A healthy load of which something is changed, or beside which something lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from bench.histories import processes_of
from bench.history_load import Extras, Load
from bench.history_plan import (
    EVENTS_OF_100,
    MS,
    START_NS,
    TOPIC,
    TXN_TOPIC,
    Numbers,
    Plan,
    Planted,
    make_rows,
)
from bench.sick.rows import SECOND_TAP, TEXT, Story, Streams
from harness.foundation.protocol import Api
from harness.history.schema import ID_BITS, Kind, Type
from harness.history.sources import Rows


@dataclass(frozen=True)
class SickLoad(Load):
    """A load with something wrong, and so many events beside it."""

    PARTITIONS: ClassVar[int] = 12
    SHARE: ClassVar[float] = 1.0  # of the events that are the load's
    OF_100: ClassVar[int] = EVENTS_OF_100  # events, about, of a hundred messages of the load

    extra: int = 0

    @classmethod
    def story(cls, events: int) -> Story:
        """As a run records it."""
        load = cls.of(events)
        return Story(load.streams(), load.processes(), load.topics())

    @classmethod
    def of(cls, events: int) -> Self:
        """With about so many events."""
        own = int((events - 2 * cls.PARTITIONS) * cls.SHARE)
        return cls(Plan.of(own * EVENTS_OF_100 // cls.OF_100, cls.PARTITIONS), Planted(), events - own)

    def streams(self) -> Streams:
        """All that is recorded."""
        streams: Streams = {kind: [] for kind in Kind}
        for kind, rows in Extras(self.plan).rows.items():
            streams[kind].append(iter([rows]))
        for kind in (Kind.INVOKE, Kind.COMPLETE):
            streams[kind] += [self.sends(kind), self.polls(kind), self.finals(kind)]
        streams[Kind.RECORD] += [self.reads(), self.final_reads()]
        streams[Kind.PROBE].append(self.probes())
        streams[Kind.EXCHANGE] += [self.produces(), self.fetches(), self.beside()]
        return streams

    def beside(self) -> Iterator[Rows]:
        """What else passed the tap."""
        return iter(())

    def processes(self) -> dict[int, dict[str, Any]]:
        """What the manifest says of them."""
        return {**processes_of(self.plan), SECOND_TAP: {"role": "tap"}}

    def topics(self) -> dict[int, str]:
        """By their numbers."""
        return {TOPIC: "load", TXN_TOPIC: "transfers"}

    def pace(self, count: int) -> int:
        """From one to the next of so many that are spread over the load."""
        return (self.plan.end_ns - START_NS - 10 * MS) // max(1, count)

    @cached_property
    def everybody(self) -> int:
        """Producers and consumers."""
        return 2 * self.plan.clients

    def refreshed(self, numbers: Numbers, op: Numbers, partitions: Numbers, **columns: Any) -> Rows:
        """Metadata, a row for each partition, told to one client after the other."""
        return make_rows(
            Kind.EXCHANGE, len(numbers), process=SECOND_TAP, counter=numbers, op=(SECOND_TAP << ID_BITS) + op,
            type=Type.OK, api=Api.METADATA, api_version=12, error=0, topic=TOPIC, partition=partitions, **columns,
        )  # fmt: skip

    def names(self, client: Numbers) -> Numbers:
        """The client ids of producers, then of consumers."""
        of_producers, of_consumers = TEXT["tidegauge-producer-10"], TEXT["tidegauge-consumer-20"] - self.plan.clients
        return client + np.where(client < self.plan.clients, of_producers, of_consumers)
