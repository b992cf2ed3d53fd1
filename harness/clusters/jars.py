"""Java archives from Maven repositories, without Maven: resolved in Python, pinned, verified, cached.

What we ship is pinned: `targets/locks/<name>-<version>.lock` lists every archive with its SHA-256, so nothing has to be
resolved and nothing else can get in. Other versions are resolved once, each archive is verified against the checksum
its repository publishes, and the outcome is kept as a lock in the cache. Locked archives are verified again at every
use: a truncated or altered file in the cache is fetched anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import requests
import truststore

from harness.foundation.errors import CannotHere, TidegaugeError, UsageError
from harness.foundation.paths import PACKAGE, cache_dir
from harness.foundation.progress import Progress

if TYPE_CHECKING:
    from jgo.maven import Artifact, Component, MavenContext

DOWNLOADS_AT_ONCE = 8
ATTEMPTS = 3
TIMEOUT_S = 30


@dataclass(frozen=True)
class Jar:
    """One archive and the only content we accept for it."""

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def file_name(self) -> str:
        """As the repository names it."""
        return "-".join(part for part in (self.artifact, self.version, self.classifier) if part) + ".jar"

    @property
    def path(self) -> Path:
        """Where the cache keeps it, laid out as a Maven repository."""
        return _repository() / self.group.replace(".", "/") / self.artifact / self.version / self.file_name

    def line(self) -> str:
        """As a line of a lock."""
        return f"{self.group}:{self.artifact}:{self.version}:{self.classifier} sha256={self.sha256}"

    @classmethod
    def from_line(cls, line: str) -> Jar:
        """The inverse of `line`."""
        coordinate, _, digest = line.partition(" sha256=")
        group, artifact, version, classifier = coordinate.split(":")
        return cls(group, artifact, version, classifier, digest)


def locked_versions(name: str) -> list[str]:
    """The versions of a product that we ship a lock for, newest first."""
    found = (
        p.name.removeprefix(f"{name}-").removesuffix(".lock") for p in _shipped_locks().glob(f"{name}-[0-9]*.lock")
    )
    return sorted(found, key=lambda v: tuple(int(part) for part in v.split(".")), reverse=True)


def ensure_jars(
    name: str, version: str, coordinates: Iterable[str], exclude: Iterable[str], progress: Progress
) -> list[Path]:
    """All archives of a product, downloaded when missing and verified in any case, in a stable order."""
    coordinates, exclude = list(coordinates), list(exclude)
    inputs = inputs_line(coordinates, exclude)
    lock = _shipped_locks() / f"{name}-{version}.lock"
    if not _is_made_from(lock, inputs):
        lock = cache_dir() / "locks" / f"{name}-{version}.lock"
    if not _is_made_from(lock, inputs):
        progress.step(f"resolving {name} {version}")
        write_lock(lock, inputs, resolve(name, version, coordinates, exclude))
    jars = [Jar.from_line(line) for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        missing = [jar for jar, intact in zip(jars, pool.map(_intact, jars), strict=True) if not intact]
        if missing:
            progress.step(f"fetching {name} {version} ({len(missing)} archives)")
            with _trusting_this_machine():
                downloads = [pool.submit(_fetch, jar) for jar in missing]
                for done, download in enumerate(as_completed(downloads), start=1):
                    download.result()
                    progress.part(done, len(missing), "archives")
    return [jar.path for jar in jars]


def resolve(name: str, version: str, coordinates: Iterable[str], exclude: Iterable[str]) -> list[Jar]:
    """The transitive closure of `coordinates`, downloaded and verified against the repository's own checksums.

    Done in a scratch directory: half a file that an earlier attempt left must not decide what is resolved.
    """
    from jgo.maven import Dependency

    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch, _trusting_this_machine():
        context = _context(Path(scratch))
        excluded = [context.project(*coordinate.split(":")) for coordinate in exclude]
        wanted = [
            Dependency(context.project(group, artifact).at_version(wanted_version).artifact(), exclusions=excluded)
            for group, artifact, wanted_version in (coordinate.split(":") for coordinate in coordinates)
        ]
        try:
            inputs, transitive = context.resolver.resolve(wanted)
            with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
                jars = list(pool.map(_pin, [dependency.artifact for dependency in [*inputs, *transitive]]))
        except (requests.RequestException, ConnectionError) as error:
            raise _unreachable(f"{name} {version}", error) from error
        except RuntimeError as error:
            if not any(_is_absent(dependency.artifact.component) for dependency in wanted):
                raise _unreachable(f"{name} {version}", None) from error
            known = ", ".join(locked_versions(name))
            raise UsageError(
                f"{name} {version} is not in the Maven repository",
                f"choose a version that exists; these are tested: {known}" if known else "check the coordinates",
            ) from error
    return sorted(jars, key=lambda jar: jar.file_name)


def inputs_line(coordinates: Iterable[str], exclude: Iterable[str]) -> str:
    """The first line of a lock: what it was resolved from, so that a changed target does not get another's archives."""
    text = json.dumps([sorted(coordinates), sorted(exclude)])
    return f"# resolved from sha256={hashlib.sha256(text.encode()).hexdigest()}"


