"""Whole runs on real clusters: load, faults, history, Spark, verdict.

They are the only tests of all stages together, so nothing is replaced.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from harness.foundation.errors import Exit
from harness.foundation.interrupts import FIRST, SECOND
from harness.history.schema import FIRST_TAP, F, Kind, Type
from harness.history.sealed import Sealed
from harness.history.sealing import open_history
from harness.history.sources import segment_path
from harness.report.terminal.run import OTHER_LINES, VALID_LINES
from tests.integration.tapped_cluster import exchanges
from tests.support import REPOSITORY, cli, command, end, eventually, kill_tree, remains

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("spark_of_its_own")]

RECORDS = Path("history", "kind=record", "part-00000.parquet")
PROBES = Path("history", "kind=probe", "part-00000.parquet")
SOME_BYTES = 20_000


def run(store: Path, *arguments: str) -> dict[str, Any]:
    """`tidegauge run --json` to its end: the results."""
    ran = cli("run", *arguments, "--store", str(store), "--json")
    assert ran.stdout, ran.stderr
    results: dict[str, Any] = json.loads(ran.stdout)
    assert ran.returncode == results["exit_code"], ran.stderr
    return results


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path, list[str]]:
    """The demonstration, once, without Java on PATH: what it said, its store, and what was left afterwards."""
    place = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        shown = cli("demo", "--store", str(place / "store"), PATH=str(place), JAVA_HOME="")
        return shown, place / "store", remains("demo", place / "state")


def test_the_demonstration(demonstrated: tuple[subprocess.CompletedProcess[str], Path, list[str]]) -> None:
    """Real Kafka is valid, brokers that list only themselves are not, and the cause is named; nothing is left."""
    shown, _, left = demonstrated
    assert shown.returncode == 0, shown.stderr
    valid, invalid = (part.splitlines() for part in shown.stdout.split("\n  repeat")[0].split("leader-move/", 1))
    assert any("all 5,000 acknowledged messages read" in line for line in valid)
    assert any(line.startswith("  VALID") for line in valid)
    assert any(line.startswith("  INVALID") for line in invalid)
    assert any("cause     clients cannot find leaders" in line for line in invalid)
    assert len(valid) <= VALID_LINES
    assert len(invalid) <= OTHER_LINES
    reports = [line.split()[1] for line in shown.stdout.splitlines() if line.startswith("  report")]
    assert [Path(report).is_file() for report in reports] == [True, True]
    assert left == []


@pytest.fixture(scope="module")
def notes(
    demonstrated: tuple[subprocess.CompletedProcess[str], Path, list[str]],
) -> tuple[Path, dict[str, Any]]:
    """The notes' test while a leader moves, as the demonstration has it first: the run's directory and its results."""
    path = (demonstrated[1] / "large-batch+leader-move" / "latest").resolve()
    return path, json.loads((path / "results.json").read_text())


def test_the_notes_test_is_valid_on_kafka(notes: tuple[Path, dict[str, Any]]) -> None:
    """5,000 of 5,000, the table per partition, and everything that a run leaves in the store."""
    path, results = notes
    figures = results["figures"]
    assert (results["verdict"], results["reasons"]) == ("valid", [])
    assert figures["sent"] == figures["acknowledged"] == figures["distinct"] == 5000
    assert [row["read"] for row in figures["table"]] == [1667, 1667, 1666]
    assert all(row["gaps"] == row["deviation"] == 0 for row in figures["table"])
    facts = json.loads((path / "run.json").read_text())
    assert (facts["seed"], facts["state"], facts["scenario"]["settings"]["acks"]) == (7, "finished", "1")
    assert facts["versions"]["pyspark"]
    assert facts["machine"]["capabilities"]
    assert {"monotonic_ns", "wall_ns"} <= set(facts["anchor"])
    assert (path / "scenario.toml").exists()
    assert all((path / "logs" / str(node) / "broker.log").stat().st_size for node in (1, 2, 3))
    assert (path.parent / "latest").resolve() == path


def test_the_history_of_a_run_is_sound(notes: tuple[Path, dict[str, Any]]) -> None:
    """Each event once, each invocation completed once and not before it began, in the order of time."""
    assert contradictions(open_history(notes[0])) == []


@pytest.mark.nightly
def test_a_leader_killed_under_load_loses_nothing(state_home: Path, tmp_path: Path) -> None:
    """The notes' test with acks=all: the leader dies in the middle, and everything acknowledged arrives."""
    results = run(tmp_path, "--nemesis", "leader-kill", "--time", "16", "--set", "acks=all")
    assert (results["verdict"], results["reasons"]) == ("valid", [])
    (fault,) = results["coverage"]["faults"]
    assert fault["fault"]["bit"]
    assert all(fault[when]["sends"] and fault[when]["reads"] for when in ("before", "during", "after"))
    assert results["figures"]["sent"] == 5000
    assert remains("run", state_home) == []


