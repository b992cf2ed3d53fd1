"""Into the network namespace of a node, and out again: where it is, how a script gets there, and what has to be undone.

A place is known by more than a name that can be used again: the file of a namespace, or a container together with the
sandbox that its network has until it stops. Where that is gone, everything that was done to the network is gone, too.
Only the namespaces of our own nodes are ever entered; the tables of the host are never touched.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from harness.foundation.processes import TOKEN_VARIABLE

SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
COMPOSE_PROJECT_LABEL = "com.docker.compose.project"
SCRIPT_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Namespace:
    """A network namespace that has a file on this machine."""

    namespace: str

    def exists(self, timeout_s: float = 0) -> bool:  # noqa: ARG002 - a sidecar takes its time
        """A file alone is not enough: the namespace is mounted on it."""
        return os.path.ismount(self.namespace)

    def command(self, script: str) -> list[str]:
        """The script, run in the namespace."""
        return ["nsenter", f"--net={self.namespace}", "sh", "-c", script]

    def environment(self) -> dict[str, str]:
        """With the tools of the system in its path."""
        return with_system_path()


@dataclass(frozen=True)
class Sidecar:
    """The network of a container, entered by another container: works without root, and wherever the engine is."""

    container: str
    sandbox: str
    image: str
    project: str
    host: str

    def exists(self, timeout_s: float = SCRIPT_TIMEOUT_S) -> bool:
        """Whether the container runs with the network it had."""
        wanted = "--format={{.State.Running}} {{.NetworkSettings.SandboxKey}}"  # which stays known after its end
        ran = _ran(["docker", "inspect", "--type=container", wanted, self.container], self.environment(), timeout_s)
        if ran.returncode == 0:
            return ran.stdout.strip() == f"true {self.sandbox}"
        if "no such container" in ran.stderr.lower():
            return False
        raise OSError(_reason(ran.stderr) or "docker inspect failed")

    def command(self, script: str) -> list[str]:
        """The script, run beside the node; the label makes a sidecar that hangs go with the cluster."""
        label = f"--label={COMPOSE_PROJECT_LABEL}={self.project}"
        return sidecar(self.image, f"container:{self.container}", script, label)

    def environment(self) -> dict[str, str]:
        """With the engine that the container runs on."""
        return with_engine(self.host)


Place = Namespace | Sidecar


def sidecar(image: str, network: str, script: str, *options: str) -> list[str]:
    """The command that runs a script in a container which may change that network, and removes the container."""
    return [
        *("docker", "run", "--rm", "--pull=never", "--user=0", "--cap-add=NET_ADMIN", f"--network={network}"),
        *(*options, "--entrypoint=sh", image, "-c", script),
    ]


def place_of(entry: Mapping[str, str]) -> Place:
    """The place that an entry of the journal names."""
    if "namespace" in entry:
        return Namespace(entry["namespace"])
    return Sidecar(*(entry[name] for name in ("container", "sandbox", "image", "project", "host")))


def entry_of(place: Place, name: str, script: str) -> dict[str, str]:
    """What the journal says about something that `script` undoes."""
    return {"kind": "network", "value": name, "script": script, **asdict(place)}


def run_at(place: Place, script: str, timeout_s: float = SCRIPT_TIMEOUT_S, token: str = "") -> str:
    """What a script prints there; OSError when it fails or takes too long. The token makes it end with its cluster."""
    marked = {TOKEN_VARIABLE: token} if token else {}
    return run_command(place.command(script), {**place.environment(), **marked}, timeout_s)


def run_command(
    command: list[str], environment: dict[str, str] | None = None, timeout_s: float = SCRIPT_TIMEOUT_S
) -> str:
    """What a command prints; OSError with its last words when it fails or takes too long."""
    ran = _ran(command, environment or with_system_path(), timeout_s)
    if ran.returncode != 0:
        raise OSError(_reason(ran.stderr) or f"exit code {ran.returncode}")
    return ran.stdout


def mend(place: Place, script: str, timeout_s: float = SCRIPT_TIMEOUT_S) -> None:
    """Run an undo, unless the network is gone, or goes meanwhile."""
    if not place.exists(timeout_s):
        return
    try:
        run_at(place, script, timeout_s)
    except OSError:
        if place.exists(timeout_s):
            raise


def with_system_path() -> dict[str, str]:
    """Our environment, with the directories in which distributions keep network tools at the end of its path."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}".removeprefix(":")}


def with_engine(host: str) -> dict[str, str]:
    """Our environment, with this Docker engine in it."""
    return {**with_system_path(), "DOCKER_HOST": host}


def _ran(command: list[str], environment: dict[str, str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # what the script started holds our pipes, and may go on working
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError(f"{command[0]} was not done after {timeout_s:g} s") from None
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _reason(text: str) -> str:
    """The first line: below it tools tell how they want to be called."""
    return (text.strip().splitlines() or [""])[0]
