"""What a check costs: histories of growing size, healthy ones beside DuckDB, and really sick ones: `make bench-check`.

    make bench-check                                        # 100 k to 50 million events, and 5 GB of disk
    make bench-check ARGS="--sizes 100k,1M --partitions 3 --sick none"  # some of it; the page stays as it is
    make bench-check ARGS="--sizes 1M --sick refusals,rebalances"

Each history is made once. A healthy one (`bench.histories`) is asked the five core questions by Spark and by DuckDB
(`bench.duck`), in turns, and then everything by Spark, and nothing may be found. A sick one (`bench.sick.shapes`), of
up to a million events, is asked everything, and no check may fail. CPU seconds are of all processes, with Spark's
Python workers; the session is warm. At the end `tidegauge check` is asked everything of a small history, cold, three
times.

docs/benchmarks.md and its plot are written when all was measured. What `bench.check_report` wants to be reached is
shown, and whether it was.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from rich.console import Console

from bench.check_report import ALL, COLD, CORE, DUCK, HEALTHY, CheckCase, CheckMeasurement, Results, page, plot, table
from bench.command import run_command
from bench.duck import QUESTIONS, Duck
from bench.histories import generate
from bench.sick import shapes as sick
from checkers.core.check import CheckSettings, check
from checkers.core.results import CheckResults
from harness.foundation.errors import Exit, TidegaugeError, UsageError
from harness.foundation.paths import PACKAGE
from harness.history.sealed import Sealed
from harness.history.sealing import open_history
from harness.history.store import RUN_FILE
from harness.spark.session import Session

DOCS = PACKAGE.parent / "docs"
SIZES = "100k,1M,10M,50M"
PARTITIONS = "3,1000"
NO_SICKNESS = "none"
SICK_SIZES = (100_000, 1_000_000)
SENDS_AND_POLLS, OF_SENDS_AND_POLLS = "sends and polls", 2_000_000  # as large as those that people check
COLD_EVENTS, COLD_ROUNDS = 50_000, 3  # as many as a run of 5,000 messages leaves
COLD_FACTS = {"state": "finished", "seed": 1, "title": "bench", "scenario": {"settings": {"acks": "all"}}}
LOOK_S = 0.05
WIDTH = 180  # of a table that goes to a file
WARM_UP = (100_000, 2_000_000)  # one task, and many
CORE_QUESTIONS = CheckSettings(only=(*QUESTIONS, "int-nonmonotonic-poll"))
EVERYTHING = CheckSettings()
_UNITS = {"k": 1_000, "M": 1_000_000}


class Meter:
    """CPU seconds and memory of a session's processes."""

    def __init__(self) -> None:
        self._me = psutil.Process()

    def cpu_s(self) -> float:
        """Of this process and all below it, also of those that have ended."""
        return sum(_spent(process) for process in [self._me, *self._below()])

    def peaks_mb(self) -> tuple[int, int]:
        """Of the JVM and of its largest Python worker, since `forget_peaks`."""
        jvms = [process for process in self._below() if _name(process) == "java"]
        workers = [below for jvm in jvms for below in _children(jvm)]
        return _highest(jvms), _highest(workers)

    def forget_peaks(self) -> None:
        """Begin anew with the memory that is in use now."""
        for process in self._below():
            with suppress(OSError):  # it is gone
                Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")

    def _below(self) -> list[psutil.Process]:
        return _children(self._me)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def _spent(process: psutil.Process, *, with_children: bool = True) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    own = times.user + times.system
    return float(own + times.children_user + times.children_system) if with_children else float(own)


def _highest(processes: Sequence[psutil.Process]) -> int:
    """In megabytes."""
    return max((_peak_kb(process.pid) for process in processes), default=0) >> 10


