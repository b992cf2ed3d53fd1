"""The plugin, in a pytest of its own: what is collected, what passes and fails, and that nobody else is disturbed."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.suite import pytest_plugin, pytest_session, spec
from tests.support import REPOSITORY
from tests.support.scripted_suites import PLUGIN, STREAM, suite_file

pytest_plugins = ["pytester"]
LOADED = pytest_session.__name__  # once, here, and not by each of the tests

# Runs that come out by their names, on nothing.
PAPER = """
import socket
from pathlib import Path
import pytest

patch = pytest.MonkeyPatch()

def pytest_sessionstart():
    from harness.suite import pytest_plugin
    pytest_session = pytest_plugin._harness()
    from harness.runs.runner import Recorded
    from harness.history.store import Run
    from tests.support.scripted_suites import PaperPool, checked

    def record(scenario, *_):
        print("ran", scenario.title, scenario.seed)
        print("on", *scenario.cluster.model_dump(exclude_defaults=True).values())
        if "leaky" in scenario.title:
            socket.socket()
        return Recorded(Run(Path("/store") / scenario.title))

    def check(recorded, *_):
        return checked("invalid" if "bad" in recorded.run.path.name else "valid")

    patch.setattr(pytest_session, "record_scenario", record)
    patch.setattr(pytest_session, "check_recorded", check)
    patch.setattr(pytest_session, "ResourcePool", PaperPool)

def pytest_unconfigure():
    patch.undo()
"""
STUCK = """
    def close(_):
        from harness.foundation.errors import ClusterError
        raise ClusterError("node 2 does not stop", "see its log")

    patch.setattr(PaperPool, "close", close)
"""
CASES = STREAM + STREAM.replace('"stream"', '"bad"', 1)
INI = "[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n"


@pytest.fixture
def paper(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory with a suite, whose runs are on paper."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    for name in ("CLUSTER", "KAFKA_VERSION", "TARGET", "BOOTSTRAP"):
        monkeypatch.delenv(f"TIDEGAUGE_{name}", raising=False)
    pytester.makeconftest(PAPER)
    pytester.makefile(".ini", pytest=INI)
    suite_file(pytester.path, CASES)
    return pytester


def ran(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Pytest in this process, which has loaded the harness already; Hypothesis would be loaded anew each time."""
    return pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments)


def test_a_suite_that_is_named_is_collected_and_its_failures_are_told(paper: pytest.Pytester) -> None:
    """With the verdict, the cause and where the report is; JUnit XML has the run, too."""
    result = ran(paper, "mine.toml", "--junitxml=junit.xml", "--tidegauge-seed=7")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*FAILED: the verdict is invalid instead of valid*",
            "*cause: *",
            "*report: /store/x/y*",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    junit = ET.parse(paper.path / "junit.xml")
    assert {each.get("value") for each in junit.iter("property")} == {"/store/x/y"}


def test_a_socket_that_a_library_left_open_fails_no_case(paper: pytest.Pytester) -> None:
    """Not even where all warnings are errors."""
    suite_file(paper.path, STREAM.replace('"stream"', '"leaky"', 1))
    ran(paper, "mine.toml").assert_outcomes(passed=1)


def test_cases_can_be_chosen_and_the_first_failure_can_be_the_end(paper: pytest.Pytester) -> None:
    """By -k and -x, as with any test."""
    ran(paper, "mine.toml", "-k", "stream").assert_outcomes(passed=1, deselected=1)
    ran(paper, "mine.toml::bad", "-x").assert_outcomes(failed=1)


def test_workers_share_the_seed_and_nothing_else(paper: pytest.Pytester) -> None:
    """pytest-xdist has a process for each, and each its own clusters; warnings of kafka-python are no errors there."""
    result = paper.runpytest_subprocess(
        *PLUGIN, "-p", "no:hypothesispytest", "mine.toml", "-n", "2", "--tidegauge-seed=7", "-rA"
    )
    result.assert_outcomes(passed=1, failed=1)
    alone = ran(paper, "mine.toml", "--tidegauge-seed=7", "-rA")
    seeds = [sorted(line for line in each.stdout.lines if line.startswith("ran ")) for each in (result, alone)]
    assert seeds[0] == seeds[1] != []


