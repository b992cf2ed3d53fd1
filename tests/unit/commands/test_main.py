"""The command line: every way it can end is one of the exit codes."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer

import harness
from checkers.core.results import CheckResults
from harness.clusters import detached
from harness.clusters.cleanup.heal import Healed
from harness.clusters.spec import ClusterSpec
from harness.commands import main as cli
from harness.foundation.errors import CannotHere, Exit, NodeDied
from harness.history.store import Run as StoredRun
from harness.history.store import create, runs
from harness.judging.checking import Checked
from harness.judging.policies import RunFacts
from harness.judging.verdict import decide
from harness.runs.machine import MachineCheck
from harness.runs.replay import Replay
from harness.runs.scenario import Scenario, load, to_toml
from harness.runs.shared_resources import SharedResources
from nemesis.schedule import Slot
from tests.support import cli as run_process
from tests.support.strange_broker import strange_brokers

Run = Callable[..., tuple[int, str, str]]
COMMANDS = [
    [],
    ["demo"],
    ["doctor"],
    ["heal"],
    ["cluster"],
    ["cluster", "up"],
    ["cluster", "down"],
    ["cluster", "status"],
    ["cluster", "logs"],
    ["image"],
    ["image", "build"],
    ["run"],
    ["new"],
    ["check"],
    ["import"],
    ["export"],
    ["report"],
    ["store"],
    ["compare"],
    ["investigate"],
    ["explore"],
    ["suite"],
    ["tap"],
    ["list"],
]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state_home: Path) -> Run:
    """The command in this process: exit code, standard output, standard error."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tidegauge", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out, said.err

    return command


def failing(error: BaseException) -> Callable[..., NoReturn]:
    """A function that only fails."""

    def fail(*_: Any, **__: Any) -> NoReturn:
        raise error

    return fail


def test_every_command_is_tested() -> None:
    """The list above is complete."""

    def below(command: Any, path: list[str]) -> list[list[str]]:
        found = [path]
        for name, each in getattr(command, "commands", {}).items():
            found += below(each, [*path, name])
        return found

    assert sorted(below(typer.main.get_command(cli.app), [])) == sorted(COMMANDS)


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help(run: Run, command: list[str], flag: str) -> None:
    """Every command explains itself, with both spellings."""
    code, out, err = run(*command, flag)
    assert (code, err) == (Exit.VALID, "")
    assert " ".join(["tidegauge", *command]) in " ".join(out.split())


HELP = """
import sys
from typer.testing import CliRunner
from harness.commands.main import app

for command in sys.argv[1:]:
    assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0
print(*{each.partition(".")[0] for each in sys.modules})
"""


@pytest.mark.parametrize(
    ("listing_kinds", "slow"),
    [
        (False, {"polars", "pyspark", "numpy", "pyarrow", "jinja2", "docker", "kafka", "requests", "urllib3"}),
        (True, {"polars", "pyspark", "numpy", "pyarrow", "jinja2"}),
    ],
)
def test_help_does_not_wait_for_slow_imports(listing_kinds: bool, slow: set[str]) -> None:  # noqa: FBT001
    """Nobody needs those to read; kinds of clusters load their libraries where they are listed."""
    listed = [["demo"], ["cluster", "up"], ["doctor"], ["run"], ["investigate"], ["explore"], ["suite"]]
    chosen = [" ".join(command) for command in COMMANDS if (command in listed) == listing_kinds]
    loaded = subprocess.run([sys.executable, "-c", HELP, *chosen], capture_output=True, text=True, check=True)
    assert slow & set(loaded.stdout.split()) == set()


def test_help_names_the_exit_codes(run: Run) -> None:
    """All seven, at the top."""
    text = " ".join(run("--help")[1].split())
    assert "Exit codes: " in text
    assert "tidegauge run -n leader-kill --dry-run" in text
    assert [name in text for name in ("Start here", "Test more", "Look at runs", "Clusters")] == [True] * 4
    assert all(f"{int(code)} " in text.partition("Exit codes: ")[2] for code in Exit)


