"""Scenarios: what overrides what, short forms, mistakes as sentences, and a file that repeats the run."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.spec import ClusterSpec
from harness.foundation.errors import UsageError
from harness.runs.scenario import SHIPPED, Scenario, derived_seed, find, json_schema, load, to_toml

ROOT = Path(__file__).parents[3]
SCENARIO = """
workload = { name = "stream", rate = 5000, partitions = 6, acks = "all", client = "confluent-kafka" }
nemesis  = [{ fault = "leader-kill", every = "20s", for = "8s" }]
cluster  = { kind = "docker", kafka_version = "4.3.1" }
time     = "2m"
expect   = "valid"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A scenario file."""
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


def test_a_file_is_a_scenario(file: Path) -> None:
    """Every key gets where it belongs."""
    scenario = load(file, {})
    assert (scenario.workload, scenario.settings.partitions, scenario.settings.acks) == ("stream", 6, "all")
    assert (scenario.time, scenario.cluster.kind, scenario.cluster.version) == (120.0, "docker", "4.3.1")
    assert (scenario.nemesis[0].fault, scenario.nemesis[0].every, scenario.nemesis[0].for_) == (
        "leader-kill",
        20.0,
        8.0,
    )
    assert scenario.title == "stream+leader-kill"


def test_flags_win_over_the_file_and_settings_over_both(file: Path) -> None:
    """What is not said again stays as the file has it."""
    scenario = load(file, {"cluster": {"kind": "local"}, "time": "45", "seed": 7}, ["acks=1", "nemesis.for=5s"])
    assert (scenario.cluster.kind, scenario.time, scenario.seed) == ("local", 45.0, 7)
    assert (scenario.settings.acks, scenario.settings.partitions) == ("1", 6)
    assert scenario.nemesis[0].for_ == 5.0


def test_another_workload_takes_no_settings_from_the_files(file: Path) -> None:
    """Its settings belong to the workload that the file names."""
    scenario = load(file, {"workload": "large-batch"})
    assert (scenario.workload, scenario.settings.partitions) == ("large-batch", 3)


def test_without_anything_it_is_the_test_of_the_notes() -> None:
    """5,000 messages, acks=1, three partitions."""
    scenario = load(None, {})
    settings = scenario.settings.model_dump()
    assert scenario.title == "large-batch"
    assert (settings["messages"], settings["acks"], settings["partitions"]) == (5000, "1", 3)
    assert (settings["consumer_timeout_ms"], settings["max_poll_records"]) == (60_000, 500)


def test_short_forms() -> None:
    """A name stands for a table, and one fault for a list."""
    scenario = load(None, {"workload": "stream", "nemesis": "leader-move", "cluster": "docker", "time": "1m"})
    assert (scenario.workload, scenario.cluster.kind, [plan.fault for plan in scenario.nemesis]) == (
        "stream",
        "docker",
        ["leader-move"],
    )


@pytest.mark.parametrize(
    ("short", "fault", "target"),
    [
        ("leader-kill", "leader-kill", ""),
        ("isolate:follower", "isolate", "follower"),
        ("kill,pause", ("kill", "pause"), ""),
        ("kill, pause:leader", ("kill", "pause"), "leader"),
        ("random", "random", ""),
    ],
)
def test_short_forms_of_faults(short: str, fault: Any, target: str) -> None:
    """The same on the command line and in a file; settings apply to each."""
    scenario = load(None, {"nemesis": ["leader-move", short]}, ["nemesis.for=2s"])
    assert [(plan.fault, plan.target, plan.for_) for plan in scenario.nemesis] == [
        ("leader-move", "", 2.0),
        (fault, target, 2.0),
    ]


@pytest.mark.parametrize(
    ("written", "flags", "left"),
    [
        ('kind = "local", netns = true, version = "4.1.1"', {"kind": "docker"}, {"version": "4.1.1"}),
        ('netns = true, version = "4.1.1"', {"kind": "external", "bootstrap": ["h:1"]}, {"bootstrap": ("h:1",)}),
        ('kind = "docker", image = "own"', {"kind": "local"}, {}),
        ('kind = "external", bootstrap = ["h:1"], tls = true', {"kind": "local"}, {}),
        (
            'kind = "docker", image = "own"',
            {"kind": "docker", "version": "4.1.1"},
            {"image": "own", "version": "4.1.1"},
        ),
        ("netns = true", {"kind": "local"}, {"netns": True}),
    ],
)
def test_a_cluster_of_another_kind_takes_what_it_can_be_told(
    tmp_path: Path, written: str, flags: dict[str, Any], left: dict[str, Any]
) -> None:
    """A run on one kind of cluster can be repeated on another."""
    file = tmp_path / "there.toml"
    file.write_text(f"cluster = {{ {written} }}")
    cluster = load(file, {"cluster": flags}).cluster
    assert cluster == ClusterSpec(kind=flags["kind"], **left)


def test_what_another_kind_cannot_be_told_is_refused_beside_it(tmp_path: Path) -> None:
    """Who says both means both."""
    file = tmp_path / "there.toml"
    file.write_text("cluster = { netns = true }")
    with pytest.raises(UsageError, match="--netns does not apply to --cluster docker"):
        load(file, {"cluster": {"kind": "docker", "netns": True}})


def test_schedules_are_written_down_and_read_again(tmp_path: Path) -> None:
    """Lists, ranges and mixes."""
    file = tmp_path / "mixed.toml"
    file.write_text(
        'nemesis = [{ fault = ["kill", "pause"], quiet = ["3s", "10s"], for = ["2s", "8s"] },'
        ' { fault = "leader-move", at = ["5s", "20s"], for = "1s" }]'
    )
    scenario = load(file, {})
    first, second = scenario.nemesis
    assert (first.faults, first.quiet, first.for_) == (("kill", "pause"), (3.0, 10.0), (2.0, 8.0))
    assert (second.at, second.for_) == ((5.0, 20.0), 1.0)
    assert scenario.title == "large-batch+kill+pause+leader-move"
    again = tmp_path / "again.toml"
    again.write_text(to_toml(scenario.as_file()))
    assert load(again, {}) == scenario


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nemesis = 'isolate:'", "names no role"),
        ("nemesis = [{ fault = 'kill', at = ['5s'], every = '9s' }]", "'at' and 'every' of 'kill' do not go together"),
        ("wrokload = 'stream'", "did you mean 'workload'?"),
        ("workload = { name = 'stream', rat = 5 }", "did you mean 'rate'?"),
        ("workload = 'straem'", "did you mean 'stream'?"),
        ("nemesis = [{ fault = 'leader-kill', evry = 5 }]", "did you mean 'every'?"),
        ("cluster = { kid = 'docker' }", "did you mean 'kind'?"),
        ("time = 'soon'", "time"),
        ("time = 0", "time"),
        ("workload = { name = 'stream', acks = 'some' }", "acks"),
        ("workload = 5", "workload"),
        ("seed = -1", "seed"),
        ("expect = 'wonders'", "expect"),
        ("name = '../../etc'", "name"),
        ("settings = {}", "settings"),
        ("workload = [", "TOML"),
    ],
)
def test_a_mistake_is_a_sentence(tmp_path: Path, text: str, expected: str) -> None:
    """It names the place and, where one is near, the right word; nothing is started."""
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(path, {})
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("acks", "key=value"),
        ("=all", "key=value"),
        ("akcs=all", "did you mean 'acks'?"),
        ("nemesis.every=5", "add --nemesis"),
        ("clutser.netns=true", "did you mean 'cluster'?"),
    ],
)
def test_a_wrong_setting_is_a_sentence(text: str, expected: str) -> None:
    """The same on the command line."""
    with pytest.raises(UsageError) as caught:
        load(None, {}, [text])
    assert expected in str(caught.value)


def test_settings_are_read_as_toml_reads_them() -> None:
    """Numbers, booleans and lists, and bare words as texts."""
    scenario = load(None, {}, ["messages=10", "idempotence=true", "acks=all", 'bootstrap=["h:1", "h:2"]'])
    settings = scenario.settings.model_dump()
    assert (settings["messages"], settings["idempotence"], settings["acks"]) == (10, True, "all")
    assert list(settings["bootstrap"]) == ["h:1", "h:2"]


def test_what_a_run_stores_repeats_it(file: Path, tmp_path: Path) -> None:
    """The scenario file in the run's directory gives the same scenario again."""
    scenario = load(file, {"seed": 7}, ["acks=1", "rotate=2s"])
    stored = tmp_path / "stored.toml"
    stored.write_text(to_toml(scenario.as_file()))
    assert load(stored, {}) == scenario


