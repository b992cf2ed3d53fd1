"""Whole runs on real clusters: load, faults, history, Spark, verdict."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from harness.errors import Exit
from harness.history import FIRST_TAP, F, Kind, Type
from harness.seal import Sealed, open_history
from tests.integration.tapped import exchanges
from tests.support import REPOSITORY, cli, command, end, eventually, remains

pytestmark = pytest.mark.cluster

RECORDS = Path("history", "kind=record", "part-00000.parquet")


def run(store: Path, *arguments: str) -> dict[str, Any]:
    """`tidegauge run --json` to its end: the results."""
    ran = cli("run", *arguments, "--store", str(store), "--json")
    assert ran.stdout, ran.stderr
    results: dict[str, Any] = json.loads(ran.stdout)
    assert ran.returncode == results["exit_code"], ran.stderr
    return results


def check(path: Path | str, store: Path) -> dict[str, Any]:
    """`tidegauge check --json`: the results."""
    ran = cli("check", str(path), "--store", str(store), "--json")
    assert ran.stdout, ran.stderr
    results: dict[str, Any] = json.loads(ran.stdout)
    assert ran.returncode == results["exit_code"], ran.stderr
    return results


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The notes' test on a local cluster, once: the run's directory and its results."""
    store = tmp_path_factory.mktemp("store")
    results = run(store, "--seed", "7")
    return Path(results["run"]), results


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
    assert (path.parent / "latest").resolve() == (path.parent.parent / "latest").resolve() == path


def test_the_history_of_a_run_is_sound(notes: tuple[Path, dict[str, Any]]) -> None:
    """Each event once, each invocation completed once and not before it began, in the order of time."""
    assert contradictions(open_history(notes[0])) == []


@pytest.fixture(scope="module")
def variants(notes: tuple[Path, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The run as it is and in several changed copies, all checked by one command: the results of each."""
    place = tmp_path_factory.mktemp("variants")
    changes = {
        "as it was": lambda _: None,
        "removed": remove_a_record,
        "emptied": empty,
        "cut": cut,
        "foreign": add_file,
    }
    for name, change in changes.items():
        change(Path(shutil.copytree(notes[0], place / name)))
    (place / "bare" / "segments").mkdir(parents=True)
    names = [*changes, "bare"]
    ran = cli("check", *(str(place / name) for name in names), "--store", str(place), "--json")
    assert ran.returncode == Exit.INVALID, ran.stderr
    return dict(zip(names, json.loads(ran.stdout), strict=True))


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


def cut(run: Path) -> None:
    """Cut a file short."""
    os.truncate(run / RECORDS, (run / RECORDS).stat().st_size // 2)


def add_file(run: Path) -> None:
    """Put a file there that is not ours."""
    (run / RECORDS).with_name("someone-elses.parquet").write_bytes(b"PAR1")


def test_a_stored_run_can_be_checked_again(
    notes: tuple[Path, dict[str, Any]], variants: dict[str, dict[str, Any]]
) -> None:
    """With the same outcome."""
    assert variants["as it was"]["verdict"] == "valid"
    assert variants["as it was"]["figures"]["table"] == notes[1]["figures"]["table"]
    listed = json.loads(cli("list", "runs", "--store", str(notes[0].parent.parent), "--json").stdout)
    assert [row["verdict"] for row in listed] == ["valid"]


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


@pytest.mark.parametrize("name", ["cut", "foreign"])
def test_a_damaged_history_is_never_valid(variants: dict[str, dict[str, Any]], name: str) -> None:
    """The damage is named, the rest is read."""
    results = variants[name]
    assert results["verdict"] == "unknown"
    assert any(".parquet" in reason for reason in results["reasons"])
    assert results["coverage"]["operations"]["send"]["ok"] == 5000


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


def test_an_interrupted_run_still_gets_a_verdict(state_home: Path, tmp_path: Path) -> None:
    """Ctrl-C once: the load ends, the history is sealed and checked; it is not valid, and nothing is left."""
    process = started(tmp_path, "--workload", "stream", "--time", "600")
    try:
        await_load(tmp_path)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=180)
    finally:
        end([process])
    assert process.returncode == Exit.UNKNOWN, err
    results = json.loads(out)
    assert "the run was interrupted" in results["reasons"]
    assert results["coverage"]["operations"]["send"]["ok"]
    assert {"report.html", "trace.json", "series.json"} <= {each.name for each in Path(results["run"]).iterdir()}
    assert remains("run", state_home) == []


FAILS = """
import sys
import harness.runner
from harness.cli import main

def fails(*_):
    raise RuntimeError("a bug of ours")

harness.runner.last_acknowledged = fails
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
    assert any("the run failed: a bug of ours" in reason for reason in results["reasons"])
    assert results["coverage"]["operations"]["send"]["ok"] == 300
    assert "a bug of ours" in (Path(results["run"]) / "report.html").read_text(encoding="utf-8")
    assert remains("run", state_home) == []


def test_a_run_interrupted_twice_leaves_at_once(state_home: Path, tmp_path: Path) -> None:
    """Ctrl-C twice: everything is undone, exit code 2; what was recorded can still be checked."""
    process = started(tmp_path, "--workload", "stream", "--time", "600")
    try:
        await_load(tmp_path)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=180)
    finally:
        end([process])
    assert (process.returncode, out) == (Exit.INTERRUPTED, ""), err
    assert remains("run", state_home) == []
    assert check("latest", tmp_path)["verdict"] == "unknown"


def test_processes_that_are_killed_do_not_take_the_run_with_them(state_home: Path, tmp_path: Path) -> None:
    """A worker and the tap: the run goes on to a verdict, which names both; clients find the next tap in its place."""
    process = started(tmp_path, "--workload", "stream", "--time", "8")
    try:
        await_load(tmp_path)
        random.Random(os.getpid()).choice(processes_of(process, "workloads.worker")).kill()
        (tap,) = processes_of(process, "harness.tap.process")
        tap.kill()
        out, err = process.communicate(timeout=180)
    finally:
        end([process])
    assert process.returncode == Exit.UNKNOWN, err
    results = json.loads(out)
    assert any("worker" in reason and "SIGKILL" in reason for reason in results["reasons"])
    assert any("the tap ended with SIGKILL" in reason for reason in results["reasons"])
    sealed = open_history(Path(results["run"]))
    assert contradictions(sealed) == []
    assert {row["process"] for row in exchanges(sealed.directory.parent)} == {FIRST_TAP, FIRST_TAP + 1}
    assert remains("run", state_home) == []


def test_a_run_that_is_killed_leaves_a_history_and_nothing_else(state_home: Path, tmp_path: Path) -> None:
    """SIGKILL of the whole tree under load: supervisors clean up, and what was recorded holds no contradiction."""
    process = started(tmp_path, "--workload", "stream", "--time", "600", "--set", "rate=0")
    try:
        await_load(tmp_path)
        for victim in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            victim.kill()
    finally:
        end([process])
    eventually(lambda: remains("run", state_home) == [], "nothing is left")
    path = (tmp_path / "latest").resolve()
    results = check(path, tmp_path)
    assert results["verdict"] == "unknown"
    assert any("killed" in reason for reason in results["reasons"])
    sealed = open_history(path)
    assert sealed.rows[Kind.INVOKE] > 0
    assert contradictions(sealed) == []


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