def test_version(run: Run) -> None:
    """One line."""
    assert run("--version") == (Exit.VALID, f"tidegauge {harness.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nope"],
        ["frob"],
        ["cluster", "frob"],
        ["cluster", "up", "--nope"],
        ["cluster", "up", "--cluster", "cloud"],
        ["cluster", "up", "--sasl", "GSSAPI"],
        ["demo", "--cluster", "external"],
        ["demo", "--cluster", "cloud"],
        ["cluster", "up", "--ports"],
        ["cluster", "logs", "-n", "0"],
        ["cluster", "logs", "-n", "many"],
        ["cluster", "down", "a", "b"],
        ["doctor", "extra"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_a_usage_error(run: Run, arguments: list[str]) -> None:
    """Whatever is misspelled, missing or too much: exit code 4, and words on standard error."""
    code, out, err = run(*arguments)
    assert code == Exit.USAGE
    assert err
    assert "Traceback" not in err
    assert out == ""


def test_a_wrong_command_line_in_a_process_of_its_own(tmp_path: Path) -> None:
    """The same from the outside: no traceback, and not the exit code of an invalid history."""
    ran = run_process("cluster", "up", "--nope", XDG_STATE_HOME=str(tmp_path))
    assert ran.returncode == Exit.USAGE
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("cluster up --ports one", "'ports.0' cannot be 'one'"),
        ("cluster up --ports 80,81,82", "80 is not a port brokers can use"),
        ("cluster up --bootstrap h:1", "--bootstrap does not apply to --cluster local"),
        ("cluster up --cluster docker --netns", "--netns does not apply to --cluster docker"),
        ("cluster up --tls", "TLS and SASL flags do not apply"),
        ("image build --kafka-version four", "'four' is not a version"),
        ("cluster down", "no cluster is up"),
        ("cluster down nope", "there is no cluster 'nope'"),
        ("cluster status nope", "there is no cluster 'nope'"),
        ("cluster logs", "no cluster is up"),
    ],
)
def test_what_was_asked_for_wrongly_is_a_usage_error(run: Run, arguments: str, said: str, state_home: Path) -> None:
    """Exit code 4, one sentence, and nothing was started."""
    code, out, err = run(*arguments.split())
    assert (code, out) == (Exit.USAGE, "")
    assert err.startswith("error  ")
    assert said in err
    assert not state_home.exists()


def test_no_cluster_is_no_error_where_all_are_meant(run: Run) -> None:
    """Status and `down --all` of nothing are fine."""
    assert json.loads(run("cluster", "status", "--json")[1]) == []
    assert run("cluster", "status")[:2] == (Exit.VALID, "no cluster is up\n")
    assert json.loads(run("cluster", "down", "--all", "--json")[1]) == {"removed": []}


