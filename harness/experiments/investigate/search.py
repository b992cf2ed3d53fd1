"""An investigation: the same scenario again and again, with one thing changed, until it is known what matters.

The baseline runs first; what is wrong with it are the *symptoms*: loss, and illegal anomalies. Loss is what did not
arrive where consumers wait for everything; where they are stopped with the load, what had no time to arrive is no loss,
and it is the sends that were not acknowledged. Every experiment then changes one thing. Its *effect* on a symptom is

    gone        no run has it, or next to nothing of it
    less, more  it differs, outside of what runs differ by
    same        every run has it, and not much less of it
    undecided   the runs do not agree, or are too few

A symptom *follows* what makes it gone, less or more; what leaves it the same is excluded. One run of everything first,
which decides only where one cause is proven in every run on both sides; then a second one of what is undecided, and
more as long as there is time. All decisions are functions of what the runs said; the cause is what the diagnosis of the
runs names, or else what the experiments alone say.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.experiments.investigate.experiments import BASELINE, PlannedExperiment, repetition
from harness.foundation.errors import Interrupted, TidegaugeError
from harness.report.comparison.inputs import Sample, sample_of
from harness.report.comparison.statistics import ALPHA, ArrivalCount, Difference, rate_difference
from harness.runs.scenario import Scenario

LOSS = "loss"
CERTAIN = "certain"  # a cause that the evidence proves
REPETITIONS = 2
REPETITIONS_AT_MOST = 6
FAILURES_AT_MOST = 2  # of one experiment
SYMPTOMS_AT_MOST = 6
TOLERATED = 0.03  # of sends that had no time to be acknowledged when a stream was stopped
NEXT_TO_NOTHING = 0.1  # of the loss that was there before
MATTERS = 0.8  # of the loss that was there before: less than that is less
LONGER = 1.2  # than runs took so far, for the next one

Effect = Literal["gone", "less", "more", "same", "undecided"]
FOLLOWING: tuple[Effect, ...] = ("gone", "less", "more")


class TookTooLong(Exception):
    """A run that was ended because it would have taken all the time, and what it showed until then.

    Another try would do the same. Of a baseline that is an answer, and experiments are compared with it; an experiment
    that was cut short says something only if the baseline was cut short as well.
    """

    def __init__(self, sentence: str, ran: RunSample) -> None:
        super().__init__(sentence)
        self.ran = ran


@dataclass(frozen=True)
class RunSample:
    """What one run said."""

    sample: Sample
    counted: ArrivalCount | None = None  # what loss is measured by
    causes: tuple[Mapping[str, Any], ...] = ()
    excluded: tuple[Mapping[str, Any], ...] = ()
    interrupted: bool = False
    took_s: float = 0.0

    @property
    def loss(self) -> float | None:
        """The share of messages that is missing, beyond what no time was left for."""
        if self.counted is None:
            return None
        missing = 1 - self.counted.rate
        return missing if self.sample.waited or missing > TOLERATED else 0.0


@dataclass
class Investigation:
    """All that is known so far."""

    scenario: Scenario
    planned: list[PlannedExperiment]
    ran: dict[str, list[RunSample]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)
    hopeless: set[str] = field(default_factory=set)  # experiments that would take too long again
    cut_short: str = ""  # why runs of the baseline were ended: they do not come to an end by themselves
    stopped: str = ""  # why it ended before everything was decided
    interrupted: bool = False  # by the user

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return sum(len(runs) for runs in self.ran.values())

    def of(self, name: str) -> list[RunSample]:
        """The runs of an experiment."""
        return self.ran.get(name, [])

    @property
    def symptoms(self) -> list[str]:
        """What is wrong with the baseline, the gravest first."""
        return symptoms(self.of(BASELINE))

    def effect(self, planned: PlannedExperiment, symptom: str) -> Effect:
        """What the change of an experiment did to a symptom."""
        return effect(symptom, self.of(planned.against), self.of(planned.name))


def ran_of(name: str, results: Mapping[str, Any], facts: Mapping[str, Any], took_s: float = 0.0) -> RunSample:
    """From a run's results.json and run.json."""
    diagnosis = results.get("diagnosis")
    told = diagnosis if isinstance(diagnosis, dict) else {}
    sample, figures = sample_of(name, results, facts), results.get("figures") or {}
    sent, acknowledged = int(figures.get("sent") or 0), int(figures.get("acknowledged") or 0)
    given_up = ArrivalCount(min(acknowledged + int(figures.get("aborted") or 0), sent), sent) if sent else None
    return RunSample(
        sample,
        counted=sample.counted if sample.waited else given_up,
        causes=tuple(told.get("causes") or ()),
        excluded=tuple(told.get("excluded") or ()),
        interrupted=bool(facts.get("interrupted")),
        took_s=took_s,
    )


