"""A cluster of containers, made by compose from one definition and handled through the Docker SDK.

Apache Kafka's definition is `docker-compose.yml`, the same file that people use by hand. For a target that names an
image, the definition is generated from the target.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container

from harness.clusters import network_support
from harness.clusters.base import LOG_TAIL_LINES
from harness.clusters.cleanup.undo import of_project
from harness.clusters.disk import NodeDisk, why_no_disks
from harness.clusters.docker_engine import (
    GET_COMMAND,
    NO_COMMAND,
    PING_TIMEOUT_S,
    compose_version,
    connect,
    endpoint,
    may_be_here,
    reason_of,
    shares_files,
)
from harness.clusters.image_builder import our_images
from harness.clusters.networked import NetworkedCluster
from harness.clusters.node import OURS, Capability, Node, NodeState, Unavailable
from harness.clusters.target import ContainerPart, Target, write_inside
from harness.clusters.template import NodePlan, placeholders, render
from harness.clusters.waiting import wait_until
from harness.foundation.errors import ClusterError, TidegaugeError, UsageError
from harness.foundation.namespaces import (
    COMPOSE_PROJECT_LABEL,
    Namespace,
    Place,
    Sidecar,
    run_command,
    sidecar,
    with_engine,
    with_system_path,
)
from harness.foundation.paths import compose_file
from harness.foundation.ports import PortLeases
from harness.foundation.processes import TOKEN_VARIABLE
from harness.foundation.progress import Progress

SERVICE_LABEL = "com.docker.compose.service"
CONFIG_DIR = "/etc/tidegauge"
DATA = frozenset({Capability.FILES, Capability.DISK})
COMPOSE_PORTS = {"client": 9092, "broker": 9093, "controller": 9094}  # in docker-compose.yml
STOP_TIMEOUT_S = 30
PAUSE_TIMEOUT_S = 10
INTERNAL_ERROR = 500
UP_TIMEOUT_S = 180
_STATES = {
    "running": NodeState.RUNNING,
    "restarting": NodeState.RUNNING,
    "created": NodeState.RUNNING,
    "paused": NodeState.PAUSED,
}


class DockerCluster(NetworkedCluster):
    """Three containers on a network of their own, published on 127.0.0.1."""

    kind = "docker"

    def __init__(
        self,
        target: Target,
        *,
        image: str,
        ports: tuple[int, ...] = (),
        progress: Progress | None = None,
        always_sidecar: bool = False,
    ) -> None:
        super().__init__(target.name, target.version, target.ready_check, progress)
        self.target = target
        if target.container is None:
            raise UsageError(
                f"the target '{target.name}' cannot run in containers", "add a [container] table, or use local"
            )
        target.check_ports(ports)
        self.stateless = target.stateless
        if target.container.compose:  # KAFKA_IMAGE may name another version than the target
            self.version = image.rpartition("/")[2].partition(":")[2] or "unknown"
        self.image = image
        self._part = target.container
        texts = [*self._part.env.values(), *self._part.files.values(), *self._part.command]
        self._id_is_ours = self._part.compose is not None or any("{cluster_id}" in text for text in texts)
        self._asked_ports = ports
        self._leases = PortLeases()
        self._containers: dict[int, Container] = {}
        self._inner_ports = dict(COMPOSE_PORTS)
        self._always_sidecar = always_sidecar
        self._needs: frozenset[Capability] = frozenset()
        self._tried: dict[Capability, Unavailable | None] = {}
        self._sidecar: str | None = None  # the image

    @property
    def capabilities(self) -> frozenset[Capability]:
        """A container has a network of its own; how else it can be changed is only tried when somebody needs it."""
        able = OURS | {Capability.KILL, Capability.PAUSE, Capability.RESTART, Capability.LOGS, Capability.ADMIN}
        asked = network_support.NETWORK & (self._needs | {Capability.PARTITION})
        return frozenset(able | (self._needs & DATA) | {each for each in asked if self.cannot(each) is None})

    def container(self, node_id: int) -> Container:
        """The container of a node, as Docker's SDK knows it."""
        self.node(node_id)
        return self._containers[node_id]

    def cannot(self, capability: Capability) -> Unavailable | None:
        """By what this machine has, and the image when it comes to sidecars."""
        if capability in OURS:
            return None
        if capability not in self._tried:
            self._tried[capability] = self._try(capability)
        return self._tried[capability]

    def equip(self, needs: Collection[Capability]) -> None:
        """Containers have a network of their own; their data comes to lie in the cluster's directory."""
        if Capability.DISK in frozenset(needs) - self._needs:
            self.progress.step("giving every node a file system of its own")
        self._needs |= frozenset(needs)

    def _try(self, capability: Capability) -> Unavailable | None:
        try:
            return self._try_with(connect(timeout_s=PING_TIMEOUT_S), capability)
        except TidegaugeError as error:
            return Unavailable(error.message, error.remedy)
        except (DockerException, OSError) as error:
            return Unavailable(f"the Docker engine at {endpoint()} fails ({reason_of(error)})", "see the engine's log")

    def _try_with(self, engine: docker.DockerClient, capability: Capability) -> Unavailable | None:
        if capability in network_support.NETWORK:
            direct = self._may_enter() and may_be_here(engine)
            return network_support.missing(capability) if direct else self._try_sidecar(engine, capability)
        if capability is Capability.CLOCK:
            return Unavailable(
                "a node's clock is set by a library that has to fit the C library of its image", "use --cluster local"
            )
        if capability in DATA:
            return self._try_data(engine, capability)
        return None

    def _try_data(self, engine: docker.DockerClient, capability: Capability) -> Unavailable | None:
        if self._part.data is None:
            return Unavailable(
                f"the target '{self.target.name}' does not say where its nodes keep their data",
                "add `data` to its [container] table",
            )
        if sys.platform != "linux" or os.geteuid() != 0:
            return Unavailable("the data of containers can be changed by root on Linux only", "run as root")
        if not (may_be_here(engine) and shares_files(endpoint(), str(engine.info()["ID"]))):
            return Unavailable(
                f"the Docker engine at {endpoint()} has another file system than this process",
                "run on the engine's own machine",
            )
        return Unavailable(*why) if capability is Capability.DISK and (why := why_no_disks()) else None

    def _try_sidecar(self, engine: docker.DockerClient, capability: Capability) -> Unavailable | None:
        if shutil.which("docker", path=with_system_path()["PATH"]) is None:
            return Unavailable(NO_COMMAND, GET_COMMAND)
        image = self._sidecar_image(engine)
        if image is None:
            return Unavailable(
                "the nodes' networks are changed from a container of an image that was built here, and there is none",
                "run `tidegauge image build`, or run as root on the machine of the Docker engine",
            )

        rebuild = "install {package} where `tidegauge image build` runs, and build the image again"
        return network_support.why_not(capability, partial(self._run_trial, image), rebuild)

    def _run_trial(self, image: str, script: str) -> None:
        """In a sidecar without a network, which is gone afterwards even if it hangs."""
        name = f"{self.name}-trial-{secrets.token_hex(4)}"
        label = f"--label={COMPOSE_PROJECT_LABEL}={self.name}"
        environment = with_engine(endpoint())
        try:
            run_command(sidecar(image, "none", script, f"--name={name}", label), environment)
        finally:
            with contextlib.suppress(OSError):
                run_command(["docker", "rm", "--force", name], environment)

    def _may_enter(self) -> bool:
        """Whether this process itself may change the networks of containers, if they are on this machine."""
        return not self._always_sidecar and network_support.missing(Capability.PARTITION) is None

    def _sidecar_image(self, engine: docker.DockerClient) -> str | None:
        """The nodes' own if it was built here and has the tools, else another one that has them, else any of ours."""
        if self._sidecar is None:
            ours = sorted(our_images(engine), key=lambda image: image != self.image)
            able = ours if len(ours) == 1 else filter(self._has_tools, ours)
            self._sidecar = next(iter(able), None) or next(iter(ours), None)
        return self._sidecar

    def _has_tools(self, image: str) -> bool:
        tools = {trial.tool for trial in network_support.TRIALS.values()}
        try:
            self._run_trial(image, " && ".join(f"command -v {tool}" for tool in sorted(tools)))
        except OSError:
            return False
        return True

    def _place(self, node_id: int) -> Place:
        if self.state(node_id) is NodeState.DEAD:
            raise ClusterError(f"node {node_id} of {self.name} has no network: it does not run", "start it first")
        container = self.container(node_id)
        network = str(container.attrs["NetworkSettings"]["SandboxKey"])
        place = Namespace(network)
        if self._may_enter() and place.exists():
            return place
        image = self._sidecar_image(connect())
        if image is None:
            raise ClusterError(
                f"the network of node {node_id} cannot be reached from here", "run `tidegauge image build` first"
            )
        return Sidecar(str(container.id), network, image, self.name, endpoint())

    def data_dir(self, node_id: int) -> Path:
        """In the cluster's directory, from where it is mounted into the container."""
        self.node(node_id)
        if not DATA & self._needs:
            raise self._has_no("data that can be reached", node_id)
        return self.directory / f"data-{node_id}"

    def disk(self, node_id: int) -> NodeDisk:
        """In an image file, mounted there."""
        if Capability.DISK not in self._needs:
            raise self._has_no("disk of its own", node_id)
        return NodeDisk(self.directory / f"disk-{node_id}", self.data_dir(node_id))

    def _place_data(self) -> list[Path]:
        """A place for each node's data, and the definition that adds it to the others; nothing when nobody needs it."""
        if not DATA & self._needs:
            return []
        services = {}
        for node in self.nodes:
            place = self.data_dir(node.id)
            if Capability.DISK in self._needs:
                self.disk(node.id).make(self.guard)
            else:
                place.mkdir()
                place.chmod(0o777)  # an image may run as any user
            volume = {"type": "bind", "source": str(place), "target": self._part.data}
            services[f"node-{node.id}"] = {"volumes": [volume]}
        path = self.directory / "data.json"
        path.write_text(json.dumps({"services": services}, indent=2))
        return [path]

    def inner_port(self, node_id: int, listener: str) -> int:
        """Inside the container, where the clients' port may have another number."""
        if listener == self.target.kafka_port and not self._part.compose:
            return int(self.node(node_id).address.rpartition(":")[2])
        self.node(node_id)
        return self._inner_ports[listener]

    def peer_address(self, node_id: int) -> str:
        """In the network of the project; it may be another one after a restart."""
        container = self.container(node_id)
        container.reload()
        found = [each["IPAddress"] for each in container.attrs["NetworkSettings"]["Networks"].values()]
        if not any(found):
            raise ClusterError(f"node {node_id} of {self.name} has no address: it does not run", "start it first")
        return str(next(filter(None, found)))

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
        self._compose_up([definition, *self._place_data()], ports)
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
        """`docker pause`; a busy kernel may need more than one try to freeze what is just starting threads."""
        reasons: list[str] = []

        def paused() -> bool:
            try:
                self.container(node_id).pause()
            except APIError as error:
                if error.status_code != INTERNAL_ERROR and self.state(node_id) is not NodeState.PAUSED:
                    raise
                reasons.append(reason_of(error))
            return self.state(node_id) is NodeState.PAUSED

        try:
            wait_until(paused, PAUSE_TIMEOUT_S, "paused")
        except TimeoutError:
            raise ClusterError(
                f"node {node_id} of {self.name} could not be paused ({reasons[-1]})", "see the log of the Docker engine"
            ) from None

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

    def _compose_up(self, definitions: list[Path], ports: list[int]) -> None:
        from testcontainers.compose import DockerCompose  # importing it needs a home directory

        definition = definitions[0]
        compose = DockerCompose(str(definition.parent), compose_file_name=list(map(str, definitions)))
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
        delay_s = self.target.start_delay_s
        for number in range(self.target.nodes if delay_s else 1):
            time.sleep(delay_s if number else 0)
            self._compose([*command, f"node-{number + 1}"] if delay_s else command, environment, definition)

    def _compose(self, command: list[str], environment: dict[str, str], definition: Path) -> None:
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
        inner = self._inner_ports = dict(zip(self.target.ports, free, strict=False))
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
