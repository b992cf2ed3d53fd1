"""A cluster of plain processes on loopback: no Docker, no root.

As root on Linux each node can have a network namespace of its own (`netns=True`), so that traffic between nodes can be
cut as between hosts.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path

import psutil

from harness.clusters import network_support, node_init, prepared_files
from harness.clusters.base import LOG_TAIL_LINES
from harness.clusters.clock import LIBRARY, NodeClock, find_library, why_no_clocks
from harness.clusters.disk import NodeDisk, why_no_disks
from harness.clusters.helper_process import HelperProcess
from harness.clusters.jars import ensure_jars
from harness.clusters.netns import Network
from harness.clusters.networked import NetworkedCluster
from harness.clusters.node import OURS, Capability, Node, NodeState, Unavailable, new_uuid
from harness.clusters.target import Target, copy_inside, inside, write_inside
from harness.clusters.template import NodePlan, placeholders, render
from harness.clusters.waiting import wait_until
from harness.foundation import class_archive, optional_work
from harness.foundation.class_archive import Archive
from harness.foundation.errors import CannotHere, UsageError
from harness.foundation.java import Java, ensure_java
from harness.foundation.namespaces import Place
from harness.foundation.ports import PortLeases
from harness.foundation.processes import TOKEN_VARIABLE
from harness.foundation.progress import Progress

STOP_TIMEOUT_S = 30.0
LOG_FILE = "log"
CLASS_ARCHIVE = "{class_archive}"
RECORDER = 1  # the node that writes an archive of its classes, where there is none


class LocalCluster(NetworkedCluster):
    """Three processes of this machine."""

    kind = "local"

    def __init__(
        self,
        target: Target,
        *,
        netns: bool = False,
        ports: tuple[int, ...] = (),
        progress: Progress | None = None,
    ) -> None:
        super().__init__(target.name, target.version, target.ready_check, progress)
        self.target = target
        if target.process is None:
            raise UsageError(
                f"the target '{target.name}' cannot run as local processes", "add a [process] table, or use docker"
            )
        target.check_ports(ports)
        if netns and target.process.serves_all_nodes:
            raise UsageError(
                f"the nodes of '{target.name}' are one process, which has one network", "leave --netns out"
            )
        self._process = target.process
        self.stateless = target.stateless
        texts = [*target.process.files.values(), *target.process.command, *target.process.env.values()]
        self._id_is_ours = any("{cluster_id}" in text for text in texts)
        self._asked_ports = ports
        self._leases = PortLeases()
        self._network = Network(self.name) if netns else None
        self._needs: frozenset[Capability] = frozenset()
        self._plans: list[NodePlan] = []
        self._tools: dict[str, str] = {}
        self._archive = Archive()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._helper: HelperProcess | None = None

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it has as it is equipped now."""
        if self._process.serves_all_nodes:
            return OURS | {Capability.ADMIN, Capability.LOGS}
        able = OURS | {Capability.KILL, Capability.PAUSE, Capability.RESTART, Capability.LOGS, Capability.ADMIN}
        able |= {Capability.FILES} if self._process.data else frozenset()
        able |= self._needs & {Capability.DISK, Capability.CLOCK}
        if self._network:
            able |= {each for each in network_support.NETWORK if network_support.missing(each) is None}
        return frozenset(able)

    def node_dir(self, node_id: int) -> Path:
        """The node's files, data and log."""
        return self.directory / f"node-{node_id}"

    def namespace(self, node_id: int) -> str | None:
        """The network namespace the node lives in, if it has one of its own."""
        return self._network.namespace(node_id) if self._network else None

    def cannot(self, capability: Capability) -> Unavailable | None:
        """By what this machine has."""
        if capability in self.capabilities:
            return None
        if self._process.serves_all_nodes:
            return Unavailable(
                f"all nodes of the target '{self.target.name}' are one process, and this fault breaks single nodes "
                f"({capability})",
                "choose faults of clients or of taps, see `tidegauge list faults`",
            )
        if capability in network_support.NETWORK:
            return network_support.missing(capability)
        if capability is Capability.CLOCK:
            return Unavailable(*why) if (why := why_no_clocks()) else None
        if self._process.data is None:
            return Unavailable(
                f"the target '{self.target.name}' does not say where its nodes keep their data",
                "add `data` to its [process] table",
            )
        return Unavailable(*why) if (why := why_no_disks()) else None

    def equip(self, needs: Collection[Capability]) -> None:
        """What the faults are made with, as far as it is not there already."""
        if self._process.serves_all_nodes:
            return
        new = frozenset(needs) - self._needs
        self._needs |= new
        if Capability.DISK in new:
            self.progress.step("giving every node a file system of its own")
        if Capability.CLOCK in new:
            self.progress.step("giving every node a clock of its own, which makes it slower")
        if self._network is None and network_support.NETWORK & set(needs):
            self.progress.step("giving every node a network namespace of its own")
            self._network = Network(self.name)

    @property
    def listeners(self) -> frozenset[str]:
        """As the target names them."""
        return frozenset(self.target.ports)

    def inner_port(self, node_id: int, listener: str) -> int:
        """Inside as outside."""
        self.node(node_id)
        return self._plans[node_id - 1].ports[listener]

    def peer_address(self, node_id: int) -> str:
        """In its own namespace."""
        self.node(node_id)
        if self._network is None:
            raise self._has_no("network of its own", node_id)
        return self._network.address(node_id)

    def _place(self, node_id: int) -> Place:
        self.node(node_id)
        if self._network is None:
            raise self._has_no("network of its own", node_id)
        return self._network.place(node_id)

    def data_dir(self, node_id: int) -> Path:
        """Where the target says."""
        self.node(node_id)
        if self._process.data is None:
            raise self._has_no("data that can be reached", node_id)
        return inside(self.node_dir(node_id), self._process.data)

    def disk(self, node_id: int) -> NodeDisk:
        """In an image file beside the node's directory."""
        if Capability.DISK not in self._needs:
            raise self._has_no("disk of its own", node_id)
        return NodeDisk(self.directory / f"disk-{node_id}", self.data_dir(node_id))

    def set_clock(self, node_id: int, ahead_s: float) -> None:
        """Through the file that it is read from."""
        self.node(node_id)
        if Capability.CLOCK not in self._needs:
            raise self._has_no("clock of its own", node_id)
        self._clock(node_id).set(ahead_s)

    def _clock(self, node_id: int) -> NodeClock:
        return NodeClock(find_library() or Path(LIBRARY), self.node_dir(node_id) / "clock", f"{self.name}-{node_id}")

    def _bring_up(self) -> None:
        self._tools = self._prepare_tools()
        self.guard.record(kind="processes", value=self.name)
        self._plans = self._plan()
        self._run_once()
        self._start_helper()
        self.nodes = tuple(self._node(plan) for plan in self._plans)
        self.progress.step(f"starting {len(self.nodes)} nodes")
        self._start_nodes()

    def _start_nodes(self) -> None:
        """One after the other, or all of them by the process of the first."""
        for plan in self._plans[:1] if self._process.serves_all_nodes else self._plans:
            self._write_files(plan.node_id)
            if self._children and self.target.start_delay_s:
                time.sleep(self.target.start_delay_s)
            self._spawn(plan.node_id)

    def stop_node(self, node_id: int) -> None:
        """SIGTERM, and SIGKILL for one that does not go."""
        child = self._own_child(node_id)
        child.terminate()
        try:
            child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill(node_id)

    def kill(self, node_id: int) -> None:
        """SIGKILL the node and all it started, and wait until they are gone."""
        child = self._own_child(node_id)
        tree = self._tree(child)
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        child.wait()
        wait_until(lambda: all(map(_is_gone, tree)), STOP_TIMEOUT_S, f"node {node_id} lives", 0.01)

    def pause(self, node_id: int) -> None:
        """SIGSTOP."""
        self._signal(node_id, signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """SIGCONT."""
        self._signal(node_id, signal.SIGCONT)

    def start_node(self, node_id: int) -> None:
        """Start it again on its old directory and ports."""
        if self._own_child(node_id).poll() is None:
            raise UsageError(f"node {node_id} of {self.name} runs already", "stop or kill it first")
        self._spawn(node_id)

    def state(self, node_id: int) -> NodeState:
        """By the process itself."""
        child = self._child(node_id)
        if child.poll() is not None:
            return NodeState.DEAD
        try:
            stopped = psutil.Process(child.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return NodeState.DEAD
        return NodeState.PAUSED if stopped else NodeState.RUNNING

    def log_tail(self, node_id: int, lines: int = LOG_TAIL_LINES) -> list[str]:
        """From the file that the node's output goes to."""
        path = self.node_dir(node_id) / LOG_FILE
        if not path.exists():
            return []
        with path.open(errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=lines)]

    def _prepare_tools(self) -> dict[str, str]:
        """Java and archives, when the target asks for them."""
        part = self.target.java
        if part is None:
            return {}
        java = ensure_java(part.minimum, part.maximum, self.progress)
        if java.passed_over:
            self.progress.step(f"using Java {java.major} from {java.origin} ({'; '.join(java.passed_over)})")
        coordinates = self.target.coordinates()
        classpath = ensure_jars(self.target.name, self.target.version, coordinates, part.exclude, self.progress)
        self._archive = self._classes(java, classpath)
        return {"java": str(java.path), "classpath": os.pathsep.join(map(str, classpath))}

    def _classes(self, java: Java, jars: Sequence[Path]) -> Archive:
        """For a target that asks for it; not where nodes have clocks of their own, to which files look younger."""
        if CLASS_ARCHIVE not in self._process.command or Capability.CLOCK in self._needs:
            return Archive()
        options = [word for word in self._process.command if word.startswith("-XX:")]
        found = class_archive.find(java, jars, options)
        return found or class_archive.record(java, jars, options, self.directory, os.environ)

    def _plan(self) -> list[NodePlan]:
        """An address and ports for every node."""
        plans = []
        if self._network:
            self._network.create(self.guard, self.target.nodes)
        asked = [self._leases.take_exactly(port) for port in self._asked_ports]  # before chance takes one of them
        for index in range(self.target.nodes):
            host = self._network.address(index + 1) if self._network else "127.0.0.1"
            ports = dict(zip(self.target.ports, self._leases.take(len(self.target.ports)), strict=True))
            if asked:
                ports[self.target.kafka_port] = asked[index]
            plans.append(NodePlan(index + 1, host=host, bind=host, client_host=host, ports=ports))
        return plans

    def _node(self, plan: NodePlan) -> Node:
        listeners = {name: f"{plan.host}:{port}" for name, port in plan.ports.items()}
        return Node(plan.node_id, f"{plan.client_host}:{plan.ports[self.target.kafka_port]}", listeners)

    def _values(self, node_id: int, node_dir: Path) -> dict[str, str]:
        extra = {
            "node_dir": str(node_dir),
            "cluster_id": self.cluster_id,
            "directory_id": new_uuid(),
            "version": self.target.version,
            **self._tools,
            **(self._helper.placeholders if self._helper else {}),
        }
        return placeholders(self._plans, node_id, extra)

    def _write_files(self, node_id: int) -> None:
        node_dir = self.node_dir(node_id)
        node_dir.mkdir()
        if Capability.DISK in self._needs:
            self.disk(node_id).make(self.guard)
        if Capability.CLOCK in self._needs:
            for path in self._clock(node_id).shared:
                self.guard.record(kind="shared", value=str(path))
        values = self._values(node_id, node_dir)
        for name, text in self._process.files.items():
            write_inside(node_dir, name, render(text.lstrip("\n"), values, f"{self.target.name}: {name}"))
        if self.target.once:
            for name in self.target.once.keep:
                copy_inside(node_dir, name, prepared_files.prepared_dir(self.target) / name)

    def _start_helper(self) -> None:
        """What the nodes need beside themselves, on the host's side of their networks."""
        if self.target.helper is None:
            return
        host = self._network.host_address if self._network else "127.0.0.1"
        (port,) = self._leases.take(1)
        part = self.target.helper
        self._helper = HelperProcess(part, self.directory / part.name, host, port)
        self.progress.step(f"starting {part.name}")
        self.guard.keep_supervised()
        self._helper.start(
            lambda text, values: render(text, {**self._tools, **values}, f"{self.target.name}: [helper]"),
            {**os.environ, TOKEN_VARIABLE: self.name},
        )

    def _fail_if_a_node_died(self) -> None:
        if self._helper:
            self._helper.fail_if_dead()
        super()._fail_if_a_node_died()

    def _run_once(self) -> None:
        with tempfile.TemporaryDirectory(dir=self.directory) as scratch:
            values = self._values(1, Path(scratch))
            source = f"{self.target.name}: [once]"
            environment = self._environment(1)
            prepared_files.ensure(
                self.target, Path(scratch), lambda text: render(text, values, source), environment, self.progress
            )

    def _environment(self, node_id: int) -> dict[str, str]:
        values = self._values(node_id, self.node_dir(node_id))
        own = {name: render(text, values, f"{self.target.name}: env") for name, text in self._process.env.items()}
        return {**os.environ, **own, TOKEN_VARIABLE: self.name}

    def _spawn(self, node_id: int) -> None:
        node_dir = self.node_dir(node_id)
        values = self._values(node_id, node_dir)
        command = [
            word
            for given in self._process.command
            for word in (
                self._class_options(node_id)
                if given == CLASS_ARCHIVE and self.target.java
                else [render(given, values, f"{self.target.name}: command")]
            )
        ]
        program = node_dir / command[0] if os.sep in command[0] else command[0]
        if shutil.which(program) is None:
            raise UsageError(
                f"node {node_id} cannot be started ({command[0]}: No such file, or it cannot be executed)",
                f"install it, or correct the command of the target '{self.target.name}'",
            )
        if self._network:
            command = self._network.inside(node_id, command)
        environment = self._environment(node_id)
        if Capability.CLOCK in self._needs:
            clock = self._clock(node_id)
            clock.prepare()
            environment |= clock.environment(environment)
        self.guard.keep_supervised()
        with (node_dir / LOG_FILE).open("ab") as log:
            self._children[node_id] = subprocess.Popen(
                [sys.executable, "-I", "-S", node_init.__file__, *command],
                cwd=node_dir,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _class_options(self, node_id: int) -> Sequence[str]:
        return self._archive.options if self._archive.written is None or node_id == RECORDER else ()

    def _take_leave(self) -> None:
        """Have a node write its classes as it ends, if there is no archive yet and all of them run."""
        if self._archive.written is None:
            return
        try:
            if (
                optional_work.is_wanted()
                and len(self._children) == self.target.nodes
                and all(self.state(node.id) is NodeState.RUNNING for node in self.nodes)
            ):
                self.progress.step("keeping the classes of a node, so that others start faster (once)")
                self._child(RECORDER).terminate()
                self._child(RECORDER).wait(STOP_TIMEOUT_S)
                self._archive.keep()
        except subprocess.TimeoutExpired:
            self.progress.step("it took too long: another cluster will do it")
        finally:
            self._archive.discard(unless_finished=True)

    def _child(self, node_id: int) -> subprocess.Popen[bytes]:
        self.node(node_id)
        return self._children[self._plans[0].node_id if self._process.serves_all_nodes else node_id]

    def _own_child(self, node_id: int) -> subprocess.Popen[bytes]:
        """The process of this node and of no other."""
        if self._process.serves_all_nodes:
            raise CannotHere(
                f"node {node_id} of {self.name} cannot be stopped or started separately: all nodes are one process",
                "take the whole cluster down, or leave it out",
            )
        return self._child(node_id)

    def _tree(self, child: subprocess.Popen[bytes]) -> list[psutil.Process]:
        if child.poll() is not None:  # its number may be another's by now
            return []
        try:
            process = psutil.Process(child.pid)
            return [*process.children(recursive=True), process]
        except psutil.NoSuchProcess:
            return []

    def _signal(self, node_id: int, signal_number: signal.Signals) -> None:
        """To the node and all it started, and wait until it took effect."""
        for process in self._tree(self._own_child(node_id)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal_number)
        wanted = NodeState.PAUSED if signal_number == signal.SIGSTOP else NodeState.RUNNING
        wait_until(lambda: self.state(node_id) is wanted, STOP_TIMEOUT_S, f"node {node_id} is not {wanted}", 0.01)

    def _let_go(self) -> None:
        helpers = [self._helper.child] if self._helper and self._helper.child else []
        for child in [*self._children.values(), *helpers]:
            child.wait(STOP_TIMEOUT_S)
        self._leases.release()


def _is_gone(process: psutil.Process) -> bool:
    """Whether it has ended, be it that nobody has taken note yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