def investigate(
    investigation: Investigation,
    run: Callable[[Scenario], RunSample],
    budget_s: float,
    tell: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> Investigation:
    """Run what is to be run next until everything is decided, the time is up, or somebody stops it."""
    began_s = clock()
    while planned := next_of(investigation):
        assert planned.scenario is not None
        left_s = budget_s - (clock() - began_s)
        if investigation.runs >= REPETITIONS and left_s < LONGER * _typical_s(investigation):
            investigation.stopped = f"the time is up ({budget_s:.0f} s): what is undecided stays so"
            break
        number = len(investigation.of(planned.name))
        tell(f"{planned.name} {number + 1}" + (f" ({planned.change})" if planned.changed else ""))
        try:
            ran = run(repetition(planned.scenario, number))
        except (Interrupted, KeyboardInterrupt):
            _interrupt(investigation)
            break
        except TookTooLong as error:
            _take_cut_short(investigation, planned, error)
            tell(f"{planned.name}: {error}")
            continue
        except Exception as error:  # noqa: BLE001 - whatever it is, what the other runs showed stays known
            said = str(error) if isinstance(error, TidegaugeError) else f"{type(error).__name__}: {error}"
            investigation.failures.setdefault(planned.name, []).append(said)
            tell(f"{planned.name} failed: {said}")
            continue
        if ran.interrupted:
            _interrupt(investigation)
            break
        investigation.ran.setdefault(planned.name, []).append(ran)
    return investigation


def _take_cut_short(investigation: Investigation, planned: PlannedExperiment, error: TookTooLong) -> None:
    """Keep what a run showed until it was ended, where it can be compared."""
    if planned.name == BASELINE:
        investigation.cut_short = str(error)
    else:
        investigation.hopeless.add(planned.name)
    if investigation.cut_short:
        investigation.ran.setdefault(planned.name, []).append(error.ran)
    if planned.name != BASELINE:
        investigation.failures.setdefault(planned.name, []).append(str(error))


def _interrupt(investigation: Investigation) -> None:
    investigation.interrupted = True
    investigation.stopped = "stopped by the user: this is what is known so far"


def next_of(investigation: Investigation) -> PlannedExperiment | None:
    """What to run next: everything once, then twice, then what is undecided; None when there is nothing left to do."""
    able = [
        each
        for each in investigation.planned
        if each.scenario is not None
        and each.name not in investigation.hopeless
        and len(investigation.failures.get(each.name, [])) < FAILURES_AT_MOST
    ]
    baseline = next((each for each in able if each.name == BASELINE), None)
    done = {each.name: len(investigation.of(each.name)) for each in able}
    if baseline is None or done[BASELINE] < REPETITIONS:
        return baseline
    found = investigation.symptoms
    if not found:
        return None
    open_yet = [each for each in able if each is baseline or investigation.effect(each, found[0]) == "undecided"]
    least = min(open_yet, key=lambda each: done[each.name])
    if done[least.name] < REPETITIONS:
        return least
    undecided = [
        each
        for each in able
        if each is not baseline
        and investigation.effect(each, found[0]) == "undecided"
        and not _moot(investigation, each, found[0])
    ]
    wanted = min(undecided, key=lambda each: done[each.name], default=None)
    if wanted is None or done[wanted.name] >= REPETITIONS_AT_MOST:
        return None
    # a comparison is no better than the worse known of its two sides
    other = next((each for each in able if each.name == wanted.against), wanted)
    return other if done[other.name] < done[wanted.name] else wanted


def symptoms(baseline: Sequence[RunSample]) -> list[str]:
    """What is wrong: loss first, then illegal anomalies, those of the most runs first."""
    found = [LOSS] if any(each.loss for each in baseline) else []
    counts: Counter[str] = Counter()
    for each in baseline:
        counts.update(name for name, seen in (each.sample.anomalies or {}).items() if seen.illegal)
    return found + [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))][:SYMPTOMS_AT_MOST]


