"""Clusters that outlive the command that started them: bring up, find, look at, take down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from harness.clusters import wire
from harness.clusters.base import DESCRIPTION_FILE, LOG_TAIL_LINES, Cluster
from harness.clusters.cleanup.guard import is_watched, owner_of
from harness.clusters.detached_process import KEEP
from harness.clusters.kinds import kind_named
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.clusters.waiting import wait_until
from harness.foundation.errors import CannotHere, ClusterError, Exit, Interrupted, TidegaugeError, UsageError
from harness.foundation.paths import cluster_dirs, clusters_dir
from harness.foundation.processes import Identity
from harness.foundation.progress import Progress

DOWN_TIMEOUT_S = 90.0
OBEY_TIMEOUT_S = 10.0
ERRORS: dict[int, type[TidegaugeError]] = {Exit.USAGE: UsageError, Exit.CANNOT_HERE: CannotHere}


def bring_up(spec: ClusterSpec, progress: Progress) -> dict[str, Any]:
    """Start a cluster that stays; its description. Interrupted or failed, nothing of it is left."""
    holder = subprocess.Popen(
        [sys.executable, "-P", "-m", "harness.clusters.detached_process", "tidegauge"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    name = ""
    try:
        holder.stdin.write(spec.model_dump_json() + "\n")
        holder.stdin.flush()
        for line in holder.stdout:
            message = json.loads(line)
            if "step" in message:
                progress.step(message["step"])
            elif "detail" in message:
                progress.detail(message["detail"])
            elif "part" in message:
                progress.part(*message["part"])
            elif "name" in message:
                name = message["name"]
            elif "error" in message:
                _raise(message["error"])
            elif "up" in message:
                holder.stdin.write(KEEP + "\n")
                holder.stdin.flush()
                return dict(message["up"])
    except KeyboardInterrupt:
        holder.stdin.close()
        _wait_gone(clusters_dir() / name if name else None)
        raise Interrupted("stopped before the cluster was up", "everything it had started is gone") from None
    said = holder.stderr.read().splitlines() if holder.stderr else []
    code = holder.wait()
    _wait_gone(clusters_dir() / name if name else None)
    if code == -signal.SIGKILL:
        raise ClusterError("the harness of the cluster was killed", "everything it had started is gone; start it again")
    raise ClusterError(
        f"the harness of the cluster ended before the cluster was up (exit code {code})",
        "please report it with the lines below",
        tuple(said[-LOG_TAIL_LINES:]),
    )


def hold(spec: ClusterSpec, progress: Progress) -> Cluster:
    """Start a cluster that this very process holds."""
    cluster = make_cluster(spec, progress)
    cluster.held_by_tidegauge = True
    cluster.start()
    return cluster


@contextmanager
def removed_if_not_told(description: dict[str, Any]) -> Iterator[None]:
    """A cluster that stays, and whose name could not be written anywhere, is removed again."""
    try:
        yield
    except OSError:
        if description["harness_pid"] != os.getpid():  # one that we hold ourselves goes with us
            take_down(find(description["name"]))
        raise


@dataclass(frozen=True)
class Detached:
    """A cluster of some harness of this user."""

    directory: Path
    description: dict[str, Any]

    @property
    def name(self) -> str:
        """As `cluster down` takes it."""
        return self.directory.name


def running() -> list[Detached]:
    """The clusters that are up now."""
    found = []
    for directory in cluster_dirs():
        try:
            found.append(Detached(directory, json.loads((directory / DESCRIPTION_FILE).read_text())))
        except (OSError, ValueError):
            continue  # starting or stopping just now
    return found


def left_up() -> list[Detached]:
    """Those that `cluster up` started; others belong to programs that hold them through Python."""
    return [cluster for cluster in running() if cluster.description.get("held_by_tidegauge")]


def find(name: str | None) -> Detached:
    """A cluster by its name, or the only one there is."""
    clusters = running()
    names = ", ".join(cluster.name for cluster in clusters)
    if name is None:
        if len(clusters) == 1:
            return clusters[0]
        if not clusters:
            raise UsageError("no cluster is up", "start one with `tidegauge cluster up`")
        raise UsageError(f"{len(clusters)} clusters are up", f"name one of {names}")
    for cluster in clusters:
        if cluster.name == name:
            return cluster
    raise UsageError(f"there is no cluster '{name}'", f"up are: {names}" if names else "none is up")


def take_down(cluster: Detached) -> None:
    """Ask its harness to end, and wait until all of it is gone; one that does not obey is killed."""
    if not cluster.description.get("held_by_tidegauge"):
        raise UsageError(
            f"{cluster.name} belongs to the program with pid {cluster.description['harness_pid']}",
            "it is removed when that program ends",
        )
    owner = owner_of(cluster.directory)
    if owner is None and is_watched(cluster.directory):
        raise CannotHere(f"the harness of {cluster.name} runs in another container", "run this command there")
    if owner:
        _send(owner, signal.SIGTERM)
        try:
            _wait_gone(cluster.directory, OBEY_TIMEOUT_S)
        except ClusterError:
            _send(owner, signal.SIGKILL)  # stopped or hung; its supervisor does the rest
    _wait_gone(cluster.directory)


def health(cluster: Detached) -> list[dict[str, Any]]:
    """How each node answers, asked one by one."""
    nodes = cluster.description["nodes"]
    if cluster.description["security"] != "PLAINTEXT":
        return [{**node, "answers": None, "lists_brokers": None} for node in nodes]
    with ThreadPoolExecutor(max(1, len(nodes))) as pool:
        return list(pool.map(_ask, nodes))


def log_lines(cluster: Detached, node_id: int, lines: int) -> list[str]:
    """The last lines of a node's log."""
    known = [node["id"] for node in cluster.description["nodes"]]
    if node_id not in known:
        raise UsageError(f"there is no node {node_id} in {cluster.name}", f"its nodes are {known}")
    return kind_named(cluster.description["kind"]).log_lines(cluster.directory, node_id, lines)


def _ask(node: dict[str, Any]) -> dict[str, Any]:
    try:
        metadata = wire.ask_metadata(node["address"], timeout_s=3)
    except wire.WireError as error:
        return {**node, "answers": False, "why": str(error), "lists_brokers": 0}
    return {**node, "answers": True, "lists_brokers": len(metadata.brokers)}


def _raise(error: dict[str, Any]) -> NoReturn:
    kind = ERRORS.get(error["exit_code"], ClusterError)
    raise kind(error["message"], error["remedy"], tuple(line for note in error["notes"] for line in note.splitlines()))


def _send(owner: Identity, signal_number: signal.Signals) -> None:
    if owner.alive():
        with suppress(ProcessLookupError):
            os.kill(owner.pid, signal_number)


def _wait_gone(directory: Path | None, timeout_s: float = DOWN_TIMEOUT_S) -> None:
    if directory is None:
        return
    try:
        wait_until(lambda: not directory.exists(), timeout_s, "gone", every_s=0.05)
    except TimeoutError:
        raise ClusterError(
            f"{directory.name} is still there after {timeout_s:.0f} s", "try `cluster down` again"
        ) from None
