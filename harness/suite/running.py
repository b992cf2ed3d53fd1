"""A suite, case by case, on what the keeper lends; after each try everything that is known is on disk.

Ctrl-C ends the run that goes on, which heals its cluster; no other one is begun.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

from harness.checking import Checked
from harness.errors import TidegaugeError
from harness.lent import Lent
from harness.live import View
from harness.scenario import Scenario
from harness.suite.feasible import Planned
from harness.suite.keeper import Keeper
from harness.suite.outcome import Outcome
from harness.suite.state import State
from harness.suite.trying import ATTEMPTS, Stopped, make_try


@dataclass(frozen=True)
class Hands:
    """Who does the work, and who is told."""

    run: Callable[[Scenario, Lent], Checked]
    view: Callable[[], AbstractContextManager[View]]  # for what is done before a run
    tell: Callable[[State], None]  # after each try
    begins: Callable[[Planned, int, int, int], None]  # a case, its place, how many there are, and the try
    ends: Callable[[Outcome], None]  # a try, and perhaps with it the case
    trouble: Callable[[str], None] = lambda _: None


def run_suite(  # noqa: PLR0913 - what to run, how, and how far it has come
    state: State,
    planned: Sequence[Planned],
    hands: Hands,
    keeper: Keeper,
    *,
    attempts: int = ATTEMPTS,
    stop_at_first: bool = False,
) -> State:
    """All that is not finished; the last state."""
    for each in planned:
        if each.skipped:
            state = state.having(replace(state.outcome(each.case.name), skipped=each.skipped))
    hands.tell(state)
    try:
        for at, each in enumerate(planned):
            lend = partial(_lend, keeper, planned[at:], hands)
            while (outcome := state.outcome(each.case.name)).status == "pending":
                number = _next(outcome)
                hands.begins(each, at + 1, len(planned), number)
                one = make_try(each, number, state.seed, lend, hands.run, keeper, attempts=attempts)
                state = state.having(outcome.with_try(one))
                hands.tell(state)
                hands.ends(state.outcome(each.case.name))
            if stop_at_first and outcome.status not in {"passed", "skipped"}:
                break
    except (Stopped, KeyboardInterrupt) as stopped:
        if isinstance(stopped, Stopped) and stopped.one:
            state = state.having(outcome.with_try(stopped.one))
        state = replace(state, interrupted=True)
        hands.tell(state)
    finally:
        try:
            keeper.close()
        except TidegaugeError as error:  # no case has to do with it
            hands.trouble(str(error))
    return state


def _lend(keeper: Keeper, upcoming: Sequence[Planned], hands: Hands) -> Lent:
    with hands.view() as view:
        return keeper.lend(upcoming[0], upcoming, view)


def _next(outcome: Outcome) -> int:
    """The number of the try that is to be made: of those that were kept, one in the middle may be missing."""
    return min(set(range(1, outcome.repeat + 1)) - {one.number for one in outcome.tries})
