"""The retries workload: who numbers batches, what the taps do, and that there have to be taps."""

from __future__ import annotations

from typing import Any

import pytest

from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.errors import UsageError
from harness.foundation.progress import SilentProgress
from harness.runs.planning import plan_of
from harness.runs.scenario import Scenario, load
from workloads.base import CONSUMER, PRODUCER, Role
from workloads.retries import DROPPED, LATE, OF_PRODUCERS, Retries, RetriesSettings

RETRIES = Retries()


def numbered(**given: Any) -> list[bool]:
    """Which of four producers number their batches."""
    return [RETRIES.idempotent(RetriesSettings(**given), Role(PRODUCER, number, 4)) for number in range(4)]


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_every_other_producer_is_idempotent(client: str) -> None:
    """Whatever the library does by itself."""
    assert numbered(client=client) == [True, False, True, False]


@pytest.mark.parametrize(
    ("given", "all_of_them"),
    [
        ({"idempotence": True}, True),
        ({"idempotence": False}, False),
        ({"acks": 1}, False),
        ({"max_in_flight": 6}, False),
        ({"retries": 0}, False),
    ],
)
def test_all_are_alike_when_told_so_and_when_they_cannot_be_idempotent(
    given: dict[str, Any],
    all_of_them: bool,  # noqa: FBT001
) -> None:
    """A setting goes before the turn."""
    assert numbered(client="kafka-python", **given) == [all_of_them] * 4


def test_the_stages_are_those_of_a_stream() -> None:
    """Two consumers, four producers, without an end."""
    (stage,) = RETRIES.stages(RetriesSettings(), 0)
    assert [role.name for role in stage] == [CONSUMER] * 2 + [PRODUCER] * 4
    assert not any(role.finite for role in stage)


def test_answers_to_producers_are_dropped_and_come_late() -> None:
    """Later than they are waited for; nobody else's."""
    dropped, late = RETRIES.tap_rules(RetriesSettings(drop=0.3, late=0.04, request_timeout_ms=500))
    assert (dropped.title, dropped.action, dropped.then, dropped.probability) == (
        DROPPED, "drop-response", "close", 0.3,
    )  # fmt: skip
    assert (late.title, late.action, late.acts_on, late.by, late.probability) == (LATE, "delay", "response", 0.75, 0.04)
    assert {dropped.client, late.client} == {OF_PRODUCERS}
    assert dropped.apis == late.apis == frozenset({0})


def test_a_share_of_nothing_is_no_rule() -> None:
    """A rule that bends nothing would look like one that found nothing."""
    assert [rule.title for rule in RETRIES.tap_rules(RetriesSettings(drop=0))] == [LATE]
    assert RETRIES.tap_rules(RetriesSettings(drop=0, late=0)) == ()


def scenario(**workload: Any) -> Scenario:
    """Without taps."""
    return load(None, {"workload": {"name": "retries", **workload}, "tap": {"on": False}})


def test_a_run_without_taps_is_refused_before_anything_starts() -> None:
    """Unless it would bend nothing anyway."""
    cluster = make_cluster(ClusterSpec(kind="local"), SilentProgress())
    with pytest.raises(UsageError, match=r"happens at the taps, and there are none.*leave --no-tap out"):
        plan_of(scenario(), cluster)
    assert plan_of(scenario(drop=0, late=0), cluster) == []
