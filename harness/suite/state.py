"""How far a suite has come: a directory in the store, rewritten after each try, from which a killed suite goes on.

store/suites/<suite>/<time>/suite.json    every case with its tries
                            junit.xml     the same for CI systems
                            summary.md    the same for people
store/suites/<suite>/latest               its newest one

A reader sees the old or the new file, never half of one. Whoever works on a suite holds a lock on its directory.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import __version__
from harness.foundation.errors import UsageError, from_os_error
from harness.history.store import LATEST, create
from harness.suite.outcome import CaseOutcome
from harness.suite.spec import Suite, SuiteCase

SUITES = "suites"
STATE_FILE = "suite.json"
JUNIT_FILE = "junit.xml"
SUMMARY_FILE = "summary.md"


@dataclass(frozen=True)
class State:
    """A suite, and what is known of each of its cases, in the order of the file."""

    suite: str
    title: str
    seed: int
    flags: Mapping[str, Any]  # what was said about the cluster
    outcomes: tuple[CaseOutcome, ...]
    started_at: str
    interrupted: bool = False

    def outcome(self, name: str) -> CaseOutcome:
        """What is known of a case."""
        return next(each for each in self.outcomes if each.name == name)

    def having(self, outcome: CaseOutcome) -> State:
        """With what is now known of a case."""
        return replace(self, outcomes=tuple(outcome if each.name == outcome.name else each for each in self.outcomes))

    def as_json(self) -> dict[str, Any]:
        """suite.json."""
        return {
            "suite": self.suite,
            "title": self.title,
            "tidegauge": __version__,
            "seed": self.seed,
            "flags": dict(self.flags),
            "started_at": self.started_at,
            "interrupted": self.interrupted,
            "cases": [each.as_json() for each in self.outcomes],
        }


def begin(suite: Suite, cases: Sequence[SuiteCase], seed: int, flags: Mapping[str, Any]) -> State:
    """Nothing known yet."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    return State(suite.name, suite.title, seed, flags, tuple(map(blank, cases)), now)


def alone(case: SuiteCase, seed: int) -> State:
    """A case that belongs to no suite."""
    return State("", "", seed, {}, (blank(case),), "")


def blank(case: SuiteCase) -> CaseOutcome:
    """A case that was not run."""
    return CaseOutcome(case.name, str(case.expect), case.repeat, case.expect.needed(case.repeat), case.digest)


def directory(store: Path, suite: str) -> Path:
    """A new one."""
    parent = store / SUITES
    return create(parent, suite, link_above=False).path


def newest(store: Path, suite: str) -> Path:
    """The newest one of this suite."""
    path = (store / SUITES / suite / LATEST).resolve()
    if not (path / STATE_FILE).exists():
        raise UsageError(f"there is nothing of the suite '{suite}' in {store} to go on with", "leave --resume out")
    return path


def read(path: Path) -> State:
    """As it was left."""
    file = path / STATE_FILE
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return State(
            str(data["suite"]),
            str(data["title"]),
            int(data["seed"]),
            dict(data["flags"]),
            tuple(CaseOutcome.from_json(each) for each in data["cases"]),
            str(data["started_at"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{file} cannot be read ({error})", "leave --resume out") from error


def resumed(state: State, suite: Suite) -> tuple[State, list[SuiteCase]]:
    """The state without what has to be run again, and its cases as they are now.

    What changed in the file since is run again. A case that is no longer there is an error: what was found of it would
    be told as if it were still asked for.
    """
    now = {case.name: case for case in suite.cases}
    if gone := [each.name for each in state.outcomes if each.name not in now]:
        raise UsageError(f"the case '{gone[0]}' is no longer in {suite.file}", "leave --resume out")
    cases = [now[each.name] for each in state.outcomes]
    kept = tuple(
        each.without_trouble() if each.digest == case.digest else blank(case)
        for each, case in zip(state.outcomes, cases, strict=True)
    )
    return replace(state, outcomes=kept, interrupted=False), cases


def write_atomically(path: Path, content: bytes) -> None:
    """The old or the new one, never half of it; directories are made."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        raise from_os_error(error, f"writing {path.name}") from error


def write(path: Path, state: State) -> None:
    """Put suite.json in place."""
    write_atomically(path / STATE_FILE, (json.dumps(state.as_json(), indent=2) + "\n").encode())
