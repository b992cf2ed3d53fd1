"""How long something may stand still: the `[limits]` of a scenario. Generous: a slow machine is no broken broker.

The first ones are for checks. The others end phases of a run in which nothing moves any more: `patience_s` says when
more waiting cannot change what the checks say.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from harness.foundation.config import Model
from harness.foundation.durations import Duration


class Limits(Model):
    """From when on a check speaks, and from when on it condemns."""

    stall_s: Duration = Field(
        default=5.0,
        gt=0,
        description="A stall: a partition with records from which consumers receive nothing for this long.",
    )
    stuck_s: Duration = Field(default=30.0, gt=0, description="The same if nothing shows that the brokers caused it.")
    group_stall_s: Duration = Field(
        default=40.0, gt=0, description="The same in a topic that a group reads: it waits for members that are gone."
    )
    lso_stuck_s: Duration = Field(
        default=30.0, gt=0, description="A last stable offset that stands still: longer than transactions may take."
    )
    no_progress_s: Duration = Field(
        default=20.0, gt=0, description="No send to a partition gets through, in a fault or not."
    )
    recovery_s: Duration = Field(
        default=30.0, gt=0, description="From a fault's end to the first send that gets through."
    )
    leaderless_s: Duration = Field(default=10.0, gt=0, description="A partition without a leader, outside of faults.")
    idle_s: Duration = Field(
        default=25.0,
        gt=0,
        description="Nothing at all moves, outside of faults: the phase ends early, never before the limits above.",
    )
    whole_s: Duration = Field(
        default=60.0,
        gt=0,
        description="Time for a cluster to recover from faults; without faults, at most `idle_s`.",
    )


DEFAULTS: Mapping[str, float] = Limits().model_dump()
TXN_ENDED_S = 20.0  # until a coordinator ends a transaction whose time is over
MARGIN_S = 2.0  # so that what stood still did so for longer than the check needs
SESSIONS = 4  # that a group may take to get over members that are gone


def limits_of(given: Mapping[str, float], settings: Mapping[str, object]) -> dict[str, float]:
    """The limits of a run: of its scenario, and no shorter than its own time-outs allow."""
    limits = {**DEFAULTS, **given}
    transaction_ms, session_ms = settings.get("transaction_timeout_ms"), settings.get("session_timeout_ms")
    if isinstance(transaction_ms, int):
        limits["lso_stuck_s"] = max(limits["lso_stuck_s"], transaction_ms / 1000 + TXN_ENDED_S)
    if isinstance(session_ms, int):
        limits["group_stall_s"] = max(limits["group_stall_s"], SESSIONS * session_ms / 1000)
    return limits


def patience_s(
    given: Mapping[str, float], settings: Mapping[str, object], *, watched: bool, in_group: bool, faults: bool
) -> float:
    """How long nothing may move before waiting is in vain: by then each check has seen as much as it needs.

    A run is `watched` if probes or taps see what brokers say; without them consumers have to wait for longer.
    """
    limits = limits_of(given, settings)
    needed = ["stall_s", "no_progress_s"]
    needed += [] if watched else ["stuck_s"]
    needed += ["lso_stuck_s"] if "transaction_timeout_ms" in settings else []
    needed += ["group_stall_s"] if in_group else []
    needed += ["recovery_s"] if faults else []
    return max(limits["idle_s"], *(limits[name] + MARGIN_S for name in needed))
