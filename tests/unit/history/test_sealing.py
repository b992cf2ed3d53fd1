"""Sealing: segments become Parquet in the order of time, open operations become `info`, and damage is reported."""

import json
import mmap
import resource
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.foundation.errors import TidegaugeError
from harness.history import parquet, segments, sources
from harness.history.parquet import parquet_schema
from harness.history.recorder import Recorder
from harness.history.schema import COLUMNS, KINDS, F, Kind, Type, now
from harness.history.sealed import Sealed
from harness.history.sealing import OPEN, open_history, seal
from harness.history.sources import read_unsealed, segment_path

CHECKSUM_BYTES = 4  # of a header, over the rest of it


def rows(sealed: Sealed, kind: Kind) -> list[dict[str, Any]]:
    """The events of a kind, in the order of the files."""
    return [row for file in sealed.files[kind] for row in pq.read_table(file).to_pylist()]


def record_sends(run: Path, process: int, count: int = 10, acknowledged: int = 8, *, closed: bool = True) -> None:
    """Sends of which only the first were answered."""
    recorder = Recorder(segment_path(run, process), process, {"role": "producer"})
    recorder.topic(0, "orders")
    ops = np.arange(count) + recorder.new_ops(count)
    invoked = now()
    recorder.write(Kind.INVOKE, count, time=invoked, op=ops, f=F.SEND, topic=0, partition=ops % 2, value=ops)
    if acknowledged:
        done = ops[:acknowledged]
        offsets = np.arange(acknowledged) // 2
        recorder.write(
            Kind.COMPLETE, acknowledged, op=done, invoked=invoked, f=F.SEND, type=Type.OK, topic=0,
            partition=done % 2, value=done, offset=offsets, error=0, detail="fine",
        )  # fmt: skip
    if closed:
        recorder.close()


def test_a_sealed_history_holds_every_event(tmp_path: Path) -> None:
    """What was recorded comes back, typed as the schema says, with nulls where nothing was said."""
    record_sends(tmp_path, 1, acknowledged=10)
    sealed = open_history(tmp_path)
    assert sealed.damage == []
    assert sealed.topics == {0: "orders"}
    assert sealed.processes[1]["role"] == "producer"
    assert (sealed.rows[Kind.INVOKE], sealed.rows[Kind.COMPLETE], sealed.events) == (10, 10, 20)
    first = rows(sealed, Kind.COMPLETE)[0]
    assert (first["type"], first["offset"], first["detail"], first["sequence"]) == (Type.OK, 0, "fine", None)
    assert not (tmp_path / "segments").exists()


def test_open_operations_become_info(tmp_path: Path) -> None:
    """What was invoked and never answered is completed as `info`, with its own invocation's time."""
    record_sends(tmp_path, 1, count=10, acknowledged=8)
    completed = rows(open_history(tmp_path), Kind.COMPLETE)
    unanswered = [row for row in completed if row["type"] == Type.INFO]
    assert [row["op"] & 0xFF for row in unanswered] == [8, 9]
    assert {row["detail"] for row in unanswered} == {OPEN}
    assert all(row["invoked"] <= row["time"] for row in completed)
    assert all(row["value"] == row["op"] for row in unanswered)
    assert len({row["event"] for row in completed}) == 10


