"""Watermarks: what nodes show of a partition against what was acknowledged, what was read, and what they had shown.

shown-before-replicated   watermark-ahead: a mark was shown, and what lay below it was not there later. Certain if, in
                          the same partitions, marks of the same node fell within one epoch, or readers received what
                          then failed or was replaced: then the next offset is shown as the high watermark. Not while
                          one offset was acknowledged twice and no mark fell in Fetch: then acknowledgements are wrong,
                          and not the marks, and ends that fall in ListOffsets alone are a cause of their own.
                          Accounts for falling marks, values that were replaced, reads of what failed
watermark-not-idempotent  retry-watermark-regression: marks fell right after a batch was sent again. Certain if that
                          happened after half of the resends or more, and no mark fell at another time; else likely.
                          Accounts for marks that fall or lag
watermark-frozen          watermark-frozen, or stalls of class 1, in partitions whose marks did not fall. With acks=all
                          and min.insync.replicas of 2 or more an acknowledgement says that a follower has the record:
                          the mark is not moved in the produce path, and it is not replication. Certain then, else
                          likely. Not where more acknowledged records are missing below the mark than above it: those
                          are lost. Accounts for what lies above the mark, and stalls
stale-reads               watermark-regression or watermark-behind-ack of one node in one epoch, and none of the above:
                          it answers from an old state
end-offset-goes-back      end-offset-regression alone: ListOffsets falls, Fetch does not
watermark-behind          watermark-behind-ack alone: marks never fell, and came too late
log-start-goes-back       log-start-regression
"""

from __future__ import annotations

from collections.abc import Iterable

from checkers.core.results import Finding
from harness.judging.diagnosis.acknowledgements import counted_on_from_none
from harness.judging.diagnosis.cause import Cause, counted, when
from harness.judging.diagnosis.evidence import NS, Evidence, nodes_of, times, total
from harness.judging.diagnosis.leadership import OF_WATERMARKS

SHOWN = 2
NEAR_NS = 5 * NS  # a mark that fell after a resend was higher until then, and is asked for now and then
FELL = ("watermark-regression", "end-offset-regression")
FALLS = (*FELL, "lso-regression", "lso-above-hw")
ENDS = ("not-linearizable",)


def shown_before_replicated(evidence: Evidence) -> Cause | None:
    """Marks above what was there."""
    proof = evidence.wrong("watermark-ahead")
    doubted = evidence.wrong("shared-offset", "false-ack")
    falls = evidence.wrong(*(FELL[:1] if doubted else FELL))
    fell = [each for each in falls if "same node" in each.tags and "one epoch" in each.tags]
    if not proof or (doubted and not fell):
        return None
    fell = [each for each in fell if each in evidence.beside(proof, *FELL)]
    replaced = evidence.beside(proof, "inconsistent-offset", "aborted-read")
    replaced = [each for each in evidence.wrong("inconsistent-offset", "aborted-read") if each in replaced]
    lost = evidence.found("lost-write", "lost-tail")
    return Cause(
        "shown-before-replicated",
        "data is shown before it is replicated: the next offset is taken for the high watermark",
        "certain" if (fell or replaced) and not lost else "likely",
        (*proof, *replaced),
        (
            *evidence.seen(*OF_WATERMARKS),
            *evidence.seen("realtime-order", "nonmonotonic-poll", "int-nonmonotonic-poll"),
            *evidence.seen("gap", "poll-skip", "int-poll-skip"),
            *([] if lost else evidence.seen("duplicate")),
        ),
        because=(
            *evidence.quotes(proof),
            *_handed(evidence),
            *evidence.quotes(fell),
        ),
        against=when(lost, f"{counted(lost, 'acknowledged message')} lost as well: a log that was cut off looks alike"),
        remedies=(
            "take the high watermark from what the in-sync replicas have, and not from the end of the leader's log",
            "return no record at or above it from Fetch, and no higher end from ListOffsets",
        ),
    )  # fmt: skip


def _handed(evidence: Evidence) -> list[str]:
    told = []
    if evidence.found("aborted-read"):
        told.append(f"readers received {counted(evidence.found('aborted-read'), 'record')} whose sends then failed")
    if evidence.found("inconsistent-offset"):
        told.append(f"{counted(evidence.found('inconsistent-offset'), 'offset')} held two values, one after the other")
    return told


