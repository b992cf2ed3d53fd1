"""A suite file becomes cases with stable names; what is wrong with it is said before anything starts."""

from pathlib import Path

import pytest

from harness.foundation.errors import UsageError
from harness.suite.spec import case_of, find_suite, load_suite, suites_dir
from tests.support.scripted_suites import STREAM, suite, suite_file

LAYERS = """
title = "layers"
[defaults]
time = "9s"
workload = { acks = "all", probe_rate = 5 }
nemesis = { after = "2s", for = "3s", times = 1 }
[[scenario]]
file = "below.toml"
workload = { rate = 50 }
matrix = { nemesis = ["none", "leader-kill", "isolate:follower", ["kill,pause", "latency"]], client = ["kafka-python"] }
"""
WHEN = "[defaults]\nnemesis = { for = '3s' }\n"  # of faults that scenarios name


def test_the_product_of_a_matrix_has_readable_names(tmp_path: Path) -> None:
    """In the order of the file, the last axis turning fastest."""
    found = suite(
        tmp_path,
        """
        [[scenario]]
        workload = "stream"
        matrix.nemesis = ["none", "leader-kill"]
        matrix.acks = ["1", "all"]
        matrix.idempotence = [false]
        matrix."cluster.netns" = [true]
        """,
    )
    assert [case.name for case in found.cases] == [
        "stream+none+acks-1+no-idempotence+netns",
        "stream+none+acks-all+no-idempotence+netns",
        "stream+leader-kill+acks-1+no-idempotence+netns",
        "stream+leader-kill+acks-all+no-idempotence+netns",
    ]
    assert [case.scenario.settings.acks for case in found.cases] == ["1", "all", "1", "all"]
    assert found.cases[0].scenario.cluster.netns


def test_layers_win_in_order(tmp_path: Path) -> None:
    """Matrix over keys over file over defaults; what is nameless is for whatever is named above it."""
    (tmp_path / "below.toml").write_text(
        'name = "other"\nworkload = { name = "stream", rate = 10, acks = "1" }\ntime = 20'
    )
    calm, kill, isolate, both = suite(tmp_path, LAYERS).cases
    assert (calm.name, both.name) == ("below+none+kafka-python", "below+kill+pause+latency+kafka-python")
    settings = calm.scenario.settings
    assert (settings.acks, settings.probe_rate, settings.client) == ("1", 5, "kafka-python")
    assert calm.scenario.as_file()["workload"]["rate"] == 50
    assert (calm.scenario.time, calm.scenario.nemesis) == (20, ())
    (plan,) = kill.scenario.nemesis
    assert (plan.fault, plan.after, plan.for_, plan.times) == ("leader-kill", 2, 3, 1)
    assert isolate.scenario.nemesis[0].target == "follower"
    assert [each.faults for each in both.scenario.nemesis] == [("kill", "pause"), ("latency",)]


def test_flags_about_the_cluster_win_but_not_over_what_is_tested(tmp_path: Path) -> None:
    """A scenario that is about a version keeps it."""
    text = f'[defaults]\ncluster = {{ version = "4.1" }}\n{STREAM}' + STREAM.replace('"stream"', '"old"', 1).replace(
        "}", '}\ncluster = { version = "3.9" }', 1
    )
    plain, old = suite(tmp_path, text, kind="docker", version="4.2").cases
    assert (plain.scenario.cluster.kind, plain.scenario.cluster.version) == ("docker", "4.2")
    assert (old.scenario.cluster.kind, old.scenario.cluster.version) == ("docker", "3.9")


def test_a_broken_broker_is_expected_to_be_found_out(tmp_path: Path) -> None:
    """Unless the suite says otherwise."""
    broken = '[[scenario]]\nworkload = "stream"\ntap = { broken = ["fetch-hangs"] }\n'
    (case,) = suite(tmp_path, broken).cases
    assert (case.name, case.expect.outcome, case.scenario.expect) == ("stream+fetch-hangs", "invalid", "invalid")
    (case,) = suite(tmp_path, broken + 'expect = "valid"').cases
    assert case.expect.outcome == "valid"


