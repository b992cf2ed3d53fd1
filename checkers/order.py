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
client asked again      of a step back: the taps show a rewind (`checkers.shared.rewinds`) of this process, this place
                        and this era that asks for b or less and goes back from above b, invoked before the `time` of y
                        and not earlier than 10 s before the `invoked` of x. So the broker may have given what it was
                        asked for. Of more than REWINDS rewinds, pieces may leave out those that go back least.
transactions            of a gap: T > 0.
transactional, idempotent, plain   of a send: in a transaction; else as the manifest calls its producer, if it does.

How it is made: in a healthy history few steps lead anywhere but to the next offset, and ranks of sends rise with their
offsets. Pieces hand over what is odd, and it is judged where all is put together; only if that is too much, or if sends
contradict each other, pieces are judged by themselves (`checkers.shared.reader_steps`, `checkers.shared.sender_order`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from checkers.core.arrays import GroupBy, Lanes, ints, nullable
from checkers.core.deletions import UNSURE
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import WORST, Findings, make_findings, merge_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.core.tables import empty
from checkers.shared import sender_order as sending
from checkers.shared.reader_steps import (
    LOG,
    NEXT,
    READER,
    RECORDS,
    KnownOffsets,
    Reading,
    columns,
    first_above,
    joints,
    key_of,
    last_upto,
    spans_of,
    tangled_in,
)
from checkers.shared.rewinds import EXCHANGES, NO_REWINDS, asked_again, in_order, rewinds
from harness.history.schema import F, Kind

CARRIED = 100_000  # odd steps of a large history up to which pieces need not be judged by themselves
AT_LEAST = 100  # that any piece may carry
REWINDS = 100_000  # that all pieces carry, and each AT_LEAST
RUNS = 5_000_000  # of tangled readers, up to which they are put together
MARKERS_OF_A_TRANSACTION = 2
PLACE = ("topic", "partition")
GAP = (*LOG, "offset", "to")
OPS = ("f", "process", "topic", "partition", "offset", "event", "invoked", "time")
MOVES = (F.ASSIGN, F.SUBSCRIBE, F.REVOKE, F.LEAVE, F.CRASH)
OF_STEP = ("gone", "rebalance")  # tags
OF_STEP_BACK = (*OF_STEP, "again")
FROM_TO = ("from_offset", "to_offset")
ABOUT = {
    "poll-skip": "from one poll to the next, a known offset was left out",
    "nonmonotonic-poll": "from one poll to the next, a reader went back",
    "int-poll-skip": "inside of a poll or a transaction, a known offset was left out",
    "int-nonmonotonic-poll": "inside of a poll or a transaction, a reader went back",
    "gap": "readers moved past offsets that nothing explains",
    "nonmonotonic-send": "of two sends of a producer, the later one got the lower offset",
    "int-nonmonotonic-send": "the same inside of a transaction",
}
_FORWARD = pl.col("to") > pl.col("offset")
_SKIPS = _FORWARD & (pl.col("skipped") < pl.col("to")).fill_null(value=False)
_GAPS = _FORWARD & ~_SKIPS & (pl.col("next_any") >= pl.col("to")).fill_null(value=True)
_MISSING = pl.col("to") - pl.col("offset") - 1
_NO_JOINTS = joints(spans_of(empty("records")))
_NO_READERS = _NO_JOINTS.select(READER)


@dataclass
class Assignments:
    """How partitions were given to readers and taken from them, and where their clients went back by themselves."""

    assigns: pl.DataFrame  # by reader and event
    moves: pl.DataFrame  # by process and `invoked`; `until`: the latest end of those so far
    members: list[int]  # of groups
    assigned: list[int]  # processes that were ever given a partition
    rewinds: pl.DataFrame  # in the order of `checkers.shared.rewinds.in_order`


@dataclass
class SpanSurvey:
    """What a piece says of steps that its partitions were cut between, and of how many there are."""

    between: int  # steps between two polls
    inside: int  # and inside of one, or of a transaction
    joints: pl.DataFrame  # odd steps from one span to the next
    tangled: pl.DataFrame  # readers and places whose spans overlap


@dataclass
class StepSurvey:
    """What a piece says of steps that leave its stretches, and of what is known there."""

    odd: pl.DataFrame  # as far as they are few
    left_out: bool  # whether there are more that go back or skip something
    missing: pl.DataFrame  # per place, if gaps were left out: at most so many offsets are missing
    ends: pl.DataFrame  # what comes after the last records of spans, unless it is the next offset
    firsts: dict[str, pl.DataFrame]  # known offsets: the first of each stretch
    unsent: pl.DataFrame  # per place known offsets that no ok send has
    transactions: pl.DataFrame  # per place how many, and sends without an offset


@dataclass
class OrderSurvey:
    """What a piece says."""

    spans: SpanSurvey
    steps: StepSurvey | None  # none if there is no odd one
    sent: sending.SendSurvey
    ops: pl.DataFrame
    rewinds: pl.DataFrame


@dataclass
class OddSteps:
    """Odd steps of all pieces, and what is needed to judge them."""

    steps: pl.DataFrame
    joints: pl.DataFrame
    tangled: pl.DataFrame
    firsts: dict[str, pl.DataFrame]
    places: pl.DataFrame  # per place: transactions, and how many offsets they may leave out
    explained: pl.DataFrame  # places whose gaps were left out because they are explained
    moves: Assignments
    again: bool  # whether that is not enough


@dataclass
class GatheredOrder:
    """What all pieces say."""

    between: int
    inside: int
    sends: int
    in_transactions: int
    odd: OddSteps | None
    contradicting: sending.ContradictedSends | None


@dataclass
class JudgedSteps:
    """What is wrong with the steps of a piece, and what can only be said when pieces are put together."""

    findings: Findings
    kept: pl.DataFrame  # of gaps: the first and the worst of each place
    counts: pl.DataFrame  # of gaps, per place and tags
    gaps: pl.DataFrame  # those that begin where a joint may begin: none of them is among the others
    runs: pl.DataFrame  # of tangled readers
    too_many_runs: bool


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
        ops = piece.ops.filter(pl.col("f").is_in([int(f) for f in MOVES])).select(OPS)
        return OrderSurvey(
            spans=_look_at_spans(piece, _assigns(ops), run) if run.many else _whole(piece),
            steps=_look_at_steps(piece, run) if run.many or len(piece.steps) else None,
            sent=sending.look_at(piece.sends, piece.shares if run.many else None, run),
            ops=ops,
            rewinds=_rewinds(piece, ops, run) if run.many or len(piece.steps) else NO_REWINDS,
        )

    def gather(self, surveys: Sequence[OrderSurvey], run: RunContext, others: ByFamily) -> GatheredOrder:
        """Whether that is all that has to be known."""
        return GatheredOrder(
            between=sum(each.spans.between for each in surveys),
            inside=sum(each.spans.inside for each in surveys),
            sends=sum(each.sent.count for each in surveys),
            in_transactions=sum(each.sent.in_transactions for each in surveys),
            odd=_gathered(surveys, run),
            contradicting=sending.contradicting([each.sent for each in surveys]),
        )

    def needs_judging(self, gathered: GatheredOrder, run: RunContext, others: ByFamily) -> bool:
        """Sends contradict each other, too many steps are odd, or readers are tangled."""
        return gathered.contradicting is not None or (gathered.odd is not None and gathered.odd.again)

    def judge(self, piece: Piece, gathered: GatheredOrder, run: RunContext, others: ByFamily) -> Judged:
        """Steps and sends of a piece, whichever are in doubt."""
        return (
            _judged_steps(piece, gathered.odd, run) if gathered.odd and gathered.odd.again else None,
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


def _whole(piece: Piece) -> SpanSurvey:
    """Of a history that was not cut."""
    between, inside = _counted(piece.spans, _NO_JOINTS)
    return SpanSurvey(between, inside, joints=_NO_JOINTS, tangled=_NO_READERS)


def _look_at_spans(piece: Piece, assigns: pl.DataFrame, run: RunContext) -> SpanSurvey:
    tangled = tangled_in(piece.spans)
    spans = _without(piece.spans, tangled, READER)
    links = joints(spans)
    return SpanSurvey(*_counted(spans, links), joints=_unassigned(_odd(links, run), assigns), tangled=tangled)


def _look_at_steps(piece: Piece, run: RunContext) -> StepSurvey:
    steps = _not_compacted(piece.steps, run)
    known = KnownOffsets(piece.sends, piece.records, run)
    steps = _with_skipped(known.with_next(steps), run)
    odd, left_out, missing = _carried(steps.drop_nulls("to"), piece, run)
    return StepSurvey(
        odd=odd,
        left_out=left_out,
        missing=missing,
        ends=_ends(steps),
        firsts=known.firsts(),
        unsent=known.unsent(),
        transactions=piece.shares.group_by(PLACE).agg(pl.col("txn").count().cast(pl.Int64), pl.col("unplaced").sum()),
    )


def _rewinds(piece: Piece, ops: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    return rewinds(piece.exchanges, ops, _share_of(REWINDS, len(piece.exchanges), Kind.EXCHANGE, run))


def _gathered(surveys: Sequence[OrderSurvey], run: RunContext) -> OddSteps | None:
    """Nothing if nothing is odd."""
    looked_at = [each.steps for each in surveys if each.steps]
    links = pl.concat([_NO_JOINTS, *(each.spans.joints for each in surveys)])
    tangled = pl.concat([_NO_READERS, *(each.spans.tangled for each in surveys)])
    nothing = links.is_empty() and tangled.is_empty()
    if nothing and all(each.odd.is_empty() and each.missing.is_empty() and not each.left_out for each in looked_at):
        return None
    firsts = {name: pl.concat([each.firsts[name] for each in looked_at]).sort(*LOG, "offset") for name in NEXT}
    links = _resolved(_completed(links, pl.concat([each.ends for each in looked_at])), firsts, run)
    steps = _resolved(_without(pl.concat([each.odd for each in looked_at]), tangled, READER), firsts, run)
    places = _places(looked_at)
    left_out = pl.concat([each.missing for each in looked_at])
    unexplained = _unexplained([left_out, _missing_in(steps), _missing_in(links)], places)
    in_doubt = left_out.join(unexplained, on=PLACE, how="semi")
    return OddSteps(
        steps=steps,
        joints=links,
        tangled=tangled,
        firsts=firsts,
        places=places,
        explained=_without(left_out.select(PLACE).unique(), unexplained, PLACE),
        moves=_moves(pl.concat([each.ops for each in surveys]), [each.rewinds for each in surveys], run),
        again=any(each.left_out for each in looked_at) or len(tangled) > 0 or len(in_doubt) > 0,
    )


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
        between, inside = _counted(runs, links)
        steps.append(_resolved(_odd(links, run), gathered.firsts, run))
    if not gathered.again:
        steps.append(gathered.steps)
    loose = _unassigned(pl.concat(steps, how="diagonal"), gathered.moves.assigns)
    findings = [
        *(each.findings for each in judged),
        _step_findings(loose, gathered.moves, run),
        _gap_findings(loose.filter(_GAPS), judged, gathered, run),
    ]
    return between, inside, findings, _too_tangled(gathered) if too_tangled else ""


def _too_tangled(gathered: OddSteps) -> str:
    readers = len(gathered.tangled)
    why = "the file is not in the order of its events, or transactions were aborted"
    return f"{why}: what {readers:,} readings were handed was not put in order"


def _without(rows: pl.DataFrame, others: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    return rows if others.is_empty() else rows.join(others, on=list(keys), how="anti", maintain_order="left")


def _counted(spans: pl.DataFrame, links: pl.DataFrame) -> tuple[int, int]:
    """Steps between two polls, and others."""
    within = int(links["within"].sum())
    return int(spans["between"].sum()) + len(links) - within, int(spans["inside"].sum()) + within


def _not_compacted(steps: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Compaction may leave out anything."""
    if not run.compacted:
        return steps
    return steps.filter(~(by(run.compacted, "topic") & _FORWARD.fill_null(value=False)))


def _odd(links: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    return _not_compacted(links.filter(pl.col("to") != pl.col("offset") + 1), run)


def _with_skipped(steps: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """With the lowest offset that the reader of a step has to be handed next."""
    every, committed = (pl.col(name) for name in NEXT)
    return steps.with_columns(skipped=pl.when(by(run.sees_aborted)).then(every).otherwise(committed))


def _carried(steps: pl.DataFrame, piece: Piece, run: RunContext) -> tuple[pl.DataFrame, bool, pl.DataFrame]:
    """Odd steps that travel, whether any that is no gap does not, and of gaps that do not how much is missing."""
    unsure = _FORWARD & pl.col("skipped").is_null() if run.many else pl.lit(value=False)
    odd, gaps = steps.filter(~_FORWARD | _SKIPS | unsure), steps.filter(_GAPS & ~unsure)
    most = _share(CARRIED, piece, run)
    if len(odd) > most:
        return steps.clear(), True, _missing_in(steps.clear())
    if len(odd) + len(gaps) > most:
        return odd, False, _missing_in(_once(gaps))
    return pl.concat([odd, gaps]), False, _missing_in(steps.clear())


def _share(most: int, piece: Piece, run: RunContext) -> int:
    """Of what all pieces may carry, that of this one."""
    return _share_of(most, len(piece.records), Kind.RECORD, run)


def _share_of(most: int, rows: int, kind: Kind, run: RunContext) -> int:
    return AT_LEAST + most * rows // max(rows, run.rows.get(kind, 0), 1) if run.many else rows


def _missing_in(steps: pl.DataFrame) -> pl.DataFrame:
    """Per place how many offsets are missing in gaps."""
    return steps.filter(_GAPS).group_by(PLACE).agg(missing=_MISSING.cast(pl.Float64).sum())


def _once(gaps: pl.DataFrame) -> pl.DataFrame:
    """One step of each gap: that whose end has the lowest event."""
    groups, reached = GroupBy(key_of(*columns(gaps, GAP))), ints(gaps, "to_event")
    return gaps.filter(pl.Series(reached == groups.min(reached)[groups.number()], dtype=pl.Boolean))


def _ends(steps: pl.DataFrame) -> pl.DataFrame:
    """What comes after the last records of spans, unless it is the next offset."""
    usual = pl.all_horizontal(pl.col(name) == pl.col("offset") + 1 for name in NEXT).fill_null(value=False)
    return steps.filter(pl.col("to").is_null() & ~usual).select(*READER, "event", *NEXT)


def _completed(links: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Joints with what comes after the record that they leave."""
    keys = [*READER, "event"]
    rows = links.join(ends.with_columns(unusual=pl.lit(value=True)), on=keys, how="left", maintain_order="left")
    after = pl.col("offset") + 1
    return rows.with_columns(
        pl.when(pl.col("unusual").is_null()).then(after).otherwise(pl.col(name)).alias(name) for name in NEXT
    ).drop("unusual")


def _resolved(steps: pl.DataFrame, firsts: Mapping[str, pl.DataFrame], run: RunContext) -> pl.DataFrame:
    """Where a stretch has nothing above an offset, later stretches may."""
    asked = columns(steps, (*LOG, "offset"))
    for name in NEXT:
        if steps[name].null_count():
            later = nullable(first_above(columns(firsts[name], (*LOG, "offset")), asked))
            steps = steps.with_columns(pl.col(name).fill_null(later))
    return _with_skipped(steps, run)


def _places(surveys: Sequence[StepSurvey]) -> pl.DataFrame:
    """What transactions explain."""
    sums = pl.concat([each.transactions for each in surveys]).group_by(PLACE).sum()
    unsent = pl.concat([each.unsent for each in surveys]).group_by(PLACE).sum()
    unread = (pl.col("unplaced") - pl.col("unsent").fill_null(0)).clip(lower_bound=0)
    return sums.join(unsent, on=PLACE, how="left").select(
        *PLACE, transactions=pl.col("txn"), may_miss=MARKERS_OF_A_TRANSACTION * pl.col("txn") + unread
    )


def _unexplained(missing: Sequence[pl.DataFrame], places: pl.DataFrame) -> pl.DataFrame:
    """Places where transactions do not explain what is missing, and whether there are any (the tag `transactions`)."""
    transactions = pl.col("transactions").fill_null(0)
    explained = (transactions > 0) & (pl.col("missing") <= pl.col("may_miss"))
    rows = pl.concat(missing).group_by(PLACE).sum().join(places, on=PLACE, how="left")
    return rows.filter((pl.col("missing") > 0) & ~explained).select(
        *PLACE, transactions=pl.when(transactions > 0).then(pl.lit("transactions"))
    )


def _assigns(ops: pl.DataFrame) -> pl.DataFrame:
    moved = pl.col("f").is_in([int(F.ASSIGN), int(F.REVOKE)])
    given = moved & pl.col("topic").is_not_null() & pl.col("partition").is_not_null()
    return ops.filter(given).select(*READER, "event").sort(*READER, "event")


def _moves(ops: pl.DataFrame, went_back: Sequence[pl.DataFrame], run: RunContext) -> Assignments:
    is_assign = pl.col("f") == F.ASSIGN
    moves = ops.filter(~is_assign | pl.col("offset").is_null()).select("process", "invoked", "time")
    moves = moves.sort("process", "invoked")
    until = Lanes(ints(moves, "process")).upto(ints(moves, "time"))
    subscribed = ops.filter(pl.col("f") == F.SUBSCRIBE)["process"].unique().to_list()
    return Assignments(
        assigns=_assigns(ops),
        moves=moves.with_columns(until=pl.Series(until)),
        members=sorted({*run.members, *subscribed}),
        assigned=ops.filter(is_assign)["process"].unique().to_list(),
        rewinds=in_order(went_back),
    )


def _unassigned(steps: pl.DataFrame, assigns: pl.DataFrame) -> pl.DataFrame:
    """Steps whose reader was not given the partition in between, and did not lose it."""
    if steps.is_empty() or assigns.is_empty():
        return steps
    table = columns(assigns, (*READER, "event"))
    last = last_upto(table, columns(steps, (*READER, "to_event")), table[-1])
    return steps.filter(pl.Series(last <= ints(steps, "event")))


def _tagged(steps: pl.DataFrame, moves: Assignments) -> pl.DataFrame:
    table = columns(moves.moves, ("process", "invoked"))
    until = last_upto(table, columns(steps, ("process", "to_time")), ints(moves.moves, "until"))
    moved = pl.Series(until >= ints(steps, "invoked"), dtype=pl.Boolean)
    rebalance = by(moves.members) & (~by(moves.assigned) | moved)
    return steps.with_columns(
        gone=pl.when(pl.col("era") == UNSURE).then(pl.lit("deleted topic")),
        rebalance=pl.when(rebalance).then(pl.lit("rebalance")),
    )


def _with_rewinds(steps: pl.DataFrame, moves: Assignments) -> pl.DataFrame:
    """Steps back with whether their client asked again; `again` means nothing of others."""
    again = pl.Series(asked_again(steps, moves.rewinds), dtype=pl.Boolean)
    return steps.with_columns(again=pl.when(again).then(pl.lit("client asked again")))


def _judged_steps(piece: Piece, gathered: OddSteps, run: RunContext) -> JudgedSteps:
    known = KnownOffsets(piece.sends, piece.records, run)
    of_tangled = piece.records.join(gathered.tangled, on=READER, how="semi", maintain_order="left")
    runs = known.with_next(Reading(of_tangled, run).runs())
    steps = known.with_next(_without(_not_compacted(piece.steps, run), gathered.tangled, READER))
    ends = pl.concat([steps.filter(pl.col("to").is_null()).select(*LOG, "offset"), runs.select(*LOG, "offset")])
    steps = _unassigned(_resolved(steps.drop_nulls("to"), gathered.firsts, run), gathered.moves.assigns)
    gaps = _once(steps.filter(_GAPS))
    at_ends = gaps.join(ends, on=[*LOG, "offset"], how="semi", maintain_order="left")
    others = _tagged(_without(gaps, ends, [*LOG, "offset"]), gathered.moves).with_columns(damaged=by(run.damaged))
    groups = [*PLACE, *OF_STEP, "damaged"]
    too_many = len(runs) > _share(RUNS, piece, run)
    return JudgedSteps(
        findings=_step_findings(steps, gathered.moves, run),
        kept=_first_and_worst(others, groups, run.limit),
        counts=others.group_by(groups).agg(pl.len(), missing=_MISSING.cast(pl.Float64).sum()),
        gaps=at_ends,
        runs=runs.clear() if too_many else runs,
        too_many_runs=too_many,
    )


def _first_and_worst(gaps: pl.DataFrame, groups: Sequence[str], limit: int) -> pl.DataFrame:
    rank = pl.int_range(pl.len()).over(groups)
    first = gaps.sort("time", "offset").with_columns(first=rank)
    return (
        first.sort(_MISSING, descending=True, maintain_order=True)
        .filter((pl.col("first") < limit) | (rank < WORST))
        .drop("first")
    )


def _step_findings(steps: pl.DataFrame, moves: Assignments, run: RunContext) -> Findings:
    """Readers that went back, and those that skipped something."""
    rows = _with_rewinds(_tagged(steps.filter(~_FORWARD | _SKIPS), moves), moves)
    rows = rows.with_columns(
        at=pl.when(_FORWARD).then("skipped").otherwise("to"),
        severity=pl.when(_FORWARD).then(_MISSING).otherwise(-_MISSING),
    )
    return merge_findings(
        (
            make_findings(
                f"{'int-' if within else ''}{'poll-skip' if forward else 'nonmonotonic-poll'}",
                _shown(rows.filter((pl.col("within") == within) & (_FORWARD if forward else ~_FORWARD))),
                run,
                offset="at",
                processes=["process"],
                time="time",
                until="to_time",
                events=("event", "to_event"),
                tags=OF_STEP if forward else OF_STEP_BACK,
                severity="severity",
                facts=FROM_TO,
            )
            for within in (False, True)
            for forward in (False, True)
        ),
        run.limit,
    )


def _shown(steps: pl.DataFrame) -> pl.DataFrame:
    return steps.rename({"offset": "from_offset", "to": "to_offset"})


def _gap_findings(loose: pl.DataFrame, judged: Sequence[JudgedSteps], gathered: OddSteps, run: RunContext) -> Findings:
    """Gaps in places where nothing explains them."""
    gaps = _once(pl.concat([loose, *(each.gaps for each in judged)], how="diagonal"))
    counted = [each.counts.select(*PLACE, "missing") for each in judged]
    left = _without(_unexplained([_missing_in(gaps), *counted], gathered.places), gathered.explained, PLACE)
    result = _as_gaps(_tagged(gaps.join(left, on=PLACE, maintain_order="left"), gathered.moves), run)
    if judged:
        result.add(_counted_gaps(judged, left, run), run.limit)
    return result


def _counted_gaps(judged: Sequence[JudgedSteps], left: pl.DataFrame, run: RunContext) -> Findings:
    """Those of which pieces kept the first and the worst, and counted the others."""
    kept = _as_gaps(pl.concat([each.kept for each in judged]).join(left, on=PLACE, maintain_order="left"), run)
    tags = [*OF_STEP, "transactions"]
    counts = (
        pl.concat([each.counts for each in judged]).join(left, on=PLACE).group_by(*tags, "damaged").agg(pl.sum("len"))
    )
    for row in counts.to_dicts() if run.wants("gap") else ():
        kept.counts["gap", tuple(row[tag] for tag in tags if row[tag]), row["damaged"]] = row["len"]
    return kept


def _as_gaps(rows: pl.DataFrame, run: RunContext) -> Findings:
    return make_findings(
        "gap",
        _shown(rows.with_columns(at=pl.col("offset") + 1, missing=_MISSING)),
        run,
        offset="at",
        processes=["process"],
        time="time",
        until="to_time",
        events=("event", "to_event"),
        tags=(*OF_STEP, "transactions"),
        severity="missing",
        facts=(*FROM_TO, "missing"),
    )


FAMILIES: tuple[Family, ...] = (Order(),)
