"""Segments: what was written is read, and torn tails, holes and lost frames are told apart."""

import os
from pathlib import Path

import pytest

from harness.history.segments import HEADER_BYTES, Damage, Segment, SegmentWriter

ROWS = b"0123456789" * 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a segment is written."""
    return tmp_path / "0003.segment"


def written(path: Path, frames: int = 5, *, closed: bool = True) -> list[int]:
    """A segment with that many frames of rows; returns where each frame begins, and the end."""
    writer = SegmentWriter(path, {"process": 3})
    starts = []
    for number in range(frames):
        starts.append(path.stat().st_size)
        writer.append(2, 30, bytes([number]) + ROWS)
    starts.append(path.stat().st_size)
    if closed:
        writer.close()
    else:
        os.close(writer._file)
    return starts


def kept(path: Path) -> list[int]:
    """The numbers of the frames that were read."""
    return [block[0] for block in Segment(path).blocks(2, 1)]


def checked(path: Path) -> Segment:
    """All of it read."""
    segment = Segment(path)
    segment.check()
    return segment


def test_what_was_written_is_read(path: Path) -> None:
    """An undamaged segment has all its frames and no damage."""
    written(path)
    segment = checked(path)
    assert (segment.process, segment.damage) == (3, Damage())
    assert kept(path) == [0, 1, 2, 3, 4]


def test_texts_and_topics_are_read(path: Path) -> None:
    """Texts and topics come back under their numbers."""
    writer = SegmentWriter(path, {"process": 3})
    writer.append_text(0, "späť")
    writer.append_topic(7, "orders")
    writer.close()
    segment = checked(path)
    assert (segment.texts, segment.topics) == ({0: "späť"}, {7: "orders"})


def test_a_process_that_was_killed_is_told(path: Path) -> None:
    """Without the last frame nothing is lost, but it is said that the process did not end well."""
    written(path, closed=False)
    segment = checked(path)
    assert list(segment.damage.sentences) == ["0003.segment ends without its last frame: its process was killed"]
    assert not segment.damage.has_holes
    assert kept(path) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("missing", [1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1, 300])
def test_a_torn_tail_is_read_up_to_the_tear(path: Path, missing: int) -> None:
    """The last frame is torn: all before it is read, and the tear is told; that is no hole."""
    starts = written(path, closed=False)
    os.truncate(path, starts[-1] - missing)
    segment = checked(path)
    assert kept(path) == [0, 1, 2, 3]
    assert "is torn" in segment.damage.sentences[0]
    assert not segment.damage.has_holes


def test_a_hole_is_left_out_and_the_rest_is_read(path: Path) -> None:
    """A hundred bytes in the middle are overwritten: two frames at most are lost, the others are read."""
    starts = written(path)
    with path.open("r+b") as file:
        file.seek(starts[2] + 40)
        file.write(bytes(100))
    segment = checked(path)
    assert kept(path) == [0, 1, 3, 4]
    assert segment.damage.has_holes
    assert any(f"from byte {starts[2]:,} are damaged" in sentence for sentence in segment.damage.sentences)


def test_a_frame_that_was_cut_out_is_missed(path: Path) -> None:
    """Whole frames with one missing between them are told by their numbers."""
    starts = written(path)
    data = path.read_bytes()
    path.write_bytes(data[: starts[1]] + data[starts[2] :])
    segment = checked(path)
    assert segment.damage.has_holes
    assert list(segment.damage.sentences) == ["0003.segment: frame 3 stands where frame 2 should"]


def test_an_empty_segment_is_named(path: Path) -> None:
    """Nothing at all was written."""
    path.touch()
    segment = checked(path)
    assert "is empty" in segment.damage.sentences[0]
    assert list(segment.frames()) == []


def test_a_segment_that_does_not_say_whose_it_is_cannot_be_used(path: Path) -> None:
    """The first frame is lost: whose events these are is unknown."""
    starts = written(path)
    data = bytearray(path.read_bytes())
    data[: starts[0]] = bytes(starts[0])
    path.write_bytes(data)
    segment = checked(path)
    assert list(segment.frames()) == []
    assert segment.damage.has_holes
    assert "does not say whose it is" in segment.damage.sentences[-1]


def test_garbage_is_no_segment(path: Path) -> None:
    """A file of anything is read without an error, and nothing of it is believed."""
    path.write_bytes(b"TGS1" * 1000)
    segment = checked(path)
    assert list(segment.frames()) == []
    assert segment.damage.sentences


def test_a_segment_is_never_written_over(path: Path) -> None:
    """Two processes with one number would mix their events: the second one fails instead."""
    written(path)
    with pytest.raises(FileExistsError):
        SegmentWriter(path, {"process": 3})
