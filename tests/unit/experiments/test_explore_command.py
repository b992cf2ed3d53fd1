"""`tidegauge explore` from its flags to its exit code, with runs on paper: what was found is never lost."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.commands import main as cli
from harness.experiments.explore import runs as explore_runs
from harness.foundation.errors import ClusterError, Exit
from harness.history.recorder import Recorder
from harness.history.sources import segment_path
from harness.history.store import RESULTS_FILE, RUN_FILE, SCENARIO_FILE, Run
from harness.judging.checking import Checked
from harness.report.making import REPORT_FILE, SERIES_FILE
from harness.runs import scenario
from harness.runs.scenario import Scenario
from tests.support.hostile_run import facts, results, series
from tests.support.scripted_suites import PaperPool, checked

Command = Callable[..., tuple[int, str, str]]
FEW = ("-w", "stream", "-n", "kill", "-n", "pause", "--seed", "7", "--set", "acks=all")


class Paper(PaperPool):
    """Lends nothing, and ends as a test likes."""

    error: BaseException | None = None

    def cluster(self, *_: object) -> Any:
        """None."""

    def session(self) -> Any:
        """One that has nothing to say."""
        return SimpleNamespace(get=lambda: None)

    def close(self) -> None:
        """Noted, with an error if there is to be one."""
        super().close()
        if self.error is not None:
            raise self.error


@dataclass
class Runs:
    """Runs that lose something whenever a node is killed, in a directory that can be reported on."""

    directory: Path
    made: list[Scenario] = field(default_factory=list)
    shown: int = 0  # runs that had the finding
    before: Callable[[], None] = lambda: None  # each run
    shows: Callable[[Scenario], bool] = lambda each: any(plan.fault == "kill" for plan in each.nemesis)

    def run(self, given: Scenario, *_: object, **__: object) -> Checked:
        """One more."""
        self.before()
        self.made.append(given)
        found = self.shows(given)
        self.shown += found
        return replace(checked("invalid" if found else "valid"), run=Run(self.directory))


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Paper:
    """The one that the command has."""
    pool = Paper()
    monkeypatch.setattr(explore_runs, "ResourcePool", lambda _: pool)
    return pool


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pool: Paper) -> Runs:
    """The runs that the command makes."""
    runs = Runs(tmp_path / "run")
    runs.directory.mkdir()
    for name, data in ((RUN_FILE, facts()), (RESULTS_FILE, results()), (SERIES_FILE, series())):
        (runs.directory / name).write_text(json.dumps(data))
    Recorder(segment_path(runs.directory, 2), 2, {"role": "producer"}).close()
    monkeypatch.setattr(explore_runs, "run_scenario", runs.run)
    return runs


@pytest.fixture
def explore(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state_home: Path, tmp_path: Path, runs: Runs
) -> Command:
    """The command in this process: exit code, standard output, standard error."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tidegauge", "explore", *FEW, *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out, said.err

    return command


def kept(file: Path) -> Scenario:
    """What a file repeats."""
    return scenario.load(file, {})


def after_the_finding(runs: Runs, then: Callable[[], None], more: int = 0) -> Callable[[], None]:
    """What happens before each run, when there is a finding that was seen so many times again."""

    def before() -> None:
        if runs.shown > more:
            then()

    return before


def failing(error: BaseException) -> Callable[[], None]:
    """What raises this."""

    def fail() -> None:
        raise error

    return fail


def test_what_was_found_is_small_kept_and_told_with_its_report(explore: Command, runs: Runs, tmp_path: Path) -> None:
    """Exit code 1, the command that repeats it, and a page to look at."""
    code, out, _ = explore()
    file = tmp_path / "store" / "explore-7" / "found.toml"
    assert code == Exit.INVALID
    assert [plan.fault for plan in kept(file).nemesis] == ["kill"]
    assert f"tidegauge run {file}\n" in out
    assert f"report    {runs.directory / REPORT_FILE}\n" in out
    assert (runs.directory / REPORT_FILE).is_file()


def test_what_is_fixed_is_not_told_as_a_difference(explore: Command) -> None:
    """Neither before a try nor at the end."""
    _, out, err = explore()
    assert "try 1" in err
    assert "acks" not in out + err


def test_scripts_learn_the_same(explore: Command, runs: Runs) -> None:
    """As JSON."""
    code, out, _ = explore("--json", "--out", "bug.toml")
    told = json.loads(out)
    assert code == told["exit_code"] == Exit.INVALID
    assert told["found"]["file"] == "bug.toml"
    assert told["found"]["run"] == str(runs.directory)
    assert told["found"]["report"] == str(runs.directory / REPORT_FILE)


def test_nothing_found_is_exit_code_0_and_writes_nothing(explore: Command, runs: Runs, tmp_path: Path) -> None:
    """What was looked at is told."""
    runs.shows = lambda _: False
    code, out, _ = explore("--budget", "1s", "--out", "bug.toml")
    assert code == Exit.VALID
    assert "nothing found" in out
    assert not (tmp_path / "bug.toml").exists()


@pytest.mark.parametrize("error", [ClusterError("not all could be removed", "mend it"), OSError(5, "no"), ValueError()])
def test_a_finding_is_told_although_the_cluster_cannot_be_removed(
    explore: Command, pool: Paper, error: Exception
) -> None:
    """And so is what could not be removed."""
    pool.error = error
    code, out, err = explore("--out", "bug.toml")
    assert code == Exit.INVALID
    assert "FOUND" in out
    assert kept(Path("bug.toml")).nemesis
    assert "not all could be removed: mend it" in err or not isinstance(error, ClusterError)


