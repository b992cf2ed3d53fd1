"""What the report of a large run costs: `make bench-report`, seconds after the check and bytes of the page.

    make bench-report                       # 10 million events in 12 partitions, with a few anomalies planted
    make bench-report ARGS="--events 1M"

The report is made with the session that has just checked the history, as after a run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.check import numbers
from bench.histories import generate
from harness.foundation.view import viewed_on
from harness.history.sealed import Sealed
from harness.history.store import RUN_FILE, Run
from harness.judging.checking import Checked, check_again
from harness.report.making import report_checked

FACTS = {"state": "finished", "seed": 1, "title": "bench", "scenario": {"settings": {"acks": "all", "client": "bench"}}}


def main(arguments: Sequence[str] | None = None) -> None:
    """Make a history, check it, and make its report with the session that checked it."""
    parser = argparse.ArgumentParser(prog="make bench-report", description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=numbers, default=[10_000_000], help="10M unless given")
    parser.add_argument("--partitions", type=int, default=12)
    asked = parser.parse_args(arguments)
    console = Console(stderr=True)
    for events in asked.events:
        with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as place:
            generate(Path(place), events, asked.partitions)
            Path(place, RUN_FILE).write_text(json.dumps(FACTS), encoding="utf-8")

            with viewed_on(console) as view:
                check_again([Run(Path(place))], view, after=partial(_report, console))


def _report(console: Console, checked: Checked, sealed: Sealed) -> None:
    began_s = time.monotonic()
    with viewed_on(console) as view:
        path = report_checked(checked, sealed, view)
    took_s = time.monotonic() - began_s
    assert path is not None, "there is no report"
    console.print(f"{sealed.events:,} events: reported in {took_s:.1f} s, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
