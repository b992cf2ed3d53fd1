"""What the command `explore` does, given what to look for and where: search, keep what was found, and end.

The scenario of what was found is on disk as soon as there is one, and again before each run that is to make it smaller:
whoever kills it loses nothing but the run that goes on. Nothing that ends badly afterwards takes the finding back: no
cluster that cannot be removed, no report that cannot be made, and no other Ctrl-C.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from harness.experiments.explore import output
from harness.experiments.explore.runs import ExplorationRuns
from harness.experiments.explore.search import STOPPED, Exploration, as_error, explore
from harness.experiments.explore.search_space import Candidate
from harness.foundation.errors import TidegaugeError, UsageError
from harness.foundation.paths import nearest
from harness.report.terminal.tables import line


@dataclass(frozen=True)
class FinishedExploration:
    """What an exploration has left, besides its runs; nothing of what it could not."""

    file: Path | None
    report: Path | None


def writable(file: Path) -> Path:
    """Where a scenario is to be written, if that is possible: nobody is to learn of it when the time is up."""
    try:
        if file.exists() and not file.is_file():
            what = "a directory" if file.is_dir() else "something else"
            raise UsageError(f"--out {file} is {what} and not a file", "name a file, for example found.toml")
        if file.exists():
            file.open("ab").close()
        with tempfile.TemporaryFile(dir=nearest(file.resolve().parent)):  # it is put in place as a whole
            return file
    except OSError as error:
        raise UsageError(
            f"--out {file} cannot be written ({error.strerror or error})",
            "name a file in a directory that you can write to",
        ) from None


def play(
    known: Exploration, draws: Iterable[Candidate], ground: ExplorationRuns, file: Path, console: Console
) -> FinishedExploration:
    """Search on this ground, which is closed then; errors are raised only as long as nothing is found."""
    keeping, report = _Keeping(known, file, console), None
    try:
        with closing(ground):
            explore(known, draws, ground.run, lambda text: line(console, (text, "bold")), keep=keeping.keep)
            keeping.keep()
            if known.run and not known.interrupted:
                report = ground.report(Path(known.run))
    except KeyboardInterrupt:
        known.interrupted, known.stopped = True, known.stopped or STOPPED
    except Exception as error:
        if known.first is None:
            raise
        line(console, (str(as_error(error)), "yellow"))
    keeping.keep()  # Ctrl-C may have come before
    return FinishedExploration(keeping.file, report)


class _Keeping:
    """Writes the scenario file; what stands against it is told, and the next time it is tried again."""

    def __init__(self, known: Exploration, file: Path, console: Console) -> None:
        self._known, self._file, self._console = known, file, console
        self._trouble = ""
        self.file: Path | None = None  # as soon as it is there

    def keep(self) -> None:
        """What is known now, if anything was found."""
        if self._known.first is None:
            return
        try:
            output.write_file(self._known, self._file)
        except TidegaugeError as error:
            if str(error) != self._trouble:
                line(self._console, (str(error), "yellow"))
            self._trouble = str(error)
        else:
            self.file, self._trouble = self._file, ""
