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
               each value and place. Those that call themselves misrouted are `checkers.shared.flawed_records`'.
duplicate      one value at two or more offsets of its partition, misrouted records apart. Tagged by its producer, as
               the manifest knows it: `transactional`, `idempotent` or `plain`; and `numbered anew` if the taps saw that
               producer go on with another producer id or epoch: a client that begins to number anew may write again
               what is there already.
false-ack      acknowledged without a usable offset (none, or negative). Or below a log start
(`checkers.shared.log_starts`).

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

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, is_in
from checkers.core.deletions import UNSURE
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.partitions import PLACE, Places
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.shared.fates import READS, Fates, Split
from checkers.shared.log_starts import LogStarts
from harness.history.schema import ID_BITS, Type

STUCK_NS = 5_000_000_000
DEPOSED_NS = 10_000_000_000  # after a new leader was seen, for the one before it to hear of it
SETTLED = "settled"
GONE = "deleted topic"
STANDING_AT_MOST = 5  # readers that the evidence names
COUNTS = (
    "values",
    "sent",
    "acknowledged",
    "failed",
    "info",
    "read",  # records that the load's consumers were handed
    "distinct",  # values that they were handed, and that were sent and not aborted
    "aborted",
    "transactional",
    "never_read",  # acknowledged, and in no read
    "usable",  # acknowledged with an offset
    "usable_transactional",
    "seen",  # in any read
    "placed",  # known at an offset
)


@dataclass(frozen=True)
class DeliverySurvey:
    """What a piece says of its partitions, and of the values that are settled there."""

    places: Places
    settled: pl.DataFrame


@dataclass(frozen=True)
class GatheredDelivery:
    """What is known of partitions and their values: `places` is there for everybody."""

    shown: pl.DataFrame  # what each partition shows (`checkers.core.partitions`)
    readers: pl.DataFrame
    counts: pl.DataFrame  # of values, by the partition that they belong to

    @cached_property
    def places(self) -> pl.DataFrame:
        """A row for each partition that values belong to: how many, how far readers got, how final reads ended."""
        whole = self.counts.join(self.shown, on=PLACE, how="left", maintain_order="left")
        plain = pl.col("values") > pl.col("transactional")
        return whole.with_columns(
            final_ok=pl.col("final_invoked").is_not_null(),
            reached=pl.max_horizontal(
                pl.when(plain).then("any_reached"), pl.when(pl.col("transactional") > 0).then("committed_reached")
            ),
        )


@dataclass(frozen=True)
class JudgedValues:
    """What is wrong with the values of a piece, and how many there are."""

    findings: Findings
    counts: pl.DataFrame
    offsetless: int  # acknowledged without an offset, in partitions that were read to their end since


def counted(fates: Fates) -> pl.DataFrame:
    """Values by the partition that they belong to."""
    failed, ok, in_transaction = fates.type == Type.FAIL, fates.type == Type.OK, fates.txn != NONE
    usable = ok & (fates.acknowledged >= 0)
    numbers = {
        "values": np.ones(len(fates), np.bool_),
        "sent": fates.type > 0,
        "acknowledged": ok,
        "failed": failed,
        "info": fates.type == Type.INFO,
        "read": fates.load_reads,
        "distinct": (fates.load_reads > 0) & (fates.type > 0) & ~(failed & in_transaction),
        "aborted": failed & in_transaction,
        "transactional": in_transaction,
        "never_read": ok & (fates.reads == 0),
        "usable": usable,
        "usable_transactional": usable & in_transaction,
        "seen": fates.reads > 0,
        "placed": fates.low != NEVER,
    }
    return _summed([_placed(fates.frame(*PLACE)).with_columns(**numbers)])


def settled(split: Split) -> pl.DataFrame:
    """The same of values that are settled: all of them were acknowledged with an offset, and read."""
    log, chosen = split.log, np.flatnonzero(split.chosen)
    in_transaction, read = split.in_transaction[chosen], split.load_reads[chosen]
    always = ("values", "sent", "acknowledged", "usable", "seen", "placed")
    numbers: dict[str, Any] = {
        **dict.fromkeys(COUNTS, pl.lit(value=False)),
        **dict.fromkeys(always, pl.lit(value=True)),
        **dict.fromkeys(("transactional", "usable_transactional"), in_transaction),
        "read": read,
        "distinct": read > 0,
    }
    frame = pl.DataFrame({"topic": log.topic[chosen], "partition": log.partition[chosen]})
    return _summed([_placed(frame).with_columns(**numbers)])


def _placed(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(PLACE).cast(pl.Int32))


def _summed(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).group_by(PLACE).agg(pl.col(COUNTS).cast(pl.Int64).sum())


