"""Passages of a Jepsen history, many operations at a time.

Invocations are put together with their completions in columns (`harness.history.exchange.jepsen_tokens`), and each pair
becomes rows without anybody looking at it alone. Lines that are not as Jepsen writes sends, polls and transactions, and
those of operations that are not whole in the passage, are read by `harness.history.exchange.jepsen_lines`, one at a
time, and their rows are put where they belong. It reads the whole passage as soon as anything in it is wrong, or is not
understood here: what is made of a passage is always what it would make of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.history.exchange import jepsen_lines
from harness.history.exchange.columns import Numbers, before_each, grouped, runs_of
from harness.history.exchange.file_format import Wrong
from harness.history.exchange.jepsen_lines import OPERATION, RECORD, ChunkParser, ParsedChunk
from harness.history.exchange.jepsen_operations import KEYS, NULL, VALUES
from harness.history.exchange.jepsen_tokens import (
    FS,
    INVOKE,
    KEY,
    PAIR,
    POLL,
    POLLED,
    SEND,
    SENT,
    ReadOneByOne,
    TokenizedLines,
    Tokenizer,
    values_of,
)
from harness.history.exchange.line_templates import too_many
from harness.history.exchange.lines import Chunk
from harness.history.schema import FIRST_WORKER, ID_BITS, F, Type

_HEADS = np.zeros(256, np.bool_)  # the tokens that begin a micro-operation
_HEADS[[SEND, SENT, POLL, POLLED]] = True
_OF_POLL = np.zeros(256, np.bool_)
_OF_POLL[[POLL, POLLED]] = True


@dataclass(frozen=True)
class _Pairs:
    """Invocations and their completions, by the places of their lines, in the order of the latter."""

    invoked: Numbers
    completed: Numbers
    quick: npt.NDArray[np.bool_]  # those that are not read line by line
    begins: Numbers  # invocations with which processes begin


@dataclass(frozen=True)
class _Parts:
    """The micro-operations of pairs, and the records that their polls returned."""

    counts: Numbers  # of each pair
    polls: npt.NDArray[np.bool_]
    key: Numbers
    offset: Numbers
    value: Numbers
    told: npt.NDArray[np.bool_]  # polls that say what they returned
    returned: Numbers  # how much that is
    records: Numbers  # which micro-operation each record is of
    record_key: Numbers
    record_offset: Numbers
    record_value: Numbers


@dataclass(frozen=True)
class _Read:
    """What came of lines that were read one at a time."""

    passage: ParsedChunk
    sizes: dict[int, tuple[int, int]]  # how many operations and records each made


class FastChunkParser:
    """Reads passages of one file, in any order."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer()

    def read(self, chunk: Chunk, wrapped: str = "") -> ParsedChunk:
        """Read some lines; `wrapped` is the bracket that ends the file, if it began with one."""
        try:
            return self._quickly(chunk, wrapped)
        except (ReadOneByOne, Wrong):
            return jepsen_lines.read(chunk, wrapped)

    def _quickly(self, chunk: Chunk, wrapped: str) -> ParsedChunk:
        if chunk.wrong or not chunk.lines:
            raise ReadOneByOne
        lines = self._tokenizer.lines(chunk)
        _check_order(lines)
        pairs = _paired(lines)
        others = np.ones(len(lines.time), np.bool_)
        others[pairs.invoked[pairs.quick]] = others[pairs.completed[pairs.quick]] = False
        if too_many(int(others.sum()), len(others)):
            raise ReadOneByOne
        parts = _parts(lines, pairs)
        read = _read(chunk, lines, np.flatnonzero(others).tolist(), wrapped)
        made = _Made(chunk.number, lines, pairs, parts, read)
        details, texts = self._details(chunk, lines, pairs, read.passage.texts)
        indexed = np.flatnonzero(lines.index >= 0)
        used, also = self._tokenizer.keys(lines.shapes[~others]), read.passage.layouts
        return replace(
            read.passage,
            operations=made.operations(details),
            records=made.records(),
            taken=made.taken(),
            texts=texts,
            begins={int(lines.process[place]): chunk.number + place for place in pairs.begins.tolist()},
            layouts={keys: used.get(keys, 0) + also.get(keys, 0) for keys in {**used, **also}},
            first_time=(chunk.number, int(lines.time[0])),
            first_index=(chunk.number + int(indexed[0]), int(lines.index[indexed[0]])) if len(indexed) else None,
            time=int(lines.time[-1]),
            index=int(lines.index[indexed[-1]]) if len(indexed) else -1,
        )

    def _details(
        self, chunk: Chunk, lines: TokenizedLines, pairs: _Pairs, texts: list[str]
    ) -> tuple[Numbers, list[str]]:
        """What each quick pair says of its end, by its number among texts; and those, `texts` first."""
        completed = pairs.completed[pairs.quick]
        details = np.full(len(completed), NULL)
        numbers = {text: number for number, text in enumerate(texts)}
        for pair in np.flatnonzero(lines.error[completed]).tolist():
            text = self._tokenizer.error(chunk.lines[int(completed[pair])])
            if text is not None:
                details[pair] = numbers.setdefault(text, len(numbers))
        return details, list(numbers)


