"""Whole runs under faults: what Kafka promises it keeps, and what it does not promise is seen.

They need real Kafka, whose promises they are about; they run at night.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.spec import make_cluster
from harness.foundation.errors import CannotHere
from harness.foundation.progress import SilentProgress
from harness.runs.scenario import to_toml
from nemesis import FAMILIES
from nemesis.base import refuse_unless_possible
from tests.integration.fault_stage import spec_of
from tests.integration.run_without_faults import every_loss_is_seen
from tests.support import cli, docker_or_skip

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900), pytest.mark.usefixtures("spark_of_its_own")]

FIRST_S, LASTS_S = 6, 4
EVERY_S = {"process": 60}  # where all nodes have to start again; 24 for others
RATE = 300  # of messages per second: enough to feel every fault, and a small machine keeps up while nodes restart
NEED_TRANSACTIONS = {"hold-end-txn"}


def run(store: Path, *arguments: str) -> dict[str, Any]:
    """`tidegauge run --json` to its end: the results."""
    ran = cli("run", *arguments, "--store", str(store), "--json")
    assert ran.stdout, ran.stderr
    results: dict[str, Any] = json.loads(ran.stdout)
    assert ran.returncode == results["exit_code"], ran.stderr
    return results


def family_on(kind: str, family: str) -> list[str]:
    """The faults of a family that this machine can do on such a cluster, and that a stream feels."""
    cluster, found = make_cluster(spec_of(kind), SilentProgress()), []
    for fault in FAMILIES[family]:
        try:
            refuse_unless_possible(fault, cluster)
        except CannotHere:
            continue
        found += [fault.name] if fault.name not in NEED_TRANSACTIONS else []
    return found


def cases() -> Iterator[Any]:
    """Each family on each kind, with the two clients in turn."""
    for number, family in enumerate(FAMILIES):
        yield pytest.param("local", family, ("kafka-python", "confluent-kafka")[number % 2], id=f"local-{family}")
        yield pytest.param(
            "docker",
            family,
            ("confluent-kafka", "kafka-python")[number % 2],
            id=f"docker-{family}",
            marks=pytest.mark.docker,
        )


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "family", "client"), list(cases()))
def test_kafka_keeps_its_promises(tmp_path: Path, kind: str, family: str, client: str) -> None:
    """acks=all, min.insync.replicas=2, idempotence: nothing illegal under the faults, one after the other."""
    if kind == "docker":
        docker_or_skip()
    faults = family_on(kind, family)
    if not faults:
        pytest.skip(f"no fault of {family} is possible here")
    every_s = EVERY_S.get(family, 24)
    plans = [
        {"fault": fault, "after": FIRST_S + number * every_s, "for": LASTS_S, "times": 1}
        for number, fault in enumerate(faults)
    ]
    file = tmp_path / "family.toml"
    file.write_text(
        to_toml(
            {
                "workload": {"name": "stream", "rate": RATE, "client": client, "acks": "all", "idempotence": True},
                "nemesis": plans,
                "cluster": {"kind": kind},
                "time": FIRST_S + len(faults) * every_s,
                "seed": 7,
            }
        )
    )
    results = run(tmp_path / "store", str(file))
    assert (results["verdict"], results["reasons"]) == ("valid", [])
    facts = json.loads((Path(results["run"]) / "run.json").read_text())
    assert [(fault["fault"], fault["bit"]) for fault in facts["faults"]] == [(fault, True) for fault in faults]


@pytest.mark.nightly
@pytest.mark.docker
def test_with_acks_1_an_isolated_leader_loses_what_it_acknowledged(tmp_path: Path) -> None:
    """In containers; test_suites.py has it as processes."""
    chosen = ["acks=1", "idempotence=false", "client=confluent-kafka", "rate=100", "partitions=1", "probe_rate=2"]
    chosen += ["nemesis.after=2s", "nemesis.for=12s", "nemesis.times=1", "final_read_timeout_s=8"]  # for a tail in vain
    settings = [word for setting in chosen for word in ("--set", setting)]
    arguments = ["--workload", "stream", "--nemesis", "isolate", "--cluster", "docker", "--time", "15s", "--seed", "7"]
    results = run(tmp_path / "store", *arguments, *settings)
    every_loss_is_seen(Path(results["run"]))
    assert results["verdict"] == "valid"


@pytest.mark.nightly
def test_a_recorded_schedule_is_repeated(tmp_path: Path) -> None:
    """A mix from a seed, then exactly that mix again, whatever the seed of the second run."""
    mix = [
        "--workload",
        "stream",
        "--nemesis",
        "leader-move,latency,client-pause,reset",
        "--time",
        "30s",
        "--seed",
        "7",
    ]
    settings = ["--set", 'nemesis.quiet=["1s","4s"]', "--set", 'nemesis.for=["1s","3s"]', "--set", f"rate={RATE}"]
    first = run(tmp_path / "store", *mix, *settings)
    again = run(tmp_path / "store", "--replay", first["run"], "--seed", "8")
    recorded, repeated = (json.loads((Path(each["run"]) / "run.json").read_text()) for each in (first, again))
    assert first["verdict"] == again["verdict"] == "valid"
    assert len(recorded["schedule"]) > 3
    assert repeated["schedule"] == recorded["schedule"]
    assert repeated["replay_of"] == first["run"]
    assert all(fault["bit"] for facts in (recorded, repeated) for fault in facts["faults"])
