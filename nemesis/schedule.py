"""From a fault plan to slots: what begins when, how long it lasts, and the seed of its choices. No clock, no cluster.

A plan names a fault, or a mix of several of which each turn draws one, and when it comes:

    after, every     first after a while, then every so often
    after, quiet     first after a while, then so long after the end of the one before
    at               at the times of a list

Each turn lasts `for` a while; `for` and `quiet` may be ranges, of which each turn draws its own. Only what ends within
the run becomes a slot. What a turn draws, and the seed of its slot, depend on the run's seed, on the place of the plan
in the list and on the how-manieth of its plan it is, and on nothing else: another plan at the end of the list, or a
longer run, leaves the slots there were as they were.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, WithJsonSchema, model_validator

from harness.foundation.config import Model, parse
from harness.foundation.durations import Duration, seconds
from harness.foundation.errors import UsageError
from harness.tap.rules import Rate

SHORTEST_PERIOD_S = 0.1
RANDOM = "random"  # stands for a mix of everything that is possible
OPTIONS = ("by", "jitter", "period", "probability", "rate", "to")  # what only some faults take (`Fault.options`)
NAMES_IN_A_TITLE = 3
_DURATION = TypeAdapter(Duration).json_schema()


def _span(written: object) -> float | tuple[float, float]:
    """A duration, or the shortest and the longest of a range."""
    if not isinstance(written, list | tuple):
        return seconds(written)
    if len(written) != 2:
        raise ValueError("a range has two durations, the shortest and the longest")
    shortest, longest = map(seconds, written)
    if shortest > longest:
        raise ValueError(f"a range begins with the shorter duration, and {shortest:g} s is longer than {longest:g} s")
    return shortest, longest


def _names(written: object) -> object:
    """The name of a fault, or those of a mix."""
    if not isinstance(written, list | tuple):
        return written
    if not written:
        raise ValueError("a mix has at least one fault")
    if len(set(map(str, written))) != len(written):
        raise ValueError("a mix names each fault once")
    return tuple(written)


_RANGE = {"type": "array", "items": _DURATION, "minItems": 2, "maxItems": 2}
Span = Annotated[
    float | tuple[float, float], BeforeValidator(_span), WithJsonSchema({"anyOf": [*_DURATION["anyOf"], _RANGE]})
]
Names = Annotated[
    str | tuple[str, ...],
    BeforeValidator(_names),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


class FaultPlan(Model):
    """One fault, or a mix of them, and when it comes, as scenario files say it."""

    fault: Annotated[
        Names,
        Field(description="Name of the fault; several names: one is drawn each time; random: any supported fault."),
    ]
    target: Annotated[str, Field(description="The role to target; default: the fault's own choice.")] = ""
    at: Annotated[
        tuple[Duration, ...], Field(description="When it comes, from the start of the load; instead of the next four.")
    ] = ()
    after: Annotated[Duration, Field(description="When it comes first, from the moment on that clients work.")] = 5.0
    every: Annotated[Duration, Field(description="From one beginning to the next.")] = 30.0
    quiet: Annotated[
        Span | None, Field(description="From one end to the next beginning, or a range; instead of every.")
    ] = None
    times: Annotated[int | None, Field(ge=1, description="How often at most; as often as there is time for.")] = None
    for_: Annotated[Span, Field(alias="for", description="How long it lasts, or a range.")] = 10.0

    by: Annotated[Duration | None, Field(description="How long a delay is, or how far a clock is off.")] = None
    jitter: Annotated[Duration | None, Field(description="Up to so much less or more than `by`.")] = None
    period: Annotated[Duration | None, Field(gt=0, description="How often a fault that repeats itself does so.")] = None
    probability: Annotated[float | None, Field(gt=0, le=1, description="How likely each packet is hit.")] = None
    rate: Annotated[Rate | None, Field(description="Bandwidth: bytes per second, or 64KiB.")] = None
    to: Annotated[int | None, Field(ge=1, description="The new number: of replicas, partitions or the like.")] = None

    @property
    def faults(self) -> tuple[str, ...]:
        """The names that a turn draws from."""
        return (self.fault,) if isinstance(self.fault, str) else self.fault

    @property
    def title(self) -> str:
        """How it is called, in a few words that may be part of a file name."""
        return "+".join(self.faults) if len(self.faults) <= NAMES_IN_A_TITLE else "mix"

    @property
    def options(self) -> dict[str, Any]:
        """What was said for this fault alone."""
        return {name: value for name in OPTIONS if (value := getattr(self, name)) is not None}

    @property
    def longest_s(self) -> float:
        """How long a turn lasts at most."""
        return _ends(self.for_)[1]

    @model_validator(mode="after")
    def _one_at_a_time(self) -> Self:
        shortest_s = max(self.longest_s, SHORTEST_PERIOD_S)
        if "at" in self.model_fields_set and not self.at:
            raise ValueError(f"'at' of '{self.title}' names no time: leave it out, or write at = ['5s', '20s']")
        if self.at:
            self._refuse_beside("at", "after", "every", "quiet", "times")
            if any(round(later - earlier, 6) < shortest_s for earlier, later in itertools.pairwise(self.at)):
                raise ValueError(f"the times in 'at' of '{self.title}' must rise by at least {shortest_s:g} s")
        elif self.quiet is not None:
            self._refuse_beside("quiet", "every")
            if _ends(self.quiet)[0] + _ends(self.for_)[0] < SHORTEST_PERIOD_S:
                raise ValueError(f"'quiet' and 'for' of '{self.title}' must be {SHORTEST_PERIOD_S:g} s in all, or more")
        elif self.times != 1 and self.every < shortest_s:
            raise ValueError(
                f"'{self.title}' would come every {self.every:g} s and last {self.longest_s:g} s: 'every' must be at "
                f"least {shortest_s:g} s"
            )
        return self

    def _refuse_beside(self, key: str, *others: str) -> None:
        if both := [name for name in others if name in self.model_fields_set and getattr(self, name) is not None]:
            raise ValueError(f"'{key}' and '{both[0]}' of '{self.title}' do not go together")


@dataclass(frozen=True)
class Slot:
    """One injection: when it begins and ends, in seconds from the start of the load."""

    number: int  # of the fault in the run, from 1
    fault: str
    target: str
    start_s: float
    end_s: float
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)
    plan: int | None = None  # whose turn it is: turns of one plan never overlap, however long they take


@dataclass(frozen=True)
class _PlanTurn:
    start_s: float
    plan: int
    nth: int
    end_s: float
    fault: str


def slots(plans: Sequence[FaultPlan], time_s: float, seed: int) -> list[Slot]:
    """All slots that end within the time, in order of their beginning; an error for a plan that gets none."""
    found: list[_PlanTurn] = []
    for index, plan in enumerate(plans):
        own = [turn for turn in _turns(plan, index, time_s, seed) if turn.end_s <= time_s]
        if len(own) < max(1, len(plan.at)):
            needed_s = max(plan.at, default=plan.after) + plan.longest_s
            raise UsageError(
                f"the nemesis '{plan.title}' does not fit: it would end {needed_s:g} s into the load, which lasts "
                f"{time_s:g} s",
                f"let the load last {needed_s:g} s or more, or let the fault come earlier or last less long",
            )
        found += own
    return [
        Slot(
            number,
            turn.fault,
            plans[turn.plan].target,
            turn.start_s,
            turn.end_s,
            slot_seed(seed, turn.plan, turn.nth),
            plans[turn.plan].options,
            turn.plan,
        )
        for number, turn in enumerate(sorted(found, key=lambda turn: (turn.start_s, turn.plan, turn.nth)), start=1)
    ]


def recorded(rows: object) -> list[Slot]:
    """The slots of a run that was recorded, as its run.json has them; ValueError for what cannot be understood."""
    try:
        found = TypeAdapter(list[Slot]).validate_json(json.dumps(rows), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"schedule.{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    numbers = {slot.number for slot in found}
    if (
        any(not 0 <= slot.start_s <= slot.end_s for slot in found)
        or len(numbers) != len(found)
        or min(numbers, default=1) < 1
    ):
        raise ValueError("times or numbers of its schedule contradict each other")
    return [replace(slot, options=_checked_options(slot)) for slot in found]


def _checked_options(slot: Slot) -> dict[str, Any]:
    """What a slot says for its fault, held to what a plan may say."""
    if unknown := slot.options.keys() - set(OPTIONS):
        raise ValueError(f"fault {slot.number} has an option '{min(unknown)}', which there is not")
    told = {"fault": slot.fault, "at": [slot.start_s], "for": slot.end_s - slot.start_s, **slot.options}
    try:
        return parse(FaultPlan, told, f"fault {slot.number}").options
    except UsageError as error:
        raise ValueError(str(error)) from None


def slot_seed(seed: int, plan: int, nth: int) -> int:
    """63 bits from the run's seed and the slot's place."""
    return _bits(f"{seed}/nemesis/{plan}/{nth}")


def _bits(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def _turns(plan: FaultPlan, index: int, time_s: float, seed: int) -> Iterator[_PlanTurn]:
    """Turn after turn, up to the first that begins too late."""
    start_s = plan.after
    for nth in itertools.count():
        if nth == (len(plan.at) or plan.times):
            return
        chance = random.Random(_bits(f"{seed}/nemesis/{index}/{nth}/draw"))  # noqa: S311 - not secret
        fault = plan.faults[int(chance.random() * len(plan.faults))]
        lasts_s, rests_s = _drawn(plan.for_, chance), _drawn(plan.quiet or 0.0, chance)
        if plan.at:
            start_s = plan.at[nth]
        elif plan.quiet is None:
            start_s = round(plan.after + nth * plan.every, 6)
        if start_s > time_s:
            return
        end_s = round(start_s + lasts_s, 6)
        yield _PlanTurn(start_s, index, nth, end_s, fault)
        start_s = round(end_s + rests_s, 6)


def _drawn(span: float | tuple[float, float], chance: random.Random) -> float:
    """Somewhere in the range, to the millisecond; draws once in any case, so that nothing else shifts."""
    shortest, longest = _ends(span)
    part = chance.random()
    return shortest if shortest == longest else min(longest, round(shortest + part * (longest - shortest), 3))


def _ends(span: float | tuple[float, float]) -> tuple[float, float]:
    return span if isinstance(span, tuple) else (span, span)
