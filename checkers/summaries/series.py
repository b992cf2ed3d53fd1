"""Series: what the report draws, small tables over the time of a run.

Time from the begin of the load on is cut into at most BUCKETS buckets of a round length; what happened before is left
out. At most PARTITIONS partitions are drawn: those with findings first, then the busiest; the sends and reads of all
others are one sum, `others`. What has findings is not known before everything else is over: every partition is counted,
and `drawn` makes the series when all findings are there. All times in it are nanoseconds since the history began, and a
point of a series is `[bucket, …]`.

flow       per partition: sends that ended `ok` or `fail` in a bucket, or that were sent in it and ended `info`; the
           highest offset acknowledged in it, plus one; and records that the load's consumers were handed
errors     how many operations of clients ended with which error
latency    of sends that were acknowledged, from the call to its end: percentiles, which a histogram of 8 classes an
           octave gives to within 9 percent, and the exact maximum
marks      per partition and node: the high watermark (Fetch) and the end (ListOffsets) that it showed to anybody; a
           point where it changed, both where it fell and rose again inside a bucket, and a null where it said
           nothing for SILENCE_NS or longer
leaders    per partition and node: leader, epoch and in-sync replicas that its Metadata told, where they changed
refusals   who asked whom and was told that it does not lead

In a history that is large and has thousands of partitions, those of which little is told have no marks and no leaders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.node_answers import EXCHANGES, METADATA, PROBES
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.core.tables import empty
from harness.foundation.protocol import NOT_LEADING, ErrorCode
from harness.history.schema import F, Type

BUCKETS = 300
REFUSALS = 200
SAMPLES = 6  # moments of the load at which appends of a partition are shown
ROWS_AT_MOST = (
    50_000  # of marks, and of leaders, of a piece: beyond that, partitions of which little is told go without
)
CLASSES = 8  # of latencies, an octave
PERCENTILES = (0.5, 0.9, 0.99)
OTHERS = "others"
OWN_CLIENT = "tidegauge"  # of all that is no worker
ERRORS = 12  # different ones that are told apart
OTHER_ERRORS = "other errors"
SILENCE_NS = 2_000_000_000  # of a node; what it shows after that does not go on from what it showed before
PLACE = ("topic", "partition")
Place = tuple[int, int]
Tables = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Grid:
    """How time is cut."""

    first_ns: int
    last_ns: int

    @classmethod
    def of(cls, run: RunContext) -> Grid:
        """From the begin of the load on."""
        return cls(max(run.first_time_ns, min(run.line.load_ns[0], run.last_time_ns)), run.last_time_ns)

    @property
    def bucket_ns(self) -> int:
        """The shortest of 1, 2, 5, 10, … milliseconds of which few enough cover all."""
        lasted_ns, unit = self.last_ns - self.first_ns, 1_000_000
        while True:
            for step in (1, 2, 5):
                if lasted_ns // (step * unit) < BUCKETS:
                    return step * unit
            unit *= 10

    @property
    def silence(self) -> int:
        """Buckets in which a node says nothing before its line is broken."""
        return max(2, SILENCE_NS // self.bucket_ns)

    def cut(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the bucket that their time is in, without what was before."""
        since = pl.col("time") - self.first_ns
        return rows.filter(since >= 0).with_columns(bucket=(since // self.bucket_ns).cast(pl.Int16))


ENDINGS = tuple(type_.name.lower() for type_ in Type)
_SUMS: dict[str, tuple[tuple[str, ...], tuple[pl.Expr, ...]]] = {  # keys of tables, and how what they count adds up
    "sends": ((*PLACE, "bucket"), (pl.col(ENDINGS).sum(), pl.col("last").max())),
    "reads": ((*PLACE, "bucket"), (pl.col("count").sum(),)),
    "exchanges": (PLACE, (pl.col("count").sum(),)),
    "errors": (("error", "bucket"), (pl.col("count").sum(),)),
    "latency": (("bucket", "class"), (pl.col("count").sum(), pl.col("longest").max())),
    "refusals": (
        ("client", "node", "api", *PLACE),
        (pl.col("count").sum(), pl.col("first").min(), pl.col("last").max()),
    ),
}


def _count() -> pl.Expr:
    return pl.len().cast(pl.Int64)


def series_of(piece: Piece, run: RunContext) -> dict[str, pl.DataFrame]:
    """The tables of a piece."""
    grid = Grid.of(run)
    return {
        "sends": sends(piece.sends, grid),
        "reads": reads(piece.records.filter(by(run.load)), grid),
        "errors": _added("errors", [errors(rows, grid) for rows in (piece.sends, piece.ops)]),
        "latency": latency(piece.sends, grid),
        "middles": middles(piece.sends, run),
        "marks": _bounded(marks(piece.answer_parts(), grid), run),
        "leaders": _bounded(leaders(_told(piece, run), grid), run),
        "refusals": most_refused(_added("refusals", [refusals(rows) for rows in piece.parts("exchanges", _REFUSALS)])),
        "exchanges": _added("exchanges", [exchanges(rows) for rows in _busy(piece, run)]),
    }


def together(parts: Sequence[Tables]) -> Tables:
    """The tables of all pieces."""
    if len(parts) == 1:
        return parts[0]
    tables = {name: _added(name, [part[name] for part in parts]) for name in _SUMS}
    # all answers of a partition are in one piece
    tables |= {name: pl.concat([part[name] for part in parts]) for name in ("marks", "leaders")}
    return {**tables, "middles": _nearest(pl.concat([part["middles"] for part in parts]))}


def _bounded(rows: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Of the partitions of one of many pieces those about which most is told, as many as there is room for."""
    if not run.many or len(rows) <= ROWS_AT_MOST:
        return rows
    counts = rows.group_by(PLACE).len().sort("len", *PLACE, descending=[True, False, False])
    kept = counts.filter(pl.col("len").cum_sum() - pl.col("len") < ROWS_AT_MOST)
    return rows.join(kept, on=PLACE, how="semi", maintain_order="left")


def _added(name: str, tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    keys, totals = _SUMS[name]
    return tables[0] if len(tables) == 1 else pl.concat(tables).group_by(keys).agg(totals)


def sends(rows: pl.DataFrame, grid: Grid) -> pl.DataFrame:
    """Per partition and bucket how sends ended, and the highest offset that was acknowledged."""
    # of a send of which nobody knows the end, when it was sent: how long its client waited says nothing
    told = pl.when(pl.col("type") == Type.INFO).then("invoked").otherwise("time")
    ends = {type_.name.lower(): (pl.col("type") == type_).sum() for type_ in Type}
    last = pl.col("offset").filter(pl.col("type") == Type.OK).max()
    cut = grid.cut(rows.select(*PLACE, "type", "offset", time=told))
    return cut.group_by(_SUMS["sends"][0]).agg(**ends, last=last)


def latency(rows: pl.DataFrame, grid: Grid) -> pl.DataFrame:
    """Per bucket a histogram of microseconds, and the most."""
    took = ((pl.col("time") - pl.col("invoked")) // 1000).clip(1)
    ended = grid.cut(rows.filter(pl.col("type") == Type.OK).select("time", took=took))
    class_ = np.floor(CLASSES * np.log2(ended["took"].to_numpy())).astype(np.int32)
    return (
        ended.with_columns(pl.Series("class", class_))
        .group_by("bucket", "class")
        .agg(count=pl.len().cast(pl.Int64), longest=pl.col("took").max())
    )


def reads(rows: pl.DataFrame, grid: Grid) -> pl.DataFrame:
    """Per partition and bucket how many records were handed out."""
    return grid.cut(rows.select(*PLACE, "time")).group_by(_SUMS["reads"][0]).agg(count=pl.len())


def errors(rows: pl.DataFrame, grid: Grid) -> pl.DataFrame:
    """How many operations ended with which error."""
    failed = rows.filter(pl.col("error").fill_null(0) != 0)
    return grid.cut(failed.select("error", "time")).group_by(_SUMS["errors"][0]).agg(count=_count())


def exchanges(rows: pl.DataFrame) -> pl.DataFrame:
    """How much passed the taps; where nobody recorded sends, this tells what is busy."""
    placed = pl.col("topic").is_not_null() & pl.col("partition").is_not_null()
    return rows.filter(placed).group_by(PLACE).agg(count=_count())


def _moment(run: RunContext) -> int:
    """When something was broken first, or else the middle of the load."""
    began = [fault.injected_ns for fault in run.line.faults if fault.injected_ns is not None]
    return min(began, default=sum(run.line.load_ns) // 2)


def middles(rows: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Per partition the offsets next to a moment (sample 0) and in the middles of SAMPLES parts of the load."""
    acknowledged = rows.filter((pl.col("type") == Type.OK) & (pl.col("offset") >= 0) & has_partition())
    placed = acknowledged.select(*PLACE, "offset", "time")
    begin, end = run.line.load_ns
    part_ns = max(1, (end - begin) // SAMPLES)
    part = (pl.col("time") - begin) // part_ns
    away = (pl.col("time") - (begin + part * part_ns + part_ns // 2)).abs()
    samples = placed.filter(part.is_between(0, SAMPLES - 1)).select(
        *PLACE, "offset", sample=(part + 1).cast(pl.Int32), away=away
    )
    first = placed.select(*PLACE, "offset", sample=pl.lit(0, pl.Int32), away=(pl.col("time") - _moment(run)).abs())
    return pl.concat([_nearest(first), _nearest(samples)])


def _nearest(rows: pl.DataFrame) -> pl.DataFrame:
    nearest = rows.filter(pl.col("away") == pl.col("away").min().over(*PLACE, "sample"))
    return nearest.group_by(*PLACE, "sample").agg(pl.col("offset", "away").min())


def has_partition() -> pl.Expr:
    """Whether topic and partition are known."""
    return pl.col("topic").is_not_null() & pl.col("partition").is_not_null()


def marks(answers: Iterable[pl.DataFrame], grid: Grid) -> pl.DataFrame:
    """Per partition, node and API the points of its line: bucket, and the mark or null."""
    parts = [_by_bucket(rows, grid) for rows in answers]
    by_bucket = parts[0] if len(parts) == 1 else (
        pl.concat(parts)
        .sort("time", "event")
        .group_by(*_LINE, "bucket")
        .agg(pl.col("low").min(), pl.col("high").max(), pl.col("last").last())
    )  # fmt: skip
    return thinned(points(by_bucket.sort(*_LINE, "bucket"), grid.silence))


_LINE = (*PLACE, "node", "api")


def _by_bucket(answers: pl.DataFrame, grid: Grid) -> pl.DataFrame:
    shown = answers.filter((pl.col("shown") >= 0) & pl.col("node").is_not_null())
    return (
        grid.cut(shown.select(*_LINE, "shown", "time", "event"))
        .sort("time", "event")
        .group_by(*_LINE, "bucket")
        .agg(low=pl.col("shown").min(), high=pl.col("shown").max(), last=pl.col("shown").last(),
             time=pl.col("time").last(), event=pl.col("event").last())
    )  # fmt: skip


def points(rows: pl.DataFrame, silence: int) -> pl.DataFrame:
    """What nodes showed in each bucket, as points; a break where one said nothing for longer than so many buckets."""
    before, earlier = (pl.when(~_other_line(1)).then(pl.col(name).shift()) for name in ("last", "bucket"))
    told = rows.with_columns(before=before, earlier=earlier).with_row_index("number")
    # what fell and rose again inside of a bucket is the point of it all
    extreme = pl.when(pl.col("low") < pl.col("before")).then("low").otherwise("high")
    broken = told.filter(pl.col("bucket") - pl.col("earlier") > silence)
    parts = [
        broken.select(*_LINE, "number", step=0, bucket="earlier", value=pl.lit(None, pl.Int64)),
        told.select(*_LINE, "number", step=1, bucket="bucket", value=extreme),
        told.filter(extreme != pl.col("last")).select(*_LINE, "number", step=2, bucket="bucket", value="last"),
    ]
    return pl.concat(parts).sort("number", "step").drop("number", "step")


def thinned(rows: pl.DataFrame) -> pl.DataFrame:
    """Without the points between two of the same value."""
    value = pl.col("value")
    changes = value.ne_missing(value.shift()) | value.ne_missing(value.shift(-1))
    return rows.filter(_other_line(1) | _other_line(-1) | changes)


def _other_line(step: int) -> pl.Expr:
    """Whether the row so many rows before is of another line, or there is none; lines follow each other."""
    return pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(step)) for name in _LINE)


def _busy(piece: Piece, run: RunContext) -> Iterator[pl.DataFrame]:
    """Exchanges, if nobody recorded sends."""
    if run.does(F.SEND):
        return iter([empty("exchanges")])
    return piece.parts("exchanges", PLACE)


def _told(piece: Piece, run: RunContext) -> Iterator[pl.DataFrame]:
    """What nodes said of leaders; to probes, and to others where there were none."""
    if run.probes_by(METADATA):
        return piece.parts("probes", _LEADERS)
    passed = piece.parts("exchanges", (*_LEADERS, "type"))
    return (rows.filter(pl.col("type") == Type.OK) for rows in passed)


def leaders(answers: Iterable[pl.DataFrame], grid: Grid) -> pl.DataFrame:
    """Per partition and node what it said of the leader, where that changed."""
    said, node = ("leader", "leader_epoch", "isr"), (*PLACE, "node")
    told = (
        (pl.col("api") == METADATA)
        & pl.col("error").is_in([ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE])
        & pl.col("node").is_not_null()
    )
    parts = [
        grid.cut(rows.filter(told & has_partition()).with_columns(pl.col("leader").fill_null(-1)))
        .group_by(*node, *said, "bucket")
        .agg(pl.col("time").min())
        for rows in answers
    ]
    whole = parts[0] if len(parts) == 1 else pl.concat(parts).group_by(*node, *said, "bucket").agg(pl.col("time").min())
    claims = whole.sort(*node, "time", "bucket", *said)
    changed = pl.lit(value=False)
    for name in (*node, *said):
        changed |= pl.col(name).ne_missing(pl.col(name).shift())
    first = pl.int_range(pl.len()) == 0
    return claims.filter(changed | first).select(*node, "time", *said)


def refusals(rows: pl.DataFrame) -> pl.DataFrame:
    """Who asked whom in vain; the harness's own requests, which ask every node on purpose, are left out."""
    refused = pl.col("error").is_in(NOT_LEADING) & (pl.col("type") == Type.OK)
    of_others = pl.col("client").fill_null("") != OWN_CLIENT
    return (
        rows.filter(refused & of_others)
        .group_by(_SUMS["refusals"][0])
        .agg(count=_count(), first=pl.col("time").min(), last=pl.col("time").max())
    )


def most_refused(rows: pl.DataFrame) -> pl.DataFrame:
    """The most frequent ones; those without a place may be in several pieces."""
    ordered = rows.sort(-pl.col("count"), "client", "node", "api", *PLACE, nulls_last=False)
    rank = pl.int_range(pl.len()).over(has_partition())
    return ordered.filter(~has_partition() | (rank < REFUSALS))


_REFUSALS = ("type", "error", "client", "node", "api", *PLACE, "time")
_LEADERS = ("api", "error", "node", *PLACE, "time", "leader", "leader_epoch", "isr")
_SENDS = ("type", "invoked", "time", "error", *PLACE, "offset")


class SeriesFamily(Family):
    """`others["series"]`, which is the summary as well, has the tables that `drawn` makes series of."""

    name = "series"
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "sends": _SENDS,
        "ops": ("error", "time"),
        "records": ("process", "time", *PLACE),
        "probes": (*PROBES, "leader", "isr"),
        "exchanges": (*EXCHANGES, "client", "leader", "isr"),
    }

    def survey(self, piece: Piece, run: RunContext) -> dict[str, pl.DataFrame]:
        """The tables of a piece."""
        return series_of(piece, run)

    def gather(
        self,
        surveys: Sequence[Tables],
        run: RunContext,
        others: ByFamily,
    ) -> Tables:
        """The tables of all pieces."""
        return together(surveys or [series_of(Piece({}, run), run)])

    def conclude(self, gathered: Tables, judged: Sequence[Any], run: RunContext, others: ByFamily) -> FamilyResult:
        """The summary is these tables: what is drawn depends on what others find."""
        return FamilyResult(summary=gathered)


FAMILIES: tuple[Family, ...] = (SeriesFamily(),)
