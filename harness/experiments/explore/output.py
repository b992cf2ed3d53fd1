"""What an exploration says: to people, to scripts, and in the scenario file that repeats what was found."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.experiments.explore.search import Exploration, Tried
from harness.history.store import SCENARIO_FILE
from harness.report.terminal.tables import line
from harness.runs.scenario import Scenario, to_toml
from harness.suite.state import write_atomically

FILE = "found.toml"


def kept(exploration: Exploration) -> Scenario | None:
    """What was found, as a scenario of its own that expects what its runs came to."""
    best = exploration.best
    if best is None:
        return None
    ended = Counter(each.ran.verdict for each in exploration.of_the_best)
    expect = max(ended, key=lambda verdict: ended[verdict], default="invalid")
    return best.model_copy(update={"name": "", "expect": expect})


def write_file(exploration: Exploration, file: Path) -> None:
    """Keep it, with what it shows and how sure that is; in place of the one before, as a whole."""
    scenario = kept(exploration)
    assert scenario is not None
    told = (
        _what(exploration),
        _how_sure(exploration),
        f"found by tidegauge explore with --seed {exploration.seed}, which looked for {exploration.goal}",
    )
    text = "".join(f"# {each}\n" for each in told) + to_toml(scenario.as_file())
    write_atomically(file.resolve(), text.encode())  # a link stays one


def command(file: Path) -> str:
    """What runs it again; a bare word would be taken for the name of a scenario that we ship."""
    named = str(file) if file.suffix == ".toml" or len(file.parts) > 1 else f"./{file}"
    return f"tidegauge run {shlex.quote(named)}"


def shown(console: Console, exploration: Exploration, file: Path | None, report: Path | None = None) -> None:
    """What was found, or what was looked at without finding anything."""
    line(console)
    if exploration.first is None:
        _nothing(console, exploration)
        return
    first = exploration.first
    line(console, ("  FOUND     ", "bold red"), _what(exploration))
    _row(console, "by", f"try {first.number}, {_after(exploration)}: {first.draw}")
    if exploration.shrinking:
        _row(console, "smallest", str(exploration.shrinking.best))
    _row(console, "how sure", _how_sure(exploration))
    if run := exploration.run:
        _row(console, "run", run)
        _row(console, "report", str(report or f"tidegauge report {shlex.quote(run)} makes one"))
    if why := _why_not_smaller(exploration):
        _row(console, "", f"{why}: it may be possible to make it smaller")
    where = _where(exploration, file)
    _row(console, "scenario", str(where))
    _row(console, "repeat", command(where))


def as_json(exploration: Exploration, file: Path | None, report: Path | None = None) -> dict[str, Any]:
    """For scripts."""
    scenario, shrinking = kept(exploration), exploration.shrinking
    found = None
    if scenario is not None and shrinking is not None and exploration.first is not None:
        found = {
            "anomaly": exploration.anomaly,
            "status": _status(exploration),
            "try": exploration.first.number,
            "after_s": _after_s(exploration),
            "scenario": scenario.as_file(),
            "faults": len(shrinking.best.turns),
            "faults_at_first": len(exploration.first.draw.turns),
            "showed": exploration.counted.hits,
            "runs": exploration.counted.runs,
            "smallest": shrinking.finished,
            "run": exploration.run,
            "report": str(report) if report else None,
            "file": str(_where(exploration, file)),
            "command": command(_where(exploration, file)),
        }
    return {
        "found": found,
        "sought": str(exploration.goal),
        "seed": exploration.seed,
        "budget_s": exploration.budget_s,
        "took_s": exploration.took_s,
        "stopped": exploration.stopped,
        "exit_code": int(exploration.exit_code),
        "covered": covered(exploration.tries),
        "tries": [
            {
                "number": each.number,
                "why": each.why,
                "draw": str(each.draw),
                "seed": each.seed,
                "verdict": each.ran.verdict,
                "found": {found.anomaly: found.status for found in each.ran.found},
                "run": each.ran.run,
                "took_s": round(each.ran.took_s, 1),
                "cut_short": each.ran.cut_short,
                "trouble": each.ran.trouble,
            }
            for each in exploration.tries
        ],
    }


def _where(exploration: Exploration, file: Path | None) -> Path:
    """The scenario: as it was written, or else as the run has it."""
    return file or Path(exploration.run) / SCENARIO_FILE


def covered(tries: Sequence[Tried]) -> dict[str, dict[str, int]]:
    """What was looked at, and how often; of the faults, those that bit."""
    settings = Counter(f"{key}={value}" for each in tries for key, value in each.draw.settings)
    return {
        "verdicts": dict(Counter(each.ran.verdict or "failed" for each in tries).most_common()),
        "workloads": dict(Counter(each.draw.workload for each in tries).most_common()),
        "faults": dict(Counter(name for each in tries for name in each.ran.bit).most_common()),
        "settings": dict(settings.most_common()),
    }


def _nothing(console: Console, exploration: Exploration) -> None:
    tries = len(exploration.tries)
    line(console, (f"  nothing found: {exploration.goal} was sought", "bold"))
    _row(
        console,
        "tries",
        f"{tries} in {exploration.took_s:.0f} s" + (f", {exploration.stopped}" if exploration.stopped else ""),
    )
    for title, counts in covered(exploration.tries).items():
        told = " · ".join(f"{name} ×{times}" for name, times in counts.items())
        _row(console, title, told or "none")
    shown_by = [{(found.anomaly, found.status) for found in each.ran.found} for each in exploration.tries]
    if seen := Counter(each for found in shown_by for each in found):
        told = " · ".join(f"{anomaly} ({status}) in {count}" for (anomaly, status), count in seen.most_common())
        _row(console, "seen", told)
        _row(console, "", "which --find did not ask for; --find NAME searches for it too")
    _row(console, "", "that says nothing about what was not tried; another seed tries something else")


def _what(exploration: Exploration) -> str:
    shown = exploration.of_the_best or [each for each in [exploration.first] if each]
    last = next(each for each in shown[-1].ran.found if each.anomaly == exploration.anomaly)
    return f"{last}" + (f": {last.why}" if last.why else "")


def _status(exploration: Exploration) -> str:
    found = exploration.first.ran.found if exploration.first else ()
    return next((each.status for each in found if each.anomaly == exploration.anomaly), "")


def _how_sure(exploration: Exploration) -> str:
    counted = exploration.counted
    return f"{exploration.anomaly} in {counted.hits} of {counted.runs} run{'s' if counted.runs > 1 else ''}"


def _why_not_smaller(exploration: Exploration) -> str:
    """Why not everything was tried that makes it smaller; nothing if it was."""
    shrinking = exploration.shrinking
    if shrinking is None or shrinking.finished:
        return ""
    if exploration.stopped:
        return exploration.stopped
    return "the time is up" if shrinking.again else "it was not seen again"


def _after_s(exploration: Exploration) -> float:
    number = exploration.first.number if exploration.first else 0
    return round(sum(each.ran.took_s for each in exploration.tries[:number]), 1)


def _after(exploration: Exploration) -> str:
    return f"{_after_s(exploration):.0f} s into it"


def _row(console: Console, title: str, text: str) -> None:
    line(console, f"  {title:<10}{text}")
