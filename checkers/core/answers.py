"""What nodes answered about a partition, to probes and, with a tap, to any client: the rows that marks are read from.

An *answer* is a response without an error, to a probe or to anybody's request that passed the tap and was answered. It
was given somewhere between `invoked` (its request left) and `time` (its response was there). It shows

    a high watermark, a last stable offset and a log start   to Fetch
    an end, a last stable offset or a log start              to ListOffsets (latest, latest committed or earliest)

as far as they are not null; a last stable offset or a log start that is negative is none. `told` is the leader epoch
that it names for certain: that of the request of a Fetch, and that of whoever answered a ListOffsets (but for the
earliest offset, where it is the epoch of a record); null if none, or negative.

An answer is *led*, only a leader can have given it, if it is to ListOffsets, to a probe, or to a Fetch of a version
below 11 that named its leader epoch. Followers answer Fetch too, from version 11 on, with marks that lag by design.

`era` is the life of a topic that the workload deleted (`checkers.deletions`), else 0.
"""

from __future__ import annotations

import polars as pl

from harness.history import Type, View

SETTLING_NS = 2_000_000_000
PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
FETCH_OF_FOLLOWERS = 11  # the first version that they answer
EVERYWHERE = -(1 << 40)  # the scope of answers that are compared with those of all nodes

# the columns that are needed of probes and of exchanges
PROBES = ("event", "time", "invoked", "node", "api", "view", "topic", "partition", "offset", "high_watermark",
          "last_stable_offset", "log_start", "leader_epoch", "error")  # fmt: skip
EXCHANGES = (*PROBES, "op", "type", "api_version")

_PLACED = pl.col("topic").is_not_null() & pl.col("partition").is_not_null()


def answers(probes: pl.DataFrame, exchanges: pl.DataFrame) -> pl.DataFrame:
    """A row per answer, and per batch of a Fetch: a Fetch has a row for each batch, and `answer` makes one of them."""
    marks = (pl.col("error") == 0) & pl.col("api").is_in([FETCH, LIST_OFFSETS]) & _PLACED
    of_leader = (
        (pl.col("api") == FETCH) & (pl.col("api_version") < FETCH_OF_FOLLOWERS) & (pl.col("leader_epoch") >= 0)
    ).fill_null(value=False)
    seen = exchanges.filter(marks & (pl.col("type") == Type.OK)).with_columns(
        led=(pl.col("api") == LIST_OFFSETS) | of_leader,
        scope=pl.when(of_leader).then(EVERYWHERE).otherwise(pl.col("node").fill_null(-1).cast(pl.Int64)),
        answer=pl.coalesce("op", "event"),
    )
    asked = probes.filter(marks).with_columns(
        led=pl.lit(value=True), scope=pl.lit(EVERYWHERE, pl.Int64), answer=pl.col("event")
    )
    return pl.concat([_shown(asked), _shown(seen)])


def _shown(rows: pl.DataFrame) -> pl.DataFrame:
    fetch = pl.col("api") == FETCH

    def of(mark: str, view: View) -> pl.Expr:
        return pl.when(fetch).then(pl.col(mark)).when(pl.col("view") == view).then(pl.col("offset"))

    def known(mark: pl.Expr) -> pl.Expr:
        return pl.when(mark >= 0).then(mark)

    of_a_record = (pl.col("api") == LIST_OFFSETS) & (pl.col("view") == View.EARLIEST)
    told = (pl.col("leader_epoch") >= 0) & ~of_a_record.fill_null(value=False)
    return rows.select(
        "api", "view", "topic", "partition", "era", "scope", "led", "answer", "node", "invoked", "time", "event",
        shown=of("high_watermark", View.LATEST),
        stable=known(of("last_stable_offset", View.LATEST_COMMITTED)),
        start=known(of("log_start", View.EARLIEST)),
        told=pl.when(told).then(pl.col("leader_epoch")),
    )  # fmt: skip


