"""A cluster of containers, made by compose from one definition and handled through the Docker SDK.

Apache Kafka's definition is `docker-compose.yml`, the same file that people use by hand. For a target that names an
image, the definition is generated from the target.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import docker
import requests
from docker.context import ContextAPI
from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container

from harness.clusters.base import LOG_TAIL_LINES, Capability, Cluster, Missing, Node, NodeState, wait_until
from harness.clusters.target import ContainerPart, NodePlan, Target, placeholders, render, write_inside
from harness.errors import CannotHere, ClusterError, UsageError
from harness.paths import compose_file
from harness.ports import PortLeases
from harness.processes import TOKEN_VARIABLE
from harness.progress import Progress
from harness.undo import of_project

SERVICE_LABEL = "com.docker.compose.service"
CONFIG_DIR = "/etc/tidegauge"
PING_TIMEOUT_S = 5
STOP_TIMEOUT_S = 30
UP_TIMEOUT_S = 180
_STATES = {
    "running": NodeState.RUNNING,
    "restarting": NodeState.RUNNING,
    "created": NodeState.RUNNING,
    "paused": NodeState.PAUSED,
}


def endpoint() -> str:
    """Where the Docker engine is: DOCKER_HOST, or what the current context of its command line says."""
    found = os.environ.get("DOCKER_HOST") or ContextAPI.kwargs_from_context().get("base_url")
    return str(found or "unix:///var/run/docker.sock")


def connect(timeout_s: int = 60) -> docker.DockerClient:
    """The Docker engine of this machine, or why it cannot be used."""
    where = "unknown"
    try:
        where = endpoint()
        docker.from_env(timeout=PING_TIMEOUT_S, environment={**os.environ, "DOCKER_HOST": where}).close()
        client = docker.from_env(timeout=timeout_s, environment={**os.environ, "DOCKER_HOST": where})
        client.ping()
    except (DockerException, requests.RequestException, OSError) as error:
        reason = _reason(error)
        get = "join the group that owns the socket" if "Permission denied" in reason else "start the Docker engine"
        raise CannotHere(
            f"Docker does not answer at {where} ({reason})",
            f"{get}, set DOCKER_HOST, or use --cluster local, which needs no Docker",
        ) from error
    return client


def compose_version() -> str:
    """The version of compose, which has to be the second generation."""
    if shutil.which("docker") is None:
        raise CannotHere("the command `docker` is missing", "install the Docker command line with its compose plugin")
    try:
        ran = subprocess.run(
            ["docker", "compose", "version", "--short"], capture_output=True, text=True, timeout=30, check=False
        )
        version = ran.stdout.strip().removeprefix("v") if ran.returncode == 0 else ""
    except subprocess.TimeoutExpired:
        version = ""
    if not version or version.startswith("1."):
        raise CannotHere("`docker compose` (version 2 or newer) is missing", "install Docker's compose plugin")
    return version


class DockerCluster(Cluster):
    """Three containers on a network of their own, published on 127.0.0.1."""

    kind = "docker"

    def __init__(
        self, target: Target, *, image: str, ports: tuple[int, ...] = (), progress: Progress | None = None
    ) -> None:
        super().__init__(target.name, target.version, target.ready_check, progress)
        self.target = target
        if target.container is None:
            raise UsageError(
                f"the target '{target.name}' cannot run in containers", "add a [container] table, or use local"
            )
        target.check_ports(ports)
        if target.container.compose:  # KAFKA_IMAGE may name another version than the target
            self.version = image.rpartition("/")[2].partition(":")[2] or "unknown"
        self.image = image
        self._part = target.container
        texts = [*self._part.env.values(), *self._part.files.values(), *self._part.command]
        self._id_is_ours = self._part.compose is not None or any("{cluster_id}" in text for text in texts)
        self._asked_ports = ports
        self._leases = PortLeases()
        self._containers: dict[int, Container] = {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All of them: a container has a network namespace of its own."""
        return frozenset(Capability)

    def container(self, node_id: int) -> Container:
        """The container of a node, as Docker's SDK knows it."""
        self.node(node_id)
        return self._containers[node_id]

    def cannot(self, capability: Capability) -> Missing | None:
        """By what this machine has."""
        if capability in self.capabilities:
            return None
        return Missing("not built yet", "wait")

    @property
    def listeners(self) -> frozenset[str]:
        """As the target names them."""
        return frozenset(self.target.ports)

    def _bring_up(self) -> None:
        client = connect()
        compose_version()
        ports = [self._leases.take_exactly(port) for port in self._asked_ports]
        ports = ports or self._leases.take(self.target.nodes)
        self.nodes = tuple(
            Node(number, f"127.0.0.1:{port}", {self.target.kafka_port: f"127.0.0.1:{port}"})
            for number, port in enumerate(ports, start=1)
        )
        definition = compose_file() if self._part.compose else self._generate(self._part, ports)
        self.guard.record(kind="processes", value=self.name)
        engine = str(client.info()["ID"])
        self.guard.record(kind="compose", value=self.name, host=endpoint(), engine=engine)
        self.progress.step(f"starting {len(self.nodes)} containers of {self.image}")
        self._compose_up(definition, ports)
        for container in client.containers.list(all=True, filters=of_project(self.name)):
            self._containers[int(container.labels[SERVICE_LABEL].rpartition("-")[2])] = container
        if sorted(self._containers) != [node.id for node in self.nodes]:
            raise ClusterError(
                f"{definition.name} made containers for the nodes {sorted(self._containers)}",
                f"it must have services node-1 to node-{self.target.nodes}",
            )

    def stop_node(self, node_id: int) -> None:
        """`docker stop`."""
        self.container(node_id).stop(timeout=STOP_TIMEOUT_S)

    def kill(self, node_id: int) -> None:
        """`docker kill`, and wait until it is dead."""
        self.container(node_id).kill()
        wait_until(lambda: self.state(node_id) is NodeState.DEAD, STOP_TIMEOUT_S, f"node {node_id} lives", 0.05)

    def pause(self, node_id: int) -> None:
        """`docker pause`."""
        self.container(node_id).pause()

    def resume(self, node_id: int) -> None:
        """`docker unpause`."""
        self.container(node_id).unpause()

    def start_node(self, node_id: int) -> None:
        """`docker start`: the same container, with its data and its published port."""
        if self.state(node_id) is not NodeState.DEAD:
            raise UsageError(f"node {node_id} of {self.name} runs already", "stop or kill it first")
        self.guard.keep_supervised()
        self.container(node_id).start()

    def state(self, node_id: int) -> NodeState:
        """As Docker sees it."""
        container = self.container(node_id)
        try:
            container.reload()
        except NotFound:
            return NodeState.DEAD
        return _STATES.get(container.status, NodeState.DEAD)

    def log_tail(self, node_id: int, lines: int = LOG_TAIL_LINES) -> list[str]:
        """From `docker logs`."""
        container = self._containers.get(node_id)
        return container.logs(tail=lines).decode(errors="replace").splitlines() if container else []

    def _compose_up(self, definition: Path, ports: list[int]) -> None:
        from testcontainers.compose import DockerCompose  # importing it needs a home directory

        compose = DockerCompose(str(definition.parent), compose_file_name=str(definition))
        environment = {
            **os.environ,
            TOKEN_VARIABLE: self.name,
            "DOCKER_HOST": endpoint(),
            "COMPOSE_PROJECT_NAME": self.name,
            "KAFKA_IMAGE": self.image,
            "CLUSTER_ID": self.cluster_id,
            **{f"KAFKA_PORT_{number}": str(port) for number, port in enumerate(ports, start=1)},
        }
        command = [*compose.docker_compose_command(), "up", "--detach", "--quiet-pull", "--no-build"]
        try:
            ran = subprocess.run(command, env=environment, capture_output=True, timeout=UP_TIMEOUT_S, check=False)
            code, said = str(ran.returncode), ran.stderr or ran.stdout
        except subprocess.TimeoutExpired as error:
            code, said = f"none after {UP_TIMEOUT_S} s", error.stderr or b""
        if code != "0":
            raise ClusterError(
                f"`docker compose up` failed for {definition.name} (exit code {code})",
                "its output is below",
                log_tail=tuple(said.decode(errors="replace").splitlines()[-LOG_TAIL_LINES:]),
            )

    def _generate(self, part: ContainerPart, ports: list[int]) -> Path:
        """A compose file for an image of the target's choosing; JSON is YAML."""
        free = (port for port in itertools.count(9092) if port not in ports)
        inner = dict(zip(self.target.ports, free, strict=False))
        plans = [
            NodePlan(number, f"node-{number}", "0.0.0.0", "127.0.0.1", {**inner, self.target.kafka_port: port})  # noqa: S104 - inside a container
            for number, port in enumerate(ports, start=1)
        ]
        services: dict[str, Any] = {}
        for plan in plans:
            node_dir = self.directory / f"node-{plan.node_id}"
            node_dir.mkdir()
            extra = {"node_dir": CONFIG_DIR, "cluster_id": self.cluster_id, "version": self.target.version}
            values = placeholders(plans, plan.node_id, extra)
            source = f"{self.target.name}: [container]"
            for name, text in part.files.items():
                write_inside(node_dir, name, render(text.lstrip("\n"), values, source))
            port = plan.ports[self.target.kafka_port]
            services[plan.host] = {
                "image": self.image,
                "hostname": plan.host,
                "environment": {k: render(v, values, source).replace("$", "$$") for k, v in part.env.items()},
                "ports": [f"127.0.0.1:{port}:{port}"],
                "volumes": [{"type": "bind", "source": str(node_dir), "target": CONFIG_DIR, "read_only": True}],
                "restart": "no",
            }
            if part.command:
                command = [render(word, values, source).replace("$", "$$") for word in part.command]
                services[plan.host]["command"] = command
        path = self.directory / "docker-compose.json"
        path.write_text(json.dumps({"services": services}, indent=2))
        return path

    def _let_go(self) -> None:
        self._leases.release()


def _reason(error: Exception) -> str:
    """The innermost cause in a few words: the SDK wraps it several times."""
    cause: BaseException = error
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    text = error.explanation if isinstance(error, APIError) else str(cause)
    return str(text).strip().splitlines()[0] if str(text).strip() else type(cause).__name__
