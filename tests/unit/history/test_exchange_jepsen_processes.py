"""Passages that several processes read: the same rows, the same errors, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.foundation.errors import TidegaugeError, UsageError
from harness.history.exchange import importing
from harness.history.exchange import jepsen_processes as helpers
from harness.history.exchange.lines import Chunk
from tests.support.foreign_histories import edn, give, jsonl, take

PROCESSES = 3
MANY = 60


def operations(count: int) -> list[str]:
    """Sends and polls of processes that overlap; each completion comes after the next process's invocation."""
    lines = []
    for number in range(count):
        process, key = number % PROCESSES, number % 2
        lines.append(f":type :invoke, :process {process}, :f :txn, :value [[:send {key} {number}] [:poll]]")
        if number >= PROCESSES - 1:
            ended = number - PROCESSES + 1
            value = f"[[:send {ended % 2} [{ended} {ended}]] [:poll {{{ended % 2} [[{ended} {ended}]]}}]]"
            lines.append(f":type :ok, :process {ended % PROCESSES}, :f :txn, :value {value}, :error :e{ended % 5}")
    return lines


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a short file has many passages."""
    monkeypatch.setattr("harness.history.exchange.lines.BLOCK_BYTES", 1500)


def without_numbers(file: Path) -> list[str]:
    """The lines of an export without the numbers of events, which go by passages."""
    lines = (line.split(',"event":') for line in file.read_text().splitlines())
    return sorted(before + "".join(rest)[len(rest[0].split(",")[0]) if rest else 0 :] for before, *rest in lines)


def test_passages_say_together_what_the_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was invoked in one and completed in another."""
    file = edn(tmp_path / "h.edn", operations(MANY))
    whole = take(file, tmp_path / "store")
    monkeypatch.setattr("harness.history.exchange.lines.BLOCK_BYTES", 1500)
    parts = take(file, tmp_path / "store", name="h")
    assert parts.source["sha256"] == whole.source["sha256"]
    assert (parts.events, parts.notes) == (whole.events, whole.notes)
    one, other = (give(taken, tmp_path / f"{place}.jsonl").file for place, taken in enumerate((whole, parts)))
    assert without_numbers(one) == without_numbers(other)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("at", "damage", "said"),
    [
        (70, "{", "'{' is not closed"),
        (70, "{:index 70, :time 5, :type :info, :process :nemesis, :f :x}", ":time goes back"),
        (70, ":type :ok, :process 9, :f :send, :value [[:send 1 [1 1]]]", "process 9 completes :send"),
        (4, ":type :invoke, :process 9, :f :send, :value [[:send 1 1]]", "sent twice to key 1 (first on line 2)"),
    ],
)  # fmt: skip
def test_damage_in_any_passage_is_the_first(tmp_path: Path, at: int, damage: str, said: str) -> None:
    """Although a later one has more of it."""
    lines = operations(MANY)
    lines[at] = damage
    lines[100] = "]"
    file = edn(tmp_path / "h.edn", lines)
    before = set(psutil.Process().children())
    with pytest.raises(UsageError) as refused:
        take(file, tmp_path / "store")
    assert refused.value.message.startswith(f"{file} line {at + 1}: ")
    assert said in refused.value.message
    assert [path.name for path in tmp_path.iterdir()] == ["h.edn"]
    assert set(psutil.Process().children()) <= before


def test_a_helper_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nobody waits for it."""
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(TidegaugeError, match="has died"):
        list(helpers.read_all([Chunk(number, ["{}"]) for number in (1, 2, 3)]))


def test_a_killed_import_leaves_no_process_and_what_it_left_goes_with_the_next(tmp_path: Path) -> None:
    """The helper ends with its pipe; the directory is removed by whoever comes next."""
    code = (
        "import sys, time; from harness.history.exchange import jepsen_processes as helpers\n"
        "with helpers._started(1) as [helper]:\n    print(helper.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        helper = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    helper.wait(60) if helper.is_running() else None
    left = tmp_path / "store" / ".import-left"
    alive = tmp_path / "store" / ".import-alive"
    for path in (left, alive):
        path.mkdir(parents=True)
        (path / "owner").touch()
    os.utime(left / "owner", (time.time() - 3600,) * 2)
    take(jsonl(tmp_path / "h.jsonl", {"kind": "phase", "time": 1, "process": 0, "name": "load"}), tmp_path / "store")
    assert not left.exists()
    assert alive.exists()
    assert importing._NEW_S < 3600