def epochs(probes: pl.DataFrame, exchanges: pl.DataFrame) -> pl.DataFrame:
    """Per partition and era its leader epochs, each with the moment (`seen`) at which Metadata showed it first."""
    shown = _PLACED & (pl.col("api") == METADATA) & (pl.col("error") == 0) & (pl.col("leader_epoch") >= 0)
    columns = ("topic", "partition", "era", "leader_epoch", "time")
    rows = [probes.filter(shown).select(columns), exchanges.filter(shown & (pl.col("type") == Type.OK)).select(columns)]
    return merged_epochs([pl.concat(rows).rename({"time": "seen"})])


def merged_epochs(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Of several tables of epochs the first sight of each."""
    keys = ("topic", "partition", "era", "leader_epoch")
    return pl.concat(parts).group_by(keys).agg(pl.col("seen").min()).sort(keys)


class Epochs:
    """When leader epochs of partitions were seen first: questions about any moment."""

    KEYS = ("topic", "partition", "era")

    def __init__(self, table: pl.DataFrame) -> None:
        lowest = pl.col("leader_epoch").min().over(self.KEYS)
        self.table = table.with_columns(is_rise=pl.col("leader_epoch") > lowest)

    @property
    def rises(self) -> pl.DataFrame:
        """All but the lowest of each partition: the first sight of any of them may be a change of the leader."""
        return self.table.filter("is_rise")

    def highest(self, rows: pl.DataFrame, moment: pl.Expr) -> pl.Series:
        """For each row the highest epoch of its partition that had been seen by a moment (at or before it)."""
        running = self.table.sort("seen").with_columns(epoch=pl.col("leader_epoch").cum_max().over(self.KEYS))
        return self._asof(rows, moment, running, "epoch")

    def highest_rise(self, rows: pl.DataFrame, moment: pl.Expr) -> pl.Series:
        """The same among rises only."""
        running = self.rises.sort("seen").with_columns(epoch=pl.col("leader_epoch").cum_max().over(self.KEYS))
        return self._asof(rows, moment, running, "epoch")

    def rises_by(self, rows: pl.DataFrame, moment: pl.Expr) -> pl.Series:
        """For each row how many rises had been seen by a moment (at or before it)."""
        count = self.rises.sort("seen").with_columns(count=pl.lit(1).cum_sum().over(self.KEYS))
        return self._asof(rows, moment, count, "count").fill_null(0)

    def known(self, rows: pl.DataFrame) -> pl.Series:
        """For each row whether any epoch of its partition was ever seen."""
        of_place = self.table.select(self.KEYS).unique().with_columns(known=pl.lit(value=True))
        return (
            rows.select(self.KEYS)
            .join(of_place, on=self.KEYS, how="left", maintain_order="left")["known"]
            .fill_null(value=False)
        )

    def fresh_until(self, rows: pl.DataFrame, epoch: str) -> pl.Series:
        """For each row until when its epoch is new: SETTLING_NS after its rise; null if it is none."""
        rises = self.rises.select(*self.KEYS, pl.col("leader_epoch").alias(epoch), fresh=pl.col("seen") + SETTLING_NS)
        keys = [*self.KEYS, epoch]
        asked = rows.select(keys).with_columns(pl.col(epoch).cast(rises.schema[epoch]))
        return asked.join(rises, on=keys, how="left", maintain_order="left")["fresh"]

    def _asof(self, rows: pl.DataFrame, moment: pl.Expr, table: pl.DataFrame, wanted: str) -> pl.Series:
        asked = rows.select(*self.KEYS, moment=moment).with_row_index("row_").sort("moment")
        told = table.select(*self.KEYS, pl.col("seen").alias("moment"), wanted).sort("moment")
        joined = asked.join_asof(told, on="moment", by=list(self.KEYS), strategy="backward", check_sortedness=False)
        return joined.sort("row_")[wanted]
