"""What faults at the taps share: a rule that comes, and goes again."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from harness.clusters.node import Capability
from harness.foundation.errors import ClusterError
from harness.tap.rules import Rule
from harness.tap.taps import Taps
from nemesis.base import Aim, Fault, FaultEvidence
from nemesis.roles import ChosenNodes, choose

OF_THE_LOAD = "tidegauge-*er-*"  # producers and consumers, by their client ids; no probes


class AtTheTap(Fault):
    """A rule for the exchanges with the nodes in the target's role; it has bitten when it has bent one."""

    needs = frozenset({Capability.TAP})
    roles: ClassVar[tuple[str, ...]] = (
        "all",
        "leader",
        "follower",
        "controller",
        "group-coordinator",
        "transaction-coordinator",
        "random",
    )
    done: ClassVar[str]  # what happened to each exchange, for sentences: `responses dropped`

    chosen: ChosenNodes

    @abstractmethod
    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """What the taps before these nodes shall do to `whose` exchanges; its name is the field's tag."""

    @property
    def whose(self) -> str:
        """The load's own exchanges, where the load is ours: probes are there to see, and prove nothing."""
        return OF_THE_LOAD if self.context.clients is not None else ""

    @property
    def taps(self) -> Taps:
        """Those of the run."""
        if self.context.taps is None:
            raise ClusterError(f"{self.name} is made at the taps, and there are none", "leave --no-tap out")
        return self.context.taps

    def aim(self) -> Aim | None:
        """The nodes in their role."""
        chosen = choose(self.context, self.context.look())
        if chosen is None:
            return None
        self.chosen = chosen
        return Aim(f"{self.description}, at {chosen.called}", chosen.victim, chosen.node)

    def inject(self) -> None:
        """The rule comes."""
        self.taps.bend(self.rule(self.chosen.nodes))

    def proof(self) -> FaultEvidence | None:
        """It has bent something."""
        count = self.taps.acted(self.context.tag)
        return FaultEvidence(f"{count:,} {self.done}", self.chosen.node) if count else None

    def undo(self) -> None:
        """The rule goes, and what it held goes on."""
        self.taps.release(self.context.tag)
        self.taps.unbend(self.context.tag)

    def healed(self) -> str:
        """The tap says that the rule is gone."""
        return f"the rule {self.context.tag} is still at work" if self.taps.is_bent(self.context.tag) else ""
