"""The init process of a local node: exit codes and signals go through it, and what daemonises stays below it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.clusters import node_init
from harness.foundation.processes import TOKEN_VARIABLE, Identity, kill_marked, marked
from tests.support import eventually, kill_tree, unique

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to an ancestor that asks")

Start = Callable[..., subprocess.Popen[str]]

# forks twice, in a session of its own, and then is another program with an empty environment
DAEMON = """
import os, sys
if os.fork():
    os.wait()
    sys.exit(int(sys.argv[2]))
os.setsid()
if os.fork():
    os._exit(0)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
devnull = os.open(os.devnull, os.O_RDWR)
for standard in (0, 1, 2):
    os.dup2(devnull, standard)
os.execve(sys.argv[3], sys.argv[3:], {})
"""
SLEEP = ("/bin/sleep", "600")
# says when it is ready and whether SIGTERM came, by its exit code
OBEDIENT = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts init with a command, as a node is started; whatever is left is ended with the test."""
    token, started = unique("init"), []

    def run(*command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", node_init.__file__, *command],
            env={**os.environ, TOKEN_VARIABLE: token},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        kill_tree(process)
        process.wait()
        if process.stdout:
            process.stdout.close()


def descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Everything below a process."""
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def line(process: subprocess.Popen[str]) -> str:
    """The next line a process prints."""
    assert process.stdout
    return process.stdout.readline().strip()


def daemonised(start: Start, tmp_path: Path, code: int = 0) -> tuple[subprocess.Popen[str], Identity]:
    """A command that left a daemon behind and ended; init and the daemon."""
    file = tmp_path / "daemon"
    process = start(sys.executable, "-c", DAEMON, str(file), str(code), *SLEEP)
    eventually(file.exists, "the daemon runs")
    daemon = Identity.of(int(file.read_text()))
    assert daemon
    return process, daemon


def without_token(daemon: Identity) -> bool:
    """Whether it runs its program, in an environment that is empty."""
    return psutil.Process(daemon.pid).name() == "sleep" and psutil.Process(daemon.pid).environ() == {}


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -KILL $$", 128 + signal.SIGKILL),
        ("kill -TERM $$", 128 + signal.SIGTERM),
        ("kill -SEGV $$", 128 + signal.SIGSEGV),
    ],
)
def test_the_exit_code_is_the_commands_own(start: Start, script: str, code: int) -> None:
    """As a shell would tell it."""
    assert start("sh", "-c", script).wait(30) == code


def test_arguments_environment_and_directory_reach_the_command(start: Start) -> None:
    """It is run as it is, found on PATH, with our output, our token and our directory."""
    process = start("sh", "-c", f'printf "%s|" "$0" "$@" "${TOKEN_VARIABLE}"; pwd -P', "a b", "--", "-c", "")
    *arguments, token, directory = line(process).split("|")
    assert arguments == ["a b", "--", "-c", ""]
    assert token.startswith("init-")
    assert directory == str(Path.cwd().resolve())
    assert process.wait(30) == 0


def test_a_command_that_does_not_exist_is_a_failure(start: Start) -> None:
    """Init does not wait for what never began."""
    process = start("/nowhere/broker")
    assert process.wait(30) not in {0, None}


def test_sigterm_is_passed_on(start: Start) -> None:
    """The command ends in its own way, and its exit code is ours."""
    process = start("sh", "-c", OBEDIENT)
    assert line(process) == "ready"
    process.terminate()
    assert process.wait(30) == 5


def test_a_command_that_minds_no_sigterm_goes_on(start: Start) -> None:
    """Init does not die of what the command survives."""
    process = start("sh", "-c", "trap 'echo no' TERM; echo ready; while :; do sleep 0.05; done")
    assert line(process) == "ready"
    for _ in range(2):
        process.terminate()
        assert line(process) == "no"
    assert process.poll() is None


def test_sigterm_reaches_a_daemon(start: Start, tmp_path: Path) -> None:
    """A node in the background is stopped in good order, too; the command itself had ended well."""
    process, daemon = daemonised(start, tmp_path)
    eventually(lambda: without_token(daemon), "the daemon is itself")
    eventually(lambda: len(descendants(process)) == 1, "only the daemon is left")
    process.terminate()
    assert process.wait(30) == 0
    assert not daemon.alive()


def test_a_daemon_keeps_init_alive_and_below_it(start: Start, tmp_path: Path) -> None:
    """The command has ended, its daemon has neither its session nor its environment, and is found all the same."""
    process, daemon = daemonised(start, tmp_path)
    eventually(lambda: [each.pid for each in descendants(process)] == [daemon.pid], "only the daemon is left")
    assert os.getsid(daemon.pid) != os.getsid(process.pid)
    assert psutil.Process(daemon.pid).ppid() == process.pid
    assert process.poll() is None
    os.kill(daemon.pid, signal.SIGKILL)
    assert process.wait(30) == 0


def test_a_daemon_is_killed_with_its_token(start: Start, tmp_path: Path) -> None:
    """Only init carries the token, and that is enough."""
    process, daemon = daemonised(start, tmp_path)
    eventually(lambda: without_token(daemon), "the daemon is itself")
    eventually(lambda: len(descendants(process)) == 1, "only the daemon is left")
    token = psutil.Process(process.pid).environ()[TOKEN_VARIABLE]
    assert {each.pid for each in marked(token)} == {process.pid, daemon.pid}
    kill_marked(token, gap_s=0)
    assert not daemon.alive()
    assert Identity.of(process.pid) is None
    assert marked(token) == []


@pytest.mark.parametrize("code", [3, 255])
def test_a_failed_command_takes_its_leftovers_with_it(start: Start, tmp_path: Path, code: int) -> None:
    """A node that failed does not run; what it left in the background is of no use."""
    process = start(sys.executable, "-c", DAEMON, str(tmp_path / "daemon"), str(code), *SLEEP)
    assert process.wait(30) == code
    file = tmp_path / "daemon"  # it may have been killed before it wrote itself down
    assert not file.exists() or Identity.of(int(file.read_text())) is None


def test_a_killed_command_takes_all_generations_with_it(start: Start) -> None:
    """Children and their children, which come to init only when their parents die."""
    process = start("sh", "-c", "(sleep 600 & echo $!; wait) & echo $!; wait")
    below = [Identity.of(int(line(process))) for _ in range(2)]
    assert all(below)
    (command,) = psutil.Process(process.pid).children()
    command.kill()
    assert process.wait(30) == 128 + signal.SIGKILL
    assert [each for each in below if each and each.alive()] == []


def test_orphans_leave_no_zombies(start: Start) -> None:
    """Init waits for what it was handed while the command goes on."""
    process = start("sh", "-c", "(sh -c 'echo $$' &); (sh -c 'echo $$' &); echo main; " + OBEDIENT)
    said = [line(process) for _ in range(4)]
    assert {"main", "ready"} <= set(said)
    orphans = [int(each) for each in said if each.isdigit()]
    assert len(orphans) == 2
    eventually(lambda: not any(Path("/proc", str(pid)).exists() for pid in orphans), "they are gone without trace")
    process.terminate()
    assert process.wait(30) == 5


def test_it_needs_nothing_but_the_standard_library() -> None:
    """It is run as a file, isolated, by whatever Python runs the harness."""
    ran = subprocess.run(
        [sys.executable, "-I", "-S", node_init.__file__, "true"],
        capture_output=True,
        cwd="/",
        env={},
        timeout=30,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_elsewhere_it_becomes_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Linux there is nobody to ask for orphans: the command takes our place."""

    class Replaced(Exception):
        """We are the command now."""

    def replace(*how: object) -> None:
        raise Replaced(*how)

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(sys, "argv", ["node_init.py", "broker", "--flag"])
    monkeypatch.setattr(os, "execvp", replace)
    with pytest.raises(Replaced) as caught:
        node_init.main()
    assert caught.value.args == ("broker", ["broker", "--flag"])


def test_the_node_starts_as_if_init_were_not_there(start: Start) -> None:
    """No signal is ignored or blocked that was not before."""
    ask = ("grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status")
    before = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    process = start(*ask)
    assert process.stdout
    assert masks(process.stdout.read()) == masks(before)


def masks(status: str) -> list[int]:
    """Of signals; 32 and 33 are the C library's own."""
    found = [int(text.split()[1], 16) & 0x7FFFFFFF for text in status.splitlines()]
    assert len(found) == 2
    return found
