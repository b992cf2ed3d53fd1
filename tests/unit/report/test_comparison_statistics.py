"""The statistics of a comparison: independent messages, bursts of losses, few runs, and many questions at once."""

import pytest

from harness.report.comparison.statistics import (
    ArrivalCount,
    holm,
    mean_interval,
    presence_difference,
    rate_difference,
    ratio_difference,
    wilson,
)


def counted(*arrived: int, of: int = 5000) -> list[ArrivalCount]:
    """Runs in which so many arrived."""
    return [ArrivalCount(each, of) for each in arrived]


def test_one_run_each_is_compared_by_the_noise_inside_it() -> None:
    """The notes' regression: 12 standard errors if messages were independent, noise if 38 were lost at a time."""
    found = rate_difference(counted(4391), counted(3939))
    assert found.basis == "inside one run"
    assert found.change == pytest.approx(-0.0904)
    assert found.clump == pytest.approx(38.3, abs=0.5)
    assert found.p is not None
    assert found.p_independent is not None
    assert found.p_independent < found.p < 0.001
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.change < found.high < 0


def test_a_difference_that_pairs_of_messages_explain_is_not_outside_noise() -> None:
    """78.8 % and 76.3 %: independent messages do not vary that much, messages that are lost three at a time do."""
    found = rate_difference(counted(3939), counted(3814))
    assert found.p is not None
    assert found.p_independent is not None
    assert found.p_independent < 0.01
    assert found.p > 0.05
    assert found.clump is not None
    assert 2 < found.clump < 3


def test_nothing_lost_anywhere_is_no_difference() -> None:
    """And no division by zero."""
    found = rate_difference(counted(5000), counted(5000))
    assert (found.change, found.p, found.clump) == (0.0, 1.0, 0.0)


def test_runs_that_reach_into_each_others_range_are_said_to() -> None:
    """The one run of the one lies between the two of the other."""
    assert rate_difference(counted(4500), counted(4000, 5000)).overlap
    assert not rate_difference(counted(4500), counted(4000, 4100)).overlap


def test_three_runs_each_are_compared_as_runs() -> None:
    """The observations are runs, and however many messages they have does not matter."""
    few = rate_difference(counted(43, 44, 45, of=50), counted(38, 39, 40, of=50))
    many = rate_difference(counted(4300, 4400, 4500), counted(3800, 3900, 4000))
    assert few.basis == many.basis == "between runs"
    assert few.change == pytest.approx(many.change)
    assert many.p is not None
    assert 0.001 < many.p < 0.01


def test_runs_that_differ_wildly_prove_nothing() -> None:
    """15,000 messages do not help against three runs that have nothing in common."""
    found = rate_difference(counted(5000, 5000, 5000), counted(5000, 4000, 4500))
    assert found.p is not None
    assert found.p > 0.1


def test_runs_that_agree_exactly_still_vary_as_messages_do() -> None:
    """Without a floor, three times 4,999 against three times 5,000 would be certain."""
    found = rate_difference(counted(5000, 5000, 5000), counted(4999, 4999, 4999))
    assert found.p is not None
    assert found.p > 0.05


def test_the_variance_of_three_runs_speaks_for_a_single_one() -> None:
    """One run against three that range from 45 % to 97 %: it may well be one of them."""
    found = rate_difference(counted(5000), counted(2250, 4400, 4850))
    assert found.basis == "between runs"
    assert found.p is not None
    assert found.p > 0.1


def test_speeds_are_compared_as_ratios() -> None:
    """Twice as slow is twice as slow, at 10 ms and at 1 s."""
    slow = ratio_difference([10, 11, 10], [20, 21, 22], floor=0.03)
    slower = ratio_difference([1000, 1100, 1000], [2000, 2100, 2200], floor=0.03)
    assert slow is not None
    assert slower is not None
    assert slow.change == pytest.approx(slower.change)
    assert slow.p is not None
    assert slow.p < 0.01


def test_of_one_run_each_nothing_is_known_about_speed() -> None:
    """There is no noise inside a run to measure it with."""
    found = ratio_difference([10], [20], floor=0.03)
    assert found is not None
    assert (found.basis, found.p, found.low) == ("nothing", None, None)
    assert ratio_difference([], [20], floor=0.03) is None
    assert ratio_difference([0.0], [20], floor=0.03) is None


def test_presence_is_judged_exactly() -> None:
    """Fisher's test: 3 of 3 against 0 of 3 is one chance in ten."""
    assert presence_difference((3, 3), (0, 3)).p == pytest.approx(0.1)


def test_many_comparisons_have_to_be_surer() -> None:
    """Holm: the smallest is multiplied by all, the next by one fewer, and none gets below the one before."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.9, 0.9]) == [1.0, 1.0]


def test_intervals() -> None:
    """Wider where messages are lost many at a time; of two runs there is none between runs."""
    low, high = wilson(4391, 5000)
    wide_low, wide_high = wilson(4391, 5000, clump=10)
    assert wide_low < low < 0.8782 < high < wide_high
    assert wilson(5000, 5000)[1] == 1.0
    assert mean_interval([0.9, 0.8]) is None
    found = mean_interval([0.9, 0.8, 0.85])
    assert found is not None
    assert found[0] < 0.85 < found[1]
