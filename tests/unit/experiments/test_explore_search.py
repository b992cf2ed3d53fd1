"""The search with runs that are made up: budget, findings, failures, Ctrl-C, and what is said at the end."""

import io
import re
import tomllib
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from rich.console import Console

from harness.clusters.spec import ClusterSpec, make_cluster
from harness.experiments.explore.goal import FoundAnomaly, Goal, goal_of
from harness.experiments.explore.output import as_json, command, kept, shown, write_file
from harness.experiments.explore.search import Exploration, StoppedError, TryResult, explore
from harness.experiments.explore.search_space import SearchSpace, candidates, search_space_on
from harness.foundation.errors import ClusterError, Exit
from harness.foundation.progress import SilentProgress
from harness.runs import scenario as scenarios
from harness.runs.scenario import Scenario

TRY_S = 20.0
LOSS = FoundAnomaly("lost-write", 1581, "allowed", "acks=1, and a fault changes leaders")
DUPLICATE = FoundAnomaly("duplicate", 3, "allowed", "without idempotence")
TORN = FoundAnomaly("torn", 1, "illegal")


@pytest.fixture(scope="module")
def space() -> SearchSpace:
    """What is drawn from."""
    cluster = make_cluster(ClusterSpec(), SilentProgress())
    return search_space_on(
        cluster, ["stream"], ["kill", "pause", "latency", "leader-move"], flags={"name": "explore-7"}
    )