@pytest.mark.docker
@pytest.mark.nightly
def test_leaders_moved_under_a_stream_in_containers(state_home: Path, tmp_path: Path) -> None:
    """Clients go on, over ever fresh topics, while leadership moves; valid, and no container is left."""
    results = run(
        tmp_path, "--workload", "stream", "--nemesis", "leader-move", "--cluster", "docker", "--time", "20",
        "--set", "rotate=4s", "--set", "nemesis.for=5s", "--set", "nemesis.every=8s",
    )  # fmt: skip
    assert (results["verdict"], results["reasons"]) == ("valid", [])
    assert len(results["coverage"]["faults"]) == 2
    assert results["coverage"]["finals_complete"] > 6
    assert remains("docker-none", state_home) == []


def test_neither_killed_processes_nor_an_interruption_cost_a_verdict(state_home: Path, tmp_path: Path) -> None:
    """A worker and the tap are killed, and clients find the next tap in its place; then Ctrl-C once ends the load.

    The history is sound and checked; the verdict names all three, there is a report, and nothing is left.
    """
    process = started(tmp_path, "--workload", "stream", "--time", "600")
    try:
        await_load(tmp_path)
        random.Random(os.getpid()).choice(processes_of(process, "workloads.worker")).kill()
        (tap,) = processes_of(process, "harness.tap.process")
        tap.kill()
        second = segment_path((tmp_path / "latest").resolve(), FIRST_TAP + 1)
        eventually(lambda: second.exists() and second.stat().st_size > SOME_BYTES, "the next tap has seen something")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=180)
    finally:
        end([process])
    assert process.returncode == Exit.INTERRUPTED, err
    assert FIRST in err
    results = json.loads(out)
    assert results["verdict"] == "unknown"
    assert "the run was interrupted" in said(results)
    assert any("worker" in reason and "SIGKILL" in reason for reason in said(results))
    assert any("the tap ended with SIGKILL" in reason for reason in said(results))
    assert results["coverage"]["operations"]["send"]["ok"]
    sealed = open_history(Path(results["run"]))
    assert contradictions(sealed) == []
    assert {row["process"] for row in exchanges(sealed.directory.parent)} == {FIRST_TAP, FIRST_TAP + 1}
    assert {"report.html", "trace.json", "series.json"} <= {each.name for each in Path(results["run"]).iterdir()}
    assert remains("run", state_home) == []


FAILS = """
import sys
import harness.runs.recording
from harness.commands.main import main

def fails(*_):
    raise RuntimeError("a bug of ours")

harness.runs.recording.read_unsealed = fails
sys.argv[0] = "tidegauge"
main()
"""