def _check_order(lines: TokenizedLines) -> None:
    index = lines.index[lines.index >= 0]
    if (lines.time[1:] < lines.time[:-1]).any() or (index[1:] <= index[:-1]).any():
        raise ReadOneByOne


def _paired(lines: TokenizedLines) -> _Pairs:
    """Put each completion to the invocation before it of its process."""
    workers = np.flatnonzero(lines.process >= 0)
    _, processes = grouped(lines.process[workers])
    order = np.argsort(processes, kind="stable")
    processes, places = processes[order], workers[order]
    invokes = lines.type[places] == INVOKE
    same = processes[1:] == processes[:-1]
    if (same & (invokes[1:] == invokes[:-1])).any():
        raise ReadOneByOne  # invoked twice, or completed twice
    whole = np.flatnonzero(same & invokes[:-1])
    whole = whole[np.argsort(places[whole + 1])]
    invoked, completed = places[whole], places[whole + 1]
    shaped = (lines.shapes[invoked] >= 0) & (lines.shapes[completed] >= 0)
    begins = invokes.copy()
    begins[1:] &= ~same
    return _Pairs(
        invoked=invoked,
        completed=completed,
        quick=shaped & (lines.f[invoked] == lines.f[completed]),
        begins=places[begins],
    )


def _read(chunk: Chunk, lines: TokenizedLines, places: list[int], wrapped: str) -> _Read:
    """Read some lines one at a time."""
    reader = ChunkParser(wrapped=wrapped)
    unknown = [place for place in places if place not in lines.read]
    known = lines.read | dict(zip(unknown, values_of(chunk, unknown), strict=True))
    sizes = {}
    for place in places:
        operations, records = reader.counts
        reader.say(chunk.number + place, chunk.lines[place], known[place])
        sizes[place] = (reader.counts[0] - operations, reader.counts[1] - records)
    return _Read(reader.result(), sizes)


def _parts(lines: TokenizedLines, pairs: _Pairs) -> _Parts:
    """Look at the micro-operations of quick pairs: all that are told are those that were asked for, and well-formed."""
    invoked, completed = pairs.invoked[pairs.quick], pairs.completed[pairs.quick]
    counts, lengths = ((lines.ends - lines.starts)[places] for places in (invoked, completed))
    asked, told = runs_of(lines.starts[invoked], counts), runs_of(lines.starts[completed], lengths)
    told_tokens = lines.tokens[told]
    heads = _HEADS[told_tokens]
    told_counts = np.bincount(np.repeat(np.arange(len(counts)), lengths)[heads], minlength=len(counts))
    polls = lines.tokens[asked] == POLL
    if not (polls | (lines.tokens[asked] == SEND)).all() or (counts != told_counts).any():
        raise ReadOneByOne
    ends = told_tokens[heads]
    f = np.repeat(lines.f[completed], counts)
    odd = _OF_POLL[ends] != polls
    odd |= ((f == FS[":send"]) & polls) | ((f == FS[":poll"]) & ~polls)
    if odd.any():
        raise ReadOneByOne
    key, offset, value = _sends(lines, asked, told[heads], ~polls)
    returned = _records(lines, told, heads)
    return _Parts(
        counts=counts,
        polls=polls,
        key=key,
        offset=offset,
        value=value,
        told=ends == POLLED,
        returned=np.bincount(returned[0], minlength=len(polls)),
        records=returned[0],
        record_key=returned[1],
        record_offset=returned[2],
        record_value=returned[3],
    )


