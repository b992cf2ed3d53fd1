"""Targets: a product under test, described by a TOML file instead of code.

A target says how one node is started, as a process (`[process]`) or as a container (`[container]`), which ports it
needs, which files it reads, how we know that it is ready, and what its log lines mean. Apache Kafka is a target like
any other (`harness/clusters/targets/kafka.toml`). `docs/targets.md` is the page for users.

What text in a target may hold beside plain words, placeholders and loops, is in `harness.clusters.template`.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from harness.clusters.jars import locked_versions
from harness.foundation.config import Model, parse, read_toml, suggestion
from harness.foundation.errors import UsageError
from harness.foundation.paths import PACKAGE

VERSION = r"^[0-9]+(\.[0-9]+){1,3}$"


ReadyKind = Literal["kafka", "answers", "port"]


@dataclass(frozen=True)
class ReadyCheck:
    """`kafka`: Metadata lists every node; `answers`: it answers Metadata at all; `port`: it accepts connections."""

    kind: ReadyKind
    timeout_s: float
    settle_s: float = 0.0  # how long it is left alone after that


# what a command line and an environment can carry
Word = Annotated[str, Field(pattern=r"^[^\x00]*$")]
FileName = Annotated[str, Field(pattern=r"^[^/\x00][^\x00]*$")]
VariableName = Annotated[str, Field(pattern=r"^[^=\x00]+$")]


class JavaPart(Model):
    """A product that runs on Java: its archives come from a Maven repository."""

    minimum: int = 17
    maximum: int | None = None  # the newest Java that it runs on, where newer ones are too new
    jars: tuple[Annotated[str, Field(pattern=r"^[^:\s]+:[^:\s]+:[^:\s]+$")], ...] = Field(min_length=1)
    exclude: tuple[Annotated[str, Field(pattern=r"^[^:\s]+:[^:\s]+$")], ...] = ()

    @model_validator(mode="after")
    def _some_java(self) -> JavaPart:
        if self.maximum is not None and self.maximum < self.minimum:
            raise ValueError(f"no Java is at least {self.minimum} and at most {self.maximum}")
        return self


class OncePart(Model):
    """Run one time per version in an empty directory; the files it leaves are given to every node."""

    command: tuple[Word, ...] = Field(min_length=1)
    files: dict[FileName, str] = {}
    keep: tuple[FileName, ...] = Field(min_length=1)


class ProcessPart(Model):
    """One node as a plain process."""

    command: tuple[Word, ...] = Field(min_length=1)
    env: dict[VariableName, Word] = {}
    files: dict[FileName, str] = {}
    data: FileName | None = None  # where it keeps its data, in its directory
    serves_all_nodes: bool = False  # one process is the whole cluster: no fault can hit one node of it


class HelperPart(Model):
    """A process that all nodes need and that is none of them, as ZooKeeper is: started before them, on one port."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")
    command: tuple[Word, ...] = Field(min_length=1)
    files: dict[FileName, str] = {}


class ContainerPart(Model):
    """One node as a container: Apache Kafka by our compose file, any other product by `image` and its settings."""

    compose: Literal["docker-compose.yml"] | None = None
    image: str | None = Field(default=None, min_length=1)
    command: tuple[Word, ...] = ()
    env: dict[VariableName, Word] = {}
    files: dict[FileName, str] = {}
    data: Annotated[str, Field(pattern=r"^/[^\x00]*$")] | None = None  # where it keeps its data, inside

    @model_validator(mode="after")
    def _one_way(self) -> ContainerPart:
        if (self.compose is None) == (self.image is None):
            raise ValueError("[container] needs either 'compose' or 'image', not both")
        return self


_RARE = re.compile(r"\(\?(?!P<|:)|\\[A-Za-ce-rt-vx-z0-9]")  # what few patterns have, and few engines


def is_understood(pattern: str) -> bool:
    """Whether the engine that reads logs knows all of a pattern that Python knows."""
    if not _RARE.search(pattern):
        return True
    import polars as pl

    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.ComputeError:
        return False
    return True


