"""The exchange format as one Parquet file: a column `kind`, and all columns of the history, with words for enums.

The header is in the file's metadata under `tidegauge`. A row is an event; columns that its kind does not have are null.
Rows are checked a batch at a time, column by column.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import UsageError
from harness.foreign.batch import Batch, Names, Part, batch_of, blank, numbers_of, out_of_range
from harness.foreign.form import KIND_WORDS, REQUIRED, WORDS, Header, Wrong, is_text, limits
from harness.foreign.jsonl import header_of
from harness.history import COLUMNS, KINDS, Kind

METADATA = b"tidegauge"
BATCH_ROWS = 1 << 16
_TYPES = {"<i8": pa.int64(), "<i4": pa.int32(), "<i2": pa.int16(), "i1": pa.int8()}


def is_worded(name: str) -> bool:
    """Whether a column holds words, names or texts in a file."""
    return name in WORDS or name == "topic" or is_text(name)


def schema(header: Header) -> pa.Schema:
    """The columns of a file."""
    fields = [("kind", pa.string())]
    fields += [(name, pa.string() if is_worded(name) else _TYPES[column.type]) for name, column in COLUMNS.items()]
    return pa.schema(fields, metadata={METADATA: header.as_text()})


def opened(path: Path) -> tuple[pq.ParquetFile, Header]:
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
    return file, header


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


def read(file: pq.ParquetFile, names: Names, path: Path) -> Iterator[Batch]:
    """What the rows say."""
    first = 1
    try:
        for batch in file.iter_batches(BATCH_ROWS):
            yield _batch(pa.Table.from_batches([batch]), first, names)
            first += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read after row {first - 1} ({error})", "bring it here again") from error


def _batch(table: pa.Table, first: int, names: Names) -> Batch:
    lines = np.arange(first, first + table.num_rows)
    table, wrongs = _readable(table, first)
    kinds = pc.index_in(_text(table["kind"]), pa.array(KIND_WORDS)).fill_null(-1).to_numpy()
    if (kinds < 0).any():
        place = int(np.argmax(kinds < 0))
        word = table["kind"][place].as_py()
        wrongs.append(Wrong(first + place, f"'kind' is {word!r}", f"it is one of: {', '.join(KIND_WORDS)}"))
    parts = []
    for number, kind in enumerate(KIND_WORDS.values()):
        mine = np.flatnonzero(kinds == number)
        while len(mine):
            rows = blank(kind, len(mine))
            found = _fill(rows, kind, table.take(mine), lines[mine], names)
            if not found:
                parts.append(Part(kind, lines[mine], rows))
                break
            wrongs += found  # what comes before the first may be wrong in another way
            mine = mine[lines[mine] < min(wrong.line for wrong in found)]
    return batch_of(parts, wrongs)


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


def _fill(rows: npt.NDArray[Any], kind: Kind, table: pa.Table, lines: npt.NDArray[Any], names: Names) -> list[Wrong]:
    """Put the columns of a file into rows of one kind; returns what is wrong with them."""
    wrongs = []
    for name in {"time", "process"} | REQUIRED[kind]:
        lacking = table[name].is_null().to_numpy() if name in table.column_names else np.ones(len(rows), np.bool_)
        if lacking.any():
            wrongs.append(Wrong(int(lines[np.argmax(lacking)]), f"'{name}' is null", "it has to be there"))
    for name in table.column_names:
        given = table[name].is_valid().to_numpy()
        if name == "kind" or not given.any():
            continue
        if name not in KINDS[kind]:
            line = int(lines[np.argmax(given)])
            wrongs.append(Wrong(line, f"'{name}' is no column of {kind.name.lower()}", "write null"))
            continue
        values, places = table[name].filter(pa.array(given)), lines[given]
        found = _words(kind, name, values, places, names) if is_worded(name) else _numbers(kind, name, values, places)
        if isinstance(found, Wrong):
            wrongs.append(found)
        else:
            rows[name][given] = found
    return wrongs


def _numbers(kind: Kind, name: str, values: pa.ChunkedArray, lines: npt.NDArray[Any]) -> npt.NDArray[Any] | Wrong:
    found = values.cast(pa.int64()).to_numpy()
    low, high = limits(kind, name)
    bad = (found < low) | (found > high)
    if bad.any():
        place = int(np.argmax(bad))
        return out_of_range(int(lines[place]), name, int(found[place]), low, high)
    return found  # type: ignore[no-any-return]


def _words(
    kind: Kind, name: str, values: pa.ChunkedArray, lines: npt.NDArray[Any], names: Names
) -> npt.NDArray[Any] | Wrong:
    """Each different word is looked at once."""
    encoded = _text(values).combine_chunks().dictionary_encode()
    places = encoded.indices.to_numpy()
    words = encoded.dictionary.to_pylist()
    _, first = np.unique(places, return_index=True)
    numbers = numbers_of(kind, name, words, lines[first].tolist(), names)
    return numbers if isinstance(numbers, Wrong) else numbers[places]


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string())
