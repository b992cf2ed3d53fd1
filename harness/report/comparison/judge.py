"""Comparing runs: what got worse, what got better, what did not change, and what nobody can tell yet.

Each pair of groups is compared in each measure that both have. The verdict of a measure is

    regression, improvement   the difference is outside the noise that its basis can show
    no difference             noise explains it, and the measurement is fine enough to say so
    too few runs to tell      anything else

by the rules of `compare_stats`; p-values are adjusted within each of three questions: do messages arrive, what was
found, how fast was it. A finding is a proof and no estimate: an illegal anomaly that every run of one group has
and no run of the other is a difference, however few they are; one that only some runs have is judged by Fisher's test.

The verdict of a pair is its gravest: a regression in anything is one. Measures of speed differ a little from run to
run on any machine: less than SPEED_MATTERS is no difference, though it may be a significant one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

from harness.foundation.errors import UsageError
from harness.report.comparison.inputs import Group, asked_differently, asked_unevenly
from harness.report.comparison.statistics import (
    ALPHA,
    CLUMP,
    RUNS_FOR_VARIANCE,
    Difference,
    holm,
    presence_difference,
    rate_difference,
    ratio_difference,
)

Verdict = Literal["regression", "improvement", "no difference", "too few runs to tell"]
SUCCESS = "success rate"
GROUPS_AT_MOST = 8
FINE_ENOUGH = 0.02  # an interval of a rate that is at most so far to either side can say "no difference"
SPEED_MATTERS = math.log(1.1)  # a tenth
SPEED_FINE_ENOUGH = math.log(1.25)


@dataclass(frozen=True)
class Measure:
    """Something that runs are compared by."""

    name: str
    unit: str
    question: Literal["messages", "findings", "speed"]  # p-values are adjusted within each
    more_is_better: bool
    floor: float = 0.0  # the standard deviation that its logarithm has between runs at least; of speeds alone


SUCCESS_MEASURE = Measure(SUCCESS, "%", "messages", more_is_better=True)
SPEEDS = (  # percentiles of latencies are off by up to 6 %: nothing that is closer is told apart
    Measure("latency p50", "ms", "speed", more_is_better=False, floor=0.03),
    Measure("latency p99", "ms", "speed", more_is_better=False, floor=0.03),
    Measure("throughput of sends", "messages/s", "speed", more_is_better=True, floor=0.01),
    Measure("throughput of reads", "messages/s", "speed", more_is_better=True, floor=0.01),
)


@dataclass(frozen=True)
class MeasureComparison:
    """One measure of a pair, with its verdict and why."""

    measure: str
    verdict: Verdict
    difference: Difference
    p: float | None  # adjusted for the number of comparisons
    sentence: str
    why: str


@dataclass(frozen=True)
class Pair:
    """Two groups, the earlier named first."""

    before: str
    after: str
    verdict: Verdict
    measures: tuple[MeasureComparison, ...]

    @property
    def sentence(self) -> str:
        """The verdict with what decided it."""
        deciding = next((each for each in self.measures if each.verdict == self.verdict), None)
        return deciding.sentence if deciding else f"{self.verdict}: nothing was measured in both"

    def of(self, measure: str) -> MeasureComparison | None:
        """The verdict in one measure."""
        return next((each for each in self.measures if each.measure == measure), None)


@dataclass(frozen=True)
class Comparison:
    """Groups, the first of which is the baseline, and every pair of them."""

    groups: tuple[Group, ...]
    pairs: tuple[Pair, ...]
    differs: dict[str, list[str]]  # what the groups were asked beside the product, by setting
    notes: tuple[str, ...]

    @property
    def regressions(self) -> list[Pair]:
        """The groups that are worse than the baseline."""
        return [pair for pair in self.pairs if pair.before == self.groups[0].label and pair.verdict == "regression"]

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "baseline": self.groups[0].label,
            "alpha": ALPHA,
            "groups": [_group_json(group) for group in self.groups],
            "pairs": [
                {
                    "before": pair.before,
                    "after": pair.after,
                    "verdict": pair.verdict,
                    "sentence": pair.sentence,
                    "measures": [_judged_json(each) for each in pair.measures],
                }
                for pair in self.pairs
            ],
            "regressions": [pair.after for pair in self.regressions],
            "asked_differently": self.differs,
            "notes": list(self.notes),
        }


def compare(groups: Sequence[Group]) -> Comparison:
    """Every pair in every measure."""
    if not 2 <= len(groups) <= GROUPS_AT_MOST:
        raise UsageError(
            f"{len(groups)} things to compare", f"name 2 to {GROUPS_AT_MOST}: runs, scenarios, or numbers as 4391/5000"
        )
    pairs = list(combinations(groups, 2))
    drafts = [list(_drafts(before, after)) for before, after in pairs]
    everything = [draft for of_pair in drafts for draft in of_pair]
    adjusted = _adjusted(everything, [draft.difference.p for draft in everything])
    independent = _adjusted(everything, [draft.difference.p_independent for draft in everything])
    verdicts = iter([_judge(*each) for each in zip(everything, adjusted, independent, strict=True)])
    judged = []
    for (before, after), of_pair in zip(pairs, drafts, strict=True):
        measures = tuple(next(verdicts) for _ in of_pair)
        judged.append(Pair(before.label, after.label, _gravest(measures), measures))
    return Comparison(tuple(groups), tuple(judged), asked_differently(groups), tuple(_notes(groups, judged)))


@dataclass(frozen=True)
class _Draft:
    """A difference whose verdict depends on how many others there are."""

    measure: Measure
    difference: Difference
    runs: tuple[int, int]
    counts: tuple[tuple[int, int], tuple[int, int]] | None = None  # of runs with an anomaly
    waited: bool = True  # whether all consumers waited for everything


def _drafts(before: Group, after: Group) -> Iterator[_Draft]:
    if before.counted and after.counted:
        runs = len(before.counted), len(after.counted)
        waited = all(run.waited for group in (before, after) for run in group.runs)
        yield _Draft(SUCCESS_MEASURE, rate_difference(before.counted, after.counted), runs, waited=waited)
    for name in _illegal_somewhere((before, after)):
        counts = _with_anomaly(before, name), _with_anomaly(after, name)
        if all(looked for _, looked in counts) and any(found for found, _ in counts):
            measure = Measure(name, "runs", "findings", more_is_better=False)
            yield _Draft(measure, presence_difference(*counts), (counts[0][1], counts[1][1]), counts)
    for measure in SPEEDS:
        old, new = before.values(measure.name), after.values(measure.name)
        difference = ratio_difference(old, new, floor=measure.floor)
        if difference:
            yield _Draft(measure, difference, (len(old), len(new)))


def _illegal_somewhere(groups: Sequence[Group]) -> list[str]:
    """Anomalies that broke a promise in some run; what every configuration here allows is no difference."""
    runs = [run for group in groups for run in group.runs]
    return sorted({name for run in runs for name, seen in (run.anomalies or {}).items() if seen.illegal})


def _with_anomaly(group: Group, name: str) -> tuple[int, int]:
    """Runs in which it was seen, whatever their configuration allows, and those that looked for it."""
    seen = [run.anomalies[name] for run in group.runs if run.anomalies is not None and name in run.anomalies]
    return sum(each.found > 0 for each in seen), sum(each.looked_at for each in seen)


def _adjusted(drafts: Sequence[_Draft], values: Sequence[float | None]) -> list[float | None]:
    """By Holm, over all pairs and measures of one question; what has no p-value stays without."""
    adjusted: list[float | None] = [None] * len(drafts)
    for question in ("messages", "findings", "speed"):
        mine = [
            (place, value)
            for place, (draft, value) in enumerate(zip(drafts, values, strict=True))
            if draft.measure.question == question and value is not None
        ]
        for (place, _), value in zip(mine, holm([value for _, value in mine]), strict=True):
            adjusted[place] = value
    return adjusted


def _judge(draft: _Draft, p: float | None, p_independent: float | None) -> MeasureComparison:
    difference = draft.difference
    if draft.counts:
        verdict, noise, why = _by_presence(draft, draft.counts, p)
    elif difference.basis == "inside one run":
        verdict, noise, why = _by_messages(draft, p, p_independent)
    elif difference.basis == "between runs":
        verdict, noise, why = _by_runs(draft, p)
    else:
        verdict, noise = "too few runs to tell", ""
        why = f"{_runs(draft)}: how much runs differ by themselves is unknown"
    sentence = f"{verdict}: {change_of(draft.measure, difference)}{noise}"
    if draft.measure is not SUCCESS_MEASURE:
        sentence = f"{verdict}: {draft.measure.name} {change_of(draft.measure, difference)}{noise}"
    if draft.counts:
        sentence = f"{verdict}: {draft.measure.name}, {_presence(draft.counts)}"
    return MeasureComparison(draft.measure.name, verdict, difference, p, sentence, why)


def _by_presence(
    draft: _Draft, counts: tuple[tuple[int, int], tuple[int, int]], p: float | None
) -> tuple[Verdict, str, str]:
    (old, old_runs), (new, new_runs) = counts
    worse = new / new_runs > old / old_runs
    if {old / old_runs, new / new_runs} == {0.0, 1.0}:
        # that it happens is proven by one run; that it does not is not
        proven = "in every run of the one and in none of the other: that it happens is proven"
        few = min(old_runs, new_runs) < RUNS_FOR_VARIANCE
        return _direction(worse=worse), "", proven + (f", that it does not is not ({_runs(draft)})" if few else "")
    if old == old_runs and new == new_runs:
        return "no difference", "", "in every run of both"
    if p is not None and p < ALPHA:
        return _direction(worse=worse), "", f"Fisher's exact test, p = {p:.2g} after Holm"
    return "too few runs to tell", "", f"some runs have it and some have not ({_runs(draft)})"


def _by_messages(draft: _Draft, p: float | None, p_independent: float | None) -> tuple[Verdict, str, str]:
    """One or two runs: all that is known is the noise inside them."""
    difference = draft.difference
    assert p is not None
    assert p_independent is not None
    assert difference.clump is not None
    unknown = _runs(draft)
    if p_independent >= ALPHA:
        assert difference.margin is not None
        unseen = f"less than some {100 * difference.margin:.0f} points could not be seen"
        why = f"inside what independent messages vary by; {unseen}; {unknown}"
        return "no difference", ", inside noise", why
    at_a_time = (
        f"{difference.clump:.0f} at a time" if difference.clump >= CLUMP else f"{difference.clump:.1f} at a time"
    )
    if p >= ALPHA:
        why = f"more than independent messages vary by, but noise if they are lost {at_a_time}; {unknown}"
        return "too few runs to tell", "", why
    if not draft.waited:
        why = f"consumers were stopped with the load, and what had no time to arrive is not lost; {unknown}"
        return "too few runs to tell", "", why
    if difference.overlap:
        why = f"outside the noise inside runs, but runs of both reach into each other's range; {unknown}"
        return "too few runs to tell", "", why
    why = f"noise inside a run does that only if messages are lost {at_a_time} or more; {unknown}"
    return _direction(worse=difference.change < 0), ", outside noise", why


def _by_runs(draft: _Draft, p: float | None) -> tuple[Verdict, str, str]:
    measure, difference = draft.measure, draft.difference
    assert p is not None
    assert difference.margin is not None
    alike = "" if min(draft.runs) >= RUNS_FOR_VARIANCE else ", taking both to vary alike"
    test = f"t-test between runs ({_runs(draft)}{alike}), p = {p:.2g} after Holm"
    if p < ALPHA:
        if measure.question == "speed" and abs(difference.change) < SPEED_MATTERS:
            return "no difference", ", less than a tenth", test
        return _direction(worse=(difference.change < 0) == measure.more_is_better), ", outside noise", test
    if difference.margin <= (SPEED_FINE_ENOUGH if measure.question == "speed" else FINE_ENOUGH):
        return "no difference", ", inside noise", test
    return "too few runs to tell", "", f"{test}; runs differ too much among themselves for so few"


def _direction(*, worse: bool) -> Verdict:
    return "regression" if worse else "improvement"


def _gravest(measures: Sequence[MeasureComparison]) -> Verdict:
    """A regression in anything; an improvement, or no difference, only if nothing beside speed is left open."""
    found = {each.verdict for each in measures}
    arriving = {each.verdict for each in measures if each.measure not in {speed.name for speed in SPEEDS}}
    if "regression" in found:
        return "regression"
    if not arriving or "too few runs to tell" in arriving:
        return "too few runs to tell"
    return "improvement" if "improvement" in found else "no difference"


def change_of(measure: Measure, difference: Difference) -> str:
    """From what to what."""
    return f"{written(measure, difference.before)} → {written(measure, difference.after)}"


def written(measure: Measure, value: float) -> str:
    """A value with its unit."""
    if measure is SUCCESS_MEASURE:
        return percent(value)
    digits = 0 if abs(value) >= 100 else 1
    return f"{value:,.{digits}f} {measure.unit}"


def percent(share: float) -> str:
    """Never rounded to 100 or to 0 what is not."""
    for digits in (1, 2, 3):
        text = f"{100 * share:.{digits}f}"
        if share in {0.0, 1.0} or float(text) not in {0.0, 100.0}:
            return f"{text} %"
    return "almost 100 %" if share > 0.5 else "almost 0 %"


def _runs(draft: _Draft) -> str:
    old, new = draft.runs
    return f"{old} and {new} runs" if (old, new) != (1, 1) else "one run each"


def _presence(counts: tuple[tuple[int, int], tuple[int, int]]) -> str:
    (old, old_runs), (new, new_runs) = counts
    return f"in {old} of {old_runs} runs before, in {new} of {new_runs} after"


def _notes(groups: Sequence[Group], pairs: Sequence[Pair]) -> Iterator[str]:
    if any(each.difference.basis == "inside one run" for pair in pairs for each in pair.measures):
        yield (
            f"one run each cannot show how much runs differ by themselves: 'outside noise' is then outside the noise "
            f"inside a run (messages lost up to {CLUMP:.0f} at a time). Repeat each {RUNS_FOR_VARIANCE} times to know"
        )
    for group in groups:
        yield from (f"{group.label}: {sentence}, and is left out" for sentence in group.left_out)
        if uneven := asked_unevenly(group):
            more = f" and {len(uneven) - 4} more" if len(uneven) > 4 else ""
            yield f"{group.label}: its runs are no repetitions, they differ in {', '.join(uneven[:4])}{more}"
    if any(run.anomalies is None for group in groups for run in group.runs):
        yield "of plain numbers nothing is compared but the success rate: findings, latency and lag were not measured"
    else:
        measured = [run.lag for group in groups for run in group.runs]
        if None in measured:
            few = "in none" if not any(measured) else "not in all"
            yield f"watermark lag was measured {few} of these runs"


def _group_json(group: Group) -> dict[str, Any]:
    return {
        "label": group.label,
        "runs": [
            {
                "name": run.name,
                "verdict": run.outcome or None,
                "arrived": run.counted.arrived if run.counted else None,
                "expected": run.counted.expected if run.counted else None,
                "success_rate": run.counted.rate if run.counted else None,
                "illegal": sorted(name for name, seen in (run.anomalies or {}).items() if seen.illegal),
                "partitions": [
                    {"partition": each.name, "arrived": each.counted.arrived, "expected": each.counted.expected}
                    for each in run.partitions
                ],
                **run.values,
            }
            for run in group.runs
        ],
    }


def _judged_json(judged: MeasureComparison) -> dict[str, Any]:
    return {
        "measure": judged.measure,
        "verdict": judged.verdict,
        "sentence": judged.sentence,
        "why": judged.why,
        "p_adjusted": judged.p,
        **asdict(judged.difference),
    }
