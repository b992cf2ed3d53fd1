"""What a policy has to know: the finding, the run that it is of, and the marks that it can give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from checkers.core.results import CheckResults, Finding
from checkers.core.timeline import Fault
from harness.foundation.reasons import Reason
from harness.history.schema import NEMESIS_PROCESS
from harness.judging.policies.marks import words
from workloads.clients.stack import Quirks
from workloads.clients.stacks import quirks_of

Trait = Literal["changes_leaders", "deletes", "unclean"]
MarkStatus = Literal["illegal", "allowed", "possibly the client", "unproven"]
WEAK_ACKS, UNCLEAN = "weak-acks", "unclean-election"  # codes of marks


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
    exchanges: int = 0  # that passed the taps
    traffic_only: bool = False  # somebody's clients at taps: no operations of ours, nothing but exchanges
    imported: bool = False  # the history of clients that are not ours
    idempotence: bool = False  # of producers of which the history does not say it
    retries: int | None = None  # None: as often as the client likes
    client: str = ""  # whatever nobody knows is not excused
    unclean_election: bool = False
    stateless: bool = False  # any node may lead anything: the data lies elsewhere
    faults: tuple[PlannedFault, ...] = ()
    probes: bool = False
    reads_beside_sends: bool = True  # False: the workload sends first and reads afterwards
    reads_everything: bool = False  # whether the load's consumers go on until they have read what was acknowledged
    interrupted: bool = False
    dead_workers: tuple[str, ...] = ()  # sentences
    dead_roles: tuple[str, ...] = ()  # of the first of these, as far as anybody knows
    elections: Mapping[int, bool] = field(default_factory=dict)  # whether they were unclean, by the fault's number
    damage: tuple[str, ...] = ()  # sentences, beside those of the history
    garbled: int = 0  # exchanges at the taps of APIs we know that could not be read
    refused: int = 0  # connections that the taps ended because of what came over them
    failures: tuple[Reason, ...] = ()  # what else went wrong
    given_up: tuple[str, ...] = ()  # sentences: what the product could not be made to do, so that it was not tested

    @property
    def changes_leaders(self) -> bool:
        """Whether a fault was to move a leader."""
        return any(fault.changes_leaders for fault in self.faults)

    @property
    def quirks(self) -> Quirks:
        """What the client library may do wrong by itself."""
        return quirks_of(self.client)


@dataclass(frozen=True)
class Mark:
    """What the policy says of findings, and why: by a code, whose words are in `harness.judging.policies.marks`."""

    status: MarkStatus
    code: str = ""
    about: tuple[tuple[str, str], ...] = ()  # what the words name

    @property
    def why(self) -> str:
        """In words; nothing if the status says it all."""
        return words(self.code, dict(self.about))

    def as_json(self) -> dict[str, str]:
        """For results.json."""
        return {"status": self.status, "code": self.code, "why": self.why}

    def __str__(self) -> str:
        return f"{self.status}: {self.why}" if self.why else self.status


@dataclass(frozen=True)
class FindingCase:
    """A finding, and the run that it is of."""

    finding: Finding
    results: CheckResults
    facts: RunFacts
    policy: Policy

    @property
    def unclean(self) -> bool:
        """Whether a replica that lagged may have become leader."""
        return self.facts.unclean_election or self._elected_uncleanly()

    @property
    def weak(self) -> Mark | None:
        """The mark of what was acknowledged and may be lost when leaders change; None if it may not."""
        if self.unclean:
            return Mark("allowed", UNCLEAN)
        return self.by_acks(WEAK_ACKS) if self.facts.acks in {"0", "1"} else None

    def by_acks(self, code: str) -> Mark:
        """Allowed by what the producers asked for."""
        return Mark("allowed", code, (("acks", self.facts.acks),))

    def by_client(self, code: str) -> Mark:
        """Possibly the doing of the client library."""
        return Mark("possibly the client", code, (("client", self.facts.client),))

    @property
    def leaders_changed(self) -> bool:
        """Whether a fault that changes leaders had come before it was seen."""
        return bool(self.injected("changes_leaders"))

    @property
    def taps_saw_all(self) -> bool:
        """Whether what the taps did not see did not happen: nothing of theirs is lost, and they understood it all."""
        facts = self.facts
        return not (self.results.has_holes or facts.dead_workers or facts.garbled or facts.refused)

    @property
    def never_retried(self) -> bool:
        """Whether the taps saw every batch once, and every one was answered well: then no retry did it.

        Where a fault came, a client may have lost a batch before it passed a tap, and sent it later.
        """
        figures = self.results.figures
        return self.taps_saw_all and figures.unsettled == 0 and not figures.resends and not self.facts.faults

    def injected(self, which: Trait) -> list[Fault | None]:
        """The faults with this trait that had come before it was seen; None where that is not known for certain."""
        return self.came({fault.name for fault in self.facts.faults if getattr(fault, which)})

    def came(self, names: set[str]) -> list[Fault | None]:
        """The same, by name.

        Of two events that contradict each other the later one counts. What is absent was seen when all was over.
        """
        if names and (self.results.has_holes or NEMESIS_PROCESS in self.results.damaged_processes):
            return [None]
        seen_ns = self.finding.time_ns if self.policy.seen_at_its_time else self.finding.until_ns
        return [
            covered.fault
            for covered in self.results.coverage.faults
            if covered.fault.name in names
            and covered.fault.injected_ns is not None
            and (seen_ns is None or seen_ns >= covered.fault.injected_ns)
        ]

    def deleted(self) -> bool:
        """Whether a fault had deleted its topic; what was acknowledged after that was undone has to be there."""
        return any(
            fault is None or (fault.topic == self.finding.topic and self._began_before_the_end(fault))
            for fault in self.injected("deletes")
        )

    def perhaps_unclean(self) -> bool:
        """Whether a fault was to bring an unclean election about and nobody saw, or told, what came of it."""
        return any(
            fault is not None
            and fault.topic == self.finding.topic
            and not (fault.bit and fault.number in self.facts.elections)
            for fault in self.injected("unclean")
        )

    def _began_before_the_end(self, fault: Fault) -> bool:
        """Whether the write, or the first of two events, came before the fault was undone."""
        if not self.policy.dated or self.finding.time_ns is None or fault.undone_ns is None:
            return True
        return self.finding.time_ns <= fault.undone_ns

    def _elected_uncleanly(self) -> bool:
        """Whether a fault had made a leader of a replica that lagged, in its topic."""
        return any(
            fault is None
            or (fault.topic == self.finding.topic and fault.bit and self.facts.elections.get(fault.number, False))
            for fault in self.injected("unclean")
        )


def illegal(_: FindingCase) -> Mark:
    """Whatever the configuration."""
    return Mark("illegal")


def never(_: FindingCase) -> bool:
    """Whatever it is."""
    return False


@dataclass(frozen=True)
class Policy:
    """How findings of one anomaly are judged: what can excuse them, asked in this order, and else by `judge`."""

    judge: Callable[[FindingCase], Mark] = illegal
    by_absence: bool = False  # it rests on something being absent: a history with holes proves nothing
    by_own_deletion: bool = False  # the workload deleted the topic (a tag says so)
    by_deletion: bool = False  # a fault deleted the topic
    by_configuration: bool = False  # some configuration permits it: unproven when nobody knows how it was set up
    by_leader_change: bool = False  # acks=0 or 1, or unclean election, permits it when leaders change
    by_statelessness: bool = False  # of brokers without data of their own any node may lead anything
    by_unclean_election: bool = False  # unproven when nobody knows whether an election was unclean
    certain: Callable[[FindingCase], bool] = never  # illegal however the run was set up
    seen_at_its_time: bool = False  # its time is when it was seen, and not that of the write or of the first event
    dated: bool = False  # its time is that of the write, or of the first of two events


# What weak acknowledgements, unclean elections and deleted topics can take away.
OF_WRITES = Policy(by_deletion=True, by_configuration=True, by_leader_change=True, by_unclean_election=True, dated=True)
