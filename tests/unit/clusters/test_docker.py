"""Docker, without an engine: where it is looked for, which image is asked of it, and how networks are entered."""

from __future__ import annotations

import os
import re
import time
from types import SimpleNamespace
from typing import Any, NoReturn

import docker
import docker.errors
import pytest
import requests
from docker.context import ContextAPI

from harness.clusters import docker as cluster_module
from harness.clusters import image_choice, network_support
from harness.clusters.docker import DockerCluster
from harness.clusters.docker_engine import PING_TIMEOUT_S, connect, endpoint
from harness.clusters.node import OURS, Capability, Unavailable
from harness.clusters.node import Node as ClusterNode
from harness.clusters.target import load_target
from harness.foundation.errors import CannotHere, ClusterError, Exit, UsageError
from harness.foundation.namespaces import Namespace, Sidecar
from harness.foundation.paths import compose_file
from harness.foundation.progress import SilentProgress

DEFAULT = "unix:///var/run/docker.sock"


class Engine:
    """What answers, or does not; and every client that was made."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.made: list[tuple[int, str]] = []
        self.did: list[str] = []

    def from_env(self, *, timeout: int, environment: dict[str, str]) -> Engine:
        """In place of `docker.from_env`."""
        self.made.append((timeout, environment["DOCKER_HOST"]))
        if self.error:
            raise self.error
        return self

    def ping(self) -> None:
        """Written down."""
        self.did.append("ping")

    def close(self) -> None:
        """Written down."""
        self.did.append("close")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine that is none."""
    made = Engine()
    monkeypatch.setattr(docker, "from_env", made.from_env)
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.1.2.3:2375")
    return made


@pytest.mark.parametrize(
    ("variable", "context", "expected"),
    [
        ("tcp://a:1", "unix:///b", "tcp://a:1"),
        ("", "unix:///b", "unix:///b"),
        (None, "unix:///b", "unix:///b"),
        (None, None, DEFAULT),
        (None, "", DEFAULT),
    ],
)
def test_where_the_engine_is(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, context: str | None, expected: str
) -> None:
    """The variable, the context of the command line, or the usual socket; in this order."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    if variable is not None:
        monkeypatch.setenv("DOCKER_HOST", variable)
    monkeypatch.setattr(ContextAPI, "kwargs_from_context", lambda: {"base_url": context} if context else {})
    assert endpoint() == expected


def test_a_connection_is_tried_briefly_first(engine: Engine) -> None:
    """An engine that hangs is found out in seconds, though its later answers may take long."""
    assert connect(timeout_s=77) is engine  # type: ignore[comparison-overlap]
    assert engine.made == [(PING_TIMEOUT_S, "tcp://10.1.2.3:2375"), (77, "tcp://10.1.2.3:2375")]
    assert engine.did == ["close", "ping"]
    assert PING_TIMEOUT_S == 5


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (docker.errors.DockerException("no\nsuch"), r"\(no\): start the Docker engine"),
        (requests.ReadTimeout("slow"), r"\(slow\): start the Docker engine"),
        (PermissionError(13, "Permission denied"), r"\(\[Errno 13\] Permission denied\): join the group"),
        (docker.errors.DockerException(), r"\(DockerException\): start"),
    ],
)
def test_an_engine_that_does_not_answer(engine: Engine, error: Exception, said: str) -> None:
    """Where, why and what to do, after one try."""
    engine.error = error
    with pytest.raises(CannotHere, match=rf"Docker does not answer at tcp://10\.1\.2\.3:2375 {said}.*DOCKER_HOST"):
        connect()
    assert len(engine.made) == 1


class Images:
    """The images of an engine."""

    def __init__(self, here: tuple[str, ...] = (), error: Exception | None = None) -> None:
        self.here = here
        self.error = error
        self.pulled: list[tuple[str, str]] = []

    def get(self, name: str) -> None:
        """There, or not."""
        if self.error:
            raise self.error
        if name not in self.here:
            raise docker.errors.ImageNotFound("no")

    def pull(self, repository: str, tag: str) -> None:
        """Written down."""
        self.pulled.append((repository, tag))


def choose(monkeypatch: pytest.MonkeyPatch, images: Images, asked: str) -> str:
    """The image that KAFKA_IMAGE asks for."""
    client: Any = SimpleNamespace(images=images)
    monkeypatch.setattr(image_choice, "connect", lambda: client)
    monkeypatch.setenv("KAFKA_IMAGE", asked)
    return image_choice.ensure_image(load_target("kafka"), lambda _: pytest.fail("asked for consent"), SilentProgress())


@pytest.mark.parametrize(
    ("name", "pulled"),
    [
        ("kafka", ("kafka", "latest")),
        ("apache/kafka:4.1.2", ("apache/kafka", "4.1.2")),
        ("registry:5000/kafka", ("registry:5000/kafka", "latest")),
        ("registry:5000/kafka:1", ("registry:5000/kafka", "1")),
        ("kafka@sha256:abc", ("kafka", "sha256:abc")),
    ],
)
def test_the_tag_is_told_from_the_registrys_port(
    monkeypatch: pytest.MonkeyPatch, name: str, pulled: tuple[str, str]
) -> None:
    """What is not here is pulled, exactly that; what is here is not."""
    images = Images()
    assert choose(monkeypatch, images, name) == name
    assert images.pulled == [pulled]
    images = Images(here=(name,))
    assert choose(monkeypatch, images, name) == name
    assert images.pulled == []


def api_error(status: int) -> docker.errors.APIError:
    """What the engine answers."""
    response: Any = SimpleNamespace(status_code=status, url="", reason="")
    return docker.errors.APIError("no", response=response)


def test_a_name_that_is_none_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said with the name, and nothing is pulled."""
    images = Images(error=api_error(400))
    with pytest.raises(UsageError, match="'UPPER CASE' is not the name of an image: correct KAFKA_IMAGE") as caught:
        choose(monkeypatch, images, "UPPER CASE")
    assert caught.value.exit_code == Exit.USAGE
    assert images.pulled == []


