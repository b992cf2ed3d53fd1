"""Which errors of a client library are proof that nothing was written."""

from __future__ import annotations

import pytest

from harness.history import Type
from workloads.outcomes import REFUSED_LOCALLY, outcome


@pytest.mark.parametrize("code", [REFUSED_LOCALLY, 10, 18, 29, 31, 87])
def test_what_was_certainly_not_appended_failed(code: int) -> None:
    """Refused before it was sent, too large, not allowed, invalid."""
    assert outcome(code) is Type.FAIL


@pytest.mark.parametrize("code", [6, 7, 19, 20, -1, -192, -195, 3, 5, 74, 999])
def test_everything_else_is_unknown(code: int) -> None:
    """NOT_LEADER and time-outs above all: an earlier attempt may have been appended."""
    assert outcome(code) is Type.INFO
