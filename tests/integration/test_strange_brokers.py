"""Whole runs on brokers that know little and misbehave: a verdict or one clear sentence, in bounded time and memory.

What can be seen is judged, and what was given up is said. How the brokers misbehave: `tests.support.strange_broker`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.foundation.errors import Exit
from harness.foundation.protocol import Api
from tests.support import cli
from tests.support.strange_broker import LOOPBACK, Elsewhere, StrangeBrokers, strange_brokers, target

pytestmark = pytest.mark.usefixtures("state_home")
MIN_ISR = "min.insync.replicas"
LOAD = ("--workload", "large-batch", "--set", "messages=300", "--set", "client=kafka-python")
Ran = subprocess.CompletedProcess[str]


def run_on(brokers: StrangeBrokers, store: Path) -> Ran:
    """A run on them, as on somebody else's cluster."""
    return cli("run", *LOAD, "--cluster", "external", "--bootstrap", brokers.nodes[0].address, "--store", str(store))


def results_of(store: Path) -> dict[str, Any]:
    """What came of the run."""
    return dict(json.loads((store / "latest" / "results.json").read_text()))


def error_of(ran: Ran) -> str:
    """The one sentence that ended it."""
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("error")]
    assert "Traceback" not in ran.stderr
    return line


def test_a_run_gets_to_its_verdict(tmp_path: Path) -> None:
    """One node creates topics, without a setting; one API is never answered, and there are only a dozen of them."""
    strange = {"refuse_creation": frozenset({1, 2}), "refuse_settings": frozenset({MIN_ISR})}
    with strange_brokers(**strange, silent=frozenset({Api.DESCRIBE_CLUSTER})) as brokers:
        ran = run_on(brokers, tmp_path)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert not brokers.topics
    (given_up,) = results_of(tmp_path)["given_up"]
    assert f"the setting {MIN_ISR} was refused" in given_up
    assert f"not tested: {given_up}" in " ".join(ran.stdout.split())
    assert json.loads((tmp_path / "latest" / "run.json").read_text())["given_up"] == [given_up]


# how they misbehave: the exit codes that are right, and what has to be among the reasons or causes
VERDICTS: Mapping[str, tuple[dict[str, Any], set[Exit], str]] = {
    "all brokers have one id": ({"one_id": 1}, {Exit.INVALID}, "node 1 lists 3 brokers with the id 1"),
    "no controller": ({"no_controller": True}, {Exit.UNKNOWN}, "node 1 knows of no controller"),
    "topics are forgotten": ({"forget_topics": True}, {Exit.UNKNOWN}, "node 1 lists 0 of 3 partitions of batch"),
    "Produce is never answered": ({"silent": {Api.PRODUCE}}, {Exit.INVALID}, "no send to p0, p1 and p2 got through"),
    "Fetch is never answered": ({"silent": {Api.FETCH}}, {Exit.INVALID}, "fetch does not answer: p0, p1 and p2"),
    "a million brokers, once there are records": (
        {"million": "brokers", "million_since": "load"},
        {Exit.UNKNOWN, Exit.INVALID},
        "a Metadata answer with 1,000,000 brokers",
    ),
    "a million partitions, once there are records": (
        {"million": "partitions", "million_since": "load"},
        {Exit.UNKNOWN, Exit.INVALID},
        "a Metadata answer with more than 50,000 partitions",
    ),
}


AT_EVERY_CHANGE = "all brokers have one id"  # the others wait for a minute or two, and do so at night


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[] if how == AT_EVERY_CHANGE else pytest.mark.nightly) for how in VERDICTS]
)
def test_a_broker_that_misbehaves_gets_a_verdict(how: str, tmp_path: Path) -> None:
    """It names what was wrong."""
    strange, exits, said = VERDICTS[how]
    with strange_brokers(**strange) as brokers:
        ran = run_on(brokers, tmp_path)
    assert ran.returncode in exits, ran.stdout + ran.stderr
    results = results_of(tmp_path)
    sentences = [each["sentence"] for each in (*results["reasons"], *results["diagnosis"]["causes"])]
    assert any(said in sentence for sentence in sentences), sentences


# what is wrong from the start: the sentence that ends the run
ENDS: Mapping[str, tuple[dict[str, Any], str]] = {
    "Metadata is never answered": ({"silent": {Api.METADATA}}, "it accepts connections and does not answer"),
    "a million brokers": ({"million": "brokers"}, "a Metadata answer with 1,000,000 brokers"),
    "a million partitions": ({"million": "partitions"}, "a Metadata answer with more than 50,000 partitions"),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_broker_that_nothing_can_run_on_gets_a_sentence(how: str, tmp_path: Path) -> None:
    """And nothing is left that looks like a verdict."""
    strange, said = ENDS[how]
    with strange_brokers(**strange) as brokers:
        ran = run_on(brokers, tmp_path)
    assert ran.returncode == Exit.HARNESS_ERROR, ran.stdout + ran.stderr
    assert said in error_of(ran)


def test_a_stranger_is_named_and_nobody_connects_to_it(tmp_path: Path) -> None:
    """With taps the run goes on; without them it is refused, whatever the client."""
    with Elsewhere() as elsewhere:
        address = f"{LOOPBACK}:{elsewhere.port}"
        strange = target(tmp_path / "strange.toml", also_listed=[[9, LOOPBACK, elsewhere.port]])
        run = ("run", *LOAD, "--target", str(strange), "--store", str(tmp_path))
        tapped = cli(*run)
        assert tapped.returncode == Exit.UNKNOWN, tapped.stdout + tapped.stderr
        assert any(address in each["sentence"] for each in results_of(tmp_path)["reasons"])
        for client in ("kafka-python", "confluent-kafka"):
            refused = cli(*run, "--no-tap", "--set", f"client={client}")
            assert refused.returncode == Exit.HARNESS_ERROR, refused.stdout + refused.stderr
            assert f"node 1 names a broker at {address}, which is not in the cluster under test" in error_of(refused)
        assert not elsewhere.was_visited
