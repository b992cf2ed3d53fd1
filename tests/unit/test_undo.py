"""The journal, and undoing what it says."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import undo
from harness.undo import JOURNAL, read, record, undo_all


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is really undone, only written down; and the clock jumps instead of waiting."""
    calls: list[str] = []
    now = [0.0]

    def remember(kind: str) -> Callable[[str], None]:
        def call(value: str) -> None:
            calls.append(f"{kind} {value}")
            if value == "stuck":
                raise OSError("busy\nmore")
            if value == "silent":
                raise RuntimeError

        return call

    for kind in undo._UNDO:
        monkeypatch.setitem(undo._UNDO, kind, remember(kind))
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    monkeypatch.setattr(undo, "time", clock)
    return calls


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of a cluster."""
    made = tmp_path / "cluster"
    made.mkdir()
    return made


def test_the_journal_keeps_order_and_text(directory: Path) -> None:
    """What is recorded is read back, in order, whatever characters it has."""
    entries = [{"kind": "netns", "value": value} for value in ("a", 'q"uo\\te', "new\nline", "é\u2028☃", "")]
    for entry in entries:
        record(directory, entry)
    assert read(directory) == entries
    assert (directory / JOURNAL).stat().st_mode & 0o777 == 0o600


def test_no_journal_is_an_empty_one(tmp_path: Path) -> None:
    """A cluster that made nothing has nothing to undo."""
    assert read(tmp_path) == []
    assert read(tmp_path / "nowhere") == []


@pytest.mark.parametrize("torn", [b"{", b'{"kind": "netns", "value": "b"', b'{"kind": "\xc3', b"\x00\x00\x00"])
def test_a_torn_last_line_is_ignored(directory: Path, torn: bytes) -> None:
    """It names something that was never made; what was written before it counts."""
    record(directory, {"kind": "netns", "value": "a"})
    with (directory / JOURNAL).open("ab") as file:
        file.write(torn)
    assert read(directory) == [{"kind": "netns", "value": "a"}]


def test_a_short_write_is_not_taken_for_a_whole_one(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A nearly full disk takes part of a line: either the rest follows, or the caller hears of it."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
    try:
        record(directory, {"kind": "netns", "value": "a"})
    except OSError:
        return
    assert read(directory) == [{"kind": "netns", "value": "a"}]


def test_what_makes_things_is_undone_first(directory: Path, undone: list[str]) -> None:
    """Processes before containers before namespaces before links, in whatever order they were made."""
    for kind in ("link", "netns", "compose", "processes"):
        record(directory, {"kind": kind, "value": "x"})
    assert undo_all(directory) == []
    assert undone == ["processes x", "compose x", "netns x", "link x"]
    assert not directory.exists()


def test_things_of_one_kind_keep_their_order_and_are_undone_once(directory: Path, undone: list[str]) -> None:
    """A thing recorded twice is undone once."""
    for value in ("b", "a", "b"):
        record(directory, {"kind": "netns", "value": value})
    assert undo_all(directory) == []
    assert undone == ["netns b", "netns a"]


def test_undoing_is_idempotent(directory: Path, undone: list[str]) -> None:
    """A second time there is nothing left to do, and that is no error."""
    record(directory, {"kind": "netns", "value": "a"})
    assert undo_all(directory) == undo_all(directory) == []
    assert undone == ["netns a"]


def test_an_unknown_kind_is_reported_and_kept(directory: Path, undone: list[str]) -> None:
    """What a newer version wrote stays, with the directory, for somebody who can undo it; the rest is undone."""
    for kind in ("zeppelin", "airship", "netns"):
        record(directory, {"kind": kind, "value": "x"})
    assert undo_all(directory, patience_s=0) == [
        "do not know how to undo 'airship'",
        "do not know how to undo 'zeppelin'",
    ]
    assert set(undone) == {"netns x"}
    assert read(directory)


@pytest.mark.parametrize(("value", "said"), [("stuck", "netns stuck: busy"), ("silent", "netns silent: RuntimeError")])
def test_one_thing_that_resists_does_not_keep_the_others(
    directory: Path, undone: list[str], value: str, said: str
) -> None:
    """The rest is undone, the reason is told in one line, and the directory stays."""
    for kind, each in (("netns", value), ("netns", "a"), ("link", "b")):
        record(directory, {"kind": kind, "value": each})
    assert undo_all(directory, patience_s=0) == [said]
    assert {"netns a", "link b"} <= set(undone)
    assert directory.exists()


def test_undoing_is_tried_again(directory: Path, undone: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is busy now may be free in a moment."""
    attempts: list[str] = []

    def busy_twice(value: str) -> None:
        attempts.append(value)
        if len(attempts) < 3:
            raise OSError("busy")

    monkeypatch.setitem(undo._UNDO, "link", busy_twice)
    record(directory, {"kind": "link", "value": "a"})
    assert undo_all(directory, patience_s=5) == []
    assert attempts == ["a", "a", "a"]


@pytest.mark.parametrize("kind", ["netns", "link"])
def test_what_never_came_needs_no_tool(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace or link that does not exist is not deleted: `ip` may not even be installed."""
    monkeypatch.setenv("PATH", "")
    undo._UNDO[kind]("tg-no-such-thing")


def test_a_failing_tool_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What `ip` says on standard error becomes the reason."""
    fake = tmp_path / "ip"
    fake.write_text("#!/bin/sh\necho 'Cannot find device' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match="Cannot find device"):
        undo._ip("link", "delete", "x")


@pytest.mark.parametrize("line", ['{"kind": "netns"}', "5", "[]", "null"])
def test_a_line_without_sense_does_not_stop_the_rest(directory: Path, undone: list[str], line: str) -> None:
    """A line that is JSON but no entry, by whatever accident, is no reason to leave everything else alive."""
    with (directory / JOURNAL).open("a") as file:
        file.write(f"{line}\n")
    record(directory, {"kind": "link", "value": "a"})
    undo_all(directory, patience_s=0)
    assert undone == ["link a"]