def test_toml_that_we_write_is_toml() -> None:
    """Whatever texts it holds."""
    data = {"a": 'quote " and \\ and \n', "b": [1, 2.5, True], "c": {"d e": {"f": "ü"}, "g": []}}
    assert tomllib.loads(to_toml(data)) == data


def test_seeds_differ_by_part_and_by_seed_and_by_nothing_else() -> None:
    """One more producer does not change what the first one does."""
    assert derived_seed(7, "producer", 0) == derived_seed(7, "producer", 0)
    assert len({derived_seed(7, "producer", 0), derived_seed(7, "producer", 1), derived_seed(8, "producer", 0)}) == 3
    assert all(0 <= derived_seed(seed, "x") < 2**63 for seed in range(100))


def test_a_new_seed_is_chosen_unless_one_is_given() -> None:
    """So that runs differ, and can be repeated."""
    assert load(None, {}).seed != load(None, {}).seed
    assert load(None, {"seed": 3}).seed == 3


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_scenarios_that_we_ship_are_right(path: Path) -> None:
    """They load, are found by name, and say in their first line what they are."""
    assert isinstance(load(find(path.stem), {}), Scenario)
    assert path.read_text().startswith("# ")


def test_an_unknown_scenario_name_gets_a_suggestion() -> None:
    """As everywhere."""
    with pytest.raises(UsageError, match="did you mean 'leader-kill'"):
        find("leader-kil")


