"""The exchange format as one Parquet file: a column `kind`, and all columns of the history, with words for enums.

The header is in the file's metadata under `tidegauge`. A row is an event; columns that its kind does not have are null.
Rows are checked a batch at a time, column by column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.foundation.errors import UsageError
from harness.history.exchange.batch import KindRows, Names, RowBatch, batch_of, blank, numbers_of, out_of_range
from harness.history.exchange.columns import first_places
from harness.history.exchange.file_format import KIND_WORDS, REQUIRED, WORDS, FileHeader, Wrong, is_text, limits
from harness.history.exchange.jsonl import header_of
from harness.history.schema import COLUMNS, KINDS, Kind
from harness.history.sources import Rows

METADATA = b"tidegauge"
BATCH_ROWS = 1 << 16
_TYPES = {"<i8": pa.int64(), "<i4": pa.int32(), "<i2": pa.int16(), "i1": pa.int8()}


def is_worded(name: str) -> bool:
    """Whether a column holds words, names or texts in a file."""
    return name in WORDS or name == "topic" or is_text(name)


def schema(header: FileHeader) -> pa.Schema:
    """The columns of a file."""
    fields = [("kind", pa.string())]
    fields += [(name, pa.string() if is_worded(name) else _TYPES[column.type]) for name, column in COLUMNS.items()]
    return pa.schema(fields, metadata={METADATA: header.as_text()})


def opened(path: Path) -> tuple[pq.ParquetFile, FileHeader]:
    """A file and its header; other columns, or other types, than we know are refused."""
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} is no Parquet file ({error})", "bring the whole file here again") from None
    text = (file.schema_arrow.metadata or {}).get(METADATA)
    if text is None:
        raise UsageError(f"{path} has no header", "write it into the metadata of the file as `tidegauge`")
    try:
        header = header_of(text.decode())
        _check_columns(file.schema_arrow)
    except (Wrong, UnicodeDecodeError) as wrong:
        reason, remedy = (wrong.reason, wrong.remedy) if isinstance(wrong, Wrong) else (str(wrong), "write UTF-8")
        file.close()
        raise UsageError(f"{path}: {reason}", remedy) from None
    with file:  # texts come as they are stored: each different one once
        texts = [name for name, type_ in zip(*_columns(file), strict=True) if pa.types.is_string(type_)]
        return pq.ParquetFile(path, metadata=file.metadata, read_dictionary=texts), header


def _columns(file: pq.ParquetFile) -> tuple[list[str], list[pa.DataType]]:
    return file.schema_arrow.names, file.schema_arrow.types


def _check_columns(found: pa.Schema) -> None:
    if len(set(found.names)) != len(found.names) or "kind" not in found.names:
        raise Wrong(0, "a column is there twice, or there is no column 'kind'", "write each column once")
    for name, type_ in zip(found.names, found.types, strict=True):
        if name != "kind" and name not in COLUMNS:
            raise Wrong(0, f"'{name}' is no column of a history", "leave it out")
        plain = type_.value_type if pa.types.is_dictionary(type_) else type_
        text = pa.types.is_string(plain) or pa.types.is_large_string(plain)
        whole = pa.types.is_integer(plain) and not pa.types.is_uint64(plain)
        if not (pa.types.is_null(plain) or (text if name == "kind" or is_worded(name) else whole)):
            wanted = "text" if name == "kind" or is_worded(name) else "whole numbers"
            raise Wrong(0, f"the column '{name}' holds {type_}", f"write {wanted}")


def read(file: pq.ParquetFile, names: Names, path: Path) -> Iterator[RowBatch]:
    """What the rows say."""
    first = 1
    try:
        for table in _tables(file.iter_batches(BATCH_ROWS, columns=_used(file), use_threads=False)):
            yield _batch(table, first, names)
            first += table.num_rows
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read after row {first - 1} ({error})", "bring it here again") from error


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches of one size: those of texts end where a row group does, however small that is."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= BATCH_ROWS:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, BATCH_ROWS)
            waiting = table.slice(BATCH_ROWS).to_batches()
    if waiting:
        yield pa.Table.from_batches(waiting)


def _used(file: pq.ParquetFile) -> list[str]:
    """The columns that are not null throughout, as far as the file says so."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]

    def is_null(place: int) -> bool:
        found = [group.column(place).statistics for group in groups]
        return bool(found) and all(
            each is not None and each.has_null_count and each.null_count == group.num_rows
            for each, group in zip(found, groups, strict=True)
        )

    return [name for place, name in enumerate(file.schema_arrow.names) if name == "kind" or not is_null(place)]


@dataclass(frozen=True)
class _Column:
    """A column of some rows: numbers, or where the words are among different ones."""

    given: npt.NDArray[np.bool_]
    values: npt.NDArray[Any]
    words: Any = None


@dataclass(frozen=True)
class _Rows:
    """Rows of a file that are read together."""

    columns: Mapping[str, _Column]
    lines: npt.NDArray[np.int64]
    names: Names


