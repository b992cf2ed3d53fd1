"""Faults of clocks: a node's time is another than that of the rest.

What time it is to a node is seen from outside: it stamps what is appended to a topic of the fault's own, which no other
node has a replica of.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record import MemoryRecordsBuilder

from harness.clusters.admin_calls import CREATE_TOPICS, DELETE_TOPICS
from harness.clusters.node import Capability, NodeState
from harness.clusters.waiting import wait_until
from harness.clusters.wire import NodeConnection, WireError
from harness.foundation.protocol import ErrorCode
from nemesis.admin.asking import until_done
from nemesis.admin.topics import creation, deletion
from nemesis.base import Aim, Fault, FaultContext, FaultEvidence
from nemesis.roles import NODE_ROLES, ChosenNodes, choose

PRODUCE_VERSION = 7
ASK_TIMEOUT_S = 3.0
SET_TIMEOUT_S = 5.0  # from the setting of a clock until the node goes by it
FELT_PART = 0.8  # of the difference
RIGHT_S = 1.0  # a clock that is off by less is right
SETTINGS = {"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "1"}


class ClockSkew(Fault):
    """The clock of one node goes ahead of that of the others, or behind."""

    name = "clock-skew"
    description = "sets the clock of a node ahead or back"
    needs = frozenset({Capability.CLOCK, Capability.ADMIN})
    calls = frozenset({CREATE_TOPICS, DELETE_TOPICS})
    roles = NODE_ROLES
    options: ClassVar = {"by": 60.0}
    tame = False

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> str:
        """So little that the clock counts as right."""
        by = options.get("by")
        return f"'{cls.name}' is by {RIGHT_S:g} s at least" if by is not None and by < RIGHT_S else ""

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._chosen: ChosenNodes | None = None
        self._ahead_s = 0.0
        self._is_set = False  # by us, perhaps
        self._seen_right = False  # after the undo
        self._tries = 0  # to undo it

    @property
    def _node(self) -> int:
        return self.aimed(self._chosen).nodes[0]

    @property
    def _topic(self) -> str:
        return f"tidegauge-clock-{self.context.tag}"

    def aim(self) -> Aim | None:
        """A node in its role; ahead or back is up to chance."""
        self._chosen = chosen = choose(self.context, self.context.look())
        if chosen is None:
            return None
        self._ahead_s = self.context.rng.choice((1, -1)) * float(self.context.options["by"])
        led = chosen.victim if chosen.victim and chosen.victim.node == chosen.node else None
        return Aim(f"the clock of {chosen.called} is set {_called(self._ahead_s)}", led, chosen.node)

    def inject(self) -> None:
        """The topic by which it is seen, and then the clock."""
        create = creation(self._topic, {0: (self._node,)}, SETTINGS)
        until_done(
            self.context.cluster, f"creating {self._topic}", create, {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
        )
        self._is_set = True
        self.context.cluster.set_clock(self._node, self._ahead_s)

    def proof(self) -> FaultEvidence | None:
        """The time by which the node stamps a record."""
        seen_s = self._seen_ahead_s()
        if seen_s is None or seen_s * self._ahead_s <= 0 or abs(seen_s) < FELT_PART * abs(self._ahead_s):
            return None
        return FaultEvidence(
            f"node {self._node} stamps records with a time {seen_s:+.1f} s off that of this machine", self._node
        )

    def undo(self) -> None:
        """Set right; the topic is deleted when that was seen, or the second time in any case."""
        self._tries += 1
        self.context.cluster.set_clock(self._node, 0)
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not self._what_is_off(), SET_TIMEOUT_S, f"the clock of node {self._node} is off")
        if self._seen_right or self._tries > 1:
            self._delete_topic()

    def healed(self) -> str:
        """The clock is right, by another look if it was not before."""
        was_right = self._seen_right
        off = self._what_is_off()
        if not off and not was_right:
            self._delete_topic()
        return off

    def _what_is_off(self) -> str:
        """Nothing once the clock was seen to be right; a node that is dead will go by it when it starts."""
        seen_s = 0.0 if self._seen_right or not self._is_set else self._seen_ahead_s()
        if seen_s is None and self.context.cluster.state(self._node) is not NodeState.DEAD:
            return f"the clock of node {self._node} cannot be seen"
        if seen_s is not None and abs(seen_s) >= RIGHT_S:
            return f"the clock of node {self._node} is still {_called(seen_s)}"
        self._seen_right = True
        return ""

    def _delete_topic(self) -> None:
        until_done(
            self.context.cluster,
            f"deleting {self._topic}",
            deletion(self._topic),
            {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        )

    def _seen_ahead_s(self) -> float | None:
        """How far the node's clock is ahead by its own stamp; None when it gives none."""
        before_ms = time.time() * 1000
        stamp_ms = append(self.context.cluster.node(self._node).address, self._topic)
        after_ms = time.time() * 1000
        return None if stamp_ms is None else (stamp_ms - (before_ms + after_ms) / 2) / 1000


def append(address: str, topic: str) -> int | None:
    """Append a record to partition 0 through this node; the time it was stamped with, None when it was not appended."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1024)
    builder.append(timestamp=int(time.time() * 1000), key=None, value=b"clock")
    builder.close()
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=int(ASK_TIMEOUT_S * 1000), topic_data=[])
    data = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(index=0, records=builder.buffer())
    request.topic_data.append(data(name=topic, partition_data=[part]))
    try:
        with NodeConnection(address, ASK_TIMEOUT_S) as connection:
            answer = connection.ask(request, ProduceResponse, PRODUCE_VERSION)
    except WireError:
        return None
    (result,) = answer.responses[0].partition_responses
    return None if result.error_code or result.log_append_time_ms < 0 else int(result.log_append_time_ms)


def _called(ahead_s: float) -> str:
    return f"{abs(ahead_s):g} s {'ahead' if ahead_s > 0 else 'back'}"


FAULTS: tuple[type[Fault], ...] = (ClockSkew,)
