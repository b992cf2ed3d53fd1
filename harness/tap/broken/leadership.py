"""Brokers that are wrong about who leads, coordinates and belongs to the cluster, or that do not serve a partition."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.foundation.protocol import Api, ErrorCode
from harness.tap.batches import cut, split
from harness.tap.bounded_dict import BoundedDict
from harness.tap.broken.base import (
    Broken,
    FetchBend,
    Place,
    concerns,
    data_request_parts,
    data_response_parts,
    idle,
    put_records,
)
from harness.tap.codec import PartitionPart
from harness.tap.effects import CHANGED, NOTHING, Answer, Effect, Effects, Hold
from harness.tap.exchange import Exchange
from harness.tap.fetch_sessions import sessionless


class KnownLeaders:
    """Who really leads, learnt from the Metadata that passes."""

    def __init__(self) -> None:
        self._leaders: BoundedDict[Place, int] = BoundedDict()

    def learn(self, exchange: Exchange) -> None:
        """From an answer that nobody changed yet."""
        for part in exchange.response_parts():
            if part.message.leader_id >= 0:
                self._leaders[part.topic, part.partition] = part.message.leader_id

    def of(self, place: Place) -> int | None:
        """The leader, when somebody said it."""
        return self._leaders.get(place)

    def other(self, place: Place, exchange: Exchange) -> int | None:
        """The first node that does not lead; None when the leader is not known or alone."""
        leader = self._leaders.get(place)
        if leader is None:
            return None
        return next((node for node in exchange.world.node_ids if node != leader), None)


def is_answered(effects: Effects) -> bool:
    """Whether the request is done with."""
    return any(isinstance(effect, Answer) for effect in effects)


def without_hints(exchange: Exchange) -> Effects:
    """Take out of an answer who leads instead: newer clients would go there without asking for Metadata."""
    changed = False
    response = exchange.response
    if getattr(response, "node_endpoints", None):
        response.node_endpoints = []
        changed = True
    for part in exchange.response_parts():
        leader = getattr(part.message, "current_leader", None)
        if leader is not None and leader.leader_id >= 0:
            leader.leader_id = leader.leader_epoch = -1
            changed = True
    return (CHANGED,) if changed else NOTHING


class MetadataListsSelfOnly(Broken):
    """Each node lists itself as the only broker, and as leader of everything; clients go in circles with NOT_LEADER."""

    name = "metadata-lists-self-only"
    apis = frozenset({Api.METADATA, Api.DESCRIBE_CLUSTER, Api.PRODUCE, Api.FETCH})

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._leaders = KnownLeaders()

    def on_request(self, exchange: Exchange) -> Effects:
        """Followers would serve the fetches of newer clients."""
        effects = sessionless(exchange)
        if exchange.api != Api.FETCH or is_answered(effects):
            return effects
        for place, part in data_request_parts(exchange).items():
            if self._leaders.of(place) not in {None, exchange.node}:
                exchange.answer_part(part, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
                effects = (CHANGED,)
        return (*effects, *idle(exchange)) if exchange.nothing_left else effects

    def on_response(self, exchange: Exchange) -> Effects:
        """Nobody but this node."""
        if exchange.api in {Api.PRODUCE, Api.FETCH}:
            return without_hints(exchange)
        response, node = exchange.response, exchange.node
        if node not in exchange.world.nodes:  # a tap that does not know yet whom it stands for
            return NOTHING
        response.controller_id = node
        if exchange.api == Api.DESCRIBE_CLUSTER:
            response.brokers = [broker for broker in response.brokers if broker.broker_id == node]
            return (CHANGED,)
        self._leaders.learn(exchange)
        response.brokers = [broker for broker in response.brokers if broker.node_id == node]
        for part in exchange.response_parts():
            if concerns(part.topic) and part.message.leader_id >= 0:
                part.message.leader_id = node
        return (CHANGED,)


class NotLeaderForever(Broken):
    """Every node answers NOT_LEADER_OR_FOLLOWER for one partition, while Metadata goes on naming its leader."""

    name = "not-leader-forever"
    argument = "partition"
    apis = frozenset({Api.PRODUCE, Api.FETCH})

    def on_request(self, exchange: Exchange) -> Effects:
        """The broker is not even asked."""
        effects = sessionless(exchange)
        if is_answered(effects) or not exchange.expects_response:
            return effects
        for (_, partition), part in data_request_parts(exchange).items():
            if partition == self.number:
                exchange.answer_part(part, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
                effects = (CHANGED,)
        return (*effects, *idle(exchange)) if exchange.api == Api.FETCH and exchange.nothing_left else effects


class FetchHangs(FetchBend):
    """A Fetch of one partition at offset 100 or later is never answered although there is data."""

    name = "fetch-hangs"
    argument = "partition"
    apis = frozenset({Api.FETCH})
    from_offset = 100
    at_most_s = 3_600.0  # no client waits as long

    def on_response(self, exchange: Exchange) -> Effects:
        """Hold it for a gate that nobody opens."""
        questions = data_request_parts(exchange)
        for place, answer in data_response_parts(exchange):
            at = questions[place].message.fetch_offset if place in questions else -1
            if place[1] == self.number and at >= self.from_offset and answer.records:
                return (Hold(asyncio.Event(), self.at_most_s),)
        return super().on_response(exchange)

    def fetched(self, exchange: Exchange, place: Place, question: PartitionPart, answer: Any) -> bool:  # noqa: ARG002
        """What is before that offset ends there, so that every reader comes to ask for the rest."""
        batches = split(answer.records)
        if place[1] != self.number or not any(
            batch.whole and batch.next_offset > self.from_offset for batch in batches
        ):
            return False
        put_records(answer, [kept for batch in batches if (kept := cut(batch, self.from_offset)) is not None])
        return True


class SlowPartition(FetchBend):
    """One partition hands out at most one batch a second to a client, though its watermark is right."""

    name = "slow-partition"
    argument = "partition"
    default = 2
    apis = frozenset({Api.FETCH})
    pause_s = 1.0

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._next: BoundedDict[tuple[str, Place], float] = BoundedDict()

    def fetched(self, exchange: Exchange, place: Place, question: PartitionPart, answer: Any) -> bool:  # noqa: ARG002
        """One batch or none."""
        if place[1] != self.number or not answer.records:
            return False
        now = self.clock()
        if now < self._next.get((exchange.client, place), now):
            answer.records = b""
            return True
        self._next[exchange.client, place] = now + self.pause_s
        batches = split(answer.records)
        put_records(answer, batches[:1])
        return len(batches) > 1


class AnswersAsLeader(Broken):
    """A node that does not lead a partition answers Fetch and ListOffsets as if it did, with offset 0 and no records.

    For each partition it is the first node that does not lead it, and its Metadata names itself as the leader.
    """

    name = "answers-as-leader"
    apis = frozenset({Api.METADATA, Api.FETCH, Api.LIST_OFFSETS})

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._leaders = KnownLeaders()

    def on_request(self, exchange: Exchange) -> Effects:
        """Answer what the real node would refuse, or give as a follower."""
        if exchange.api == Api.METADATA:
            return NOTHING
        effects = sessionless(exchange)
        if is_answered(effects):
            return effects
        for place, part in data_request_parts(exchange).items():
            if self._leaders.other(place, exchange) != exchange.node:
                continue
            effects = (CHANGED,)
            if exchange.api == Api.FETCH:
                exchange.answer_part(part, high_watermark=0, last_stable_offset=0, log_start_offset=0, records=b"")
            else:
                exchange.answer_part(part, offset=0, old_style_offsets=[0])
        if exchange.api == Api.FETCH and exchange.nothing_left:
            return (*effects, *idle(exchange))
        return effects

    def on_response(self, exchange: Exchange) -> Effects:
        """Its own Metadata sends clients to it."""
        if exchange.api != Api.METADATA:
            return NOTHING
        self._leaders.learn(exchange)
        effects: list[Effect] = []
        for part in exchange.response_parts():
            if concerns(part.topic) and self._leaders.other((part.topic, part.partition), exchange) == exchange.node:
                part.message.leader_id = exchange.node
                effects = [CHANGED]
        return effects


class CoordinatorLies(Broken):
    """Every node names itself as the coordinator of every group and transaction."""

    name = "coordinator-lies"
    apis = frozenset({Api.FIND_COORDINATOR})

    def on_response(self, exchange: Exchange) -> Effects:
        """Itself, at its own address."""
        if exchange.node not in exchange.world.nodes:
            return NOTHING
        lists = exchange.version >= 4
        changed = False
        for found in exchange.response.coordinators if lists else [exchange.response]:
            if found.error_code == ErrorCode.NONE and found.node_id != exchange.node:
                found.node_id = exchange.node
                found.host, found.port = exchange.world.nodes[exchange.node]
                changed = True
        return (CHANGED,) if changed else NOTHING
