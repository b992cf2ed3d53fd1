"""`tidegauge new` writes files that are valid as they are."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from harness.clusters.target import load_target
from harness.commands.new import NAMES, TEMPLATES, Kind, new
from harness.foundation.errors import UsageError
from harness.runs.dry_run import dry_run
from harness.runs.scenario import load
from harness.suite.spec import load_suite


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written where the user is."""
    monkeypatch.chdir(tmp_path)


def test_a_new_scenario_can_be_run() -> None:
    """With its fault."""
    new("scenario")
    plan = dry_run(load(Path("my-scenario.toml"), {}))
    assert [slot.fault for slot in plan.slots] == ["leader-kill"]


def test_a_new_target_can_be_started() -> None:
    """Once there is such a program."""
    new("target", Path("mine.toml"))
    target = load_target("mine.toml")
    assert (target.name, target.nodes, target.kafka_port) == ("my-broker", 3, "kafka")
    assert target.process
    assert "{port.kafka}" in target.process.files["node.toml"]


def test_a_new_suite_can_be_run() -> None:
    """Its cases have names, and one is expected to fail."""
    new("suite")
    cases = load_suite(Path("my-suite.toml")).cases
    assert cases[0].name == "steady"
    assert [case.expect.outcome for case in cases].count("invalid") == 1


@pytest.mark.parametrize("kind", NAMES)
def test_what_is_commented_out_is_valid_as_well(kind: Kind) -> None:
    """Nobody who removes a # finds a mistake of ours."""
    kept = []
    for line in (TEMPLATES / f"{kind}.toml").read_text(encoding="utf-8").splitlines():
        text = line.removeprefix("# ")
        is_setting = line.startswith("# ") and (" = " in text or text.startswith("["))
        kept.append(text if is_setting else line)
    Path("all.toml").write_text("\n".join(kept))
    data = tomllib.loads("\n".join(kept))
    if kind == "target":
        assert load_target("all.toml").container
    else:
        assert "cluster" in (data if kind == "scenario" else data["defaults"])


@pytest.mark.parametrize("kind", NAMES)
def test_a_new_file_says_what_to_do_with_it(kind: Kind, capsys: pytest.CaptureFixture[str]) -> None:
    """With its own name."""
    new(kind, Path("mine.toml"))
    assert "mine.toml" in Path("mine.toml").read_text()
    assert "{file}" not in Path("mine.toml").read_text()
    assert capsys.readouterr().out.startswith("wrote mine.toml; next: tidegauge ")


def test_nothing_is_overwritten() -> None:
    """Nor written where there is no directory, or under another kind of name."""
    Path("my-suite.toml").write_text("mine")
    with pytest.raises(UsageError, match=r"my-suite\.toml exists already: name another file"):
        new("suite")
    assert Path("my-suite.toml").read_text() == "mine"
    with pytest.raises(UsageError, match="there is no directory sub: run `mkdir -p sub`"):
        new("suite", Path("sub/a.toml"))
    with pytest.raises(UsageError, match=r"suite\.yaml is not a TOML file"):
        new("suite", Path("suite.yaml"))
