"""What is made one time per version: kept, verified at every use, made anew when damaged or made from other things."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.clusters import prepared_files
from harness.clusters.jars import locked_versions
from harness.clusters.prepared_files import MANIFEST, ensure, is_prepared, prepared_dir
from harness.clusters.target import Target, load_target
from harness.foundation.config import parse
from harness.foundation.errors import ClusterError, Exit, UsageError

COUNT = "echo run >> {runs}; mkdir -p data; cat in > data/out; echo more > plain"
ONCE: dict[str, Any] = {
    "command": ["sh", "-c", COUNT],
    "files": {"in": "\ncontent of {version}\n"},
    "keep": ["data/out", "plain"],
}
JAVA: dict[str, Any] = {"jars": ["g:a:{version}"], "exclude": ["g:b"]}
BASE: dict[str, Any] = {"name": "thing", "version": "1.0", "process": {"command": ["x"]}, "java": JAVA, "once": ONCE}


class Heard:
    """Progress that is written down."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        """A step begins."""
        self.steps.append(text)

    def detail(self, text: str) -> None:
        """How far it has come."""

    def part(self, done: float, total: float, unit: str = "") -> None:
        """How much of it is done."""


class Kitchen:
    """Where it is made: a scratch directory for every attempt, and how often the command ran."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.runs = place / "runs"
        self.heard = Heard()
        self.environment = dict(os.environ)
        self._attempts = 0

    @property
    def count(self) -> int:
        """How often the command ran."""
        return len(self.runs.read_text().splitlines()) if self.runs.exists() else 0

    def ensure(self, target: Target) -> None:
        """As a cluster does it."""
        self._attempts += 1
        scratch = self.place / f"scratch-{self._attempts}"
        scratch.mkdir()
        ensure(target, scratch, self.render, self.environment, self.heard)

    def render(self, text: str) -> str:
        """The placeholders of these tests."""
        return text.replace("{runs}", str(self.runs)).replace("{version}", "1.0")


@pytest.fixture
def kitchen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kitchen:
    """With a cache of the test's own."""
    monkeypatch.setenv("TIDEGAUGE_HOME", str(tmp_path / "home"))
    return Kitchen(tmp_path)


def made(**changes: Any) -> Target:
    """A target with something to make once."""
    return parse(Target, BASE | changes, "thing.toml")


def doing(script: str, *keep: str) -> Target:
    """A target that makes it with a script."""
    return made(once={"command": ["sh", "-c", script], "keep": list(keep)})


def test_it_is_made_once_and_kept(kitchen: Kitchen, tmp_path: Path) -> None:
    """The second time nothing runs and nothing is said; beside the files there is only the manifest."""
    target = made()
    assert not is_prepared(target)
    kitchen.ensure(target)
    assert is_prepared(target)
    assert (prepared_dir(target) / "data" / "out").read_text() == "content of 1.0\n"
    assert (prepared_dir(target) / "plain").read_text() == "more\n"
    files = {str(path.relative_to(prepared_dir(target))) for path in prepared_dir(target).rglob("*") if path.is_file()}
    assert files == {MANIFEST, "data/out", "plain"}
    digests = {name: hashlib.sha256((prepared_dir(target) / name).read_bytes()).hexdigest() for name in ONCE["keep"]}
    assert json.loads((prepared_dir(target) / MANIFEST).read_text()) == digests
    kitchen.ensure(target)
    assert kitchen.count == 1
    assert kitchen.heard.steps == ["preparing thing 1.0 (once)"]
    assert prepared_dir(target).is_relative_to(tmp_path / "home" / "cache" / "once")


def test_a_target_without_it_makes_nothing(kitchen: Kitchen, tmp_path: Path) -> None:
    """Most products need nothing of the kind."""
    kitchen.ensure(made(once=None))
    assert kitchen.heard.steps == []
    assert not (tmp_path / "home").exists()


def test_the_command_runs_in_its_directory_with_its_environment(kitchen: Kitchen) -> None:
    """And with nothing else."""
    kitchen.environment = {"PATH": os.environ["PATH"], "FLAVOUR": "salt"}
    target = doing('pwd > out; echo "$FLAVOUR" >> out; env | grep -c TIDEGAUGE >> out; true', "out")
    kitchen.ensure(target)
    assert (prepared_dir(target) / "out").read_text() == f"{kitchen.place / 'scratch-1'}\nsalt\n0\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "1.1"},
        {"name": "other"},
        {"once": ONCE | {"command": ["sh", "-c", f"{COUNT} "]}},
        {"once": ONCE | {"files": {"in": "other"}}},
        {"once": ONCE | {"files": ONCE["files"] | {"more": ""}}},
        {"once": ONCE | {"keep": ["plain"]}},
        {"java": JAVA | {"jars": ["g:a:2"]}},
        {"java": JAVA | {"exclude": []}},
        {"java": JAVA | {"minimum": 21}},
        {"java": None},
    ],
    ids=str,
)
def test_a_changed_target_does_not_get_the_files_of_another(kitchen: Kitchen, changes: dict[str, Any]) -> None:
    """Whatever it is made from is in the key; both are kept side by side."""
    kitchen.ensure(made())
    changed = made(**changes)
    assert prepared_dir(changed) != prepared_dir(made())
    assert not is_prepared(changed)
    kitchen.ensure(changed)
    assert kitchen.count == 2
    assert is_prepared(changed)
    assert is_prepared(made())


