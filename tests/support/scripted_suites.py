"""Suites on paper: files, runs that come out as a test likes, and a keeper that lends nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from checkers.core.results import Anomaly, CheckResults, Finding
from checkers.summaries.coverage import Coverage
from checkers.summaries.figures import Figures
from harness.foundation.progress import SilentProgress
from harness.foundation.view import View
from harness.history.store import Run
from harness.judging.checking import Checked
from harness.judging.policies import RunFacts
from harness.judging.verdict import decide
from harness.runs.runner import Recorded
from harness.runs.scenario import Scenario
from harness.runs.shared_resources import SharedResources
from harness.suite.feasibility import PlannedCase
from harness.suite.outcome import CaseOutcome
from harness.suite.resource_pool import ResourcePool
from harness.suite.running import SuiteCallbacks
from harness.suite.spec import Suite, SuiteCase, load_suite
from harness.suite.state import State

# Loaded by its entry point where the project is installed as it is now; loading it twice would be an error.
PLUGIN = () if entry_points(group="pytest11", name="tidegauge") else ("-p", "harness.suite.pytest_plugin")
STREAM = """
[[scenario]]
name = "stream"
workload = { name = "stream", rate = 100 }
"""


def suite_file(directory: Path, text: str, name: str = "mine") -> Path:
    """A suite with this text."""
    file = directory / f"{name}.toml"
    file.write_text(text)
    return file


def suite(directory: Path, text: str, **flags: Any) -> Suite:
    """The same, loaded."""
    return load_suite(suite_file(directory, text), flags)


def as_planned(cases: Sequence[SuiteCase]) -> list[PlannedCase]:
    """All of them possible, with no needs."""
    return [PlannedCase(case, case.scenario.cluster) for case in cases]


def checked(verdict: str = "valid", acks: str = "all", **facts: Any) -> Checked:
    """A run with this verdict: `invalid` has lost a message, `unknown` has read nothing."""
    lost = Finding("lost-write", "t", 0, 3, (3,), (1,), (), 5, None, (9,), (), "acknowledged at offset 3")
    found = [lost] if verdict == "invalid" else []
    anomalies = {"lost-write": Anomaly("lost-write", "", 100, len(found), found)}
    covered = Coverage({"send": {"ok": 10}}, 20, 10 if verdict != "unknown" else 0, finals_complete=1)
    results = CheckResults(events=30, anomalies=anomalies, figures=Figures(10, 10), coverage=covered)
    known = {"seed": 5, "phases": [{"took_s": 1.0}], **facts}
    run_facts = RunFacts(acks=acks, dead_workers=tuple(facts.get("dead_workers", ())))
    made = Checked(Run(Path("/store/x/y")), known, results, decide(results, run_facts))
    assert made.verdict.outcome == verdict
    return made


class NoView(SilentProgress):
    """Shows nothing."""

    def phase(self, name: str, expected_s: float | None = None) -> None:
        """Ignored."""

    def happened(self, text: str) -> None:
        """Ignored."""

    def standing(self, standing: object) -> None:
        """Ignored."""

    def close(self) -> None:
        """Ignored."""


class PaperPool(ResourcePool):
    """Lends nothing, and notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.ended = False

    def resources_for(self, planned: PlannedCase, upcoming: object, view: View) -> SharedResources:
        """Nothing."""
        return SharedResources()

    def session(self) -> Any:
        """None."""

    def spoil(self, why: str) -> None:
        """Noted."""
        self.told.append(f"spoil: {why}")

    def drop_cluster(self) -> None:
        """Noted."""
        self.told.append("no cluster")

    def renew(self, why: str) -> None:
        """Noted."""
        self.told.append(f"renew: {why}")

    def close(self) -> None:
        """Noted."""
        self.ended = True


class Unchecked(Exception):
    """A run that was recorded, and whose check fails with this."""


class Paper:
    """Runs that come out as told, by the name of the scenario; the last one for all further runs of it."""

    def __init__(self, **outcomes: Sequence[Checked | BaseException]) -> None:
        self._outcomes = {name: list(each) for name, each in outcomes.items()}
        self._recorded: dict[Path, Checked | Unchecked] = {}
        self.ran: list[str] = []
        self.seeds: list[int] = []
        self.states: list[State] = []
        self.kept: list[State] = []  # what only those need to know who go on after a kill
        self.troubles: list[str] = []
        self.ended: list[CaseOutcome] = []

    def record(self, scenario: Scenario, _: SharedResources) -> Recorded:
        """The next outcome of this scenario; valid unless told otherwise."""
        self.ran.append(scenario.title)
        self.seeds.append(scenario.seed)
        left = self._outcomes.get(scenario.title.replace("-", "_").replace("+", "_"), [checked()])
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(outcome, BaseException) and not isinstance(outcome, Unchecked):
            raise outcome
        assert isinstance(outcome, Checked | Unchecked)
        facts: Mapping[str, Any] = {} if isinstance(outcome, Unchecked) else outcome.facts
        cut_short = bool(facts.get("interrupted"))
        path = Path(f"/store/{scenario.title}/{len(self.ran)}")
        self._recorded[path] = outcome
        return Recorded(
            Run(path),
            stopped=cut_short or bool(facts.get("stopped")),
            cut_short=cut_short,
            suspicion=str(facts.get("suspicion", "")),
        )

    def recorded_before(self, path: Path, outcome: Checked | Unchecked, **facts: Any) -> None:
        """A run of a suite that was killed, which comes out as told when it is checked."""
        path.mkdir(parents=True)
        Run(path).update(**{"state": "recorded", **facts})
        self._recorded[path] = outcome

    def check(self, recorded: Recorded, _: object) -> Checked:
        """What comes of it."""
        outcome = self._recorded[recorded.run.path]
        if isinstance(outcome, Unchecked):
            raise outcome
        return outcome

    def hands(self, tell: Callable[[State], None] | None = None) -> SuiteCallbacks:
        """Those that do the work."""

        def told(state: State) -> None:
            self.states.append(state)
            if tell:
                tell(state)

        return SuiteCallbacks(
            self.record,
            self.check,
            no_view,
            told,
            lambda *_: None,
            self.ended.append,
            self.troubles.append,
            self.kept.append,
        )


@contextmanager
def no_view() -> Iterator[View]:
    """Nothing is shown."""
    yield NoView()
