"""Keys: of a compacted topic the last record of each key has to stay; all earlier ones may go.

The *last write* of a key is the acknowledged send with the highest offset in the key's partition; of several that were
acknowledged at that offset one that the final readers did not return, and of these the highest value. Values and
tombstones are alike: brokers keep a tombstone for longer than a run lasts. What was sent before the end of the last
deletion of its topic (`checkers.core.deletions`) may be gone, and is no last write.

lost-write   the last write of a key, when a final read of its partition, begun at or after the acknowledgement, ended
             at the end, and final readers returned neither its value nor a record at a higher offset, of that key and
             partition (tag `last of its key`).

A record at a higher offset may be of a send that nobody knows the end of: it supersedes the last write, as compaction
goes by keys and offsets alone. For the same reason it need not be whole: that it is not is an anomaly of its own. At
the offset itself another value is not the write; at a lower one its value is, and is a duplicate. What compaction has
left of earlier writes is nobody's concern. An acknowledgement without a usable offset cannot be a last write: it is a
false one (`checkers.delivery.family`).

A stretch of a log says of each key how far it was written or returned there (its *top*), and which writes at its top
are *open*: not returned there. The last write of a key can be lost only if it is open and no stretch has a higher top.
Where that is so, final readers may still have returned its value at a lower offset: only then stretches are looked at
again. Where a piece has very many keys their tops are left out, and open writes are looked at again against all of it.
As many were looked at as were written, with a key and an offset, to partitions of which a final read ended `ok`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from checkers.core.arrays import ints
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings
from checkers.core.partitions import PLACE
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from harness.history.schema import F, Type

LAST_OF_ITS_KEY = "last of its key"
TOPS_AT_MOST = 20_000  # of a piece, that travel
KEY = [*PLACE, "key"]


@dataclass(frozen=True)
class KeySurvey:
    """Of a piece, or of all of them."""

    finals: pl.DataFrame  # topic, partition: of final reads that ended ok, `final_invoked` and `final_end`
    open: pl.DataFrame  # topic, partition, key, value, offset, time, event
    tops: pl.DataFrame  # topic, partition, key, top
    written: pl.DataFrame  # topic, partition: how many acknowledgements have a key


@dataclass(frozen=True)
class JudgedKeys:
    """What a piece knows of keys with open writes."""

    tops: pl.DataFrame  # topic, partition, key, top
    returned: pl.DataFrame  # topic, partition, key, value: of open writes those that final readers returned
    found: pl.DataFrame  # topic, partition, key, offset, event: the highest record that final readers were handed


def writes(sends: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Acknowledged sends with a key, that have to last."""
    ours = by(run.compacted, "topic") & pl.col("key").is_not_null()
    rows = sends.filter(ours & (pl.col("type") == Type.OK) & (pl.col("offset") >= 0))
    lasting = ints(rows, "invoked") >= run.deletions.until(ints(rows, "topic"))
    return rows.filter(pl.Series(lasting)).select(*KEY, "value", "offset", "time", "event")


