"""Clients: what a client library does by itself, and what the configuration costs. Mostly of what is allowed.

client-duplicates   duplicates that are allowed without idempotence, or may be the client's: it sent a batch again that
                    was there already. Who sent again was seen at the taps; without them it is likely at most. So it is
                    if there are more duplicates than those batches can have held. How many that was is not counted: of
                    each as many messages as fit into the largest batch are taken for possible, of 16 KiB unless it was
                    set, which is kafka-python's (confluent-kafka's may be larger)
weak-acks           losses that acks=0 or 1 allow when leaders change. Certain if faults that change leaders were seen
                    to bite, and none of these was written after the last of them was undone and healed; likely if such
                    a fault was there for some of them; possible if for none, or if others are lost that nothing allows
unclean-election    losses that an unclean election allows, the same
"""

from __future__ import annotations

from checkers.core.results import Finding
from checkers.core.timeline import Fault
from harness.judging.diagnosis.cause import Cause, Confidence, counted, when
from harness.judging.diagnosis.evidence import Evidence
from harness.judging.policies.case import UNCLEAN, WEAK_ACKS

LOST = ("lost-write", "lost-tail", "unseen", "inconsistent-offset", "shared-offset")
BY_RETRIES = ("retry-appended", "requests-sent-twice")
SHOWN = 2
BATCH_BYTES, VALUE_BYTES = 16_384, 100  # unless they were set


def client_duplicates(evidence: Evidence) -> Cause | None:
    """One message, written twice by its client."""
    proof = evidence.marked("possibly the client", "duplicate")
    allowed = not proof
    proof = proof or evidence.allowed("duplicate", because=BY_RETRIES)
    if not proof:
        return None
    resends, copies = evidence.results.figures.resends, evidence.found("duplicate")
    enough = copies <= resends * _batch(evidence)
    recognised = evidence.looked_at("retry-duplicate") and not evidence.found("retry-duplicate")
    confidence: Confidence = "certain" if resends and enough and allowed else "likely"
    return Cause(
        "client-duplicates",
        f"the client's own duplicates: {counted(copies, 'message')} at two offsets, sent twice by"
        f" {evidence.settings.get('client', 'the client')}",
        confidence,
        tuple(proof),
        tuple(evidence.seen("nonmonotonic-send")),
        because=(
            *evidence.quotes(proof),
            *when(resends, f"{counted(resends, 'batch', 'batches')} passed the taps again"),
            *when(recognised, "no batch was appended twice under one producer id, epoch and sequence"),
        ),
        against=(
            *when(evidence.tapped and not resends, "no batch passed the taps again"),
            *when(resends and not enough, f"{copies:,} are more than so few batches are likely to have held"),
        ),
        remedies=("turn idempotence on",) if allowed else ("repeat the run with another client",),
        allowed=allowed,
    )


def _batch(evidence: Evidence) -> int:
    """Messages that a batch holds at most."""
    size_bytes = evidence.settings.get("batch_size") or BATCH_BYTES
    return max(1, size_bytes // (evidence.settings.get("value_bytes") or VALUE_BYTES))


def weak_acks(evidence: Evidence) -> Cause | None:
    """Acknowledged by the leader alone, and gone with it."""
    proof = evidence.allowed(*LOST, because=(WEAK_ACKS,))
    return _gone_with_the_leader(
        evidence, proof, "weak-acks",
        f"acks={evidence.acks} losses: acknowledged before any follower had it, and gone with its leader",
        ("use acks=all with min.insync.replicas=2 where losses matter",),
    )  # fmt: skip


def unclean_election(evidence: Evidence) -> Cause | None:
    """A replica that lagged became leader."""
    proof = evidence.allowed(*LOST, because=(UNCLEAN,))
    return _gone_with_the_leader(
        evidence, proof, "unclean-election", "an unclean election: a replica that lagged became leader",
        ("turn unclean.leader.election.enable off where losses matter",),
    )  # fmt: skip


def _gone_with_the_leader(
    evidence: Evidence, proof: list[Finding], name: str, sentence: str, remedies: tuple[str, ...]
) -> Cause | None:
    if not proof:
        return None
    there = [fault for fault in evidence.leader_changes if any(_took(fault, each) for each in proof)]
    changes = [fault for fault in there if fault.bit]
    shown = all(any(_took(fault, each) for fault in changes) for each in proof)
    otherwise = evidence.wrong("lost-write", "lost-tail")  # of how many of all that are lost is not counted
    confidence: Confidence = "possible" if otherwise or not there else "certain" if shown else "likely"
    lost = 0 if otherwise else evidence.found("lost-write", "lost-tail")
    return Cause(
        name,
        f"{sentence}: {counted(lost, 'message')}" if lost else sentence,
        confidence,
        tuple(proof),
        because=(
            *(f"{fault.name}: {fault.detail}" for fault in changes[:SHOWN]),
            *evidence.quotes(proof),
        ),
        against=(
            *when(not shown, "of some of it no leader change was seen that can have taken it away"),
            *when(otherwise, "others are lost that no leader change can have taken: what did may have taken all"),
        ),
        remedies=remedies,
        allowed=True,
    )


def _took(fault: Fault, written: Finding) -> bool:
    """Whether it was not over before this was written, and so may have taken it away."""
    if written.time_ns is None:
        return False
    over_ns = max((each for each in (fault.undone_ns, fault.healed_ns) if each is not None), default=written.time_ns)
    return written.time_ns <= over_ns
