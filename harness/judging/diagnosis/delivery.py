"""Delivery: what became of what was acknowledged. What acknowledgements say themselves: `acknowledgements`.

corrupted                     corrupt. Accounts for what is lost in their partitions if that is no more than there are
                              such records; else for what is lost at their offsets. Readers were handed such a record:
                              it accounts for nothing that they passed
misrouted                     misrouted. The same, wherever it is and also by value, and for two values at an offset
acknowledged-then-lost        lost-write, or lost-tail. Certain if no fault was injected; with one, whether it was seen
                              to bite or not, likely, and named. Likely, too, if other causes account for some of what
                              is lost and not all of it was kept: they may account for more. Damaged records account
                              for one each: what is more than those is certain. Likely, too, if all of it lies above
                              what was read where nodes showed ends that are too low: it may be hidden. Accounts for
                              what readers passed, and marks below what was lost
skipped-by-readers            poll-skip while nothing is lost: others were handed it. Or more often than readers can
                              have passed what is lost and was not damaged: likely, and accounts for that, for it may
                              have been passed over by all of them
reader-goes-back              nonmonotonic-poll of consumers that were given nothing anew
resend-not-recognised         retry-duplicate, retry-offset-changed: one producer id, epoch and sequence at two offsets.
                              Appended twice only if some were read twice; else they were acknowledged twice
appended-out-of-order         retry-reorder, or nonmonotonic-send that nothing allows. Or one that is allowed because a
                              client may have sent again, in a run without faults in which the taps saw that none did:
                              likely, and the verdict stays what it is
phantom                       phantom, gap: records that were never sent, or offsets that nobody filled
replicas-differ               replica-divergence
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from checkers.core.results import Finding
from harness.judging.diagnosis.cause import Cause, counted, when
from harness.judging.diagnosis.evidence import Evidence, times

SHOWN = 2
UNEVEN = 2  # readers that are not handed everything are more than records handed out by records there are
DAMAGED = ("corrupt", "misrouted")
LOST = ("lost-write", "lost-tail")
TOO_LOW = ("watermark-regression", "end-offset-regression", "watermark-behind-ack")
ORDER = ("realtime-order", "not-linearizable", "nonmonotonic-send", "int-nonmonotonic-send")
STEPPED_OVER = ("poll-skip", "int-poll-skip")
SKIPS = (*STEPPED_OVER, "gap")
STEPS = (*SKIPS, "nonmonotonic-poll", "int-nonmonotonic-poll")


def corrupted(evidence: Evidence) -> Cause | None:
    """Values that rot."""
    return _damaged(
        evidence, "corrupt", "corrupted", "{} came back with another content than was sent: values rot",
        ("keep the bytes of a batch as they came, and verify them on every read",), (),
    )  # fmt: skip


def misrouted(evidence: Evidence) -> Cause | None:
    """Records in the wrong place."""
    return _damaged(
        evidence, "misrouted", "misrouted", "{} turned up in another partition than they were sent to",
        ("append a batch to the partition that its request names",), ("inconsistent-offset", "duplicate"),
    )  # fmt: skip


def _damaged(  # noqa: PLR0913, PLR0917 - what two rules differ by
    evidence: Evidence, anomaly: str, name: str, sentence: str, remedies: tuple[str, ...], also: tuple[str, ...]
) -> Cause | None:
    proof = evidence.wrong(anomaly)
    if not proof:
        return None
    found = evidence.found(anomaly)
    lost, gone = _gone(evidence, proof)
    accounted = lost <= found
    gone = gone if accounted else _the_same(proof, evidence.seen(*LOST))
    return Cause(
        name,
        sentence.format(counted(found, "record")),
        "certain",
        tuple(proof),
        (*gone, *evidence.seen(*also)),
        because=(
            *evidence.quotes(proof),
            *when(
                accounted and lost, f"the {lost:,} acknowledged messages that were never read are no more than these"
            ),
        ),
        remedies=remedies,
    )


def _gone(evidence: Evidence, proof: list[Finding]) -> tuple[int, list[Finding]]:
    """What is lost, at most, where these records may have been sent to: what rots does so where it is."""
    if all(each.anomaly == "corrupt" for each in proof):
        return evidence.found_beside(proof, *LOST)[1], evidence.beside(proof, *LOST, "phantom")
    return evidence.found(*LOST), evidence.seen(*LOST, "phantom")


def _the_same(proof: Sequence[Finding], lost: Sequence[Finding]) -> list[Finding]:
    """What is lost where one of these records is, or with its value."""
    places = {(each.topic, each.partition, each.offset) for each in proof}
    values = {value for each in proof for value in each.values}
    return [
        each for each in lost if (each.topic, each.partition, each.offset) in places or values.intersection(each.values)
    ]


def acknowledged_then_lost(evidence: Evidence) -> Cause | None:
    """Acknowledged, and not there."""
    proof, undamaged = evidence.wrong(*LOST), _undamaged(evidence)
    if _skipped_more_often(evidence) or not (proof or undamaged):
        return None
    others = evidence.accounted_of(*LOST)
    count, part = evidence.found(*LOST) - others, others and not evidence.whole(*LOST)
    injected, faults = evidence.faults, [fault for fault in evidence.faults if fault.bit]
    hidden = _may_be_hidden(evidence, proof)
    unsure = part and not undamaged
    how_many = f"at least {undamaged:,}" if part and undamaged else f"{'at most ' if unsure else ''}{count:,}"
    what = f"acknowledged messages are lost: {how_many} of {evidence.results.figures.acknowledged:,}"
    passed = evidence.found("lost-write")
    remedy = (
        "acknowledge acks=all only when min.insync.replicas have the batch, and keep it through leader changes"
        if injected
        else "acknowledge a batch only after it is in the log, and keep it there"
    )
    return Cause(
        "acknowledged-then-lost",
        f"{what}, {'with ' + (faults or injected)[0].name if injected else 'without any fault'} (acks={evidence.acks})",
        "likely" if injected or unsure or hidden else "certain",
        tuple(proof),
        (
            *evidence.seen(*SKIPS, "watermark-behind-ack", "watermark-frozen", "watermark-ahead"),
            *evidence.seen("not-linearizable", "inconsistent-offset", "rebalance-loss", "replica-divergence"),
        ),
        because=(
            *evidence.quotes(proof),
            *when(passed, f"readers received what comes after {passed:,} of them: not merely late"),
            *when(part and undamaged, f"{evidence.found(*DAMAGED):,} records came back damaged, which is fewer"),
            *(f"{fault.name}: {fault.detail}" for fault in faults[:SHOWN]),
        ),
        against=(
            *(f"{fault.name} was not seen to bite" for fault in injected[:1] if not faults),
            *when(unsure, "another cause accounts for some of what is lost, and may account for all of it"),
            *when(hidden, "it lies above all that was read, and nodes showed ends that are too low: it may be there"),
        ),
        remedies=(remedy,),
    )


def _may_be_hidden(evidence: Evidence, proof: list[Finding]) -> bool:
    """Whether all of it lies above what was read, in partitions whose end was shown too low at another time."""
    if not proof or evidence.found("lost-write"):
        return False
    low = {(each.topic, each.partition) for name in TOO_LOW for each in evidence.kept(name)}
    return all((each.topic, each.partition) in low for each in proof)


def _undamaged(evidence: Evidence) -> int:
    """How much is lost beside damaged records, at least, where nothing else accounts for any of it."""
    lost = evidence.counting([*evidence.kept("lost-write"), *evidence.kept("lost-tail")])
    only_these = bool(by := evidence.accounting_for(*LOST)) and by <= {"corrupted", "misrouted"}
    return max(0, evidence.found(*LOST) - evidence.found(*DAMAGED)) if lost and only_these else 0


def _skipped_more_often(evidence: Evidence) -> bool:
    """Whether readers passed over more than what is lost, and was not damaged, can have made them pass over."""
    rows = [row for row in evidence.results.figures.table if row.acknowledged > row.missing]
    readers = max((ceil((row.read + row.read_finally) / (row.acknowledged - row.missing)) for row in rows), default=0)
    lost = max(0, evidence.found(*LOST) - evidence.found(*DAMAGED))
    skipped = evidence.found(*STEPPED_OVER) if evidence.wrong(*STEPPED_OVER) else 0
    return bool(readers) and skipped > UNEVEN * readers * lost


def skipped_by_readers(evidence: Evidence) -> Cause | None:
    """Some readers are not given what others are."""
    proof = evidence.wrong(*STEPPED_OVER, "rebalance-loss")
    if not proof:
        return None
    kept = evidence.looked_at("lost-write") > 0 and not evidence.found("lost-write")
    passed_by_all = evidence.seen(*LOST)
    return Cause(
        "skipped-by-readers",
        f"a reader is not given some records: passed over {times(evidence.found('poll-skip', 'int-poll-skip'))},"
        " and others were given them",
        "certain" if kept else "likely",
        tuple(proof),
        (*evidence.seen("gap"), *passed_by_all),
        because=(
            *evidence.quotes(proof),
            *when(kept, "no acknowledged message is lost: the final read got all of them"),
        ),
        against=when(passed_by_all, "no reader received some messages: all skipped them, or they are lost"),
        remedies=("return from Fetch every record from the offset that is asked for on, in one piece",),
    )


def reader_goes_back(evidence: Evidence) -> Cause | None:
    """Readers that are handed the same again."""
    proof = evidence.wrong(*STEPS[3:])
    if not proof:
        return None
    asked_again = len(evidence.marked("possibly the client", *STEPS[3:])) == len(proof)
    remedy = "return from Fetch nothing below the offset that is asked for"
    return Cause(
        "reader-goes-back",
        f"a reader received the same offsets again, {times(evidence.found(*STEPS[3:]))}",
        "likely",
        tuple(proof),
        because=evidence.quotes(proof),
        remedies=("repeat the run with another client" if asked_again else remedy,),
    )


def resend_not_recognised(evidence: Evidence) -> Cause | None:
    """A resend that is appended again."""
    proof = evidence.wrong("retry-duplicate", "retry-offset-changed")
    if not proof:
        return None
    batches = evidence.found("retry-duplicate") or evidence.found("retry-offset-changed")
    copies = evidence.found("duplicate")
    appended = any("read twice" in each.tags for each in evidence.kept("retry-duplicate"))
    done = "appended twice" if appended else "acknowledged at two offsets"
    return Cause(
        "resend-not-recognised",
        f"the broker does not recognise a resend: {counted(batches, 'batch', 'batches')} of one producer id, epoch and"
        f" sequence {done}",
        "certain",
        tuple(proof),
        tuple(evidence.seen("duplicate", "retry-reorder", *ORDER, *STEPS, "inconsistent-offset")),
        because=(
            *evidence.quotes(proof),
            f"{counted(evidence.results.figures.resends, 'batch', 'batches')} passed the taps again",
            *when(copies, f"{copies:,} messages are at two offsets"),
        ),
        against=when(not appended, "nobody was handed a batch twice: the answer to a resend alone may be wrong"),
        remedies=(
            "keep each producer's last sequences with the log, and answer what is there already with its offset",
        ),
    )


def appended_out_of_order(evidence: Evidence) -> Cause | None:
    """Batches of a producer that overtake each other."""
    proof = evidence.wrong("retry-reorder", "nonmonotonic-send", "int-nonmonotonic-send")
    figures = evidence.results.figures
    not_resent = evidence.tapped and not figures.resends and not evidence.faults and not figures.info
    excused = not proof
    if excused and not_resent:
        proof = evidence.seen("nonmonotonic-send", "int-nonmonotonic-send")
    if not proof:
        return None
    count = evidence.found("retry-reorder", "nonmonotonic-send", "int-nonmonotonic-send")
    return Cause(
        "appended-out-of-order",
        f"batches of one producer are appended out of order: {times(count)}, a later one got the lower offset",
        "certain" if evidence.wrong("retry-reorder") else "likely",
        tuple(proof),
        tuple(evidence.seen(*ORDER)),
        because=(
            *evidence.quotes(proof),
            *when(not_resent, "no batch was sent again: it was no retry that came late, which would be allowed"),
        ),
        against=when(excused, "the verdict allows it: without idempotence retries may come late, and it knows of none"),
        remedies=("handle the requests of a connection one after the other, in the order in which they come",),
    )


def not_as_sent(evidence: Evidence) -> Cause | None:
    """Records that nobody sent, and places that nobody filled."""
    proof = evidence.wrong("phantom", "gap")
    if not proof:
        return None
    return Cause(
        "not-as-sent",
        f"the log is not what was sent: {evidence.found('phantom'):,} records that nobody sent,"
        f" {evidence.found('gap'):,} gaps that nothing explains",
        "possible",
        tuple(proof),
        because=evidence.quotes(proof),
    )


def replicas_differ(evidence: Evidence) -> Cause | None:
    """Replicas that hold different records."""
    proof, offsets = evidence.wrong("replica-divergence"), evidence.found("replica-divergence")
    if not proof:
        return None
    return Cause(
        "replicas-differ",
        f"replicas hold different records below the watermark: {counted(offsets, 'offset')}",
        "certain",
        tuple(proof),
        because=evidence.quotes(proof),
        remedies=("truncate a follower to the end of the leader's epoch before it fetches on",),
    )
