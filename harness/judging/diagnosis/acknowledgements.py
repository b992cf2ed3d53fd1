"""Acknowledgements: what they say of each other, before anybody read a record.

Contradictions between them come before anything that is said of reads: a perfect count of received messages can hide
them, and never outranks them.

acknowledged-without-offset   false-ack. Certain. Accounts for offsets that were acknowledged again and again if, in
                              each partition, those are the first: what a client counts on from such an answer
leader-lacked-acknowledged    shared-offset one after the other, and between the two, or all the while, a fault that
                              changes leaders and bit; and for at least half of them an acknowledged message that is
                              lost, or, where readers kept up and nothing is, two values that are at no other offset:
                              whoever led after it began below what had been acknowledged. Likely: that a broker gives
                              an offset away twice by itself looks the same. Accounts for what the next one does, and
                              for marks that fell
offsets-assigned-twice        shared-offset. Certain, unless such a fault lies between them and more than half may have
                              come one after the other: then likely, for a new leader may have lacked them. Sends of one
                              offset were under way together unless one was over before the other began, which
                              realtime-order counts, and not-linearizable of appends (that of ends says nothing of
                              sends): so many of them, at least, that batches in flight together get one base offset is
                              said if it is half or more and several may be in flight; and against it, how many at most
                              it does not explain. Accounts for two values at an offset, a value at two offsets, the
                              order of these and what readers passed

Both account for what is seen in their own partitions alone; and for what is lost there if that is at most LOST_EACH
times as much as was given away again. What is more is told by itself.
"""

from __future__ import annotations

from statistics import median

from checkers.core.results import Finding
from checkers.core.timeline import Fault
from harness.judging.diagnosis.cause import Cause, counted, listed, when
from harness.judging.diagnosis.delivery import LOST, ORDER, STEPS
from harness.judging.diagnosis.evidence import Evidence

SHOWN = 2
MS = 1_000_000
LOST_EACH = 4  # for an offset that was given away again: a log that was cut off need not be filled again as far
FOLLOWS = (*ORDER, *STEPS, "inconsistent-offset", "duplicate", "watermark-ahead", "retry-offset-changed")


def acknowledged_without_offset(evidence: Evidence) -> Cause | None:
    """Acknowledgements that say nothing."""
    proof = evidence.wrong("false-ack")
    if not proof:
        return None
    made_up = counted_on_from_none(evidence)
    counted_on = [each for each in evidence.wrong("shared-offset") if each in made_up]
    follows = evidence.seen(*ORDER, "inconsistent-offset", "duplicate", "watermark-ahead") if counted_on else []
    below = all("no offset" not in each.tags for each in proof)
    offsets = sorted({each.offset for each in proof if "no offset" in each.tags and each.offset is not None})
    none = f"with offset {offsets[0]}" if len(offsets) == 1 else "without a usable offset"
    what = "below the log start" if below else none
    again = f"{counted(evidence.found('shared-offset'), 'offset')} from 0 on were acknowledged again and again"
    return Cause(
        "acknowledged-without-offset",
        f"false acknowledgements: {counted(evidence.found('false-ack'), 'send')} acknowledged {what}",
        "certain",
        tuple(proof),
        (*counted_on, *follows),
        because=(
            *evidence.quotes(proof),
            *when(counted_on, f"the client counts on from there: {again}"),
            *_arrived(evidence),
        ),
        remedies=("acknowledge with the base offset that the batch was appended at, or with an error",),
    )


def counted_on_from_none(evidence: Evidence) -> list[Finding]:
    """Offsets that clients made up: they count on from an acknowledgement without one. None where it looks otherwise.

    In each partition they are the first ones, and none was acknowledged to more sends than 0, from which every such
    batch goes on. Few are left out: those of which not all was kept, and those that but one batch got to.
    """
    by_place: dict[tuple[str | None, int | None], dict[int, int]] = {}
    for each in evidence.kept("shared-offset"):
        offset = -1 if each.offset is None else each.offset
        by_place.setdefault((each.topic, each.partition), {})[offset] = each.facts.get("count", 0)
    known = sum(map(len, by_place.values()))
    left_out = sum(max(offsets) + 1 - len(offsets) for offsets in by_place.values())
    first = all(0 in offsets and offsets[0] == max(offsets.values()) for offsets in by_place.values())
    fits = known and first and 2 * left_out <= known
    return evidence.kept("shared-offset") if fits and evidence.found("false-ack") else []