@pytest.mark.parametrize(
    "changes", [{"nodes": 1}, {"ready": "port"}, {"process": {"command": ["y"]}}, {"logs": {"a": "b"}}], ids=str
)
def test_what_it_is_not_made_from_does_not_matter(kitchen: Kitchen, changes: dict[str, Any]) -> None:
    """How nodes are started later is no reason to make it again."""
    kitchen.ensure(made())
    assert prepared_dir(made(**changes)) == prepared_dir(made())
    kitchen.ensure(made(**changes))
    assert kitchen.count == 1


def test_the_key_is_readable(kitchen: Kitchen) -> None:
    """Name and version first, so that one can see what fills the cache; and it stays the same."""
    assert re.fullmatch(r"thing-1\.0-[0-9a-f]{12}", prepared_dir(made()).name)
    assert prepared_dir(made()) == prepared_dir(made())


def test_versions_of_kafka_are_kept_apart() -> None:
    """All of those we ship."""
    versions = locked_versions("kafka")
    assert len({prepared_dir(load_target("kafka", version)) for version in versions}) == len(versions) > 1


def damage_byte(path: Path) -> None:
    """One byte is another."""
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


def truncate(path: Path) -> None:
    """The end is missing."""
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    """Nothing is left in it."""
    path.write_bytes(b"")


def lengthen(path: Path) -> None:
    """There is more than there was."""
    path.write_bytes(path.read_bytes() + b"x")


def remove(path: Path) -> None:
    """It is gone."""
    path.unlink()


def replace_by_directory(path: Path) -> None:
    """Something else has its name."""
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", ["data/out", "plain", MANIFEST])
@pytest.mark.parametrize("harm", [damage_byte, truncate, empty, lengthen, remove])
def test_what_is_damaged_is_made_anew(kitchen: Kitchen, harm: Callable[[Path], None], name: str) -> None:
    """A kept file or the manifest: every use verifies all of it."""
    target = made()
    kitchen.ensure(target)
    harm(prepared_dir(target) / name)
    assert not is_prepared(target)
    kitchen.ensure(target)
    assert kitchen.count == 2
    assert is_prepared(target)
    assert (prepared_dir(target) / "data" / "out").read_text() == "content of 1.0\n"


@pytest.mark.parametrize("name", ["data/out", MANIFEST])
def test_a_directory_is_no_kept_file(kitchen: Kitchen, name: str) -> None:
    """It is an answer, not an error, and it is put right."""
    target = made()
    kitchen.ensure(target)
    replace_by_directory(prepared_dir(target) / name)
    assert not is_prepared(target)
    kitchen.ensure(target)
    assert is_prepared(target)


@pytest.mark.parametrize("content", ["[]", "null", "5", '"data/out"', '{"plain": 5}', '{"nowhere": "0"}', "\x00"])
def test_a_senseless_manifest_keeps_nothing(kitchen: Kitchen, content: str) -> None:
    """Whatever it holds, asking is no error."""
    target = made()
    kitchen.ensure(target)
    (prepared_dir(target) / MANIFEST).write_text(content)
    assert not is_prepared(target)
    kitchen.ensure(target)
    assert is_prepared(target)


