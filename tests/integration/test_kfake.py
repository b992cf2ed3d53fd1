"""kfake, the Kafka of franz-go's tests: a product that is not Apache Kafka, three nodes of which are one process.

Go compiles it, once, from the module that its proxy serves.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.clusters.local import LocalCluster
from harness.clusters.node import NodeState
from harness.clusters.target import load_target
from harness.foundation.errors import CannotHere
from tests.integration.traffic import EXPECTED, confluent_round_trip
from tests.support import cli, remains

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(shutil.which("go") is None, reason="kfake is compiled by Go, which is not on this machine"),
]


def test_one_process_serves_three_nodes(state_home: Path) -> None:
    """They answer and carry messages; none can be killed alone; nothing is left of them."""
    with LocalCluster(load_target("kfake")) as cluster:
        assert [node.id for node in cluster.nodes] == [1, 2, 3]
        assert {cluster.state(node.id) for node in cluster.nodes} == {NodeState.RUNNING}
        assert confluent_round_trip(cluster.bootstrap) == EXPECTED
        with pytest.raises(CannotHere, match="all nodes are one process"):
            cluster.kill(2)
        name = cluster.name
    assert remains(name, state_home) == []


def test_a_fault_of_single_nodes_is_refused_by_name() -> None:
    """Before anything is started."""
    ran = cli("run", "-w", "stream", "-n", "leader-kill", "--target", "kfake")
    assert ran.returncode == 6, ran.stderr
    assert "the fault 'leader-kill' is not possible here: all nodes of the target 'kfake' are one process" in ran.stderr


def test_a_run_against_kfake_reaches_a_verdict(tmp_path: Path) -> None:
    """The notes' scenario: all of its messages are acknowledged, read, and judged."""
    ran = cli("run", "notes", "--target", "kfake", "--seed", "7", "--store", str(tmp_path))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads((tmp_path / "latest" / "results.json").read_text())["verdict"] == "valid"
