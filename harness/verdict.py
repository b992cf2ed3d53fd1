"""The verdict: from what was seen, the configuration and the coverage to `valid`, `invalid` or `unknown`.

Detection is the checkers' part: they report all they see. Here each finding is marked by the policy

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

from checkers.coverage import Coverage, Fault, FaultCoverage, Span
from checkers.results import CheckResults, Finding
from harness.errors import Exit
from harness.history import NEMESIS_PROCESS, F, Type

Outcome = Literal["valid", "invalid", "unknown"]
Trait = Literal["changes_leaders", "deletes", "unclean"]
Status = Literal["illegal", "allowed", "possibly the client", "unproven"]

EXITS: dict[Outcome, Exit] = {"valid": Exit.VALID, "invalid": Exit.INVALID, "unknown": Exit.UNKNOWN}
BY_ABSENCE = frozenset({"lost-write", "lost-tail", "phantom"})
BY_LEADER_CHANGE = frozenset({"lost-write", "lost-tail", "inconsistent-offset", "shared-offset"})
REGRESSIONS = frozenset({"watermark-regression", "end-offset-regression"})
BY_DELETION = BY_LEADER_CHANGE | REGRESSIONS | {"aborted-read", "duplicate", "false-ack"}  # a topic begins again
BY_OWN_DELETION = BY_DELETION - {"aborted-read"}  # what certainly failed is in no life of a topic
BY_TWO_EVENTS = frozenset({"inconsistent-offset", "shared-offset"})
OF_A_WRITE = frozenset({"lost-write", "lost-tail", "false-ack"})  # its time is that of the acknowledgement
DUPLICATES_REQUESTS = "duplicate-requests"
OF_PRODUCERS = frozenset({"plain", "idempotent", "transactional"})  # tags of a duplicate
UNCLEAN_ELECTION = "unclean election"  # what the evidence of a fault says when it brought one about
REASONS_AT_MOST = 20


@dataclass(frozen=True)
class PlannedFault:
    """A fault that the run was to inject."""

    name: str
    changes_leaders: bool
    blocks: bool = False  # while it lasts, nothing need get through
    deletes: bool = False  # it takes acknowledged messages with it
    unclean: bool = False  # a replica that lags may become leader by it


@dataclass(frozen=True)
class RunFacts:
    """What the verdict has to know of the run beside its history."""

    acks: str = "all"
    known: bool = True  # False: nobody knows how the run was set up
    traffic_only: bool = False  # somebody's clients at taps: no operations of ours, nothing but exchanges
    imported: bool = False  # the history of clients that are not ours
    idempotence: bool = False  # of producers of which the history does not say it
    retries: int | None = None  # None: as often as the client likes
    client: str = "kafka-python"
    unclean_election: bool = False
    faults: tuple[PlannedFault, ...] = ()
    probes: bool = False
    reads_beside_sends: bool = True  # False: the workload sends first and reads afterwards
    reads_everything: bool = False  # whether the load's consumers go on until they have read what was acknowledged
    interrupted: bool = False
    dead_workers: tuple[str, ...] = ()  # sentences
    damage: tuple[str, ...] = ()  # sentences, beside those of the history
    garbled: int = 0  # exchanges at the taps of APIs we know that could not be read
    refused: int = 0  # connections that the taps ended because of what came over them
    failures: tuple[str, ...] = ()  # sentences: checks that could not be made, beside those of the engine

    @property
    def changes_leaders(self) -> bool:
        """Whether a fault was to move a leader."""
        return any(fault.changes_leaders for fault in self.faults)


@dataclass(frozen=True)
class Mark:
    """What the policy says of findings, and why."""

    status: Status
    why: str = ""

    def __str__(self) -> str:
        return f"{self.status}: {self.why}" if self.why else self.status


@dataclass(frozen=True)
class Judged:
    """A finding with its mark."""

    finding: Finding
    mark: Mark


@dataclass(frozen=True)
class Seen:
    """An anomaly that was found: how often, its findings that were kept, and the gravest mark among them."""

    anomaly: str
    found: int
    mark: Mark
    findings: tuple[Judged, ...]


@dataclass(frozen=True)
class Verdict:
    """The answer, with the reasons for anything but `valid`."""

    outcome: Outcome
    reasons: tuple[str, ...]
    seen: tuple[Seen, ...]
    coverage: Coverage
    looked_for: int
    not_looked_at: dict[str, str] = field(default_factory=dict)  # anomalies, and why

    @property
    def exit_code(self) -> Exit:
        """What the command returns."""
        return EXITS[self.outcome]

    def as_json(self) -> dict[str, Any]:
        """For results.json; findings are told there once, with their marks."""
        return {
            "outcome": self.outcome,
            "reasons": list(self.reasons),
            "seen": [
                {
                    "anomaly": seen.anomaly,
                    "found": seen.found,
                    "mark": str(seen.mark),
                    "marks": [str(judged.mark) for judged in seen.findings],
                }
                for seen in self.seen
            ],
            "looked_for": self.looked_for,
            "not_looked_at": self.not_looked_at,
        }


def decide(results: CheckResults, facts: RunFacts) -> Verdict:
    """Mark every finding, then look at what is missing."""
    seen = tuple(_seen(results, anomaly.name, facts) for anomaly in results.found)
    missing = list(_missing(results, facts))
    doubtful = [
        f"{item.anomaly} was seen and may be the client's doing: repeat the run with the other client"
        for item in seen
        if item.mark.status == "possibly the client"
    ]
    if facts.traffic_only or not facts.known:
        doubtful += [f"{item.anomaly} was seen: {item.mark.why}" for item in seen if item.mark.status == "unproven"]
    illegal = [f"{item.anomaly} ×{item.found:,}" for item in seen if item.mark.status == "illegal"]
    outcome: Outcome = "invalid" if illegal else "unknown" if missing or doubtful else "valid"
    reasons = [*illegal, *doubtful, *missing]
    if len(reasons) > REASONS_AT_MOST:
        more = len(reasons) - REASONS_AT_MOST + 1
        reasons = [*reasons[: REASONS_AT_MOST - 1], f"and {more} reasons more"]
    not_looked_at = {
        anomaly.name: anomaly.not_applicable or "nothing to look at"
        for anomaly in results.anomalies.values()
        if anomaly.not_applicable or not anomaly.looked_at
    }
    return Verdict(outcome, tuple(reasons), seen, results.coverage, len(results.looked_for), not_looked_at)


def judge(finding: Finding, results: CheckResults, facts: RunFacts) -> Mark:
    """The policy table, a row at a time."""
    name = finding.anomaly
    if name in BY_ABSENCE and (unproven := _unproven(finding, results)):
        return Mark("unproven", unproven)
    if name in BY_OWN_DELETION and "deleted topic" in finding.tags:
        return Mark("allowed", "the workload deleted the topic")
    if name in BY_DELETION and _deleted(finding, results, facts):
        return Mark("allowed", "a fault deleted the topic")
    within_an_epoch = name in REGRESSIONS and "one epoch" in finding.tags  # illegal however it was set up
    if not facts.known and not within_an_epoch and name in BY_LEADER_CHANGE | REGRESSIONS | {"duplicate", "false-ack"}:
        return Mark("unproven", "how the run was set up is unknown, and that may permit it")
    mark = _judge_by_configuration(finding, results, facts)
    if (
        mark.status == "illegal"
        and name in BY_LEADER_CHANGE | REGRESSIONS
        and _perhaps_unclean(finding, results, facts)
    ):
        return Mark("unproven", "whether a fault brought an unclean election about is not known")
    return mark


def _judge_by_configuration(finding: Finding, results: CheckResults, facts: RunFacts) -> Mark:
    name = finding.anomaly
    unclean = facts.unclean_election or _elected_uncleanly(finding, results, facts)
    weak = "unclean leader election is on" if unclean else f"acks={facts.acks}" if facts.acks in {"0", "1"} else ""
    if name in BY_LEADER_CHANGE and weak and _injected(finding, results, facts, "changes_leaders"):
        return Mark("allowed", f"{weak}, and a fault changes leaders")
    if name in REGRESSIONS:
        changed = bool(_injected(finding, results, facts, "changes_leaders"))
        return _judge_regression(finding, unclean=unclean, changed=changed)
    if name == "duplicate":
        return _judge_duplicate(finding, results, facts)
    return Mark("illegal")


def _injected(finding: Finding, results: CheckResults, facts: RunFacts, which: Trait) -> list[Fault | None]:
    """The faults with this trait that had come before it was seen; None where that is not known for certain."""
    return _came(finding, results, {fault.name for fault in facts.faults if getattr(fault, which)})


def _came(finding: Finding, results: CheckResults, names: set[str]) -> list[Fault | None]:
    """The same, by name.

    Of two events that contradict each other the later one counts. What is absent was seen when all was over.
    """
    if names and (results.has_holes or NEMESIS_PROCESS in results.damaged_processes):
        return [None]
    seen_ns = finding.time_ns if finding.anomaly in REGRESSIONS else finding.until_ns
    return [
        covered.fault
        for covered in results.coverage.faults
        if covered.fault.name in names
        and covered.fault.injected_ns is not None
        and (seen_ns is None or seen_ns >= covered.fault.injected_ns)
    ]


def _deleted(finding: Finding, results: CheckResults, facts: RunFacts) -> bool:
    """Whether a fault had deleted its topic; what was acknowledged after that was undone has to be there."""
    faults = _injected(finding, results, facts, "deletes")
    return any(
        fault is None or (fault.topic == finding.topic and _began_before_the_end(finding, fault)) for fault in faults
    )


def _began_before_the_end(finding: Finding, fault: Fault) -> bool:
    """Whether the write, or the first of two events, came before the fault was undone."""
    if finding.anomaly not in OF_A_WRITE | BY_TWO_EVENTS or finding.time_ns is None or fault.undone_ns is None:
        return True
    return finding.time_ns <= fault.undone_ns


def _elected_uncleanly(finding: Finding, results: CheckResults, facts: RunFacts) -> bool:
    """Whether a fault had made a leader of a replica that lagged, in its topic."""
    faults = _injected(finding, results, facts, "unclean")
    return any(
        fault is None or (fault.topic == finding.topic and UNCLEAN_ELECTION in fault.evidence) for fault in faults
    )


def _perhaps_unclean(finding: Finding, results: CheckResults, facts: RunFacts) -> bool:
    """Whether a fault was to do that and nobody saw what came of it."""
    faults = _injected(finding, results, facts, "unclean")
    return any(fault is not None and fault.topic == finding.topic and not fault.bit for fault in faults)


def _judge_duplicate(finding: Finding, results: CheckResults, facts: RunFacts) -> Mark:
    """By its producer where the history knows it, else by how the run was set up."""
    planned = {fault.name for fault in facts.faults}
    numbered = facts.idempotence if OF_PRODUCERS.isdisjoint(finding.tags) else "plain" not in finding.tags
    if not numbered and _came(finding, results, planned & {DUPLICATES_REQUESTS}):
        return Mark("allowed", "a fault sends requests twice, and without idempotence both are appended")
    if not numbered and facts.retries != 0:
        return Mark("allowed", "without idempotence a client's retry may be appended again")
    if "transactional" in finding.tags:
        return Mark("illegal")
    if "numbered anew" in finding.tags:
        return Mark("possibly the client", "its producer began to number anew, and may have written again")
    if facts.client == "confluent-kafka" and facts.changes_leaders:
        return Mark("possibly the client", "confluent-kafka may resend across a leader change")
    return Mark("illegal")


def _unproven(finding: Finding, results: CheckResults) -> str:
    if "foreign" in finding.tags:
        return ""  # the record itself says so
    if results.has_holes:
        return "the history has holes, and what is missing may be there"
    if finding.anomaly == "phantom" and results.damaged_processes.intersection(finding.processes):
        return "the history of its producer is damaged"
    return ""


def _judge_regression(finding: Finding, *, unclean: bool, changed: bool) -> Mark:
    """Given whether elections may be unclean, and whether a fault that changes leaders had come."""
    across = "across nodes" in finding.tags
    if unclean and changed:
        return Mark("allowed", "unclean leader election is on, and a fault changes leaders")
    if "older epoch" in finding.tags and across and changed:
        return Mark("allowed", "a leader that a fault had deposed answered before it knew of its successor")
    if finding.anomaly == "end-offset-regression":
        return Mark("illegal")  # KIP-207: a new leader does not tell its end before it knows it
    if "epoch rose" in finding.tags:
        return Mark("allowed", "a new leader does not know the high watermark before it has heard from its followers")
    if "epoch unknown" in finding.tags and across and changed:
        return Mark("allowed", "another node, and a fault changes leaders; no leader epoch is known")
    return Mark("illegal")


def _seen(results: CheckResults, name: str, facts: RunFacts) -> Seen:
    anomaly = results.anomalies[name]
    judged = tuple(Judged(finding, judge(finding, results, facts)) for finding in anomaly.findings)
    order: list[Status] = ["illegal", "possibly the client", "unproven", "allowed"]
    unproven = Mark("unproven", "its evidence could not be brought")
    gravest = min((item.mark for item in judged), key=lambda mark: order.index(mark.status), default=unproven)
    return Seen(name, anomaly.found, gravest, judged)


def _missing(results: CheckResults, facts: RunFacts) -> Iterator[str]:
    """A sentence for each thing that `valid` needs and that is not there."""
    if facts.interrupted:
        yield "the run was interrupted"
    yield from facts.dead_workers
    yield from dict.fromkeys((*results.damage, *facts.damage))
    yield from dict.fromkeys((*results.failures, *facts.failures))
    if not results.events:
        yield "the history is empty"
        return
    yield from _missing_at_taps(results, facts)
    if not facts.traffic_only:
        yield from _missing_operations(results, facts)


def _missing_at_taps(results: CheckResults, facts: RunFacts) -> Iterator[str]:
    """What passed and was not seen; where nothing but that was recorded, it has to be enough."""
    if facts.refused:
        yield f"{facts.refused:,} connections were ended by the taps: what came over them was no Kafka, or too much"
    if facts.traffic_only and facts.garbled:
        yield f"{facts.garbled:,} exchanges could not be read, and nobody knows what they were"
    looked = any(results.anomalies[name].looked_at for name in REGRESSIONS if name in results.anomalies)
    if facts.traffic_only and not looked:
        yield "nothing that can be checked passed the taps"


def _missing_operations(results: CheckResults, facts: RunFacts) -> Iterator[str]:
    """What clients of ours should have done."""
    covered = results.coverage
    if not covered.count(F.SEND, Type.OK):
        yield "no send was acknowledged"
    if not covered.load_records:
        yield "the load's consumers read nothing"
    yield from _missing_finals(covered, facts)
    if len(covered.faults) < len(facts.faults) or (facts.faults and not covered.faults):
        names = ", ".join(fault.name for fault in facts.faults)
        yield f"the history holds {len(covered.faults)} of the faults asked for ({names})"
    for fault in covered.faults:
        yield from _missing_around(fault, facts)
    yield from _missing_reads(results, facts)
    if facts.probes:
        yield from _missing_probes(results)


def _missing_reads(results: CheckResults, facts: RunFacts) -> Iterator[str]:
    """Consumers that gave up on what was there: the final read got it, and still something was wrong."""
    lost = sum(results.anomalies[name].found for name in ("lost-write", "lost-tail") if name in results.anomalies)
    figures = results.figures
    if facts.reads_everything and figures.distinct + lost < figures.acknowledged:
        yield f"the load's consumers gave up after {figures.distinct:,} of {figures.acknowledged:,} messages"


def _missing_probes(results: CheckResults) -> Iterator[str]:
    """Nodes that never answered, and what nobody looked at because of that."""
    probes = results.coverage.probes
    if not any(probe["answered"] for probe in probes):
        yield "no probe was answered"
        return
    answered = {probe["node"] for probe in probes if probe["answered"]}
    for node in sorted({probe["node"] for probe in probes} - answered):
        yield f"node {node} answered no probe"
    for name in sorted(REGRESSIONS):
        if name in results.anomalies and not results.anomalies[name].looked_at:
            yield f"nothing was there to look at for {name}"


def _missing_finals(covered: Coverage, facts: RunFacts) -> Iterator[str]:
    if facts.imported and F.FINAL.name.lower() not in covered.operations:
        yield "there is no final read: of what was acknowledged last nobody knows whether it is there"
        return
    for final in covered.finals_incomplete:
        place = f"{final['topic']}-{final['partition']}"
        if final["final_offset"] is None or final["final_end"] is None:
            yield f"{place} was not read to its end"
        else:
            yield f"the final read of {place} got to offset {final['final_offset']:,} of {final['final_end']:,}"
    more = covered.finals_incomplete_count - len(covered.finals_incomplete)
    if more:
        yield f"{more:,} more partitions were not read to their end"
    yield from (f"the raw read of {place} did not get to its end" for place in covered.raws_incomplete)
    more = covered.raws_incomplete_count - len(covered.raws_incomplete)
    if more:
        yield f"the raw reads of {more:,} more partitions did not get to their end"


def _missing_around(covered: FaultCoverage, facts: RunFacts) -> Iterator[str]:
    fault = covered.fault
    name = f"fault {fault.number} ({fault.name})"
    if fault.failed:
        yield f"{name} failed: {fault.detail or 'no reason was recorded'}"
    if fault.injected_ns is None:
        yield f"{name} was never injected"
        return
    if not fault.bit:
        yield f"{name} did not bite" + (f": {fault.detail}" if fault.detail and not fault.failed else "")
    if fault.undone_ns is None:
        yield f"{name} was not undone"
    for when, span in (("before", covered.before), ("during", covered.clear), ("after", covered.after)):
        if span is not None and not span.short:
            yield from _missing_in(span, f"{when} {name}", both=facts.reads_beside_sends)


def _missing_in(span: Span, when: str, *, both: bool) -> Iterator[str]:
    if not span.sends and not span.reads:
        yield f"nothing was sent or read {when}"
    elif both and not span.sends:
        yield f"no send was acknowledged {when}"
    elif both and not span.reads:
        yield f"nothing was read {when}"