def effect(symptom: str, before: Sequence[RunSample], after: Sequence[RunSample]) -> Effect:
    """What became of a symptom."""
    if min(len(before), len(after)) < REPETITIONS:
        return "same" if _stands(before, after) and _is_there(symptom, before, after) else "undecided"
    return _of_loss(before, after) if symptom == LOSS else _of_presence(symptom, before, after)


def _stands(before: Sequence[RunSample], after: Sequence[RunSample]) -> bool:
    """Whether one cause is proven in every run of both sides: then nobody has to count how often."""
    proven = [
        {str(cause["name"]) for cause in run.causes if cause.get("confidence") == CERTAIN} for run in (*before, *after)
    ]
    return bool(before and after and set.intersection(*proven))


def _is_there(symptom: str, before: Sequence[RunSample], after: Sequence[RunSample]) -> bool:
    """In every run, and not much less of it."""
    if symptom != LOSS:
        seen = _presences(symptom, (*before, *after))
        return bool(seen) and all(seen)
    old, new = ([each.loss or 0 for each in runs] for runs in (before, after))
    return min(new) > 0 and min(new) >= MATTERS * sum(old) / len(old)


def _of_loss(before: Sequence[RunSample], after: Sequence[RunSample]) -> Effect:
    """By how much was lost, and whether the difference is more than noise."""
    old, new = ([each.loss for each in runs if each.loss is not None] for runs in (before, after))
    if min(len(old), len(new)) < REPETITIONS:
        return "undecided"
    if min(old) > 0 and max(new) <= NEXT_TO_NOTHING * min(old):
        return "gone"
    mean_old, mean_new = sum(old) / len(old), sum(new) / len(new)
    counts = [[each.counted for each in runs if each.counted] for runs in (before, after)]
    if _significant(rate_difference(*counts)):
        if mean_new <= MATTERS * mean_old:
            return "less"
        return "more" if mean_old <= MATTERS * mean_new else "same"
    close = MATTERS * mean_old <= mean_new <= mean_old / MATTERS
    return "same" if close and min(*old, *new) > 0 else "undecided"


def _significant(difference: Difference) -> bool:
    return difference.p is not None and difference.p < ALPHA and not difference.overlap


def _of_presence(anomaly: str, before: Sequence[RunSample], after: Sequence[RunSample]) -> Effect:
    """An anomaly that some runs have and some have not is undecided."""
    old, new = (_presences(anomaly, runs) for runs in (before, after))
    if min(len(old), len(new)) < REPETITIONS:
        return "undecided"
    if all(old) and not any(new):
        return "gone"
    return "same" if all(old) and all(new) else "undecided"


def _presences(anomaly: str, runs: Iterable[RunSample]) -> list[bool]:
    """In each run that looked for it, whether it was there."""
    seen = [(each.sample.anomalies or {}).get(anomaly) for each in runs]
    return [each.found > 0 for each in seen if each is not None and each.looked_at]


def _moot(investigation: Investigation, planned: PlannedExperiment, symptom: str) -> bool:
    """What it is compared with has no such symptom: nothing can be learnt."""
    runs = investigation.of(planned.against)
    if len(runs) < REPETITIONS:
        return False
    return not any(each.loss for each in runs) if symptom == LOSS else not any(_presences(symptom, runs))


def _typical_s(investigation: Investigation) -> float:
    taken = [each.took_s for runs in investigation.ran.values() for each in runs]
    return sum(taken) / len(taken) if taken else 0.0
