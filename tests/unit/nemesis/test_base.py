"""What all faults share: those that repeat themselves, and what they refuse."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from harness.foundation.errors import ClusterError
from nemesis import FAULTS
from nemesis.base import Aim, Fault, FaultEvidence, RepeatingFault
from nemesis.clocks import ClockSkew
from tests.support.fake_cluster import Paper, context_on, stepped


class Knocking(RepeatingFault):
    """One whose steps a test lets happen."""

    name = "knocking"
    roles = ("all",)
    options = {"period": 0.001}
    period_s = 0.001

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.door = threading.Event()
        self.error: Exception | None = None
        self.rested = 0

    def aim(self) -> Aim | None:
        """Always."""
        return Aim("knocks")

    def step(self) -> None:
        """When the door opens."""
        self.door.wait()
        if self.error:
            raise self.error

    def rest(self) -> None:
        """Noted."""
        self.rested += 1

    def proof(self) -> FaultEvidence | None:
        """None."""
        self.fail_if_a_step_failed()
        return None


@pytest.fixture
def fault() -> Knocking:
    """On paper."""
    return Knocking(context_on(Paper(), Knocking))


def test_the_injection_does_not_wait_for_the_first_step(fault: Knocking) -> None:
    """However long that takes."""
    fault.inject()
    assert fault.steps == 0
    assert fault.proof() is None
    fault.door.set()
    stepped(fault)
    fault.undo()
    done = fault.steps
    assert done > 0
    fault.undo()
    assert (fault.steps, fault.rested) == (done, 2)


def test_an_error_of_a_step_is_told_once_by_the_proof(fault: Knocking) -> None:
    """And ends the steps."""
    fault.error = ClusterError("nobody is in", "knock later")
    fault.door.set()
    fault.inject()
    stepped(fault)
    with pytest.raises(ClusterError, match="nobody is in"):
        fault.proof()
    assert fault.proof() is None
    fault.undo()
    assert fault.steps == 0


def test_an_error_after_the_last_proof_is_told_by_the_undo(fault: Knocking) -> None:
    """When everything is as it was."""
    fault.error = ClusterError("nobody is in", "knock later")
    fault.inject()
    assert fault.proof() is None
    fault.door.set()
    stepped(fault)
    with pytest.raises(ClusterError, match="nobody is in"):
        fault.undo()
    assert fault.rested == 1
    fault.undo()


@pytest.mark.parametrize("kind", [kind for kind in FAULTS.values() if "period" in kind.options])
def test_long_periods_are_refused(kind: type[Fault]) -> None:
    """Such a fault would be given up before it came round."""
    assert kind.refuse({"period": 31.0}) == f"the period of '{kind.name}' is 30 s at most"
    assert kind.refuse({"period": 30.0}) == ""


def test_a_clock_that_counts_as_right_is_not_wrong() -> None:
    """It has to be off by more than nodes are in any case."""
    assert ClockSkew.refuse({"by": 0.5}) == "'clock-skew' is by 1 s at least"
    assert ClockSkew.refuse({"by": 1.0}) == ""


@pytest.mark.parametrize("kind", FAULTS.values())
def test_no_fault_refuses_its_own_defaults(kind: type[Fault]) -> None:
    """Filled in or not."""
    assert kind.refuse({}) == kind.refuse(kind.options) == ""


@pytest.mark.parametrize("kind", FAULTS.values())
def test_nobody_is_felled_before_the_aim(kind: type[Fault]) -> None:
    """Whoever asks."""
    assert kind(context_on(Paper(), kind)).out_of_service == frozenset()
