"""Retries and idempotence, as the taps saw them: what became of each batch that a producer had numbered.

A *batch* is told by its partition, life, producer id, producer epoch and base sequence, all of them >= 0. A life is an
era of `checkers.core.deletions`; what may belong to two lives is one life by itself, and what is found there is tagged
`deleted topic`. Rows without topic or partition are left out.

A *sending* is a row of a Produce exchange (api 0), whatever its type; it is *acknowledged* if its error is 0 and its
offset >= 0. A *copy* is a row of a Fetch exchange (api 1) of type ok with error 0 and an offset >= 0, which is the base
offset of the batch. Errors, 46 (a duplicate that the broker refuses) among them, are no acknowledgements.

retry-duplicate        a batch has copies at two different offsets (`read twice`), or else acknowledged sendings with
                       two different offsets (`acknowledged twice`); one finding per batch
retry-offset-changed   a batch has acknowledged sendings with two different offsets, and all its acknowledged sendings
                       have one checksum (not null); one finding per batch
retry-reorder          a batch's place is the lowest offset of its copies, or without any that of its acknowledged
                       sendings; one without both does not count. In one partition, life, producer id and epoch: a batch
                       with a lower place than the one with the next lower sequence has, unless that is more than 2^30
                       lower (sequences begin again after 2^31 - 1); one finding per batch
retry-watermark-regression
                       here a batch of a producer that does not number (any of the three is null or < 0) counts too,
                       told by its partition, life, client id (null is one, too) and checksum (not null). A batch is
                       *resent* if it has sendings in two or more exchanges (`op`), all to one node, with error 0 in one
                       or more of them; it was resent at the highest `invoked` of its sendings, and handled at their
                       highest `time`. A mark is the high watermark (not null) of a Fetch, or the offset (not null) of a
                       ListOffsets for the latest (view 2), of that node, partition and life, in a probe or an exchange
                       of type ok, with error 0. Before: the highest mark of those with resent - 2 s <= `time` <
                       resent; after: the lowest one of those with `invoked` > handled and `time` <= handled + 2 s;
                       both of one request (api). One finding per batch and request if after < before
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, GroupBy, Ints, Lanes, ints, nullable
from checkers.core.deletions import UNSURE
from checkers.core.family import Family, FamilyResult, PiecewiseFamily
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.node_answers import EXCHANGES, FETCH, LIST_OFFSETS, PROBES, PRODUCE
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from harness.history.schema import Type

NEAR_NS = 2_000_000_000
WRAP = 1 << 30
MOST_KEYS = 1 << 62

_DUPLICATE, _OFFSET_CHANGED, _REORDER = "retry-duplicate", "retry-offset-changed", "retry-reorder"
_REGRESSION = "retry-watermark-regression"
_PLACE = ("topic", "partition", "era")
_PRODUCER = (*_PLACE, "producer_id", "producer_epoch")
_BATCH = ("event", "time", "type", "api", "topic", "partition", "offset", "error", "producer_id", "producer_epoch",
          "sequence", "crc")  # fmt: skip
_PLACED = pl.col("topic").is_not_null() & pl.col("partition").is_not_null()
_NUMBERED = (
    (pl.col("producer_id") >= 0) & (pl.col("producer_epoch") >= 0) & (pl.col("sequence") >= 0)
).fill_null(value=False)  # fmt: skip
_APPENDED = (pl.col("error") == 0) & (pl.col("offset") >= 0)
_ACKNOWLEDGED = (pl.col("api") == PRODUCE) & _APPENDED
_COPY = (pl.col("api") == FETCH) & (pl.col("type") == Type.OK) & _APPENDED
_DELETED = pl.when(pl.col("era") == UNSURE).then(pl.lit("deleted topic"))


def _packed(*columns: Ints) -> Ints:
    """Several columns as one, in the same order: side by side, and by rank where they are too wide for that."""
    packed, width = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        span, moved = high - low + 1, column - low
        if width * span > MOST_KEYS:
            packed, moved = GroupBy(packed).number(), GroupBy(moved).number()
            width, span = int(packed.max()) + 1, int(moved.max()) + 1
        packed, width = packed * span + moved, width * span
    return packed


class NumberedBatches(PiecewiseFamily):
    """Where numbered batches were acknowledged and read."""

    name = "batches"
    anomalies: ClassVar[Mapping[str, str]] = {
        _DUPLICATE: "a batch with one producer id, epoch and sequence was appended twice",
        _OFFSET_CHANGED: "a batch that was sent again was acknowledged at another offset",
        _REORDER: "a producer's batches were appended out of the order of their sequences",
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {"exchanges": _BATCH}

    def needs(self, run: RunContext) -> bool:
        """What passed a tap."""
        return run.asks(PRODUCE, FETCH)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """All batches of the partitions in it."""
        looked_at, findings = Counter(dict.fromkeys(self.anomalies, 0)), []
        edges = [pl.DataFrame()]
        for rows in piece.portions(
            "exchanges", _BATCH, _PLACED & _NUMBERED & (_ACKNOWLEDGED | _COPY), *map(pl.col, _PRODUCER), _stretch(run)
        ):
            if rows.is_empty():
                continue
            batches = _Batches(rows, run.stretch)
            looked_at[_DUPLICATE] += len(batches.groups)
            looked_at[_OFFSET_CHANGED] += int((batches.low_ack != NEVER).sum())
            looked_at[_REORDER] += int((batches.place_before != NONE).sum())
            findings.append(_of_batches(batches, run))
            if run.many:
                edges.append(batches.edges())
        beside = _beside(pl.concat(edges, how="diagonal"))
        looked_at[_REORDER] += len(beside)
        if len(beside):
            findings.append(_reorders(beside, run))
        return FamilyResult(merge_findings(findings, run.limit), dict(looked_at))


def _stretch(run: RunContext) -> pl.Expr:
    """Sequences are looked at by stretches, as offsets are."""
    return pl.col("sequence") // run.stretch


def _beside(edges: pl.DataFrame) -> pl.DataFrame:
    """The first batch of each stretch of sequences, but for the first stretch, with the batch before it."""
    if edges.is_empty():
        return edges
    before = {f"{name}_before": pl.col(name).shift().over(_PRODUCER) for name in ("place", "sequence")}
    told = edges.sort(*_PRODUCER, "sequence").with_columns(**before)
    wrapped = pl.col("sequence") - pl.col("sequence_before") > WRAP
    return told.filter(pl.col("begins") & pl.col("place_before").is_not_null()).with_columns(
        reordered=(pl.col("place") < pl.col("place_before")) & ~wrapped
    )


class _Batches:
    """One entry for each batch, by producer and sequence: where it was acknowledged and read, and the one before it.

    In a large history a lane has a stretch of sequences of a producer, and its first batch none before it.
    """

    def __init__(self, rows: pl.DataFrame, stretch: int) -> None:
        self.rows = rows
        producer, sequence = _packed(*(ints(rows, name) for name in _PRODUCER)), ints(rows, "sequence")
        key = _packed(producer, sequence)
        self.groups = groups = GroupBy(key, np.argsort(key))
        self.offset, self.copy = ints(rows, "offset"), ints(rows, "api") == FETCH
        self.low_copy, self.high_copy = groups.min(self.offset, self.copy), groups.max(self.offset, self.copy)
        self.low_ack, self.high_ack = groups.min(self.offset, ~self.copy), groups.max(self.offset, ~self.copy)
        self.place = np.where(self.low_copy == NEVER, self.low_ack, self.low_copy)
        self.first = groups.order[groups.starts]
        self.sequence = sequence[self.first]
        self.lanes = lanes = Lanes(_packed(producer[self.first], self.sequence // stretch))
        self.place_before, self.sequence_before = lanes.shifted(self.place), lanes.shifted(self.sequence)

    @property
    def read_twice(self) -> Bools:
        """Copies at two offsets."""
        return self.low_copy < self.high_copy

    @property
    def acknowledged_twice(self) -> Bools:
        """Acknowledgements of two offsets."""
        return self.low_ack < self.high_ack

    @property
    def reordered(self) -> Bools:
        """Below the one before."""
        return (self.place < self.place_before) & (self.sequence - self.sequence_before <= WRAP)

    def edges(self) -> pl.DataFrame:
        """The first and the last batch of each lane; the first `begins` it."""
        begins, ends = np.zeros(len(self.first), np.bool_), np.zeros(len(self.first), np.bool_)
        begins[self.lanes.starts] = True
        ends[np.append(self.lanes.starts[1:], len(begins)) - 1] = True
        either = begins | ends
        return self.chosen(either).with_columns(begins=pl.Series(begins[either]))

    def chosen(self, which: Bools) -> pl.DataFrame:
        """These batches, with what proves where they were: events of their lowest and highest places."""
        copy, offset, number = self.copy, self.offset, self.groups.number()
        event, time = ints(self.rows, "event"), ints(self.rows, "time")
        crc = ints(self.rows, "crc")
        acknowledged = ~copy

        def event_of(kind: Bools, place: Ints) -> Ints:
            return self.groups.min(event, kind & (offset == place[number]))

        low_crc, high_crc = self.groups.min(crc, acknowledged), self.groups.max(crc, acknowledged)
        return pl.DataFrame({
            **{name: self.rows[name].gather(self.first) for name in (*_PRODUCER, "sequence")},
            "low_copy": self.low_copy, "high_copy": self.high_copy, "low_ack": self.low_ack, "high_ack": self.high_ack,
            "low_copy_event": nullable(event_of(copy, self.low_copy), NEVER),
            "high_copy_event": nullable(event_of(copy, self.high_copy), NEVER),
            "low_ack_event": nullable(event_of(acknowledged, self.low_ack), NEVER),
            "high_ack_event": nullable(event_of(acknowledged, self.high_ack), NEVER),
            "place": self.place, "place_before": self.place_before, "sequence_before": self.sequence_before,
            "acks": self.groups.count(acknowledged), "one_crc": (low_crc == high_crc) & (low_crc != NONE),
            "time": self.groups.min(time), "until": self.groups.max(time),
            "read_twice": self.read_twice, "acknowledged_twice": self.acknowledged_twice, "reordered": self.reordered,
        }).filter(pl.Series(which)).with_columns(deleted=_DELETED)  # fmt: skip


def _of_batches(batches: _Batches, run: RunContext) -> Findings:
    wrong = batches.read_twice | batches.acknowledged_twice | batches.reordered
    if not wrong.any():
        return Findings()
    rows = batches.chosen(wrong)
    told = [_duplicates(rows, run), _offset_changes(rows, run), _reorders(rows, run)]
    return merge_findings(told, run.limit)


_NUMBERS = ("producer_id", "producer_epoch", "sequence")


def _duplicates(rows: pl.DataFrame, run: RunContext) -> Findings:
    """Batches that were appended twice."""
    was_read = pl.when("read_twice")
    wrong = (
        rows.filter(pl.col("read_twice") | pl.col("acknowledged_twice"))
        .with_columns(
            how=was_read.then(pl.lit("read twice")).otherwise(pl.lit("acknowledged twice")),
            low_offset=was_read.then("low_copy").otherwise("low_ack"),
            high_offset=was_read.then("high_copy").otherwise("high_ack"),
            first=was_read.then("low_copy_event").otherwise("low_ack_event"),
            last=was_read.then("high_copy_event").otherwise("high_ack_event"),
        )
        .with_columns(apart=pl.col("high_offset") - pl.col("low_offset"))
    )
    return make_findings(
        _DUPLICATE, wrong, run, offset="low_offset", processes=(), time="time", until="until", events=["first", "last"],
        tags=["how", "deleted"], severity="apart", facts=[*_NUMBERS, "low_offset", "high_offset"],
    )  # fmt: skip


def _offset_changes(rows: pl.DataFrame, run: RunContext) -> Findings:
    """Batches that were acknowledged at two offsets."""
    wrong = rows.filter(pl.col("acknowledged_twice") & pl.col("one_crc")).with_columns(
        low_offset=pl.col("low_ack"), high_offset=pl.col("high_ack"), apart=pl.col("high_ack") - pl.col("low_ack")
    )
    return make_findings(
        _OFFSET_CHANGED, wrong, run, offset="low_offset", processes=(), time="time", until="until",
        events=["low_ack_event", "high_ack_event"], tags=["deleted"], severity="apart",
        facts=[*_NUMBERS, "low_offset", "high_offset", "acks"],
    )  # fmt: skip


def _reorders(rows: pl.DataFrame, run: RunContext) -> Findings:
    """Batches that were appended out of order."""
    was_read = pl.col("low_copy_event").is_not_null()
    wrong = rows.filter("reordered").with_columns(
        how=pl.when(was_read).then(pl.lit("read")).otherwise(pl.lit("acknowledged")),
        first=pl.coalesce("low_copy_event", "low_ack_event"),
        apart=pl.col("place_before") - pl.col("place"),
    )
    return make_findings(
        _REORDER, wrong, run, offset="place", processes=(), time="time", until="until", events=["first"],
        tags=["how", "deleted"], severity="apart", facts=[*_NUMBERS, "sequence_before", "place_before"],
    )  # fmt: skip


class Resends(PiecewiseFamily):
    """Batches that were sent again, and the marks before and after that."""

    name = "resends and watermarks"
    anomalies: ClassVar[Mapping[str, str]] = {_REGRESSION: "a watermark fell right after a batch was sent again"}
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "probes": PROBES,
        "exchanges": tuple(dict.fromkeys([*EXCHANGES, *_BATCH, "client"])),
    }

    def needs(self, run: RunContext) -> bool:
        """Batches that passed a tap."""
        return run.asks(PRODUCE)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """All that were sent again, in the partitions of it."""
        batch = pl.when(_NUMBERED).then(pl.struct(*_PRODUCER, "sequence").hash())
        same = batch.otherwise(pl.struct(*_PLACE, "crc", "client").hash())
        produced = (pl.col("api") == PRODUCE) & _PLACED
        resent = pl.concat(
            [_resent(rows) for rows in piece.portions("exchanges", self.reads["exchanges"], produced, same)]
        )
        if resent.is_empty():
            return FamilyResult(Findings(), {_REGRESSION: 0})
        compared = _compared(resent, piece.answer_parts()).drop_nulls(["before", "after"])
        fell = compared.filter(pl.col("after") < pl.col("before")).with_columns(
            apart=pl.col("before") - pl.col("after"),
            deleted=_DELETED,
            of=pl.when(pl.col("api") == FETCH).then(pl.lit("watermark")).otherwise(pl.lit("end offset")),
        )
        findings = make_findings(
            _REGRESSION, fell, run, offset="after", processes=(), nodes=["node"], time="resent_ns", until="handled_ns",
            events=["batch", "event"], tags=["of", "deleted"], severity="apart",
            facts=["node", "before", "after", "resent_ns", "handled_ns"],
        )  # fmt: skip
        return FamilyResult(findings, {_REGRESSION: len(compared)})


def _resent(sendings: pl.DataFrame) -> pl.DataFrame:
    """Batches that were sent again, all times to one node."""
    numbered = sendings.filter(_NUMBERED)
    others = sendings.filter(~_NUMBERED & pl.col("crc").is_not_null())
    client = others["client"].cast(pl.Categorical).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    return pl.concat([
        _sent_again(numbered, [ints(numbered, name) for name in (*_PRODUCER, "sequence")]),
        _sent_again(others, [*(ints(others, name) for name in (*_PLACE, "crc")), client]),
    ])  # fmt: skip


def _sent_again(sendings: pl.DataFrame, columns: Sequence[Ints]) -> pl.DataFrame:
    """Of sendings, told apart by some columns, batches with several exchanges."""
    if sendings.is_empty():
        columns, groups = [], GroupBy(np.zeros(0, np.int64))
    else:
        key = _packed(*columns)
        groups = GroupBy(key, np.argsort(key))
    op, node = ints(sendings, "op"), ints(sendings, "node")
    asked, times = op != NONE, {name: ints(sendings, name) for name in ("invoked", "time", "event")}
    again = groups.min(op, asked) < groups.max(op, asked)
    again &= (groups.min(node) == groups.max(node)) & (groups.min(node) != NONE)
    again &= groups.any(ints(sendings, "error") == 0)
    return pl.DataFrame({
        **{name: sendings[name].gather(groups.order[groups.starts]) for name in (*_PLACE, "node")},
        "resent_ns": groups.max(times["invoked"]), "handled_ns": groups.max(times["time"]),
        "batch": groups.min(times["event"]), "event": groups.max(times["event"]),
    }).filter(pl.Series(again, dtype=pl.Boolean))  # fmt: skip


def _compared(resent: pl.DataFrame, answers: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """For each batch that was sent again, and request, the marks of its node before and after it."""
    keys = [*_PLACE, "node"]
    nodes = resent.select(keys).unique().with_row_index("log")
    logs = pl.concat([
        nodes.with_columns(pl.col("log") * 2 + number, api=pl.lit(api, pl.Int16))
        for number, api in enumerate((FETCH, LIST_OFFSETS))
    ])  # fmt: skip
    asked = resent.join(logs, on=keys)
    before, after = np.full(len(asked), NONE), np.full(len(asked), NONE)
    for rows in answers:
        marks = rows.filter(pl.col("shown").is_not_null()).join(logs, on=[*keys, "api"])
        near = marks.select("log", low=pl.col("time") + 1, high=pl.col("time") + NEAR_NS, mark="shown")
        before = np.maximum(before, _highest(asked, "resent_ns", near))
        near = marks.select("log", low=pl.col("time") - NEAR_NS, high=pl.col("invoked") - 1, mark=-pl.col("shown"))
        after = np.maximum(after, _highest(asked, "handled_ns", near))
    return asked.with_columns(before=nullable(before), after=-nullable(after))


def _highest(rows: pl.DataFrame, moment: str, marks: pl.DataFrame) -> Ints:
    """For each row the highest mark of its log that counts at a moment; each does from `low` to `high`."""
    points = rows.select("log", pl.col(moment).alias("moment")).with_row_index("row").sort("log", "moment")
    ordered = points.with_row_index("point").sort("moment", maintain_order=True)
    first, last = (ordered.select("log", "moment", pl.col("point").alias(name)) for name in ("first", "last"))
    covering = (
        marks.filter(pl.col("low") <= pl.col("high"))
        .sort("low")
        .join_asof(first, left_on="low", right_on="moment", by="log", strategy="forward", check_sortedness=False)
        .sort("high")
        .join_asof(last, left_on="high", right_on="moment", by="log", check_sortedness=False)
        .filter(pl.col("first") <= pl.col("last"))
    )
    highest = np.full(len(points), NONE)
    highest[points["row"].to_numpy()] = highest_over(
        ints(covering, "first"), ints(covering, "last"), ints(covering, "mark"), len(points)
    )
    return highest


def highest_over(first: Ints, last: Ints, value: Ints, count: int) -> Ints:
    """For each of so many neighbours the highest value of all spans that it lies in; NONE without any.

    A span is two spans, which may overlap, of a power of two: those are halved from the longest to the shortest.
    """
    power = np.frexp((last - first + 1).astype(np.float64))[1] - 1
    highest = np.full(count, NONE)
    for each in range(int(power.max(initial=0)), -1, -1):
        mine, half = power == each, (1 << each) >> 1
        np.maximum.at(highest, first[mine], value[mine])
        np.maximum.at(highest, last[mine] - (1 << each) + 1, value[mine])
        if half:
            whole = highest.copy()
            np.maximum(highest[half:], whole[:-half], out=highest[half:])
    return highest


FAMILIES: tuple[Family, ...] = (NumberedBatches(), Resends())