def _arrived(evidence: Evidence) -> list[str]:
    figures = evidence.results.figures
    complete = figures.acknowledged > 0 and figures.distinct >= figures.acknowledged
    return [f"all {figures.acknowledged:,} messages arrived: the count of messages hides it"] if complete else []


def leader_lacked_acknowledged(evidence: Evidence) -> Cause | None:
    """A log that was cut short when its leader changed, and filled again."""
    proof = evidence.wrong("shared-offset")
    found, replaced = evidence.found("shared-offset"), _replaced(evidence, proof)
    gone = evidence.found_beside(proof, *LOST)[0] if evidence.wrong(*LOST) else 0
    if not proof or 2 * min(gone + replaced, _one_by_one(evidence, proof)[0]) < found:
        return None
    between = _between(evidence, proof)
    if not between:
        return None
    meanwhile, (lost, count) = _meanwhile(between, proof), _lost(evidence, proof)
    return Cause(
        "leader-lacked-acknowledged",
        f"a new leader lacked what had been acknowledged (acks={evidence.acks}):"
        f" {counted(found, 'offset')} given away again"
        + (f", {counted(count, 'acknowledged message')} lost" if lost else ""),
        "likely",
        tuple(proof),
        (
            *evidence.beside(proof, *FOLLOWS, "watermark-behind-ack"),
            *evidence.beside(proof, "end-offset-regression", "watermark-regression", "lso-regression"),
            *lost,
        ),
        because=(
            f"{evidence.quotes(proof)[0]} ({_processes(proof[0])})",
            f"acknowledgements of one offset lie {_apart_ms(proof):,.0f} ms apart (median), {meanwhile}",
            *when(replaced, f"two values are known at {counted(replaced, 'offset')}, and are at no other"),
            *(f"{fault.name}: {fault.detail}" for fault in between[:SHOWN] if fault.detail),
        ),
        against=("a broker that gives an offset away twice by itself looks the same",),
        remedies=(
            "elect only replicas that hold all that was acknowledged",
            "do not count a replica as in sync that came back with less than it had when that was asked for",
        ),
    )


def _replaced(evidence: Evidence, shared: list[Finding]) -> int:
    """Offsets that held one value after the other, and not because an acknowledgement named the wrong one, at least."""
    two = evidence.found_beside(shared, "inconsistent-offset")[0] if evidence.wrong("inconsistent-offset") else 0
    return max(0, min(two, evidence.found("shared-offset")) - evidence.found_beside(shared, "duplicate")[1])


def _lost(evidence: Evidence, shared: list[Finding]) -> tuple[list[Finding], int]:
    """What was lost beside these, and how much at most; nothing if that is more than they can have cost."""
    _, most = evidence.found_beside(shared, *LOST)
    lost = evidence.beside(shared, *LOST) if most <= LOST_EACH * evidence.found("shared-offset") else []
    return lost, most if lost else 0


def _between(evidence: Evidence, shared: list[Finding]) -> list[Fault]:
    """The faults that bit and change leaders between the acknowledgements of these; none unless of all of them."""
    faults = [fault for fault in evidence.leader_changes if fault.bit]
    if not all(any(_sides(fault, each) for fault in faults) for each in shared):
        return []
    return [fault for fault in faults if any(_sides(fault, each) for each in shared)]


