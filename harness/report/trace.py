"""trace.json: a run on a time line that people know how to use, for ui.perfetto.dev or chrome://tracing.

    operations    slices, in lanes of each process that are made so that none overlaps; sends to one partition that
                  ended together, as those of a batch do, are one slice with a count, from the first handed over on
    faults        slices of a process of their own, from injection to undoing; phases beside them
    watermarks    counters: of each partition the high watermark that each node showed, and the offset acknowledged
                  last; a point where it changes, at most POINTS of each, and every fall

Chrome's trace event format, as JSON. The history is read in batches and written as it is read: memory does not grow
with it, but for the lanes. Sizes have limits; what was left out is said in `otherData.cut`, and on the time line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.foundation.errors import from_os_error
from harness.history.schema import KINDS, F, FaultStage, Kind, Type
from harness.history.sealed import Sealed

TRACE_FILE = "trace.json"
SLICES_AT_MOST = 100_000
OPERATIONS_AT_MOST = 500_000  # these are gone through one by one
COUNTS_AT_MOST = 100_000
POINTS = 2_000  # of one line, beside its falls
LANES_AT_MOST = 64  # of one process
BATCH_ROWS = 65_536
HARNESS, CLUSTER, FIRST_PROCESS = 1, 2, 10  # processes of the trace: phases and faults, watermarks, those of the run
LANES_APART = 1000  # lanes have numbers of their own in the whole trace
_OPERATION = (
    "process", "invoked", "time", "f", "type", "topic", "partition", "offset", "count", "error", "detail",
)  # fmt: skip
NOTHING = -1  # a line that has not begun
Event = dict[str, Any]


@dataclass
class _Lanes:
    """Where the slices of one process go: the lane whose last slice ended latest, and before this one begins."""

    ends: list[int] = field(default_factory=list)

    def take(self, start: int, end: int) -> int | None:
        """The lane of a slice that ends after all before it; None if all are taken."""
        free = [(last, lane) for lane, last in enumerate(self.ends) if last <= start]
        if free:
            lane = max(free)[1]
            self.ends[lane] = end
            return lane
        if len(self.ends) >= LANES_AT_MOST:
            return None
        self.ends.append(end)
        return len(self.ends) - 1


@dataclass
class _Trace:
    """What is being written, and what was left out."""

    sealed: Sealed
    slices: int = 0
    operations: int = 0
    counts: int = 0
    crowded: int = 0  # slices without a lane
    cut_at_ns: int | None = None
    counts_cut_at_ns: int | None = None
    lanes: dict[int, _Lanes] = field(default_factory=dict)

    def at(self, time_ns: int) -> float:
        """In microseconds since the history began."""
        return (time_ns - self.sealed.first_time_ns) / 1000

    def topic(self, number: int | None) -> str:
        """Its name."""
        return "-" if number is None else self.sealed.topics.get(number, str(number))

    def sentences(self) -> list[str]:
        """What is not there."""
        told = []
        if self.cut_at_ns is not None:
            told.append(
                f"operations that ended after {self._s(self.cut_at_ns)} are left out: "
                f"the limit is {OPERATIONS_AT_MOST:,}, drawn as {SLICES_AT_MOST:,} slices"
            )
        if self.counts_cut_at_ns is not None:
            told.append(
                f"watermarks after {self._s(self.counts_cut_at_ns)} are left out: {COUNTS_AT_MOST:,} is the limit"
            )
        if self.crowded:
            told.append(
                f"{self.crowded:,} slices are left out: more than {LANES_AT_MOST} of one process at the same time"
            )
        return told

    def _s(self, time_ns: int) -> str:
        return f"{(time_ns - self.sealed.first_time_ns) / 1e9:.3f} s"


def write_trace(sealed: Sealed, file: Path, facts: Mapping[str, Any] | None = None) -> list[str]:
    """Write it, whole or not at all; says in sentences what was left out."""
    unfinished = file.with_name(f"{file.name}.new")
    trace = _Trace(sealed)
    try:
        with unfinished.open("w", encoding="utf-8") as out:
            out.write('{"displayTimeUnit":"ms","traceEvents":[\n')
            for event in _events(trace):
                _put(out, event)
            cut = trace.sentences()
            for sentence in cut:
                _put(out, {"name": sentence, "ph": "i", "s": "g", "ts": trace.at(sealed.last_time_ns), "pid": HARNESS})
            _put(out, _named(HARNESS, "faults and phases"), last=True)
            about = {"cut": cut, "run": str(sealed.directory.parent.name), "anchor": (facts or {}).get("anchor")}
            out.write(f'],"otherData":{json.dumps(about)}}}\n')
        unfinished.replace(file)
    except OSError as error:
        raise from_os_error(error, "writing the trace") from error
    return cut


def _put(out: IO[str], event: Event, *, last: bool = False) -> None:
    out.write(json.dumps(event, ensure_ascii=True, separators=(",", ":")) + ("\n" if last else ",\n"))


def _events(trace: _Trace) -> Iterator[Event]:
    yield _named(CLUSTER, "watermarks")
    yield from _phases(trace)
    yield from _faults(trace)
    yield from _operations(trace)
    yield from _watermarks(trace)
    for process, about in trace.sealed.processes.items():
        client = f", {about['client']}" if about.get("client") else ""
        yield _named(FIRST_PROCESS + process, f"{about.get('role', 'process')} {process}{client}")


def _named(process: int, name: str) -> Event:
    return {"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": name}}


def _rows(sealed: Sealed, kind: Kind, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The events of a kind in the order of time, a batch at a time."""
    for path in sealed.files.get(kind, []):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
                yield from batch.to_pylist()


