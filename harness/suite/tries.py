"""What is tried: a run of a case, and another one where the first ended in trouble that is not the broker's.

Such trouble is an error of the harness or of the cluster's start, or a verdict `unknown` whose every reason is that a
part of the harness died, that the history is damaged, or that a fault could not be brought about. It is tried again on
a fresh cluster, and told. A finding never is: what is illegal once is illegal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.foundation.errors import TidegaugeError, from_os_error, unexpected
from harness.history.store import Run
from harness.judging.checking import Checked
from harness.report.making import report_of
from harness.runs.runner import Recorded
from harness.runs.scenario import Scenario
from harness.suite.expectation import RunFindings
from harness.suite.feasibility import PlannedCase
from harness.suite.outcome import Try, UncheckedRun

ATTEMPTS = 2
SHOWN = 6  # anomalies
WHOLE = frozenset({"recorded", "finished"})  # states of runs that came to their end


@dataclass(frozen=True)
class PendingTry:
    """A try of a case that is to be made, or is under way."""

    planned: PlannedCase
    at: int  # the place of its case
    number: int  # of the try
    took_s: float = 0.0  # so far, with the attempts before
    troubles: tuple[str, ...] = ()  # what those ended with
    run: str = ""  # what a suite that was killed has recorded for it, and not checked

    def scenario(self, suite_seed: int) -> Scenario:
        """What is run."""
        return self.planned.case.tried(self.number, suite_seed).with_cluster(self.planned.cluster)

    def after(self, took_s: float) -> PendingTry:
        """So much later."""
        return replace(self, took_s=self.took_s + took_s)

    def again(self, trouble: str) -> PendingTry:
        """After trouble, from the start."""
        return replace(self, troubles=(*self.troubles, trouble), run="")

    def recorded_as(self, run: Run) -> UncheckedRun:
        """What is to be known of it until it is checked."""
        return UncheckedRun(self.number, str(run.path), round(self.took_s, 1), self.troubles)

    def ended_with(self, one: Try) -> Try:
        """With the time of all attempts, and what those before it ended with."""
        return replace(one, took_s=round(self.took_s, 1), retried=self.troubles)

    def troubled(self, suite_seed: int, error: Exception) -> Try:
        """One that has no verdict; whatever says that it is not possible said otherwise when the suite was planned."""
        match error:
            case TidegaugeError():
                said = str(error)
            case OSError():
                said = str(from_os_error(error, "the run"))
            case _:  # one case that meets a bug of ours is not the end of the suite
                said = str(unexpected(error))
        return Try(self.number, self.scenario(suite_seed).seed, trouble=said)


def left_behind(run: Run) -> Recorded:
    """A run that was recorded for a suite which was killed before it was checked; an error if it did not come so far.

    What failed in it is raised again after the check, as it would have been then, unless something is found.
    """
    facts = run.facts
    state, error = facts.get("state"), facts.get("error")
    if state == "failed":
        return Recorded(run, TidegaugeError(f"the run failed ({error})", "run it again"))
    if state not in WHOLE or facts.get("interrupted"):
        raise TidegaugeError(f"the run {run.path} was not recorded to its end", "run it again")
    return Recorded(run)


def try_of(checked: Checked, planned: PlannedCase, number: int) -> Try:
    """What came of a run."""
    found = RunFindings.of(checked)
    unmet = tuple(planned.case.expect.unmet(found))
    causes = checked.diagnosis.causes or checked.diagnosis.allowed
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
        reasons=tuple(map(str, checked.verdict.reasons)),
        cause=causes[0].name if causes else "",
        sentences=tuple(cause.sentence for cause in causes),
        run=str(checked.run.path),
        report=str(report or ""),
        trouble=trouble,
    )


def trouble_in(checked: Checked) -> str:
    """Why an unknown verdict says nothing about the broker; nothing if one of its reasons does."""
    reasons = checked.verdict.reasons
    return "; ".join(map(str, reasons)) if reasons and all(reason.is_ours for reason in reasons) else ""