def _peak_kb(pid: int) -> int:
    """Nothing of a process that is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def measured(meter: Meter, what: CheckCase, ask: Callable[[], object]) -> CheckMeasurement:
    """One question of one history."""
    meter.forget_peaks()
    cpu_s, began_s = meter.cpu_s(), time.monotonic()
    ask()
    wall_s, cpu_s = time.monotonic() - began_s, meter.cpu_s() - cpu_s
    jvm_mb, python_mb = meter.peaks_mb() if what.is_ours else (0, 0)
    return CheckMeasurement(what, wall_s, cpu_s, jvm_mb, python_mb)


def asked(session: Session, sealed: Sealed, setting: CheckSettings) -> CheckResults:
    """A check that has to come to its end."""
    results = check(session.get(), sealed, setting)
    if results.failures:
        raise TidegaugeError(f"a check failed: {'; '.join(results.failures)}", "mend the checker")
    return results


def asked_of_healthy(session: Session, sealed: Sealed, setting: CheckSettings) -> None:
    """A check that has to find nothing."""
    if found := asked(session, sealed, setting).found:
        said = "; ".join(f"{anomaly.found} × {anomaly.name}" for anomaly in found)
        raise TidegaugeError(f"a healthy history is not clean: {said}", "mend the checker, or bench/histories.py")


@dataclass(frozen=True)
class Bench:
    """What is to be measured."""

    sizes: Sequence[int]
    partitions: Sequence[int]
    rounds: int
    shapes: Sequence[str]
    console: Console

    def rows(self) -> Iterator[CheckMeasurement]:
        """Healthy histories, sick ones, and a cold check; one history at a time."""
        with _place() as place, Session.start(place / "spark") as session:
            self._warm_up(session, place)
            for events in self.sizes:
                for width in self.partitions:
                    yield from self._healthy(session, events, width)
            for shape in self.shapes:
                for events in self._sizes_of(shape):
                    yield from self._sick(session, shape, events)
        yield from self._cold()

    def _warm_up(self, session: Session, place: Path) -> None:
        """With small histories, and with large ones if there will be any."""
        for events in WARM_UP:
            if events == WARM_UP[0] or max(self.sizes) > SICK_SIZES[-1] or SENDS_AND_POLLS in self.shapes:
                run = place / f"warm-{events}"
                generate(run, events, max(self.partitions), plants=0)
                for setting in (CORE_QUESTIONS, EVERYTHING):
                    asked_of_healthy(session, open_history(run), setting)

    def _sizes_of(self, shape: str) -> Sequence[int]:
        if shape == SENDS_AND_POLLS:
            return [OF_SENDS_AND_POLLS]
        return [events for events in self.sizes if events <= SICK_SIZES[-1]] or SICK_SIZES

    def _healthy(self, session: Session, events: int, width: int) -> Iterator[CheckMeasurement]:
        with _place() as run:
            generate(run, events, width, plants=0)
            sealed = open_history(run)
            ways: dict[str, Callable[[], object]] = {
                CORE: partial(asked_of_healthy, session, sealed, CORE_QUESTIONS),
                DUCK: Duck(sealed, run / "duck").ask,
                ALL: partial(asked_of_healthy, session, sealed, EVERYTHING),
            }
            yield from self._measured({CheckCase(events, HEALTHY, width, what): ask for what, ask in ways.items()})

    def _sick(self, session: Session, name: str, events: int) -> Iterator[CheckMeasurement]:
        shape = sick.SHAPES[name]
        with _place() as run:
            sealed = open_history(sick.generate(run, name, events))
            setting = CheckSettings(acks=shape.acks, foreign=shape.foreign)
            yield from self._measured({CheckCase(events, name, 0, ALL): partial(asked, session, sealed, setting)})

    def _measured(self, ways: dict[CheckCase, Callable[[], object]]) -> Iterator[CheckMeasurement]:
        """Each in turn, so that a busy minute of the machine hits all of them alike."""
        meter = Meter()
        for what in list(ways) * self.rounds:
            yield from self._tried(what, partial(measured, meter, what, ways[what]))

    def _cold(self) -> Iterator[CheckMeasurement]:
        """The command, three times."""
        with _place() as run:
            generate(run, COLD_EVENTS, min(self.partitions), plants=0)
            (run / RUN_FILE).write_text(json.dumps(COLD_FACTS), encoding="utf-8")
            what = CheckCase(COLD_EVENTS, HEALTHY, min(self.partitions), COLD)
            for _ in range(COLD_ROUNDS):
                yield from self._tried(what, partial(commanded, what, run))

    def _tried(self, what: CheckCase, measure: Callable[[], CheckMeasurement]) -> Iterator[CheckMeasurement]:
        """What was measured before a failure is not lost."""
        self.console.print(f"{what.events:,} events, {what.history}: {what.what}", highlight=False)
        try:
            yield measure()
        except TidegaugeError as failure:
            self.console.print(str(failure), style="red", highlight=False, markup=False)


def commanded(what: CheckCase, run: Path) -> CheckMeasurement:
    """`tidegauge check` in a process of its own: what that and all below it were seen to have spent."""
    command = [sys.executable, "-m", "harness", "check", str(run), "--store", str(run.parent / "store")]
    spent: dict[psutil.Process, float] = {}
    began_s = time.monotonic()
    said = run / "said"
    with said.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        root = psutil.Process(process.pid)
        while process.poll() is None:
            for each in [root, *_children(root)]:
                spent[each] = max(spent.get(each, 0.0), _spent(each, with_children=False))
            time.sleep(LOOK_S)
        wall_s = time.monotonic() - began_s
    if process.returncode not in {Exit.VALID, Exit.UNKNOWN}:
        lines = said.read_text(encoding="utf-8").splitlines()
        raise TidegaugeError(f"tidegauge check ended with {process.returncode}", "mend it", tuple(lines[-5:]))
    return CheckMeasurement(what, wall_s, sum(spent.values()))


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


def shapes_of(text: str) -> list[str]:
    """From `refusals,all info`; names have commas, too."""
    if text == NO_SICKNESS:
        return []
    found, rest = [], text
    while rest:
        name = next((name for name in sick.SHAPES if rest == name or rest.startswith(f"{name},")), None)
        if name is None:
            raise UsageError(f"{rest} is no sort of sickness", f"they are: {'; '.join(sick.SHAPES)}; or {NO_SICKNESS}")
        found.append(name)
        rest = rest[len(name) + 1 :]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ",".join(sick.SHAPES)
    parser.add_argument("--sizes", default=SIZES, help=f"events ({SIZES})")
    parser.add_argument("--partitions", default=PARTITIONS, help=f"hot and wide ({PARTITIONS})")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is asked; the quickest counts")
    parser.add_argument("--sick", default=every, metavar="NAME,...", help=f"{every}, or {NO_SICKNESS}; all of them")
    parser.add_argument("--page", type=Path, help="where to write the page, also of a part of all that")
    given = parser.parse_args(arguments)
    bench = Bench(
        numbers(given.sizes), numbers(given.partitions), given.rounds, shapes_of(given.sick), Console(stderr=True)
    )
    results = Results(list(bench.rows()))
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table(results))
    if given.page or (given.sizes, given.partitions, given.sick) == (SIZES, PARTITIONS, every):
        target = given.page or DOCS / "benchmarks.md"
        target.write_text(page(results), encoding="utf-8")
        target.with_name("bench-check.svg").write_text(plot(results), encoding="utf-8")


if __name__ == "__main__":
    run_command(main)
