"""The pytest plugin: suites as tests, and scenarios in tests of one's own (docs/ci.md).

`pytest suites/ci.toml` collects the cases of a suite. `@pytest.mark.scenario(...)` takes the keys of a suite's
scenario, and the fixtures `scenario`, `cluster` and `tap` are what a test works with. Nothing of the harness is loaded
before a suite is collected or a fixture used: for everybody else this costs nothing. Installed, this file is
`tidegauge.pytest_plugin`.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.clusters.base import Cluster
    from harness.suite.feasibility import PlannedCase
    from harness.suite.outcome import CaseOutcome
    from harness.suite.pytest_session import PytestSession, RunResult, TapFixture

MARKER = "scenario"
DECLARED = f"{MARKER}(workload=..., nemesis=..., ...): what the fixture 'scenario' runs (Tidegauge)"
FIXTURES = frozenset({"scenario", "cluster", "tap"})  # those that look at the marker
KEYS = frozenset(  # of the marker; to load the harness for these would cost everybody a second
    {"name", "file", "repeat", "expect", "matrix", "workload", "nemesis", "cluster", "tap", "limits", "time", "seed"}
)
UNMISTAKABLE = frozenset({"workload", "nemesis"})  # no other project's marker has these
SEED_VARIABLE = "TIDEGAUGE_PYTEST_SEED"  # of the process that xdist's workers are children of
_bench: pytest.StashKey[PytestSession] = pytest.StashKey()
_SCENARIO_TABLE = re.compile(r"^\s*\[\[\s*scenario\s*\]\]", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `tidegauge suite` has for the same purpose."""
    group = parser.getgroup("tidegauge", "Tidegauge: tests on real Kafka clusters")
    group.addoption("--tidegauge-cluster", metavar="KIND", help="local (the default), docker or external")
    group.addoption("--tidegauge-bootstrap", metavar="HOST:PORT,...", help="addresses of an external cluster")
    group.addoption("--tidegauge-kafka-version", metavar="VERSION", help="default: 4.3.1")
    group.addoption("--tidegauge-target", metavar="NAME|FILE", help="another product than Apache Kafka")
    group.addoption("--tidegauge-store", metavar="DIR", type=Path, help="directory for runs; default: ./store")
    group.addoption(
        "--tidegauge-seed", metavar="N", type=int, help="random seed, to repeat the choices of runs; default: random"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and give workers of xdist the seed of their parent."""
    config.addinivalue_line("markers", DECLARED)
    if not hasattr(config, "workerinput"):
        given = config.getoption("--tidegauge-seed")
        os.environ[SEED_VARIABLE] = str(int.from_bytes(os.urandom(4)) >> 1 if given is None else given)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SuiteCollector | None:
    """A suite that was named on the command line; other TOML files are nobody's tests."""
    if file_path.suffix != ".toml" or not parent.session.isinitpath(file_path):
        return None
    if not _SCENARIO_TABLE.search(file_path.read_text(encoding="utf-8", errors="replace")):
        return None
    return SuiteCollector.from_parent(parent, path=file_path)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A marked test that never looks at its scenario would pass, and prove nothing."""
    if FIXTURES & set(getattr(item, "fixturenames", FIXTURES)):
        return
    if any(_is_ours(marker, item.config) for marker in item.iter_markers(MARKER)):
        pytest.fail(
            "a test marked with 'scenario' has to ask for the fixture 'scenario' and run it, or for 'cluster' or 'tap'"
            " (if the marker is one of your own, declare it under 'markers')",
            pytrace=False,
        )


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """After the test, if it has not failed: one that was given its scenario and never ran it proves nothing, either."""
    given = getattr(item, "funcargs", {}).get("scenario")
    if isinstance(given, ScenarioUnderTest) and not given.was_run and item.get_closest_marker(MARKER):
        pytest.fail("the test never ran the scenario of its marker: call scenario.run()", pytrace=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Clusters and Spark end with the tests; what is in the way of that is told, and no test has to do with it."""
    if bench := session.config.stash.get(_bench, None):
        del session.config.stash[_bench]
        try:
            bench.close()
        except Exception as error:  # noqa: BLE001 - pytest would take it for an error of its own
            _say(session.config, f"Tidegauge could not end what the tests have used: {error}")


class SuiteCollector(pytest.File):
    """A suite."""

    def collect(self) -> Iterator[CaseItem]:
        """Its cases, those together that share a cluster."""
        harness = _harness()
        try:
            found = harness.cases_of(self.path, _flags(self.config))
        except harness.TidegaugeError as error:
            raise self.CollectError(str(error)) from None
        for planned in found:
            yield CaseItem.from_parent(self, name=planned.case.name, planned=planned)


class CaseItem(pytest.Item):
    """A case of a suite, which passes if what was expected came of it."""

    def __init__(self, *, planned: PlannedCase, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned = planned
        # docker-py and kafka-python leave some sockets to the garbage collector; a broker cannot help that
        self.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))

    def runtest(self) -> None:
        """Run it on a cluster that it shares with the cases around it."""
        items = self.session.items
        later = [each.planned for each in items[items.index(self) :] if isinstance(each, CaseItem)]
        outcome, _ = _the_bench(self.config).play(self.planned, later)
        _tell(outcome, self.user_properties)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """An error of the harness is a sentence."""
        ours = excinfo.errisinstance(_harness().TidegaugeError)
        return str(excinfo.value) if ours else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it is from."""
        return self.path, None, self.name


class ScenarioUnderTest:
    """What a test runs: the scenario of its marker, with changes if it likes."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self.was_run = False

    def run(self, **changes: Any) -> RunResult:
        """Run it on a cluster that other tests use, too; the test fails unless what was expected came of it.

        `changes` are keys of a scenario that win over those of the marker.
        """
        self.was_run = True
        bench = _the_bench(self._request.config)
        node = self._request.node
        planned = _planned(bench, {**_marked(node), **changes}, node)
        outcome, checked = bench.play(planned)
        _tell(outcome, node.user_properties)
        result: RunResult = _harness().RunResult(checked[-1])
        return result