def test_what_is_wrong_with_a_suite_is_a_sentence(paper: pytest.Pytester) -> None:
    """And an error, not a failure."""
    suite_file(paper.path, STREAM + "tiem = 9", "wrong")
    result = ran(paper, "wrong.toml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*unknown key 'tiem': did you mean 'time'?*"])
    assert "Traceback" not in result.stdout.str()


USER = """
import pytest

@pytest.mark.scenario(workload={"name": "stream", "rate": 100}, time="9s")
@pytest.mark.parametrize("acks", ["1", "all"])
def test_good(scenario, acks):
    result = scenario.run(workload={"name": "stream", "acks": acks})
    assert (result.verdict, result.anomalies, result.cause) == ("valid", {}, "")

@pytest.mark.scenario(workload="stream")
def test_bad(scenario):
    scenario.run()

@pytest.mark.scenario(workload="stream", expect={"anomalies": ["lost-write"]})
def test_bad_and_expected(scenario):
    result = scenario.run()
    assert result.anomalies == {"lost-write": 1}
    assert "INVALID" in str(result) and "report: " in str(result)

@pytest.mark.scenario(workload="stream")
def test_forgets_to_run_it():
    pass

@pytest.mark.scenario(wrokload="stream")
def test_misspelled(scenario):
    scenario.run()
"""


def test_a_test_of_ones_own_runs_the_scenario_of_its_marker(paper: pytest.Pytester) -> None:
    """The marker is known, what was expected decides, and one that runs nothing does not pass."""
    paper.makepyfile(test_mine=USER)
    result = ran(paper, "test_mine.py")
    result.assert_outcomes(passed=3, failed=2, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*has to ask for the fixture 'scenario' and run it*",
            "*FAILED: the verdict is invalid instead of valid*",
            "*unknown key 'wrokload'*did you mean 'workload'*",
        ]
    )
    assert "harness/suite" not in result.stdout.str()


IN_VAIN = """
import pytest

pytestmark = pytest.mark.scenario(workload="stream", cluster={"kind": "local"})

def test_never_runs_it(scenario):
    pass

def test_leaves_before(scenario):
    pytest.skip("nothing to see")

@pytest.mark.xfail(strict=True)
def test_is_known_to_be_in_vain(scenario):
    pass

def test_uses_a_cluster(cluster):
    assert cluster == "a cluster"

def test_uses_taps(tap):
    assert tap == "taps"
"""
FIXTURES_ON_PAPER = """
@pytest.fixture
def cluster():
    return "a cluster"

@pytest.fixture
def tap():
    return "taps"
"""