def test_a_cluster_that_cannot_be_removed_is_an_error_if_nothing_was_found(
    explore: Command, runs: Runs, pool: Paper
) -> None:
    """As everywhere."""
    runs.shows = lambda _: False
    pool.error = ClusterError("not all could be removed", "mend it")
    code, _, err = explore("--budget", "1s")
    assert code == Exit.HARNESS_ERROR
    assert "not all could be removed" in err


@pytest.mark.parametrize(("found", "code"), [(True, Exit.INVALID), (False, Exit.INTERRUPTED)])
def test_ctrl_c_while_the_cluster_is_removed_loses_nothing(
    explore: Command,
    runs: Runs,
    pool: Paper,
    found: bool,  # noqa: FBT001
    code: Exit,
) -> None:
    """What is left of the cluster goes with the process."""
    runs.shows = lambda _: found
    pool.error = KeyboardInterrupt()
    ended, out, _ = explore("--budget", "1s", "--out", "bug.toml")
    assert ended == code
    assert ("FOUND" if found else "nothing found") in out
    assert Path("bug.toml").exists() == found


@pytest.mark.parametrize("error", [RuntimeError("Answer from Java side is empty"), OSError(28, "No space left")])
def test_runs_that_fail_while_it_is_made_small_lose_nothing(explore: Command, runs: Runs, error: Exception) -> None:
    """Whatever they fail with."""
    runs.before = after_the_finding(runs, failing(error))
    code, out, _ = explore("--out", "bug.toml")
    assert code == Exit.INVALID
    assert "in 1 of 1 run\n" in out
    assert "3 tries in a row failed" in out
    assert kept(Path("bug.toml")).nemesis


def test_ctrl_c_before_anything_is_found_is_exit_code_2(explore: Command, runs: Runs) -> None:
    """What was looked at is told."""
    runs.before = failing(KeyboardInterrupt())
    code, out, _ = explore("--out", "bug.toml")
    assert code == Exit.INTERRUPTED
    assert "nothing found" in out
    assert not Path("bug.toml").exists()


def test_ctrl_c_while_it_is_made_small_keeps_the_smallest_so_far(explore: Command, runs: Runs) -> None:
    """It is written and told; nobody waits for a report, but it can be had."""
    runs.before = after_the_finding(runs, failing(KeyboardInterrupt()), more=4)
    code, out, _ = explore("--out", "bug.toml")
    assert code == Exit.INVALID
    assert "stopped by the user: it may be possible to make it smaller" in out
    assert f"tidegauge report {runs.directory} makes one" in out
    assert [plan.fault for plan in kept(Path("bug.toml")).nemesis] == ["kill"]
    assert not (runs.directory / REPORT_FILE).exists()


def test_what_was_found_is_on_disk_before_the_next_run_begins(explore: Command, runs: Runs) -> None:
    """So kill -9 loses nothing; it is a whole file at any time, and gets smaller as what was found does."""
    seen: list[tuple[int, str]] = []

    def look() -> None:
        text = Path("bug.toml").read_text(encoding="utf-8")
        seen.append((len(kept(Path("bug.toml")).as_file()["workload"]), text.splitlines()[1]))

    runs.before = after_the_finding(runs, look)
    assert explore("--out", "bug.toml")[0] == Exit.INVALID
    assert seen[0][1] == "# lost-write in 1 of 1 run"
    assert seen[1][1] == "# lost-write in 2 of 2 runs"
    assert [size for size, _ in seen] == sorted((size for size, _ in seen), reverse=True)
    assert kept(Path("bug.toml")).nemesis
    assert [path.name for path in Path().iterdir() if "bug" in path.name] == ["bug.toml"]


def test_a_file_that_could_be_written_no_more_is_told_and_the_finding_with_it(explore: Command, runs: Runs) -> None:
    """The run has the scenario as well."""
    there = Path("there")
    there.mkdir()

    def spoil() -> None:
        if there.is_dir():
            for each in there.iterdir():
                each.unlink()
            there.rmdir()
            there.write_text("a file")

    runs.before = spoil
    code, out, err = explore("--out", "there/bug.toml")
    assert code == Exit.INVALID
    assert err.count("writing bug.toml failed") == 1
    assert f"tidegauge run {runs.directory / SCENARIO_FILE}\n" in out


@pytest.mark.parametrize("named", [".", "there", "there/", "file/bug.toml", "/dev/null", "/proc/none/bug.toml", ""])
def test_where_nothing_can_be_written_nothing_is_begun(explore: Command, runs: Runs, pool: Paper, named: str) -> None:
    """Instead of after the whole budget."""
    Path("there").mkdir()
    Path("file").touch()
    code, out, err = explore("--out", named)
    assert (code, out) == (Exit.USAGE, "")
    assert "--out" in err
    assert not runs.made
    assert not pool.ended


def test_a_file_that_is_there_is_left_alone_until_something_is_found(explore: Command, runs: Runs) -> None:
    """And a link to one stays a link."""
    runs.shows = lambda _: False
    Path("old.toml").write_text("seed = 1\n")
    Path("bug.toml").symlink_to("old.toml")
    assert explore("--budget", "1s", "--out", "bug.toml")[0] == Exit.VALID
    assert Path("old.toml").read_text() == "seed = 1\n"
    runs.shows = lambda _: True
    assert explore("--out", "bug.toml")[0] == Exit.INVALID
    assert Path("bug.toml").is_symlink()
    assert kept(Path("old.toml")).seed != 1


@pytest.mark.parametrize(("named", "told"), [("bug", "./bug"), ("./bug", "./bug"), ("new/bug", "new/bug")])
def test_the_command_that_is_told_finds_the_file(explore: Command, named: str, told: str) -> None:
    """A bare word would be looked for among the scenarios that we ship."""
    _, out, _ = explore("--out", named)
    assert f"tidegauge run {told}\n" in out
    assert kept(scenario.find(told)).nemesis
