"""Sealing against what was recorded: every row, in the order of time, and every operation with an end."""

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history import parquet, sources
from harness.history.places import HISTORY
from harness.history.recorder import Recorder
from harness.history.schema import ID_BITS, F, Kind, Type
from harness.history.sealed import MANIFEST
from harness.history.sealing import OPEN, open_history
from harness.history.sources import segment_path

Row = dict[str, Any]
KEPT = ("event", "time", "process", "op", "f", "type", "topic", "value", "api", "name", "detail")
TOPICS = ("orders", "bills", "mine")

batches = st.lists(
    st.tuples(
        st.integers(0, 4),  # time since the one before
        st.lists(st.tuples(st.booleans(), st.sampled_from(Type)), min_size=1, max_size=5),  # sends; how they end, if so
        st.integers(0, 2),  # topic
        st.sampled_from([None, "load", "heal"]),  # a phase
        st.integers(0, 3),  # exchanges
    ),
    max_size=12,
)
processes = st.lists(st.tuples(st.permutations(range(3)), st.booleans(), batches), min_size=1, max_size=4)


class Written:
    """What processes recorded, told by who recorded it."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.rows: dict[Kind, list[Row]] = {kind: [] for kind in Kind}

    def record(self, process: int, numbering: list[int], work: Any, *, closed: bool) -> None:
        """One process, with its own numbers for topics."""
        recorder = Recorder(segment_path(self.run, process), process, {"role": "producer"})
        for number, name in zip(numbering, TOPICS, strict=True):
            recorder.topic(number, name)
        self._event, time = process << ID_BITS, 1_000
        for step, sends, topic, phase, exchanges in work:
            time += step
            own, name = numbering[topic], TOPICS[topic]
            ops = np.arange(len(sends)) + recorder.new_ops(len(sends))
            recorder.write(Kind.INVOKE, len(sends), time=time, op=ops, f=F.SEND, topic=own, value=ops)
            for op in ops.tolist():
                self._keep(Kind.INVOKE, process, time, op=op, f=F.SEND, topic=name, value=op)
            for op, (answered, type_) in zip(ops.tolist(), sends, strict=True):
                if answered:
                    row = {"op": op, "f": F.SEND, "type": type_, "value": op, "detail": f"ended {type_}"}
                    recorder.write(Kind.COMPLETE, time=time, topic=own, **row)
                    self._keep(Kind.COMPLETE, process, time, topic=name, **row)
            if phase:
                recorder.write(Kind.PHASE, time=time, name=phase)
                self._keep(Kind.PHASE, process, time, name=phase)
            recorder.write(Kind.EXCHANGE, exchanges, time=time, api=exchanges, topic=own)
            for _ in range(exchanges):
                self._keep(Kind.EXCHANGE, process, time, api=exchanges, topic=name)
        self._complete(process)
        if closed:
            recorder.close()

    def _keep(self, kind: Kind, process: int, time: int, **columns: Any) -> None:
        self.rows[kind].append({"event": self._event, "time": time, "process": process, **columns})
        self._event += 1

    def _complete(self, process: int) -> None:
        """What sealing has to add; its time is that of the last event of all."""
        ended = {row["op"] for row in self.rows[Kind.COMPLETE]}
        for row in self.rows[Kind.INVOKE]:
            if row["process"] == process and row["op"] not in ended:
                told = {name: row[name] for name in ("op", "f", "topic", "value")}
                self._keep(Kind.COMPLETE, process, -1, type=Type.INFO, detail=OPEN, **told)

    def expected(self, kind: Kind) -> list[Row]:
        """The rows of a kind, in the order of time and event."""
        last = max((row["time"] for rows in self.rows.values() for row in rows), default=0)
        rows = [row | {"time": last if row["time"] < 0 else row["time"]} for row in self.rows[kind]]
        return sorted(rows, key=lambda row: (row["time"], row["event"]))


@settings(max_examples=60, deadline=None)
@given(work=processes, block=st.integers(1, 9), file=st.integers(1, 30))
def test_a_sealed_history_is_what_was_recorded(work: Any, block: int, file: int) -> None:
    """Row for row, whatever the sizes of blocks and files; counts, times and topics in the manifest are theirs."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "BLOCK_ROWS", block)
        patch.setattr(parquet, "FILE_ROWS", file)
        patch.setattr(parquet, "ROW_GROUP_ROWS", 2 * block)
        written = Written(Path(directory))
        for process, (numbering, closed, steps) in enumerate(work):
            written.record(process, list(numbering), steps, closed=closed)
        sealed = open_history(Path(directory))
        assert len(sealed.damage) == sum(not closed for _, closed, _ in work)
        for kind in Kind:
            found = [row for path in sealed.files[kind] for row in pq.read_table(path).to_pylist()]
            assert [row["time"] for row in found] == sorted(row["time"] for row in found)
            found.sort(key=lambda row: (row["time"], row["event"]))
            told = [{name: row[name] for name in KEPT if row.get(name) is not None} for row in found]
            assert [row | _topic(row, sealed.topics) for row in told] == written.expected(kind)
        _compare(json.loads((Path(directory) / HISTORY / MANIFEST).read_text()), written)


def _topic(row: Row, names: dict[int, str]) -> Row:
    return {"topic": names[row["topic"]]} if "topic" in row else {}


def _compare(manifest: Any, written: Written) -> None:
    rows = {kind: written.expected(kind) for kind in Kind}
    times = [row["time"] for each in rows.values() for row in each]
    assert (manifest["first_time_ns"], manifest["last_time_ns"]) == (min(times, default=0), max(times, default=0))
    for kind, column in parquet.COUNTED.items():
        counts: Counter[str] = Counter()
        for entry in manifest["files"]:
            counts.update(entry["contents"] if entry["kind"] == kind.name.lower() else {})
        assert counts == Counter(str(int(row[column])) for row in rows[kind])
