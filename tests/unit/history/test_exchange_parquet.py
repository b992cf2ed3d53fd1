"""The exchange format as Parquet: the same as the lines, and what is wrong is named by its row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.foundation.errors import UsageError
from harness.history.exchange import parquet
from tests.support.foreign_histories import give, recorded, take

Change = Callable[[pa.Table], pa.Table]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A history with events of every kind."""
    return give(recorded(tmp_path / "run"), tmp_path / "h.parquet").file


def changed(name: str, row: int, value: object) -> Change:
    """Another value in a row, counted from 1."""

    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[row - 1] = value
        return table.set_column(table.column_names.index(name), name, pa.array(values, table[name].type))

    return change


def first(kind: str, **columns: object) -> Callable[[pa.Table], int]:
    """The first row of a kind."""

    def find(table: pa.Table) -> int:
        rows = table.to_pylist()
        return next(
            number
            for number, row in enumerate(rows, 1)
            if row["kind"] == kind and all(row[name] == value for name, value in columns.items())
        )

    return find


def test_it_says_the_same_as_the_lines(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches of any size, with the columns in any order, words as dictionaries, and without the empty columns."""
    wanted = give(take(file, tmp_path / "store"), tmp_path / "h.jsonl").file.read_bytes()
    table = pq.read_table(file)
    used = [name for name in reversed(table.column_names) if table[name].null_count < table.num_rows]
    table = table.select(used)
    for name in ("kind", "f", "topic"):
        table = table.set_column(used.index(name), name, table[name].dictionary_encode())
    pq.write_table(table, tmp_path / "other.parquet")
    monkeypatch.setattr(parquet, "BATCH_ROWS", 3)
    again = give(take(tmp_path / "other.parquet", tmp_path / "store", name="h"), tmp_path / "again.jsonl")
    assert again.file.read_bytes() == wanted


DAMAGES: dict[str, tuple[str, object, Callable[[pa.Table], int], str]] = {
    "unknown kind": ("kind", "frob", first("phase"), "'kind' is 'frob'"),
    "no kind": ("kind", None, first("phase"), "'kind' is None"),
    "a column of another kind": ("crc", 5, first("phase"), "'crc' is no column of phase"),
    "a missing column": ("name", None, first("phase"), "'name' is null"),
    "unknown word": ("f", "sned", first("invoke"), "'f' is \"sned\""),
    "out of range": ("partition", -1, first("record"), "'partition' is -1, out of range"),
    "empty topic": ("topic", "", first("record"), "'topic' is empty"),
    "completed by another": ("process", 3, first("complete", f="send"), "does not have its process"),
    "another operation": ("op", 99, first("complete", f="txn"), "no line before this one invokes it"),
    "no transaction": ("txn", 99, first("invoke", f="send"), "'txn' is 99, which is no txn"),
    "too early": ("time", 5, first("complete", f="poll"), "before the time of its invocation"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_named_by_its_row(
    tmp_path: Path, file: Path, damage: tuple[str, object, Callable[[pa.Table], int], str]
) -> None:
    """And nothing is stored."""
    name, value, where, said = damage
    table = pq.read_table(file)
    row = where(table)
    pq.write_table(changed(name, row, value)(table), file)
    with pytest.raises(UsageError) as refused:
        take(file, tmp_path / "store")
    assert f"row {row}: " in refused.value.message
    assert said in refused.value.message
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table.replace_schema_metadata(None), "has no header"),
        (lambda table: table.replace_schema_metadata({b"tidegauge": b"{}"}), "the header is missing"),
        (lambda table: table.replace_schema_metadata({b"tidegauge": b"\xff"}), "can't decode"),
        (lambda table: table.append_column("frob", table["time"]), "'frob' is no column"),
        (lambda table: table.drop_columns(["kind"]), "no column 'kind'"),
        (lambda table: table.set_column(2, "time", table["time"].cast(pa.float64())), "'time' holds double"),
        (lambda table: table.drop_columns(["process"]), "row 1: 'process' is null"),
        (lambda table: table.slice(0, 3), "row 3: the file ends after 3 events"),
    ],
)
def test_a_file_that_is_no_history(tmp_path: Path, file: Path, change: Change, said: str) -> None:
    """Other columns, other types, no header, rows that are gone."""
    pq.write_table(change(pq.read_table(file)), file)
    with pytest.raises(UsageError, match=said):
        take(file, tmp_path / "store")


def test_a_file_that_is_no_parquet(tmp_path: Path, file: Path) -> None:
    """Or was cut off."""
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(UsageError, match="is no Parquet file"):
        take(file, tmp_path / "store")


def test_a_text_that_is_no_utf8(tmp_path: Path) -> None:
    """Its row is named."""
    offsets = pa.array([0, 1, 3], pa.int32()).buffers()[1]
    names = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"a\xff\xfe")])
    table = pa.table({"kind": ["phase"] * 2, "time": [1, 2], "process": [0, 0], "name": names})
    header = b'{"tidegauge": "history", "version": 1}'
    pq.write_table(table.replace_schema_metadata({b"tidegauge": header}), tmp_path / "h.parquet")
    with pytest.raises(UsageError, match="row 2: 'name' is no UTF-8"):
        take(tmp_path / "h.parquet", tmp_path / "store")
