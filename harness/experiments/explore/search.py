"""Try after try within a time budget, until one has a finding; then that is made small with the time that is left.

A try that the harness or the cluster failed in is told, and the next one is made; while it is made small, the same once
more, because such a try says nothing about the finding. Three in a row end the search. Time is up when a try of the
usual length would not be over before. Whatever ends it, what was found stays found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from harness.experiments.explore.goal import FoundAnomaly, Goal
from harness.experiments.explore.search_space import Candidate, SearchSpace
from harness.experiments.explore.shrink import HitCount, Shrinking
from harness.foundation.errors import ClusterError, Exit, TidegaugeError, from_os_error
from harness.runs.scenario import Scenario, derived_seed

TRY_AT_MOST_S = 90.0  # from the start of the clients on; then it is ended, healed and checked
FAILURES_AT_MOST = 3  # in a row
STOPPED = "stopped by the user"
Why = Literal["drawn", "again", "smaller"]


@dataclass(frozen=True)
class TryResult:
    """What one run said."""

    found: tuple[FoundAnomaly, ...] = ()
    verdict: str = ""  # none if the run failed
    run: str = ""
    bit: tuple[str, ...] = ()  # faults that were felt
    took_s: float = 0.0
    cut_short: bool = False  # it took longer than a try may
    trouble: str = ""  # why it failed


@dataclass(frozen=True)
class Tried:
    """One run of a draw."""

    number: int
    draw: Candidate
    seed: int
    why: Why
    ran: TryResult


class StoppedError(Exception):
    """The user asked for the end; `ran` is what the run that was going on has still brought."""

    def __init__(self, ran: TryResult | None = None) -> None:
        super().__init__(STOPPED)
        self.ran = ran


class _TimeUpError(Exception):
    """No try of the usual length would be over in time."""


Run = Callable[[Scenario, float], TryResult]  # runs a scenario that may take so many seconds


@dataclass
class Exploration:
    """All that is known so far."""

    space: SearchSpace
    goal: Goal
    seed: int
    budget_s: float
    tries: list[Tried] = field(default_factory=list)
    first: Tried | None = None  # the try that had the finding
    anomaly: str = ""  # what it found; the same is looked for in everything smaller
    shrinking: Shrinking | None = None
    took_s: float = 0.0
    stopped: str = ""  # why it ended before its time or its work was over
    interrupted: bool = False  # by the user

    @property
    def best(self) -> Scenario | None:
        """The smallest that shows the finding."""
        if self.first is None or self.shrinking is None:
            return None
        return self.space.scenario(self.shrinking.best, self.first.seed)

    @property
    def counted(self) -> HitCount:
        """How often that was run, and showed it."""
        return self.shrinking.counts[self.shrinking.best] if self.shrinking else HitCount()

    @property
    def of_the_best(self) -> list[Tried]:
        """Its runs that showed it."""
        wanted = self.shrinking.best if self.shrinking else None
        return [each for each in self.tries if each.draw == wanted and self.shows(each.ran)]

    @property
    def run(self) -> str:
        """The one to look at: the last of these."""
        return self.of_the_best[-1].ran.run if self.of_the_best else ""

    def shows(self, ran: TryResult) -> bool:
        """Whether a run has what was found."""
        return any(each.anomaly == self.anomaly for each in self.goal.among(ran.found))

    @property
    def exit_code(self) -> Exit:
        """What the command returns: a finding counts however it ended."""
        if self.first is not None:
            return Exit.INVALID
        if self.interrupted:
            return Exit.INTERRUPTED
        return Exit.VALID if any(each.ran.verdict for each in self.tries) else Exit.UNKNOWN


def explore(  # noqa: PLR0913 - what to try and how, and who is told
    exploration: Exploration,
    draws: Iterable[Candidate],
    run: Run,
    tell: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    *,
    keep: Callable[[], None] = lambda: None,
) -> None:
    """Until something is found and small, the time is up, or somebody stops it.

    `keep` is called when something is found, and again whenever more is known of it and another run is about to begin.
    """
    trying = _Trying(exploration, run, tell, clock, keep)
    try:
        for number, draw in enumerate(draws):
            tried = trying.make(draw, derived_seed(exploration.seed, "try", number), "drawn")
            if _note(exploration, tried, trying):
                trying.shrink()
                break
    except (StoppedError, KeyboardInterrupt):
        exploration.interrupted = True
        exploration.stopped = STOPPED
        if exploration.first is None and exploration.tries:
            _note(exploration, exploration.tries[-1], trying)
    except _TimeUpError:
        exploration.stopped = "the time is up"
    except Exception as error:
        if exploration.first is None:
            raise
        exploration.stopped = as_error(error).message
    finally:
        exploration.took_s = round(trying.elapsed_s, 1)


def as_error(error: Exception) -> TidegaugeError:
    """What a run ended with, as a sentence: files, PySpark and Py4J raise others."""
    match error:
        case TidegaugeError():
            return error
        case OSError():
            return from_os_error(error, "the run")
        case _:
            said = (str(error).strip().splitlines() or ["it says nothing"])[0]  # Java's are followed by their stack
            message = f"the harness met an error it did not expect ({type(error).__name__}: {said})"
            return TidegaugeError(message, "please report it if it comes again")


def _note(exploration: Exploration, tried: Tried, trying: _Trying) -> bool:
    """Whether a try has a finding, which is kept."""
    counted = exploration.goal.among(tried.ran.found)
    if counted:
        exploration.first, exploration.anomaly = tried, counted[0].anomaly
        exploration.shrinking = Shrinking(tried.draw, trying.once, trying.room, trying.possible, trying.role)
    return bool(counted)


class _Trying:
    """Makes tries, and keeps them."""

    def __init__(
        self,
        exploration: Exploration,
        run: Run,
        tell: Callable[[str], None],
        clock: Callable[[], float],
        keep: Callable[[], None],
    ) -> None:
        self._known = exploration
        self._run, self._tell, self._clock, self._keep = run, tell, clock, keep
        self._began_s = clock()
        self.failures = 0  # in a row

    @property
    def elapsed_s(self) -> float:
        """Since it began."""
        return self._clock() - self._began_s

    def make(self, draw: Candidate, seed: int, why: Why) -> Tried:
        """One run, told before and after; what is found by then is kept first."""
        if self._known.first is not None:
            self._keep()
        left_s = self._known.budget_s - self.elapsed_s
        if self._known.tries and self.room() < 1:
            raise _TimeUpError
        number = len(self._known.tries) + 1
        told = {"drawn": "", "again": "the same again: ", "smaller": "smaller: "}[why]
        self._tell(f"try {number} · {_minutes(left_s)} left · {told}{draw}")
        scenario = self._known.space.scenario(draw, seed)
        stopped = None
        try:
            ran = self._run(scenario, min(TRY_AT_MOST_S, max(left_s, 1.0)))
        except StoppedError as error:
            if error.ran is None:
                raise
            stopped, ran = error, error.ran
        tried = Tried(number, draw, seed, why, ran)
        self._known.tries.append(tried)
        self.failures = self.failures + 1 if ran.trouble else 0
        self._tell(f"try {number} · {ran.took_s:.0f} s · {self._outcome(ran)}")
        if stopped is not None:
            raise stopped
        if self.failures >= FAILURES_AT_MOST:
            raise ClusterError(f"{self.failures} tries in a row failed ({ran.trouble})", "see the tries above")
        return tried

    def _outcome(self, ran: TryResult) -> str:
        if ran.trouble:
            return f"failed: {ran.trouble}"
        counted = self._known.goal.among(ran.found)
        others = len(ran.found) - len(counted)
        found = ", ".join(map(str, counted)) or "nothing that --find asks for"
        return " · ".join(
            [
                found,
                *([f"{others} other{'s' if others > 1 else ''} seen"] if others else []),
                f"verdict {ran.verdict}",
                *(["ended early: it took too long"] if ran.cut_short else []),
            ]
        )

    def shrink(self) -> None:
        """Make what was found small."""
        assert self._known.shrinking is not None
        self._known.shrinking.run()

    def once(self, draw: Candidate) -> bool:
        """Whether a run of it has the finding; one that failed does not say, and is made again."""
        assert self._known.first is not None
        assert self._known.shrinking is not None
        why: Why = "again" if draw in self._known.shrinking.counts else "smaller"
        while (ran := self.make(draw, self._known.first.seed, why).ran).trouble:
            pass
        return self._known.shows(ran)

    def room(self) -> int:
        """For how many tries of the usual length there is time."""
        taken = sorted(each.ran.took_s for each in self._known.tries) or [0.0]
        usual_s = max(taken[len(taken) // 2], 1.0)
        return int(max(0.0, self._known.budget_s - self.elapsed_s) // usual_s)

    def possible(self, draw: Candidate) -> bool:
        """Whether it can be run at all."""
        return self._known.space.allows(draw)

    def role(self, fault: str) -> str:
        """Whom a fault is aimed at unless told otherwise."""
        return self._known.space.role(fault)


def _minutes(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02}"
