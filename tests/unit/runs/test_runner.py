"""What a run decides about its final read."""

from __future__ import annotations

from harness.runs import recording
from nemesis.base import FaultEvidence
from nemesis.outcome import FaultOutcome
from nemesis.schedule import Slot


def test_the_final_read_expects_nothing_of_a_topic_that_was_deleted() -> None:
    """It may be known which one it was; a fault that never came deleted nothing."""
    slot = Slot(1, "recreate-topic", "", 0.0, 1.0, 5)
    proven = FaultOutcome(slot, injected_at=1, evidence=FaultEvidence("gone", topic="t"))
    assert recording._begun_again([proven, FaultOutcome(slot)]) == {"t"}
    assert recording._begun_again([FaultOutcome(slot, injected_at=1)]) == {None}
    assert recording._begun_again([FaultOutcome(Slot(2, "leader-kill", "", 0.0, 1.0, 5), injected_at=1)]) == set()


def test_the_final_read_is_of_the_runs_own_topics() -> None:
    """On a cluster that others use, too, taps hear of topics whose records are none of ours."""
    heard = {0: "tg-12-a", 1: "__transaction_state", 2: "tg-123-a", 3: "orders"}
    assert recording._of_the_run(heard, "tg-12") == {0: "tg-12-a"}