def test_every_try_has_a_seed_of_its_own(tmp_path: Path) -> None:
    """Which follows from the suite's and the case's name, or from what the file says."""
    drawn, pinned = suite(tmp_path, STREAM + STREAM.replace('"stream"', '"pinned"', 1) + "seed = 9").cases
    assert drawn.tried(1, 7) == drawn.tried(1, 7)
    assert len({case.tried(number, 7).seed for case in (drawn, pinned) for number in (1, 2, 3)}) == 6
    assert (pinned.tried(1, 7).seed, pinned.tried(2, 7).seed) == (9, pinned.tried(2, 8).seed)


def test_a_digest_changes_with_the_case_alone(tmp_path: Path) -> None:
    """So that what was changed since is run again, and nothing else."""
    before = suite(tmp_path, STREAM).cases[0].digest
    assert suite(tmp_path, f'title = "other"\n{STREAM}').cases[0].digest == before
    changed = {
        suite(tmp_path, STREAM + more).cases[0].digest for more in ("time = 9", "repeat = 2", 'expect = "unknown"')
    }
    assert len(changed | {before}) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title = 'x'", "the key 'scenario' is missing"),
        ("titel = 'x'\n" + STREAM, "unknown key 'titel'"),
        ("[defaults]\nworklaod = 'stream'\n" + STREAM, "did you mean 'workload'"),
        (STREAM + "tiem = '9s'", "did you mean 'time'"),
        (STREAM + "matrix = { nemesis = 'leader-kill' }", "is no list of values"),
        (STREAM + "matrix = { nemesis = ['leader-kill', { fault = 'leader-kill', for = '2s' }] }", "both be called"),
        (STREAM + "matrix = { client = ['no-such'] }", "scenario stream (stream+no-such)"),
        (STREAM + "matrix = { 'nemesis.for' = ['9s'] }", "there is none"),
        (STREAM + "expect = { anomalies = ['lost-wriet'] }", "did you mean 'lost-write'"),
        (STREAM + "expect = { cause = 'weak-aks' }", "did you mean 'weak-acks'"),
        (STREAM + "expect = 'fine'", "expect"),
        (STREAM + "expect = { at_least = 3 }\nrepeat = 2", "expected in 3 of 2 tries"),
        (STREAM + "file = 'none.toml'", "there is no file"),
        (STREAM + STREAM, "two cases are called 'stream'"),
        (STREAM.replace('"stream"', '"a/b"', 1), "a scenario's name is letters"),
        (STREAM + "nemesis = [{ fualt = 'leader-kill' }]", "unknown key 'nemesis.fualt': did you mean 'fault'"),
        (WHEN + STREAM + "nemesis = [{ fualt = 'leader-kill' }]", "did you mean 'fault'"),
        (STREAM + "nemesis = { fualt = 'kill' }\nmatrix = { nemesis = ['none', 'kill'] }", "did you mean 'fault'"),
        (WHEN.replace("for", "fro") + STREAM, "unknown key 'nemesis.fro': did you mean 'for'"),
        (STREAM + "nemesis = { for = '5s' }", "the key 'nemesis.0.fault' is missing"),
        (WHEN + STREAM + "nemesis = { after = '2s' }", "the key 'nemesis.0.fault' is missing"),
        (STREAM + "matrix = { nemesis = [{ target = 'leader' }] }", "the key 'nemesis.0.fault' is missing"),
        (WHEN + STREAM + "matrix = { nemesis = [{ target = 'leader' }] }", "the key 'nemesis.0.fault' is missing"),
        (
            "[[scenario]]\nworkload = 5\nmatrix = { client = ['kafka-python'] }",
            "'workload' of the scenario is not a table",
        ),
        ("[[scenario]]\nworkload = { name = 5 }", "there is no workload '5'"),
        ("[[scenario]]\nworkload = { name = ['stream'] }", "there is no workload '['stream']'"),
        (STREAM + "matrix = { nemesis = [[['kill', 'pause']]] }", "nested too deeply"),
        (STREAM + "matrix = { nemesis = [[[]]] }", "nested too deeply"),
        (STREAM + "matrix = { client = [2026-01-31] }", "a value of the axis 'client' is a date"),
        ("[defaults]\ncluster = { netns = true }\n" + STREAM + "cluster = { kind = ['docker'] }", "cluster.kind"),
    ],
)
def test_a_mistake_is_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    """With its place and, where one is near, the right name."""
    with pytest.raises(UsageError) as caught:
        suite(tmp_path, text)
    assert said in str(caught.value)
    assert "mine.toml" in str(caught.value) or "none.toml" in str(caught.value)


