"""What a version of a product needs one time only, made once and kept in the cache.

The key holds a digest of everything it is made from, so that a changed target does not get the files of another; a
manifest of checksums is written last, so that half a set, or a damaged one, is made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from harness.clusters.target import Target, inside, write_inside
from harness.foundation.errors import CannotHere, ClusterError
from harness.foundation.paths import cache_dir
from harness.foundation.progress import Progress

MANIFEST = "sha256.json"
TIMEOUT_S = 600.0  # a product may be compiled, on a machine that is busy
LOG_TAIL_LINES = 15

Render = Callable[[str], str]


def prepared_dir(target: Target) -> Path:
    """Where the cache keeps what this target's `[once]` makes."""
    parts = [part.model_dump_json() if part else "" for part in (target.once, target.java)]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return cache_dir() / "once" / f"{target.name}-{target.version}-{digest}"


def is_prepared(target: Target) -> bool:
    """Whether all of it is there and undamaged."""
    directory = prepared_dir(target)
    try:
        manifest: dict[str, str] = json.loads((directory / MANIFEST).read_text())
        wanted = set(target.once.keep) if target.once else set()
        return set(manifest) == wanted and all(_digest(directory / name) == manifest[name] for name in wanted)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def ensure(target: Target, scratch: Path, render: Render, environment: dict[str, str], progress: Progress) -> None:
    """Run the target's `[once]` command in the scratch directory, unless what it makes is kept already."""
    part = target.once
    if part is None or is_prepared(target):
        return
    if os.sep not in part.command[0] and not part.command[0].startswith("{") and shutil.which(part.command[0]) is None:
        raise CannotHere(
            f"{target.name} is made with the program '{part.command[0]}', which is not on this machine",
            f"install {part.command[0]}, or choose another target",
        )
    progress.step(f"preparing {target.name} {target.version} (once)")
    for name, text in part.files.items():
        write_inside(scratch, name, render(text.lstrip("\n")))
    command = [render(word) for word in part.command]
    try:
        ran = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False)
        code, said = str(ran.returncode), ran.stdout + ran.stderr
    except subprocess.TimeoutExpired as error:
        code, said = f"none after {TIMEOUT_S:.0f} s", (error.stdout or b"") + (error.stderr or b"")
    except OSError as error:
        code, said = "none", str(error).encode()
    if code != "0" or not all(inside(scratch, name).is_file() for name in part.keep):
        raise ClusterError(
            f"preparing {target.name} {target.version} failed (exit code {code})",
            "its output is below",
            log_tail=tuple(said.decode(errors="replace").splitlines()[-LOG_TAIL_LINES:]),
        )
    _keep(target, scratch, part.keep)


def _keep(target: Target, scratch: Path, names: tuple[str, ...]) -> None:
    """Each file appears whole or not at all; two harnesses that do this at once do no harm to each other."""
    directory = prepared_dir(target)
    manifest = {}
    for name in names:
        manifest[name] = _digest(scratch / name)
        _place(scratch / name, inside(directory, name))
    (scratch / MANIFEST).write_text(json.dumps(manifest))
    _place(scratch / MANIFEST, directory / MANIFEST)


def _place(source: Path, destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    if destination.is_dir():
        shutil.rmtree(destination)
    unfinished = destination.with_name(f"{destination.name}.{source.parent.name}")
    shutil.copy(source, unfinished)
    unfinished.rename(destination)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
