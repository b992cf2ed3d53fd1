"""From a fault plan to slots: what begins when, how long it lasts, and the seed of its choices. No clock, no cluster.

A plan names a fault and when it comes: first `after` a while, then `every` so often, each time `for` a while, at most
so many `times`. Only what ends within the run becomes a slot. Each slot's seed depends on the run's seed, on the place
of its plan in the list and on the how-manieth of its plan it is, and on nothing else: another plan at the end of the
list, or a longer run, leaves the slots there were as they were.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from harness.config import Model
from harness.durations import Duration
from harness.errors import UsageError

SHORTEST_PERIOD_S = 0.1
OPTIONS = ("by", "jitter", "period", "probability", "rate", "to")  # what only some faults take (`Fault.options`)


class Plan(Model):
    """One fault and when it comes, as scenario files say it."""

    fault: Annotated[str, Field(description="Name of the fault; `tidegauge list nemeses` has them all.")]
    target: Annotated[str, Field(description="The role of the victim; the fault's own choice unless given.")] = ""
    after: Annotated[Duration, Field(description="When it comes first, from the start of the load.")] = 5.0
    every: Annotated[Duration, Field(description="From one beginning to the next.")] = 30.0
    for_: Annotated[Duration, Field(alias="for", description="How long it lasts.")] = 10.0
    times: Annotated[int | None, Field(ge=1, description="How often at most; as often as there is time for.")] = None

    by: Annotated[Duration | None, Field(description="How long a delay is, or how far a clock is off.")] = None
    jitter: Annotated[Duration | None, Field(description="Up to so much less or more than `by`.")] = None
    period: Annotated[Duration | None, Field(gt=0, description="How often a fault that repeats itself does so.")] = None
    probability: Annotated[float | None, Field(gt=0, le=1, description="How likely each packet is hit.")] = None
    rate: Annotated[str | int | None, Field(description="Bandwidth: bytes per second, or 64KiB.")] = None
    to: Annotated[int | None, Field(ge=1, description="The new number: of replicas, partitions or the like.")] = None

    @property
    def options(self) -> dict[str, Any]:
        """What was said for this fault alone."""
        return {name: value for name in OPTIONS if (value := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _one_at_a_time(self) -> Self:
        if self.times != 1 and self.every < max(self.for_, SHORTEST_PERIOD_S):
            raise ValueError(
                f"'{self.fault}' would come every {self.every:g} s and last {self.for_:g} s: 'every' must be at least "
                f"{max(self.for_, SHORTEST_PERIOD_S):g} s"
            )
        return self


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


def slots(plans: Sequence[Plan], time_s: float, seed: int) -> list[Slot]:
    """All slots that end within the time, in order of their beginning; an error for a plan that gets none."""
    found = []
    for index, plan in enumerate(plans):
        own = [(start_s, index, nth) for nth, start_s in enumerate(_starts(plan, time_s))]
        if not own:
            needed_s = plan.after + plan.for_
            raise UsageError(
                f"the nemesis '{plan.fault}' would never come: it would end {needed_s:g} s into the load, which lasts "
                f"{time_s:g} s",
                f"let the load last {needed_s:g} s or more, or give the fault a smaller 'after' or 'for'",
            )
        found += own
    return [
        Slot(
            number,
            plans[index].fault,
            plans[index].target,
            start_s,
            round(start_s + plans[index].for_, 6),
            slot_seed(seed, index, nth),
            plans[index].options,
        )
        for number, (start_s, index, nth) in enumerate(sorted(found), start=1)
    ]


def slot_seed(seed: int, plan: int, nth: int) -> int:
    """63 bits from the run's seed and the slot's place."""
    digest = hashlib.sha256(f"{seed}/nemesis/{plan}/{nth}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def _starts(plan: Plan, time_s: float) -> Iterator[float]:
    for nth in itertools.count() if plan.times is None else range(plan.times):
        start_s = round(plan.after + nth * plan.every, 6)
        if round(start_s + plan.for_, 6) > time_s:
            return
        yield start_s