def watermark_not_idempotent(evidence: Evidence) -> Cause | None:
    """Marks that fall after a resend."""
    proof = evidence.wrong("retry-watermark-regression")
    if not proof:
        return None
    found, resent = evidence.found("retry-watermark-regression"), evidence.looked_at("retry-watermark-regression")
    fell = evidence.wrong(*FELL)
    often = resent > 0 and 2 * found >= resent
    apart = _apart_from_resends(evidence)
    return Cause(
        "watermark-not-idempotent",
        "the watermark update is not idempotent under retries: a batch that is sent again puts an older one over a"
        " newer one",
        "certain" if often and not apart else "likely",
        tuple(proof),
        tuple(each for each in evidence.seen(*OF_WATERMARKS) if each.anomaly != "watermark-ahead"),
        because=(
            f"{found:,} of {resent:,} marks compared around a resend fell right after it",
            *evidence.quotes(proof),
            *evidence.quotes(fell),
        ),
        against=(
            *when(not often, "most resends were not followed by a lower mark"),
            *when(apart, f"marks fell as well where nothing had been sent again: {'; '.join(evidence.quotes(apart))}"),
        ),
        remedies=(
            "let the watermark rise only: store the greater of the old and the new one",
            "answer a batch that is recognised as a resend without touching the watermark",
        ),
    )


def _apart_from_resends(evidence: Evidence) -> list[Finding]:
    """Marks of one node that fell in one epoch, and not around a resend; none where not all of those were kept."""
    after = evidence.kept("retry-watermark-regression")
    if not evidence.whole("retry-watermark-regression") or any(each.time_ns is None for each in after):
        return []
    fell = [each for each in evidence.wrong(FELL[0]) if {"same node", "one epoch"} <= set(each.tags)]
    return [each for each in fell if not any(_is_near(each, resend) for resend in after)]


def _is_near(fell: Finding, resend: Finding) -> bool:
    same = (fell.topic, fell.partition) == (resend.topic, resend.partition)
    first, last = fell.time_ns or 0, fell.until_ns or fell.time_ns or 0
    began, ended = resend.time_ns or 0, resend.until_ns or resend.time_ns or 0
    return same and first <= ended + NEAR_NS and last >= began - NEAR_NS


def watermark_frozen(evidence: Evidence) -> Cause | None:
    """Marks that stand while acknowledgements go on."""
    fell = evidence.beside(evidence.wrong(*FELL), "watermark-frozen")
    frozen = [each for each in evidence.wrong("watermark-frozen") if each not in fell]
    proof = [*frozen, *evidence.wrong("stall", tag="class 1")]
    above = total(frozen, "proofs")
    if not proof or (frozen and evidence.found("lost-write") > above):
        return None
    hidden, unread = evidence.beside(proof, "lost-tail", "unseen"), evidence.found("lost-tail", "unseen")
    anywhere = _anywhere(evidence, proof)
    replicated = evidence.acks in {"all", "-1"} and int(evidence.settings.get("min_insync_replicas") or 0) > 1
    marks = sorted({each.offset for each in frozen if each.offset is not None})
    stands = f" (it stands at {' and '.join(f'{mark:,}' for mark in marks)})" if 0 < len(marks) <= SHOWN else ""
    return Cause(
        "watermark-frozen",
        f"acknowledgements continue, the watermark does not move{stands}: "
        + ("the produce path, not replication" if replicated else "the produce path, or replication"),
        "certain" if replicated and frozen else "likely",
        tuple(proof),
        (*hidden, *anywhere, *evidence.beside(proof, *OF_WATERMARKS, "stall", "realtime-order")),
        because=(
            *evidence.quotes(proof, SHOWN),
            *when(above, f"{above:,} offsets at or above it were acknowledged meanwhile, with acks={evidence.acks}"),
            *when(
                above and replicated,
                "such an acknowledgement needs a follower that has the record: replication keeps up",
            ),
            *when(hidden, f"{unread:,} acknowledged messages cannot be read: they lie above it"),
            *when(hidden and not evidence.found("lost-write"), "nothing below it is missing"),
            *when(
                anywhere, "messages that were acknowledged without a usable offset, and nobody read, may lie above it"
            ),
        ),
        against=when(not replicated, f"acks={evidence.acks} does not say here that followers have the records"),
        remedies=("move the watermark on with every append that the in-sync replicas confirm",),
    )


