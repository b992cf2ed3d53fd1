"""A rule at work: what it matches, whose turn it is, and what it does to those."""

from __future__ import annotations

import asyncio
import fnmatch
import random
import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from harness.foundation.frame_skim import Garbled
from harness.foundation.protocol import Api
from harness.tap import rule_names
from harness.tap.codec import PartitionPart
from harness.tap.effects import CHANGED, NOTHING, Answer, Close, Delay, Drop, Duplicate, Effects, Hold, Swap
from harness.tap.exchange import Bend, Exchange
from harness.tap.fetch_sessions import sessionless
from harness.tap.rules import Rule
from harness.tap.stale_answers import FirstAnswers

BY_PARTITION = frozenset({Api.PRODUCE, Api.FETCH, Api.LIST_OFFSETS})  # what `answer_part` is for
LENGTH_BYTES = 4


class CannotAnswer(Exception):
    """The version on the wire has no room for the error that a rule wants to answer with."""


class RuleBend(Bend):
    """Carries out one rule."""

    def __init__(self, rule: Rule, seed: int, clock: Callable[[], float]) -> None:
        self.rule = rule
        self.name = rule.title
        self.apis = rule.apis
        self.matched = 0  # exchanges that the rule is about
        self.acted = 0  # those that it did something to
        self.began = clock()
        self.cancelled = False
        self._clock = clock
        self._chance = random.Random(f"{seed}/rule/{self.name}")  # noqa: S311 - repeatable on purpose
        self._nodes, self._partitions = rule.nodes, rule.partitions
        self._client = _pattern(rule.client)
        self._topic = _pattern(rule.topic)
        self._error = None if rule.error is None else rule_names.error_code(rule.error)
        self._picks_parts = bool(rule.topic or self._partitions)
        self._reads_parts = self._picks_parts or self._error is not None or rule.action == "rewrite"
        self._changes = {api: rule_names.changes(api, rule.fields) for api in self.apis} if rule.fields else {}
        self._gate = asyncio.Event()
        self._gone = asyncio.Event()  # it was taken back: what it delays need not wait any longer
        self._always = _always(rule, self._gone)
        self._told = FirstAnswers()
        self._free_at = 0.0  # when a throttled line has room again

    def on_request(self, exchange: Exchange) -> Effects:
        """The client sent this."""
        if self.rule.acts_on != "request" or not self._concerns(exchange):
            return NOTHING
        before = NOTHING
        try:
            if self._picks_parts and exchange.api == Api.FETCH:
                before = sessionless(exchange)
                if any(isinstance(effect, Answer) for effect in before):
                    return before
            parts = self._those(exchange.request_parts()) if self._picks_parts else []
            effects = self._bend(exchange, parts) if parts or not self._picks_parts else NOTHING
        except Garbled:
            return before
        return effects if CHANGED in effects else (*before, *effects)

    def on_response(self, exchange: Exchange) -> Effects:
        """The broker answered this."""
        if self.rule.action == "stale":
            self._learn(exchange)
        if self.rule.acts_on != "response" or not self._concerns(exchange):
            return NOTHING
        try:
            parts = self._those(exchange.response_parts()) if self._reads_parts else []
            if self._error is not None:
                parts = [part for part in parts if rule_names.carries(part.message, self._error, exchange.version)]
                if not (parts or self._carries_elsewhere(exchange, self._error)):
                    return NOTHING
            elif self._picks_parts and not parts:
                return NOTHING
            return self._bend(exchange, parts)
        except Garbled:
            return NOTHING

    def release(self) -> None:
        """Let everything that is held go on, and hold nothing from now on."""
        self._gate.set()

    def cancel(self) -> None:
        """Match nothing from now on, and let go what is held."""
        self.cancelled = True
        self._gone.set()
        self.release()

    @property
    def over(self) -> bool:
        """Whether it will never act again."""
        rule = self.rule
        if self.cancelled or (rule.most is not None and self.acted >= rule.most):
            return True
        if rule.nth is not None and self.matched >= rule.nth:
            return True
        return rule.until is not None and self._clock() - self.began >= rule.until

    def _concerns(self, exchange: Exchange) -> bool:
        """What can be said without decoding anything; the tap has looked at the API."""
        rule = self.rule
        if not exchange.known or (self._nodes and exchange.node not in self._nodes):
            return False
        if self._client is not None and not self._client.match(exchange.client):
            return False
        return not self.over and (not rule.after or self._clock() - self.began >= rule.after)

    def _those(self, parts: Sequence[PartitionPart]) -> list[PartitionPart]:
        """The partitions that the rule is about."""
        topic, partitions = self._topic, self._partitions
        return [
            part
            for part in parts
            if (topic is None or topic.match(part.topic)) and (not partitions or part.partition in partitions)
        ]

    def _carries_elsewhere(self, exchange: Exchange, code: int) -> bool:
        """Whether a response has the error where it is about no partition."""
        if not self._picks_parts:
            return rule_names.carries(exchange.response, code, exchange.version)
        if exchange.api != Api.METADATA or self._partitions or self._topic is None:
            return False
        names = exchange.world.names
        return any(
            topic.error_code == code and self._topic.match(names.of(topic, "name"))
            for topic in exchange.response.topics or ()
        )

    def _bend(self, exchange: Exchange, parts: list[PartitionPart]) -> Effects:
        """It matches: count it, and act if it is its turn."""
        self.matched += 1
        rule = self.rule
        if rule.nth is not None and self.matched != rule.nth:
            return NOTHING
        if rule.every is not None and self.matched % rule.every:
            return NOTHING
        if rule.probability is not None and self._chance.random() >= rule.probability:
            return NOTHING
        effects = self._effects(exchange, parts)
        self.acted += bool(effects)
        return effects

    def _effects(self, exchange: Exchange, parts: list[PartitionPart]) -> Effects:
        match self.rule.action:
            case "delay":
                effects = self._delay()
            case "throttle":
                effects = self._throttle(exchange)
            case "hold":
                effects = self._hold()
            case "answer":
                effects = self._answer(exchange, parts)
            case "rewrite":
                effects = self._rewrite(exchange, parts)
            case "stale":
                effects = self._recall(exchange)
            case _:
                effects = self._always
        return effects

    def _delay(self) -> Effects:
        by, jitter = self.rule.by or 0.0, self.rule.jitter or 0.0
        return (Delay(by + self._chance.uniform(-jitter, jitter) if jitter else by, self._gone),)

    def _hold(self) -> Effects:
        if self._gate.is_set():
            return NOTHING
        then = self.rule.then or "silence"
        if self.rule.at_most is None:
            return (Hold(self._gate, then=then),)
        return (Hold(self._gate, self.rule.at_most, then),)

    def _throttle(self, exchange: Exchange) -> Effects:
        """One line for everything that matches: each waits until those before it are through, and it is itself."""
        frame = exchange.request_frame if self.rule.acts_on == "request" else exchange.response_frame
        assert self.rule.rate is not None  # the rule was checked
        now = self._clock()
        self._free_at = max(now, self._free_at) + (LENGTH_BYTES + len(frame or b"")) / self.rule.rate
        return (Delay(self._free_at - now, self._gone),)

    def _learn(self, exchange: Exchange) -> None:
        """What a node answers to that which the rule is about, for the next one who asks the same."""
        with suppress(Garbled):
            if self._concerns(exchange) and (not self._picks_parts or self._those(exchange.request_parts())):
                self._told.learn(exchange)

    def _recall(self, exchange: Exchange) -> Effects:
        old = self._told.recall(exchange)
        return NOTHING if old is None else (Answer(old, is_old=True),)

    def _answer(self, exchange: Exchange, parts: list[PartitionPart]) -> Effects:
        assert self.rule.with_ is not None  # the rule was checked
        code = rule_names.error_code(self.rule.with_)
        if not exchange.expects_response:
            return (Drop("close"),)  # as brokers refuse a send that nobody waits for
        if not parts or exchange.api not in BY_PARTITION:
            try:
                return (Answer(exchange.error_response(code)),)
            except Garbled as error:
                raise CannotAnswer(str(error)) from error
        for part in parts:
            exchange.answer_part(part, error_code=code)
        return (CHANGED,)

    def _rewrite(self, exchange: Exchange, parts: list[PartitionPart]) -> Effects:
        changed = False
        for change in self._changes[exchange.api]:
            for message in [part.message for part in parts] if change.of_partition else [exchange.response]:
                changed |= change.apply(message, exchange.version)
        return (CHANGED,) if changed else NOTHING


def _pattern(written: str) -> re.Pattern[str] | None:
    return re.compile(fnmatch.translate(written)) if written else None


def _always(rule: Rule, gone: asyncio.Event) -> Effects:
    """The effects of actions that are the same for every exchange."""
    match rule.action:
        case "drop-request" | "drop-response":
            return (Drop(rule.then or "silence"),)
        case "duplicate-request":
            return (Duplicate(),)
        case "reorder":
            return (Swap() if rule.at_most is None else Swap(rule.at_most),)
        case "close" | "reset":
            return (Close(rule.action == "reset", None if rule.by is None else Delay(rule.by, gone)),)
    return NOTHING
