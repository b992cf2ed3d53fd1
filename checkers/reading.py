"""Readers: the steps from one record to the next that each was handed, and which offsets anybody knows of.

Most of what readers are handed are runs: offset after offset, event after event. So records are summed up before they
are put in order: the records of one operation and place whose event and offset are the same distance apart, 64 offsets
at a time, are one set of bits. A set without a hole is one run; any other falls apart into a few. No other record of
its reader and place lies between the records of a run, so that the steps between runs are all that needs a look.

What one reader was handed of one place may be most of a history: events are cut into chunks, in which steps are
taken side by side, and the step from the last run of one chunk to the first of the next is taken in a second, small
scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.frame import PLACE, History, aggregate
from checkers.log import era_read
from harness.history import F, Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

READER = ("process", *PLACE)
BLOCK_BITS = 6
BLOCK = 1 << BLOCK_BITS
_BLOCK_OF = f"shiftright(offset, {BLOCK_BITS})"
_BIT = f"shiftleft(1L, cast(offset & {BLOCK - 1} as int))"
_PLACED = "offset >= 0 and topic is not null and partition is not null"
_RUN = "struct(high as offset, last as event, op, txn, invoked, time, era)"


def earlier(keys: Sequence[str], order: str) -> str:
    """SQL: the window of all rows of the same keys before this one."""
    frame = "rows between unbounded preceding and 1 preceding"
    return f"(partition by {', '.join(keys)} order by {order} {frame})"


def runs(history: History, where: str = "true") -> DataFrame:
    """One row per run: its operation, its lowest and highest offset, its first and last event."""
    rows = history.records.where(f"{_PLACED} and ({where})").selectExpr(
        *READER, f"{_era_of_reads(history)} as era", "op", "time", "event - offset as shift", f"{_BLOCK_OF} as block",
        f"{_BIT} as bit", "offset", "txn", "invoked",
    )  # fmt: skip
    found = aggregate(
        history,
        rows,
        [*READER, "era", "op", "time", "shift", "block"],
        ["bit_or(bit) as bits", "min(offset) as low", "max(offset) as high", "max(txn) as txn",
         "max(invoked) as invoked"],
    )  # fmt: skip
    begins, ends = "bits & ~shiftleft(bits, 1)", "bits & ~shiftrightunsigned(bits, 1)"
    pieces = f"zip_with({_offsets_of(begins)}, {_offsets_of(ends)}, (b, e) -> struct(b as low, e as high))"
    whole = "high - low + 1 = bit_count(bits)"
    return found.selectExpr(
        *READER, "era", "op", "txn", "invoked", "time", "shift",
        f"inline(if({whole}, array(struct(low, high)), {pieces}))",
    ).selectExpr("*", "shift + low as first", "shift + high as last").drop("shift")  # fmt: skip


def _offsets_of(bits: str) -> str:
    """SQL: the offsets of a block whose bits are set."""
    is_set = f"(({bits}) & shiftleft(1L, i)) <> 0"
    return f"transform(filter(sequence(0, {BLOCK - 1}), i -> {is_set}), i -> block * {BLOCK} + i)"


def steps(history: History, where: str = "true") -> DataFrame:
    """One row per run: what its reader was handed of the place `before` it, and the last assignment before it."""
    assigns = history.completions.where(f"f = {F.ASSIGN:d} and ({where})").selectExpr(
        *READER, "event as first", "event as assigned"
    )
    rows = runs(history, where).unionByName(assigns, allowMissingColumns=True)
    if history.sealed.rows.get(Kind.RECORD, 0) <= history.chunk_rows:
        return _judged(_scanned(rows, READER))
    chunked = rows.selectExpr("*", f"first div {history.chunk_rows} as chunk")
    inside = _scanned(chunked, (*READER, "chunk"))
    return _judged(inside.drop("chunk").unionByName(_between_chunks(history, inside)))


def _scanned(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    window = earlier(keys, "first")
    return rows.selectExpr(
        "*", f"last(if(low is null, null, {_RUN}), true) over {window} as before",
        f"max(assigned) over {window} as assigned_last",
    )  # fmt: skip


def _between_chunks(history: History, inside: DataFrame) -> DataFrame:
    """The first run of each chunk, with the last one of the chunks before: one step, so it is as short as that."""
    columns = [name for name in inside.columns if name not in {*READER, "chunk", "before", "assigned"}]
    head = f"struct({', '.join(columns)})"
    ends = aggregate(
        history,
        inside,
        [*READER, "chunk"],
        [
            f"min_by({head}, if(low is null, null, first)) as head",
            f"max_by(if(low is null, null, {_RUN}), if(low is null, null, first)) as tail",
            "max(assigned) as assigned",
        ],
    )
    window = earlier(READER, "chunk")
    of_head = {"high": "head.low", "last": "head.first", "assigned_last": "greatest(head.assigned_last, carried)"}
    return ends.selectExpr(
        *READER, "head", f"last(tail, true) over {window} as before", f"max(assigned) over {window} as carried"
    ).where("head is not null").selectExpr(
        *READER, *(f"{of_head.get(name, f'head.{name}')} as {name}" for name in columns), "before",
        "cast(null as bigint) as assigned",
    )  # fmt: skip


def _judged(rows: DataFrame) -> DataFrame:
    """Whether a step can be judged, whether it is inside of an operation or a transaction, and where it goes."""
    return rows.where("low is not null").selectExpr(
        "*", "coalesce(before.era = era and not coalesce(assigned_last > before.event, false), false) as compared",
        "coalesce(op = before.op, false) or coalesce(txn = before.txn, false) as within",
        "low <= before.offset as back", "low > before.offset and low - before.offset > 1 as jump",
    )  # fmt: skip


def occupied(history: History, where: str = "true") -> DataFrame:
    """One row per 64 offsets: those that are known at all, acknowledged, and known to readers of committed records.

    `after_any` and `after_committed` are the lowest such offsets beyond these 64.
    """
    of_sends = history.deletions.era("invoked", "time") if history.deletions else "0"
    sends = history.sends.where(f"type = {Type.OK:d} and {_PLACED} and ({where})").selectExpr(
        *PLACE, f"{of_sends} as era", f"{_BLOCK_OF} as block", f"{_BIT} as bit", "true as acked", "true as committed"
    )
    reads = history.records.where(f"{_PLACED} and ({where})").selectExpr(
        *PLACE, f"{_era_of_reads(history)} as era", f"{_BLOCK_OF} as block", f"{_BIT} as bit", "false as acked",
        f"not ({history.sees_aborted}) as committed",
    )  # fmt: skip
    blocks = aggregate(
        history,
        sends.unionByName(reads),
        [*PLACE, "era", "block"],
        ["bit_or(bit) as any", *(f"bit_or(if({name}, bit, 0L)) as {name}" for name in ("acked", "committed"))],
    )
    lowest = {name: f"if({name} = 0, null, block * {BLOCK} + {_lowest(name)})" for name in ("any", "committed")}
    window = earlier((*PLACE, "era"), "block desc")
    return blocks.selectExpr("*", *(f"last({lowest[name]}, true) over {window} as after_{name}" for name in lowest))


def next_occupied(name: str, offset: str) -> str:
    """SQL: the lowest known offset above one that lies in the row's block."""
    bit = f"cast({offset} & {BLOCK - 1} as int)"
    above = f"({name} & if({bit} = {BLOCK - 1}, 0L, shiftleft(-1L, {bit} + 1)))"
    return f"if({above} = 0, after_{name}, block * {BLOCK} + {_lowest(above)})"


def _lowest(bits: str) -> str:
    """SQL: the number of the lowest bit that is set; the subtraction fails for the highest bit alone."""
    return f"coalesce(bit_count(try_subtract({bits}, 1L) & ~{bits}), {BLOCK - 1})"


def _era_of_reads(history: History) -> str:
    return era_read(history) if history.deletions else "0"
