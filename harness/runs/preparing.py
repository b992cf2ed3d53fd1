"""What a run finds out about a cluster that is up, and makes on it, before its load: nothing of that has to succeed.

A product that does less than Apache Kafka is tested for what it does. What it cannot do is kept: faults that need it
are refused by name, and the verdict says what was given up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.clusters.admin_calls import LIST_OFFSETS
from harness.clusters.base import Cluster
from harness.clusters.metadata_oddities import ask_all, odd_metadata, shared_ids
from harness.clusters.product_support import find_out
from harness.foundation.reasons import NOT_INJECTED, NOT_WHOLE, Reason
from harness.runs.strangers import refuse_strangers
from nemesis import fault_named
from nemesis.schedule import Slot
from workloads.base import TopicSpec
from workloads.topics import adopt_topics, create_topics


@dataclass
class Preparation:
    """What was found out and given up."""

    given_up: list[str] = field(default_factory=list)
    odd_metadata: list[str] = field(default_factory=list)
    shared_ids: list[int] = field(default_factory=list)  # that Metadata gives to several brokers
    missing: dict[str, Any] = field(default_factory=dict)  # calls that were needed and that nodes do not do
    reasons: list[Reason] = field(default_factory=list)
    plan: list[Slot] = field(default_factory=list)  # the faults that this product can have

    def as_json(self) -> dict[str, Any]:
        """For run.json."""
        return {
            "given_up": self.given_up,
            "odd_metadata": self.odd_metadata,
            "shared_ids": self.shared_ids,
            "missing_calls": self.missing,
        }

    @property
    def sentences(self) -> list[str]:
        """All of it, for whoever watches."""
        return list(dict.fromkeys([*self.given_up, *self.odd_metadata, *(str(each) for each in self.reasons)]))


def look_at(cluster: Cluster, plan: Sequence[Slot], *, probes: bool, tapped: bool) -> Preparation:
    """Ask every node who it thinks the cluster is, and whether it does what the faults and the probes need."""
    answers = ask_all(cluster.nodes, cluster.security)
    if not tapped:
        refuse_strangers(answers, cluster.addresses)
    odd = odd_metadata(answers, cluster.nodes)
    found = Preparation(odd_metadata=[str(each) for each in odd], shared_ids=shared_ids(answers))
    wrong = [each for each in odd if not (cluster.stateless and each.own_choice)]
    found.reasons += [Reason(NOT_WHOLE, f"Metadata contradicts itself: {each}") for each in wrong]
    if cluster.security.protocol != "PLAINTEXT":  # what nodes can do is asked over plain connections only
        found.plan = list(plan)
        return found
    needed = {call for slot in plan for call in fault_named(slot.fault).calls} | ({LIST_OFFSETS} if probes else set())
    support = find_out(cluster.nodes, needed)
    found.missing = support.as_json()
    if why := support.missing(LIST_OFFSETS):
        found.given_up.append(f"probes do not ask for ends of partitions: {why}")
    for slot in plan:
        why = next(filter(None, map(support.missing, sorted(fault_named(slot.fault).calls))), "")
        if why:
            found.given_up.append(f"fault {slot.number} ({slot.fault}) was refused: {why}")
            found.reasons.append(Reason(NOT_INJECTED, found.given_up[-1]))
        else:
            found.plan.append(slot)
    return found


def make_topics(cluster: Cluster, topics: Sequence[TopicSpec], prefix: str, found: Preparation, *, own: bool) -> None:
    """Make the topics of a run, or make sure of its user's own; an error only where there is nothing to run on."""
    if own:
        adopt_topics(cluster.nodes, cluster.security, topics, prefix)
        return
    made = create_topics(cluster.nodes, cluster.security, topics, prefix)
    found.given_up += made.given_up
    found.reasons += [Reason(NOT_WHOLE, each) for each in made.troubles]