@pytest.fixture
def scenario(request: pytest.FixtureRequest) -> ScenarioUnderTest:
    """The scenario of the test's marker: `scenario.run()`."""
    return ScenarioUnderTest(request)


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of three nodes that is up and whole, and that other tests use, too."""
    bench, node = _the_bench(request.config), request.node
    planned = _planned(bench, {"cluster": _marked(node).get("cluster", {})}, node)
    if planned.skipped:
        pytest.skip(planned.skipped)
    with bench.cluster(planned) as found:
        yield found


@pytest.fixture
def tap(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[TapFixture]:
    """Taps before that cluster: `tap.bootstrap` for clients, `tap.bend(...)`, and `tap.result` when they are done."""
    bench = _the_bench(request.config)
    with bench.tap(cluster, _marked(request.node).get("tap", {}), _name(request.node)) as found:
        yield found


def _harness() -> ModuleType:
    """All of it, when somebody needs it; kafka-python is imported with warnings that are errors to some users."""
    with suppress(ModuleNotFoundError):  # in a checkout that is not installed, it is importable anyway
        from tidegauge import activate

        activate()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from harness.suite import pytest_session
    return pytest_session


def _the_bench(config: pytest.Config) -> PytestSession:
    if _bench not in config.stash:
        given, seed = config.getoption("--tidegauge-store"), int(os.environ[SEED_VARIABLE])
        config.stash[_bench] = _harness().PytestSession(_harness().store_dir(given), _flags(config), seed)
    return config.stash[_bench]


def _flags(config: pytest.Config) -> dict[str, Any]:
    asked = (config.getoption(f"--tidegauge-{name}") for name in ("cluster", "kafka-version", "target", "bootstrap"))
    flags: dict[str, Any] = _harness().flags_of(*asked)
    return flags


def _planned(bench: PytestSession, entry: dict[str, Any], node: pytest.Item) -> PlannedCase:
    """What a test asks for; a mistake in it is a sentence."""
    try:
        return bench.case(entry, _name(node), node.path)
    except _harness().TidegaugeError as error:
        pytest.fail(str(error), pytrace=False)


def _is_ours(marker: pytest.Mark, config: pytest.Config) -> bool:
    """Whether a test is marked for us: other projects may have a marker of this name, with other keys or declared."""
    if marker.args or (marker.kwargs and not KEYS & marker.kwargs.keys()):
        return False
    declared = [line for line in config.getini("markers") if re.match(rf"\s*{MARKER}\s*(\(|:|$)", line)]
    return declared == [DECLARED] or bool(UNMISTAKABLE & marker.kwargs.keys())


def _say(config: pytest.Config, sentence: str) -> None:
    """As a warning is told, which where all warnings are errors would end pytest itself."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # in a worker of xdist
        sys.stderr.write(f"{sentence}\n")
    else:
        reporter.ensure_newline()
        reporter.write_line(sentence, yellow=True)


def _marked(node: pytest.Item) -> dict[str, Any]:
    """What all markers say, the nearest one on top."""
    entry: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.{MARKER} takes names: workload=..., nemesis=..., time=...")
        entry |= marker.kwargs
    return entry


def _name(node: pytest.Item) -> str:
    return re.sub(r"[^A-Za-z0-9_+.-]+", "-", node.name).strip("-.")


def _tell(outcome: CaseOutcome, properties: list[tuple[str, object]]) -> None:
    """Pass, skip or fail, with what there is to know."""
    if one := outcome.telling:
        properties += [(key, value) for key, value in (("run", one.run), ("report", one.report)) if value]
    if outcome.status == "skipped":
        pytest.skip(outcome.skipped)
    if outcome.status != "passed":
        pytest.fail(_harness().explained(outcome), pytrace=False)
