"""How long clusters take to be ready and to be gone, each kind in turn, several rounds: `make bench`."""

from __future__ import annotations

import statistics
import time

from rich.console import Console
from rich.table import Table

from bench.command import run_command
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.errors import CannotHere
from harness.foundation.progress import SilentProgress

ROUNDS = 5
KINDS = {
    "local": ClusterSpec(kind="local"),
    "local --netns": ClusterSpec(kind="local", netns=True),
    "docker": ClusterSpec(kind="docker"),
}


def main() -> None:
    """Alternate between the kinds, so that a busy minute of the machine hits all of them alike."""
    console, errors = Console(), Console(stderr=True)
    ready_s: dict[str, list[float]] = {}
    gone_s: dict[str, list[float]] = {}
    for round_number in range(1, ROUNDS + 1):
        for name, spec in KINDS.items():
            errors.print(f"round {round_number} of {ROUNDS}: {name}", highlight=False)
            try:
                with make_cluster(spec.with_image(lambda _: True, SilentProgress()), SilentProgress()) as cluster:
                    ready_s.setdefault(name, []).append(cluster.ready_after_s)
                    leaving_at = time.monotonic()
                gone_s.setdefault(name, []).append(time.monotonic() - leaving_at)
            except CannotHere as error:
                errors.print(f"  left out: {error}", highlight=False, markup=False)
    table = Table(title="seconds: median (least to most)", title_justify="left")
    for title in ("cluster", "until ready", "until gone", "ready, against local"):
        table.add_column(title, justify="left" if title == "cluster" else "right")
    for name, values in ready_s.items():
        ratio = statistics.median(values) / statistics.median(ready_s["local"])
        table.add_row(name, _spread(values), _spread(gone_s[name]), f"{ratio:.1f} x")
    console.print(table)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    run_command(main)