class Target(Model):
    """A product under test."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")
    version: str = Field(default="unknown", pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")
    nodes: int = Field(default=3, ge=1, le=9)
    ports: tuple[Annotated[str, Field(pattern=r"^[a-z0-9_-]+$")], ...] = Field(default=("kafka",), min_length=1)
    client_port: str = ""
    ready: ReadyKind = "kafka"
    ready_timeout_s: float = Field(default=120, gt=0)
    settle_s: float = Field(default=0, ge=0, le=600)  # after all nodes are ready
    start_delay_s: float = Field(default=0, ge=0, le=600)  # between the starts of two nodes
    stateless: bool = False  # any node may lead anything: the data lies elsewhere
    java: JavaPart | None = None
    once: OncePart | None = None
    helper: HelperPart | None = None
    process: ProcessPart | None = None
    container: ContainerPart | None = None
    logs: dict[str, str] = {}
    before: dict[Annotated[str, Field(pattern=VERSION)], str] = {}  # versions before this one are another target's

    @field_validator("logs")
    @classmethod
    def _logs_compile(cls, logs: dict[str, str]) -> dict[str, str]:
        for name, pattern in logs.items():
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"the pattern of '{name}' is not a regular expression: {error}") from None
            if not is_understood(pattern):
                raise ValueError(
                    f"the pattern of '{name}' has what the engine that reads logs does not know: it never goes back,"
                    r" so there is no looking around, (?=…) or (?<!…), and no going back to a group, (?P=…) or \1"
                )
        return logs

    @model_validator(mode="after")
    def _complete(self) -> Target:
        if self.process is None and self.container is None:
            raise ValueError("a target needs a [process] or a [container] table")
        if self.helper is not None and self.process is None:
            raise ValueError("a [helper] serves nodes that are processes, and there is no [process] table")
        if self.client_port and self.client_port not in self.ports:
            raise ValueError(f"client_port '{self.client_port}' is not one of the ports {list(self.ports)}")
        return self

    def check_ports(self, ports: tuple[int, ...]) -> None:
        """Refuse client ports that are not one per node."""
        if ports and len(ports) != self.nodes:
            raise UsageError(f"{len(ports)} ports were given for {self.nodes} nodes", "give one port per node")

    def coordinates(self) -> list[str]:
        """The Maven coordinates of its archives, at its version."""
        return [jar.replace("{version}", self.version) for jar in self.java.jars] if self.java else []

    @property
    def ready_check(self) -> ReadyCheck:
        """How we know that a node is ready."""
        return ReadyCheck(self.ready, self.ready_timeout_s, self.settle_s)

    @property
    def kafka_port(self) -> str:
        """The name of the port that clients use."""
        return self.client_port or self.ports[0]


def load_target(name_or_file: str, version: str | None = None) -> Target:
    """A target by the name of one that we ship or by the path of a file; `version` overrides its version."""
    path = _file_of(name_or_file)
    target = parse(Target, _extended(read_toml(path), path), str(path))
    if version is None:
        return target
    if target.java is None:
        raise UsageError(f"--kafka-version does not apply to the target '{target.name}'", "change its file instead")
    for bound, older in target.before.items():
        if re.fullmatch(VERSION, version) and _numbers(version) < _numbers(bound):
            return load_target(older, version)
    return target.model_copy(update={"version": _full_version(target.name, version)})


def _file_of(name_or_file: str) -> Path:
    shipped = {path.stem: path for path in (PACKAGE / "clusters" / "targets").glob("*.toml")}
    if name_or_file in shipped:
        return shipped[name_or_file]
    if name_or_file.endswith(".toml") or "/" in name_or_file:
        return Path(name_or_file)
    raise UsageError(f"there is no target '{name_or_file}'", suggestion(name_or_file, list(shipped)))


def _extended(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """A target that extends another one has all of that, but for its own keys and the text it adds to files."""
    if "extends" not in data:
        return data
    below = _file_of(str(data["extends"]))
    base = _extended(read_toml(below), below)
    own = {key: value for key, value in data.items() if key not in {"extends", "append"}}
    files = dict(base.get("process", {}).get("files", {}))
    for name, text in data.get("append", {}).items():
        if name not in files:
            raise UsageError(f"{path}: '{data['extends']}' has no file '{name}'", suggestion(name, list(files)))
        files[name] = f"{files[name].rstrip()}\n{str(text).strip()}\n"
    return {**base, "process": {**base.get("process", {}), "files": files}, **own}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _full_version(name: str, asked: str) -> str:
    """4.1 means the newest 4.1.x we know."""
    if not re.fullmatch(VERSION, asked):
        examples = locked_versions(name) or ["1.2.3"]
        raise UsageError(f"'{asked}' is not a version", f"write it like {examples[0]}")
    for known in locked_versions(name):
        if known == asked or (asked.count(".") == 1 and known.startswith(f"{asked}.")):
            return known
    return asked


def inside(directory: Path, name: str) -> Path:
    """The place of a target's file, which must lie in the directory it is meant for."""
    path = (directory / name).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise UsageError(f"the file '{name}' of the target lies outside the node's directory", "use a relative name")
    return path


def write_inside(directory: Path, name: str, content: str | bytes) -> None:
    """Write a file of a target."""
    path = inside(directory, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def copy_inside(directory: Path, name: str, source: Path) -> None:
    """Put a copy of a file there, which can be executed if the file can."""
    path = inside(directory, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, path)
