"""What a difference between runs can be told from: the statistics of `tidegauge compare`.

**Inside one run** messages are not independent: a batch arrives or is lost as a whole, and a stalled partition loses
its tail. An interval over 5,000 messages is therefore a bound on the noise *inside* that run, and too narrow a one if
each message is counted as a draw of its own. Two bounds are computed: one as if messages were independent, and one as
if they were lost CLUMP at a time (a design effect of that size). A difference that the first bound explains is none;
one that even the second does not explain is outside the noise of one run; between the two nobody can tell. `clump` says
how many messages would have to be lost at a time for noise to explain what was seen.

**Between runs** the variance cannot be known from one run each. From RUNS_FOR_VARIANCE on in both groups the runs
themselves are the observations (Welch's t-test, which lets the groups differ in variance); with fewer, but
RUNS_IN_ALL together, too, if both groups are taken to vary alike (Student's). Runs that happen to agree do not prove
that there is no variance: that of a rate is not taken to be smaller than what independent messages would have, and that
of other measures not smaller than what they are known to.

**Many comparisons** find something sooner or later: p-values are adjusted by Holm's method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

ALPHA = 0.05
CLUMP = 10.0  # messages that are lost at a time, unless more is known
RUNS_FOR_VARIANCE = 3
RUNS_IN_ALL = 4  # that show how runs vary, if both groups vary alike
Basis = Literal["between runs", "inside one run", "presence", "nothing"]


@dataclass(frozen=True)
class ArrivalCount:
    """Of so many messages of one run that were expected, so many arrived."""

    arrived: int
    expected: int

    @property
    def rate(self) -> float:
        """The share that arrived."""
        return self.arrived / self.expected


@dataclass(frozen=True)
class Difference:
    """How two groups differ in one measure, and what that rests on.

    `change`, `low` and `high` are differences; of speeds, which are compared as ratios, the logarithm of the ratio.
    """

    before: float
    after: float
    change: float
    low: float | None  # the 95 % interval of the change; None where nothing gives one
    high: float | None
    basis: Basis
    p: float | None = None  # that noise alone would do it
    p_independent: float | None = None  # the same, if messages were independent; inside one run alone
    clump: float | None = None  # messages lost at a time that would make it noise; inside one run alone
    overlap: bool = False  # the runs of both groups reach into each other's range

    @property
    def margin(self) -> float | None:
        """Half the width of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def wilson(arrived: float, expected: float, clump: float = 1.0) -> tuple[float, float]:
    """The interval of one share (Wilson's), where messages go `clump` at a time."""
    count, share, z = expected / clump, arrived / expected, critical()
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The interval of a mean over runs; None from fewer than can show how runs vary."""
    if len(values) < RUNS_FOR_VARIANCE:
        return None
    from scipy import stats

    half = float(stats.t.ppf(1 - ALPHA / 2, len(values) - 1)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    middle = float(np.mean(values))
    return middle - half, middle + half


def critical() -> float:
    """How many standard errors are not noise."""
    from scipy import stats

    return float(stats.norm.ppf(1 - ALPHA / 2))


def rate_difference(before: Sequence[ArrivalCount], after: Sequence[ArrivalCount]) -> Difference:
    """Two groups of runs by the share of messages that arrived."""
    if len(before) + len(after) < RUNS_IN_ALL:
        return _inside_one_run(before, after)
    old, new = ([run.rate for run in group] for group in (before, after))
    return _between_runs(old, new, (_independent_variance(before), _independent_variance(after)))


def ratio_difference(before: Sequence[float], after: Sequence[float], *, floor: float) -> Difference | None:
    """Two groups of runs by how many times more one has than the other; None where that cannot be said.

    `floor` is the standard deviation that the logarithm has between runs at least.
    """
    if not before or not after or min(*before, *after) <= 0:
        return None
    old, new = ([math.log(value) for value in group] for group in (before, after))
    means = math.exp(_mean(old)), math.exp(_mean(new))
    if len(old) + len(new) < RUNS_IN_ALL:
        return Difference(*means, _mean(new) - _mean(old), None, None, "nothing")
    found = _between_runs(old, new, (floor**2, floor**2))
    return replace(found, before=means[0], after=means[1])


def presence_difference(before: tuple[int, int], after: tuple[int, int]) -> Difference:
    """Two groups by how many of their runs have something: (with it, all that looked for it). Fisher's exact test."""
    from scipy import stats

    table = [[before[0], before[1] - before[0]], [after[0], after[1] - after[0]]]
    p = float(stats.fisher_exact(table).pvalue)
    old, new = before[0] / before[1], after[0] / after[1]
    return Difference(old, new, new - old, None, None, "presence", p)


