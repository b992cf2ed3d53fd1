"""What commands print, in docs/output.md, docs/diagnosis.md and README.md: `python -m tests.support.output_screens`.

`make schema` calls it. Every screen is made by what the commands print with, from runs that are kept in tests/golden:
their results and as much of their run.json as a verdict needs.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from checkers.core.results import CheckResults
from harness.foundation.console import SafeConsole
from harness.foundation.detail import Detail
from harness.foundation.errors import TidegaugeError
from harness.foundation.interrupts import FIRST
from harness.foundation.live_view import LiveView
from harness.foundation.view import LoadStatus, PlainView
from harness.history.store import Run
from harness.judging.checking import Checked, run_facts_of
from harness.judging.verdict import decide
from harness.report.making import REPORT_FILE
from harness.report.terminal import run as terminal
from harness.report.terminal.tables import error, line
from harness.runs.scenario import load
from harness.suite.outcome import CaseOutcome, Try
from harness.suite.state import State
from harness.suite.terminal import table
from tests.support import REPOSITORY

GOLDEN = REPOSITORY / "tests" / "golden"
PAGES = tuple(REPOSITORY / name for name in ("docs/output.md", "docs/diagnosis.md", "README.md"))
BEGIN, END = "<!-- `make schema` writes this screen: {name} -->\n", "<!-- the end of the screen -->\n"
WIDTH = 80
TIME = "2026-11-19T17-33-45"


def checked(file: str, title: str, **scenario: Any) -> Checked:
    """A run that was kept, as a check finds it; of older ones the file does not say what was run."""
    data = json.loads((GOLDEN / file).read_text(encoding="utf-8"))
    facts = data["facts"]
    facts["scenario"] = {**facts["scenario"], **scenario}
    anomalies = {name: {"name": name, "about": "", **each} for name, each in data["results"]["anomalies"].items()}
    results = CheckResults.from_json({**data["results"], "anomalies": anomalies})
    run = Run(Path("store") / title / TIME)
    return Checked(run, facts, results, decide(results, run_facts_of(facts)))


def valid() -> Checked:
    """The first run of the demo."""
    return checked("screens/valid.json", "large-batch+leader-move")


def invalid() -> Checked:
    """The second one."""
    return checked("screens/invalid.json", "large-batch+metadata-lists-self-only")


def lossy() -> Checked:
    """A broker that forgets what it acknowledged."""
    broken = {"workload": "stream", "tap": {"broken": ["acks-then-forgets"]}}
    return checked("diagnosis/broken-acks-then-forgets-kp.json", "stream+acks-then-forgets", **broken)


def interrupted() -> Checked:
    """A stream in which a worker and a tap were killed, and which its user stopped."""
    return checked("screens/interrupted.json", "stream")


def unknown() -> Checked:
    """Consumers of groups whose coordinators cannot be judged."""
    broken = {"workload": "groups", "tap": {"broken": ["coordinator-lies"]}}
    return checked("diagnosis/broken-coordinator-lies-kp.json", "groups+coordinator-lies", **broken)


def told(console: Console, one: Checked, detail: Detail = Detail.NORMAL) -> None:
    """The verdict and the report, as `run` and `check` print them."""
    terminal.verdicts(console, [one], as_json=False, detail=detail)
    if detail is not Detail.QUIET:
        line(console, f"  {'report':<10}{one.run.path}/{REPORT_FILE}")


def demo(console: Console) -> None:
    """Both verdicts, then both reports."""
    acts = [valid(), invalid()]
    terminal.verdicts(console, acts, as_json=False)
    for act in acts:
        line(console, f"  {'report':<10}{act.run.path}/{REPORT_FILE}")


def an_interruption(console: Console) -> None:
    """The answer to Ctrl-C, then what there was."""
    line(console, f" 31.2 s           {FIRST}")
    told(console, interrupted())


def a_suite(console: Console) -> None:
    """A case that passed, one that failed, one that this machine cannot run."""
    lost = lossy()
    cause = lost.diagnosis.cause
    assert cause is not None
    failed = Try(1, 7, 41.0, lost.verdict.outcome, ("valid was expected",), cause=cause.name,
                 sentences=(cause.sentence,), report=f"{lost.run.path}/{REPORT_FILE}")  # fmt: skip
    passed = Try(1, 7, 23.0, "valid", report=f"store/stream+leader-kill/{TIME}/{REPORT_FILE}")
    outcomes = (
        CaseOutcome("leader-kill", "valid", tries=(passed,)),
        CaseOutcome("forgets", "valid", tries=(failed,)),
        CaseOutcome("isolate", "valid", skipped="it needs root"),
    )
    table(console, State("ci", "ci", 7, {}, outcomes, TIME), Path("store/suites/ci") / TIME)


def an_error(console: Console) -> None:
    """A name that is misspelled."""
    try:
        load(None, {"workload": "strem"})
    except TidegaugeError as failure:
        error(console, failure)


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Now."""
        return self.now_s


