"""Rules: what a scenario has the tap do to exchanges, in words that a Kafka engineer reads aloud.

    [[tap.rule]]
    api    = "Produce"
    topic  = "orders"
    nth    = 5
    action = "drop-response"
    then   = "close"

*The fifth Produce to orders: drop the response, then close the connection.* A rule says which exchanges it is about,
how many of them it takes, and what happens to those. docs/tap.md has all keys and actions.

A rule acts on one side: on requests before the broker gets them, or on responses before the client does. There it looks
at what it names, cheapest first: the API, the node, the client and the time, and only then at partitions and errors,
for which the message has to be decoded. What matches all of that is counted, and `nth`, `every`, `probability` and
`times` are about this count. An exchange that cannot be decoded never matches what decoding is needed for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from harness.foundation.config import Model
from harness.foundation.durations import Duration
from harness.foundation.errors import UsageError
from harness.tap import rule_names
from harness.tap.codec import API_NAMES, CODECS
from harness.tap.effects import Then

if TYPE_CHECKING:
    from harness.tap.rule_bend import RuleBend

Side = Literal["request", "response"]
Action = Literal[
    "delay", "throttle", "hold", "drop-request", "drop-response", "duplicate-request", "reorder", "close", "reset",
    "answer", "rewrite", "stale",
]  # fmt: skip


@dataclass(frozen=True)
class _Kind:
    """What one action is like."""

    side: Side | None  # None: the rule says which
    takes: frozenset[str] = frozenset()  # its own keys
    needs: frozenset[str] = frozenset()  # those of them that must be there
    of_everything: bool = False  # it makes sense without an API


ACTIONS: dict[str, _Kind] = {
    "delay": _Kind(None, frozenset({"by", "jitter", "side"}), frozenset({"by"}), of_everything=True),
    "throttle": _Kind(None, frozenset({"rate", "side"}), frozenset({"rate", "side"}), of_everything=True),
    "hold": _Kind(None, frozenset({"at_most", "side", "then"}), of_everything=True),
    "drop-request": _Kind("request", frozenset({"then"})),
    "drop-response": _Kind("response", frozenset({"then"})),
    "duplicate-request": _Kind("request"),
    "reorder": _Kind("request", frozenset({"at_most"})),
    "close": _Kind("request", frozenset({"by"}), of_everything=True),
    "reset": _Kind("request", frozenset({"by"}), of_everything=True),
    "answer": _Kind("request", frozenset({"with_"}), frozenset({"with_"})),
    "rewrite": _Kind("response", frozenset({"fields"}), frozenset({"fields"})),
    "stale": _Kind("request"),
}
_OWN_KEYS = frozenset().union(*(kind.takes for kind in ACTIONS.values()))


def _many(written: Any) -> tuple[Any, ...]:
    """One or a list of them."""
    return tuple(written) if isinstance(written, list | tuple) else (written,)


def _one_or_more(kind: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind}, {"type": "array", "items": {"type": kind}}]})


Apis = Annotated[
    str | tuple[str, ...],
    BeforeValidator(lambda written: tuple(rule_names.api_name(each) for each in _many(written))),
    _one_or_more("string"),
]
Number = Annotated[int, Field(ge=0)]
Numbers = Annotated[Number | tuple[Number, ...], BeforeValidator(_many), _one_or_more("integer")]
Error = Annotated[
    str | int,
    BeforeValidator(rule_names.error_name),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
]
Rate = Annotated[
    int,
    BeforeValidator(rule_names.bytes_per_second),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}], "description": "Bytes per second, or 64KiB."}),
]


class Rule(Model):
    """Which exchanges, how many of them, and what happens to those."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    action: Annotated[Action, Field(description="What happens.")]
    name: Annotated[str, Field(description="Name in the history; default: action and API.", pattern="^[^,\n]*$")] = ""

    api: Annotated[Apis, Field(description="Kafka's name of the request, or several.")] = ()
    node: Annotated[Numbers, Field(description="The broker that is asked, or several.")] = ()
    client: Annotated[str, Field(description="The client id; * and ? are wildcards.")] = ""
    topic: Annotated[str, Field(description="A topic of the exchange; * and ? are wildcards.")] = ""
    partition: Annotated[Numbers, Field(description="A partition of the exchange, or several.")] = ()
    error: Annotated[Error | None, Field(description="Only responses with this error, by name or number.")] = None
    after: Annotated[Duration, Field(description="Not before this time after the tap began.")] = 0.0
    until: Annotated[Duration | None, Field(description="Not from this time on after the tap began.")] = None

    nth: Annotated[int | None, Field(ge=1, description="Only the nth match, from 1.")] = None
    every: Annotated[int | None, Field(ge=1, description="Each so-manieth of those that match.")] = None
    probability: Annotated[float | None, Field(gt=0, le=1, description="How likely it acts on each of those.")] = None
    times: Annotated[
        Annotated[int, Field(ge=1)] | Literal["once", "always"], Field(description="How often it acts at most.")
    ] = "always"

    side: Annotated[Side | None, Field(description="Of delay, throttle and hold: which way.")] = None
    by: Annotated[Duration | None, Field(description="Of delay, close and reset: how long.")] = None
    jitter: Annotated[Duration | None, Field(description="Of delay: up to so much less or more.")] = None
    rate: Annotated[Rate | None, Field(description="Of throttle: bytes per second for all that match.")] = None
    at_most: Annotated[Duration | None, Field(description="Of hold and reorder: how long at most.")] = None
    then: Annotated[Then | None, Field(description="Of drops and hold: what becomes of the connection.")] = None
    with_: Annotated[Error | None, Field(alias="with", description="Of answer: the error, by name or number.")] = None
    fields: Annotated[
        dict[str, bool | int | str] | None, Field(description="Of rewrite: new values, or '+5' and '-5' to move one.")
    ] = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        self._check_keys()
        self._check_counts()
        self._check_apis()
        return self

    @property
    def title(self) -> str:
        """Its name, or what it does to what."""
        return self.name or f"{self.action} {'+'.join(_many(self.api)) or 'everything'}"

    @property
    def acts_on(self) -> Side:
        """Whether it acts on requests or on responses."""
        return ACTIONS[self.action].side or self.side or "request"

    @property
    def apis(self) -> frozenset[int]:
        """The numbers of its APIs; all that are known when it names none."""
        return frozenset(API_NAMES[name] for name in _many(self.api)) or frozenset(CODECS)

    @property
    def nodes(self) -> frozenset[int]:
        """The nodes it is about; none for all of them."""
        return frozenset(_many(self.node))

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions it is about; none for all of them."""
        return frozenset(_many(self.partition))

    @property
    def most(self) -> int | None:
        """How often it acts at most; None when there is no end."""
        if self.nth is not None or self.times == "once":
            return 1
        return None if self.times == "always" else self.times

    def bend(self, seed: int, clock: Callable[[], float] = time.monotonic) -> RuleBend:
        """The rule at work, from now on; its chances come from the seed and its name."""
        from harness.tap.rule_bend import RuleBend

        return RuleBend(self, seed, clock)

    def _check_keys(self) -> None:
        kind = ACTIONS[self.action]
        given = {key for key in _OWN_KEYS if getattr(self, key) is not None}
        for key in sorted(given - kind.takes):
            takers = [name for name, other in ACTIONS.items() if key in other.takes]
            raise ValueError(
                f"'{_written(key)}' does not belong to the action '{self.action}': leave it out "
                f"(it belongs to {', '.join(takers)})"
            )
        for key in sorted(kind.needs - given):
            raise ValueError(f"the action '{self.action}' needs '{_written(key)}': {_HOW[key]}")
        if self.jitter is not None and self.by is not None and self.jitter > self.by:
            raise ValueError("'jitter' is larger than 'by': nothing can wait for less than no time")
        if self.action == "hold" and self.then is not None and self.acts_on == "response":
            raise ValueError("'then' of hold is about requests: what is held for a client that is gone reaches nobody")
        if self.error is not None and self.acts_on == "request":
            remedy = "add side = 'response'" if "side" in kind.takes else "choose an action on responses"
            raise ValueError(f"'error' looks at responses and '{self.action}' acts on requests: {remedy}")

    def _check_counts(self) -> None:
        if self.nth is not None and self.every is not None:
            raise ValueError("'nth' is one exchange and 'every' are many: leave one of them out")
        if self.nth is not None and self.times not in {"always", "once", 1}:
            raise ValueError(f"'nth' acts on one exchange, and not {self.times} times: write every = {self.nth}")
        if self.until is not None and self.until <= self.after:
            raise ValueError(f"'until' ({self.until:g} s) must be later than 'after' ({self.after:g} s)")

    def _check_apis(self) -> None:
        if not self.api:
            if self.topic or self.partitions or self.error is not None:
                raise ValueError("'topic', 'partition' and 'error' need an 'api': not all requests have them")
            if not ACTIONS[self.action].of_everything:
                raise ValueError(f"'{self.action}' needs an 'api': write for example api = 'Produce'")
        asked = self.acts_on == "request"
        with_topics = rule_names.TOPICS_ASKED if asked else rule_names.PARTITIONS_TOLD
        with_partitions = rule_names.PARTITIONS_ASKED if asked else rule_names.PARTITIONS_TOLD
        for name in _many(self.api):
            api = API_NAMES[name]
            for key, given, able in (
                ("topic", self.topic, with_topics),
                ("partition", self.partitions, with_partitions),
            ):
                if given and api not in able:
                    known = ", ".join(sorted(CODECS[each].name for each in able))
                    raise ValueError(
                        f"the {self.acts_on} of {name} names no {key}: leave out '{key}', or choose from {known}"
                    )
            if self.action == "answer" and not rule_names.can_refuse(api):
                raise ValueError(f"{name} cannot be answered with an error as a whole: choose another action or API")
            if self.fields is not None:
                rule_names.changes(api, self.fields)
        if self.fields is not None and not self.fields:
            raise ValueError(f"'fields' is empty: {_HOW['fields']}")


_HOW = {
    "by": "write for example by = '300ms'",
    "rate": "write for example rate = '64KiB'",
    "side": "write 'request' for what clients send, 'response' for what brokers answer",
    "with_": "write the name or number of an error, for example with = 'NOT_LEADER_OR_FOLLOWER'",
    "fields": "write for example fields = { high_watermark = 100 }",
}


def _written(key: str) -> str:
    return key.removesuffix("_")


def _with_names_of_their_own(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    titles = [rule.title for rule in rules]
    for title in titles:
        if titles.count(title) > 1:
            raise ValueError(f"two rules are named '{title}': give each a 'name' of its own")
    return rules


Rules = Annotated[tuple[Rule, ...], AfterValidator(_with_names_of_their_own)]


def bends(rules: Iterable[Rule], seed: int, clock: Callable[[], float] = time.monotonic) -> list[RuleBend]:
    """All rules at work, in their order."""
    rules = tuple(rules)
    try:
        _with_names_of_their_own(rules)
    except ValueError as error:
        raise UsageError("the rules of the tap do not go together", str(error)) from None
    return [rule.bend(seed, clock) for rule in rules]