@pytest.mark.parametrize("plan", ["{ for = '5s' }", "[{ fualt = 'leader-kill' }]"])
def test_a_file_that_names_no_fault_makes_no_case_without_one(tmp_path: Path, plan: str) -> None:
    """`tidegauge run` refuses it, and so does a suite, unless a key beside it names one."""
    (tmp_path / "below.toml").write_text(f"nemesis = {plan}\n")
    with pytest.raises(UsageError, match="fault"):
        suite(tmp_path, WHEN + "[[scenario]]\nfile = 'below.toml'")
    with pytest.raises(UsageError, match="fault"):
        case_of({"file": "below.toml"}, "test_it", {}, tmp_path / "test_x.py")


def test_what_says_only_when_a_fault_comes_is_for_those_that_are_named(tmp_path: Path) -> None:
    """In the scenario itself, too; without any, defaults are for nobody."""
    assert [case.scenario.nemesis for case in suite(tmp_path, WHEN + STREAM).cases] == [()]
    calm, kill = suite(
        tmp_path, STREAM + "nemesis = { for = '4s' }\nmatrix = { nemesis = ['none', 'leader-kill'] }"
    ).cases
    assert (calm.scenario.nemesis, [plan.for_ for plan in kill.scenario.nemesis]) == ((), [4])


def test_a_marker_that_names_no_fault_is_a_mistake(tmp_path: Path) -> None:
    """As in a suite."""
    for plan in ({"fualt": "leader-kill"}, {"for": "5s"}):
        with pytest.raises(UsageError, match="fault"):
            case_of({"workload": "stream", "nemesis": [plan]}, "test_it", {}, tmp_path / "test_x.py")


def test_suites_are_found_by_name_and_by_path(tmp_path: Path) -> None:
    """Whatever we ship can be loaded."""
    assert find_suite("ci") == suites_dir() / "ci.toml"
    with pytest.raises(UsageError, match="did you mean 'nightly'"):
        find_suite("nihgtly")
    assert load_suite(find_suite(str(suite_file(tmp_path, STREAM)))).name == "mine"


@pytest.mark.parametrize("name", sorted(path.stem for path in suites_dir().glob("*.toml")))
def test_what_we_ship_can_be_loaded(name: str) -> None:
    """On every kind of cluster that it can be run on."""
    for kind in ("local", "docker"):
        assert load_suite(find_suite(name), {"kind": kind}).cases


def test_a_scenario_of_a_test_has_no_matrix(tmp_path: Path) -> None:
    """Pytest has a way of its own for that."""
    assert case_of({"workload": "stream"}, "test_it", {}, tmp_path / "test_x.py").name == "test_it"
    with pytest.raises(UsageError, match="parametrize"):
        case_of({"matrix": {"acks": ["1"]}}, "test_it", {}, tmp_path)


def test_all_wrong_scenarios_of_a_suite_are_reported_at_once(tmp_path: Path) -> None:
    """Each with its own mistakes."""
    file = tmp_path / "mine.toml"
    file.write_text('[[scenario]]\nworkload = "streem"\n[[scenario]]\nname = "b"\ntime = "soon"\nseed = -1\n')
    with pytest.raises(UsageError) as caught:
        load_suite(file)
    said = str(caught.value).replace(str(file), "mine.toml").splitlines()
    assert [line.strip() for line in said] == [
        "mine.toml has 2 wrong scenarios:",
        "mine.toml: scenario 1: there is no workload 'streem': did you mean 'stream'?",
        "mine.toml: scenario b has 2 mistakes:",
        "'time' is wrong: 'soon' is not a valid duration: write 500ms, 20s, 2m, 1h or a number of seconds",
        "'seed' cannot be -1: use a whole number from 0 to 9,223,372,036,854,775,807",
    ]