class Clock:
    """Moves on by as much as a run takes."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """The time now."""
        return self.now_s


def loses(scenario: Scenario) -> bool:
    """What acks=1 does when a node is killed."""
    return scenario.settings.acks == "1" and any(plan.fault == "kill" for plan in scenario.nemesis)


def explored(
    space: SearchSpace,
    ran: Callable[[Scenario, int], TryResult],
    goal: Goal | None = None,
    budget_s: float = 600.0,
    said: list[str] | None = None,
) -> Exploration:
    """A search with made-up runs, each of which takes as long as the others."""
    known = Exploration(space, goal or goal_of(["lost-write"]), 7, budget_s)
    clock = Clock()

    def run(scenario: Scenario, limit_s: float) -> TryResult:
        assert limit_s > 0
        clock.now_s += TRY_S
        return ran(scenario, len(known.tries) + 1)

    explore(known, candidates(space, 7), run, (said if said is not None else []).append, clock)
    return known


def usual(scenario: Scenario, _: int) -> TryResult:
    """A run that loses where it can, and has duplicates wherever it can."""
    found = (DUPLICATE, LOSS) if loses(scenario) else (DUPLICATE,)
    return TryResult(found, "valid", "store/explore-7/x", tuple(str(plan.fault) for plan in scenario.nemesis), TRY_S)


def test_a_loss_is_found_and_made_small(space: SearchSpace) -> None:
    """To one fault and one setting, seen in every run."""
    known = explored(space, usual)
    assert known.anomaly == "lost-write"
    assert known.best is not None
    assert [plan.fault for plan in known.best.nemesis] == ["kill"]
    assert known.best.settings.acks == "1"
    assert known.counted.hits == known.counted.runs >= 3
    assert known.exit_code is Exit.INVALID


def test_the_budget_is_kept(space: SearchSpace) -> None:
    """To the last try that fits."""
    known = explored(space, lambda scenario, number: TryResult((), "valid", took_s=TRY_S), budget_s=200)
    assert len(known.tries) == 10
    assert known.took_s == 200
    assert known.exit_code is Exit.VALID


def test_the_budget_is_kept_while_it_is_made_small(space: SearchSpace) -> None:
    """Whatever is left to make smaller."""
    known = explored(space, usual, budget_s=240)
    assert known.took_s <= 240
    assert known.first is not None


def test_one_try_is_made_however_short_the_time(space: SearchSpace) -> None:
    """How long one takes is not known before."""
    assert len(explored(space, usual, budget_s=1).tries) == 1


def test_what_is_allowed_is_no_finding_unless_somebody_looks_for_it(space: SearchSpace) -> None:
    """By name, or with any other."""
    assert explored(space, usual, Goal(), budget_s=300).first is None
    assert explored(space, usual, goal_of(["any"]), budget_s=300).anomaly == "duplicate"


def test_what_is_illegal_always_is_a_finding(space: SearchSpace) -> None:
    """And the gravest of a run is what is made small."""
    known = explored(space, lambda *_: TryResult((LOSS, TORN), "invalid", took_s=TRY_S), Goal())
    assert known.anomaly == "torn"
    assert known.shrinking is not None
    assert known.shrinking.best.turns == ()


def test_a_try_that_failed_is_told_and_the_next_one_made(space: SearchSpace) -> None:
    """The harness failed, and not the broker."""
    said: list[str] = []
    known = explored(
        space,
        lambda _, number: (
            TryResult(trouble="no cluster", took_s=TRY_S) if number % 2 else TryResult((), "valid", took_s=TRY_S)
        ),
        budget_s=100,
        said=said,
    )
    assert [bool(each.ran.trouble) for each in known.tries] == [True, False, True, False, True]
    assert any("failed: no cluster" in text for text in said)


def test_nothing_but_failures_is_an_error(space: SearchSpace) -> None:
    """Nothing will come of more."""
    with pytest.raises(ClusterError, match="3 tries in a row failed"):
        explored(space, lambda *_: TryResult(trouble="no cluster", took_s=TRY_S))


def test_failures_while_it_is_made_small_say_nothing_about_the_finding(space: SearchSpace) -> None:
    """Every other run fails, and it becomes as small and as sure as without that."""
    calls: list[int] = []

    def run(scenario: Scenario, number: int) -> TryResult:
        calls.append(number)
        return TryResult(trouble="no cluster", took_s=TRY_S) if len(calls) % 2 == 0 else usual(scenario, number)

    known, smooth = explored(space, run, budget_s=3000), explored(space, usual, budget_s=3000)
    assert known.shrinking is not None
    assert smooth.shrinking is not None
    assert known.shrinking.finished
    assert [plan.fault for plan in known.best.nemesis] == ["kill"] if known.best else False
    assert known.counted == smooth.counted
    assert (known.counted.hits, known.counted.runs) == (3, 3)


def test_nothing_but_failures_while_it_is_made_small_keeps_the_finding(space: SearchSpace) -> None:
    """And says why it went no further."""
    found: list[int] = []

    def run(scenario: Scenario, number: int) -> TryResult:
        if found:
            return TryResult(trouble="no cluster", took_s=TRY_S)
        found.extend([number] if loses(scenario) else [])
        return usual(scenario, number)

    known = explored(space, run)
    assert known.exit_code is Exit.INVALID
    assert [bool(each.ran.trouble) for each in known.tries[found[0] :]] == [True] * 3
    assert known.stopped == "3 tries in a row failed (no cluster)"
    assert (known.counted.hits, known.counted.runs) == (1, 1)
    console = Console(file=io.StringIO(), width=200)
    shown(console, known, Path("found.toml"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "lost-write in 1 of 1 run\n" in text
    assert "3 tries in a row failed (no cluster): it may be possible to make it smaller" in text


@pytest.mark.parametrize("error", [ClusterError("it broke", "mend it"), OSError(28, "no space"), ValueError("a bug")])
def test_whatever_ends_it_what_was_found_stays_found(space: SearchSpace, error: Exception) -> None:
    """With nothing found it is an error."""

    def run(scenario: Scenario, number: int) -> TryResult:
        if known:
            raise error
        known.extend([number] if loses(scenario) else [])
        return usual(scenario, number)

    known: list[int] = []
    ended = explored(space, run)
    assert ended.exit_code is Exit.INVALID
    assert ended.best is not None
    assert ended.stopped
    with pytest.raises(type(error)):
        explored(space, run)


def test_ctrl_c_while_nothing_is_found_is_an_interruption(space: SearchSpace) -> None:
    """What was tried is still told."""

    def run(_: Scenario, number: int) -> TryResult:
        if number == 3:
            raise StoppedError
        return TryResult((), "valid", took_s=TRY_S)

    known = explored(space, run)
    assert len(known.tries) == 2
    assert known.exit_code is Exit.INTERRUPTED


def test_ctrl_c_while_it_is_made_small_keeps_the_best_so_far(space: SearchSpace) -> None:
    """It is a finding all the same."""

    def run(scenario: Scenario, number: int) -> TryResult:
        if loses(scenario) and len(scenario.nemesis) == 1:
            seen.append(number)
        if len(seen) > 3:
            raise StoppedError
        return usual(scenario, number)

    seen: list[int] = []
    known = explored(space, run)
    assert known.interrupted
    assert known.exit_code is Exit.INVALID
    assert known.best is not None
    assert [plan.fault for plan in known.best.nemesis] == ["kill"]


def test_a_finding_in_the_run_that_ctrl_c_ended_counts(space: SearchSpace) -> None:
    """The run was healed and checked."""

    def run(scenario: Scenario, number: int) -> TryResult:
        raise StoppedError(TryResult((LOSS,), "unknown", took_s=TRY_S))

    known = explored(space, run)
    assert known.exit_code is Exit.INVALID
    assert known.best is not None


def test_what_was_found_is_kept_as_a_scenario_that_repeats_it(space: SearchSpace, tmp_path: Path) -> None:
    """With the verdict that it is going to have."""
    known, file = explored(space, usual), tmp_path / "new" / "found.toml"
    write_file(known, file)
    loaded = scenarios.load(file, {})
    assert loaded == kept(known)
    assert loses(loaded)
    assert loaded.expect == "valid"
    assert loaded.name == ""
    assert "lost-write in 3 of 3 runs" in file.read_text()


def test_what_was_found_is_told_with_its_command(space: SearchSpace) -> None:
    """Which can be pasted."""
    known, console = explored(space, usual), Console(file=io.StringIO(), width=200)
    shown(console, known, Path("a b/found.toml"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "lost-write ×1,581 (allowed): acks=1, and a fault changes leaders" in text
    assert "of 3 runs" in text
    assert command(Path("a b/found.toml")) == "tidegauge run 'a b/found.toml'"
    assert "tidegauge run 'a b/found.toml'" in text


def test_nothing_found_says_what_was_looked_at_and_never_valid_alone(space: SearchSpace) -> None:
    """What was not tried may be broken."""
    known = explored(space, usual, Goal(), budget_s=300)
    console = Console(file=io.StringIO(), width=200)
    shown(console, known, None)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "nothing found: anything illegal was sought" in text
    assert "15 in 300 s" in text
    assert "stream ×15" in text
    assert "faults    " in text
    assert re.search(
        r"seen +duplicate \(.+\) in 15 · lost-write \(allowed\) in \d+\n", text
    )  # nobody is to think that all was fine
    assert "VALID" not in text


def test_json_has_every_try_and_the_scenario(space: SearchSpace) -> None:
    """For scripts."""
    known = explored(space, usual)
    told = as_json(known, Path("found.toml"))
    assert told["found"]["faults"] == 1
    assert told["found"]["command"] == "tidegauge run found.toml"
    assert tomllib.loads(scenarios.to_toml(told["found"]["scenario"]))["workload"]["acks"] == "1"
    assert len(told["tries"]) == len(known.tries)
    assert told["exit_code"] == 1


def test_draws_of_a_search_are_those_of_its_seed(space: SearchSpace) -> None:
    """So that a search can be repeated."""
    known = explored(space, lambda *_: TryResult((), "valid", took_s=TRY_S), budget_s=100)
    assert [each.draw for each in known.tries] == list(islice(candidates(space, 7), 5))
