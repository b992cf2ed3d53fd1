"""Opening the history of a run that is here, and what its run.json says of how it was recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.foundation.reasons import RUN_FAILED, Reason
from harness.history.sealed import Sealed
from harness.history.sealing import open_history
from harness.history.store import RUN_FILE, Run

ENDED = frozenset({"finished", "recorded", "interrupted"})


def open_run(run: Run) -> Sealed:
    """The history of a run, with a word for each process that left none."""
    return without_the_missing(open_files(run), read_facts(run))


def open_files(run: Run) -> Sealed:
    """The history of a run, as its files are."""
    return open_history(run.path, _killed(read_facts(run)))


def read_facts(run: Run) -> dict[str, Any]:
    """run.json; nothing if there is none."""
    return run.facts if (run.path / RUN_FILE).exists() else {}


def _killed(facts: dict[str, Any]) -> frozenset[int]:
    """The processes that a fault killed."""
    found = facts.get("killed_on_purpose")
    return frozenset(each for each in found if isinstance(each, int)) if isinstance(found, list) else frozenset()


def without_the_missing(sealed: Sealed, facts: dict[str, Any]) -> Sealed:
    """The history, with a word for each process that was started and left nothing, unless a fault killed it."""
    started = {int(number): str(role) for number, role in table_of(facts, "processes").items()}
    missing = {number: started[number] for number in sorted(started.keys() - sealed.processes.keys() - _killed(facts))}
    if not missing:
        return sealed
    sentences = [f"process {number} ({role}) left no history" for number, role in missing.items()]
    return replace(
        sealed,
        damage=[*sealed.damage, *sentences],
        has_holes=True,
        damaged_processes=sealed.damaged_processes | set(missing),
    )


def failures_of(facts: dict[str, Any]) -> tuple[Reason, ...]:
    """What went wrong with the run itself."""
    troubles = [Reason.of(each) for each in facts.get("troubles") or ()]
    ended = [] if facts.get("state") in ENDED else [Reason(RUN_FAILED, _unfinished(facts))]
    return (*troubles, *ended)


def table_of(facts: dict[str, Any], name: str) -> dict[str, Any]:
    """A part of run.json that has parts itself; nothing if there is none."""
    found = facts.get(name)
    return found if isinstance(found, dict) else {}


def _unfinished(facts: dict[str, Any]) -> str:
    if not facts:
        return f"there is no {RUN_FILE}: what the run was asked to do is unknown"
    if error := facts.get("error"):
        return f"the run failed: {error}"
    return "the run did not come to its end: it was killed"
