"""What importing costs: a Jepsen history of a hundred thousand and of a million operations, time and memory.

    make bench-import                            # both sizes
    make bench-import ARGS="--operations 50000"  # another one
    make bench-import ARGS="--format jsonl"      # the same events as they are exported

The history is made here: processes that send and poll in transactions of one to five micro-operations over keys that
rotate, and a nemesis. Each import is a process of its own, so that its memory is known; so are its helpers, whose CPU
is the second number.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

PROCESSES = 20
KEY_WRITES = 1000  # before a key gives way to a new one
KEYS = 10
SIZES = (100_000, 1_000_000)
GOAL_S = 60.0
SUFFIXES = {"jepsen": "edn", "jsonl": "jsonl", "parquet": "parquet"}
IMPORT = """
import json, resource, sys, time
from pathlib import Path
from harness.history.exchange.importing import import_history
from harness.foundation.view import PlainView
from rich.console import Console
began = time.perf_counter()
taken = import_history(Path(sys.argv[1]), Path(sys.argv[2]), PlainView(Console(quiet=True)))
took_s = time.perf_counter() - began
mine, helpers = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({
    "took_s": took_s,
    "cpu_s": mine.ru_utime + mine.ru_stime,
    "helpers_cpu_s": helpers.ru_utime + helpers.ru_stime,
    "peak_mib": mine.ru_maxrss / 1024,
    "helper_mib": helpers.ru_maxrss / 1024,
    "events": sum(taken.events.values()),
}))
"""
EXPORT = """
import sys
from pathlib import Path
from harness.history.exchange.exporting import export_run
from harness.history.exchange.importing import import_history
from harness.foundation.view import PlainView
from harness.history.store import find
from rich.console import Console
file, store, given = map(Path, sys.argv[1:])
view = PlainView(Console(quiet=True))
run = find(store, "latest") if store.exists() else import_history(file, store, view).run
export_run(run, given, None, view)
"""  # a process of its own as well: what it holds would count as its successors' memory


class Log:
    """Partitions that hold what was sent, and consumers that read on."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a history, not a secret
        self.keys = list(range(KEYS))
        self.values: dict[int, list[int]] = {key: [] for key in self.keys}
        self.positions: dict[tuple[int, int], int] = {}

    def send(self) -> tuple[int, int]:
        """A key and a new value for it."""
        place = self.random.randrange(KEYS)
        key = self.keys[place]
        if len(self.values[key]) >= KEY_WRITES:
            del self.values[key]
            key = self.keys[place] = max(self.keys) + 1
            self.values[key] = []
        self.values[key].append(len(self.values[key]) + 1)
        return key, self.values[key][-1]

    def poll(self, process: int) -> str:
        """What comes next on one of the keys."""
        key = self.random.choice(self.keys)
        start = self.positions.get((process, key), 0)
        found = list(enumerate(self.values[key][start : start + 4], start))
        self.positions[process, key] = start + len(found)
        return f"{{{key} [{' '.join(f'[{offset} {value}]' for offset, value in found)}]}}"


def history(operations: int, seed: int = 7) -> Iterator[str]:
    """The lines of a history: an invocation and a completion for each operation."""
    log = Log(seed)
    now = index = 0
    for number in range(operations):
        process = number % PROCESSES
        count = log.random.randint(1, 5)
        micro = [log.send() if log.random.random() < 0.5 else None for _ in range(count)]
        asked = " ".join("[:poll]" if each is None else f"[:send {each[0]} {each[1]}]" for each in micro)
        told = " ".join(
            f"[:poll {log.poll(process)}]" if each is None else f"[:send {each[0]} [{each[1] - 1} {each[1]}]]"
            for each in micro
        )
        outcome = log.random.random()
        ended = ":ok" if outcome < 0.95 else ":info" if outcome < 0.98 else ":fail"
        answer = told if ended == ":ok" else asked
        error = "" if ended == ":ok" else ', :error [:timeout "Expiring 1 record(s)"]'
        f = ":poll" if not any(micro) else ":send" if all(micro) else ":txn"
        now += log.random.randint(1000, 100_000)
        for type_, value, more in ((":invoke", asked, ""), (ended, answer, error)):
            yield (
                f"{{:index {index}, :time {now}, :type {type_}, :process {process}, :f {f}, :value [{value}]{more}}}\n"
            )
            index += 1
            now += 1000
        if number % 10_000 == 0:
            yield f"{{:index {index}, :time {now}, :type :info, :process :nemesis, :f :start-partition, :value nil}}\n"
            index += 1


def exported(file: Path, form: str) -> Path:
    """What a Jepsen history becomes here, given out in another format."""
    given = file.with_suffix(f".{SUFFIXES[form]}")
    subprocess.run([sys.executable, "-c", EXPORT, str(file), str(file.with_suffix(".store")), str(given)], check=True)
    return given


def main() -> None:
    """Each size, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, action="append")
    parser.add_argument("--format", choices=SUFFIXES, action="append")
    given = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as place:
        for operations in given.operations or SIZES:
            history_file = Path(place, f"{operations}.edn")
            with history_file.open("w") as lines:
                lines.writelines(history(operations))
            for form in given.format or ["jepsen"]:
                file = history_file if form == "jepsen" else exported(history_file, form)
                measure(console, f"{operations:,} operations as {form}", file, Path(place, "store"))
    console.print(f"at most {GOAL_S:.0f} s for a million of Jepsen's", highlight=False)


def measure(console: Console, what: str, file: Path, store: Path) -> None:
    """Import a file in a process of its own, and say what that took."""
    ran = subprocess.run(
        [sys.executable, "-c", IMPORT, str(file), str(store)], capture_output=True, text=True, check=True
    )
    done = json.loads(ran.stdout)
    console.print(
        f"{what} ({file.stat().st_size / 1e6:,.0f} MB), {done['events']:,} events: "
        f"{done['took_s']:.1f} s ({done['cpu_s']:.1f} + {done['helpers_cpu_s']:.1f} s of CPU), "
        f"{done['peak_mib']:.0f} MiB at most, each helper {done['helper_mib']:.0f} MiB",
        highlight=False,
    )


if __name__ == "__main__":
    main()