def judged(fates: Fates, gathered: GatheredDelivery, run: RunContext, renumbered: Collection[int]) -> JudgedValues:
    """All rules."""
    unread = (fates.type == Type.OK) & ~fates.read & ~is_in(fates.topic, run.compacted)
    offsetless = (fates.type == Type.OK) & (fates.acknowledged < 0)
    untrue = _acknowledgements(fates.only(offsetless), gathered, run)
    lasting = untrue.filter(~by(run.compacted, "topic") & ENDED)
    parts = [
        *_unread(_acknowledgements(fates.only(unread), gathered, run), gathered, run),
        make_findings(
            "false-ack", untrue, run, **_ACKNOWLEDGEMENT, tags=("no_offset", "gone"), facts=("acknowledged",)
        ),
        _phantoms(fates.only(fates.type == 0), run),
        _aborted_reads(fates.only((fates.type == Type.FAIL) & fates.read), run),
        _misrouted(fates, run),
        _duplicates(fates.only((fates.low < fates.high) & (fates.low != NEVER)), run, renumbered),
    ]
    return JudgedValues(merge_findings(parts, run.limit), counted(fates), len(lasting))


ENDED = pl.col("completed") <= pl.col("final_invoked")  # by a read begun after the acknowledgement
STUCK = pl.col("final_invoked").is_null() & (
    pl.col("final_time") - pl.max_horizontal("final_begun", "final_moved") >= STUCK_NS
)
_ACKNOWLEDGEMENT: dict[str, Any] = {
    "offset": "acknowledged", "values": ("value",), "time": "completed", "events": ("send_event",),
}  # fmt: skip


def _acknowledgements(fates: Fates, gathered: GatheredDelivery, run: RunContext) -> pl.DataFrame:
    """Values that were acknowledged, with what their partitions show, and tags."""
    rows = _placed(fates.frame("value", *PLACE, "acknowledged", "completed", "txn", "send_event"))
    rows = rows.with_columns(gone=np.minimum(fates.invoked, fates.seen) < run.deletions.until(fates.topic))
    return rows.join(gathered.shown, on=PLACE, how="left", maintain_order="left").with_columns(
        gone=_tag(pl.col("gone"), GONE),
        no_offset=_tag(~USABLE, "no offset"),
        reached=_of_kind("any_reached", "committed_reached"),
        reached_event=_of_kind("any_reached_event", "committed_reached_event"),
        known_end=pl.coalesce("final_end", pl.when(pl.col("txn").is_null()).then("shown_end")),
        settled=_tag(_settled(run), SETTLED),
    )


USABLE = (pl.col("acknowledged") >= 0).fill_null(value=False)


def _of_kind(plain: str, in_transaction: str) -> pl.Expr:
    return pl.when(pl.col("txn").is_null()).then(plain).otherwise(in_transaction)


def _tag(holds: pl.Expr, text: str) -> pl.Expr:
    return pl.when(holds).then(pl.lit(text))


def _settled(run: RunContext) -> pl.Expr:
    """Whether it was acknowledged when all faults were over and no leader of its partition changed any more."""
    faults = [fault for fault in run.line.faults if fault.injected_ns is not None]
    ends = [instant for fault in faults for instant in (fault.undone_ns, fault.healed_ns)]
    instants = [instant for instant in ends if instant is not None]
    if not faults or len(instants) < len(ends):
        return pl.lit(value=False)
    over, completed, since = max(instants), pl.col("completed"), pl.col("led_since")
    led_on = (since <= over) | (completed > since + DEPOSED_NS)
    return (completed > over) & (completed < pl.col("led_until")) & led_on


def _unread(rows: pl.DataFrame, gathered: GatheredDelivery, run: RunContext) -> Iterator[Findings]:
    """What is lost, and what is stuck."""
    offset, reached = pl.col("acknowledged"), pl.col("reached")
    passed = rows.filter(USABLE & (offset <= reached))
    ahead = rows.filter(USABLE & (reached.is_null() | (offset > reached)))
    unseen = ahead.filter(STUCK & (offset < pl.col("known_end")))
    send = _ACKNOWLEDGEMENT | {"tags": ("no_offset", "gone", "settled")}
    yield make_findings(
        "lost-write", passed, run,
        **send | {"events": ("send_event", "reached_event")}, facts=("acknowledged", "reached", "final_end"),
    )  # fmt: skip
    yield make_findings("lost-write", rows.filter(~USABLE & ENDED), run, **send, facts=("acknowledged", "final_end"))
    yield make_findings("lost-tail", ahead.filter(ENDED), run, **send, facts=("acknowledged", "final_end"))
    yield make_findings(
        "unseen", _with_standing(unseen, gathered.readers), run, **send, facts=("acknowledged", "known_end", *STANDING)
    )


STANDING = ("standing_process", "standing_offset", "standing_since_ns")


def _with_standing(rows: pl.DataFrame, readers: pl.DataFrame) -> pl.DataFrame:
    """How far the readers of a partition got, and when they were handed anything last."""
    first = (
        readers.join(rows, on=PLACE, how="semi")
        .sort("process")
        .group_by(PLACE)
        .agg(
            pl.col(column).head(STANDING_AT_MOST).alias(name)
            for name, column in zip(STANDING, ("process", "reached", "moved"), strict=True)
        )
    )
    return rows.join(first, on=PLACE, how="left", maintain_order="left")