def test_segments_are_merged_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files hold the events of all processes in the order of time, whatever the size of blocks and files."""
    monkeypatch.setattr(sources, "BLOCK_ROWS", 7)
    monkeypatch.setattr(parquet, "FILE_ROWS", 20)
    recorders = [Recorder(segment_path(tmp_path, process), process) for process in (1, 2, 3)]
    for turn in range(30):
        recorders[turn * turn % 3].write(Kind.PHASE, 3, time=np.array([turn, turn, turn + 2]), name=f"turn {turn}")
    for recorder in recorders:
        recorder.close()
    sealed = open_history(tmp_path)
    found = rows(sealed, Kind.PHASE)
    assert len(found) == 90
    assert len(sealed.files[Kind.PHASE]) > 2
    assert len({row["event"] for row in found}) == 90
    assert {row["name"] for row in found} == {f"turn {turn}" for turn in range(30)}


def test_every_kind_has_its_columns(tmp_path: Path) -> None:
    """Each kind is a directory of files with exactly the documented columns, with or without events."""
    Recorder(segment_path(tmp_path, 0), 0).close()
    sealed = open_history(tmp_path)
    for kind in Kind:
        (file,) = sealed.files[kind]
        assert file.parent.name == f"kind={kind.name.lower()}"
        assert pq.read_schema(file).names == list(KINDS[kind])
        assert pq.read_schema(file).equals(parquet_schema(kind))


def test_every_column_is_used() -> None:
    """The schema has no column that no kind has."""
    assert set(COLUMNS) == {name for names in KINDS.values() for name in names}


def test_sealing_twice_is_sealing_once(tmp_path: Path) -> None:
    """A seal that was killed half-way is repeated and gives the same."""
    record_sends(tmp_path, 1)
    (tmp_path / "history.new" / "kind=invoke").mkdir(parents=True)
    (tmp_path / "history.new" / "kind=invoke" / "part-00000.parquet").write_text("half")
    sealed = open_history(tmp_path)
    assert not (tmp_path / "history.new").exists()
    assert sealed.damage == []
    assert open_history(tmp_path) == sealed


def test_a_killed_process_leaves_a_history_that_says_so(tmp_path: Path) -> None:
    """A segment without its end is read, reported, and kept for whoever wants to look."""
    record_sends(tmp_path, 1)
    record_sends(tmp_path, 2, closed=False)
    sealed = open_history(tmp_path)
    assert sealed.damage == ["0002.segment ends without its last frame: its process was killed"]
    assert sealed.damaged_processes == {2}
    assert not sealed.has_holes
    assert sealed.rows[Kind.INVOKE] == 20
    assert [path.name for path in (tmp_path / "segments").iterdir()] == ["0002.segment"]


def test_an_empty_segment_and_a_foreign_file_are_named(tmp_path: Path) -> None:
    """The rest is read."""
    record_sends(tmp_path, 1)
    segment_path(tmp_path, 2).touch()
    (tmp_path / "segments" / "notes.txt").write_text("hello")
    (tmp_path / "segments" / "0009.segment").write_bytes(segment_path(tmp_path, 1).read_bytes())
    sealed = open_history(tmp_path)
    assert sealed.rows[Kind.INVOKE] == 10
    assert sealed.has_holes
    assert [sentence.split()[0] for sentence in sealed.damage] == [
        "segments/0009.segment",
        "segments/notes.txt",
        "0002.segment",
    ]


@pytest.mark.parametrize("change", ["cut", "emptied", "altered", "removed"])
def test_a_damaged_parquet_file_is_left_out_and_named(tmp_path: Path, change: str) -> None:
    """Its events are missing, which is said; the other kinds are read."""
    record_sends(tmp_path, 1)
    file = open_history(tmp_path).files[Kind.COMPLETE][0]
    data = file.read_bytes()
    if change == "removed":
        file.unlink()
    else:
        file.write_bytes({"cut": data[:-20], "emptied": b"", "altered": data[:50] + b"??" + data[52:]}[change])
    sealed = open_history(tmp_path)
    assert sealed.files[Kind.COMPLETE] == []
    assert sealed.rows[Kind.INVOKE] == 10
    assert sealed.has_holes
    assert "history/kind=complete/part-00000.parquet" in sealed.damage[0]


def test_a_file_that_was_rewritten_on_purpose_is_read_and_named(tmp_path: Path) -> None:
    """Somebody took an event out and wrote the file again: what it holds now counts, and the change is told."""
    record_sends(tmp_path, 1, acknowledged=10)
    file = open_history(tmp_path).files[Kind.COMPLETE][0]
    pq.write_table(pq.read_table(file).slice(1), file)
    sealed = open_history(tmp_path)
    assert sealed.rows[Kind.COMPLETE] == 9
    assert not sealed.has_holes
    assert "rewritten after sealing: it has 9 events and had 10" in sealed.damage[0]


def test_a_file_with_other_columns_is_left_out(tmp_path: Path) -> None:
    """It is Parquet, and not ours."""
    record_sends(tmp_path, 1)
    file = open_history(tmp_path).files[Kind.COMPLETE][0]
    pq.write_table(pq.read_table(file).drop_columns(["type"]), file)
    sealed = open_history(tmp_path)
    assert sealed.files[Kind.COMPLETE] == []
    assert sealed.has_holes


def test_a_foreign_file_in_a_sealed_history_is_named(tmp_path: Path) -> None:
    """It is not read, and nothing else is affected."""
    record_sends(tmp_path, 1)
    directory = open_history(tmp_path).directory
    (directory / "kind=invoke" / "part-00009.parquet").write_bytes(b"not ours")
    sealed = open_history(tmp_path)
    assert sealed.damage == ["history/kind=invoke/part-00009.parquet is no file of this run and was left out"]
    assert not sealed.has_holes
    assert sealed.rows[Kind.INVOKE] == 10


def test_a_run_without_a_history_is_an_error(tmp_path: Path) -> None:
    """There is nothing that could be opened."""
    with pytest.raises(TidegaugeError, match="holds no history"):
        open_history(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 2}'])
def test_a_manifest_that_makes_no_sense_is_an_error(tmp_path: Path, text: str) -> None:
    """Without it nobody knows what should be there."""
    record_sends(tmp_path, 1)
    (open_history(tmp_path).directory / "manifest.json").write_text(text)
    with pytest.raises(TidegaugeError, match="cannot be understood"):
        open_history(tmp_path)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    """A history of another version is not misread."""
    record_sends(tmp_path, 1)
    manifest = open_history(tmp_path).directory / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema_version": 99}))
    with pytest.raises(TidegaugeError, match="schema 99"):
        open_history(tmp_path)


def test_the_last_acknowledged_offsets_are_known_before_sealing(tmp_path: Path) -> None:
    """By topic and partition, over all processes; what was not acknowledged does not count."""
    record_sends(tmp_path, 1, count=10, acknowledged=8)
    record_sends(tmp_path, 2, count=10, acknowledged=0)
    unsealed = read_unsealed(tmp_path)
    assert unsealed.acknowledged == {(0, 0): 3, (0, 1): 3}
    assert unsealed.topics == {0: "orders"}


def test_the_topics_that_were_deleted_are_known_before_sealing(tmp_path: Path) -> None:
    """Or may have been: one whose deletion nobody knows about, and one that was being deleted at the end."""
    for process, (name, ended) in enumerate(
        [("gone", Type.OK), ("perhaps", Type.INFO), ("refused", Type.FAIL), ("open", None), ("created", Type.OK)]
    ):
        with Recorder(segment_path(tmp_path, process), process, {"role": "admin"}) as recorder:
            recorder.topic(7, name)  # each process numbers by itself
            op = recorder.begin(F.CREATE if name == "created" else F.DELETE, topic=7)
            if ended is not None:
                recorder.end(op, ended, topic=7)
    assert read_unsealed(tmp_path).deleted == {"gone", "perhaps", "open"}


def test_a_hole_loses_its_own_rows_only(tmp_path: Path) -> None:
    """A hundred bytes punched into a completion frame turn its sends into info, and absence proves nothing any more."""
    record_sends(tmp_path, 1, acknowledged=10)
    record_sends(tmp_path, 2, acknowledged=10)
    path = segment_path(tmp_path, 1)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 300)
        file.write(bytes(100))
    sealed = open_history(tmp_path)
    types = [row["type"] for row in rows(sealed, Kind.COMPLETE)]
    assert types.count(Type.INFO) == 10
    assert types.count(Type.OK) == 10
    assert sealed.has_holes
    assert sealed.damaged_processes == {1}


def test_a_history_without_any_event_can_be_sealed(tmp_path: Path) -> None:
    """A run that was killed before anything happened."""
    (tmp_path / "segments").mkdir()
    seal(tmp_path)
    assert open_history(tmp_path).events == 0


def test_without_its_manifest_a_sealed_history_is_not_made_anew(tmp_path: Path) -> None:
    """What is left of the segments is not the history: it would be taken for all there was."""
    record_sends(tmp_path, 1)
    record_sends(tmp_path, 2, closed=False)
    (open_history(tmp_path).directory / "manifest.json").unlink()
    with pytest.raises(TidegaugeError, match="cannot be understood"):
        open_history(tmp_path)
    assert (tmp_path / "history" / "kind=invoke").is_dir()


def record_topics(run: Path, process: int, topics: dict[int, str], used: list[int]) -> None:
    """A process that numbers topics in its own way, and sends one message to each of some."""
    with Recorder(segment_path(run, process), process) as recorder:
        for number, name in topics.items():
            recorder.topic(number, name)
        for number in used:
            recorder.write(Kind.COMPLETE, f=F.SEND, type=Type.OK, topic=number, partition=0, offset=process)
            recorder.write(Kind.EXCHANGE, topic=number, partition=0)
            recorder.write(Kind.PHASE, name="no topic at all")


def test_a_topic_has_one_number_whatever_its_processes_call_it(tmp_path: Path) -> None:
    """The smallest; rows without a topic, and those whose topic nobody named, stay as they are."""
    null = COLUMNS["topic"].null
    record_topics(tmp_path, 1, {0: "orders", 1: "bills"}, [0, 1])
    record_topics(tmp_path, 2, {1000: "bills", 1001: "mine", 1002: "orders"}, [1002, 1001, 1000, null, 77])
    unsealed = read_unsealed(tmp_path)
    assert unsealed.acknowledged == {
        (0, 0): 2, (1, 0): 2, (1001, 0): 2, (77, 0): 2, (null, 0): 2,
    }  # fmt: skip
    assert unsealed.topics == {0: "orders", 1: "bills", 1001: "mine"}
    sealed = open_history(tmp_path)
    assert sealed.topics == {0: "orders", 1: "bills", 1001: "mine"}
    for kind in (Kind.COMPLETE, Kind.EXCHANGE):
        assert [row["topic"] for row in rows(sealed, kind)] == [0, 1, 0, 1001, 1, None, 77]
    assert sealed.rows[Kind.PHASE] == 7


def test_two_topics_never_share_a_number(tmp_path: Path) -> None:
    """Two processes that made up the same number for different topics are told apart."""
    record_topics(tmp_path, 1, {1000: "b", 1001: "c"}, [1000, 1001])
    record_topics(tmp_path, 2, {1000: "a", 1001: "b"}, [1000, 1001])
    sealed = open_history(tmp_path)
    assert sorted(sealed.topics.values()) == ["a", "b", "c"]
    assert [sealed.topics[row["topic"]] for row in rows(sealed, Kind.EXCHANGE)] == ["b", "c", "a", "b"]


def test_one_process_may_call_a_topic_by_two_numbers(tmp_path: Path) -> None:
    """Both are the same topic."""
    record_topics(tmp_path, 1, {5: "a", 3: "a"}, [5, 3])
    sealed = open_history(tmp_path)
    assert sealed.topics == {3: "a"}
    assert [row["topic"] for row in rows(sealed, Kind.EXCHANGE)] == [3, 3]


def test_a_disk_that_takes_no_more_leaves_no_half_written_history(tmp_path: Path) -> None:
    """What was recorded is still there, and is sealed when there is room again."""
    record_sends(tmp_path, 1, count=20_000, acknowledged=20_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            seal(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["segments"]
    assert open_history(tmp_path).events == 40_000


def test_a_segment_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sealing opens it once, and looks once at each byte: whatever is read is checked, and nothing is checked twice."""
    for process in (1, 2, 3):
        record_sends(tmp_path, process)
    frames = {path: path.read_bytes().count(segments.MAGIC) for path in (tmp_path / "segments").iterdir()}
    size = sum(path.stat().st_size - frames[path] * CHECKSUM_BYTES for path in frames)
    checked: list[int] = []
    opened: list[int] = []

    class Checksums:
        """As zlib has them, counted."""

        @staticmethod
        def crc32(data: memoryview) -> int:
            checked.append(len(data))
            return zlib.crc32(data)

    class Maps:
        """As mmap has them, counted."""

        ACCESS_READ = mmap.ACCESS_READ

        @staticmethod
        def mmap(file: int, length: int, access: int) -> mmap.mmap:
            opened.append(file)
            return mmap.mmap(file, length, access=access)

    monkeypatch.setattr(segments, "zlib", Checksums)
    monkeypatch.setattr(segments, "mmap", Maps)
    seal(tmp_path)
    assert len(opened) == 3
    assert sum(checked) == size