STANDING = LoadStatus({"sent": 3412, "ok": 3398, "read": 3390}, ("leader-kill: node 1 is dead",))


def live(console: Console) -> None:
    """The lines that change, at four moments of a run."""
    clock = Clock()
    view = LiveView(console, clock)
    view.leave()
    moments: list[Callable[[], None]] = [
        lambda: view.part(45, 127, "archives"),
        lambda: view.standing(STANDING),
        lambda: view.part(61_000, 80_000, "messages"),
        lambda: view.part(45, 112, "steps (watermarks)"),
    ]
    steps = {"set up": "fetching kafka 4.3.1 (127 archives)", "load": "", "final": "", "check": ""}
    for moment, (name, step) in zip(moments, steps.items(), strict=True):
        view.phase(name, 20 if name == "load" else None)
        view.step(step)
        clock.now_s += 14
        moment()
        console.print(view.drawn())


def plain(console: Console) -> None:
    """The same where lines cannot be drawn again."""
    clock = Clock()
    view = PlainView(console, clock)
    view.phase("set up")
    clock.now_s += 7
    view.phase("load", 20)
    for second in range(20):
        clock.now_s += 1
        if second == 5:
            view.happened("leader-kill 1 injected: node 1 (leader of p0) is killed")
        view.standing(LoadStatus({"sent": 200 * second, "ok": 200 * second}))
    view.phase("heal")


SCREENS: dict[str, Callable[[Console], None]] = {
    "demo": demo,
    "valid": lambda console: told(console, valid()),
    "invalid": lambda console: told(console, invalid()),
    "lossy": lambda console: told(console, lossy()),
    "quiet": lambda console: told(console, lossy(), Detail.QUIET),
    "unknown": lambda console: told(console, unknown()),
    "interrupted": an_interruption,
    "suite": a_suite,
    "error": an_error,
    "live": live,
    "plain": plain,
}


def screen(name: str) -> str:
    """What is on it."""
    environment = {"NO_COLOR": "1", "TERM": "xterm", "COLUMNS": str(WIDTH)}
    console = SafeConsole(file=io.StringIO(), width=WIDTH, force_terminal=False, _environ=environment)
    SCREENS[name](console)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(each.rstrip() for each in console.file.getvalue().strip("\n").splitlines())


def page(text: str) -> str:
    """The page with its screens as they are now."""
    for name in SCREENS:
        begin = BEGIN.format(name=name)
        before, found, rest = text.partition(begin)
        if found:
            shown, ended, after = rest.partition(END)
            assert ended, f"the screen {name} has no end"
            first = shown.splitlines()[1] if shown.startswith("```\n$ ") else ""  # the command, which the page names
            command = f"{first}\n" if first else ""
            text = f"{before}{begin}```\n{command}{screen(name)}\n```\n{END}{after}"
    return text


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