def test_a_marker_is_for_whoever_looks_at_it(paper: pytest.Pytester) -> None:
    """A test that is given its scenario and never runs it does not pass; one that works with a cluster or taps may."""
    paper.makeconftest(PAPER + FIXTURES_ON_PAPER)
    paper.makepyfile(test_mine=IN_VAIN)
    result = ran(paper, "test_mine.py")
    result.assert_outcomes(passed=2, failed=1, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(["*the test never ran the scenario of its marker: call scenario.run()*"])


FOREIGN = """
import pytest

@pytest.mark.scenario("login", "a user logs in")
def test_with_arguments():
    pass

@pytest.mark.scenario(feature="login")
def test_with_other_keys():
    pass

@pytest.mark.scenario
def test_bare():
    pass

@pytest.mark.scenario(name="login")
def test_with_a_key_that_we_have_too():
    pass
"""


def test_a_marker_of_another_project_is_left_alone(paper: pytest.Pytester) -> None:
    """If it has other keys than ours, or that project declares it; what is ours beyond doubt is ours all the same."""
    paper.makepyfile(test_theirs=FOREIGN)
    ran(paper, "test_theirs.py").assert_outcomes(passed=2, errors=2)
    paper.makefile(".ini", pytest=f"{INI}markers =\n    scenario(name): one of our own\n")
    ran(paper, "test_theirs.py").assert_outcomes(passed=4)
    paper.makepyfile(test_ours='import pytest\n@pytest.mark.scenario(nemesis="kill")\ndef test_it(): pass')
    ran(paper, "test_ours.py").assert_outcomes(errors=1)


def test_the_keys_of_the_marker_are_those_of_a_suites_scenario() -> None:
    """The plugin has a list of its own, since it is loaded by everybody."""
    assert spec.OF_A_FILE | set(spec.OWN) == pytest_plugin.KEYS


@pytest.mark.parametrize("fixture", ["cluster", "tap", "scenario"])
def test_what_this_machine_cannot_do_skips_the_test(
    paper: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, fixture: str
) -> None:
    """Whatever it asks for, with the reason."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{paper.path}/no-such-socket")
    paper.makepyfile(test_mine=f"def test_it({fixture}):\n    {fixture}.run()")
    result = ran(paper, "test_mine.py", "--tidegauge-cluster=docker", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*Docker does not answer at unix://*no-such-socket*"])


def test_a_mistake_about_a_cluster_is_a_sentence(paper: pytest.Pytester) -> None:
    """As one about a scenario is."""
    paper.makepyfile(
        test_mine="import pytest\n@pytest.mark.scenario(cluster={'kidn': 'local'})\ndef test_it(cluster): pass"
    )
    result = ran(paper, "test_mine.py")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*unknown key 'cluster.kidn'*did you mean 'kind'*"])
    assert "harness/suite" not in result.stdout.str()


def test_the_environment_says_what_is_tested_as_for_the_commands(
    paper: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options win; another product is never tested in silence."""
    suite_file(paper.path, STREAM)
    monkeypatch.setenv("TIDEGAUGE_KAFKA_VERSION", "4.1")
    monkeypatch.setenv("TIDEGAUGE_TARGET", "kafka-patient")
    ran(paper, "mine.toml", "-rA").stdout.fnmatch_lines(["on kafka-patient 4.1"])
    result = ran(paper, "mine.toml", "-rA", "--tidegauge-kafka-version=4.2", "--tidegauge-target=kafka")
    result.stdout.fnmatch_lines(["on 4.2"])


def test_the_environment_says_where_a_cluster_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same variables as for `tidegauge suite`; one that is empty says nothing."""
    monkeypatch.setenv("TIDEGAUGE_CLUSTER", "external")
    monkeypatch.setenv("TIDEGAUGE_BOOTSTRAP", "a:1, b:2")
    monkeypatch.setenv("TIDEGAUGE_TARGET", "")
    monkeypatch.delenv("TIDEGAUGE_KAFKA_VERSION", raising=False)
    assert pytest_session.flags_of(None, None, None, None) == {"kind": "external", "bootstrap": ["a:1", "b:2"]}
    assert pytest_session.flags_of("local", None, None, "c:3") == {"kind": "local", "bootstrap": ["c:3"]}


def test_what_cannot_be_ended_is_told_and_fails_no_test(paper: pytest.Pytester) -> None:
    """Nor does it end pytest, not even where all warnings are errors."""
    paper.makeconftest(PAPER.replace('"ResourcePool", PaperPool)', '"ResourcePool", PaperPool)\n' + STUCK))
    result = ran(paper, "mine.toml", "-k", "stream")
    result.assert_outcomes(passed=1, deselected=1)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*could not end what the tests have used: node 2 does not stop: see its log*"])


def test_other_files_are_nobodys_tests(paper: pytest.Pytester) -> None:
    """A suite is collected when it is named, and no other TOML file is."""
    paper.makepyfile(test_other="def test_it(): pass")
    (paper.path / "config.toml").write_text("[[server]]\nname = 'x'\n")
    ran(paper).assert_outcomes(passed=1)
    assert ran(paper, "config.toml").ret == pytest.ExitCode.USAGE_ERROR


def test_whoever_does_not_use_it_does_not_pay_for_it(tmp_path: Path) -> None:
    """Nothing of the harness is loaded but the plugin itself, which is not in it when installed."""
    script = (
        "import sys; import pytest; known = set(sys.modules)\n"
        "import harness.suite.pytest_plugin\n"
        "print(sorted(name for name in set(sys.modules) - known if '.' not in name or name.startswith('harness')))"
    )
    told = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "['harness', 'harness.suite', 'harness.suite.pytest_plugin']"