def returned(records: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Records with a key that final readers were handed."""
    ours = by(run.compacted, "topic") & pl.col("key").is_not_null() & by(run.final)
    return records.filter(ours).select(*KEY, "value", "offset", "event")


def finals(ops: pl.DataFrame) -> pl.DataFrame:
    """The latest of the final reads of each partition that ended ok; all of a partition are in one piece."""
    rows = ops.filter((pl.col("f") == F.FINAL) & (pl.col("type") == Type.OK))
    latest = pl.col("invoked") == pl.col("invoked").max().over(PLACE)
    return rows.filter(latest).group_by(PLACE).agg(final_invoked=pl.col("invoked").max(), final_end=pl.col("end").max())


def tops(written: pl.DataFrame, read: pl.DataFrame) -> pl.DataFrame:
    """How far each key was written or returned."""
    return _highest([written.select(*KEY, top="offset"), read.select(*KEY, top="offset")])


def _highest(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).group_by(KEY).agg(pl.col("top").max())


def last(rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Writes that are at the tops of their keys."""
    return rows.join(known, on=KEY).filter(pl.col("offset") == pl.col("top")).drop("top")


class KeyedWrites(Family):
    """The last write of each key."""

    name = "keys"
    anomalies: ClassVar[Mapping[str, str]] = {
        "lost-write": "the last acknowledged of its key, and the final read had neither it nor a later one"
    }
    needs_acknowledgements = frozenset({"lost-write"})
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "sends": ("event", "time", "invoked", "type", "topic", "partition", "offset", "value", "key"),
        "records": ("event", "process", "topic", "partition", "offset", "value", "key"),
        "ops": ("f", "type", "topic", "partition", "invoked", "end"),
    }

    def needs(self, run: RunContext) -> bool:
        """Only compacted topics."""
        return bool(run.compacted)

    def survey(self, piece: Piece, run: RunContext) -> KeySurvey:
        """Open writes and tops of a piece."""
        written, read = writes(piece.sends, run), returned(piece.records, run)
        known = tops(written, read)
        unread = written.join(read, on=[*KEY, "value"], how="anti")
        return KeySurvey(
            finals(piece.ops),
            last(unread, known),
            known if len(known) <= TOPS_AT_MOST else known.clear(),
            written.group_by(PLACE).agg(written=pl.len()),
        )

    def gather(self, surveys: Sequence[KeySurvey], run: RunContext, others: ByFamily) -> KeySurvey:
        """Of all pieces; of open writes those that may be last ones, in partitions that were read to their end."""
        parts = [self.survey(Piece({}, run), run), *surveys]
        rows = pl.concat([part.open for part in parts])
        known_tops = _highest([*(part.tops for part in parts), rows.select(*KEY, top="offset")])
        read_to_end = pl.concat([part.finals for part in parts])
        return KeySurvey(
            read_to_end,
            last(rows, known_tops).join(read_to_end, on=PLACE, how="semi"),
            known_tops.clear(),
            pl.concat([part.written for part in parts]),
        )

    def needs_judging(self, gathered: KeySurvey, run: RunContext, others: ByFamily) -> bool:
        """Whether any last write may be lost."""
        return not gathered.open.is_empty()

    def judge(self, piece: Piece, gathered: KeySurvey, run: RunContext, others: ByFamily) -> JudgedKeys:
        """Whatever there is of the keys of open writes."""
        written, read = (
            rows.join(gathered.open, on=KEY, how="semi")
            for rows in (writes(piece.sends, run), returned(piece.records, run))
        )
        return JudgedKeys(
            tops(written, read),
            read.join(gathered.open, on=[*KEY, "value"], how="semi").select(*KEY, "value"),
            _last(read),
        )

    def conclude(
        self, gathered: KeySurvey, judged: Sequence[JudgedKeys], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """What is lost."""
        written = gathered.written.join(gathered.finals, on=PLACE, how="semi")["written"].sum()
        return FamilyResult(_lost(gathered, judged, run) if judged else Findings(), {"lost-write": int(written)})


def _last(read: pl.DataFrame) -> pl.DataFrame:
    """Of each key the highest record."""
    there = read.filter(pl.col("offset") == pl.col("offset").max().over(KEY))
    return there.group_by(*KEY, "offset").agg(pl.col("event").min())


def _lost(gathered: KeySurvey, judged: Sequence[JudgedKeys], run: RunContext) -> Findings:
    """Of several writes at one offset only one can be there: another one is the last write, the highest of them."""
    open_ = last(gathered.open, _highest([each.tops for each in judged]))
    unread = open_.join(pl.concat([each.returned for each in judged]), on=[*KEY, "value"], how="anti")
    lost = unread.filter(pl.col("value") == pl.col("value").max().over(KEY)).join(gathered.finals, on=PLACE)
    seen = _last(pl.concat([each.found for each in judged])).rename({"offset": "found", "event": "read_event"})
    rows = lost.filter(pl.col("time") <= pl.col("final_invoked")).join(seen, on=KEY, how="left")
    return make_findings(
        "lost-write",
        rows.with_columns(written="offset", tag=pl.lit(LAST_OF_ITS_KEY)),
        run,
        offset="offset",
        values=("value",),
        time="time",
        events=("event", "read_event"),
        tags="tag",
        facts=("key", "written", "found", "final_end"),
    )


FAMILIES: tuple[Family, ...] = (KeyedWrites(),)
