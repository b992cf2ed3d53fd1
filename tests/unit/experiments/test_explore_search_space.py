"""What is drawn can be run: every draw loads, and its faults are possible on the cluster that it was drawn for."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from harness.clusters.base import Cluster
from harness.clusters.node import Capability
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.experiments.explore.goal import goal_of
from harness.experiments.explore.search_space import (
    OTHERS,
    Candidate,
    CandidateFault,
    SearchSpace,
    candidates,
    plainest,
    search_space_on,
)
from harness.experiments.explore.weights import weights_for
from harness.foundation.errors import CannotHere, UsageError
from harness.foundation.progress import SilentProgress
from harness.runs import scenario as scenarios
from harness.runs.planning import plan_of
from nemesis import FAULTS
from workloads import WORKLOADS

SOME = 40


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """A cluster of processes that is not up: what it can have is what this machine can do."""
    return make_cluster(ClusterSpec(), SilentProgress())


@pytest.fixture(scope="module")
def space(cluster: Cluster) -> SearchSpace:
    """What is drawn from."""
    return search_space_on(cluster)


@pytest.fixture(scope="module")
def drawn(space: SearchSpace) -> list[Candidate]:
    """The first draws of a seed."""
    return list(islice(candidates(space, 7), SOME))


def test_every_draw_is_a_scenario_whose_faults_are_possible_here(
    space: SearchSpace, cluster: Cluster, drawn: list[Candidate]
) -> None:
    """With a turn for each, at its time and at its victim."""
    for draw in drawn:
        slots = plan_of(space.scenario(draw, 1), cluster)
        assert [(slot.fault, slot.target, slot.start_s) for slot in slots] == [
            (turn.fault, turn.target, turn.at_s) for turn in draw.turns
        ]


def test_a_draw_is_the_same_scenario_when_it_comes_back_from_a_file(
    space: SearchSpace, drawn: list[Candidate], tmp_path: Path
) -> None:
    """So what was found can be kept as one."""
    file = tmp_path / "scenario.toml"
    for draw in drawn[:10]:
        scenario = space.scenario(draw, 5)
        file.write_text(scenarios.to_toml(scenario.as_file()))
        assert scenarios.load(file, {}) == scenario


def test_the_same_seed_draws_the_same_and_another_one_something_else(
    space: SearchSpace, drawn: list[Candidate]
) -> None:
    """In the same order."""
    assert list(islice(candidates(space, 7), 5)) == drawn[:5]
    assert list(islice(candidates(space, 8), 5)) != drawn[:5]


def test_who_looks_for_losses_gets_draws_that_may_lose(space: SearchSpace, drawn: list[Candidate]) -> None:
    """Mostly acks=1, the stream, and leaders that are cut off; and yet also others."""
    leaning = list(islice(candidates(replace(space, weights=weights_for(goal_of(["lost-write"]))), 7), SOME))

    def weak(of: list[Candidate]) -> int:
        return sum(dict(draw.settings).get("acks") == "1" for draw in of)

    def streams(of: list[Candidate]) -> int:
        return sum(draw.workload == "stream" for draw in of)

    def at_leaders(of: list[Candidate]) -> int:
        return sum(any(turn.target == "leader" for turn in draw.turns) for draw in of)

    assert SOME > weak(leaning) > max(SOME // 2, weak(drawn))
    assert SOME > streams(leaning) > max(SOME // 2, streams(drawn))
    assert SOME > at_leaders(leaning) > max(SOME // 2, at_leaders(drawn))


@pytest.mark.parametrize(
    ("goal", "workloads"),
    [
        ("illegal", frozenset()),
        ("any", frozenset()),
        ("duplicate", frozenset()),
        ("lost-tail", {"stream"}),
        ("aborted-read", {"transactions", "exactly-once"}),
        ("G1c", {"transactions", "exactly-once"}),
        ("rebalance-loss", {"groups", "exactly-once"}),
    ],
)
def test_draws_lean_to_workloads_that_can_show_what_is_sought(goal: str, workloads: set[str]) -> None:
    """And to none where all can."""
    weights = weights_for(goal_of([goal]))
    assert weights.workloads == workloads
    assert weights.leaders == (goal == "lost-tail")


def test_no_draw_comes_twice(drawn: list[Candidate]) -> None:
    """A run is too dear for that."""
    assert len(set(drawn)) == len(drawn)


def test_draws_differ_in_all_that_can_be_drawn(drawn: list[Candidate]) -> None:
    """Not only in a few of them."""
    settings = {key for draw in drawn for key, _ in draw.settings}
    assert len({draw.workload for draw in drawn}) > len(WORKLOADS) // 2
    assert {dict(draw.settings).get("acks", "all") for draw in drawn} == {"0", "1", "all"}
    assert {len(draw.turns) for draw in drawn} == {1, 2, 3}
    assert len({turn.fault for draw in drawn for turn in draw.turns}) > SOME // 4
    assert len(settings) > 8


def test_a_fault_comes_once_in_a_draw_and_faults_are_in_order(drawn: list[Candidate]) -> None:
    """A fault would wait for itself."""
    for draw in drawn:
        assert len({turn.fault for turn in draw.turns}) == len(draw.turns)
        assert [turn.at_s for turn in draw.turns] == sorted(turn.at_s for turn in draw.turns)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_plainest_load_of_every_workload_is_one(workload: str, space: SearchSpace) -> None:
    """Also where a workload does not take all of the plain settings."""
    scenario = space.scenario(Candidate(workload), 0)
    assert scenario.settings.acks == "all"
    assert plainest(workload)["delivery_timeout_ms"] <= 8000


def test_only_what_is_named_is_drawn(cluster: Cluster) -> None:
    """Workloads, faults with their victims, and settings."""
    named = search_space_on(cluster, ["stream"], ["kill:follower", "pause"], ["acks=1"])
    for draw in islice(candidates(named, 1), 20):
        assert draw.workload == "stream"
        assert {turn.fault for turn in draw.turns} <= {"kill", "pause"}
        assert all(turn.target == "follower" for turn in draw.turns if turn.fault == "kill")
        assert named.scenario(draw, 0).settings.acks == "1"


def test_what_is_the_same_in_every_try_is_not_drawn(cluster: Cluster) -> None:
    """It would be told and made small although it has no effect, and equal tries would look different."""
    named = search_space_on(cluster, ["stream"], ["kill", "pause"], ["acks=all", "workload.client=kafka-python"])
    drawn = list(islice(candidates(named, 1), SOME))
    assert not {key for draw in drawn for key, _ in draw.settings} & {"acks", "client"}
    assert {key for draw in drawn for key, _ in draw.settings} > {"partitions"}
    assert len({named.scenario(draw, 0).model_dump_json() for draw in drawn}) == SOME


def test_what_there_is_comes_again_when_almost_everything_is_fixed(cluster: Cluster) -> None:
    """A run of the same may still find something, and a search that waits for another draw never ends."""
    fields = WORKLOADS["stream"].model.model_fields
    keys = {"acks", "partitions", *OTHERS} & set(fields)
    fixed = [f"{key}={str(fields[key].default or OTHERS[key][-1]).lower()}" for key in sorted(keys)]
    few = search_space_on(cluster, ["stream"], ["kill:leader"], fixed)
    drawn = list(islice(candidates(few, 1), 20))
    assert {draw.settings for draw in drawn} == {()}
    assert len(set(drawn)) == 9  # three beginnings, three times


def test_a_workload_is_not_named_by_a_setting(cluster: Cluster) -> None:
    """Another one than the drawn would be run."""
    with pytest.raises(UsageError, match="--workload"):
        search_space_on(cluster, ["stream"], ["pause"], ["name=groups"])


def test_nodes_are_equipped_for_what_can_be_drawn_alone(cluster: Cluster) -> None:
    """Not for what nobody asked for."""
    assert search_space_on(cluster, ["stream"], ["pause"]).needs == {Capability.PAUSE}


def test_a_workload_that_does_not_take_the_settings_is_not_drawn(cluster: Cluster) -> None:
    """The others are."""
    assert "transactions" not in search_space_on(cluster, nemeses=["pause"], fixed=["acks=1"]).faults


def test_what_is_wrong_with_settings_that_no_workload_takes_is_said(cluster: Cluster) -> None:
    """As for a run."""
    with pytest.raises(UsageError, match="aks"):
        search_space_on(cluster, ["stream"], ["pause"], ["aks=1"])


@pytest.mark.parametrize("named", ["explode", "pause:producer"])
def test_a_fault_that_there_is_not_is_an_error(cluster: Cluster, named: str) -> None:
    """Nor a victim that it cannot have."""
    with pytest.raises(UsageError):
        search_space_on(cluster, nemeses=[named])


def test_a_load_that_ends_too_soon_for_a_fault_is_an_error(cluster: Cluster) -> None:
    """If there is no other load to draw."""
    endless = next(name for name, fault in FAULTS.items() if fault.endless and Capability.TAP not in fault.needs)
    with pytest.raises(UsageError, match="named"):
        search_space_on(cluster, ["large-batch"], [endless])


def test_a_fault_that_this_cluster_cannot_have_is_an_error() -> None:
    """It is not left out silently, because somebody named it."""
    external = make_cluster(ClusterSpec(kind="external", bootstrap=("127.0.0.1:9",)), SilentProgress())
    with pytest.raises(CannotHere):
        search_space_on(external, ["stream"], ["kill"])


def test_a_draw_reads_like_a_command_line() -> None:
    """It is what a try is announced with."""
    draw = Candidate("stream", (("acks", "1"),), (CandidateFault("isolate", "leader", 1.0, 6.0),))
    assert str(draw) == "stream acks=1 · isolate:leader at 1 s for 6 s"
