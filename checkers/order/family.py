"""Order: what each reader was handed one after the other, and what each producer's sends got.

Steps of readers. Take all records that one process was handed of one place (topic and partition) with an offset of 0
or more, whatever their status, in the order of `event`. Two that follow each other there, x and then y, are a *step*
from offset a to offset b. In a history that was imported a transaction or a poll that did not end `ok` takes back what
it was handed: the reader has to be back where it was. So y, unless it has the `op` or the (not null) `txn` of the
record before it, makes its step with the last record before it that was not taken back, if there is one.
(Clients of ours say by an ASSIGN where they go on.) A step is *judged* unless the process completed an ASSIGN or a
REVOKE of that place, however it ended, with an `event` between theirs, and, where the workload deleted the topic,
unless x and y are of different eras (`checkers.core.deletions`). It is *inside* if x and y have the same `op`, or the
same `txn`, which is not null; otherwise it lies between two polls. Replicas (`checkers.replicas`) are no readers.

Known offsets of a place (and era) are those of all records that any reader was handed, and of all sends that ended
`ok`, of 0 or more. *Committed* ones are those of `ok` sends, and of records that a reader was handed whom the manifest
does not call read_uncommitted. A step *skips* the lowest known offset between a and b, exclusive; if its reader is not
called read_uncommitted, the lowest committed one.

nonmonotonic-poll       a judged step between two polls, with b <= a.
int-nonmonotonic-poll   the same inside.
poll-skip               a judged step between two polls with a < b that skips an offset. Not in a compacted topic.
int-poll-skip           the same inside.
gap                     a judged step, of either sort, with a + 1 < b and no known offset between a and b; once for each
                        place, era, a and b. Not in a compacted topic, and not in a partition where transactions explain
                        as much: let *missing* be the sum of b - a - 1 over all such (a, b) of the partition and of all
                        its eras, T the number of different `txn` of sends to it, however they ended, S the number of
                        sends to it, in or out of transactions, that did not end `ok` with an offset of 0 or more, and R
                        the number of known offsets (of all eras) that no `ok` send has. It is explained if T > 0 and
                        missing <= 2 T + max(0, S - R). A transaction leaves a marker in each partition that it wrote
                        to, and a coordinator that has to try again another one; S - R is what was aborted or never
                        heard of, and that nobody read.

Sends. Take the sends of one process to one place, and era (of their `invoked` and `time`), that ended `ok` with an
offset of 0 or more. Their rank is their `sequence`, or, of those without one, `invoked`; sends with and without a
sequence are not compared.

nonmonotonic-send       a send, if among those with a lower offset one has a higher rank. The one with the highest rank
                        (of these the highest offset, then event) is named with it; if that one is of the same
                        transaction, it is not this anomaly.
int-nonmonotonic-send   the same among the sends of one transaction alone.

A finding of a step is at offset b, one of a skip at the offset that was skipped, one of a gap at a + 1, and one of a
send at its offset. Events and times are those of x and y (of a gap: of the step whose y has the lowest event), or of
the send and of the one that is named with it. Tags:

deleted topic           the era is UNSURE: it may be two lives of the topic.
rebalance               of a step: its reader is a member of a group (the manifest says `group`, or it completed a
                        SUBSCRIBE), and either never completed an ASSIGN, so that nobody knows of rebalances, or a
                        SUBSCRIBE, REVOKE, LEAVE or CRASH of it, or an ASSIGN without an offset, overlaps the time from
                        the `invoked` of x to the `time` of y, ends included. Libraries may hand out late what they
                        had fetched before.
client asked again      of a step back: the taps show a rewind (`checkers.order.rewinds`) of this process, this place
                        and this era that asks for b or less and goes back from above b, invoked before the `time` of y
                        and not earlier than 10 s before the `invoked` of x. So the broker may have given what it was
                        asked for. Of more than REWINDS rewinds, pieces may leave out those that go back least.
transactions            of a gap: T > 0.
transactional, idempotent, plain   of a send: in a transaction; else as the manifest calls its producer, if it does.

How it is made: in a healthy history few steps lead anywhere but to the next offset, and ranks of sends rise with their
offsets. Pieces hand over what is odd, and it is judged where all is put together; only if that is too much, or if sends
contradict each other, pieces are judged by themselves. Steps are made in `checkers.shared.reader_steps`; which are odd
is in `checkers.order.odd_steps`, sends are in `checkers.shared.sender_order`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, merge_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.order.assignments import OPS, unassigned
from checkers.order.gaps import gap_findings
from checkers.order.gathered_steps import JudgedSteps, OddSteps, gathered_steps, judged_steps, step_findings
from checkers.order.odd_steps import GAPS, ReaderSurvey, counted_steps, look_at_readers, odd_joints, resolved
from checkers.order.rewinds import EXCHANGES
from checkers.shared import sender_order as sending
from checkers.shared.reader_steps import NEXT, RECORDS, joints
from harness.history.schema import F, Kind

ABOUT = {
    "poll-skip": "from one poll to the next, a known offset was left out",
    "nonmonotonic-poll": "from one poll to the next, a reader went back",
    "int-poll-skip": "inside of a poll or a transaction, a known offset was left out",
    "int-nonmonotonic-poll": "inside of a poll or a transaction, a reader went back",
    "gap": "readers moved past offsets that nothing explains",
    "nonmonotonic-send": "of two sends of a producer, the later one got the lower offset",
    "int-nonmonotonic-send": "the same inside of a transaction",
}


@dataclass
class OrderSurvey:
    """What a piece says."""

    readers: ReaderSurvey
    sent: sending.SendSurvey


@dataclass
class GatheredOrder:
    """What all pieces say."""

    between: int
    inside: int
    sends: int
    in_transactions: int
    odd: OddSteps | None
    contradicting: sending.ContradictedSends | None


Judged = tuple[JudgedSteps | None, sending.JudgedSends | None]


class Order(Family):
    """Steps of readers, and sends of producers."""

    name = "order"
    anomalies = ABOUT
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "sends": sending.SENDS,
        "records": RECORDS,
        "ops": OPS,
        "exchanges": EXCHANGES,
    }

    def needs(self, run: RunContext) -> bool:
        """Something was read or sent."""
        return run.has(Kind.RECORD) or run.does(F.SEND)

    def survey(self, piece: Piece, run: RunContext) -> OrderSurvey:
        """What is odd, as far as it is little, and what is needed to judge it."""
        return OrderSurvey(
            look_at_readers(piece, run), sending.look_at(piece.sends, piece.shares if run.many else None, run)
        )

    def gather(self, surveys: Sequence[OrderSurvey], run: RunContext, others: ByFamily) -> GatheredOrder:
        """Whether that is all that has to be known."""
        return GatheredOrder(
            between=sum(each.readers.spans.between for each in surveys),
            inside=sum(each.readers.spans.inside for each in surveys),
            sends=sum(each.sent.count for each in surveys),
            in_transactions=sum(each.sent.in_transactions for each in surveys),
            odd=gathered_steps([each.readers for each in surveys], run),
            contradicting=sending.contradicting([each.sent for each in surveys]),
        )

    def needs_judging(self, gathered: GatheredOrder, run: RunContext, others: ByFamily) -> bool:
        """Sends contradict each other, too many steps are odd, or readers are tangled."""
        return gathered.contradicting is not None or (gathered.odd is not None and gathered.odd.again)

    def judge(self, piece: Piece, gathered: GatheredOrder, run: RunContext, others: ByFamily) -> Judged:
        """Steps and sends of a piece, whichever are in doubt."""
        return (
            judged_steps(piece, gathered.odd, run) if gathered.odd and gathered.odd.again else None,
            sending.judged(piece.sends, gathered.contradicting, run) if gathered.contradicting else None,
        )

    def conclude(
        self, gathered: GatheredOrder, judged: Sequence[Judged], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """All of it."""
        of_sends = [sends for _, sends in judged if sends]
        between, inside, found_, cut = _concluded_steps(gathered.odd, [steps for steps, _ in judged if steps], run)
        found_ += [each.findings for each in of_sends]
        if of_sends:
            found_.append(sending.findings(pl.concat([each.spread for each in of_sends]), run, inside=True))
        between, inside = gathered.between + between, gathered.inside + inside
        looked_at = {
            "poll-skip": between,
            "nonmonotonic-poll": between,
            "int-poll-skip": inside,
            "int-nonmonotonic-poll": inside,
            "gap": between + inside,
            "nonmonotonic-send": gathered.sends,
            "int-nonmonotonic-send": gathered.in_transactions,
        }
        return FamilyResult(merge_findings(found_, run.limit), looked_at, cut=cut)


def _concluded_steps(
    gathered: OddSteps | None, judged: Sequence[JudgedSteps], run: RunContext
) -> tuple[int, int, list[Findings], str]:
    """Steps of tangled readers, between and inside, what was found, and what was left out."""
    if gathered is None:
        return 0, 0, [], ""
    between, inside, steps = 0, 0, [gathered.joints]
    too_tangled = any(each.too_many_runs for each in judged)
    if judged and not too_tangled:
        runs = pl.concat([each.runs for each in judged])
        links = joints(runs, also=NEXT)
        between, inside = counted_steps(runs, links)
        steps.append(resolved(odd_joints(links, run), gathered.firsts, run))
    if not gathered.again:
        steps.append(gathered.steps)
    loose = unassigned(pl.concat(steps, how="diagonal"), gathered.moves.assigns)
    findings = [
        *(each.findings for each in judged),
        step_findings(loose, gathered.moves, run),
        gap_findings(loose.filter(GAPS), judged, gathered, run),
    ]
    return between, inside, findings, _too_tangled(gathered) if too_tangled else ""


def _too_tangled(gathered: OddSteps) -> str:
    readers = len(gathered.tangled)
    why = "the file is not in the order of its events, or transactions were aborted"
    return f"{why}: what {readers:,} readings were handed was not put in order"


FAMILIES: tuple[Family, ...] = (Order(),)