def test_all_are_those_that_cluster_up_left(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`down --all` takes no cluster from a program that uses it; naming one says whose it is."""
    clusters = [
        detached.Detached(tmp_path / name, {"held_by_tidegauge": ours, "harness_pid": 7})
        for name, ours in (("a", True), ("b", False), ("c", True))
    ]
    taken: list[str] = []
    monkeypatch.setattr(detached, "running", lambda: clusters)
    with monkeypatch.context() as patch:
        patch.setattr(detached, "take_down", lambda cluster: taken.append(cluster.name))
        code, out, _ = run("cluster", "down", "--all", "--json")
    assert (code, json.loads(out), taken) == (Exit.VALID, {"removed": ["a", "c"]}, ["a", "c"])
    code, out, err = run("cluster", "down", "b")
    assert (code, out) == (Exit.USAGE, "")
    assert "b belongs to the program with pid 7" in err


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    """A run whose history was empty."""
    results = CheckResults()
    return Checked(StoredRun(tmp_path), {"seed": 5}, results, decide(results, RunFacts()))


Asked = list[tuple[Scenario, Replay | None]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, checked: Checked) -> Asked:
    """The runs that commands asked for, none of which is made."""
    runs: Asked = []

    def pretend(scenario: Scenario, *given: Any, **_: Any) -> Checked:
        tell, *replayed = given[3:]
        runs.append((scenario, replayed[0] if replayed else None))
        tell(checked)
        return checked

    monkeypatch.setattr("harness.runs.runner.run_scenario", pretend)
    monkeypatch.setattr("harness.runs.shared_resources.sharing", lambda *_: nullcontext(SharedResources()))
    return runs


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_the_demo_runs_on_our_own_clusters(run: Run, monkeypatch: pytest.MonkeyPatch, asked: Asked, kind: str) -> None:
    """Of both kinds; it is the notes' test twice, and is not fine unless both end as they have to."""
    monkeypatch.setattr(ClusterSpec, "with_image", lambda self, *_: self)
    code, out, _ = run("demo", "--cluster", kind, "--json")
    assert (code, [each["verdict"] for each in json.loads(out)]) == (Exit.UNKNOWN, ["unknown", "unknown"])
    assert [(scenario.cluster.kind, scenario.title) for scenario, _ in asked] == [
        (kind, "large-batch+leader-move"),
        (kind, "large-batch+metadata-lists-self-only"),
    ]


def test_a_run_is_what_the_flags_say(run: Run, monkeypatch: pytest.MonkeyPatch, asked: Asked) -> None:
    """The command line wins over the environment; settings of both are used."""
    monkeypatch.setenv("TIDEGAUGE_TIME", "40")
    monkeypatch.setenv("TIDEGAUGE_SEED", "9")
    monkeypatch.setenv("TIDEGAUGE_SET", "rate=7 acks=1")
    code, _, err = run("run", "-w", "stream", "-n", "leader-kill", "--time", "60", "--set", "acks=all")
    assert code == Exit.UNKNOWN
    assert "stream · leader-kill" in err
    ((scenario, replay),) = asked
    assert replay is None
    assert (scenario.time, scenario.seed, scenario.settings.acks) == (60.0, 9, "all")
    assert scenario.settings.model_dump()["rate"] == 7


def test_quiet_shows_the_verdict_only(run: Run, asked: Asked) -> None:
    """One line on standard output, and nothing on standard error."""
    code, out, err = run("run", "--quiet")
    assert (code, err) == (Exit.UNKNOWN, "")
    assert [line.split()[0] for line in out.splitlines()] == ["UNKNOWN"]
    assert len(run("run", "-v")[1].splitlines()) > 1


@pytest.mark.parametrize("command", ["run", "demo", "check latest", "suite ci"])
def test_quiet_and_verbose_contradict_each_other(run: Run, asked: Asked, recorded: StoredRun, command: str) -> None:
    """Neither of them silently wins."""
    code, out, err = run(*command.split(), "-q", "-v", "--store", str(recorded.path.parents[1]))
    assert (code, out, asked) == (Exit.USAGE, "", [])
    assert "--quiet and --verbose contradict each other" in err


def test_a_dry_run_starts_nothing(run: Run, asked: Asked, tmp_path: Path) -> None:
    """It shows the cluster, the load, the faults and the time; what could not be run is refused."""
    store = str(tmp_path / "store")
    given = ["run", "-w", "stream", "-n", "leader-kill", "-t", "40", "--seed", "7", "--dry-run", "--store", store]
    code, out, err = run(*given)
    assert (code, err, asked) == (Exit.VALID, "", [])
    assert [line.split(maxsplit=1) for line in out.splitlines()][:5] == [
        ["cluster", "kafka 4.3.1, 3 nodes, local"],
        ["load", "stream for 40 s, confluent-kafka, acks=all"],
        ["faults", "5 s to 15 s: leader-kill, leader"],
        ["seed", "7"],
        ["takes", "about 67 s"],
    ]
    plan = json.loads(run(*given, "--json")[1])
    assert (plan["expected_s"], [slot["fault"] for slot in plan["schedule"]]) == (67.0, ["leader-kill"])
    code, out, err = run("run", "-n", "leader-kill", "--time", "3", "--dry-run")
    assert (code, out) == (Exit.USAGE, "")
    assert not (tmp_path / "store").exists()


def test_a_run_of_nothing_in_particular_says_what_it_is(run: Run, asked: Asked) -> None:
    """And how to get another one; whoever names something gets no advice."""
    assert "no scenario given: large-batch against Apache Kafka, without faults" in run("run")[2]
    assert "no scenario given" not in run("run", "-w", "stream")[2]
    assert [scenario.title for scenario, _ in asked] == ["large-batch", "stream"]


@pytest.mark.parametrize(("shell", "said"), [("bash", "complete"), ("zsh", "#compdef tidegauge"), ("fish", "complete")])
def test_completion_can_be_installed(tmp_path: Path, shell: str, said: str) -> None:
    """For the three shells; what is installed completes commands."""
    home = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert run_process("--install-completion", shell, **home).returncode == Exit.VALID
    installed = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(said in text for text in installed)


def test_commands_are_completed(tmp_path: Path) -> None:
    """As bash asks for it."""
    words = {"_TIDEGAUGE_COMPLETE": "complete_bash", "COMP_WORDS": "tidegauge ru", "COMP_CWORD": "1"}
    script = "import sys; sys.argv = ['tidegauge']; from harness.commands.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **words}, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.split()) == (Exit.VALID, ["run"])


@pytest.fixture
def recorded(tmp_path: Path) -> StoredRun:
    """A run with one fault, which nobody would draw again."""
    found = create(tmp_path / "store", "stream+leader-move")
    slot = Slot(1, "leader-move", "leader", 3.25, 7.5, 42, {}, 0)
    found.update(schedule=[vars(slot)])
    scenario = load(None, {"workload": "stream", "nemesis": "leader-move", "time": "20", "seed": 6}, ["rate=7"])
    (found.path / "scenario.toml").write_text(to_toml(scenario.as_file()))
    return found


@pytest.mark.parametrize("name", ["latest", "stream+leader-move", "PATH"])
def test_a_run_is_repeated_with_exactly_its_faults(run: Run, asked: Asked, recorded: StoredRun, name: str) -> None:
    """Its scenario with flags over it, and the slots as they are in its run.json."""
    store = str(recorded.path.parents[1])
    named = str(recorded.path) if name == "PATH" else name
    code, _, err = run("run", "--replay", named, "--store", store, "--time", "30", "--set", "acks=1")
    assert (code, "stream · leader-move" in err) == (Exit.UNKNOWN, True)
    ((scenario, replay),) = asked
    assert replay == Replay(recorded.path.resolve(), (Slot(1, "leader-move", "leader", 3.25, 7.5, 42, {}, 0),))
    assert (scenario.seed, scenario.time, scenario.settings.acks) == (6, 30.0, "1")
    assert scenario.settings.model_dump()["rate"] == 7


@pytest.mark.parametrize(
    "more",
    [
        ["--nemesis", "leader-kill"],
        ["notes"],
        ["--set", "nemesis.for=3s"],
    ],
)
def test_a_replay_takes_its_faults_from_nowhere_else(
    run: Run, asked: Asked, recorded: StoredRun, more: list[str]
) -> None:
    """Neither from a flag nor from a file."""
    code, out, err = run("run", "--replay", "latest", "--store", str(recorded.path.parents[1]), *more)
    assert (code, out, asked) == (Exit.USAGE, "", [])
    assert "--replay takes the scenario and the faults from a run" in err


def test_a_replay_of_nothing_is_refused(run: Run, asked: Asked) -> None:
    """`--replay "$RUN"`, and RUN is empty: that is no wish for a run with defaults."""
    code, out, err = run("run", "--replay", "")
    assert (code, out, asked) == (Exit.USAGE, "", [])
    assert "--replay names no run" in err


def test_a_replay_that_does_not_fit_its_time_is_refused(run: Run, recorded: StoredRun) -> None:
    """Before anything is made: a fault that was left out would make another run of it."""
    store = recorded.path.parents[1]
    code, out, err = run("run", "--replay", "latest", "--store", str(store), "--time", "7")
    assert (code, out) == (Exit.USAGE, "")
    assert "end 7.5 s into the load, which lasts 7 s: let it last 7.5 s or more" in " ".join(err.split())
    assert [each.path for each in runs(store)] == [recorded.path]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ("{", "cannot be read"),
        ('{"seed": 5}', "has no schedule that could be repeated"),
        ('{"schedule": [{"number": 1, "fault": "leader-move"}]}', "schedule.0.target: Field required"),
        ('{"schedule": 5}', "has a schedule that cannot be repeated"),
        (
            '{"schedule": [{"number": 1, "fault": "x", "target": "", "start_s": 5, "end_s": 4, "seed": 1}]}',
            "times or numbers of its schedule contradict each other",
        ),
        (
            '{"schedule": [{"number": 1, "fault": "x", "target": "", "start_s": 5, "end_s": 6, "seed": 1}]}',
            "there is no nemesis 'x'",
        ),
        (
            '{"schedule": [{"number":1,"fault":"latency","target":"", "start_s":5,"end_s":6,"seed":1,"options":5}]}',
            "schedule.0.options",
        ),
    ],
)
def test_a_damaged_run_cannot_be_repeated(run: Run, asked: Asked, recorded: StoredRun, facts: str, said: str) -> None:
    """One sentence says why."""
    (recorded.path / "run.json").write_text(facts)
    code, out, err = run("run", "--replay", str(recorded.path))
    assert (code, out, asked) == (Exit.USAGE, "", [])
    assert said in " ".join(err.split())
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--workload", "straem"),
        ("run", "--nemesis", "leader-move,leader-kil"),
        ("run", "--nemesis", "leader-kill:moon"),
        ("run", "--nemesis", "leader-kill:"),
        ("run", "--nemesis", ","),
        ("run", "--nemesis", "leader-kill", "--set", "nemesis.rate=5"),
        ("run", "--replay", "nowhere"),
        ("run", "--nemesis", "leader-kil"),
        ("run", "--set", "akcs=all"),
        ("run", "--time", "soon"),
        ("run", "--nemesis", "leader-kill", "--time", "3"),
        ("run", "nowhere.toml"),
        ("run", "--cluster", "external"),
        ("check", "nowhere"),
        ("list", "nonsense"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(run: Run, arguments: tuple[str, ...], tmp_path: Path) -> None:
    """With the exit code for usage, a sentence, and nothing in the store."""
    code, out, err = run(*arguments, "--store", str(tmp_path / "store"))
    assert (code, out) == (Exit.USAGE, "")
    assert err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("what", ["workloads", "nemeses", "checkers", "scenarios", "runs"])
def test_lists(run: Run, what: str, tmp_path: Path) -> None:
    """As a table and as JSON."""
    code, out, _ = run("list", what, "--store", str(tmp_path))
    assert code == Exit.VALID
    assert out
    code, out, _ = run("list", what, "--store", str(tmp_path), "--json")
    assert isinstance(json.loads(out), list)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (NodeDied("node 1 died", "see below", ("[last] words",)), Exit.HARNESS_ERROR, "│ [last] words"),
        (CannotHere("no", "go elsewhere"), Exit.CANNOT_HERE, "no: go elsewhere"),
        (OSError(errno.ENOSPC, "full", "/x"), Exit.CANNOT_HERE, "the disk is full"),
        (PermissionError(errno.EACCES, "no", "/x"), Exit.CANNOT_HERE, "not permitted"),
        (OSError(errno.EIO, "broken"), Exit.HARNESS_ERROR, "failed: broken"),
        (KeyboardInterrupt(), Exit.INTERRUPTED, "stopped by the user"),
        pytest.param(typer.Abort(), Exit.INTERRUPTED, "stopped by the user"),
        pytest.param(
            ValueError("odd"),
            Exit.HARNESS_ERROR,
            "odd",
        ),
    ],
)
def test_every_error_ends_with_its_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: Exit, said: str
) -> None:
    """On standard error, while standard output stays empty for whoever parses it."""
    monkeypatch.setattr("harness.runs.shared_resources.sharing", failing(error))
    ended, out, err = run("demo", "--json")
    assert (ended, out) == (code, "")
    assert said in err