def _column(name: str, column: pa.ChunkedArray) -> _Column:
    given = column.is_valid().to_numpy()
    if name != "kind" and not is_worded(name):
        return _Column(given, column.cast(pa.int64()).fill_null(0).to_numpy())
    if not pa.types.is_dictionary(column.type):
        column = _text(column).dictionary_encode()
    encoded = column.combine_chunks()
    return _Column(given, encoded.indices.fill_null(0).to_numpy(), _text(encoded.dictionary))


def _batch(table: pa.Table, first: int, names: Names) -> RowBatch:
    lines = np.arange(first, first + table.num_rows)
    table, wrongs = _readable(table, first)
    columns = {
        name: _column(name, column)
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name == "kind" or column.null_count < len(column)
    }
    kinds = _kinds(columns.pop("kind"))
    if (kinds < 0).any():
        place = int(np.argmax(kinds < 0))
        word = table["kind"][place].as_py()
        wrongs.append(Wrong(first + place, f"'kind' is {word!r}", f"it is one of: {', '.join(KIND_WORDS)}"))
    whole = _Rows(columns, lines, names)
    parts = []
    for number, kind in enumerate(KIND_WORDS.values()):
        mine = np.flatnonzero(kinds == number)
        while len(mine):
            rows = blank(kind, len(mine))
            found = _fill(rows, kind, whole, mine)
            if not found:
                parts.append(KindRows(kind, lines[mine], rows))
                break
            wrongs += found  # what comes before the first may be wrong in another way
            mine = mine[lines[mine] < min(wrong.line for wrong in found)]
    return batch_of(parts, wrongs)


def _kinds(column: _Column) -> npt.NDArray[np.int64]:
    """The number of each row's kind; -1 where it has none."""
    words = pc.index_in(column.words, pa.array(KIND_WORDS)).fill_null(-1).to_numpy()
    return np.where(column.given, words[column.values] if len(words) else -1, -1)


def _readable(table: pa.Table, first: int) -> tuple[pa.Table, list[Wrong]]:
    """The rows before the first whose text is no UTF-8, and what is wrong with that one."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        pass
    else:
        return table, []
    for place in range(table.num_rows):
        for name in table.column_names:
            try:
                table[name][place].as_py()
            except UnicodeDecodeError:
                return table.slice(0, place), [Wrong(first + place, f"'{name}' is no UTF-8", "write UTF-8")]
    return table, []


def _fill(rows: Rows, kind: Kind, whole: _Rows, mine: npt.NDArray[np.intp]) -> list[Wrong]:
    """Put the columns of a file into rows of one kind, which are `mine`; returns what is wrong with them."""
    wrongs = []
    for name in {"time", "process"} | REQUIRED[kind]:
        lacking = ~whole.columns[name].given[mine] if name in whole.columns else np.ones(len(mine), np.bool_)
        if lacking.any():
            line = int(whole.lines[mine[np.argmax(lacking)]])
            wrongs.append(Wrong(line, f"'{name}' is null", "it is required"))
    for name, column in whole.columns.items():
        given = column.given[mine]
        if not given.any():
            continue
        if name not in KINDS[kind]:
            line = int(whole.lines[mine[np.argmax(given)]])
            wrongs.append(Wrong(line, f"'{name}' is no column of {kind.name.lower()}", "write null"))
            continue
        every = bool(given.all())
        found = (_words if is_worded(name) else _numbers)(kind, name, whole, mine if every else mine[given])
        if isinstance(found, Wrong):
            wrongs.append(found)
        elif every:
            rows[name] = found
        else:
            rows[name][given] = found
    return wrongs


def _numbers(kind: Kind, name: str, whole: _Rows, places: npt.NDArray[np.intp]) -> npt.NDArray[Any] | Wrong:
    found: npt.NDArray[Any] = whole.columns[name].values[places]
    low, high = limits(kind, name)
    if found.min() < low or found.max() > high:
        place = int(np.argmax((found < low) | (found > high)))
        return out_of_range(int(whole.lines[places[place]]), name, int(found[place]), low, high)
    return found


def _words(kind: Kind, name: str, whole: _Rows, places: npt.NDArray[np.intp]) -> npt.NDArray[Any] | Wrong:
    """Each different word is looked at once, in the order in which they come."""
    column = whole.columns[name]
    found: npt.NDArray[Any] = column.values[places]
    used, firsts = first_places(found, len(column.words))
    words = column.words.take(pa.array(used)).to_pylist()
    numbers = numbers_of(kind, name, words, whole.lines[places[firsts]].tolist(), whole.names)
    if isinstance(numbers, Wrong):
        return numbers
    by_word: npt.NDArray[Any] = np.zeros(len(column.words), np.int64)
    by_word[used] = numbers
    return np.take(by_word, found)


def _text(column: Any) -> Any:
    return column.cast(pa.string())
