"""Golden histories: small recorded runs in tests/golden, and what the checkers say of each.

They are real runs of Kafka with a broken broker played by the taps, or without one, as `tidegauge export` writes them.
When a checker is changed on purpose, `python -m tests.support.golden_histories` rewrites tests/golden/expected.json,
and the difference says what the change does to real histories.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness.judging.checking import Checked, check_run
from harness.spark.session import Session
from tests.support import REPOSITORY
from tests.support.foreign_histories import QUIET, take

GOLDEN = REPOSITORY / "tests" / "golden"
EXPECTED = GOLDEN / "expected.json"
SUFFIX = ".jsonl.gz"


def names() -> list[str]:
    """What the histories are called."""
    return sorted(path.name.removesuffix(SUFFIX) for path in GOLDEN.glob(f"*{SUFFIX}"))


def summaries(store: Path, session: Session) -> dict[str, Any]:
    """Import all of them and check them with one session: a summary of each."""
    runs = {name: take(GOLDEN / f"{name}{SUFFIX}", store, name=name).run for name in names()}
    return {name: summary(check_run(run, session, QUIET)[0]) for name, run in runs.items()}


def summary(checked: Checked) -> dict[str, Any]:
    """The verdict, and each anomaly with its count and mark."""
    return {
        "verdict": checked.verdict.outcome,
        "events": checked.results.events,
        "failures": checked.results.failures,
        "found": {seen.anomaly: f"{seen.found} {seen.mark.status}" for seen in sorted_by_name(checked)},
    }


def sorted_by_name(checked: Checked) -> list[Any]:
    """What was seen."""
    return sorted(checked.verdict.seen, key=lambda seen: seen.anomaly)


def expected() -> dict[str, Any]:
    """What is expected of each."""
    told: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return told


def main() -> None:
    """Write expected.json."""
    with tempfile.TemporaryDirectory() as store:
        with Session.start(Path(store, "spark")) as session:
            found = summaries(Path(store), session)
        EXPECTED.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{EXPECTED.relative_to(REPOSITORY)}: {len(names())} histories\n")


if __name__ == "__main__":
    main()
