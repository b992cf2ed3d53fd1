"""The schema and the recorder: what a row holds, and that an invocation is on disk before its call is made."""

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.history import recorder as recording
from harness.history.recorder import TOO_MANY_TEXTS, Recorder
from harness.history.schema import COLUMNS, ID_BITS, KINDS, SCHEMA_VERSION, F, Kind, Type, row_type
from harness.history.sealing import open_history
from harness.history.segments import Segment
from harness.history.sources import segment_path
from tests.support import REPOSITORY


def test_an_invocation_is_in_the_file_before_the_call_is_made(tmp_path: Path) -> None:
    """When `begin` returns, another process can read the invocation: nothing waits in a buffer."""
    path = segment_path(tmp_path, 4)
    recorder = Recorder(path, 4)
    recorder.begin(F.POLL)
    assert [frame.kind for frame in Segment(path).frames()] == [Kind.INVOKE]
    recorder.close()


def test_operations_and_events_are_unique_in_the_run(tmp_path: Path) -> None:
    """The process is part of both."""
    with Recorder(segment_path(tmp_path, 1), 1) as one, Recorder(segment_path(tmp_path, 2), 2) as other:
        ops = [one.begin(F.POLL), one.begin(F.POLL), other.begin(F.POLL)]
    assert len({op.id for op in ops}) == 3
    assert {op.id >> ID_BITS for op in ops} == {1, 2}


def test_a_completion_carries_its_invocations_time(tmp_path: Path) -> None:
    """So that no check has to join the two."""
    with Recorder(segment_path(tmp_path, 1), 1) as recorder:
        op = recorder.begin(F.POLL, topic=3)
        recorder.end(op, Type.OK, count=7, detail="all of them")
    (row,) = pq.read_table(open_history(tmp_path).files[Kind.COMPLETE]).to_pylist()
    assert (row["op"], row["invoked"], row["count"], row["detail"]) == (op.id, op.invoked, 7, "all of them")
    assert row["time"] >= op.invoked


def test_columns_are_arrays_or_one_value_for_all(tmp_path: Path) -> None:
    """What is left out, or None, is null."""
    with Recorder(segment_path(tmp_path, 1), 1) as recorder:
        recorder.write(Kind.PROBE, 3, node=2, partition=np.array([0, 1, 2]), offset=None, brokers="1,2,3")
    table = pq.read_table(open_history(tmp_path).files[Kind.PROBE]).to_pydict()
    assert (table["node"], table["partition"]) == ([2, 2, 2], [0, 1, 2])
    assert (table["offset"], table["brokers"]) == ([None] * 3, ["1,2,3"] * 3)


def test_a_column_that_a_kind_does_not_have_is_an_error(tmp_path: Path) -> None:
    """Nothing is dropped in silence."""
    with Recorder(segment_path(tmp_path, 1), 1) as recorder, pytest.raises(ValueError, match="no field"):
        recorder.write(Kind.PHASE, offset=3)


def test_no_rows_are_no_frame(tmp_path: Path) -> None:
    """A poll that returned nothing has no records."""
    with Recorder(segment_path(tmp_path, 1), 1) as recorder:
        recorder.write(Kind.RECORD, 0, offset=np.array([], np.int64))
    assert list(Segment(segment_path(tmp_path, 1)).frames()) == []


def test_texts_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that never says the same twice costs no more than a fixed number of texts."""
    monkeypatch.setattr(recording, "TEXTS_AT_MOST", 3)
    with Recorder(segment_path(tmp_path, 1), 1) as recorder:
        for number in range(10):
            recorder.write(Kind.PHASE, name=f"text {number}")
    names = pq.read_table(open_history(tmp_path).files[Kind.PHASE]).to_pydict()["name"]
    assert names == ["text 0", "text 1", "text 2", *[TOO_MANY_TEXTS] * 7]
    assert len(recorder._texts) == 4


@pytest.mark.parametrize("kind", Kind)
def test_a_row_is_fixed_and_small(kind: Kind) -> None:
    """Hot columns are integers; every column knows its null."""
    assert row_type(kind).names == KINDS[kind]
    assert row_type(kind).itemsize <= 160
    assert all(COLUMNS[name].null < -100 for name in KINDS[kind])


def test_the_specification_has_every_kind_and_column_as_the_code_has_them() -> None:
    """docs/history.md is what other programs are written by."""
    text = (REPOSITORY / "docs" / "history.md").read_text(encoding="utf-8")
    assert f"schema version {SCHEMA_VERSION};" in text
    for kind, columns in KINDS.items():
        own = ", ".join(f"`{name}`" for name in columns if name not in {"event", "time", "process"})
        assert re.search(rf"^\| `{kind.name.lower()}` \| .* \| {re.escape(own)} \|$", text, re.MULTILINE), kind
    types = {"<i8": "int64", "<i4": "int32", "<i2": "int16", "i1": "int8", "text": "string"}
    for name, column in COLUMNS.items():
        assert f"| `{name}` | {types[column.type]} | {column.about} |\n" in text
