"""Where draws lean to when somebody looks for anomalies by name: to what those are known to come from.

    losses         the stream with acks=1, and faults that part a leader from its followers
    transactions   workloads that have some
    groups         workloads that have some

Nothing is left out, and nothing changes when whatever is illegal is sought.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.core.selection import anomalies_of
from harness.experiments.explore.goal import Goal
from nemesis import FAMILIES
from nemesis.base import Fault

LOSSES = frozenset({"lost-write", "lost-tail", "inconsistent-offset"})
TRANSACTIONS = ("transactions", "own-writes", "standing-transactions", "cycles", "aborted-read")
GROUPS = ("committed-offsets", "committed-reads", "owners", "skipped-by-groups", "coordinators")
ACKS = ("all", "all", "all", "1", "1", "1", "0")
WEAK_ACKS = ("1", "1", "1", "1", "all")  # without an acknowledgement nothing counts as lost
TIMES = 3  # so much likelier is what it leans to
LEADER = "leader"


@dataclass(frozen=True)
class Weights:
    """What is drawn more often."""

    workloads: frozenset[str] = frozenset()
    acks: tuple[str, ...] = ACKS
    leaders: bool = False  # parted from their followers

    def workload(self, name: str) -> int:
        """How many times likelier a workload is."""
        return TIMES if name in self.workloads else 1

    def fault(self, fault: type[Fault]) -> int:
        """How many times likelier a fault is."""
        return TIMES if self.leaders and LEADER in fault.roles and fault in FAMILIES["partition"] else 1

    def victims(self, roles: Sequence[str]) -> tuple[str, ...]:
        """Whom a fault is aimed at, each as often as it is likely: its own choice as often as all others together."""
        first = LEADER if self.leaders and LEADER in roles else roles[0]
        return (*(first,) * (len(roles) - 1), *roles)


def weights_for(goal: Goal) -> Weights:
    """Towards what was named."""
    known = anomalies_of()

    def named(*names: str) -> bool:
        return bool(goal.anomalies & frozenset[str]().union(*(known[name] for name in names)))

    losses = bool(goal.anomalies & LOSSES)
    of_transactions = frozenset({"transactions", "exactly-once"}) if named(*TRANSACTIONS) else frozenset()
    of_groups = frozenset({"groups", "exactly-once"}) if named(*GROUPS) else frozenset()
    of_losses = frozenset({"stream"}) if losses else frozenset()
    return Weights(of_losses | of_transactions | of_groups, WEAK_ACKS if losses else ACKS, losses)
