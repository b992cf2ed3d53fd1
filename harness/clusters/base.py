"""The one interface of all clusters, and what they share: getting ready, describing themselves, ending cleanly."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar, Self

from harness.clusters import failed_start, wire
from harness.clusters.cleanup.guard import Guard
from harness.clusters.disk import NodeDisk
from harness.clusters.node import OURS, Capability, Description, Node, NodeState, Unavailable, new_uuid
from harness.clusters.target import ReadyCheck
from harness.clusters.waiting import wait_until
from harness.foundation import optional_work
from harness.foundation.errors import CannotHere, ClusterError, NodeDied, TidegaugeError, UsageError
from harness.foundation.paths import cache_dir, clusters_dir, nearest, state_dir
from harness.foundation.progress import Progress, SilentProgress
from harness.foundation.security import Security

DESCRIPTION_FILE = "cluster.json"
FREE_DISK_BYTES = 300 * 1024 * 1024
LOG_TAIL_LINES = 15
PROBE_TIMEOUT_S = 2.0
ODD_AT_MOST_S = 30.0  # for nodes that all answer, though not as they should: more time does not make them
SETTLE_LOOK_S = 0.5


class Cluster(ABC):
    """Three nodes that can be started, stopped, killed, paused, resumed and restarted, each by its number.

    Used as a context manager it is up inside the block and gone, with everything it made, after it.
    """

    kind: str  # the name of its kind
    nodes_are_ours: ClassVar[bool] = True  # to be broken, and to be asked one by one for what they hold
    stays: ClassVar[bool] = False  # when the run is over, so that the run has to remove what it made there

    def __init__(self, product: str, version: str, ready: ReadyCheck, progress: Progress | None = None) -> None:
        self.product = product
        self.version = version
        self.security = Security()
        self.progress: Progress = progress or SilentProgress()
        self.held_by_tidegauge = False
        self.stateless = False  # whether any node may lead anything
        self._ready = ready
        self._id_is_ours = False  # whether we gave the nodes their cluster's id, so that another one is a stranger's
        self.name = f"{self.kind}-{secrets.token_hex(4)}"
        self.cluster_id = new_uuid()
        self.nodes: tuple[Node, ...] = ()
        self.ready_after_s = 0.0
        self._guard: Guard | None = None
        self._held: dict[int, set[str]] = {}  # nodes that are held down, and by whom
        self._holding = threading.RLock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # what each kind does in its own way

    @property
    @abstractmethod
    def capabilities(self) -> frozenset[Capability]:
        """What can be done to the nodes of this cluster, on this machine."""

    @abstractmethod
    def _bring_up(self) -> None:
        """Make everything and start every node; `nodes` is set afterwards."""

    @abstractmethod
    def stop_node(self, node_id: int) -> None:
        """Stop a node in good order."""

    @abstractmethod
    def kill(self, node_id: int) -> None:
        """SIGKILL a node."""

    @abstractmethod
    def pause(self, node_id: int) -> None:
        """Freeze a node: it answers nothing, its connections stay open."""

    @abstractmethod
    def resume(self, node_id: int) -> None:
        """Let a paused node go on."""

    @abstractmethod
    def start_node(self, node_id: int) -> None:
        """Start a node that was stopped or killed, on its old data and addresses."""

    @abstractmethod
    def state(self, node_id: int) -> NodeState:
        """How the node is now."""

    @abstractmethod
    def log_tail(self, node_id: int, lines: int = LOG_TAIL_LINES) -> list[str]:
        """The last lines of the node's log."""

    # what faults need

    def cannot(self, capability: Capability) -> Unavailable | None:
        """Why this cannot be had on this cluster, even when it is equipped for it; None when it can. Need not be up."""
        if capability in self.capabilities | OURS:
            return None
        return Unavailable(
            f"a {self.kind} cluster cannot do that ({capability})", "use --cluster docker, which can do most"
        )

    def equip(self, needs: Collection[Capability]) -> None:  # noqa: B027 - not every kind has to
        """Before the start: give every node what faults with these needs are made with."""

    @property
    def listeners(self) -> frozenset[str]:
        """The names of the ports that every node listens on."""
        return frozenset()

    def inner_port(self, node_id: int, listener: str) -> int:  # noqa: ARG002 - for those that can
        """The number of a port as the node itself sees it."""
        raise self._has_no("ports that are known", node_id)

    def peer_address(self, node_id: int) -> str:
        """The IP address by which the other nodes reach this one."""
        raise self._has_no("network of its own", node_id)

    def inside(self, node_id: int, script: str) -> str:  # noqa: ARG002 - for those that can
        """What a shell script prints that runs in the network namespace of the node, with the right to change it."""
        raise self._has_no("network of its own", node_id)

    def break_network(self, node_id: int, name: str, script: str, undo: str) -> None:  # noqa: ARG002 - for those that can
        """Run the script inside; `undo`, which has to be idempotent, is in the journal before that happens."""
        raise self._has_no("network of its own", node_id)

    def mend_network(self, node_id: int, name: str) -> None:  # noqa: ARG002 - for those that can
        """Run the `undo` of that name; nothing to do where the network is gone, or another one since."""
        raise self._has_no("network of its own", node_id)

    def data_dir(self, node_id: int) -> Path:
        """Where the node's data lies, as seen from here."""
        raise self._has_no("data that can be reached", node_id)

    def disk(self, node_id: int) -> NodeDisk:
        """The file system that the node's data lies on."""
        raise self._has_no("disk of its own", node_id)

    def set_clock(self, node_id: int, ahead_s: float) -> None:  # noqa: ARG002 - for those that can
        """Let the node's clock be that much ahead of the real one, or behind it."""
        raise self._has_no("clock of its own", node_id)

    def hold_down(self, node_id: int, by: str) -> None:
        """From now on nobody starts the node, be it dead already or not, until whoever holds it lets it up."""
        with self._holding:
            self._held.setdefault(node_id, set()).add(by)

    def let_up(self, node_id: int, by: str) -> None:
        """Take that back."""
        with self._holding:
            self._held.get(node_id, set()).discard(by)

    def is_held_down(self, node_id: int, but: str = "") -> bool:
        """Whether anybody, or anybody but this one, holds the node down."""
        with self._holding:
            return bool(self._held.get(node_id, set()) - {but})

    def start_unless_held(self, node_id: int) -> None:
        """Start a node, or leave it to those who hold it down."""
        with self._holding:  # nobody takes hold of it while it starts
            if not self.is_held_down(node_id):
                self.start_node(node_id)

    def _has_no(self, what: str, node_id: int) -> ClusterError:
        return ClusterError(f"node {node_id} of {self.name} has no {what}", "equip the cluster for it before it starts")

    # what they share

    @property
    def bootstrap(self) -> str:
        """All client addresses, comma-separated."""
        return ",".join(node.address for node in self.nodes)

    @property
    def addresses(self) -> frozenset[str]:
        """Where it is; what its nodes say lies elsewhere is not a part of it."""
        return frozenset(node.address for node in self.nodes)

    @property
    def directory(self) -> Path:
        """Everything on disk that belongs to this cluster."""
        return clusters_dir() / self.name

    @property
    def guard(self) -> Guard:
        """Where everything is recorded before it is made."""
        if self._guard is None:
            raise ClusterError(f"the cluster {self.name} is not up", "call start() first")
        return self._guard

    def start(self) -> None:
        """Bring the cluster up and wait until it is ready; when that fails, nothing of it is left."""
        self.check_place()
        self._guard = Guard(self.directory)
        began_at = time.monotonic()
        try:
            self._bring_up()
            self.wait_until_ready()
            self._settle()
            self.ready_after_s = round(time.monotonic() - began_at, 1)
            self._write_description()
        except BaseException as error:
            optional_work.give_up()
            if isinstance(error, ClusterError):
                failed_start.keep_logs(self.name, self.nodes, self.log_tail, error)
            try:
                self.stop()
            except TidegaugeError as second:
                error.add_note(str(second))
            raise

    def stop(self) -> None:
        """Remove the cluster and all it made."""
        guard, self._guard = self._guard, None
        if guard is not None:
            with ExitStack() as undo:
                undo.callback(self._let_go)
                undo.callback(guard.release)
                self._take_leave()

    def describe(self) -> Description:
        """The cluster as other programs see it."""
        return Description(
            name=self.name,
            kind=self.kind,
            product=self.product,
            version=self.version,
            security=self.security.protocol,
            cluster_id=self.cluster_id,
            bootstrap=self.bootstrap,
            nodes=list(self.nodes),
            capabilities=sorted(self.capabilities),
            directory=str(self.directory),
            harness_pid=os.getpid(),
            held_by_tidegauge=self.held_by_tidegauge,
            stateless=self.stateless,
            ready_after_s=self.ready_after_s,
        )

    def node(self, node_id: int) -> Node:
        """A node by its number."""
        for node in self.nodes:
            if node.id == node_id:
                return node
        known = ", ".join(str(node.id) for node in self.nodes)
        raise UsageError(f"there is no node {node_id} in {self.name}", f"its nodes are {known}")

    def wait_until_ready(self) -> None:
        """Until the target's ready check holds on every node; a node that dies meanwhile ends the wait with its log.

        Nodes that all answer, but with Metadata that cannot be true, are taken as they are: that is for the verdict.
        """
        self.progress.step(f"waiting for {len(self.nodes)} nodes of {self.product} {self.version}")
        missing: dict[int, str] = {}
        odd_since_s: float | None = None

        def ready() -> bool:
            nonlocal odd_since_s
            self._fail_if_a_node_died()
            missing.clear()
            missing.update(self._not_ready())
            self.progress.part(len(self.nodes) - len(missing), len(self.nodes), "ready")
            if not missing or not all(isinstance(why, _Odd) for why in missing.values()):
                odd_since_s = None
                return not missing
            odd_since_s = time.monotonic() if odd_since_s is None else odd_since_s
            return time.monotonic() - odd_since_s >= ODD_AT_MOST_S

        try:
            wait_until(ready, self._ready.timeout_s, "ready")
        except TimeoutError:
            first, why = next(iter(missing.items()))
            raise ClusterError(
                f"the cluster was not ready after {self._ready.timeout_s:.0f} s (node {first}: {why})",
                "its last log lines are below; a busy machine may need a longer ready_timeout_s in the target",
                log_tail=tuple(self.log_tail(first)),
            ) from None

    def _settle(self) -> None:
        """Leave nodes alone that are ready but not themselves yet; none may die meanwhile."""
        if not self._ready.settle_s:
            return
        self.progress.step(f"waiting {self._ready.settle_s:g} s for the nodes to settle")
        ends_at = time.monotonic() + self._ready.settle_s
        while time.monotonic() < ends_at:
            self._fail_if_a_node_died()
            time.sleep(min(SETTLE_LOOK_S, self._ready.settle_s))

    def check_place(self) -> None:
        """Refuse to start where brokers would die within seconds: on a full disk, or in a path they cannot be told."""
        for path in (state_dir(), cache_dir()):
            if not path.as_posix().isascii() or any(letter in path.as_posix() for letter in ",:\\\n"):
                raise UsageError(
                    f"the path {path} holds letters that broker settings and class paths cannot carry",
                    "set TIDEGAUGE_HOME to a directory without commas, colons, backslashes and accents",
                )
        place = nearest(state_dir())
        free_bytes = shutil.disk_usage(place).free
        if free_bytes < FREE_DISK_BYTES:
            raise CannotHere(
                f"the disk is full: {free_bytes // 2**20} MiB are free at {place} and a cluster needs "
                f"{FREE_DISK_BYTES // 2**20}",
                "free some space, or set TIDEGAUGE_HOME to a directory on another disk",
            )

    def _not_ready(self) -> dict[int, str]:
        """The nodes for which the ready check does not hold yet, with the reason."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            reasons = pool.map(self._why_not_ready, self.nodes)
        return {node.id: reason for node, reason in zip(self.nodes, reasons, strict=True) if reason}

    def _why_not_ready(self, node: Node) -> str:
        try:
            if self._ready.kind == "port":
                wire.NodeConnection(node.address, PROBE_TIMEOUT_S).__exit__()
                return ""
            metadata = wire.ask_metadata(node.address, PROBE_TIMEOUT_S)
        except wire.WireError as error:
            return str(error)
        if self._ready.kind == "answers":
            return ""
        if len(metadata.brokers) < len(self.nodes):
            return _Odd(f"its Metadata lists {len(metadata.brokers)} of {len(self.nodes)} brokers")
        if metadata.controller_id < 0:
            return _Odd("it knows of no controller")
        found = metadata.cluster_id or ""
        if self._id_is_ours and found != self.cluster_id:
            raise ClusterError(
                f"another cluster answers on our ports (id {found}, ours is {self.cluster_id})",
                "stop it, or choose other ports",
            )
        self.cluster_id = found
        return ""

    def _fail_if_a_node_died(self) -> None:
        for node in self.nodes:
            if self.state(node.id) is NodeState.DEAD:
                raise NodeDied(
                    f"node {node.id} of {self.name} died during start-up",
                    "its last log lines are below",
                    log_tail=tuple(self.log_tail(node.id)),
                )

    def _take_leave(self) -> None:  # noqa: B027 - as below
        """Do what needs the nodes once more before they are removed."""

    def _let_go(self) -> None:  # noqa: B027 - most kinds have something, none has to
        """Give back what belongs to this process alone, when the rest is gone."""

    def _write_description(self) -> None:
        unfinished = self.directory / f"{DESCRIPTION_FILE}.new"
        unfinished.write_text(json.dumps(self.describe().as_json(), indent=2))
        unfinished.rename(self.directory / DESCRIPTION_FILE)


class _Odd(str):
    """Why a node is not ready that answers Metadata."""

    __slots__ = ()
