"""The Docker engine of this machine: where it is, whether it answers, and whether it shares our files."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from functools import cache
from pathlib import Path

import docker
import requests
from docker.context import ContextAPI
from docker.errors import APIError, DockerException

from harness.clusters.cleanup.guard import Guard
from harness.foundation.errors import CannotHere
from harness.foundation.namespaces import (
    COMPOSE_PROJECT_LABEL,
)
from harness.foundation.paths import clusters_dir

NO_COMMAND, GET_COMMAND = "the command `docker` is missing", "install the Docker command line with its compose plugin"
PING_TIMEOUT_S = 5
UNIX = "unix://"


def endpoint() -> str:
    """Where the Docker engine is: DOCKER_HOST, or what the current context of its command line says."""
    found = os.environ.get("DOCKER_HOST") or ContextAPI.kwargs_from_context().get("base_url")
    return str(found or "unix:///var/run/docker.sock")


def connect(timeout_s: int = 60) -> docker.DockerClient:
    """The Docker engine of this machine, or why it cannot be used."""
    where = "unknown"
    try:
        where = endpoint()
        _knock(where)
        docker.from_env(timeout=PING_TIMEOUT_S, environment={**os.environ, "DOCKER_HOST": where}).close()
        client = docker.from_env(timeout=timeout_s, environment={**os.environ, "DOCKER_HOST": where})
        client.ping()
    except (DockerException, requests.RequestException, OSError) as error:
        reason = reason_of(error)
        get = "join the group that owns the socket" if "Permission denied" in reason else "start the Docker engine"
        raise CannotHere(
            f"Docker does not answer at {where} ({reason})",
            f"{get}, set DOCKER_HOST, or use --cluster local, which needs no Docker",
        ) from error
    return client


def _knock(where: str) -> None:
    """Fail where nobody listens: the SDK would leave its socket to the garbage collector."""
    if where.startswith(UNIX):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(PING_TIMEOUT_S)
            probe.connect(where.removeprefix(UNIX))


def compose_version() -> str:
    """The version of compose, which has to be the second generation."""
    if shutil.which("docker") is None:
        raise CannotHere(NO_COMMAND, GET_COMMAND)
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


def may_be_here(engine: docker.DockerClient) -> bool:
    """Whether the engine looks like one of this machine: by its socket, its kernel, and no other users in between."""
    info = engine.info()
    apart = [option for option in info.get("SecurityOptions") or [] if "rootless" in option or "userns" in option]
    same_kernel = info["KernelVersion"] == os.uname().release
    return endpoint().startswith("unix://") and not apart and same_kernel and Path(info["DockerRootDir"]).is_dir()


@cache
def shares_files(where: str, engine_id: str) -> bool:
    """Whether a volume with a name that there never was turns up among our files; it is in a journal, and gone soon."""
    name = f"trial-{secrets.token_hex(8)}"
    guard = Guard(clusters_dir() / name)
    try:
        guard.record(kind="compose", value=name, host=where, engine=engine_id)
        volume = connect().volumes.create(name, labels={COMPOSE_PROJECT_LABEL: name})
        return Path(volume.attrs["Mountpoint"]).is_dir()
    finally:
        guard.release()


def reason_of(error: Exception) -> str:
    """The innermost cause in a few words: the SDK wraps it several times."""
    cause: BaseException = error
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    text = error.explanation if isinstance(error, APIError) else str(cause)
    return str(text).strip().splitlines()[0] if str(text).strip() else type(cause).__name__