def _slice(
    trace: _Trace, name: str, span_ns: tuple[int, int], place: tuple[int, int], args: Mapping[str, Any]
) -> Event:
    (start, end), (process, lane) = span_ns, place
    return {
        "name": name,
        "ph": "X",
        "ts": trace.at(start),
        "dur": max(0, end - start) / 1000,
        "pid": process,
        "tid": process * LANES_APART + lane,
        "args": {key: value for key, value in args.items() if value is not None},
    }


def _phases(trace: _Trace) -> Iterator[Event]:
    rows = list(_rows(trace.sealed, Kind.PHASE, ("time", "name", "detail")))
    for row, following in pairwise([*rows, {"time": trace.sealed.last_time_ns}]):
        yield _slice(trace, str(row["name"]), (row["time"], following["time"]), (HARNESS, 1), {"detail": row["detail"]})


def _faults(trace: _Trace) -> Iterator[Event]:
    """One lane for each fault: they may overlap."""
    rows = list(_rows(trace.sealed, Kind.FAULT, ("time", "fault", "stage", "name", "detail")))
    for number in dict.fromkeys(row["fault"] for row in rows):
        mine = {row["stage"]: row for row in rows if row["fault"] == number}
        injected, undone = mine.get(FaultStage.INJECTED), mine.get(FaultStage.UNDONE)
        if injected is not None:
            end = undone["time"] if undone else trace.sealed.last_time_ns
            proof = mine.get(FaultStage.BIT, {}).get("detail")
            args = {"bit": FaultStage.BIT in mine, "proof": proof, "undone": undone is not None}
            yield _slice(trace, str(injected["name"]), (injected["time"], end), (HARNESS, 10 + number), args)


@dataclass
class _Together:
    """Operations that ended at one moment and are drawn as one."""

    first: dict[str, Any]
    count: int
    since_ns: int
    last_handed_ns: int
    last_offset: int | None

    def add(self, row: Mapping[str, Any]) -> None:
        """One more."""
        self.count += 1
        self.since_ns = min(self.since_ns, row["invoked"])
        self.last_handed_ns = max(self.last_handed_ns, row["invoked"])
        self.last_offset = row["offset"]


def _operations(trace: _Trace) -> Iterator[Event]:
    """Completions in the order in which they ended, those that are alike as one."""
    ended: dict[tuple[Any, ...], _Together] = {}
    at_ns = 0
    for row in _rows(trace.sealed, Kind.COMPLETE, _OPERATION):
        if row["invoked"] is None:
            continue
        if row["time"] != at_ns:
            yield from (event for each in ended.values() if (event := _drawn(trace, each)))
            ended, at_ns = {}, row["time"]
            if trace.slices >= SLICES_AT_MOST or trace.operations >= OPERATIONS_AT_MOST:
                trace.cut_at_ns = at_ns
                return
        trace.operations += 1
        key = _alike(row, len(ended))
        if key in ended:
            ended[key].add(row)
        else:
            ended[key] = _Together(row, 1, row["invoked"], row["invoked"], row["offset"])
    yield from (event for each in ended.values() if (event := _drawn(trace, each)))


