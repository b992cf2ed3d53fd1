"""The trace: slices for operations, faults and phases, watermarks as counters, and a note of what is left out."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.history.recorder import Recorder
from harness.history.schema import F, FaultStage, Kind, Type
from harness.history.sealed import Sealed
from harness.history.sealing import open_history
from harness.history.sources import segment_path
from harness.report import trace

MS = 1_000_000


def recorded(run: Path, sends: int = 3) -> Sealed:
    """A producer, a probe, a fault, phases."""
    with Recorder(segment_path(run, 0), 0, {"role": "runner"}) as runner:
        runner.topic(0, "<script>")
        for name, at in (("load", 0), ("final", 900)):
            runner.write(Kind.PHASE, time=at * MS, name=name)
        for stage, at in ((FaultStage.INJECTED, 100), (FaultStage.BIT, 150), (FaultStage.UNDONE, 200)):
            runner.write(Kind.FAULT, time=at * MS, fault=1, stage=stage, name="kill", detail="it died")
    with Recorder(segment_path(run, 2), 2, {"role": "producer", "client": "kafka-python"}) as producer:
        producer.topic(0, "<script>")
        # a batch that ended together, and sends that overlap
        batch = np.arange(3)
        columns = {"f": F.SEND, "type": Type.OK, "topic": 0, "partition": 0, "error": 0}
        producer.write(
            Kind.COMPLETE, 3, time=50 * MS, invoked=np.array([10, 11, 12]) * MS, op=batch, offset=batch, **columns
        )
        for number in range(sends):
            producer.write(
                Kind.COMPLETE, time=(60 + number) * MS, invoked=20 * MS, op=10 + number, offset=3 + number, **columns
            )
    with Recorder(segment_path(run, 3), 3, {"role": "probe"}) as probe:
        for at, mark in ((30, 0), (40, 0), (55, 3), (56, 3)):
            probe.write(
                Kind.PROBE, time=at * MS, invoked=at * MS, node=1, api=1, topic=0, partition=0, high_watermark=mark
            )
    return open_history(run)


def written(run: Path, sealed: Sealed) -> dict[str, Any]:
    """The trace, read back."""
    trace.write_trace(sealed, run / "trace.json", {"anchor": {"monotonic_ns": 1, "wall_ns": 2}})
    data: dict[str, Any] = json.loads((run / "trace.json").read_text(encoding="utf-8"))
    return data


def check_structure(data: dict[str, Any]) -> None:
    """What Perfetto needs: known phases, numbers where they belong, and slices of a lane that do not overlap."""
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in data["traceEvents"]:
        assert event["ph"] in {"X", "C", "M", "i"}
        assert isinstance(event["pid"], int)
        assert event["pid"] > 0
        if event["ph"] in {"X", "C", "i"}:
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        if event["ph"] == "C":
            assert all(isinstance(value, int) for value in event["args"].values())
    for spans in lanes.values():
        ordered = sorted(spans)
        assert all(one[1] <= other[0] + 1e-6 for one, other in pairwise(ordered))


def of(data: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    """The events of one phase."""
    return [event for event in data["traceEvents"] if event["ph"] == phase]


def test_a_trace_is_one_that_viewers_can_read(tmp_path: Path) -> None:
    """And says when the run was."""
    data = written(tmp_path, recorded(tmp_path))
    check_structure(data)
    assert data["otherData"]["anchor"] == {"monotonic_ns": 1, "wall_ns": 2}
    assert data["otherData"]["cut"] == []
    names = {event["args"]["name"] for event in of(data, "M")}
    assert {"producer 2, kafka-python", "watermarks", "faults and phases"} <= names


def test_sends_that_ended_together_are_one_slice(tmp_path: Path) -> None:
    """From the first that was handed over; those that end one by one are alone."""
    slices = {event["name"]: event for event in of(written(tmp_path, recorded(tmp_path)), "X")}
    batch = slices["send p0 ×3 ok"]
    assert (batch["ts"], batch["dur"]) == (10_000.0, 40_000.0)
    assert (batch["args"]["offset"], batch["args"]["last offset"]) == (0, 2)
    assert "send p0 ok" in slices


def test_faults_and_phases_are_slices(tmp_path: Path) -> None:
    """From injection to undoing, with the proof that it bit; a phase lasts to the next."""
    slices = {event["name"]: event for event in of(written(tmp_path, recorded(tmp_path)), "X")}
    assert (slices["kill"]["ts"], slices["kill"]["dur"]) == (100_000.0, 100_000.0)
    assert slices["kill"]["args"] == {"bit": True, "proof": "it died", "undone": True}
    assert slices["load"]["dur"] == 900_000.0


def test_watermarks_are_counted_where_they_change(tmp_path: Path) -> None:
    """And beside them what was acknowledged."""
    counts = [
        (event["name"], event["ts"], event["args"]["offset"])
        for event in of(written(tmp_path, recorded(tmp_path)), "C")
    ]
    assert [each for each in counts if "node 1" in each[0]] == [
        ("<script>-0 node 1 to probes", 30_000.0, 0),
        ("<script>-0 node 1 to probes", 55_000.0, 3),
    ]
    assert max(offset for name, _, offset in counts if name.endswith("last acknowledged")) == 5


def test_every_fall_of_a_watermark_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a line that has more points than fit, the rises are thinned and nothing that went backward is."""
    monkeypatch.setattr(trace, "POINTS", 2)
    with Recorder(segment_path(tmp_path, 3), 3, {"role": "probe"}) as probe:
        marks = [*range(100), 40, *range(41, 100)]
        for at, mark in enumerate(marks):
            probe.write(
                Kind.PROBE, time=at * MS, invoked=at * MS, node=1, api=1, topic=0, partition=0, high_watermark=mark
            )
    values = [event["args"]["offset"] for event in of(written(tmp_path, open_history(tmp_path)), "C")]
    assert len(values) < 10
    assert (99, 40) in set(pairwise(values))
    assert values[-1] == 99


def test_what_is_left_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many slices, too many counts, too many at a time: each has its sentence, in the file and to the caller."""
    monkeypatch.setattr(trace, "LANES_AT_MOST", 2)
    monkeypatch.setattr(trace, "SLICES_AT_MOST", 2)
    monkeypatch.setattr(trace, "COUNTS_AT_MOST", 3)
    sealed = recorded(tmp_path, sends=9)
    cut = trace.write_trace(sealed, tmp_path / "trace.json")
    data = json.loads((tmp_path / "trace.json").read_text())
    check_structure(data)
    assert data["otherData"]["cut"] == cut
    assert [event["name"] for event in of(data, "i")] == cut
    assert len(of(data, "C")) == 3
    assert "operations that ended after 0.061 s are left out: the limit is 500,000, drawn as 2 slices" in cut
    assert any(sentence.startswith("watermarks after") for sentence in cut)


def test_more_at_a_time_than_lanes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They cannot be drawn, and are not forgotten."""
    monkeypatch.setattr(trace, "LANES_AT_MOST", 2)
    cut = trace.write_trace(recorded(tmp_path, sends=9), tmp_path / "trace.json")
    assert cut == ["8 slices are left out: more than 2 of one process at the same time"]


def test_an_empty_history_has_an_empty_trace(tmp_path: Path) -> None:
    """Nothing to draw is no error."""
    Recorder(segment_path(tmp_path, 0), 0).close()
    check_structure(written(tmp_path, open_history(tmp_path)))
