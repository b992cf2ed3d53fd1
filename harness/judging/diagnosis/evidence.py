"""What rules look at: findings with their marks, what was looked for, figures and settings; never a log line.

Of run.json only how the run was set up is taken (settings, nodes, whether there were taps), never what it was meant to
show: the name of the scenario, and the rules that bend traffic, are not there for a rule to see.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from checkers.core.results import Anomaly, CheckResults, Finding
from checkers.core.timeline import Fault
from harness.judging.diagnosis.cause import Cause, Confidence, counted, listed
from harness.judging.policies import Mark
from harness.judging.verdict import MarkedFinding, Verdict
from nemesis import FAULTS

CONFIDENCE_AT_MOST: dict[str, Confidence] = {"unproven": "possible", "possibly the client": "likely"}
# causes that take the ids in Metadata for the nodes that answer
BY_ID = frozenset(
    {"clients-cannot-find-leaders", "stale-leader", "answers-as-leader", "leaders-disputed", "leader-refuses"}
)
NS = 1_000_000_000


@dataclass(frozen=True)
class Evidence:
    """The findings that no cause accounts for yet, and everything else that was measured."""

    results: CheckResults
    verdict: Verdict
    settings: Mapping[str, Any]
    nodes: tuple[int, ...] = ()
    tapped: bool = False  # whether exchanges were seen
    shared_ids: tuple[int, ...] = ()  # that Metadata gave to several brokers
    accounted: frozenset[Finding] = field(default=frozenset())
    causes: tuple[Cause, ...] = ()  # that account for them

    @classmethod
    def of(cls, results: CheckResults, verdict: Verdict, facts: Mapping[str, Any]) -> Evidence:
        """From a run's results and run.json, whatever that lacks."""
        settings = _table(_table(facts, "scenario"), "settings")
        nodes = _table(facts, "cluster").get("nodes")
        ids = [each.get("id") for each in nodes if isinstance(each, dict)] if isinstance(nodes, list) else []
        tapped = bool(_table(facts, "tap").get("exchanges"))
        shared = facts.get("shared_ids")
        known = tuple(each for each in shared if isinstance(each, int)) if isinstance(shared, list) else ()
        return cls(results, verdict, settings, tuple(each for each in ids if isinstance(each, int)), tapped, known)

    def seen(self, *anomalies: str, tag: str = "") -> list[Finding]:
        """Findings that are left, whatever their marks, in the order of time."""
        return [judged.finding for judged in self._left(anomalies, tag)]

    def wrong(self, *anomalies: str, tag: str = "") -> list[Finding]:
        """Those that nothing allows, and that do not rest on what a history with holes may have lost."""
        return [each.finding for each in self._left(anomalies, tag) if self._counts(each.mark)]

    def allowed(self, *anomalies: str, because: Collection[str]) -> list[Finding]:
        """Those that are allowed for one of these reasons, by their codes."""
        return [
            each.finding
            for each in self._left(anomalies, "")
            if each.mark.status == "allowed" and each.mark.code in because
        ]

    def marked(self, status: str, *anomalies: str) -> list[Finding]:
        """Those with this mark."""
        return [each.finding for each in self._left(anomalies, "") if each.mark.status == status]

    def counting(self, findings: Collection[Finding]) -> list[Finding]:
        """Those of these findings that nothing allows, whatever accounts for them."""
        wanted = frozenset(findings)
        return [each.finding for each in self._judged() if each.finding in wanted and self._counts(each.mark)]

    def found(self, *anomalies: str) -> int:
        """How often these were found in all; of findings, only the first and the worst are kept."""
        return sum(self._anomaly(name).found for name in anomalies)

    def kept(self, anomaly: str) -> list[Finding]:
        """The first and the worst of them, whatever accounts for them and whatever their marks."""
        return self._anomaly(anomaly).findings

    def tagged(self, anomaly: str, tag: str) -> tuple[int, int]:
        """How often it was found with this tag, at least and at most.

        The first and the worst with the same tags are kept: of tags that no finding has, there is none.
        """
        found, kept = self.found(anomaly), self.kept(anomaly)
        if not kept:
            return 0, found
        those = sum(tag in each.tags for each in kept)
        others = len(kept) - those
        return those if others else found, found - others if those else 0

    def looked_at(self, anomaly: str) -> int:
        """In how much it was looked for, all of it; zero if it was not, or not everywhere."""
        known = self._anomaly(anomaly)
        return 0 if known.unchecked or known.not_applicable else known.looked_at

    def why_not(self, anomaly: str) -> str:
        """Why nobody looked for it."""
        known = self._anomaly(anomaly)
        return known.not_applicable or known.unchecked or "there was nothing to look at"

    def beside(self, findings: Iterable[Finding], *anomalies: str) -> list[Finding]:
        """Findings of these anomalies, whatever their marks, in the partitions of those.

        Where not all of those were kept, their partitions are not known, and none is ruled out.
        """
        places = self._places(findings)
        return [each for each in self.seen(*anomalies) if places is None or (each.topic, each.partition) in places]

    def found_beside(self, findings: Iterable[Finding], *anomalies: str) -> tuple[int, int]:
        """How often these were found in the partitions of those, at least and at most; again none is ruled out."""
        places, found = self._places(findings), self.found(*anomalies)
        if places is None:
            return found, found
        kept = [(each.topic, each.partition) in places for name in anomalies for each in self.kept(name)]
        return kept.count(True), found - kept.count(False)

    def accounted_of(self, *anomalies: str) -> int:
        """How many of these that were kept a cause accounts for already."""
        return sum(each in self.accounted for name in anomalies for each in self.kept(name))

    def accounting_for(self, *anomalies: str) -> set[str]:
        """The causes that account for some of these, by name."""
        return {each.name for each in self.causes if set(anomalies).intersection(each.explains)}

    def whole(self, *anomalies: str) -> bool:
        """Whether all their findings were kept."""
        return all(self._anomaly(name).found <= len(self._anomaly(name).findings) for name in anomalies)

    def without(self, cause: Cause) -> Evidence:
        """What is left when this accounts for its part."""
        accounted = self.accounted | {*cause.findings, *cause.consequences}
        return replace(self, accounted=accounted, causes=(*self.causes, cause))

    def capped(self, cause: Cause) -> Cause:
        """No surer than the marks of what proves it, nor than it is known whom an id means."""
        if self.shared_ids and cause.name in BY_ID:
            said = f"several brokers go by the id {listed(self.shared_ids)}: whom Metadata means by that is not known"
            cause = replace(cause, confidence=_at_most(cause, "likely"), against=(*cause.against, said))
        marks = [each.mark for each in self._judged() if each.finding in cause.findings]
        if not marks or any(mark.status not in CONFIDENCE_AT_MOST for mark in marks):
            return cause
        mark = min(marks, key=lambda each: each.status)  # possibly the client, before unproven
        confidence = _at_most(cause, CONFIDENCE_AT_MOST[mark.status])
        return replace(cause, confidence=confidence, against=(*cause.against, str(mark)))

    def places(self, findings: Iterable[Finding]) -> str:
        """p0 and p1; with the topic where there are several."""
        found = {(each.topic, each.partition) for each in findings if each.topic is not None}
        several = len({row.topic for row in self.results.figures.table} | {topic for topic, _ in found}) > 1
        names = [f"{topic}-{partition}" if several else f"p{partition}" for topic, partition in sorted(found, key=str)]
        return listed(names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} partitions more"])

    def place(self, finding: Finding) -> str:
        """The same, of one."""
        return self.places([finding])

    def quotes(self, findings: Sequence[Finding], most: int = 1) -> tuple[str, ...]:
        """The first of these findings: where, and what."""
        return tuple(f"{self.place(each)}: {each.detail}" for each in findings[:most])

    @property
    def acks(self) -> str:
        """As the producers asked for them."""
        return str(self.settings.get("acks", "all"))

    def uses(self, topic: str | None) -> bool:
        """Whether the workload uses it; Kafka's own ones if it commits offsets or has transactions.

        Nobody knows where no client was ours, or where there are too many partitions for a table.
        """
        figures = self.results.figures
        if topic is None or not figures.table:
            return True
        if topic.startswith("__"):
            return bool(figures.commits or figures.transactions)
        return any(topic == row.topic for row in figures.table)

    @property
    def faults(self) -> list[Fault]:
        """Those that were injected."""
        return [each.fault for each in self.results.coverage.faults if each.fault.injected_ns is not None]

    @property
    def leader_changes(self) -> list[Fault]:
        """Those of a kind that changes leaders; one that nobody knows any more may have done so."""
        return [each for each in self.faults if each.name not in FAULTS or FAULTS[each.name].changes_leaders]

    @property
    def unexplained(self) -> tuple[str, ...]:
        """Anomalies that are not allowed, and of which something is left."""
        return tuple(
            f"{seen.anomaly} ×{seen.found:,}"
            for seen in self.verdict.seen
            if self._counts(seen.mark) and (self.wrong(seen.anomaly) or not seen.findings)
        )

    def _places(self, findings: Iterable[Finding]) -> set[tuple[str | None, int | None]] | None:
        """Their partitions; None if not all of them were kept."""
        known = list(findings)
        whole = self.whole(*{each.anomaly for each in known})
        return {(each.topic, each.partition) for each in known} if whole else None

    def _counts(self, mark: Mark) -> bool:
        return mark.status != "allowed" and not (mark.status == "unproven" and self.results.has_holes)

    def _anomaly(self, name: str) -> Anomaly:
        return self.results.anomalies.get(name, Anomaly(name, "", unchecked="this version did not look for it"))

    def _judged(self) -> Iterable[MarkedFinding]:
        return (judged for seen in self.verdict.seen for judged in seen.findings)

    def _left(self, anomalies: Iterable[str], tag: str) -> list[MarkedFinding]:
        names = set(anomalies)
        found = [
            each
            for each in self._judged()
            if each.finding.anomaly in names
            and each.finding not in self.accounted
            and (not tag or tag in each.finding.tags)
        ]
        return sorted(found, key=lambda each: (each.finding.time_ns is None, each.finding.time_ns or 0))


def _at_most(cause: Cause, most: Confidence) -> Confidence:
    worse = {"certain": 0, "likely": 1, "possible": 2}
    return max(cause.confidence, most, key=lambda each: worse[each])


def total(findings: Iterable[Finding], fact: str) -> int:
    """The sum of a fact over these findings."""
    return sum(int(each.facts.get(fact, 0)) for each in findings)


def lasted_s(findings: Iterable[Finding]) -> float:
    """The longest of them, from its first event to the one that contradicts it."""
    spans = [
        each.until_ns - each.time_ns for each in findings if each.time_ns is not None and each.until_ns is not None
    ]
    return max(spans, default=0) / NS


def nodes_of(findings: Iterable[Finding]) -> str:
    """One node, or nodes, by their numbers."""
    found = sorted({node for each in findings for node in each.nodes})
    return f"node {found[0]}" if len(found) == 1 else f"nodes {listed(found)}" if found else "an unknown node"


def times(count: int) -> str:
    """Once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(count) or counted(count, "time")


def _table(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = facts.get(name)
    return found if isinstance(found, dict) else {}