def holm(values: Sequence[float]) -> list[float]:
    """P-values, adjusted for being so many (Holm's step-down method), in the order given."""
    adjusted = [0.0] * len(values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=lambda index: values[index])):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = highest
    return adjusted


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _independent_variance(runs: Sequence[ArrivalCount]) -> float:
    """What the rate of one run varies by if messages are independent; never nothing, though all may have arrived."""
    arrived, expected = sum(run.arrived for run in runs), sum(run.expected for run in runs)
    share = (arrived + 2) / (expected + 4)
    return share * (1 - share) * len(runs) / expected


def _between_runs(before: Sequence[float], after: Sequence[float], floors: tuple[float, float]) -> Difference:
    """A t-test over runs, whose variance is at least `floors`."""
    from scipy import stats

    groups = (before, after)
    if min(len(before), len(after)) >= RUNS_FOR_VARIANCE:
        spreads = [
            max(float(np.var(group, ddof=1)), floor) / len(group) for group, floor in zip(groups, floors, strict=True)
        ]
        error = math.sqrt(sum(spreads))
        freedom = sum(spreads) ** 2 / sum(
            spread**2 / (len(group) - 1) for spread, group in zip(spreads, groups, strict=True)
        )
    else:
        freedom = len(before) + len(after) - 2
        pooled = sum(float(np.var(group)) * len(group) for group in groups) / freedom
        error = math.sqrt(max(pooled, sum(floors) / 2) * (1 / len(before) + 1 / len(after)))
    change = _mean(after) - _mean(before)
    p = 2 * float(stats.t.sf(abs(change) / error, freedom))
    half = float(stats.t.ppf(1 - ALPHA / 2, freedom)) * error
    return Difference(_mean(before), _mean(after), change, change - half, change + half, "between runs", p)


def _inside_one_run(before: Sequence[ArrivalCount], after: Sequence[ArrivalCount]) -> Difference:
    """Both groups as one run each, with messages that are lost CLUMP at a time (and one at a time)."""
    from scipy import stats

    (old, all_old), (new, all_new) = (
        (sum(run.arrived for run in group), sum(run.expected for run in group)) for group in (before, after)
    )
    share, change = (old + new) / (all_old + all_new), new / all_new - old / all_old
    error = math.sqrt(share * (1 - share) * (1 / all_old + 1 / all_new))
    errors = abs(change) / error if error else 0.0
    low, high = _newcombe((old, all_old), (new, all_new))
    ranges = [(min(run.rate for run in group), max(run.rate for run in group)) for group in (before, after)]
    return Difference(
        old / all_old,
        new / all_new,
        change,
        low,
        high,
        "inside one run",
        p=2 * float(stats.norm.sf(errors / math.sqrt(CLUMP))),
        p_independent=2 * float(stats.norm.sf(errors)),
        clump=(errors / critical()) ** 2,
        overlap=ranges[0][0] <= ranges[1][1] and ranges[1][0] <= ranges[0][1],
    )


def _newcombe(before: tuple[int, int], after: tuple[int, int]) -> tuple[float, float]:
    """The interval of a difference of shares (Newcombe's), where messages go CLUMP at a time."""
    (old_low, old_high), (new_low, new_high) = wilson(*before, CLUMP), wilson(*after, CLUMP)
    old, new = before[0] / before[1], after[0] / after[1]
    low = new - old - math.hypot(new - new_low, old_high - old)
    high = new - old + math.hypot(new_high - new, old - old_low)
    return low, high