def test_a_harness_that_fails_still_gives_a_verdict_and_a_report(state_home: Path, tmp_path: Path) -> None:
    """An error of ours in the middle is told with its exit code, and what was recorded until then is judged."""
    ran = subprocess.run(
        [sys.executable, "-c", FAILS, "run", "--set", "messages=300", "--store", str(tmp_path), "--json"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ran.returncode == Exit.HARNESS_ERROR, ran.stderr
    assert "a bug of ours" in ran.stderr
    results = json.loads(ran.stdout)
    assert results["verdict"] == "unknown"
    assert any("the run failed: a bug of ours" in reason for reason in said(results))
    assert results["coverage"]["operations"]["send"]["ok"] == 300
    assert "a bug of ours" in (Path(results["run"]) / "report.html").read_text(encoding="utf-8")
    assert remains("run", state_home) == []


class Left(NamedTuple):
    """A run that did not come to its end."""

    run: Path
    code: int
    said: tuple[str, str]
    state_home: Path


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """By Ctrl-C, twice."""

    def twice(process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)

    return ended_by(twice, tmp_path_factory.mktemp("left"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """By SIGKILL of the whole tree, while as much is written as goes."""
    return ended_by(kill_tree, tmp_path_factory.mktemp("killed"), "--set", "rate=0")


def ended_by(how: Callable[[subprocess.Popen[str]], None], place: Path, *arguments: str) -> Left:
    """A run that gets this done to it under load."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        process = started(place, "--workload", "stream", "--time", "600", *arguments)
        try:
            await_load(place)
            how(process)
            said = process.communicate(timeout=180)
        finally:
            end([process])
    return Left((place / "latest").resolve(), process.returncode, said, place / "state")


def test_a_run_interrupted_twice_leaves_at_once(left: Left) -> None:
    """Ctrl-C twice: everything is undone, exit code 2."""
    assert (left.code, left.said[0]) == (Exit.INTERRUPTED, ""), left.said[1]
    assert FIRST in left.said[1]
    assert SECOND in left.said[1]
    assert remains("run", left.state_home) == []


def test_a_run_that_is_killed_leaves_nothing_behind(killed: Left) -> None:
    """Its supervisors clean up."""
    eventually(lambda: remains("run", killed.state_home) == [], "nothing is left")


@pytest.fixture(scope="module")
def variants(
    notes: tuple[Path, dict[str, Any]], left: Left, killed: Left, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """The run as it is, several changed copies and two that did not end, all checked by one command: the results."""
    place = tmp_path_factory.mktemp("variants")
    changes = {
        "as it was": lambda _: None,
        "removed": remove_a_record,
        "emptied": empty,
        "damaged": damage,
    }
    for name, change in changes.items():
        change(Path(shutil.copytree(notes[0], place / name)))
    (place / "bare" / "segments").mkdir(parents=True)
    paths = {name: place / name for name in (*changes, "bare")} | {"left": left.run, "killed": killed.run}
    ran = cli("check", *map(str, paths.values()), "--store", str(place), "--json")
    assert ran.returncode == Exit.INVALID, ran.stderr
    return dict(zip(paths, json.loads(ran.stdout), strict=True))


def remove_a_record(run: Path) -> None:
    """Take one record out of everything that was read."""
    file = run / RECORDS
    table = pq.read_table(file)
    victim = table["value"][1234]
    pq.write_table(table.filter(pc.not_equal(table["value"], victim)), file)


def empty(run: Path) -> None:
    """Take all events out."""
    for file in (run / "history").rglob("*.parquet"):
        pq.write_table(pq.read_table(file).slice(0, 0), file)


def damage(run: Path) -> None:
    """Cut a file short, and put one there that is not ours."""
    os.truncate(run / RECORDS, (run / RECORDS).stat().st_size // 2)
    (run / PROBES).with_name("someone-elses.parquet").write_bytes(b"PAR1")


def test_a_stored_run_can_be_checked_again(
    notes: tuple[Path, dict[str, Any]], variants: dict[str, dict[str, Any]]
) -> None:
    """With the same outcome."""
    assert variants["as it was"]["verdict"] == "valid"
    assert variants["as it was"]["figures"]["table"] == notes[1]["figures"]["table"]
    listed = json.loads(cli("list", "runs", "--store", str(notes[0].parent.parent), "--json").stdout)
    assert sorted(row["verdict"] for row in listed) == ["invalid", "valid"]


def test_a_record_removed_by_hand_is_found(
    notes: tuple[Path, dict[str, Any]], variants: dict[str, dict[str, Any]]
) -> None:
    """One acknowledged record that nobody read any more makes the run invalid, and is named."""
    victim = pq.read_table(notes[0] / RECORDS).slice(1234, 1).to_pylist()[0]
    assert variants["removed"]["verdict"] == "invalid"
    (finding,) = variants["removed"]["anomalies"]["lost-write"]["findings"]
    assert (finding["values"], finding["offset"]) == ([victim["value"]], victim["offset"])
    assert finding["partition"] == victim["partition"]


@pytest.mark.parametrize("name", ["emptied", "bare"])
def test_a_history_without_events_is_unknown(variants: dict[str, dict[str, Any]], name: str) -> None:
    """Nothing to look at is no reason to call it valid."""
    assert variants[name]["verdict"] == "unknown"


def test_a_damaged_history_is_never_valid(variants: dict[str, dict[str, Any]]) -> None:
    """Each damage is named, the rest is read."""
    results = variants["damaged"]
    assert results["verdict"] == "unknown"
    for name in (RECORDS.name, "someone-elses.parquet"):
        assert any(name in reason for reason in said(results)), name
    assert results["coverage"]["operations"]["send"]["ok"] == 5000


def test_what_an_interrupted_run_recorded_can_be_checked(left: Left, variants: dict[str, dict[str, Any]]) -> None:
    """It is not valid, and its history is sound."""
    assert variants["left"]["verdict"] == "unknown"
    assert variants["left"]["coverage"]["operations"]["send"]["ok"]
    assert contradictions(open_history(left.run)) == []


def test_what_a_killed_run_recorded_can_be_checked(killed: Left, variants: dict[str, dict[str, Any]]) -> None:
    """It is not valid, for that reason, and holds no contradiction."""
    assert variants["killed"]["verdict"] == "unknown"
    assert any("killed" in reason for reason in said(variants["killed"]))
    sealed = open_history(killed.run)
    assert sealed.rows[Kind.INVOKE] > 0
    assert contradictions(sealed) == []


def said(results: dict[str, Any]) -> list[str]:
    """The sentences of the reasons for a verdict."""
    return [reason["sentence"] for reason in results["reasons"]]


def started(store: Path, *arguments: str) -> subprocess.Popen[str]:
    """A run in the background."""
    return subprocess.Popen(
        command("run", *arguments, "--store", str(store), "--json"),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_of(process: subprocess.Popen[str], module: str) -> list[psutil.Process]:
    """Its processes that run this module."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.Error):
            if module in child.cmdline():
                found.append(child)
    return found


def await_load(store: Path) -> None:
    """Until clients have written something worth checking."""

    def under_load() -> bool:
        segments = list((store / "latest" / "segments").glob("*.segment"))
        return len(segments) >= 6 and sum(path.stat().st_size for path in segments) > 300_000

    eventually(under_load, "the load began")


def contradictions(sealed: Sealed) -> list[str]:
    """What cannot be in a sound history."""
    tables = {kind: pq.read_table(files) for kind, files in sealed.files.items() if files}
    found = []
    events = [event for table in tables.values() for event in table["event"].to_pylist()]
    if len(set(events)) != len(events):
        found.append("an event is there twice")
    invoked, completed = tables[Kind.INVOKE], tables[Kind.COMPLETE]
    if sorted(invoked["op"].to_pylist()) != sorted(completed["op"].to_pylist()):
        found.append("invocations and completions do not match")
    sends = completed.filter(pc.equal(completed["f"], int(F.SEND)))
    if pc.any(pc.greater(sends["invoked"], sends["time"])).as_py():
        found.append("something was acknowledged before it was invoked")
    times = dict(zip(invoked["op"].to_pylist(), invoked["time"].to_pylist(), strict=True))
    acknowledged = sends.filter(pc.equal(sends["type"], int(Type.OK))).to_pylist()
    found += ["an acknowledgement has another invocation" for row in acknowledged if times[row["op"]] != row["invoked"]]
    for kind, table in tables.items():
        order = table["time"].to_pylist()
        if order != sorted(order):
            found.append(f"{kind.name} is not in the order of time")
    return found