def test_files_without_manifest_are_half_a_set(kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest comes last: a harness that was killed before it is as if it had made nothing."""
    target, place = made(), prepared_files._place

    def killed_at_the_manifest(source: Path, destination: Path) -> None:
        if destination.name == MANIFEST:
            raise KeyboardInterrupt
        place(source, destination)

    with monkeypatch.context() as patch:
        patch.setattr(prepared_files, "_place", killed_at_the_manifest)
        with pytest.raises(KeyboardInterrupt):
            kitchen.ensure(target)
    assert (prepared_dir(target) / "plain").exists()
    assert not is_prepared(target)
    kitchen.ensure(target)
    assert is_prepared(target)


def test_a_file_never_appears_half(kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that breaks leaves nothing at the file's place."""
    target = made()

    def broken_copy(source: Path, destination: Path) -> None:
        destination.write_bytes(b"ha")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copy", broken_copy)
    with pytest.raises(OSError, match="No space left"):
        kitchen.ensure(target)
    assert not (prepared_dir(target) / "data" / "out").exists()
    assert not is_prepared(target)


def test_a_failure_shows_its_output(kitchen: Kitchen) -> None:
    """Both of its outputs, the last lines of them; and nothing is kept."""
    target = doing("seq 1 30; echo 'FATAL: no' >&2; echo x > out; exit 7", "out")
    with pytest.raises(
        ClusterError, match=r"preparing thing 1\.0 failed \(exit code 7\): its output is below"
    ) as caught:
        kitchen.ensure(target)
    assert caught.value.exit_code == Exit.HARNESS_ERROR
    assert caught.value.log_tail == (*(str(number) for number in range(17, 31)), "FATAL: no")
    assert not prepared_dir(target).exists()


def test_a_failure_is_not_remembered(kitchen: Kitchen) -> None:
    """What failed is tried again the next time."""
    target = doing('echo run >> {runs}; test "$(wc -l < {runs})" -gt 1 && echo fine > out', "out")
    with pytest.raises(ClusterError):
        kitchen.ensure(target)
    kitchen.ensure(target)
    assert (prepared_dir(target) / "out").read_text() == "fine\n"


@pytest.mark.parametrize("script", ["echo done", "echo done; mkdir out", "echo done; echo x > other"])
def test_a_file_that_was_not_made_is_a_failure(kitchen: Kitchen, script: str) -> None:
    """Exit code 0 is not enough."""
    target = doing(script, "out")
    with pytest.raises(ClusterError, match=r"failed \(exit code 0\)") as caught:
        kitchen.ensure(target)
    assert caught.value.log_tail == ("done",)
    assert not prepared_dir(target).exists()


def test_output_that_is_no_text_is_no_trouble(kitchen: Kitchen) -> None:
    """It is shown as well as it can be."""
    with pytest.raises(ClusterError) as caught:
        kitchen.ensure(doing(r"printf 'a\377b\n'; exit 1", "out"))
    assert caught.value.log_tail == ("a\ufffdb",)


def test_a_command_that_is_killed_is_a_failure(kitchen: Kitchen) -> None:
    """With the signal as Python writes it."""
    with pytest.raises(ClusterError, match=r"failed \(exit code -9\)"):
        kitchen.ensure(doing("kill -9 $$", "out"))


def test_a_command_that_cannot_be_started_is_a_failure(kitchen: Kitchen) -> None:
    """It is named."""
    target = made(once={"command": ["/nowhere/tool"], "keep": ["out"]})
    with pytest.raises(ClusterError, match=r"failed \(exit code none\)") as caught:
        kitchen.ensure(target)
    assert "/nowhere/tool" in caught.value.log_tail[0]


def test_a_command_that_does_not_end_is_a_failure(kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed, what it said is shown, and nothing is kept though the file is there."""
    monkeypatch.setattr(prepared_files, "TIMEOUT_S", 1.0)
    target = doing("echo begun; echo trouble >&2; echo x > out; echo $$ > {runs}; exec sleep 600", "out")
    with pytest.raises(ClusterError, match=r"failed \(exit code none after 1 s\)") as caught:
        kitchen.ensure(target)
    assert caught.value.log_tail == ("begun", "trouble")
    assert not prepared_dir(target).exists()
    assert not Path("/proc", kitchen.runs.read_text().strip()).exists()


def test_a_file_outside_is_refused(kitchen: Kitchen) -> None:
    """Before anything runs."""
    target = made(once=ONCE | {"files": {"../escaped": "x"}})
    with pytest.raises(UsageError, match=r"'\.\./escaped' of the target lies outside"):
        kitchen.ensure(target)
    assert kitchen.count == 0
    assert not (kitchen.place / "escaped").exists()


def test_two_at_once_do_no_harm_to_each_other(kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one runs its command another one finishes: both end well, and what is kept is whole."""
    target = made()
    run, nested = subprocess.run, Kitchen(kitchen.place / "second")
    nested.place.mkdir()

    def meanwhile(*arguments: Any, **how: Any) -> Any:
        monkeypatch.setattr(subprocess, "run", run)
        nested.ensure(target)
        assert is_prepared(target)
        return run(*arguments, **how)

    monkeypatch.setattr(subprocess, "run", meanwhile)
    kitchen.ensure(target)
    assert (kitchen.count, nested.count) == (1, 1)
    assert is_prepared(target)
    assert len([path for path in prepared_dir(target).rglob("*") if path.is_file()]) == 3


@pytest.mark.parametrize("name", ["../victim", "a/../../victim"])
def test_nothing_is_kept_outside(kitchen: Kitchen, name: str) -> None:
    """A target cannot name files of others as its own."""
    target = doing(f"mkdir -p a; echo x > {name}", name)
    with pytest.raises(UsageError, match="outside"):
        kitchen.ensure(target)
