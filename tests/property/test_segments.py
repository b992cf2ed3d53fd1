"""Segments that are changed or cut anywhere: what is read was written, and the damage is reported."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history.recorder import Recorder
from harness.history.schema import F, Kind, Type
from harness.history.sealing import open_history
from harness.history.segments import Segment
from harness.history.sources import segment_path

FRAMES = 12


def recorded(run: Path) -> Path:
    """A segment of sends and their completions."""
    path = segment_path(run, 1)
    with Recorder(path, 1) as recorder:
        for _ in range(FRAMES // 2):
            ops = np.arange(8) + recorder.new_ops(8)
            recorder.write(Kind.INVOKE, 8, op=ops, f=F.SEND, value=ops)
            recorder.write(Kind.COMPLETE, 8, op=ops, invoked=1, f=F.SEND, type=Type.OK, value=ops, offset=ops)
    return path


def checked(path: Path) -> Segment:
    """All of it read."""
    segment = Segment(path)
    segment.check()
    return segment


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_damage_goes_unnoticed(data: st.DataObject) -> None:
    """Whatever bytes are changed or cut off: every frame that is read is one that was written, and it is reported."""
    with tempfile.TemporaryDirectory() as directory:
        path = recorded(Path(directory))
        whole = path.read_bytes()
        frames = {whole[f.start : f.end] for f in checked(path).frames()}
        start = data.draw(st.integers(0, len(whole) - 1))
        size = data.draw(st.integers(1, 400))
        change = data.draw(st.sampled_from(["zeros", "noise", "cut", "truncate"]))
        middle = {"zeros": bytes(size), "noise": b"\xa5" * size, "cut": b"", "truncate": b""}[change]
        tail = b"" if change == "truncate" else whole[start + size :]
        damaged = (whole[:start] + middle + tail)[: len(whole)]
        path.write_bytes(damaged)
        segment = checked(path)
        assert {damaged[f.start : f.end] for f in segment.frames()} <= frames
        assert bool(segment.damage.sentences) == (damaged != whole)


@settings(max_examples=30, deadline=None)
@given(length=st.integers(0, 3000))
def test_a_segment_cut_anywhere_opens_without_contradictions(length: int) -> None:
    """Up to the tear: no completion without an invocation, none before it, each event once, open operations info."""
    with tempfile.TemporaryDirectory() as directory:
        path = recorded(Path(directory))
        path.write_bytes(path.read_bytes()[:length])
        sealed = open_history(Path(directory))
        import pyarrow.parquet as pq

        invoked = pq.read_table(sealed.files[Kind.INVOKE]).to_pylist()
        completed = pq.read_table(sealed.files[Kind.COMPLETE]).to_pylist()
        events = [row["event"] for row in invoked + completed]
        assert len(set(events)) == len(events)
        assert sorted(row["op"] for row in completed) == sorted(row["op"] for row in invoked)
        assert all(row["invoked"] <= row["time"] for row in completed)
        assert sealed.damage