def _phantoms(fates: Fates, run: RunContext) -> Findings:
    rows = _placed(fates.frame("value", *PLACE, "low", "seen", "read_event"))
    producer = pl.lit(None, pl.Int64) if run.foreign else _process_of("value")
    return make_findings(
        "phantom", rows.with_columns(producer=producer, reader=_process_of("read_event")), run, offset="low",
        values=("value",), processes=("producer", "reader"), time="seen", events=("read_event",), facts=("producer",),
    )  # fmt: skip


def _aborted_reads(fates: Fates, run: RunContext) -> Findings:
    rows = _placed(fates.frame("value", *PLACE, "low", "seen", "txn", "send_event", "read_event"))
    return make_findings(
        "aborted-read", rows.with_columns(in_transaction=pl.col("txn").is_not_null()), run, offset="low",
        values=("value",), time="seen", events=("send_event", "read_event"), facts=("in_transaction",),
    )  # fmt: skip


def _misrouted(fates: Fates, run: RunContext) -> Findings:
    rows = fates.told.filter(pl.Series(fates.astray, dtype=pl.Boolean))
    places = rows.group_by("value", *PLACE, "offset").agg(pl.col("event").min(), pl.col("time").min())
    return make_findings("misrouted", places, run, offset="offset", values=("value",), time="time", events=("event",))


def _duplicates(fates: Fates, run: RunContext, renumbered: Collection[int]) -> Findings:
    rows = _placed(fates.frame("value", *PLACE, "low", "high", "seen", "txn", "send_event", "low_event", "high_event"))
    idempotent, plain = (by(run.with_about("idempotent", (told,)), "producer") for told in (True, False))
    sender = pl.when(pl.col("txn").is_not_null()).then(pl.lit("transactional"))
    told = rows.with_columns(producer=_process_of("send_event"), apart=_apart(fates, run)).with_columns(
        sender=sender.when(idempotent).then(pl.lit("idempotent")).when(plain).then(pl.lit("plain")),
        anew=_tag(by(renumbered, "producer"), "numbered anew"),
        apart=_tag(pl.col("apart"), GONE),
    )
    return make_findings(
        "duplicate", told, run, offset="low", values=("value",), time="seen", events=("low_event", "high_event"),
        tags=("sender", "anew", "apart"), facts=("low", "high"),
    )  # fmt: skip


def _apart(fates: Fates, run: RunContext) -> Bools:
    """Whether no two offsets of a value are certainly of one life of its topic."""
    if not run.deletions:
        return np.zeros(len(fates), np.bool_)
    known = pl.DataFrame({"of": fates.of_placed, "era": fates.placed("era"), "offset": fates.placed("offset")})
    lives = known.filter(pl.col("era") != UNSURE).unique().group_by("of").agg(pl.len(), pl.col("era").n_unique())
    apart = np.ones(len(fates), np.bool_)
    apart[lives.filter(pl.col("era") < pl.col("len"))["of"].to_numpy()] = False
    return apart


def _process_of(identifier: str) -> pl.Expr:
    return pl.col(identifier) // (1 << ID_BITS)


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
        return DeliverySurvey(Places.of(piece, run), settled(piece.split) if run.many else _NOTHING)

    def gather(self, surveys: Sequence[DeliverySurvey], run: RunContext, others: ByFamily) -> GatheredDelivery:
        """All partitions; of values those that are settled, unless all of them will be judged."""
        shown = Places.together([each.places for each in surveys], run)
        settled_count = run.many and others["fates"].settled_count
        counts = _summed([_NOTHING, *(each.settled for each in surveys if settled_count)])
        return GatheredDelivery(shown.table(run), shown.readers, counts)

    def judge(self, piece: Piece, gathered: GatheredDelivery, run: RunContext, others: ByFamily) -> JudgedValues:
        """All values of a piece that has whole values."""
        return judged(piece.fates, gathered, run, getattr(others.get("coverage"), "renumbered", frozenset()))

    def resume(
        self, gathered: GatheredDelivery, judged: Sequence[JudgedValues], run: RunContext, others: ByFamily
    ) -> GatheredDelivery:
        """With the counts of what was judged."""
        return replace(gathered, counts=_summed([gathered.counts, *(each.counts for each in judged)]))

    def conclude(
        self, gathered: GatheredDelivery, judged: Sequence[JudgedValues], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """The findings, and how many values were looked at."""
        findings = merge_findings([each.findings for each in judged], run.limit)
        return FamilyResult(findings, _looked_at(gathered.places, run, sum(each.offsetless for each in judged)))


_NOTHING = pl.DataFrame(schema={**dict.fromkeys(PLACE, pl.Int32), **dict.fromkeys(COUNTS, pl.Int64)})


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


FAMILIES: tuple[Family, ...] = (Delivery(), LogStarts())
