"""The verdict: from what was seen, the configuration and the coverage to `valid`, `invalid` or `unknown`.

Detection is the checkers' part: they report all they see. Each finding is marked by the policy
(`harness.judging.policies`)

    illegal               a promise was broken
    allowed               seen, and this configuration permits it
    possibly the client   the client library may have done it
    unproven              it rests on something being absent from a history that has holes

and the run is

    invalid   if any finding is illegal, whatever else went wrong
    unknown   if something that `valid` needs was missing; every reason is a sentence
    valid     otherwise: nothing illegal was seen, and enough was looked at

Nothing here reads the history or needs Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from checkers.core.results import CheckResults, Finding
from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from harness.foundation.errors import Exit
from harness.foundation.reasons import (
    CHECK_FAILED,
    DAMAGE,
    FAULT_FAILED,
    ILLEGAL,
    NOT_BITTEN,
    NOT_INJECTED,
    NOT_UNDONE,
    WORKER_DIED,
    Reason,
)
from harness.history.schema import F, Type
from harness.judging.policies import Mark, RunFacts, judge
from harness.judging.policies.case import MarkStatus

VerdictOutcome = Literal["valid", "invalid", "unknown"]

EXITS: dict[VerdictOutcome, Exit] = {"valid": Exit.VALID, "invalid": Exit.INVALID, "unknown": Exit.UNKNOWN}
REGRESSIONS = frozenset({"watermark-regression", "end-offset-regression"})
REASONS_AT_MOST = 20
NAMES_AT_MOST = 6


@dataclass(frozen=True)
class MarkedFinding:
    """A finding with its mark."""

    finding: Finding
    mark: Mark


@dataclass(frozen=True)
class SeenAnomaly:
    """An anomaly that was found: how often, its findings that were kept, and the gravest mark among them."""

    anomaly: str
    found: int
    mark: Mark
    findings: tuple[MarkedFinding, ...]


@dataclass(frozen=True)
class Verdict:
    """The answer, with the reasons for anything but `valid`."""

    outcome: VerdictOutcome
    reasons: tuple[Reason, ...]
    seen: tuple[SeenAnomaly, ...]
    coverage: Coverage
    looked_for: int
    not_looked_at: dict[str, str] = field(default_factory=dict)  # anomalies, and why
    given_up: tuple[str, ...] = ()  # what the product could not be made to do

    @property
    def exit_code(self) -> Exit:
        """What the command returns."""
        return EXITS[self.outcome]

    def as_json(self) -> dict[str, Any]:
        """For results.json; findings are told there once, with their marks."""
        return {
            "outcome": self.outcome,
            "reasons": [each.as_json() for each in self.reasons],
            "seen": [
                {
                    "anomaly": seen.anomaly,
                    "found": seen.found,
                    "mark": seen.mark.as_json(),
                    "marks": [judged.mark.as_json() for judged in seen.findings],
                }
                for seen in self.seen
            ],
            "looked_for": self.looked_for,
            "not_looked_at": self.not_looked_at,
            "given_up": list(self.given_up),
        }


def decide(results: CheckResults, facts: RunFacts) -> Verdict:
    """Mark every finding, then look at what is missing."""
    seen = tuple(_seen(results, anomaly.name, facts) for anomaly in results.found)
    missing = list(_missing(results, facts))
    doubtful = [
        Reason(
            "possibly-the-client",
            f"{item.anomaly} was seen and may be the client's doing: repeat the run with another client",
        )
        for item in seen
        if item.mark.status == "possibly the client"
    ]
    if facts.traffic_only or not facts.known or not missing:
        doubtful += [
            Reason("unproven", f"{item.anomaly} was seen: {item.mark.why}")
            for item in seen
            if item.mark.status == "unproven"
        ]
    illegal = [Reason(ILLEGAL, f"{item.anomaly} ×{item.found:,}") for item in seen if item.mark.status == "illegal"]
    outcome: VerdictOutcome = "invalid" if illegal else "unknown" if missing or doubtful else "valid"
    reasons = [*illegal, *doubtful, *missing]
    if len(reasons) > REASONS_AT_MOST:
        more = len(reasons) - REASONS_AT_MOST + 1
        reasons = [*reasons[: REASONS_AT_MOST - 1], Reason("more", f"and {more} reasons more")]
    not_looked_at = {
        anomaly.name: anomaly.not_applicable or anomaly.unchecked or "nothing to look at"
        for anomaly in results.anomalies.values()
        if anomaly.not_applicable or anomaly.unchecked or not anomaly.looked_at
    }
    looked_for = len(results.looked_for)
    return Verdict(outcome, tuple(reasons), seen, results.coverage, looked_for, not_looked_at, facts.given_up)


def _seen(results: CheckResults, name: str, facts: RunFacts) -> SeenAnomaly:
    anomaly = results.anomalies[name]
    judged = tuple(MarkedFinding(finding, judge(finding, results, facts)) for finding in anomaly.findings)
    order: list[MarkStatus] = ["illegal", "possibly the client", "unproven", "allowed"]
    unproven = Mark("unproven", "no-evidence")
    gravest = min((item.mark for item in judged), key=lambda mark: order.index(mark.status), default=unproven)
    return SeenAnomaly(name, anomaly.found, gravest, judged)


def _missing(results: CheckResults, facts: RunFacts) -> Iterator[Reason]:
    """A sentence for each thing that `valid` needs and that is not there."""
    if results.only:
        yield Reason(
            "only-some-checkers", f"only {', '.join(results.only)} was asked for, and nothing else was looked for"
        )
    if facts.interrupted:
        yield Reason("interrupted", "the run was interrupted")
    yield from (Reason(WORKER_DIED, sentence) for sentence in facts.dead_workers)
    yield from (Reason(DAMAGE, sentence) for sentence in dict.fromkeys((*results.damage, *facts.damage)))
    yield from (Reason(CHECK_FAILED, sentence) for sentence in dict.fromkeys(results.failures))
    yield from dict.fromkeys(facts.failures)
    if not results.events:
        yield Reason("empty-history", "the history is empty")
        return
    yield from _missing_at_taps(results, facts)
    if not facts.traffic_only:
        yield from _missing_operations(results, facts)


def _missing_at_taps(results: CheckResults, facts: RunFacts) -> Iterator[Reason]:
    """What passed and was not seen; where nothing but that was recorded, it has to be enough."""
    if facts.refused:
        yield Reason(
            "connections-refused",
            f"{facts.refused:,} connections were ended by the taps: what came over them was no Kafka, or too much",
        )
    if facts.traffic_only and facts.garbled:
        yield Reason("not-understood", f"{facts.garbled:,} exchanges could not be decoded, so their content is unknown")
    if not facts.traffic_only:
        return
    looked = any(results.anomalies[name].looked_at for name in REGRESSIONS if name in results.anomalies)
    judged = sorted(name for name, each in results.anomalies.items() if each.looked_at and not each.not_applicable)
    if not looked and not judged:
        unable = f"{facts.exchanges:,} exchanges passed the taps, and none of them can be checked"
        yield Reason("nothing-passed", unable if facts.exchanges else "nothing passed the taps")
    elif not looked:
        yield Reason(
            "watermarks-not-seen",
            f"of {facts.exchanges:,} exchanges at the taps none showed watermarks twice, so what moves them was not"
            f" judged; judged were {_listed(judged)}",
        )


def _listed(names: list[str]) -> str:
    more = len(names) - NAMES_AT_MOST
    return ", ".join(names[:NAMES_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def _missing_operations(results: CheckResults, facts: RunFacts) -> Iterator[Reason]:
    """What clients of ours should have done."""
    covered = results.coverage
    if not covered.count(F.SEND, Type.OK):
        yield Reason("no-acknowledgement", "no send was acknowledged")
    if not covered.load_records:
        yield Reason("nothing-read", "the load's consumers read nothing")
    yield from _missing_finals(covered, facts)
    if len(covered.faults) < len(facts.faults) or (facts.faults and not covered.faults):
        names = ", ".join(fault.name for fault in facts.faults)
        yield Reason("faults-missing", f"the history holds {len(covered.faults)} of the faults asked for ({names})")
    for fault in covered.faults:
        yield from _missing_around(fault, facts)
    yield from _missing_reads(results, facts)
    if facts.probes:
        yield from _missing_probes(results)


def _missing_reads(results: CheckResults, facts: RunFacts) -> Iterator[Reason]:
    """Consumers that gave up on what was there: the final read got it, and still something was wrong."""
    lost = sum(results.anomalies[name].found for name in ("lost-write", "lost-tail") if name in results.anomalies)
    figures = results.figures
    if facts.reads_everything and figures.distinct + lost < figures.acknowledged:
        said = f"the load's consumers gave up after {figures.distinct:,} of {figures.acknowledged:,} messages"
        yield Reason("consumers-gave-up", said)


def _missing_probes(results: CheckResults) -> Iterator[Reason]:
    """Nodes that never answered, and what nobody looked at because of that."""
    probes = results.coverage.probes
    if not any(probe["answered"] for probe in probes):
        yield Reason("no-probe-answered", "no probe was answered")
        return
    answered = {probe["node"] for probe in probes if probe["answered"]}
    for node in sorted({probe["node"] for probe in probes} - answered):
        yield Reason("node-silent", f"node {node} answered no probe")
    for name in sorted(REGRESSIONS):
        if name in results.anomalies and not results.anomalies[name].looked_at:
            yield Reason("nothing-to-look-at", f"nothing was there to look at for {name}")


def _missing_finals(covered: Coverage, facts: RunFacts) -> Iterator[Reason]:
    if facts.imported and F.FINAL.name.lower() not in covered.operations:
        said = "there is no final read, so nobody knows whether the last acknowledged messages are there"
        yield Reason("no-final-read", said)
        return
    for final in covered.finals_incomplete:
        place = f"{final['topic']}-{final['partition']}"
        if final["final_offset"] is None or final["final_end"] is None:
            yield Reason("not-read-to-end", f"{place} was not read to its end")
        else:
            said = f"the final read of {place} got to offset {final['final_offset']:,} of {final['final_end']:,}"
            yield Reason("not-read-to-end", said)
    more = covered.finals_incomplete_count - len(covered.finals_incomplete)
    if more:
        yield Reason("not-read-to-end", f"{more:,} more partitions were not read to their end")
    yield from (
        Reason("not-read-raw", f"the raw read of {place} did not get to its end") for place in covered.raws_incomplete
    )
    more = covered.raws_incomplete_count - len(covered.raws_incomplete)
    if more:
        yield Reason("not-read-raw", f"the raw reads of {more:,} more partitions did not get to their end")


def _missing_around(covered: FaultCoverage, facts: RunFacts) -> Iterator[Reason]:
    fault = covered.fault
    name = f"fault {fault.number} ({fault.name})"
    if fault.failed:
        yield Reason(FAULT_FAILED, f"{name} failed: {fault.detail or 'no reason was recorded'}")
    if fault.injected_ns is None:
        yield Reason(NOT_INJECTED, f"{name} was never injected")
        return
    if not fault.bit:
        why = f": {fault.detail}" if fault.detail and not fault.failed else ""
        yield Reason(NOT_BITTEN, f"{name} did not bite{why}")
    if fault.undone_ns is None:
        yield Reason(NOT_UNDONE, f"{name} was not undone")
    for when, span in (("before", covered.before), ("during", covered.clear), ("after", covered.after)):
        if span is not None and not span.short:
            yield from _missing_in(span, f"{when} {name}", both=facts.reads_beside_sends)


def _missing_in(span: Span, when: str, *, both: bool) -> Iterator[Reason]:
    if not span.sends and not span.reads:
        yield Reason("nothing-happened", f"nothing was sent or read {when}")
    elif both and not span.sends:
        yield Reason("no-acknowledgement", f"no send was acknowledged {when}")
    elif both and not span.reads:
        yield Reason("nothing-read", f"nothing was read {when}")
