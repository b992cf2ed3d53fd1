from pathlib import Path
from typing import Any

import pytest

from harness import checking
from harness.checking import facts_of
from harness.history import Recorder
from harness.seal import open_history
from harness.sources import segment_path

FACTS: dict[str, Any] = {
    "state": "finished",
    "schedule": [{"fault": "leader-kill"}],
    "scenario": {"settings": {"acks": "1", "client": "kafka-python", "probes": True}},
}


def test_the_policy_sees_the_configuration() -> None:
    """What run.json says is what is judged by."""
    facts = facts_of(FACTS)
    assert (facts.acks, facts.client, facts.probes, facts.interrupted) == ("1", "kafka-python", True, False)
    assert [fault.name for fault in facts.faults] == ["leader-kill"]
    assert facts.changes_leaders
    assert facts.failures == ()


@pytest.mark.parametrize("idempotent", [True, False])
def test_idempotence_is_what_the_client_was_told(idempotent: bool) -> None:  # noqa: FBT001
    """Whether the scenario said so or the client's default did."""
    assert facts_of({**FACTS, "idempotent": idempotent}).idempotence is idempotent


def test_a_process_that_left_nothing_is_missed(tmp_path: Path) -> None:
    """Whom run.json names as started has to be in the history; otherwise absence proves nothing."""
    Recorder(segment_path(tmp_path, 2), 2, {"role": "producer"}).close()
    sealed = open_history(tmp_path)
    assert checking._without_the_missing(sealed, {"processes": {"2": "producer"}}) == sealed
    lacking = checking._without_the_missing(sealed, {"processes": {"2": "producer", "3": "consumer"}})
    assert lacking.damage == ["process 3 (consumer) left no history"]
    assert lacking.has_holes
    assert lacking.damaged_processes == {3}


def test_what_run_json_lacks_is_no_crash() -> None:
    """Whatever somebody made of it."""
    odd: list[dict[str, Any]] = [{"scenario": None}, {"scenario": {"settings": None}}, {"schedule": None}]
    assert not any(facts_of(facts).known for facts in odd)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, "run.json"),
        ({"state": "running"}, "was killed"),
        ({"state": "failed", "error": "node 1 died"}, "node 1 died"),
    ],
)
def test_a_run_without_a_good_end_cannot_be_valid(facts: dict[str, Any], said: str) -> None:
    """It says what happened."""
    (failure,) = facts_of(facts).failures
    assert said in failure
