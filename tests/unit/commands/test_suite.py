"""The command `suite`: what it refuses before anything starts, what it lists, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.commands import main as cli
from harness.foundation.errors import Exit, TidegaugeError
from harness.history.store import Run
from harness.runs.runner import Recorded
from harness.suite import command
from tests.support.scripted_suites import STREAM, PaperPool, checked, suite_file

THREE = STREAM + "matrix = { nemesis = ['none', 'leader-move', 'isolate'] }"


@pytest.fixture(autouse=True)
def paper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Runs that come out by their names, on nothing."""

    def check(recorded: Recorded, *_: Any, **__: Any) -> Any:
        return checked("invalid" if "isolate" in recorded.run.path.name else "valid", scenario={"expect": "valid"})

    monkeypatch.setattr(
        command, "record_scenario", lambda scenario, *_: Recorded(Run(Path(f"/store/{scenario.title}")))
    )
    monkeypatch.setattr(command, "check_recorded", check)
    monkeypatch.setattr(command, "ResourcePool", lambda _: PaperPool())
    monkeypatch.setenv("TIDEGAUGE_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def ran(*arguments: object) -> tuple[int, str]:
    """The exit code, and what was printed."""
    result = CliRunner().invoke(cli.app, ["suite", *map(str, arguments)])
    if isinstance(result.exception, TidegaugeError):
        return result.exception.exit_code, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def test_a_suite_ends_with_a_table_and_the_code_of_its_worst_case(tmp_path: Path) -> None:
    """Each case with what was expected and found, the cause, and where the report is."""
    code, text = ran(suite_file(tmp_path, THREE), "--seed", 7)
    assert code == Exit.INVALID
    (row,) = (line for line in text.splitlines() if "isolate" in line)
    for cell in ("✗", "valid", "invalid", "acknowledged-then-lost"):
        assert cell in row
    assert "\n      /store/x/y" in text
    assert "the verdict is invalid instead of valid: lost-write ×1" in text
    assert "2 passed · 1 failed · seed 7" in text


def test_cases_can_be_chosen_and_listed(tmp_path: Path) -> None:
    """Without running any."""
    file = suite_file(tmp_path, THREE)
    code, text = ran(file, "--list", "-k", "not isolate")
    assert (code, "stream+leader-move" in text, "isolate" in text) == (Exit.VALID, True, False)
    code, text = ran(file, "--only", "stream+none", "--json")
    assert code == Exit.VALID
    told = json.loads(text)
    assert [(case["name"], case["status"]) for case in told["cases"]] == [("stream+none", "passed")]
    assert (Path(told["directory"]) / "junit.xml").is_file()


def test_a_finished_suite_is_shown_again(tmp_path: Path) -> None:
    """With the same code, and nothing is run."""
    file = suite_file(tmp_path, THREE)
    first = ran(file, "--seed", 7)
    before = list((tmp_path / "store" / "suites" / "mine").glob("2*"))
    assert ran(file, "--resume") == first
    assert list((tmp_path / "store" / "suites" / "mine").glob("2*")) == before


def test_which_run_is_being_checked_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite that is killed by then can go on with it."""
    seen: list[tuple[int, str]] = []

    def check(recorded: Recorded, *_: Any) -> Any:
        told = json.loads((tmp_path / "store" / "suites" / "mine" / "latest" / "suite.json").read_text())
        seen.extend((one["number"], one["run"]) for case in told["cases"] for one in case["unchecked"])
        return checked(scenario={"expect": "valid"})

    monkeypatch.setattr(command, "check_recorded", check)
    assert ran(suite_file(tmp_path, STREAM))[0] == Exit.VALID
    assert seen == [(1, "/store/stream")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such"], "there is no suite 'no-such'"),
        (["none.toml"], "there is no file none.toml"),
        (["{}", "-k", "nothing"], "no case matches"),
        (["{}", "--only", "stream+noen"], "did you mean 'stream+none'"),
        (["{}", "--resume"], "nothing of the suite 'mine'"),
        (["{}", "--resume", "--seed", "7"], "leave -k, --only and --seed out"),
        (["{}", "--cluster", "external"], "could never be run"),
    ],
)
def test_mistakes_are_told_before_anything_starts(tmp_path: Path, arguments: list[str], said: str) -> None:
    """With exit code 4, and nothing in the store."""
    file = str(suite_file(tmp_path, THREE))
    code, text = ran(*(each.replace("{}", file) for each in arguments))
    assert code == Exit.USAGE
    assert said in text
    assert not (tmp_path / "store").exists()


def test_another_cluster_is_another_suite(tmp_path: Path) -> None:
    """What was found on the one says nothing about the other."""
    file = suite_file(tmp_path, THREE)
    ran(file, "--only", "stream+none")
    code, text = ran(file, "--resume", "--cluster", "docker")
    assert (code, "continues with the same kind of cluster" in text) == (Exit.USAGE, True)