def _sides(fault: Fault, shared: Finding) -> tuple[bool, bool] | None:
    """Whether it began, and was healed, between two acknowledgements of an offset; None if it was there at no time."""
    began_ns, healed_ns, first_ns, again_ns = fault.injected_ns, fault.healed_ns, shared.time_ns, shared.until_ns
    if began_ns is None or first_ns is None or again_ns is None:
        return None
    if began_ns >= again_ns or (healed_ns is not None and healed_ns <= first_ns):
        return None
    return first_ns < began_ns, healed_ns is not None and healed_ns < again_ns


def _meanwhile(faults: list[Fault], shared: list[Finding]) -> str:
    """How they lie to each other, as far as it is so for all of these offsets."""
    names = _named(faults)
    sides = {found for each in shared for fault in faults if (found := _sides(fault, each))}
    if all(began for began, _ in sides):
        return f"before and after {names} began"
    return f"while {names} lasted" if sides == {(False, False)} else f"around {names}"


def _named(faults: list[Fault]) -> str:
    return listed(sorted({fault.name for fault in faults}))


def _one_by_one(evidence: Evidence, shared: list[Finding]) -> tuple[int, int]:
    """Sends that were over before one of the same or a lower offset began, at least and at most."""
    later, append = evidence.found_beside(shared, "realtime-order"), evidence.tagged("not-linearizable", "append")
    return later[0] + append[0], later[1] + append[1]


def _apart_ms(shared: list[Finding]) -> float:
    apart = [each.until_ns - each.time_ns for each in shared if each.until_ns is not None and each.time_ns is not None]
    return median(apart or [0]) / MS


def offsets_assigned_twice(evidence: Evidence) -> Cause | None:
    """One offset, two acknowledgements."""
    proof = evidence.wrong("shared-offset")
    if not proof:
        return None
    found, limit = evidence.found("shared-offset"), evidence.settings.get("max_in_flight")
    one = limit == 1
    one_by_one = min(found, _one_by_one(evidence, proof)[1])
    together = found - one_by_one if evidence.looked_at("not-linearizable") else 0
    apart_ms = _apart_ms(proof)
    lost, count = _lost(evidence, proof)
    moved = 0 if evidence.found(*LOST) else evidence.found("duplicate")
    in_flight = not one and 2 * together >= found
    between = _between(evidence, proof) if 2 * together < found else []
    meanwhile = _meanwhile(between, proof)
    at_once = "one request" if one else f"up to {limit} requests" if limit else "several requests"
    return Cause(
        "offsets-assigned-twice",
        f"offsets are assigned twice: {counted(found, 'offset')} acknowledged to two or more sends"
        + ("; batches in flight together get one base offset" if in_flight else ""),
        "likely" if between else "certain",
        tuple(proof),
        (*evidence.beside(proof, *FOLLOWS), *lost),
        because=(
            f"{evidence.quotes(proof)[0]} ({_processes(proof[0])})",
            *when(
                together, f"{together:,} of them at least to sends that were under way together; {at_once} in flight"
            ),
            *when(apart_ms, f"the acknowledgements of one offset lie {apart_ms:,.0f} ms apart (median)"),
            *when(moved, f"{moved:,} messages were read at other offsets: the acknowledgement is wrong"),
            *when(lost, f"{counted(count, 'acknowledged message')} lost: another one took its place"),
            *_arrived(evidence),
        ),
        against=(
            *when(one_by_one and in_flight, f"up to {one_by_one:,} of them to sends that came one after the other"),
            *when(one, "one request in flight was allowed: batches of one producer cannot have met"),
            *when(between, f"they lie {meanwhile}: a new leader that lacks what was acknowledged looks the same"),
        ),
        remedies=(
            *when(between, f"see whether it is gone without {_named(between)}"),
            "reserve the base offset and append in one step, under the partition's lock",
            *when(not one, "see whether it is gone with max.in.flight.requests.per.connection=1"),
        ),
    )


def _processes(finding: Finding) -> str:
    names = sorted(finding.processes)
    return f"of process {names[0]}" if len(names) == 1 else f"of processes {listed(names)}"
