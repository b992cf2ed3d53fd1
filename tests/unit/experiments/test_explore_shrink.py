"""From a big finding to the smallest, with runs that are made up: certain ones, and some that fail now and then."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from harness.experiments.explore.search_space import Candidate, CandidateFault
from harness.experiments.explore.shrink import VERIFY, Shrinking, ddmin

BIG = Candidate(
    "stream",
    (("acks", "1"), ("client", "kafka-python"), ("linger_ms", 0), ("partitions", 3), ("rate", 500)),
    (
        CandidateFault("pause", "follower", 2.0, 6.0),
        CandidateFault("kill", "controller", 4.0, 3.0),
        CandidateFault("latency", "leader", 6.0, 6.0),
    ),
)
MANY = 1000


def needs(draw: Candidate) -> bool:
    """A finding that takes two of the three faults, a second apart, and one setting."""
    by_name = {turn.fault: turn for turn in draw.turns}
    if not by_name.keys() >= {"pause", "kill"} or ("acks", "1") not in draw.settings:
        return False
    return by_name["kill"].at_s - by_name["pause"].at_s >= 1


def shrinking(once: Callable[[Candidate], bool], room: Callable[[], int] = lambda: MANY) -> Shrinking:
    """What was found, to be made small by made-up runs."""
    return Shrinking(BIG, once, room, roles=lambda fault: "leader")


def test_the_smallest_has_only_the_faults_and_settings_that_it_takes() -> None:
    """As early and as short as can be."""
    small = shrinking(needs)
    small.run()
    assert small.best == Candidate(
        "stream",
        (("acks", "1"),),
        (CandidateFault("pause", "leader", 1.0, 1.0), CandidateFault("kill", "leader", 2.0, 1.0)),
    )
    assert small.finished
    assert small.counts[small.best].hits == small.counts[small.best].runs >= VERIFY


def test_what_shows_without_faults_and_settings_is_left_with_none() -> None:
    """A broker that is always broken."""
    small = shrinking(lambda _: True)
    small.run()
    assert small.best == Candidate("stream")


def test_what_is_certain_takes_a_few_dozen_runs() -> None:
    """Each is many seconds."""
    small = shrinking(needs)
    small.run()
    assert sum(counted.runs for counted in small.counts.values()) < 25


@pytest.mark.parametrize("seed", range(20))
def test_a_finding_that_shows_in_most_runs_loses_nothing_that_it_takes(seed: int) -> None:
    """Chance may keep too much, and never too little."""
    chance = random.Random(seed)
    small = shrinking(lambda draw: needs(draw) and chance.random() < 0.7)
    small.run()
    assert needs(small.best)
    assert not small.again or len(small.best.turns) <= len(BIG.turns)


def test_most_findings_that_show_in_most_runs_become_small() -> None:
    """Chance keeps some from it."""

    def small(seed: int) -> bool:
        chance = random.Random(seed)
        one = shrinking(lambda draw: needs(draw) and chance.random() < 0.7)
        one.run()
        return len(one.best.turns) == 2 and len(one.best.settings) <= 2

    assert sum(map(small, range(30))) > 20


def test_what_is_never_seen_again_stays_as_it_was_found() -> None:
    """Nothing can be learnt from what does not show."""
    small = shrinking(lambda _: False)
    small.run()
    assert small.best == BIG
    assert not small.again
    assert (small.counts[BIG].hits, small.counts[BIG].runs) == (1, 4)


def test_what_turns_out_less_reliable_is_taken_back() -> None:
    """One lucky run is no proof."""
    turns = count()

    def once(draw: Candidate) -> bool:
        if not draw.turns:  # shows it once, and never again
            return next(turns) < 1
        return draw == BIG or draw.turns != BIG.turns

    small = Shrinking(BIG.only(()), lambda draw: once(draw) if draw.settings == () else False, lambda: MANY)
    small.counts[small.found].hits = small.counts[small.found].runs = 3  # so that one run decides
    small.run()
    assert small.best.turns


def test_time_is_left_to_see_how_sure_the_smallest_is() -> None:
    """The smallest nobody can rely on is worth little."""
    left = [8]

    def once(draw: Candidate) -> bool:
        left[0] -= 1
        return needs(draw)

    small = shrinking(once, lambda: left[0])
    small.run()
    assert left[0] >= 0
    assert not small.finished
    assert needs(small.best)
    assert small.counts[small.best].runs >= VERIFY


def test_without_time_nothing_is_run() -> None:
    """Not even to see it again."""

    def never(_: Candidate) -> bool:
        raise AssertionError("there was no time for it")

    small = shrinking(never, lambda: 0)
    small.run()
    assert small.best == BIG


def test_what_cannot_be_run_is_not_tried() -> None:
    """Settings that do not go together."""
    small = Shrinking(BIG, needs, lambda: MANY, possible=lambda draw: ("rate", 500) in draw.settings)
    small.run()
    assert ("rate", 500) in small.best.settings


def test_the_best_is_known_when_a_run_ends_it_all() -> None:
    """However that ends."""
    runs = count()

    def once(draw: Candidate) -> bool:
        if next(runs) == 6:
            raise KeyboardInterrupt
        return needs(draw)

    small = shrinking(once)
    with pytest.raises(KeyboardInterrupt):
        small.run()
    assert needs(small.best)


def test_a_dropped_draw_is_not_run_again() -> None:
    """Different ways lead to the same one, and one run has decided."""
    small = shrinking(needs)
    small.run()
    assert {counted.runs for draw, counted in small.counts.items() if not needs(draw)} == {1}


@pytest.mark.parametrize("wanted", [(), (3,), (0, 7), (1, 2, 5), tuple(range(8))])
def test_delta_debugging_finds_exactly_what_it_takes(wanted: tuple[int, ...]) -> None:
    """Nothing, one, some, or all."""
    assert sorted(ddmin(range(8), lambda items: set(wanted) <= set(items))) == list(wanted)


def test_short_turns_are_halved_where_they_cannot_be_shortest() -> None:
    """As far as it still shows."""
    one = replace(BIG, settings=(), turns=(CandidateFault("pause", "leader", 1.0, 6.0),))
    small = Shrinking(one, lambda draw: bool(draw.turns) and draw.turns[0].for_s >= 3, lambda: MANY)
    small.run()
    assert small.best.turns[0].for_s == 3.0
