"""A whole run on brokers that know little and misbehave: what can be seen is judged, and what was given up is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.foundation.protocol import Api
from tests.support import cli
from tests.support.strange_broker import strange_brokers

pytestmark = pytest.mark.usefixtures("state_home")
MIN_ISR = "min.insync.replicas"


def test_a_run_gets_to_its_verdict(tmp_path: Path) -> None:
    """One node creates topics, without a setting; one API is never answered, and there are only a dozen of them."""
    strange = {"refuse_creation": frozenset({1, 2}), "refuse_settings": frozenset({MIN_ISR})}
    with strange_brokers(**strange, silent=frozenset({Api.DESCRIBE_CLUSTER})) as brokers:
        ran = cli(
            "run",
            *("--workload", "large-batch", "--set", "messages=300", "--set", "client=kafka-python"),
            *("--cluster", "external", "--bootstrap", brokers.nodes[0].address, "--store", str(tmp_path)),
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert not brokers.topics
    run = tmp_path / "latest"
    (given_up,) = json.loads((run / "results.json").read_text())["given_up"]
    assert f"the setting {MIN_ISR} was refused" in given_up
    assert f"given up: {given_up}" in ran.stdout
    assert json.loads((run / "run.json").read_text())["given_up"] == [given_up]