def test_a_reader_that_went_away(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tidegauge ... | head` ends without a word."""
    monkeypatch.setattr("harness.runs.machine.examine", failing(BrokenPipeError()))
    assert run("doctor") == (Exit.HARNESS_ERROR, "", "")


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        (Healed(), Exit.VALID, "nothing was left behind\n"),
        (Healed(undone=["x: a link was removed"]), Exit.VALID, "x: a link was removed\n"),
        (Healed(left=["x: a mount"], alive=["y"]), Exit.HARNESS_ERROR, "could not be undone: x: a mount\ny is in use"),
    ],
)
def test_heal_says_what_was_left(
    run: Run, monkeypatch: pytest.MonkeyPatch, found: Healed, code: Exit, said: str
) -> None:
    """In sentences and as JSON; what is still there is an error."""
    monkeypatch.setattr("harness.clusters.cleanup.heal.heal", lambda: found)
    ended, out, err = run("heal")
    assert (ended, err) == (code, "")
    assert out.startswith(said)
    ended, out, _ = run("heal", "--json")
    assert (ended, json.loads(out)) == (code, {"undone": found.undone, "left": found.left, "alive": found.alive})


@pytest.mark.parametrize(("needed", "code"), [(True, Exit.CANNOT_HERE), (False, Exit.VALID)])
def test_the_doctor_ends_with_a_verdict(run: Run, monkeypatch: pytest.MonkeyPatch, needed: bool, code: Exit) -> None:  # noqa: FBT001
    """6 when local clusters lack something, 0 when only other things are missing."""
    check = MachineCheck("x", ok=False, found="y", costs="z", remedy="w", needed_for_local=needed)
    monkeypatch.setattr("harness.runs.machine.examine", lambda: [check])
    monkeypatch.setattr("harness.runs.machine.examine_faults", list)
    ended, out, _ = run("doctor", "--json")
    assert (ended, json.loads(out)) == (code, [check.as_json()])


def test_the_doctor_shows_what_a_product_can_do(run: Run) -> None:
    """A line for each admin request, what it is needed for where nobody does it, and how making a topic went."""
    with strange_brokers(refuse_creation=frozenset({1, 2}), no_controller=True) as brokers:
        code, out, _ = run("doctor", "--bootstrap", brokers.nodes[0].address)
        assert code == Exit.VALID
        assert "✓ Metadata                    yes\n" in out
        assert "✗ ElectLeaders                not offered\n" in out
        assert "needed for: faults that move leaders\n" in out
        assert "made as asked for, and deleted" in out
        assert "node 3 knows of no controller" in out
        code, out, _ = run("doctor", "--bootstrap", brokers.nodes[0].address, "--json")
        assert json.loads(out)["calls"]["CreateTopics"]["1"] == {"works": False, "detail": "NOT_CONTROLLER"}
        assert not brokers.topics
