"""What a check costs: histories of growing size, with hot and with wide partitions, beside DuckDB: `make bench-check`.

    make bench-check                                        # 100 k to 50 million events: an hour, and 5 GB of disk
    make bench-check ARGS="--sizes 100k,1M --partitions 3"  # some of it; the page stays as it is

Each history is made once and is healthy. It is asked the five core questions by Spark and by DuckDB (`bench.duck`), in
turns, and then everything by Spark. CPU seconds are of all processes, with Spark's Python workers; the session is warm.
docs/benchmarks.md and its plot are written when all sizes were measured.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
from rich.console import Console

from bench.check_report import Asked, Measured, page, plot, table
from bench.duck import QUESTIONS, Duck
from bench.histories import generate
from checkers.engine import Setting, check
from harness.errors import TidegaugeError, UsageError
from harness.paths import PACKAGE
from harness.seal import Sealed, open_history
from harness.spark import Session, Size

DOCS = PACKAGE.parent / "docs"
SIZES = "100k,1M,10M,50M"
PARTITIONS = "3,1000"
WARM_UP_EVENTS = 600_000  # enough for the settings of a large history
CORE = Setting(only=(*QUESTIONS, "int-nonmonotonic-poll"))
EVERYTHING = Setting()
_UNITS = {"k": 1_000, "M": 1_000_000}


class Meter:
    """CPU seconds and memory of a session's processes."""

    def __init__(self) -> None:
        self._me = psutil.Process()

    def cpu_s(self) -> float:
        """Of this process and all below it, also of those that have ended."""
        return sum(_spent(process) for process in [self._me, *self._me.children(recursive=True)])

    def peak_mb(self) -> int:
        """Of the largest process below this one, since `forget_peak`."""
        return max((_peak(process.pid) for process in self._me.children(recursive=True)), default=0) >> 10

    def forget_peak(self) -> None:
        """Begin anew with the memory that is in use now."""
        for process in self._me.children(recursive=True):
            Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")


def _spent(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def _peak(pid: int) -> int:
    """In kilobytes; nothing of a process that is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def measured(meter: Meter, what: Asked, ask: Callable[[], object]) -> Measured:
    """One question of one history."""
    meter.forget_peak()
    cpu_s, began_s = meter.cpu_s(), time.monotonic()
    ask()
    return Measured(what, time.monotonic() - began_s, meter.cpu_s() - cpu_s, meter.peak_mb())


def asked(session: Session, sealed: Sealed, setting: Setting) -> None:
    """A check that has to come to its end and find nothing."""
    results = check(session.get(), sealed, setting)
    if results.failures or results.found:
        said = [*results.failures, *(f"{anomaly.found} × {anomaly.name}" for anomaly in results.found)]
        problem = f"a healthy history is not clean: {'; '.join(said)}"
        raise TidegaugeError(problem, "mend the checker, or bench/histories.py")


def measure(sizes: Sequence[int], partitions: Sequence[int], rounds: int, console: Console) -> Iterator[Measured]:
    """Every size and width, one history at a time."""
    meter = Meter()
    with _place() as place, Session.start(place / "spark", size=Size.LARGE) as session:
        generate(place / "warm", WARM_UP_EVENTS, max(partitions), plants=0)
        for setting in (CORE, EVERYTHING):
            asked(session, open_history(place / "warm"), setting)
        for events in sizes:
            for width in partitions:
                console.print(f"{events:,} events, {width:,} partitions", highlight=False)
                with _place() as run:
                    generate(run, events, width, plants=0)
                    sealed = open_history(run)
                    ways: dict[str, Callable[[], object]] = {
                        "core, Spark": partial(asked, session, sealed, CORE),
                        "core, DuckDB": Duck(sealed, run / "duck").ask,
                        "all, Spark": partial(asked, session, sealed, EVERYTHING),
                    }
                    for what in list(ways) * rounds:
                        try:
                            yield measured(meter, Asked(what, events, width), ways[what])
                        except TidegaugeError as failure:  # what was measured before it is not lost
                            console.print(f"{what}: {failure}", style="red", highlight=False, markup=False)


@contextmanager
def _place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as place:
        yield Path(place)


def numbers(text: str) -> list[int]:
    """From `100k,1M`."""
    try:
        return [int(float(part.rstrip("kM")) * _UNITS.get(part[-1:], 1)) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{text} is no list of sizes", f"one is {SIZES}") from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES, help=f"events ({SIZES})")
    parser.add_argument("--partitions", default=PARTITIONS, help=f"hot and wide ({PARTITIONS})")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is asked; the quickest counts")
    parser.add_argument("--page", type=Path, help="where to write the page, also of a part of the sizes")
    given = parser.parse_args(arguments)
    rows = list(measure(numbers(given.sizes), numbers(given.partitions), given.rounds, Console(stderr=True)))
    Console().print(table(rows))
    if given.page or (given.sizes, given.partitions) == (SIZES, PARTITIONS):
        target = given.page or DOCS / "benchmarks.md"
        target.write_text(page(rows), encoding="utf-8")
        target.with_name("bench-check.svg").write_text(plot(rows), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except TidegaugeError as failure:
        sys.stderr.write(f"{failure}\n")
        sys.exit(failure.exit_code)
