"""A mistake is blamed on what it is in: the file, a flag, a variable, or several that contradict each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.foundation.errors import UsageError
from harness.runs.scenario import Scenario, load


def said(file: Path | None, flags: dict[str, Any], *settings: str) -> str:
    """What is said about a scenario that is wrong; the file is called `a.toml`."""
    with pytest.raises(UsageError) as caught:
        load(file, flags, settings)
    return str(caught.value).replace(str(file), "a.toml")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A scenario file without a mistake."""
    path = tmp_path / "a.toml"
    path.write_text('workload = { name = "stream", acks = "1" }\nnemesis = "leader-kill"\ntime = "60s"\n')
    return path


@pytest.mark.parametrize(
    ("flags", "settings", "expected"),
    [
        ({}, ["acks=7"], "--set acks=7: workload stream: 'acks' cannot be 7: use 0, 1 or all"),
        ({}, ["workload.rat=7"], "--set workload.rat=7: workload stream: unknown key 'rat': did you mean 'rate'?"),
        (
            {},
            ["nemesis.times=0"],
            "--set nemesis.times=0: 'nemesis.0.times' cannot be 0: use a whole number at least 1",
        ),
        ({}, ["cluster.netns=7"], "--set cluster.netns=7: 'cluster.netns' cannot be 7: use true or false"),
        ({"time": "0"}, [], "--time: 'time' cannot be 0.0: use a duration above 0 s"),
        ({"cluster": {"version": 4.1}}, [], "--kafka-version: 'cluster.version' cannot be 4.1: use text"),
        (
            {},
            ["idempotence=true"],
            "a.toml with --set idempotence=true: workload stream: idempotence needs acks=all, not acks=1: correct it",
        ),
    ],
)
def test_what_is_laid_over_a_file_is_not_blamed_on_the_file(
    file: Path, flags: dict[str, Any], settings: list[str], expected: str
) -> None:
    """What only both together get wrong is blamed on both."""
    assert said(file, flags, *settings) == expected


def test_a_mistake_of_the_file_is_blamed_on_the_file(file: Path) -> None:
    """Whatever flags say about other things."""
    file.write_text(file.read_text().replace("60s", "soon"))
    assert said(file, {"seed": 5}, "acks=all").startswith("a.toml: 'time' is wrong: 'soon' is not a valid duration")


def test_without_a_file_flags_are_blamed_alone() -> None:
    """There is nothing else."""
    assert said(None, {}, "idempotence=true").startswith("--set idempotence=true: workload large-batch: idempotence")
    assert said(None, {"nemesis": ["leader-kil"]}) == "there is no nemesis 'leader-kil': did you mean 'leader-kill'?"


def test_a_variable_is_named(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Nobody finds a mistake of the environment on the command line."""
    monkeypatch.setenv("TIDEGAUGE_TIME", "soon")
    monkeypatch.setenv("TIDEGAUGE_SET", "acks=7 rate=5")
    assert said(file, {"time": "soon"}, "rate=5").startswith("--time or TIDEGAUGE_TIME: 'time' is wrong")
    assert said(file, {}, "acks=7", "rate=5").startswith("TIDEGAUGE_SET=acks=7: workload stream: 'acks' cannot be 7")


def test_all_mistakes_of_a_file_are_reported_at_once(file: Path) -> None:
    """Of the workload, of faults, of the cluster, and of the scenario itself."""
    file.write_text(
        'workload = { name = "stream", partitions = 0, rat = 5 }\nnemesis = [{ fault = "kill", tims = 3 }]\n'
        'expect = "fine"\ncluster = { ports = "one" }\n'
    )
    assert said(file, {}).splitlines() == [
        "a.toml has 5 mistakes: ",
        "  workload stream: 'partitions' cannot be 0: use a whole number from 1 to 10,000",
        "  workload stream: unknown key 'rat': did you mean 'rate'?",
        "  unknown key 'nemesis.0.tims': did you mean 'times'?",
        "  'cluster.ports' cannot be 'one': use a list",
        "  'expect' cannot be 'fine': use valid, invalid or unknown",
    ]
    file.write_text(
        'workload = { name = "streem" }\nnemesis = ["kil", "pause:moon"]\ncluster = { kind = "docker", netns = true }\n'
    )
    assert [line.partition(":")[0].strip() for line in said(file, {}).splitlines()] == [
        "a.toml has 4 mistakes",
        "there is no workload 'streem'",
        "there is no nemesis 'kil'",
        "'pause' cannot be aimed at 'moon'",
        "--netns does not apply to --cluster docker",
    ]


def test_more_replicas_than_nodes_are_refused(tmp_path: Path) -> None:
    """A topic with them could not be created; somebody else's cluster and topics are theirs to know."""
    expected = "replication_factor=4 is more than the cluster's 3 nodes: use 1 to 3"
    assert said(None, {}, "replication_factor=4") == expected
    target = tmp_path / "alone.toml"
    target.write_text('name = "alone"\nnodes = 1\n[process]\ncommand = ["true"]\n')
    assert said(None, {"cluster": {"target": str(target)}}) == (
        "replication_factor=3 is more than the cluster's one node: use 1, and min_insync_replicas=1"
    )
    external = {"cluster": {"kind": "external", "bootstrap": ["a:1"]}}
    assert isinstance(load(None, external, ["replication_factor=4"]), Scenario)
    assert isinstance(load(None, {}, ["replication_factor=4", "topic=mine"]), Scenario)


def test_a_name_too_long_for_a_directory_is_refused() -> None:
    """Before a file system does."""
    with pytest.raises(UsageError, match="a scenario's name has at most 100 characters: it names a directory"):
        load(None, {"name": "x" * 101})
