"""Delivery: what clients sent, what was acknowledged, and what readers were handed.

Values are unique: the value of a record is the operation of its send. An acknowledgement is a send that ended `ok`. A
read is a record that anybody was handed, in whatever phase. What was sent in a transaction is acknowledged or failed
with its transaction; of such a value only those reads count, and only so far as their readers got, that were made with
read_committed. Others see what is open or was aborted, rightly. A reader of which nobody says how it read counts.

lost-write     acknowledged, at or below the highest offset read in its partition, and in no read. Offsets are handed
               out in the order of the log, so that the order of offsets is the order of indexes. How far readers got
               is not told by members of groups, who begin where the group is: what they skip is not lost. A value
               that was acknowledged without a usable offset is lost when nobody read it although a final read, begun
               at or after the acknowledgement, ended at the end of the partition. Not in a compacted topic, which need
               keep no more than the last record of each key (`checkers.keys`).
lost-tail      acknowledged above everything that was read, although a final read of the partition, begun at or after
               the acknowledgement, ended at its end offset. Not in a compacted topic.
unseen         acknowledged above everything that was read and below the end of the partition, of which no final read
               ended `ok`, and at least one gave up: stuck, not lost. It gave up when its last record of that partition
               (or its own invocation, if it was handed none) was STUCK_NS or more before its end; of several final
               reads the last record or invocation and the last end count. The end is the one that the final read knew
               (of several, the highest of those that ended last); where that is null, and the value is in no
               transaction, the highest that a probe without an error was shown: the high watermark by Fetch, the
               offset by ListOffsets(latest), in a topic that the workload never deleted. Not in a compacted topic.
phantom        read, but never sent.
aborted-read   read, although its send certainly failed, or its transaction did.
misrouted      read in another topic or partition than its send says, although the record calls itself good; once for
               each value and place. Those that call themselves misrouted are `checkers.flawed_records`'.
duplicate      one value at two or more offsets of its partition, misrouted records apart. Tagged by its producer, as
               the manifest knows it: `transactional`, `idempotent` or `plain`; and `numbered anew` if the taps saw that
               producer go on with another producer id or epoch: a client that begins to number anew may write again
               what is there already.
false-ack      acknowledged without a usable offset (none, or negative). Or below a log start
(`checkers.log_starts`).

What is lost or unseen is tagged `settled` if it was acknowledged when every fault was over: all that were injected had
been undone, and the cluster was seen to be whole after each (there was one, at least); and no leader of its partition
changed since, or DEPOSED_NS and more before the acknowledgement: of the highest leader epoch that nodes told probes,
the first moment counts, and unless one was told after the acknowledgement there is no such tag. What weak
acknowledgements cost is lost with a leader.

A finding of an acknowledgement is at its offset and at the end of its send. Any other is at the lowest offset at which
the value was read in its partition, or acknowledged, and at the moment at which it was first read, or its send ended.

A record that is corrupt or foreign shows how far a reader got, and is a read of no value. A value that was sent or
seen before the last deletion of its topic by the workload (`checkers.core.deletions`) may be gone: what is found of it
is tagged `deleted topic`; but what failed was never there, and of a duplicate that is said unless two of its offsets
are certainly of one life of the topic. How far readers of such a topic got is told by final and raw readers alone.

What became of each value is judged by value (`checkers.shared.fates`), given what its partition as a whole shows
(`checkers.core.partitions`). Of values that are settled where they lie, only counts are needed. As many lost-tails are
looked for as were acknowledged with an offset in partitions of which a final read ended `ok`.

With acks=0 nothing is acknowledged, and rules about acknowledgements do not apply.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import polars as pl

from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, merge_findings
from checkers.core.partitions import Places
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.delivery.acknowledged_values import STUCK, GatheredDelivery, acknowledged_findings
from checkers.delivery.read_values import read_findings
from checkers.delivery.value_counts import NO_COUNTS, counted, settled, summed_counts
from checkers.shared.fates import READS, Fates


@dataclass(frozen=True)
class DeliverySurvey:
    """What a piece says of its partitions, and of the values that are settled there."""

    places: Places
    settled: pl.DataFrame


@dataclass(frozen=True)
class JudgedValues:
    """What is wrong with the values of a piece, and how many there are."""

    findings: Findings
    counts: pl.DataFrame
    offsetless: int  # acknowledged without an offset, in partitions that were read to their end since


def judged(fates: Fates, gathered: GatheredDelivery, run: RunContext, renumbered: Collection[int]) -> JudgedValues:
    """All rules."""
    of_acknowledged, offsetless = acknowledged_findings(fates, gathered, run)
    parts = [*of_acknowledged, *read_findings(fates, run, renumbered)]
    return JudgedValues(merge_findings(parts, run.limit), counted(fates), offsetless)


class Delivery(Family):
    """`others["values"]` is `GatheredDelivery`."""

    name = "values"
    after = ("coverage",)
    anomalies: ClassVar[Mapping[str, str]] = {
        "lost-write": "acknowledged, at or below the highest offset read, and in no read",
        "lost-tail": "acknowledged above everything read, although the final read ended at the partition's end",
        "unseen": "acknowledged below the partition's end, but the final read did not get that far",
        "phantom": "read, but never sent",
        "aborted-read": "read, although its send certainly failed",
        "misrouted": "a record in another topic or partition than it was sent to",
        "duplicate": "one value at two or more offsets",
        "false-ack": "acknowledged without a usable offset",
    }
    needs_acknowledgements = frozenset({"lost-write", "lost-tail", "unseen", "false-ack"})
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        **READS, "ops": (*READS["ops"], "offset"),
    }  # fmt: skip
    by_value = True

    def survey(self, piece: Piece, run: RunContext) -> DeliverySurvey:
        """What partitions show, and in a large history how many values are settled."""
        return DeliverySurvey(Places.of(piece, run), settled(piece.split) if run.many else NO_COUNTS)

    def gather(self, surveys: Sequence[DeliverySurvey], run: RunContext, others: ByFamily) -> GatheredDelivery:
        """All partitions; of values those that are settled, unless all of them will be judged."""
        shown = Places.together([each.places for each in surveys], run)
        settled_count = run.many and others["fates"].settled_count
        counts = summed_counts([NO_COUNTS, *(each.settled for each in surveys if settled_count)])
        return GatheredDelivery(shown.table(run), shown.readers, counts)

    def judge(self, piece: Piece, gathered: GatheredDelivery, run: RunContext, others: ByFamily) -> JudgedValues:
        """All values of a piece that has whole values."""
        return judged(piece.fates, gathered, run, getattr(others.get("coverage"), "renumbered", frozenset()))

    def resume(
        self, gathered: GatheredDelivery, judged: Sequence[JudgedValues], run: RunContext, others: ByFamily
    ) -> GatheredDelivery:
        """With the counts of what was judged."""
        return replace(gathered, counts=summed_counts([gathered.counts, *(each.counts for each in judged)]))

    def conclude(
        self, gathered: GatheredDelivery, judged: Sequence[JudgedValues], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """The findings, and how many values were looked at."""
        findings = merge_findings([each.findings for each in judged], run.limit)
        return FamilyResult(findings, _looked_at(gathered.places, run, sum(each.offsetless for each in judged)))


def _looked_at(of_places: pl.DataFrame, run: RunContext, offsetless: int) -> dict[str, int]:
    keeping = of_places.filter(~by(run.compacted, "topic"))
    in_transaction = pl.col("usable_transactional")
    passed = [(pl.col("usable") - in_transaction, "any_reached"), (in_transaction, "committed_reached")]

    def total(frame: pl.DataFrame, count: str | pl.Expr) -> int:
        return int(frame.select(pl.col(count) if isinstance(count, str) else count).to_series().sum())

    return {
        "lost-write": max(
            offsetless, sum(total(keeping.filter(pl.col(name).is_not_null()), count) for count, name in passed)
        ),
        "lost-tail": total(keeping.filter("final_ok"), "usable"),
        "unseen": total(keeping.filter(STUCK), "usable"),
        "phantom": total(of_places, "seen"),
        "aborted-read": total(of_places, "failed"),
        "misrouted": total(of_places, "seen"),
        "duplicate": total(of_places, "placed"),
        "false-ack": total(of_places, "acknowledged"),
    }


FAMILIES: tuple[Family, ...] = (Delivery(),)
