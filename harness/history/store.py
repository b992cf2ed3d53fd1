"""The store: a directory for each run, which explains itself.

store/<scenario>/<time>/run.json       what was run, on what, with which versions and seed
                       scenario.toml   repeats it
                       segments/       what processes wrote, until it is sealed
                       history/        the sealed history (docs/history.md)
                       logs/<node>/    the brokers' logs; logs/harness.log: what failed in the harness, if anything did
                       results.json    the verdict, its evidence and the figures
                       report.html     the same to look at; series.json is what it draws, trace.json is for Perfetto
store/<scenario>/latest                its newest run
store/latest                           the newest run of all
store/suites/<suite>/<time>/           how far a suite has come (`harness.suite.state`)
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.foundation.errors import CannotHere, TidegaugeError, UsageError
from harness.foundation.paths import STORE_VARIABLE
from harness.history.places import HISTORY, SEGMENTS

RUN_FILE = "run.json"
RESULTS_FILE = "results.json"
SCENARIO_FILE = "scenario.toml"
FAILURE_LOG = "harness.log"
LATEST = "latest"
FULL_BYTES = 1024 * 1024  # less than that is as good as nothing
_SECRET = re.compile(r"(password|passwd|secret|token|credential|api[-_]?key)", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=//)[^/@\s]+@")


_updating = threading.Lock()


def store_dir(given: Path | None = None) -> Path:
    """Where runs are kept: as given, else TIDEGAUGE_STORE, else ./store."""
    return (given or Path(os.environ.get(STORE_VARIABLE) or "store")).expanduser().absolute()


@dataclass(frozen=True)
class Run:
    """One run in the store."""

    path: Path

    @property
    def facts(self) -> dict[str, Any]:
        """run.json."""
        return _read(self.path / RUN_FILE)

    @property
    def results(self) -> dict[str, Any] | None:
        """results.json; None when the run was never checked."""
        try:
            return _read(self.path / RESULTS_FILE)
        except UsageError:
            return None

    def update(self, **facts: Any) -> None:
        """Change run.json, from any thread; a reader sees the old or the new one, never half of it."""
        with _updating:
            known = self.facts if (self.path / RUN_FILE).exists() else {}
            _write(self.path / RUN_FILE, {**known, **facts})

    def started(self, process: int, role: str) -> None:
        """Note a process that will leave a history; its absence is then a loss."""
        known = self.facts.get("processes") or {}
        self.update(processes={**known, str(process): role})

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep others from working on the run as long as this lasts, or this process does."""
        directory = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise CannotHere(
                f"the run {self.path} is still going on, or being checked", "try again when that is over"
            ) from None
        finally:
            os.close(directory)

    def write_results(self, results: dict[str, Any]) -> None:
        """Put results.json in place."""
        _write(self.path / RESULTS_FILE, results)

    def write_failure(self, error: BaseException) -> None:
        """Keep an error with all that led to it, answers of brokers included; sentences elsewhere are one line."""
        with suppress(OSError):  # the error itself is what matters
            (self.path / "logs").mkdir(parents=True, exist_ok=True)
            with (self.path / "logs" / FAILURE_LOG).open("a", encoding="utf-8", errors="replace") as log:
                log.writelines(traceback.format_exception(error))

    def write_log(self, node: int, lines: list[str]) -> None:
        """Keep a node's log."""
        directory = self.path / "logs" / str(node)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise store_failure(error, directory, "keeping a log") from error
        write_whole(directory / "broker.log", "\n".join([*lines, ""]))

    def is_meant_by(self, error: OSError) -> bool:
        """Whether an error was met in this run; one that names no file is, where its disk is full."""
        if error.filename is not None:
            return str(error.filename).startswith(str(self.path))
        return error.errno in {errno.ENOSPC, errno.EDQUOT} and shutil.disk_usage(self.path).free < FULL_BYTES

    def failure(self, error: OSError, doing: str) -> TidegaugeError:
        """What is said of an error met while something was written to the run; whether it was checked is looked up."""
        checked = (self.path / RESULTS_FILE).is_file()
        known = "the run was checked before that" if checked else "nothing was checked"
        return store_failure(error, self.path, doing, known)


