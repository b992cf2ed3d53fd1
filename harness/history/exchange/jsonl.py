"""The exchange format as JSON Lines: a header, then one event on each line."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

import numpy as np

from harness.foundation.config import parse
from harness.foundation.errors import UsageError
from harness.history.exchange.batch import KindRows, Names, RowBatch, batch_of, blank, numbers_of, shown
from harness.history.exchange.file_format import KIND_WORDS, FileHeader, Wrong, unfit_keys
from harness.history.exchange.lines import TORN, Chunk
from harness.history.schema import Kind

Pairs = list[tuple[str, Any]]
Groups = dict[tuple[Kind, tuple[str, ...]], list[tuple[Any, ...]]]  # number of the line and values of each event
DEPTH_AT_MOST = 50


class _Object(Pairs):
    """An object as its keys and values, so that a key that is there twice is seen."""


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


_EVENTS = json.JSONDecoder(object_pairs_hook=_Object, parse_constant=_no_number, parse_float=_float)


class _NoJson(Wrong):
    """A line that may be one half of another."""


def header_of(line: str) -> FileHeader:
    """The header, which is the first line."""
    pairs = _parsed(1, line)
    if "tidegauge" not in dict(pairs):
        raise Wrong(1, "the header is missing", 'begin with {"tidegauge": "history", "version": 1}')
    try:
        plain = _plain(pairs)
        json.dumps(plain, ensure_ascii=False).encode()
        return parse(FileHeader, plain, "the header")
    except UnicodeEncodeError:
        raise Wrong(1, "the header holds half a character", "write whole characters") from None
    except UsageError as error:
        raise Wrong(1, error.message, error.remedy) from None


def read(chunk: Chunk, names: Names) -> RowBatch:
    """What lines after the header say, one at a time."""
    groups: Groups = {}
    wrongs = [chunk.wrong] if chunk.wrong else []
    for number, line in enumerate(chunk.lines, chunk.number):
        try:
            add_to(groups, number, line)
        except Wrong as wrong:
            last = number == chunk.number + len(chunk.lines) - 1
            torn = chunk.torn and last and isinstance(wrong, _NoJson)
            wrongs.append(Wrong(number, TORN, "bring the whole file here") if torn else wrong)
            break
    parts: list[KindRows] = []
    for (kind, keys), rows in groups.items():
        made = part_of(kind, keys, rows, names)
        parts += made[0]
        wrongs += made[1]
    return batch_of(parts, wrongs)


def add_to(groups: Groups, number: int, line: str) -> None:
    """Put the event of a line to those of its kind that have the same keys."""
    pairs = _parsed(number, line)
    keys, values = zip(*pairs, strict=True) if pairs else ((), ())
    groups.setdefault((_kind(number, keys, values), keys), []).append((number, *values))


def part_of(
    kind: Kind, keys: tuple[str, ...], rows: list[tuple[Any, ...]], names: Names
) -> tuple[list[KindRows], list[Wrong]]:
    """Events of one kind that have the same keys, and what is wrong with them."""
    if why := unfit_keys(kind, keys):
        return [], [Wrong(rows[0][0], why, "docs/history.md has the columns of each kind")]
    lines, *columns = zip(*rows, strict=True)
    packed = blank(kind, len(rows))
    for name, values in zip(keys, columns, strict=True):
        if name == "kind":
            continue
        numbers = numbers_of(kind, name, values, lines, names)
        if isinstance(numbers, Wrong):  # what comes before it may be wrong in another way
            before = [row for row in rows if row[0] < numbers.line]
            parts, wrongs = part_of(kind, keys, before, names) if before else ([], [])
            return parts, [numbers, *wrongs]
        packed[name] = numbers
    return [KindRows(kind, np.array(lines, np.int64), packed)], []


def _parsed(number: int, line: str) -> Pairs:
    if not line.strip():
        raise Wrong(number, "the line is empty", "leave it out")
    try:
        parsed = _EVENTS.decode(line)
    except (ValueError, RecursionError) as error:
        said = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise _NoJson(number, f"this is no JSON ({said})", "write one JSON object on each line") from None
    if not isinstance(parsed, _Object):
        raise Wrong(number, "this is no JSON object", "write one JSON object on each line")
    return parsed


def _kind(number: int, keys: tuple[str, ...], values: tuple[Any, ...]) -> Kind:
    if "tidegauge" in keys:
        raise Wrong(number, "a header is there a second time", "write one file for each history")
    if "kind" not in keys:
        raise Wrong(number, "the key 'kind' is missing", f"it is one of: {', '.join(KIND_WORDS)}")
    word = values[keys.index("kind")]
    if not isinstance(word, str) or word not in KIND_WORDS:
        raise Wrong(number, f"'kind' is {shown(word)}", f"it is one of: {', '.join(KIND_WORDS)}")
    return KIND_WORDS[word]


def _plain(value: Any, depth: int = 0) -> Any:
    """With objects as dictionaries."""
    if depth > DEPTH_AT_MOST:
        raise Wrong(1, "the header is nested too deeply", "leave out what the verdict does not need")
    if isinstance(value, _Object):
        keys = [key for key, _ in value]
        if len(set(keys)) != len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise Wrong(1, f"the key '{twice}' is there twice", "write it once")
        return {key: _plain(each, depth + 1) for key, each in value}
    return [_plain(each, depth + 1) for each in value] if isinstance(value, list) else value
