"""Stalls: something is there, and nobody gets it. The classes of the notes, told by answers on the wire.

fetch-hangs           a stall of class 2 (no Fetch was answered with records while nodes showed more): certain. Or
                      acknowledged records that the final read did not get to either, in time of its own,
                      though nodes showed an end above them, and no mark or leader accounts for it: likely; possible
                      where there are transactions, for one that is open holds readers back as well
partition-behind      a stall of class 3: one partition falls behind while others of the same reader do not, and its
                      Fetches are answered. Not if it never moves again (then it hangs)
reader-waits          stalls of which nobody saw whether Fetches were answered: possible
sends-wait            no-progress-in-fault, slow-recovery: sends that do not get through, and nothing says why
"""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.diagnosis.cause import Cause, counted, listed, when
from harness.judging.diagnosis.evidence import Evidence, lasted_s

SHOWN = 2


def fetch_hangs(evidence: Evidence) -> Cause | None:
    """Data available, and Fetch does not answer."""
    hung = evidence.wrong("stall", tag="class 2")
    unseen = evidence.wrong("unseen")
    proof = [*hung, *unseen]
    if not proof:
        return None
    places = evidence.places(hung or proof)
    beside = evidence.beside(hung, "unseen") if hung else unseen
    elsewhere = [each for each in unseen if each not in beside]
    since = sorted({each.offset for each in evidence.beside(proof, "stall") if each.offset is not None})
    missing = evidence.found("unseen")
    return Cause(
        "fetch-hangs",
        f"data available, fetch does not answer: {places}{f' from offset {since[0]:,} on' if len(since) == 1 else ''}"
        + (f"; the final read did not get to all of {evidence.places(elsewhere)} either" if elsewhere else ""),
        "certain" if hung else "possible" if evidence.results.figures.transactions else "likely",
        tuple(proof),
        tuple(evidence.beside(proof, "stall", "unseen", "slow-recovery")),
        because=(
            *evidence.quotes(evidence.beside(proof, "stall")),
            *when(unseen, f"{missing:,} acknowledged messages that the final read did not get to either"),
            *evidence.quotes(unseen),
            *_others(evidence, proof),
        ),
        against=when(not hung, "no stretch was caught in which every Fetch went unanswered"),
        remedies=(
            "answer every Fetch within its max_wait_ms, with what is there or with nothing",
            "look for what holds the answer back once data is found: a full buffer, a lock, a task that was dropped",
        ),
    )


def _others(evidence: Evidence, proof: list[Finding]) -> list[str]:
    behind = {(each.topic, each.partition) for each in proof}
    rows = evidence.results.figures.table
    fine = [row for row in rows if (row.topic, row.partition) not in behind and not row.low]
    complete = fine and len(fine) + len(behind) == len(rows)
    return list(when(complete, f"the other {counted(len(fine), 'partition')} arrived"))


def partition_behind(evidence: Evidence) -> Cause | None:
    """One partition is read slowly."""
    proof = evidence.wrong("stall", tag="class 3")
    if not proof:
        return None
    behind = {(each.topic, each.partition) for each in proof}
    rows = [row for row in evidence.results.figures.table if (row.topic, row.partition) in behind]
    return Cause(
        "partition-behind",
        f"partition imbalance: {_named(proof)} {'are' if len(behind) > 1 else 'is'} behind",
        "certain",
        tuple(proof),
        tuple(evidence.beside(proof, "stall")),
        because=(
            *evidence.quotes(proof, SHOWN),
            *(
                f"p{row.partition}: the load got {row.distinct:,} of {row.acknowledged:,}, and the final read the rest"
                for row in rows[:SHOWN]
                if row.distinct < row.acknowledged and not evidence.found("unseen", "lost-tail", "lost-write")
            ),
        ),
        remedies=("serve all partitions of a Fetch in turn, and give each its share of the bytes",),
    )


def _named(findings: list[Finding]) -> str:
    """Partition 2; partitions 1 and 2; with their topic where there are several."""
    places = sorted({(str(each.topic), str(each.partition)) for each in findings})
    several = len({topic for topic, _ in places}) > 1
    names = [f"{topic}-{partition}" if several else partition for topic, partition in places]
    return f"{'partition' if len(names) == 1 else 'partitions'} {listed(names)}"


def reader_waits(evidence: Evidence) -> Cause | None:
    """A stall without a class."""
    proof = evidence.wrong("stall")
    if not proof:
        return None
    return Cause(
        "reader-waits",
        f"readers received nothing from {evidence.places(proof)} for {lasted_s(proof):.1f} s, though more was there",
        "possible",
        tuple(proof),
        because=evidence.quotes(proof, SHOWN),
        against=("their Fetches may not have been answered, or the client did not pass the answers on",),
        remedies=("repeat the run with taps, and with another client",),
    )


def sends_wait(evidence: Evidence) -> Cause | None:
    """Sends that do not get through."""
    proof = evidence.wrong("no-progress-in-fault", "slow-recovery")
    if not proof:
        return None
    after = evidence.wrong("slow-recovery")
    return Cause(
        "sends-wait",
        f"no send to {evidence.places(proof)} got through for {lasted_s(proof):.1f} s"
        + (", long after the fault was undone" if after else ""),
        "possible",
        tuple(proof),
        because=evidence.quotes(proof, SHOWN),
    )
