"""One try of a case: a run, and another one where the first ended in trouble that is not the broker's.

Such trouble is an error of the harness or of the cluster's start, or a verdict `unknown` whose every reason is that a
part of the harness died, that the history is damaged, or that a fault could not be brought about. It is tried again on
a fresh cluster, and told. A finding never is: what is illegal once is illegal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace

from harness.checking import Checked
from harness.errors import Interrupted, TidegaugeError, from_os_error, unexpected
from harness.lent import Lent
from harness.report.making import report_of
from harness.scenario import Scenario
from harness.store import RUN_FILE, Run
from harness.suite.expectation import Found
from harness.suite.feasible import Planned
from harness.suite.keeper import Keeper
from harness.suite.outcome import Try

ATTEMPTS = 2
SHOWN = 6  # anomalies
_OF_A_FAULT = re.compile(r"fault \d+ \([^)]*\) (failed|was never injected|did not bite|was not undone)")
OF_THE_BROKER = ("the cluster was ", "the load was ")  # notes of the runner that may be about it: not whole, not over
Runs = Callable[[Scenario, Lent], Checked]  # runs a scenario on what it is lent


class Stopped(Exception):
    """The user asked for the end, and the run that went on has ended: `one`, if it had come to its end by itself."""

    def __init__(self, one: Try | None = None) -> None:
        super().__init__()
        self.one = one


def make_try(  # noqa: PLR0913, PLR0917 - what is tried, on what, by whom
    planned: Planned,
    number: int,
    suite_seed: int,
    lend: Callable[[], Lent],
    run: Runs,
    keeper: Keeper,
    *,
    attempts: int = ATTEMPTS,
) -> Try:
    """The last of its attempts; `Stopped` if the user had enough."""
    scenario = planned.case.tried(number, suite_seed).with_cluster(planned.cluster)
    began_s = time.monotonic()
    troubles: list[str] = []
    while True:
        try:
            one = _attempt(scenario, planned, number, lend, run)
        except Stopped as stopped:
            if stopped.one:
                stopped.one = _whole(stopped.one, began_s, troubles)
            raise
        _use_up(keeper, planned, one)
        if not one.trouble or len(troubles) + 1 >= attempts:
            return _whole(one, began_s, troubles)
        troubles.append(one.trouble)


def _whole(one: Try, began_s: float, troubles: list[str]) -> Try:
    """With the time of all attempts, and what those before it ended with."""
    return replace(one, took_s=round(time.monotonic() - began_s, 1), retried=tuple(troubles))


def _attempt(scenario: Scenario, planned: Planned, number: int, lend: Callable[[], Lent], run: Runs) -> Try:
    blank = Try(number, scenario.seed)
    try:
        checked = run(scenario, lend())
    except (KeyboardInterrupt, Interrupted):
        raise Stopped from None
    except TidegaugeError as error:  # also one that says that it is not possible: it was when the suite was planned
        return replace(blank, trouble=str(error))
    except OSError as error:
        return replace(blank, trouble=str(from_os_error(error, "the run")))
    except Exception as error:  # noqa: BLE001 - one case that meets a bug of ours is not the end of the suite
        return replace(blank, trouble=str(unexpected(error)))
    if checked.facts.get("interrupted"):
        raise Stopped
    one = try_of(checked, planned, number)
    if _asked_to_stop(checked):
        raise Stopped(one)
    return one


def _asked_to_stop(checked: Checked) -> bool:
    """Whether that came when all was recorded: then the run is as good as any, and does not call itself finished."""
    run = checked.run
    return isinstance(run, Run) and (run.path / RUN_FILE).exists() and run.facts.get("state") == "recorded"


def try_of(checked: Checked, planned: Planned, number: int) -> Try:
    """What came of a run."""
    found = Found.of(checked)
    unmet = tuple(planned.case.expect.unmet(found))
    cause = checked.diagnosis.cause or next(iter(checked.diagnosis.allowed), None)
    report = report_of(checked)
    trouble = trouble_in(checked) if unmet and found.verdict == "unknown" else ""
    return Try(
        number=number,
        seed=int(checked.facts.get("seed") or 0),
        verdict="" if trouble else found.verdict,
        unmet=unmet,
        seen=tuple(
            f"{seen.anomaly} ×{seen.found:,}{' (allowed)' if seen.mark.status == 'allowed' else ''}"
            for seen in sorted(checked.verdict.seen, key=lambda seen: seen.mark.status == "allowed")[:SHOWN]
        ),
        reasons=checked.verdict.reasons,
        cause=cause.name if cause else "",
        sentence=cause.sentence if cause else "",
        run=str(checked.run.path),
        report=str(report or ""),
        trouble=trouble,
    )


def trouble_in(checked: Checked) -> str:
    """Why an unknown verdict says nothing about the broker; nothing if one of its reasons does."""
    reasons, results = checked.verdict.reasons, checked.results
    noted = [*(checked.facts.get("dead_workers") or ()), *(checked.facts.get("troubles") or ())]
    ours = {
        str(each) for each in (*noted, *results.damage, *results.failures) if not str(each).startswith(OF_THE_BROKER)
    }
    return "; ".join(reasons) if reasons and all(_is_ours(reason, ours) for reason in reasons) else ""


def _is_ours(reason: str, ours: set[str]) -> bool:
    return reason in ours or _OF_A_FAULT.match(reason) is not None


def _use_up(keeper: Keeper, planned: Planned, one: Try) -> None:
    """Say what the next run cannot use any more."""
    if one.trouble:
        keeper.renew("the last run ended in trouble")
    elif planned.spoils:
        keeper.spoil("what the last run did may have left something")