def _anywhere(evidence: Evidence, frozen: list[Finding]) -> list[Finding]:
    """What is lost in these partitions, and whose offset nobody knows: none was given, or one that a client made up."""
    made_up = {(each.topic, each.partition, each.offset) for each in counted_on_from_none(evidence)}
    lost = evidence.beside(frozen, "lost-write")
    return [each for each in lost if "no offset" in each.tags or (each.topic, each.partition, each.offset) in made_up]


def stale_reads(evidence: Evidence) -> Cause | None:
    """An old state that is answered from."""
    proof = evidence.wrong("watermark-regression")
    if not proof:
        return None
    behind = evidence.wrong("watermark-behind-ack")
    same = [each for each in proof if "same node" in each.tags and "one epoch" in each.tags]
    answers = total(proof, "answers")
    no_retry = evidence.tapped and not evidence.found("retry-watermark-regression")
    return Cause(
        "stale-reads",
        f"reads come from an old state: {nodes_of(proof)} showed less than was shown and acknowledged before",
        "certain" if same and behind else "likely",
        (*proof, *behind),
        (*evidence.seen(*OF_WATERMARKS), *evidence.seen("realtime-order")),
        because=(
            *evidence.quotes(same or proof),
            *when(same and answers, f"{answers:,} answers showed less than one before them, in one leader epoch"),
            *evidence.quotes(behind),
            *when(no_retry, "no retry caused it: no batch was sent again, or no watermark fell after one was"),
        ),
        remedies=("answer Fetch and ListOffsets from the leader's current state, not from a cache or a copy of it",),
    )


def end_offset_goes_back(evidence: Evidence) -> Cause | None:
    """ListOffsets alone."""
    proof = evidence.wrong("end-offset-regression")
    if not proof:
        return None
    steady = evidence.looked_at("watermark-regression") > 0 and not evidence.found("watermark-regression")
    behind = evidence.seen("watermark-behind-ack", "watermark-frozen")
    return Cause(
        "end-offset-goes-back",
        f"the end offset goes back: ListOffsets of {nodes_of(proof)} showed less than it had shown before",
        "certain" if steady else "likely",
        tuple(proof),
        (*behind, *evidence.seen(*FALLS, *ENDS)),
        because=(
            *evidence.quotes(proof),
            f"so in {times(total(proof, 'answers'))}",
            *when(steady, "the high watermark in Fetch never fell: only ListOffsets is affected"),
        ),
        remedies=("answer ListOffsets with the high watermark that Fetch shows, and refuse it until that is known",),
    )


def lag_s(findings: Iterable[Finding]) -> float:
    """The longest time for which what was acknowledged was not shown: of marks that are behind or frozen."""
    lags = [each.facts["y_at"] - each.facts["x_at"] for each in findings if {"x_at", "y_at"} <= each.facts.keys()]
    return max(lags, default=0) / NS


def watermark_behind(evidence: Evidence) -> Cause | None:
    """Marks that come too late."""
    proof = evidence.wrong("watermark-behind-ack")
    if not proof or evidence.wrong("lost-write"):
        return None
    return Cause(
        "watermark-behind",
        f"the watermark lags behind acknowledgements, by {lag_s(proof):.1f} s at most",
        "certain",
        tuple(proof),
        tuple(evidence.seen("not-linearizable", "lso-above-hw")),
        because=evidence.quotes(proof, SHOWN),
        remedies=("acknowledge acks=all only once the watermark that readers are shown is past the batch",),
    )


def log_start_goes_back(evidence: Evidence) -> Cause | None:
    """Log starts that fall."""
    proof = evidence.wrong("log-start-regression")
    if not proof:
        return None
    return Cause(
        "log-start-goes-back",
        f"the log start goes back: {nodes_of(proof)} showed a lower one than had been shown before",
        "certain",
        tuple(proof),
        because=evidence.quotes(proof),
        remedies=("let the log start rise only",),
    )
