"""The scenarios of the track record: each can be run by itself, is in the suite, and is told of on its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clusters.jars import locked_versions
from harness.clusters.target import load_target
from harness.foundation.config import read_toml
from harness.runs.scenario import load
from nemesis import check_sense

HERE = Path(__file__).parents[3]
SUITE = HERE / "suites" / "track-record.toml"
FILES = sorted((HERE / "suites" / "track-record").glob("*.toml"))
BENT_BESIDE = {  # what else the taps do, which networks do as well
    "librdkafka-4953": {"delay", "drop-response"},  # it takes an answer that was lost
    "librdkafka-4953-kafka-python": {"delay", "drop-response"},
    "unclean-election": {"delay"},  # its readers
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_a_scenario_can_be_run(file: Path) -> None:
    """It is called like its file, its faults make sense, and its version has a lock."""
    scenario = load(file, {})
    check_sense(scenario.nemesis)
    target = load_target(scenario.cluster.target, scenario.cluster.version)
    assert scenario.name == file.stem
    assert target.version in locked_versions(target.name)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_a_scenario_bends_nothing_that_a_network_would_not(file: Path) -> None:
    """No broken broker is played: what is found is the doing of the broker, or of the client, itself."""
    scenario = load(file, {})
    assert scenario.tap.broken == ()
    assert {rule.action for rule in scenario.tap.rule} <= {"hold"} | BENT_BESIDE.get(file.stem, set())


def test_the_suite_has_all_of_them() -> None:
    """Each once, and each file that it names is there."""
    named = [entry["file"] for entry in read_toml(SUITE)["scenario"]]
    assert sorted(named) == [f"track-record/{file.name}" for file in FILES]


def test_the_page_tells_of_all_of_them() -> None:
    """With the command that runs it."""
    page = (HERE / "docs" / "track-record.md").read_text(encoding="utf-8")
    assert [file.stem for file in FILES if f"`{file.stem}`" not in page] == []
