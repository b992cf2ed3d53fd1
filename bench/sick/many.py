"""Healthy, but with very many names: groups, topics, or leader epochs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from bench.history_plan import FIRST_CONSUMER, MS, PROBE, START_NS, TOPIC, blocks, make_rows
from bench.sick.load import SickLoad
from bench.sick.rows import GROUPS, STRANGE_TOPIC, TEXT, Streams, null
from harness.foundation.protocol import Api
from harness.history.schema import ID_BITS, F, Kind, OffsetView, Type
from harness.history.sources import Rows


class ManyGroups(SickLoad):
    """A consumer of the load subscribes to one group after the other, and commits in each what it was handed first."""

    PARTITIONS = 1_000
    SHARE = 0.5
    MEMBER: ClassVar[int] = FIRST_CONSUMER
    EVENTS_OF_A_COMMIT: ClassVar[int] = 2

    def streams(self) -> Streams:
        """With those groups."""
        streams = super().streams()
        for kind in (Kind.INVOKE, Kind.COMPLETE):
            streams[kind] += [self._in_groups(kind)]
        return streams

    def _in_groups(self, kind: Kind) -> Iterator[Rows]:
        """Every group is subscribed to in its first turn; from the second half of the load on they commit."""
        count = self.extra // self.EVENTS_OF_A_COMMIT
        groups = max(1, min(GROUPS, count // 2))
        pace = self.pace(count)
        for numbers in blocks(count):
            subscribes = numbers < groups
            invoked = START_NS + 5 * MS + numbers * pace
            own = numbers // groups * self.plan.clients % self.PARTITIONS
            said = np.where(subscribes, null("topic"), TOPIC), np.where(subscribes, null("partition"), own)
            yield make_rows(
                kind, len(numbers), process=self.MEMBER, op=(self.MEMBER << ID_BITS) + (1 << 30) + numbers,
                counter=(1 << 34) + 2 * numbers + (kind is Kind.COMPLETE), type=Type.OK, error=0,
                f=np.where(subscribes, F.SUBSCRIBE, F.COMMIT), invoked=invoked, time=invoked + MS, topic=said[0],
                partition=said[1], offset=np.where(subscribes, null("offset"), 1),
                name=TEXT["group-0"] + numbers % groups,
            )  # fmt: skip


class ManyTopics(SickLoad):
    """Probes ask for 100,000 topics beside that of the load, in which nothing is."""

    SHARE = 0.5
    TOPICS: ClassVar[int] = 100_000
    ASKER: ClassVar[int] = PROBE + 1

    def streams(self) -> Streams:
        """With those probes."""
        streams = super().streams()
        streams[Kind.PROBE].append(self._asked())
        return streams

    def topics(self) -> dict[int, str]:
        """With theirs."""
        return super().topics() | {STRANGE_TOPIC + n: f"topic-{n}" for n in range(self.TOPICS)}

    def processes(self) -> dict[int, dict[str, Any]]:
        """Another one asks for them."""
        return super().processes() | {self.ASKER: {"role": "probe"}}

    def _asked(self) -> Iterator[Rows]:
        pace = self.pace(self.extra)
        for numbers in blocks(self.extra):
            sort, turn = numbers % 3, numbers // 3
            topic = STRANGE_TOPIC + turn % self.TOPICS
            api = np.array([Api.FETCH, Api.LIST_OFFSETS, Api.METADATA])[sort]
            invoked, leader = START_NS + numbers * pace, topic % 2 + 2
            metadata = api == Api.METADATA
            cut = (invoked >= self.plan.fault_ns[0]) & (invoked < self.plan.fault_ns[1])
            asked = turn // self.TOPICS % 3 + 1
            brokers = np.where(metadata, np.where(cut, TEXT["2,3"], TEXT["1,2,3"]), null("brokers"))
            shown = {"high_watermark": api == Api.FETCH, "last_stable_offset": api == Api.FETCH,
                     "log_start": api == Api.FETCH, "offset": api == Api.LIST_OFFSETS}  # fmt: skip
            yield make_rows(
                Kind.PROBE, len(numbers), process=self.ASKER, counter=numbers, invoked=invoked, time=invoked + MS,
                api=api, topic=topic, partition=0, error=0, leader_epoch=0,
                node=np.where(metadata, np.where(cut & (asked == 1), 2, asked), leader),
                view=np.where(api == Api.LIST_OFFSETS, OffsetView.LATEST, null("view")),
                leader=np.where(metadata, leader, null("leader")), brokers=brokers, isr=brokers,
                count=np.where(metadata, 3, null("count")),
                **{name: np.where(here, 0, null(name)) for name, here in shown.items()},
            )  # fmt: skip


class ManyEpochs(SickLoad):
    """Nine tenths of the events are answers to Metadata about a topic whose leaders change all the time."""

    SHARE = 0.1
    CLAIMS: ClassVar[int] = 9  # of an epoch

    def topics(self) -> dict[int, str]:
        """With that topic."""
        return super().topics() | {STRANGE_TOPIC: "moved"}

    def beside(self) -> Iterator[Rows]:
        """All nodes in turn, and they agree."""
        plan = self.plan
        refreshes = self.extra // plan.partitions + 1
        pace = self.pace(refreshes)
        for numbers in blocks(self.extra):
            refresh, partitions = numbers // plan.partitions, numbers % plan.partitions
            epoch = refresh // self.CLAIMS
            invoked = START_NS + refresh * pace
            rows = self.refreshed(
                numbers, refresh, partitions, invoked=invoked, time=invoked + pace // 2, node=refresh % 3 + 1,
                client=self.names(refresh % self.everybody), connection=refresh % self.everybody, count=3,
                leader=(epoch + partitions) % 3 + 1, leader_epoch=epoch, brokers=TEXT["1,2,3"], isr=TEXT["1,2,3"],
            )  # fmt: skip
            rows["topic"] = STRANGE_TOPIC
            yield rows
