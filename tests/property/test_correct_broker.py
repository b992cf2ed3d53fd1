"""Nothing that a correct broker does is called illegal, however late its clients hear of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from checkers.core.families import FAMILIES
from checkers.core.results import CheckResults
from harness.history.schema import F
from harness.judging.policies import RunFacts, judge
from tests.support.correct_broker import MS, Producers, Readers, World
from tests.support.correct_group import NODES, Group
from tests.support.correct_transform import Transform
from tests.support.histories import SECOND_NS, Rows
from tests.support.kernels import SIZES, Size, check_rows, findings_of

HISTORIES, STEPS = 80, 100
NIGHTLY = 2_000
FACTS = RunFacts(acks="all", idempotence=True, client="kafka-python", exchanges=1_000, probes=True)


def _write(rows: Rows, topic: int, random: Random) -> None:
    """A load, and its final read when all is over."""
    world = World(rows, topic, random)
    producers, readers = Producers(world), Readers(world)
    group, transform = Group(world, readers), Transform(world, producers, readers)

    def meanwhile() -> None:
        world.passes()
        random.choice([readers.polls, readers.polls, producers.sends, group.goes_on])()

    doings: dict[Callable[[], None], float] = {
        producers.sends: 4, lambda: producers.transacts(meanwhile): 2, readers.polls: 4, group.goes_on: 8,
        group.moves: 1, group.hears: 0.5, lambda: transform.goes_on(meanwhile): 2,
    }  # fmt: skip
    for _ in range(STEPS):
        world.passes()
        random.choices([*doings], [*doings.values()])[0]()
    world.now += 60 * SECOND_NS
    transform.asks()
    readers.reads_all("r", F.FINAL)
    world.now += MS
    readers.reads_all("w", F.RAW)
    readers.reads_replicas(NODES)


def _marks(first: int, histories: int, size: Size) -> Counter[tuple[str, ...]]:
    rows = Rows()
    for topic in range(histories):
        _write(rows, topic, Random(first + topic))
    outcomes, failures = check_rows(rows, FAMILIES, size)
    assert not failures
    looked_at = {name for outcome in outcomes.values() for name, count in outcome.looked_at.items() if count}
    assert looked_at >= LOOKED_AT
    findings = findings_of(rows, outcomes)
    return Counter((each.anomaly, *each.tags, judge(each, CheckResults(), FACTS).status) for each in findings)


LOOKED_AT = {
    "lost-write", "lost-tail", "phantom", "aborted-read", "duplicate", "false-ack", "shared-offset", "realtime-order",
    "committed-offset-regression", "committed-offset-vanished", "rebalance-loss", "double-ownership", "retry-duplicate",
    "retry-offset-changed", "retry-reorder", "poll-skip", "nonmonotonic-poll", "gap", "nonmonotonic-send",
    "int-nonmonotonic-send", "torn", "wrong-outcome", "G1c", "G1c-realtime", "replica-divergence",
    "offsets-not-atomic", "zombie-write", "precommitted-read",
}  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_correct_broker_is_accused_of_nothing(size: Size) -> None:
    """What may have been otherwise is unproven, and some of it is there: the timing is bad enough."""
    marks = _marks(0, HISTORIES, size)
    assert not [mark for mark in marks if mark[-1] == "illegal"]
    assert {mark[0] for mark in marks} >= {"committed-offset-vanished", "rebalance-loss"}


@pytest.mark.nightly
def test_it_is_accused_of_nothing_in_thousands_of_histories() -> None:
    """Others every time would tell nobody what to mend."""
    for first in range(0, NIGHTLY, 200):
        assert not [mark for mark in _marks(1_000 + first, 200, SIZES[0]) if mark[-1] == "illegal"]