def write_lock(path: Path, inputs: str, jars: Iterable[Jar]) -> None:
    """Keep the outcome of a resolution; appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(f"{inputs}\n")
        file.writelines(f"{jar.line()}\n" for jar in jars)
    Path(file.name).chmod(0o644)
    Path(file.name).rename(path)


def _is_made_from(lock: Path, inputs: str) -> bool:
    try:
        with lock.open() as file:
            return file.readline().strip() == inputs
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _shipped_locks() -> Path:
    return PACKAGE / "clusters" / "targets" / "locks"


def _repository() -> Path:
    return cache_dir() / "maven"


def _context(repository: Path) -> MavenContext:
    from jgo.maven import MavenContext, PythonResolver

    mirror = os.environ.get("TIDEGAUGE_MAVEN_REPOSITORY")
    return MavenContext(
        resolver=PythonResolver(),
        repo_cache=repository,
        remote_repos={"mirror": mirror.rstrip("/")} if mirror else None,
        timeout=TIMEOUT_S,
    )


@contextmanager
def _trusting_this_machine() -> Iterator[None]:
    """Certificates are checked against the system's authorities, a company's own among them, and not a bundled list."""
    truststore.inject_into_ssl()
    try:
        yield
    finally:
        truststore.extract_from_ssl()


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _intact(jar: Jar) -> bool:
    return jar.path.exists() and _digest(jar.path, "sha256") == jar.sha256


def _fetch(jar: Jar) -> None:
    """Download beside the cache, verify, then move into place, so that no half file is ever found there."""
    last: Exception | None = None
    jar.path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
            component = _context(Path(scratch)).project(jar.group, jar.artifact).at_version(jar.version)
            try:
                fetched = component.artifact(jar.classifier).resolve()
            except (requests.RequestException, ConnectionError, RuntimeError) as error:
                last = error
                continue
            if _digest(fetched, "sha256") == jar.sha256:
                fetched.replace(jar.path)
                return
            last = ValueError("its checksum is not the pinned one")
    if isinstance(last, ValueError):
        raise TidegaugeError(
            f"{jar.file_name} was downloaded and refused ({last})",
            "check the repository or mirror it comes from; nothing was installed",
        )
    raise _unreachable(jar.file_name, last)


def _pin(artifact: Artifact) -> Jar:
    """Download one resolved artifact, verify it against the SHA-1 its repository publishes beside it, and keep it."""
    path = artifact.resolve()
    component, classifier = artifact.component, artifact.classifier or ""
    published = component.artifact(classifier, "jar.sha1").resolve().read_text().split()[0]
    if _digest(path, "sha1") != published:
        raise TidegaugeError(
            f"{path.name} does not have the checksum its repository publishes",
            "try again; if it stays so, do not trust the mirror in between",
        )
    version = component.resolved_version
    jar = Jar(component.groupId, component.artifactId, version, classifier, _digest(path, "sha256"))
    jar.path.parent.mkdir(parents=True, exist_ok=True)
    path.replace(jar.path)
    return jar


def _is_absent(component: Component) -> bool:
    """Whether every repository says that there is no such version, instead of failing to say anything."""
    place = f"{component.path_prefix.as_posix()}/{component.artifactId}-{component.version}.pom"
    repositories = component.context.remote_repos.values()
    try:
        codes = [requests.get(f"{base}/{place}", timeout=TIMEOUT_S).status_code for base in repositories]
    except requests.RequestException:
        return False
    return all(code == 404 for code in codes)


def _unreachable(what: str, error: Exception | None) -> CannotHere:
    return CannotHere(
        f"{what} could not be downloaded ({_first_line(error)})",
        "check the network and proxy settings, or set TIDEGAUGE_MAVEN_REPOSITORY to a mirror you can reach",
    )


def _first_line(error: Exception | None) -> str:
    if error is None:
        return "the repository does not answer as it should"
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
