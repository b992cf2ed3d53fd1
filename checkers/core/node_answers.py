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

`era` is the life of a topic that the workload deleted (`checkers.core.deletions`), else 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import polars as pl

from checkers.core.arrays import NEVER
from harness.foundation.protocol import FETCH_OF_FOLLOWERS, Api
from harness.history.schema import OffsetView, Type

SETTLING_NS = 2_000_000_000  # nodes do not learn of a leader, a broker or a topic at one instant
ALWAYS = -(1 << 62)
PRODUCE, FETCH, LIST_OFFSETS, METADATA = Api.PRODUCE, Api.FETCH, Api.LIST_OFFSETS, Api.METADATA
OF_LEADERS = (PRODUCE, FETCH, LIST_OFFSETS)  # only these answer them, but for a Fetch that followers may answer
EVERYWHERE = -(1 << 40)  # the scope of answers that are compared with those of all nodes

# the columns that are needed of probes and of exchanges
PROBES = ("event", "time", "invoked", "node", "api", "view", "topic", "partition", "offset", "high_watermark",
          "last_stable_offset", "log_start", "leader", "leader_epoch", "error")  # fmt: skip
EXCHANGES = (*PROBES, "op", "type", "api_version")

# those of Metadata answers that tell leader epochs
OF_EPOCHS = ("time", "invoked", "node", "api", "type", "topic", "partition", "leader", "leader_epoch", "error")

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

    def of(mark: str, view: OffsetView) -> pl.Expr:
        return pl.when(fetch).then(pl.col(mark)).when(pl.col("view") == view).then(pl.col("offset"))

    def known(mark: pl.Expr) -> pl.Expr:
        return pl.when(mark >= 0).then(mark)

    of_a_record = (pl.col("api") == LIST_OFFSETS) & (pl.col("view") == OffsetView.EARLIEST)
    told = (pl.col("leader_epoch") >= 0) & ~of_a_record.fill_null(value=False)
    return rows.select(
        "api", "view", "topic", "partition", "era", "scope", "led", "answer", "node", "invoked", "time", "event",
        shown=of("high_watermark", OffsetView.LATEST),
        stable=known(of("last_stable_offset", OffsetView.LATEST_COMMITTED)),
        start=known(of("log_start", OffsetView.EARLIEST)),
        told=pl.when(told).then(pl.col("leader_epoch")),
    )  # fmt: skip


NodeParts = Callable[[], Iterator[tuple[pl.DataFrame, pl.DataFrame]]]  # probes and exchanges, some at a time


def epochs(parts: NodeParts) -> pl.DataFrame:
    """Per partition and era its leader epochs, each with the moments between which Metadata says that it began.

    It was shown for the first time at `seen`. The last answer that its leader had given by then, and that showed no
    epoch as high, had left at `since`: that node did not know yet that it leads. Others may hear of it much later, and
    say nothing of when it began, unless no leader of that epoch had answered; then the last answer of anybody counts.
    No epoch begins later than a higher one. What is shown before all others, or was passed over before, may have begun
    at any time: `since` is null, or that of the next.
    """
    keys = ("topic", "partition", "era")
    of_epoch = (*keys, "leader_epoch")
    first = pl.concat([rows.group_by(of_epoch).agg(seen=pl.col("time").min()) for rows in _shown_epochs(parts)])
    first = first.group_by(of_epoch).agg(pl.col("seen").min()).sort(of_epoch)
    several = first.filter(pl.len().over(keys) > 1)
    if several.is_empty():
        return first.with_columns(since=pl.lit(None, pl.Int64))
    moved = several.select(keys).unique()

    def asked() -> Iterator[pl.DataFrame]:
        for rows in _shown_epochs(parts):
            yield rows.join(moved, on=keys, how="semi", nulls_equal=True)

    named = pl.concat([
        rows.filter(pl.col("leader") >= 0).select(*of_epoch, node="leader").unique() for rows in asked()
    ]).unique()  # fmt: skip
    leaders = _asked_before(named.join(first, on=of_epoch, nulls_equal=True), asked(), (*keys, "node"))
    own = leaders.group_by(of_epoch).agg(own=pl.col("since").max())
    known = _asked_before(first, asked(), keys).join(own, on=of_epoch, how="left", nulls_equal=True)
    known = known.with_columns(since=pl.coalesce("own", "since"))
    soonest = pl.col("since").fill_null(ALWAYS).reverse().cum_min().reverse().over(keys)
    ordered = known.select(*first.columns, "since").sort(*keys, "leader_epoch").with_columns(since=soonest)
    return ordered.with_columns(since=pl.when(pl.col("since") > ALWAYS).then("since"))


def _shown_epochs(parts: NodeParts) -> Iterator[pl.DataFrame]:
    shown = _PLACED & (pl.col("api") == METADATA) & (pl.col("error") == 0) & (pl.col("leader_epoch") >= 0)
    columns = ("topic", "partition", "era", "node", "leader", "leader_epoch", "invoked", "time")
    for probes, exchanges in parts():
        passed = exchanges.filter(shown & (pl.col("type") == Type.OK))
        yield pl.concat([probes.filter(shown).select(columns), passed.select(columns)])