def test_another_error_of_the_engine_is_not_the_names_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes through as it is."""
    with pytest.raises(docker.errors.APIError):
        choose(monkeypatch, Images(error=api_error(500)), "kafka")


IMAGE = "tidegauge/kafka:1"
INFO: dict[str, Any] = {"KernelVersion": os.uname().release, "DockerRootDir": "/", "SecurityOptions": []}
NOT_ROOT = Unavailable("no root", "be root")


class Node:
    """The container of a node."""

    id = "c1"

    def __init__(self, sandbox: str, status: str = "running") -> None:
        self.status = status
        self.attrs = {"NetworkSettings": {"SandboxKey": sandbox, "Networks": {"n": {"IPAddress": "172.18.0.3"}}}}

    def reload(self) -> None:
        """Nothing changes."""


class Machine:
    """An engine with images of ours, a host that may enter its networks or not, and the sidecars that were started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ours = [IMAGE]
        self.info = dict(INFO)
        self.host: Unavailable | None = None
        self.ran: list[list[str]] = []
        engine: Any = SimpleNamespace(info=lambda: self.info)
        monkeypatch.setattr(cluster_module, "connect", lambda timeout_s=0: engine)
        monkeypatch.setattr(cluster_module, "endpoint", lambda: "unix:///engine")
        monkeypatch.setattr(cluster_module, "our_images", lambda _: self.ours)
        self.bare: tuple[str, ...] = ()  # images without the tools
        monkeypatch.setattr(cluster_module, "run_command", self.run)
        monkeypatch.setattr(network_support, "missing", lambda _: self.host)

    def run(self, command: list[str], environment: dict[str, str]) -> None:
        """Noted, and failed in an image that has no tools."""
        self.ran.append(command)
        if set(self.bare) & set(command):
            raise OSError(network_support.NO_TOOL)

    def cluster(self, *, image: str = IMAGE, node: Node | None = None, always_sidecar: bool = False) -> DockerCluster:
        """A cluster with one node."""
        made = DockerCluster(load_target("kafka"), image=image, always_sidecar=always_sidecar)
        made.nodes = (ClusterNode(1, "127.0.0.1:19092"),)
        container: Any = node or Node("/proc")
        made._containers = {1: container}
        return made


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that can do everything."""
    return Machine(monkeypatch)


def test_as_root_beside_the_engine_no_sidecar_is_needed(machine: Machine) -> None:
    """The container's network is entered by its sandbox."""
    cluster = machine.cluster()
    assert [cluster.cannot(each) for each in network_support.NETWORK] == [None] * 3
    assert cluster._place(1) == Namespace("/proc")
    assert machine.ran == []


