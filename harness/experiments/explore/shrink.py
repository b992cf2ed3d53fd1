"""Making what was found small: fewer faults, fewer settings, shorter times, as long as it still shows the finding.

Every candidate is run. How often depends on how reliably the finding showed so far, over all that showed it:

    every time, in three runs or more    one run decides
    otherwise                            it is kept with the second run that shows it, and dropped after so many runs
                                         that do not that one as reliable as those before it would hardly be dropped

Before anything is changed, what was found has to be seen a second time. At the end the smallest is run again until it
is known how sure it is; if it turns out less reliable than what it was made from, that is taken instead. Nothing here
knows clusters or clocks: `once` runs a draw, and `room` says how many runs there is still time for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from harness.experiments.explore.search_space import Candidate, CandidateFault

REPEATS_AT_MOST = 3  # of what was found, until it is seen again
SURE = 3  # runs that all showed it: from here on one run decides
SEEN_TWICE = 2
WRONGLY_DROPPED = 0.1  # how likely one that shows it is dropped, at most
MISSES_AT_MOST = 4
VERIFY = 3  # runs of the smallest, at least
VERIFY_AT_MOST = 5
RELIABLE = 2 / 3
SHORT_S = 1.0
T = TypeVar("T")


@dataclass
class HitCount:
    """How often a draw was run, and how often it showed the finding."""

    hits: int = 0
    runs: int = 0

    @property
    def rate(self) -> float:
        """The share of runs that showed it."""
        return self.hits / self.runs if self.runs else 0.0


@dataclass
class Shrinking:
    """From what was found to the smallest that still shows it; `best` is right at any moment, also after an error."""

    found: Candidate
    once: Callable[[Candidate], bool]  # runs it, and says whether it showed the finding
    room: Callable[[], int]  # for how many runs there is time
    possible: Callable[[Candidate], bool] = lambda _: True
    roles: Callable[[str], str] = lambda _: ""  # whom a fault is aimed at unless told
    counts: dict[Candidate, HitCount] = field(default_factory=dict)
    chain: list[Candidate] = field(default_factory=list)  # each smaller than the one before
    again: bool = False  # whether it was seen a second time
    finished: bool = False  # whether everything was tried that makes it smaller

    def __post_init__(self) -> None:
        self.chain.append(self.found)
        self.counts[self.found] = HitCount(1, 1)

    @property
    def best(self) -> Candidate:
        """The smallest so far."""
        return self.chain[-1]

    def run(self) -> None:
        """See it again, make it smaller as long as there is time, and see how sure the smallest is."""
        if self._seen_again():
            try:
                self._smaller()
                self.finished = True
            except _NoRoomError:
                pass
            self._verify()

    def _seen_again(self) -> bool:
        """Until it was seen twice; as long as every run shows it, until one run can decide."""
        counted = self.counts[self.found]
        while counted.runs <= REPEATS_AT_MOST and self.room() >= 1:
            if counted.hits == SEEN_TWICE < counted.runs or counted.hits == SURE:
                break
            self._run(self.found)
        self.again = counted.hits >= SEEN_TWICE
        return self.again

    def _smaller(self) -> None:
        """Faults first: what comes after costs less then."""
        ddmin(self.best.turns, lambda turns: self._holds(replace(self.best, turns=tuple(turns))))
        ddmin(self.best.settings, lambda settings: self._holds(self.best.only(settings)))
        for smaller in (self._plain_roles, self._short, self._early):
            for candidate in smaller():
                self._holds(candidate)

    def _plain_roles(self) -> Iterator[Candidate]:
        for number, turn in enumerate(self.best.turns):
            yield self._with(number, replace(turn, target=self.roles(turn.fault) or turn.target))

    def _short(self) -> Iterator[Candidate]:
        """All as short as can be, or else one after the other half as long."""
        yield replace(self.best, turns=tuple(replace(turn, for_s=SHORT_S) for turn in self.best.turns))
        for number in range(len(self.best.turns)):
            while (turn := self.best.turns[number]).for_s > SHORT_S:
                half = self._with(number, replace(turn, for_s=max(SHORT_S, round(turn.for_s / 2, 1))))
                yield half
                if self.best != half:
                    break

    def _early(self) -> Iterator[Candidate]:
        """All at once, or else with half of the time between them, and the first as early as can be."""
        turns = self.best.turns
        yield replace(self.best, turns=tuple(replace(turn, at_s=SHORT_S) for turn in turns))
        if turns:
            gaps = [turn.at_s - turns[0].at_s for turn in turns]
            for part in (0.5, 1.0):
                starts = [round(SHORT_S + gap * part, 1) for gap in gaps]
                moved = zip(self.best.turns, starts, strict=True)
                sooner = replace(self.best, turns=tuple(replace(turn, at_s=at_s) for turn, at_s in moved))
                if sum(starts) < sum(turn.at_s for turn in self.best.turns):
                    yield sooner

    def _with(self, number: int, turn: CandidateFault) -> Candidate:
        turns = list(self.best.turns)
        turns[number] = turn
        return replace(self.best, turns=tuple(turns))

    def _holds(self, candidate: Candidate) -> bool:
        """Whether it still shows the finding; then it is the best."""
        if candidate in self.counts or not self.possible(candidate):
            return False  # it is the best already, or was dropped
        needed, misses_at_most = self._demands()
        counted = HitCount()
        while counted.hits < needed:
            if self.room() < VERIFY:  # this run, and those that it takes to be sure
                raise _NoRoomError
            self._run(candidate)
            counted = self.counts[candidate]
            if counted.runs - counted.hits >= misses_at_most:
                return False
        self.chain.append(candidate)
        return True

    def _demands(self) -> tuple[int, int]:
        """How many runs have to show it, and how many that do not are too many."""
        hits = sum(self.counts[draw].hits for draw in self.chain)
        runs = sum(self.counts[draw].runs for draw in self.chain)
        if hits == runs >= SURE:
            return 1, 1
        rate = (hits + 1) / (runs + 2)
        return SEEN_TWICE, min(MISSES_AT_MOST, math.ceil(math.log(WRONGLY_DROPPED) / math.log(1 - rate)))

    def _verify(self) -> None:
        """The smallest that is as reliable as it should be, by runs enough to say so, or as many as there is time."""
        wanted = min(RELIABLE, self.counts[self.found].rate)
        while True:
            counted = self.counts[self.best]
            enough = VERIFY if counted.hits == counted.runs else VERIFY_AT_MOST
            if counted.runs < enough and self.room() >= 1:
                self._run(self.best)
            elif counted.rate < wanted and len(self.chain) > 1:
                self.chain.pop()
            else:
                return

    def _run(self, draw: Candidate) -> bool:
        hit = self.once(draw)
        counted = self.counts.setdefault(draw, HitCount())
        counted.runs += 1
        counted.hits += hit
        return hit


class _NoRoomError(Exception):
    """What time is left is needed to see how sure the smallest is."""


def ddmin(items: Sequence[T], holds: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """The fewest that still hold, by Zeller's delta debugging: nothing, then parts, then all but a part."""
    if not items or holds(()):
        return ()
    parts = 2
    while len(items) > 1:
        size = math.ceil(len(items) / parts)
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        rests = [[item for item in items if item not in chunk] for chunk in chunks]
        smaller = next((each for each in (*chunks, *rests) if holds(each)), None)
        if smaller is not None:
            items, parts = smaller, max(parts - 1, 2)
        elif parts >= len(items):
            break
        else:
            parts = min(len(items), 2 * parts)
    return items
