"""What was made, written down before it is made, and how each kind is unmade.

The journal of a cluster is a file of JSON lines in the cluster's directory. Its writer flushes a line to disk before
the thing it names comes into being, so whoever reads it after a crash, at any moment, knows of everything that can
exist. Undoing is idempotent: a thing that never came, or is gone already, is not an error. What cannot be undone now
stays in the journal, with the directory, until somebody can.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from harness.clusters.disk import NodeDisk
from harness.foundation import namespaces as networks
from harness.foundation.namespaces import COMPOSE_PROJECT_LABEL
from harness.foundation.paths import clusters_dir, state_dir
from harness.foundation.ports import sweep_leases
from harness.foundation.processes import kill_marked

JOURNAL = "journal.jsonl"
FORGOTTEN = "forgotten"  # takes back an entry that was undone already
NETWORK_TIMEOUT_S = 4.0  # enough for a sidecar; the rest must not wait for a script that hangs
Entry = dict[str, str]


def record(directory: Path, entry: Entry) -> None:
    """Append to the journal, and return only when it is on disk."""
    with open(directory / JOURNAL, "a+b", opener=partial(os.open, mode=0o600)) as journal:
        if journal.tell():
            journal.seek(-1, os.SEEK_END)
            if journal.read() != b"\n":  # a full disk tore the line before; it must not swallow this one
                journal.write(b"\n")
        journal.write(f"{json.dumps(entry)}\n".encode())
        journal.flush()
        os.fsync(journal.fileno())


def read(directory: Path) -> list[Entry]:
    """The journal without what was forgotten since; a torn last line names something that was never made."""
    entries: list[Entry] = []
    try:
        lines = (directory / JOURNAL).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return entries
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("kind"), str) and isinstance(entry.get("value"), str):
            if entry["kind"] == FORGOTTEN:
                entries = [
                    each for each in entries if (each["kind"], each["value"]) != (entry.get("of"), entry["value"])
                ]
            else:
                entries.append(entry)
    return entries


def undo_all(directory: Path, patience_s: float = 60.0) -> list[str]:
    """Unmake everything in the journal, then the directory; what is left is returned, one sentence each."""
    deadline = time.monotonic() + patience_s
    while True:
        # the token needs no journal: processes of this cluster are found even if somebody deleted its directory
        left = _undo_once([{"kind": "processes", "value": directory.name}, *read(directory)])
        if not left:
            shutil.rmtree(directory, ignore_errors=True)
            _tidy()
            return [] if not directory.exists() else [f"the directory {directory} could not be removed"]
        if time.monotonic() > deadline:
            return left
        time.sleep(1)


def _tidy() -> None:
    """Leases of the dead, and directories that are empty now."""
    sweep_leases()
    for empty in (clusters_dir(), state_dir()):
        with contextlib.suppress(OSError):  # another cluster still lives there
            empty.rmdir()


def _undo_once(entries: list[Entry]) -> list[str]:
    left: list[str] = []
    for kind, undo in _UNDO.items():  # in this order: what could still make something is stopped first
        chosen = {entry["value"]: entry for entry in entries if entry["kind"] == kind}.values()
        with ThreadPoolExecutor(_AT_ONCE.get(kind, 1)) as pool:
            left += filter(None, pool.map(partial(_resists, undo), chosen))
    unknown = {entry["kind"] for entry in entries} - set(_UNDO)
    return [*left, *(f"do not know how to undo '{kind}'" for kind in sorted(unknown))]


def _resists(undo: Callable[[Entry], None], entry: Entry) -> str:
    """What an entry says that cannot be undone now; nothing when it could."""
    try:
        undo(entry)
    except Exception as error:  # noqa: BLE001 - one thing that resists must not keep the others alive
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return f"{entry['kind']} {entry['value']}: {reason}"
    return ""


def of_project(name: str) -> dict[str, str | list[str] | bool]:
    """Docker's filter for what compose made for one cluster."""
    return {"label": f"{COMPOSE_PROJECT_LABEL}={name}"}


def _remove_compose_project(entry: Entry) -> None:
    """Containers, networks and volumes with the label of the project, until none turns up any more."""
    import docker

    # the engine that was used, whatever DOCKER_HOST says now
    client = docker.from_env(timeout=20, environment={**os.environ, "DOCKER_HOST": entry["host"]})
    try:
        if client.info()["ID"] != entry["engine"]:
            raise OSError(f"another Docker engine answers at {entry['host']} now")
        mine = of_project(entry["value"])
        quiet = 0
        deadline = time.monotonic() + 30
        while quiet < 2:
            if time.monotonic() > deadline:
                raise TimeoutError("its containers cannot be removed")
            containers = client.containers.list(all=True, filters=mine, ignore_removed=True)
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(_ignoring_absence(lambda container: container.remove(force=True, v=True)), containers))
            rest = [*client.networks.list(filters=mine), *client.volumes.list(filters=mine)]
            list(map(_ignoring_absence(lambda thing: thing.remove()), rest))
            quiet = 0 if containers or rest else quiet + 1
            time.sleep(0.3)
    finally:
        client.close()


def _ignoring_absence(remove: Callable[[Any], None]) -> Callable[[Any], None]:
    import docker.errors

    def removed(thing: Any) -> None:
        try:
            remove(thing)
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            if error.status_code != 409:  # 409: its removal is in progress already; the next look tells
                raise

    return removed


def _mend_network(entry: Entry) -> None:
    networks.mend(networks.place_of(entry), entry["script"], NETWORK_TIMEOUT_S)


def _kill_processes(entry: Entry) -> None:
    kill_marked(entry["value"])


def _delete_network_namespace(entry: Entry) -> None:
    if Path("/run/netns", entry["value"]).exists():
        _ip("netns", "delete", entry["value"])


def _delete_link(entry: Entry) -> None:
    if Path("/sys/class/net", entry["value"]).exists():
        _ip("link", "delete", entry["value"])


def _thaw(entry: Entry) -> None:
    NodeDisk(Path(entry["image"]), Path(entry["value"])).thaw()


def _unmount(entry: Entry) -> None:
    NodeDisk(Path(entry["image"]), Path(entry["value"])).detach()


def _remove_shared(entry: Entry) -> None:
    Path(entry["value"]).unlink(missing_ok=True)


def _ip(*arguments: str) -> None:
    ran = subprocess.run(
        ["ip", *arguments], env=networks.with_system_path(), capture_output=True, text=True, timeout=10, check=False
    )
    if ran.returncode != 0:
        raise OSError(ran.stderr.strip() or f"ip {' '.join(arguments)} failed")


_UNDO: dict[str, Callable[[Entry], None]] = {
    "thaw": _thaw,  # before all others: nothing that waits for a frozen disk can be killed
    "network": _mend_network,
    "processes": _kill_processes,
    "compose": _remove_compose_project,
    "netns": _delete_network_namespace,
    "link": _delete_link,
    "shared": _remove_shared,
    "mount": _unmount,
}
_AT_ONCE = {"network": 8, "mount": 8}  # those of one kind that need not wait for each other; else one after the other