def _sends(
    lines: TokenizedLines, asked: Numbers, told: Numbers, sends: npt.NDArray[np.bool_]
) -> tuple[Numbers, Numbers, Numbers]:
    """Key, offset and value of each micro-operation that is a send."""
    first, then = lines.firsts[asked[sends]], lines.firsts[told[sends]]
    placed = lines.tokens[told[sends]] == SENT
    key, value = lines.numbers[first], lines.numbers[first + 1]
    other = (lines.numbers[then] != key) | (lines.numbers[then + 1 + placed] != value)
    if other.any() or key.max(initial=0) >= KEYS or value.max(initial=0) >= VALUES:
        raise ReadOneByOne
    columns = np.full((3, len(asked)), NULL)
    columns[:, sends] = key, np.where(placed, lines.numbers[then + 1], NULL), value
    return columns[0], columns[1], columns[2]


def _records(
    lines: TokenizedLines, told: Numbers, heads: npt.NDArray[np.bool_]
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Of each record that a poll returned: which micro-operation that is, key, offset and value."""
    tokens = lines.tokens[told]
    of_key, of_pair = (np.flatnonzero(tokens == token) for token in (KEY, PAIR))
    polls = np.cumsum(heads) - 1
    keys = lines.numbers[lines.firsts[told[of_key]]]
    first = lines.firsts[told[of_pair]]
    offset, value = lines.numbers[first], lines.numbers[first + 1]
    if keys.max(initial=0) >= KEYS or value.max(initial=0) >= VALUES:
        raise ReadOneByOne
    several = len(keys) > 1 and len(keys) > np.count_nonzero(tokens == POLLED)
    if several and len(np.unique(polls[of_key] * KEYS + keys)) != len(keys):
        raise ReadOneByOne  # a key is there twice
    key = keys[(np.cumsum(tokens == KEY) - 1)[of_pair]]
    return polls[of_pair], key, offset, value


class _Made:
    """Rows of the quick pairs, and of those that were read, in the order of completions."""

    def __init__(self, number: int, lines: TokenizedLines, pairs: _Pairs, parts: _Parts, read: _Read) -> None:
        quick, self._slow = np.flatnonzero(pairs.quick), np.flatnonzero(~pairs.quick)
        invoked, completed = pairs.invoked[quick], pairs.completed[quick]
        self._parts, self._read = parts, read.passage
        self._process = lines.process[pairs.completed] + FIRST_WORKER
        self._is_txn = (lines.f[completed] == FS[":txn"]) | (parts.counts != 1)
        self._pair_of_part = np.repeat(np.arange(len(quick)), parts.counts)
        self._pair_of_record = self._pair_of_part[parts.records]
        self._sizes = np.zeros((2, len(pairs.completed)), np.int64)  # operations and records of each pair
        self._sizes[:, quick] = parts.counts + self._is_txn, np.bincount(self._pair_of_record, minlength=len(quick))
        self._sizes[:, self._slow] = np.array([read.sizes[place] for place in pairs.completed[self._slow].tolist()]).T
        ops = self._first_ops(np.arange(len(pairs.completed)))
        self._shift = ops[self._slow] - self._first_ops(self._slow)
        self._first = np.array([before_each(sizes)[quick] for sizes in self._sizes])
        self._pairs = {  # columns of the quick ones
            "line": number + invoked,
            "process": self._process[quick],
            "op": ops[quick],
            "invoked": lines.time[invoked],
            "time": lines.time[completed],
            "type": lines.type[completed],
            "txn": np.where(self._is_txn, ops[quick], NULL),
        }

    def _first_ops(self, pairs: Numbers) -> Numbers:
        """The first operation of each of these pairs, if there were no others."""
        _, places = grouped(self._process[pairs])
        order = np.argsort(places, kind="stable")
        before = before_each(self._sizes[0, pairs[order]])
        begins = np.flatnonzero(np.diff(places[order].astype(np.int64), prepend=-1))
        ops = self._process[pairs] << ID_BITS
        ops[order] += before - np.repeat(before[begins], np.diff(begins, append=len(order)))
        return ops

    def taken(self) -> dict[int, int]:
        """How many operations each process has."""
        found, places = grouped(self._process)
        counts = np.bincount(places, self._sizes[0], minlength=len(found)).astype(np.int64)
        return {process: count for process, count in zip(found.tolist(), counts.tolist(), strict=True) if count}

    def operations(self, details: Numbers) -> Numbers:
        """The table of operations; `details` are the numbers of the texts of quick pairs."""
        parts, pairs = self._parts, self._pairs
        table = np.full((len(OPERATION), int(self._sizes[0].sum())), NULL)
        columns = dict(zip(OPERATION, table, strict=True))
        sizes, first = parts.counts + self._is_txn, self._first[0]
        rows = runs_of(first, sizes)
        for name in ("line", "process", "invoked", "time", "type"):
            columns[name][rows] = np.repeat(pairs[name], sizes)
        columns["op"][rows] = runs_of(pairs["op"], sizes)
        columns["detail"][first] = details
        columns["f"][first[self._is_txn]] = F.TXN
        columns["count"][first[self._is_txn]] = parts.counts[self._is_txn]
        rows = runs_of(first + self._is_txn, parts.counts)
        columns["f"][rows] = np.where(parts.polls, F.POLL, F.SEND)
        in_txn = self._is_txn[self._pair_of_part]
        columns["type"][rows[parts.told & in_txn]] = Type.OK
        columns["partition"][rows], columns["offset"][rows] = parts.key, parts.offset
        columns["value"][rows] = np.where(parts.polls, NULL, parts.key << ID_BITS | parts.value)
        silent = np.where(parts.polls & (columns["type"][rows] != Type.OK), 0, NULL)
        columns["count"][rows] = np.where(parts.told, parts.returned, silent)
        columns["txn"][rows] = pairs["txn"][self._pair_of_part]
        self._add_read(table, 0, self._read.operations, OPERATION)
        return table

    def records(self) -> Numbers:
        """The table of records."""
        parts, pairs, pair = self._parts, self._pairs, self._pair_of_record
        table = np.empty((len(RECORD), int(self._sizes[1].sum())), np.int64)
        columns = dict(zip(RECORD, table, strict=True))
        rows = runs_of(self._first[1], np.bincount(pair, minlength=len(parts.counts)))
        for name in ("process", "invoked", "time", "txn"):
            columns[name][rows] = pairs[name][pair]
        columns["op"][rows] = runs_of(pairs["op"] + self._is_txn, parts.counts)[parts.records]
        columns["partition"][rows], columns["offset"][rows] = parts.record_key, parts.record_offset
        columns["value"][rows] = parts.record_key << ID_BITS | parts.record_value
        self._add_read(table, 1, self._read.records, RECORD)
        return table

    def _add_read(self, table: Numbers, which: int, read: Numbers, names: Sequence[str]) -> None:
        """Put in what was read a line at a time; its operations are numbered as if there were no others."""
        sizes = self._sizes[which]
        rows = runs_of(before_each(sizes)[self._slow], sizes[self._slow])
        shift, op, txn = np.repeat(self._shift, sizes[self._slow]), names.index("op"), names.index("txn")
        table[:, rows] = read
        table[op, rows] += shift
        table[txn, rows] += np.where(read[txn] == NULL, 0, shift)