def _asked_before(first: pl.DataFrame, asked: Iterable[pl.DataFrame], keys: Sequence[str]) -> pl.DataFrame:
    """When the last answer left of those that were over before each was `seen`."""
    told = []
    for rows in asked:
        ordered = rows.sort("time")
        before = ordered.select(*keys, "time", since=pl.col("invoked").cum_max().over(keys))
        told.append(first.sort("seen").join_asof(
            before, left_on="seen", right_on="time", by=list(keys), strategy="backward",
            allow_exact_matches=False, check_sortedness=False,
        ).select(*first.columns, "since"))  # fmt: skip
    return pl.concat(told).group_by(first.columns).agg(pl.col("since").max())


def merged_epochs(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Of several tables: a partition is in one of them."""
    return pl.concat(parts).sort("topic", "partition", "era", "leader_epoch")


def moves(parts: NodeParts) -> pl.DataFrame:
    """Per partition and era the changes of the leader that Metadata names, as epochs are told: for those without."""
    named = _PLACED & (pl.col("api") == METADATA) & (pl.col("error") == 0)
    columns = ("topic", "partition", "era", "leader", "leader_epoch", "invoked", "time", "event")
    rows = [
        rows.select(columns)
        for probes, exchanges in parts()
        for rows in (probes.filter(named), exchanges.filter(named & (pl.col("type") == Type.OK)))
    ]
    keys = ("topic", "partition", "era")
    told = pl.concat(rows).filter((pl.col("leader_epoch") < 0).fill_null(value=True).all().over(keys))
    ordered = told.sort(*keys, "time", "event").with_columns(
        last=pl.col("leader").shift().over(keys), since=pl.col("invoked").cum_max().shift().over(keys)
    )
    changes = ordered.filter(pl.col("since").is_not_null() & pl.col("leader").ne_missing(pl.col("last")))
    # who was asked before somebody else was answered may say what was true before that
    return changes.select(*keys, seen="time", since=pl.min_horizontal("since", "time"))


class Epochs:
    """When leader epochs of partitions began, as far as Metadata tells: questions about any moment."""

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
        return self._asof(rows, moment, self.table)

    def possible(self, rows: pl.DataFrame, moment: pl.Expr) -> pl.Series:
        """The same of those that may have begun by then, seen or not."""
        return self._asof(rows, moment, self.table.with_columns(seen=pl.col("since").fill_null(ALWAYS)))

    def may_rise(self, rows: pl.DataFrame, since: pl.Expr, until: pl.Expr) -> pl.Series:
        """For each row whether an epoch above all that had been seen by `since` may have begun by `until`."""
        lowest = self.table.group_by(self.KEYS).agg(lowest=pl.col("leader_epoch").min())
        known = rows.select(*self.KEYS, seen=self.highest(rows, since))
        known = known.join(lowest, on=self.KEYS, how="left", nulls_equal=True, maintain_order="left")
        rises = self.possible(rows, until) > known["seen"].fill_null(known["lowest"])
        return rises.fill_null(value=False)

    def highest_rise(self, rows: pl.DataFrame, moment: pl.Expr) -> pl.Series:
        """The highest that had been seen by a moment, among rises only."""
        return self._asof(rows, moment, self.rises)

    def fresh_until(self, rows: pl.DataFrame, epoch: str) -> pl.Series:
        """For each row until when its epoch is new: SETTLING_NS after it, or a higher one, was seen.

        Null for the lowest of a partition, or a lower one, and where none was seen; of what is above all that were
        seen, for ever.
        """
        table = self.table.sort(*self.KEYS, "leader_epoch")
        soonest = pl.col("seen").reverse().cum_min().reverse().over(self.KEYS)
        rises = table.with_columns(fresh=soonest + SETTLING_NS).filter("is_rise")
        asked = rows.select(*self.KEYS, pl.col(epoch).cast(pl.Int32).alias("leader_epoch")).with_row_index("row_")
        told = asked.drop_nulls("leader_epoch").sort("leader_epoch").join_asof(
            rises.select(*self.KEYS, "leader_epoch", "fresh").sort("leader_epoch"),
            on="leader_epoch", by=list(self.KEYS), strategy="forward", check_sortedness=False,
        )  # fmt: skip
        lowest = table.group_by(self.KEYS).agg(lowest=pl.col("leader_epoch").min())
        fresh = told.join(lowest, on=self.KEYS, how="left", nulls_equal=True).select(
            "row_", fresh=pl.when(pl.col("leader_epoch") > pl.col("lowest")).then(pl.col("fresh").fill_null(NEVER))
        )
        return asked.join(fresh, on="row_", how="left", maintain_order="left")["fresh"]

    def _asof(self, rows: pl.DataFrame, moment: pl.Expr, table: pl.DataFrame) -> pl.Series:
        running = table.sort("seen").with_columns(epoch=pl.col("leader_epoch").cum_max().over(self.KEYS))
        asked = rows.select(*self.KEYS, moment=moment).with_row_index("row_").sort("moment")
        told = running.select(*self.KEYS, pl.col("seen").alias("moment"), "epoch").sort("moment")
        joined = asked.join_asof(told, on="moment", by=list(self.KEYS), strategy="backward", check_sortedness=False)
        return joined.sort("row_")["epoch"]