@pytest.mark.parametrize("why", ["no root", "remote", "rootless", "forced"])
def test_elsewhere_a_sidecar_does_it(machine: Machine, why: str) -> None:
    """Each capability is tried in one, without a network, when somebody asks for it, and once."""
    machine.host = NOT_ROOT if why == "no root" else None
    other: dict[str, dict[str, Any]] = {
        "remote": {"KernelVersion": "0"},
        "rootless": {"SecurityOptions": ["name=rootless"]},
    }
    machine.info |= other.get(why, {})
    cluster = machine.cluster(node=Node("/no/such/sandbox"), always_sidecar=why == "forced")
    assert machine.ran == []
    assert cluster.cannot(Capability.SHAPE) is cluster.cannot(Capability.SHAPE) is None
    command, removal = machine.ran
    assert "--network=none" in command
    assert "tbf" in command[-1]
    assert f"--label=com.docker.compose.project={cluster.name}" in command
    assert f"--name={removal[-1]}" in command
    assert removal[:-1] == ["docker", "rm", "--force"]
    assert cluster._place(1) == Sidecar("c1", "/no/such/sandbox", IMAGE, cluster.name, "unix:///engine")


def test_who_may_not_enter_a_network_that_is_here_takes_a_sidecar(machine: Machine) -> None:
    """That its file can be seen is not enough."""
    machine.host = NOT_ROOT
    assert isinstance(machine.cluster()._place(1), Sidecar)
    machine.host = None
    assert isinstance(machine.cluster(always_sidecar=True)._place(1), Sidecar)


@pytest.mark.parametrize(
    ("nodes", "ours", "used"),
    [("tidegauge/kafka:2", ["a:1", "tidegauge/kafka:2"], "tidegauge/kafka:2"), ("x", ["a:1"], "a:1")],
)
def test_which_image_sidecars_have(machine: Machine, nodes: str, ours: list[str], used: str) -> None:
    """The nodes' own if it was built here, else another one that was."""
    machine.ours = ours
    place = machine.cluster(image=nodes, always_sidecar=True)._place(1)
    assert isinstance(place, Sidecar)
    assert place.image == used


@pytest.mark.parametrize(("bare", "used"), [((), IMAGE), ((IMAGE,), "a:1"), ((IMAGE, "a:1"), "b:1")])
def test_an_image_without_the_tools_is_passed_over(machine: Machine, bare: tuple[str, ...], used: str) -> None:
    """Each is tried once; where none has them, the trial says what is missing."""
    machine.ours = ["a:1", "b:1", IMAGE]
    machine.bare = bare
    cluster = machine.cluster(always_sidecar=True)
    assert cluster.cannot(Capability.PARTITION) is None
    place = cluster._place(1)
    assert isinstance(place, Sidecar)
    assert place.image == used
    probes = [command for command in machine.ran if "command -v iptables && command -v tc" in command]
    assert len(probes) == len(bare) + 1
    machine.bare = tuple(machine.ours)
    missing = machine.cluster(always_sidecar=True).cannot(Capability.PARTITION)
    assert missing
    assert missing.what == "the command `iptables` is missing"


def test_a_trial_that_fails_leaves_no_container(machine: Machine) -> None:
    """It is removed by its name, whatever it is at."""
    machine.bare = (IMAGE,)
    assert machine.cluster(always_sidecar=True).cannot(Capability.SHAPE)
    assert [command[1] for command in machine.ran] == ["run", "rm"]