def create(store: Path, title: str, *, link_above: bool = True) -> Run:
    """A new directory, named by the time, and the links to it; `link_above`: also as the newest of all."""
    parent = store / title
    name = time.strftime("%Y-%m-%dT%H-%M-%S")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, 1000):
            path = parent / (name if attempt == 1 else f"{name}-{attempt}")
            try:
                path.mkdir()
                break
            except FileExistsError:
                continue
        _link(parent / LATEST, Path(path.name))
        if link_above:
            _link(store / LATEST, Path(title) / path.name)
    except OSError as error:
        raise store_failure(error, parent, "making the run's directory", "nothing was started") from error
    return Run(path)


def discard_if_empty(run: Run) -> bool:
    """Remove a run that failed before its load, unless it holds logs; `latest` leads to the run before it again."""
    if any(path.stat().st_size and path.name != FAILURE_LOG for path in (run.path / "logs").rglob("*.log")):
        return False
    shutil.rmtree(run.path, ignore_errors=True)
    parent, store = run.path.parent, run.path.parents[1]
    _relink(parent, [each for each in runs(store) if each.path.parent == parent])
    _relink(store, runs(store))
    with suppress(OSError):  # other runs are in it
        parent.rmdir()
    return True


def _relink(directory: Path, left: list[Run]) -> None:
    link = directory / LATEST
    with suppress(OSError):
        if left:
            _link(link, left[-1].path.relative_to(directory))
        else:
            link.unlink()


def find(store: Path, name: str) -> Run:
    """A run by its directory, by `scenario`, `scenario/time`, or `latest`."""
    for path in (Path(name).expanduser(), store / name, store / name / LATEST):
        if any((path / part).exists() for part in (RUN_FILE, HISTORY, SEGMENTS)):
            return Run(path.resolve())
    raise UsageError(f"there is no run {name} in {store}", "see `tidegauge list runs`")


def runs(store: Path) -> list[Run]:
    """Every run, oldest first."""
    found = (path.parent for path in store.glob(f"*/*/{RUN_FILE}") if not path.parent.is_symlink())
    return [Run(path) for path in sorted(found, key=lambda path: (path.name, path.parent.name))]


def without_secrets(arguments: list[str]) -> list[str]:
    """A command line that can be kept: values of what sounds secret, and users in addresses, are replaced."""
    kept: list[str] = []
    hide_next = False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if hide_next:
            kept.append("***")
            hide_next = False
        elif equals and _SECRET.search(name) and value:
            kept.append(f"{name}=***")
        else:
            kept.append(_USER_INFO.sub("***@", argument))
            hide_next = argument.startswith("--") and not equals and _SECRET.search(argument) is not None
    return kept


def _link(link: Path, target: Path) -> None:
    unfinished = link.with_name(f".{link.name}-{os.getpid()}")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    unfinished.symlink_to(target)
    unfinished.replace(link)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}", "name a run's directory") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error})", "restore it, or name another run") from error
    if not isinstance(data, dict):
        raise UsageError(f"{path} does not describe a run", "restore it, or name another run")
    return data


def _write(path: Path, data: dict[str, Any]) -> None:
    write_whole(path, json.dumps(data, indent=2, default=str) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Put a file of the store in place, whole or not at all."""
    unfinished = path.with_name(f"{path.name}.new")
    try:
        unfinished.write_text(text, encoding="utf-8", errors="replace")
        unfinished.replace(path)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        raise store_failure(error, path, f"writing {path.name}") from error


def store_failure(error: OSError, path: Path, doing: str, known: str = "") -> TidegaugeError:
    """The sentence for a store that is full or cannot be written to: which one, and what is `known` of the run."""
    ending = f", and {known}" if known else ""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return CannotHere(
            f"the store is full: {doing} failed in {path.parent}{ending}",
            f"free some space there, or name a store on another disk (--store, {STORE_VARIABLE})",
        )
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return CannotHere(
            f"the store cannot be written to: {doing} is not permitted in {path.parent}{ending}",
            f"check its owner and mode, or name another store (--store, {STORE_VARIABLE})",
        )
    return TidegaugeError(
        f"the store failed: {doing} in {path.parent} ({error.strerror or error}){ending}", "see the path and try again"
    )
