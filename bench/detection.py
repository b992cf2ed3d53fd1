"""Does each check find the bug it is for, and nothing where there is none? `make detection`.

    make detection                                     # every run of bench/detection_matrix.py, an hour or two
    make detection ARGS="--jobs 2 --only 'broken-*'"   # some of it, two at a time
    make detection ARGS=--combined                     # pairs and triples of broken brokers
    make detection ARGS=--starved                      # correct brokers while eight processes keep the machine busy
    make detection ARGS=--again                        # no runs: check the stored ones again

Runs that are in the store are not repeated unless `--fresh` is given, so an interrupted matrix goes on where it was.
The exit code is 1 if a bug was not found, a finding is unexplained, or correct brokers were found guilty; then
docs/detection.md says which. The page is written whenever the whole matrix was looked at; combinations and runs on
a busy machine replace their own section of it, for the runs of the others need not be in the same store.
"""

from __future__ import annotations

import argparse
import fnmatch
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from bench.detection_combinations import COMBINED
from bench.detection_matrix import MATRIX, SPINNING, STARVED, DetectionCase
from bench.detection_report import DetectionRow, combined_table, page, row_of, starved_table, with_section
from harness.foundation.errors import TidegaugeError, UsageError
from harness.foundation.paths import PACKAGE
from harness.foundation.view import PlainView
from harness.history.places import HISTORY
from harness.history.store import Run, store_dir
from harness.history.store import find as find_run
from harness.judging.checking import check_again
from harness.runs.scenario import to_toml

LIMIT_S = 600.0  # of one run, with its check
PAGE = PACKAGE.parent / "docs" / "detection.md"


def newest(store: Path, case: DetectionCase) -> Run | None:
    """The newest run of a case that left a history."""
    try:
        run = find_run(store, case.name)
    except UsageError:
        return None
    return run if (run.path / HISTORY).exists() else None


def record(case: DetectionCase, store: Path, directory: Path) -> str:
    """Run it with the harness's own command: a line about how that went."""
    file = directory / f"{case.name}.toml"
    file.write_text(to_toml(case.as_file()), encoding="utf-8")
    command = [sys.executable, "-m", "harness", "run", str(file), "--store", str(store), "--json"]
    began_s = time.monotonic()
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"{case.name}: was not over after {LIMIT_S:.0f} s"
    if not ran.stdout:
        return f"{case.name}: {ran.stderr.strip().splitlines()[-1] if ran.stderr else 'said nothing'}"
    return f"{case.name}: {row_of(case, newest(store, case)).verdict} after {time.monotonic() - began_s:.0f} s"


def record_all(cases: Iterable[DetectionCase], store: Path, jobs: int, console: Console) -> None:
    """So many at a time."""
    with tempfile.TemporaryDirectory(prefix="tidegauge-detection-") as place, ThreadPoolExecutor(jobs) as pool:
        for said in pool.map(lambda case: record(case, store, Path(place)), cases):
            console.print(said, highlight=False, markup=False)


def chosen(matrix: Sequence[DetectionCase], patterns: Sequence[str]) -> list[DetectionCase]:
    """The cases whose names match one of the patterns; all without any."""
    cases = [case for case in matrix if not patterns or any(fnmatch.fnmatch(case.name, each) for each in patterns)]
    if not cases:
        raise UsageError(f"no run of the matrix is called {' or '.join(patterns)}", f"one is {matrix[0].name}")
    return cases


@contextmanager
def spinning(count: int) -> Iterator[None]:
    """Processes that use all the CPU they get, as long as this lasts."""
    busy = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(1_000_000))"
    spinners = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(count)]
    try:
        yield
    finally:
        for each in spinners:
            each.kill()
            each.wait()


def rows_of(store: Path, cases: Iterable[DetectionCase]) -> list[DetectionRow]:
    """What came of the newest run of each."""
    return [row_of(case, newest(store, case)) for case in cases]


def whole_page(store: Path, *, every: bool) -> str:
    """docs/detection.md of the runs in the store; with every run of the matrix, or those alone that are there."""
    usual = [row for row in rows_of(store, MATRIX) if row.run or every]
    starved = [row for row in rows_of(store, STARVED) if row.run]
    combined = [row for row in rows_of(store, COMBINED) if row.run]
    return page(usual, starved, combined)


def tell(rows: Sequence[DetectionRow], console: Console) -> None:
    """What went otherwise than it had to, and a last line."""
    for row in rows:
        if not row.fine:
            found = ", ".join(f"{each.anomaly} ×{each.count}" for each in row.unexplained)
            what = row.verdict if row.run is None else f"missed: {', '.join(row.case.meant)}" if row.missed else ""
            told = "; ".join(filter(None, ((row.case.causes and row.wrong) or what, found and f"unexplained: {found}")))
            console.print(f"{row.case.name}: {told}", highlight=False, markup=False)
    broken = [row for row in rows if row.case.broken]
    sound = [row for row in rows if not row.case.broken]
    console.print(
        f"{sum(not row.missed for row in broken)} of {len(broken)} bugs found, "
        f"{sum(row.fine for row in sound)} of {len(sound)} runs of correct brokers without an illegal finding",
        highlight=False,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, check, judge, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="where the runs are kept")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="runs with such names")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time; each wants two cores")
    parser.add_argument("--starved", action="store_true", help="correct brokers on a busy machine")
    parser.add_argument("--combined", action="store_true", help="pairs and triples of broken brokers")
    parser.add_argument("--again", action="store_true", help="run nothing, check the stored runs again")
    parser.add_argument("--fresh", action="store_true", help="repeat runs that are in the store")
    parser.add_argument("--page", type=Path, help="where to write the page, of all runs in the store")
    given = parser.parse_args(arguments)
    console, store = Console(stderr=True), store_dir(given.store)
    cases = chosen(STARVED if given.starved else COMBINED if given.combined else MATRIX, given.only)
    if given.again:
        runs = [run for case in cases if (run := newest(store, case))]
        check_again(runs, PlainView(console))
    else:
        missing = [case for case in cases if given.fresh or row_of(case, newest(store, case)).run is None]
        with spinning(SPINNING if given.starved else 0):
            record_all(missing, store, max(1, given.jobs), console)
    rows = rows_of(store, cases)
    tell(rows, console)
    if given.page:
        given.page.write_text(whole_page(store, every=not given.only), encoding="utf-8")
    elif not given.only and (given.starved or given.combined):
        section = (starved_table if given.starved else combined_table)([row for row in rows if row.run])
        PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), section), encoding="utf-8")
    elif not given.only:
        PAGE.write_text(whole_page(store, every=True), encoding="utf-8")
    return 0 if all(row.fine for row in rows) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TidegaugeError as failure:
        sys.stderr.write(f"{failure}\n")
        sys.exit(failure.exit_code)
