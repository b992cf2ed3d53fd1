"""Disputed leaders, and refusals: nodes never agree on who leads, or send clients away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from bench.history_plan import (
    MS,
    RUN,
    START_NS,
    blocks,
)
from bench.sick.load import SickLoad
from bench.sick.rows import TEXT, null, only, where
from harness.foundation.protocol import Api, ErrorCode
from harness.history.schema import OffsetView
from harness.history.sources import Rows


class DisputedLeaders(SickLoad):
    """Half of the events are answers to Metadata, of three nodes in turn that never agree."""

    SHARE = 0.5

    def beside(self) -> Iterator[Rows]:
        """Four sorts of partitions: epochs stay, rise when all were asked or at every refresh, or are heard of late."""
        plan = self.plan
        refreshes = self.extra // plan.partitions + 1
        pace, late = self.pace(refreshes), refreshes // 6
        for numbers in blocks(self.extra):
            refresh, partitions = numbers // plan.partitions, numbers % plan.partitions
            node, turn = refresh % 3 + 1, refresh // 3
            epoch = np.choose(partitions % 4, [0 * turn, turn, refresh, np.maximum(0, refresh - late * (node - 1))])
            invoked = START_NS + refresh * pace
            yield self.refreshed(
                numbers, refresh, partitions, invoked=invoked, time=invoked + MS, node=node,
                client=self.names(refresh % self.everybody), connection=refresh % self.everybody, count=2,
                leader=(node + turn + partitions) % 3 + 1, leader_epoch=epoch,
                brokers=np.array([TEXT["1,3"], TEXT["1,2"], TEXT["2,3"]])[node - 1], isr=TEXT["1,2,3"],
            )  # fmt: skip


class Refusals(SickLoad):
    """Two thirds of the events are refusals, or refreshes that change nothing."""

    SHARE = 0.3
    AT_ONCE: ClassVar[int] = 20  # refusals of one client before it asks again who leads

    def beside(self) -> Iterator[Rows]:
        """Refusals to one client and its refresh, then those of the next."""
        plan, width = self.plan, self.AT_ONCE + self.plan.partitions
        pace = self.pace(self.extra)
        for numbers in blocks(self.extra):
            turn, inside = numbers // width, numbers % width
            refused = inside < self.AT_ONCE
            client = turn % self.everybody
            own = client % plan.clients + plan.clients * (inside % (plan.partitions // plan.clients))
            partitions = np.where(refused, own, inside - self.AT_ONCE)
            op = np.where(refused, numbers, turn * width + self.AT_ONCE)
            invoked = START_NS + op * pace
            leader, epoch = plan.leader(partitions, invoked)
            rows = self.refreshed(
                numbers, op, partitions, invoked=invoked, time=invoked + pace, connection=client,
                client=self.names(client), node=np.where(refused, leader, turn % 3 + 1), leader_epoch=epoch,
                **only(~refused, leader=leader, brokers=TEXT["1,2,3"], isr=TEXT["1,2,3"], count=3),
            )  # fmt: skip
            self._refuse(rows, refused, client < plan.clients)
            yield rows

    def _refuse(self, rows: Rows, refused: Any, sends: Any) -> None:
        """Make refusals of some rows: to producers the batch that is next, to consumers what lies there."""
        plan, partitions = self.plan, rows["partition"].astype(np.int64)
        offset = plan.watermark(partitions, rows["invoked"])
        refusal = self._exchange(offset // RUN * plan.partitions + partitions, rows["invoked"])
        rows["api"] = np.where(refused, np.where(sends, Api.PRODUCE, Api.FETCH), Api.METADATA)
        rows["error"] = np.where(refused, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
        of_batch = {name: refusal[name] for name in ("sequence", "crc", "count")}
        of_batch |= {"acks": -1, "producer_id": plan.producer(partitions), "producer_epoch": 0}
        where(rows, refused & sends, leader_epoch=null("leader_epoch"), **of_batch)
        where(rows, refused & ~sends, asked=offset, view=OffsetView.LATEST, count=0)
