"""The best of all others is what comparing every row with every other finds."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from checkers.core.arrays import Bools, GroupBy, Ints
from checkers.core.moments import MomentIndex
from checkers.core.other_nodes import RunningBest, first_of_each

SEEDS = range(60)


def _lanes(random: Random) -> Ints:
    return np.sort(np.array([random.randrange(4) for _ in range(random.randrange(30))], np.int64))


def _few(random: Random, count: int, most: int) -> Ints:
    return np.array([random.randrange(most) for _ in range(count)], np.int64)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_of_others_is_that_of_all_that_differ(seed: int) -> None:
    """Of the rows of its lane up to one of them, with whatever keys the question has."""
    random = Random(seed)
    lane = _lanes(random)
    order = np.array(random.sample(range(len(lane)), len(lane)), np.int64)
    most = random.choice((1, 2, 3, 9))
    one, two = _few(random, len(lane), most), _few(random, len(lane), most)
    upto = _few(random, 40, len(lane) + 1) - 1
    mine = _few(random, 40, most + 1), _few(random, 40, most + 1)
    ranked = RunningBest(lane, order)

    def best(row: int, counts: Bools) -> int:
        upto_row = [each for each in range(row + 1) if lane[each] == lane[row] and counts[each]]
        return max(upto_row, key=order.tolist().index, default=-1)

    asked = list(zip(upto.tolist(), mine[0].tolist(), mine[1].tolist(), strict=True))
    assert ranked.best(upto).tolist() == [best(row, np.ones(len(lane), np.bool_)) for row, _, _ in asked]
    assert ranked.best_of_others(upto, one, mine[0]).tolist() == [best(row, one != a) for row, a, _ in asked]
    assert ranked.best_of_strangers(upto, (one, two), mine).tolist() == [
        best(row, (one != a) & (two != b)) for row, a, b in asked
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_lies_before_a_moment_is_counted(seed: int) -> None:
    """Strictly; also of lanes that have nothing."""
    random = Random(seed)
    lane = _lanes(random)
    moment = _few(random, len(lane), 6) * 10
    moment = moment[np.lexsort((moment, lane))]
    asked, at = _few(random, 40, 6) - 1, _few(random, 40, 70) - 5
    before = MomentIndex(lane, moment)
    rows = [
        [row for row in range(len(lane)) if lane[row] == a and moment[row] < b]
        for a, b in zip(asked.tolist(), at.tolist(), strict=True)
    ]
    assert before.last(asked, at).tolist() == [max(each, default=-1) for each in rows]
    between = before.count(asked, at + 20) - before.count(asked, at)
    assert between.tolist() == [
        int(((lane == a) & (moment >= b) & (moment < b + 20)).sum())
        for a, b in zip(asked.tolist(), at.tolist(), strict=True)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_of_each_group_is_the_first_by_all_keys(seed: int) -> None:
    """Key by key, and then by its number."""
    random = Random(seed)
    group = _few(random, random.randrange(30), 5)
    one, two = _few(random, len(group), 2), _few(random, len(group), 3)
    first = first_of_each(GroupBy(group), one, two).tolist()
    rows = range(len(group))
    assert first == [
        min((each for each in rows if group[each] == key), key=lambda each: (one[each], two[each], each))
        for key in sorted({*group.tolist()})
    ]
