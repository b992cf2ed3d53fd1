"""Tables that may be longer than memory: whatever the sizes of blobs and parts, every row is read once."""

from __future__ import annotations

from random import Random

import polars as pl
import pytest

from checkers.core import long_tables
from checkers.core.long_tables import LongTable, blob_of, scattered
from checkers.core.run import RunContext

SIZES = [(1, 1), (3, 2), (5, 100), (40, 7), (1, 13)]  # rows of a blob, rows of a part


def _rows(count: int = 60) -> pl.DataFrame:
    random = Random(count)
    times = sorted(random.randrange(40) for _ in range(count))
    return pl.DataFrame({"event": range(count), "time": times, "node": [event % 3 for event in range(count)]})


def _table(rows: pl.DataFrame, of_a_blob: int, in_memory_bytes: int = 1 << 20) -> LongTable:
    """Blobs come in any order."""
    table, blobs = LongTable(in_memory_bytes), list(rows.iter_slices(of_a_blob))
    Random(of_a_blob).shuffle(blobs)
    for blob in blobs:
        table.add(blob_of(blob))
    return table


@pytest.mark.parametrize(("of_a_blob", "of_a_part"), SIZES)
@pytest.mark.parametrize("in_memory_bytes", [1 << 20, 1])
def test_every_row_is_in_one_part(of_a_blob: int, of_a_part: int, in_memory_bytes: int) -> None:
    """No part is longer than asked for, and a table can be read again; in memory and on disk."""
    rows = _rows()
    table = _table(rows, of_a_blob, in_memory_bytes)
    for _ in range(2):
        parts = list(table.parts(None, of_a_part))
        assert pl.concat(parts).sort("event").equals(rows)
        assert max(map(len, parts)) <= of_a_part
    assert table.rows == len(rows)
    assert table.whole().sort("event").equals(rows)


@pytest.mark.parametrize(("of_a_blob", "of_a_part"), SIZES)
def test_what_comes_later_is_known(of_a_blob: int, of_a_part: int) -> None:
    """Nothing that follows a part is from before the moment that it names."""
    parts = list(_table(_rows(), of_a_blob).in_time({"time"}, of_a_part))
    for number, (_, moment) in enumerate(parts):
        assert all(time >= moment for part, _ in parts[number + 1 :] for time in part["time"])


def test_only_columns_that_are_there_are_read() -> None:
    """Those that nobody asked for are left out."""
    (part,) = _table(_rows(), 100).parts({"node", "leader"}, 100)
    assert part.columns == ["node"]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_rows_with_one_number_are_together(count: int) -> None:
    """And each is in one portion."""
    rows = _rows()
    portions = list(scattered(rows.iter_slices(7), pl.col("node") % count, count))
    assert pl.concat(portions).sort("event").equals(rows)
    assert len(portions) == min(count, 3)


def test_portions_of_nothing_are_one_without_rows() -> None:
    """With the columns of the table."""
    (portion,) = scattered([_rows().clear()], pl.col("node") % 4, 4)
    assert (len(portion), portion.columns) == (0, ["event", "time", "node"])


def test_portions_begin_where_time_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as have to be, and no more than there may be files."""
    table = _table(_rows(), 4)
    begins = table.begins(20)
    assert (len(begins), begins) == (3, sorted(begins))
    monkeypatch.setattr(long_tables, "PORTIONS_AT_MOST", 2)
    assert len(table.begins(20)) == 2
    assert len(LongTable().begins(20)) == 1


def test_a_stretch_is_a_power_of_two() -> None:
    """Anything else would be cut elsewhere than it is looked at."""
    assert RunContext(stretch=64).stretch == 64
    with pytest.raises(ValueError, match="a stretch of 100 offsets"):
        RunContext(stretch=100)
