"""Suites and the pytest plugin for real: a suite that is killed half-way and resumed, and a test of a user's own.

They need real clusters and processes, since what is tested is that a kill loses nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from harness.clusters.waiting import wait_until
from harness.foundation.paths import cluster_dirs
from tests.integration.run_without_faults import every_loss_is_seen
from tests.support import REPOSITORY, cli, command, end, eventually
from tests.support.scripted_suites import PLUGIN, suite_file

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("spark_of_its_own")]

RUN_S = 200.0  # a limit for what takes twenty seconds, on a machine that may be busy

TINY = """
title = "as little as possible"
[defaults]
workload = { name = "large-batch", messages = 300, probe_rate = 5 }
[[scenario]]
name = "tiny"
"""
# Allowed, and seen: the leader acknowledges while it is cut off from its peers, and loses that when it comes back.
ISOLATED = """
[[scenario]]
name = "second"
time = "15s"
seed = 7
nemesis = [{ fault = "isolate", target = "leader", after = "2s", for = "12s", times = 1 }]
expect = { verdict = "valid", cause = "weak-acks" }
[scenario.workload]
name = "stream"
acks = 1
idempotence = false
rate = 100
partitions = 1
probe_rate = 2
final_read_timeout_s = 8
"""
BROKEN = """
[[scenario]]
name = "second"
time = "6s"
workload = { name = "stream", rate = 200, final_read_timeout_s = 4 }
tap = { broken = ["acks-then-forgets"] }
expect = { anomalies = [["lost-write", "lost-tail"]], cause = "acknowledged-then-lost" }
"""
# what a test with the `tap` fixture may look like
TAPPED = """
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

def test_taps_see_clients_of_a_test(tap, cluster):
    Path("bootstrap").write_text(cluster.bootstrap)
    assert not set(tap.bootstrap.split(",")) & set(cluster.bootstrap.split(","))
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    admin.create_topics([NewTopic("my-own-topic", 1, 3)])
    admin.close()
    tap.bend(name="lost", api="Produce", action="drop-response", then="close", times=1)
    with KafkaProducer(bootstrap_servers=tap.bootstrap.split(","), acks="all", request_timeout_ms=5000) as producer:
        for number in range(20):
            producer.send("my-own-topic", str(number).encode()).get(30)
    assert tap.result.anomalies == {}
    assert tap.taps.resent("lost") == 1
"""


def told(store: Path) -> list[dict[str, Any]]:
    """The cases, as far as suite.json knows them."""
    file = store / "suites" / "mine" / "latest" / "suite.json"
    return list(json.loads(file.read_text())["cases"]) if file.exists() else []


def test_a_suite_that_is_killed_half_way_goes_on_where_it_was(state_home: Path, tmp_path: Path) -> None:
    """What was finished is not run again, and nothing is left of the killed one."""
    isolated = os.geteuid() == 0  # partitions of local nodes need root
    file, store = suite_file(tmp_path, TINY + (ISOLATED if isolated else BROKEN)), tmp_path / "store"
    process = subprocess.Popen(
        command("suite", str(file), "--store", str(store), "--seed", "7"),
        cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        wait_until(lambda: [case["status"] for case in told(store)][:1] == ["passed"], RUN_S, "the first case is over")
    finally:
        end([process])  # with SIGKILL
    (first,) = (store / "tiny").glob("2*")
    eventually(lambda: not list(cluster_dirs()), "the supervisors have removed everything")

    junit = tmp_path / "junit.xml"
    resumed = cli("suite", str(file), "--store", str(store), "--resume", "--junit", str(junit))
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert [case["status"] for case in told(store)] == ["passed"] * 2
    assert not told(store)[0]["tries"][0]["cause"]
    run = (store / "second" / "latest").resolve()  # another one may have been killed
    diagnosis = json.loads((run / "results.json").read_text())["diagnosis"]
    named = [cause["name"] for cause in diagnosis["causes"] + diagnosis["allowed"]]  # of what is allowed, too
    assert told(store)[1]["tries"][0]["cause"] == named[0]
    assert ("weak-acks" if isolated else "acknowledged-then-lost") in named
    assert list((store / "tiny").glob("2*")) == [first]
    assert len(list(ET.parse(junit).iter("testcase"))) == 2
    whole = [each.parent for each in (store / "second").glob("2*/results.json")]
    clusters = {json.loads((each / "run.json").read_text())["cluster"]["name"] for each in whole}
    assert len(clusters) == 1, "all that was left was run on one cluster"
    assert "2 passed" in resumed.stdout
    assert not list(cluster_dirs())
    if isolated:
        every_loss_is_seen(run)


def test_a_users_own_test_of_ten_lines(state_home: Path, tmp_path: Path) -> None:
    """The one of docs/ci.md, beside one with taps, where every warning is an error."""
    text = (REPOSITORY / "docs" / "ci.md").read_text()
    (example, *_) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    (tmp_path / "test_mine.py").write_text(example)
    (tmp_path / "test_tapped.py").write_text(TAPPED)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --strict-markers\nfilterwarnings =\n    error\n"
        "    ignore:(read|open)_text is deprecated:DeprecationWarning\n"  # what kafka-python does when it is imported
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGIN, "-p", "no:cacheprovider", "-rA", "--tidegauge-seed=7"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout
    (run,) = (tmp_path / "store").glob("test_no_message*/latest")
    used = json.loads((run / "run.json").read_text())["cluster"]["bootstrap"]
    assert (tmp_path / "bootstrap").read_text() == used, "both on one cluster"
    assert (run / "report.html").is_file()
    assert not list(cluster_dirs())