def test_the_published_schema_is_the_current_one() -> None:
    """docs/scenario.schema.json is what the code says; `make schema` writes it anew."""
    assert json.loads((ROOT / "docs" / "scenario.schema.json").read_text()) == json.loads(json.dumps(json_schema()))


def test_what_the_taps_do_is_written_down_and_read_again(tmp_path: Path) -> None:
    """A run's own file repeats its rules and its broken brokers."""
    file = tmp_path / "bent.toml"
    file.write_text(
        '[tap]\nbroken = ["watermark-frozen:300"]\n[[tap.rule]]\nname = "lost acks"\napi = "Produce"\nevery = 3\n'
        'action = "drop-response"\nthen = "close"\nafter = "2s"\n'
    )
    scenario = load(file, {"tap": {"broken": ["flips-bits"]}})
    assert scenario.tap.broken == ("flips-bits",)
    assert (scenario.title, scenario.expect) == ("large-batch+flips-bits", "invalid")
    (rule,) = scenario.tap.rule
    assert (rule.title, rule.every, rule.after) == ("lost acks", 3, 2.0)
    again = tmp_path / "again.toml"
    again.write_text(to_toml(scenario.as_file()))
    assert load(again, {}) == scenario


@pytest.mark.parametrize(
    ("tap", "said"),
    [
        ({"broken": ["watermark-frozn"]}, "watermark-frozen"),
        ({"on": False, "broken": ["flips-bits"]}, "turn taps on"),
        ({"rule": [{"api": "Produce", "action": "drop-respons"}]}, "drop-response"),
        ({"brokn": []}, "broken"),
    ],
)
def test_what_taps_cannot_do_is_refused(tap: dict[str, Any], said: str) -> None:
    """Before anything starts, with what was probably meant."""
    with pytest.raises(UsageError) as refused:
        load(None, {"tap": tap})
    assert said in f"{refused.value}"