def _alike(row: Mapping[str, Any], number: int) -> tuple[Any, ...]:
    """What operations that are drawn as one have in common; others than sends are drawn alone."""
    if row["f"] != F.SEND:
        return (number,)
    return tuple(row[name] for name in ("process", "type", "topic", "partition", "error"))


def _drawn(trace: _Trace, ended: _Together) -> Event | None:
    first, together = ended.first, ended.count
    start, end = ended.since_ns, first["time"]
    lane = trace.lanes.setdefault(first["process"], _Lanes()).take(start, end)
    if lane is None:
        trace.crowded += 1
        return None
    trace.slices += 1
    outcome = Type(first["type"]).name.lower()
    where = "" if first["partition"] is None else f" p{first['partition']}"
    times = f" ×{together}" if together > 1 else ""
    args = {
        "outcome": outcome,
        "topic": None if first["topic"] is None else trace.topic(first["topic"]),
        "offset": first["offset"],
        "last offset": ended.last_offset if together > 1 else None,
        "last handed over after ms": (ended.last_handed_ns - start) / 1e6 if together > 1 else None,
        "count": first["count"],
        "error": first["error"] or None,
        "detail": first["detail"],
    }
    name = f"{F(first['f']).name.lower()}{where}{times} {outcome}"
    return _slice(trace, name, (start, end), (FIRST_PROCESS + first["process"], lane), args)


def _watermarks(trace: _Trace) -> Iterator[Event]:
    """What nodes showed to probes and to clients, and what was acknowledged."""
    known = pc.field("high_watermark") >= 0
    for kind in (Kind.PROBE, Kind.EXCHANGE):
        yield from _counter(trace, kind, "high_watermark", known, f"node {{}} to {kind.name.lower()}s")
    acknowledged = (pc.field("f") == int(F.SEND)) & (pc.field("type") == int(Type.OK)) & (pc.field("offset") >= 0)
    yield from _counter(trace, Kind.COMPLETE, "offset", acknowledged, "last acknowledged")


def _counter(trace: _Trace, kind: Kind, value: str, wanted: pc.Expression, series: str) -> Iterator[Event]:
    """A line for each partition, and each node where the series has a place for one: points where it changes.

    Of changes inside a bucket of time the last one is kept, and every fall with what was before it.
    """
    by_node = "{}" in series
    columns = ["time", "topic", "partition", *(["node"] if by_node else []), value]
    filters = [*{"f", "type"} & {*KINDS[kind]}] if not by_node else []
    bucket_ns = max(1, (trace.sealed.last_time_ns - trace.sealed.first_time_ns) // POINTS)
    before: dict[tuple[int, ...], int] = {}
    for path in trace.sealed.files.get(kind, []):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=[*columns, *filters]):
                rows = pa.Table.from_batches([batch]).filter(wanted).select(columns).drop_null()
                for place, time_ns, mark in _points(rows, bucket_ns, before):
                    if trace.counts >= COUNTS_AT_MOST:
                        trace.counts_cut_at_ns = trace.counts_cut_at_ns or time_ns
                        return
                    trace.counts += 1
                    name = f"{trace.topic(place[0])}-{place[1]} {series.format(*place[2:])}"
                    args = {"offset": mark}
                    yield {"name": name, "ph": "C", "ts": trace.at(time_ns), "pid": CLUSTER, "args": args}


def _points(
    rows: pa.Table, bucket_ns: int, before: dict[tuple[int, ...], int]
) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """The points of a batch that are drawn; `before` holds where each line is."""
    time_ns, *places, marks = (column.to_numpy() for column in rows.columns)
    if not len(time_ns):
        return
    keys = np.zeros(len(time_ns), np.int64)
    for part in places:  # one number for each line is far quicker to sort by than several
        there, codes = np.unique(part, return_inverse=True)
        keys = keys * len(there) + codes
    _, firsts, line_of = np.unique(keys, return_index=True, return_inverse=True)
    for number, first in enumerate(firsts):
        mine = line_of == number
        times, values = time_ns[mine], marks[mine]
        place = tuple(int(part[first]) for part in places)
        earlier = np.concatenate([[before.get(place, NOTHING)], values[:-1]])
        before[place] = int(values[-1])
        falls = values < earlier
        ends = np.append(times[:-1] // bucket_ns != times[1:] // bucket_ns, True)
        kept = falls | np.append(falls[1:], False) | ends
        last = int(earlier[0])
        for time_at, value in zip(times[kept].tolist(), values[kept].tolist(), strict=True):
            if value != last:
                last = value
                yield place, time_at, value
