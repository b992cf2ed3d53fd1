"""Every workload with every client on every kind of cluster: without faults, and under those that hurt clients most.

An operation has exactly one outcome; without faults nearly all are ok and no error is one that nobody has thought of.
Under faults a run comes to its end, whatever it finds.

They need real brokers, since only there do client libraries meet every error; they run at night.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.history.schema import F, Kind, Type
from harness.history.sealing import open_history
from tests.integration.run_without_faults import left_open
from tests.support import cli, docker_or_skip
from workloads import WORKLOADS
from workloads.clients.stacks import find_stack

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("spark_of_its_own"),
]

KINDS = [pytest.param("local", id="local"), pytest.param("docker", id="docker", marks=pytest.mark.docker)]
CLIENTS = ("confluent-kafka", "kafka-python", "java")
FAULTS = ("leader-kill", "isolate", "client-kill")
TIME_S = 60
LEAST_OK = 0.9


def settings_of(workload: str, client: str) -> Iterator[tuple[str, ...]]:
    """What to try of a workload with a client, beside the defaults."""
    yield (f"client={client}",)
    if workload == "groups":
        yield (f"client={client}", "commits=automatic")
        if "consumer" in find_stack(client).group_protocols:
            yield (f"client={client}", "group_protocol=consumer")


def cases() -> Iterator[Any]:
    """Workloads, with the settings to try."""
    for workload in WORKLOADS:
        for client in CLIENTS:
            for settings in settings_of(workload, client):
                yield pytest.param(
                    workload, settings, id="-".join([workload, *(s.partition("=")[2] for s in settings)])
                )


def run(store: Path, workload: str, settings: tuple[str, ...], *more: str) -> dict[str, Any]:
    """`tidegauge run --json` to its end: the results."""
    chosen = [word for setting in settings for word in ("--set", setting)]
    ran = cli("run", "--workload", workload, *chosen, *more, "--seed", "7", "--store", str(store), "--json")
    assert ran.stdout, ran.stderr
    results: dict[str, Any] = json.loads(ran.stdout)
    assert ran.returncode == results["exit_code"], ran.stderr
    return results


def every_operation_has_one_outcome(directory: Path) -> None:
    """As many completions as invocations, of the same operations, each by its own process unless that was killed."""
    history = open_history(directory)
    killed = json.loads((directory / "run.json").read_text()).get("killed_on_purpose", [])
    assert left_open(history, killed) == []
    files = history.files
    invoked, completed = (pq.read_table(files[kind], columns=["op"])["op"] for kind in (Kind.INVOKE, Kind.COMPLETE))
    assert len(invoked) == len(completed)
    assert set(invoked.unique().to_pylist()) == set(completed.unique().to_pylist())
    assert len(completed.unique()) == len(completed)


def share_of_ok(directory: Path) -> float:
    """Among all operations but those that were aborted on purpose."""
    rows = pq.read_table(open_history(directory).files[Kind.COMPLETE], columns=["f", "type", "txn", "error"])
    ended = rows.to_pylist()
    aborted = [row for row in ended if row["type"] == Type.FAIL and (row["txn"] is not None or row["f"] == F.TXN)]
    done = [row for row in ended if row["type"] == Type.OK]
    return len(done) / (len(ended) - len(aborted))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("workload", "settings"), list(cases()))
def test_without_faults(tmp_path: Path, kind: str, workload: str, settings: tuple[str, ...]) -> None:
    """Valid, nearly all ok, nothing unclassified, read to the end."""
    if kind == "docker":
        docker_or_skip()
    results = run(tmp_path, workload, settings, "--cluster", kind, "--time", f"{TIME_S}s")
    assert (results["verdict"], results["reasons"]) == ("valid", [])
    every_operation_has_one_outcome(Path(results["run"]))
    assert share_of_ok(Path(results["run"])) >= LEAST_OK
    assert results["unclassified"] == 0
    assert results["coverage"]["finals_incomplete_count"] == 0


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_under_faults(tmp_path: Path, kind: str, workload: str, client: str, fault: str) -> None:
    """The run completes, nothing hangs, nothing that Kafka promises is broken."""
    if kind == "docker":
        docker_or_skip()
    chosen = (f"client={client}", "nemesis.times=1", "nemesis.for=8s")
    results = run(tmp_path, workload, chosen, "--nemesis", fault, "--cluster", kind, "--time", "30s")
    every_operation_has_one_outcome(Path(results["run"]))
    assert results["verdict"] != "invalid", results["reasons"]
    facts = json.loads((Path(results["run"]) / "run.json").read_text())
    assert facts["state"] == "finished"
    assert facts["dead_workers"] == []
    assert [each["bit"] for each in facts["faults"]] == [True]
