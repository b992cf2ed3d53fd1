"""A suite, case by case, on what the pool shares; after each try everything that is known is on disk.

A run is recorded while the one before it is checked, aside and with lower priority (`harness.suite.resource_pool`): a
load leaves most of a machine idle, and so a check costs no time of its own but for the last. What comes of it is
written down as soon as it is known. Trouble that only a check finds is tried again after the run that goes on by then.

Which run is to be checked is on disk before that begins. What a suite that was killed has left so is checked first when
it goes on, and counts: run again, what was found would be tried again. Only what cannot be checked is run again.

Ctrl-C ends the run that goes on, which heals its cluster; what was recorded is still checked; no other one is begun.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.foundation.errors import Interrupted, TidegaugeError
from harness.foundation.interrupts import StopRequest
from harness.foundation.threads import Threads
from harness.foundation.view import View
from harness.history.store import Run
from harness.judging.checking import Checked
from harness.runs.runner import Recorded
from harness.runs.scenario import Scenario
from harness.runs.shared_resources import SharedResources
from harness.spark.session import Session
from harness.suite.feasibility import PlannedCase
from harness.suite.outcome import CaseOutcome, Try
from harness.suite.resource_pool import ResourcePool
from harness.suite.state import State
from harness.suite.tries import ATTEMPTS, PendingTry, left_behind, try_of

LEFT = "what the last run did may have left something"


@dataclass(frozen=True)
class SuiteCallbacks:
    """Who does the work, and who is told."""

    record: Callable[[Scenario, SharedResources], Recorded]
    check: Callable[[Recorded, Session], Checked]  # beside the next run
    view: Callable[[], AbstractContextManager[View]]  # for what is done before a run, and after the last
    tell: Callable[[State], None]  # after each try
    begins: Callable[[PendingTry], None]
    ends: Callable[[CaseOutcome], None]  # a try, and perhaps with it the case; beside the next run
    trouble: Callable[[str], None] = lambda _: None
    keep: Callable[[State], None] = lambda _: None  # what only those need to know who go on after a kill


def run_suite(  # noqa: PLR0913 - what to run, how, and how far it has come
    state: State,
    planned: Sequence[PlannedCase],
    hands: SuiteCallbacks,
    pool: ResourcePool,
    *,
    attempts: int = ATTEMPTS,
    stop_at_first: bool = False,
) -> State:
    """All that is not finished; the last state. The pool is closed."""
    try:
        return play_cases(state, planned, hands, pool, attempts=attempts, stop_at_first=stop_at_first)
    finally:
        try:
            pool.close()
        except TidegaugeError as error:  # no case has to do with it
            hands.trouble(str(error))


def play_cases(  # noqa: PLR0913 - as above
    state: State,
    planned: Sequence[PlannedCase],
    hands: SuiteCallbacks,
    pool: ResourcePool,
    *,
    attempts: int = ATTEMPTS,
    stop_at_first: bool = False,
    upcoming: Sequence[PlannedCase] = (),
) -> State:
    """All that is not finished, with a pool that goes on to others; `upcoming` are cases of theirs."""
    for each in planned:
        if each.skipped:
            state = state.having(state.outcome(each.case.name).not_here(each.skipped))
    hands.tell(state)
    course = _Course(state, planned, hands, pool, attempts, upcoming)
    course.run(stop_at_first=stop_at_first)
    return course.state


@dataclass(frozen=True)
class _Checking:
    """What is checked aside: it comes to a try that ended in trouble, or to nothing more to do."""

    turn: PendingTry
    future: Future[Try | None]


class _Course:
    """A suite on its way."""

    def __init__(  # noqa: PLR0913, PLR0917 - as above
        self,
        state: State,
        planned: Sequence[PlannedCase],
        hands: SuiteCallbacks,
        pool: ResourcePool,
        attempts: int,
        upcoming: Sequence[PlannedCase],
    ) -> None:
        self.state = state
        self._planned, self._hands, self._pool, self._attempts = planned, hands, pool, attempts
        self._upcoming = upcoming
        self._turns = deque(self._to_be_made())
        self._checking: _Checking | None = None
        self._stopped = False
        self._left = False  # whether nobody waits any more for what is being checked
        self._aside = Threads("check")
        self._lock = threading.Lock()  # of the state and its files

    def _to_be_made(self) -> Iterator[PendingTry]:
        """What is recorded already comes first: it needs no cluster, and may be had although the case is not."""
        yield from self._left_behind()
        for at, each in enumerate(self._planned):
            outcome = self.state.outcome(each.case.name)
            # of those that were kept, one in the middle may be missing
            made = {one.number for one in outcome.tries} | {one.number for one in outcome.unchecked}
            if not outcome.skipped:
                yield from (
                    PendingTry(each, at, number) for number in range(1, outcome.repeat + 1) if number not in made
                )

    def _left_behind(self) -> Iterator[PendingTry]:
        for at, each in enumerate(self._planned):
            for one in self.state.outcome(each.case.name).unchecked:
                yield PendingTry(each, at, one.number, one.took_s, one.retried, one.run)

    def run(self, *, stop_at_first: bool) -> None:
        """Record one while the one before is checked, until none is left, or the user has had enough."""
        try:
            while self._turns and not self._stopped and not (stop_at_first and self._something_is_wrong()):
                self._make(self._turns.popleft())
                if stop_at_first or not self._turns:
                    self._settle()
        except KeyboardInterrupt:
            self._stopped = True
        try:
            if self._stopped:
                self._end_cluster()
            self._settle()
        except KeyboardInterrupt:  # in a hurry: what is being checked ends with its session
            self._stopped = True
        if self._stopped:
            with self._lock:
                self._left = True
                self.state = replace(self.state, interrupted=True)
                self._hands.tell(self.state)

    def _make(self, turn: PendingTry) -> None:
        """Record it; when the one before it is settled, begin to check it."""
        self._hands.begins(turn)
        began_s = time.monotonic()
        try:
            recorded = self._recorded(turn)
        except Interrupted:
            self._stopped = True
            return
        except Exception as error:  # noqa: BLE001 - told as trouble of this case
            self._settle()
            turn = turn.after(time.monotonic() - began_s)
            self._after_trouble(turn, turn.troubled(self.state.seed, error))
            return
        if why := recorded.suspicion or (LEFT if turn.planned.spoils and not turn.run else ""):
            self._pool.spoil(why)
        turn = turn.after(time.monotonic() - began_s)
        self._stopped = self._stopped or recorded.stopped
        if not recorded.cut_short:
            self._note(turn, lambda outcome: outcome.with_run(turn.recorded_as(recorded.run)))
        self._settle()
        checks = self._aside.submit(self._check, turn, recorded, self._pool.session())
        self._checking = _Checking(turn, checks)

    def _recorded(self, turn: PendingTry) -> Recorded:
        if turn.run:
            return left_behind(Run(Path(turn.run)))
        return self._hands.record(turn.scenario(self.state.seed), self._lend(turn))

    def _note(self, turn: PendingTry, change: Callable[[CaseOutcome], CaseOutcome]) -> None:
        """For those who go on after a kill."""
        with self._lock:
            self.state = self.state.having(change(self.state.outcome(turn.planned.case.name)))
            self._hands.keep(self.state)

    def _lend(self, turn: PendingTry) -> SharedResources:
        with self._hands.view() as view:
            return self._pool.resources_for(turn.planned, [*self._planned[turn.at :], *self._upcoming], view)

    def _check(self, turn: PendingTry, recorded: Recorded, session: Session) -> Try | None:
        """In a thread of its own. A run that was cut short is checked for those who read it, and does not count."""
        began_s = time.monotonic()
        try:
            checked = self._hands.check(recorded, session)
            one = try_of(checked, turn.planned, turn.number)
        except Exception as error:  # noqa: BLE001 - told as trouble of this case
            one = turn.troubled(self.state.seed, error)
        if recorded.cut_short:
            return None
        ended = turn.after(time.monotonic() - began_s).ended_with(one)
        if ended.trouble:
            return ended
        self._keep(turn, ended)
        return None

    def _keep(self, turn: PendingTry, one: Try) -> None:
        with self._lock:
            if self._left:
                return
            name = turn.planned.case.name
            self.state = self.state.having(self.state.outcome(name).with_try(one))
            self._hands.tell(self.state)
            self._hands.ends(self.state.outcome(name))

    def _settle(self) -> None:
        """Wait for what is checked; trouble goes to the front of what is to be made. The second Ctrl-C leaves."""
        checking, self._checking = self._checking, None
        if checking is None:
            return
        stop = StopRequest()
        stop.may_wait, stop.asked, stop.answer = True, int(self._stopped), self._hands.trouble
        with stop.listening():
            if not checking.future.done():
                with self._hands.view() as view:
                    view.phase("check")
                    checking.future.exception()  # waits
            one = checking.future.result()
        if one is not None:
            self._after_trouble(checking.turn.after(one.took_s - checking.turn.took_s), one)
        self._stopped = self._stopped or stop.asked > 0

    def _after_trouble(self, turn: PendingTry, one: Try) -> None:
        self._pool.renew("the last run ended in trouble")
        if turn.run:
            self._without(turn, one.trouble)
        elif len(turn.troubles) + 1 < self._attempts:
            self._note(turn, lambda outcome: outcome.settled(turn.number))
            self._turns.appendleft(turn.again(one.trouble))
        else:
            self._keep(turn, turn.ended_with(one))

    def _without(self, turn: PendingTry, trouble: str) -> None:
        """What was left behind is of no use: run it again if that is possible here, however few attempts there are."""
        self._note(turn, lambda outcome: outcome.settled(turn.number))
        name = f"{turn.planned.case.name}, try {turn.number}"
        self._hands.trouble(f"{name}: what was recorded before the suite was killed is of no use ({trouble})")
        if not turn.planned.skipped:
            self._turns.appendleft(turn.again(trouble))

    def _end_cluster(self) -> None:
        """Nothing is recorded any more, and a check needs none."""
        try:
            self._pool.drop_cluster()
        except (TidegaugeError, OSError) as error:
            self._hands.trouble(str(error))

    def _something_is_wrong(self) -> bool:
        return any(each.status not in {"passed", "skipped", "pending"} for each in self.state.outcomes)