def test_a_missing_command_line_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not taken for a kernel that cannot."""
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    missing = machine.cluster(always_sidecar=True).cannot(Capability.SHAPE)
    assert missing
    assert missing.what == "the command `docker` is missing"
    assert machine.ran == []


@pytest.mark.parametrize(
    "error", [requests.ReadTimeout("slow"), docker.errors.DockerException("slow"), OSError("slow")]
)
def test_an_engine_that_fails_later_is_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """As one that answers the first question and not the second."""

    def fail() -> NoReturn:
        raise error

    engine = SimpleNamespace(info=fail)
    monkeypatch.setattr(cluster_module, "connect", lambda timeout_s=0: engine)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for capability in (Capability.PARTITION, Capability.FILES):
        missing = machine.cluster().cannot(capability)
        assert missing
        assert missing.what == "the Docker engine at unix:///engine fails (slow)"


def test_without_an_image_of_ours_there_is_no_sidecar(machine: Machine) -> None:
    """Told before the run, with the remedy."""
    machine.host, machine.ours = NOT_ROOT, []
    missing = machine.cluster(image="apache/kafka:4").cannot(Capability.PARTITION)
    assert missing
    assert "`tidegauge image build`" in missing.remedy
    assert machine.ran == []
    with pytest.raises(ClusterError, match="cannot be reached from here: run `tidegauge image build`"):
        machine.cluster()._place(1)


def test_without_an_engine_nothing_is_possible(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """But what is done at the taps and to clients."""

    def refuse(**_: Any) -> NoReturn:
        raise CannotHere("no engine", "start it")

    monkeypatch.setattr(cluster_module, "connect", refuse)
    cluster = machine.cluster()
    assert {cluster.cannot(each) for each in set(Capability) - OURS} == {Unavailable("no engine", "start it")}
    assert {cluster.cannot(each) for each in OURS} == {None}


def test_partitions_are_always_there_and_shaping_when_asked_for(machine: Machine) -> None:
    """What costs a trial is not tried for nothing."""
    cluster = machine.cluster(always_sidecar=True)
    assert Capability.PARTITION in cluster.capabilities
    assert Capability.SHAPE not in cluster.capabilities
    assert [command[1] for command in machine.ran] == ["run", "rm"]
    cluster.equip({Capability.SHAPE})
    assert Capability.SHAPE in cluster.capabilities


def test_a_node_that_does_not_run_has_no_network(machine: Machine) -> None:
    """Docker still names its sandbox."""
    with pytest.raises(ClusterError, match="has no network: it does not run"):
        machine.cluster(node=Node("/proc", "exited"))._place(1)


def test_ports_and_addresses_inside(machine: Machine) -> None:
    """Those of docker-compose.yml, and the address in the project's network."""
    cluster = machine.cluster()
    assert [cluster.inner_port(1, each) for each in ("client", "broker", "controller")] == [9092, 9093, 9094]
    assert cluster.peer_address(1) == "172.18.0.3"
    cluster.container(1).attrs["NetworkSettings"]["Networks"]["n"]["IPAddress"] = ""
    with pytest.raises(ClusterError, match="has no address"):
        cluster.peer_address(1)


def test_the_ports_are_those_of_the_definition() -> None:
    """docker-compose.yml is the only place that decides."""
    listeners = re.search(r"KAFKA_LISTENERS: (.*)", compose_file().read_text())
    assert listeners
    said = {name.lower(): int(port) for name, port in re.findall(r"(\w+)://:(\d+)", listeners[1])}
    assert said == cluster_module.COMPOSE_PORTS
    assert set(said) == set(load_target("kafka").ports)


class Freezer:
    """A container that cannot be frozen at once."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)  # status codes; 0 is done
        self.status = "running"

    def pause(self) -> None:
        """As told."""
        if code := self.answers.pop(0):
            response = requests.Response()
            response.status_code = code
            raise docker.errors.APIError("no", response, "unable to freeze")
        self.status = "paused"

    def reload(self) -> None:
        """Nothing new."""


def freezing(monkeypatch: pytest.MonkeyPatch, container: Freezer) -> DockerCluster:
    """A cluster whose first node is this container."""
    cluster = DockerCluster(load_target("kafka"), image="tidegauge/kafka:4.3.1")
    monkeypatch.setattr(cluster, "container", lambda node_id: container)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return cluster


def test_a_container_that_does_not_freeze_at_once_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine fails with that on a busy machine."""
    container = Freezer(500, 500, 0)
    freezing(monkeypatch, container).pause(1)
    assert (container.status, container.answers) == ("paused", [])


def test_other_errors_of_a_pause_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is dead, for example."""
    container = Freezer(409, 0)
    with pytest.raises(docker.errors.APIError):
        freezing(monkeypatch, container).pause(1)
    assert container.answers == [0]


def test_a_container_that_never_freezes_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the engine's own words."""
    monkeypatch.setattr(cluster_module, "PAUSE_TIMEOUT_S", -1)
    with pytest.raises(ClusterError, match=r"node 1 of docker-\w+ could not be paused \(unable to freeze\)"):
        freezing(monkeypatch, Freezer(500, 500)).pause(1)
