"""Java archives: pinned, verified, fetched anew when damaged, never half there."""

from __future__ import annotations

import gc
import hashlib
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.clusters import jars
from harness.clusters.jars import Jar, ensure_jars, inputs_line, locked_versions, write_lock
from harness.clusters.target import load_target
from harness.foundation.errors import CannotHere, Exit, TidegaugeError, UsageError
from harness.foundation.progress import SilentProgress

# jgo leaves the connections of answers it does not read to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

CONTENT = b"an archive"
JAR = Jar("org.example", "thing", "1.0", "", hashlib.sha256(CONTENT).hexdigest())
COORDINATES = ["org.example:thing:1.0"]
INPUTS = inputs_line(COORDINATES, [])
URL = "/org/example/thing/1.0/thing-1.0.jar"
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>{g}</groupId><artifactId>{a}</artifactId>
<version>1.0</version><dependencies>{d}</dependencies></project>"""
NEEDS = "<dependency><groupId>org.other</groupId><artifactId>part</artifactId><version>1.0</version></dependency>"


class Repository:
    """A Maven repository on loopback: files by path, and every request that came."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.failures: list[int] = []
        self.cut_off = False
        self.asked: list[str] = []

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """One GET."""
        self.asked.append(request.path)
        code = self.failures.pop(0) if self.failures else 200 if request.path in self.files else 404
        body = self.files.get(request.path, b"") if code == 200 else b""
        request.send_response(code)
        request.send_header("Content-Length", str(len(body) + self.cut_off))
        request.end_headers()
        request.wfile.write(body)

    def publish(self, path: str, content: bytes) -> None:
        """A file, and its checksum beside it."""
        self.files[path] = content
        self.files[f"{path}.sha1"] = hashlib.sha1(content).hexdigest().encode()

    def publish_thing(self) -> None:
        """An artifact that needs another one."""
        for group, artifact, needs in (("org.example", "thing", NEEDS), ("org.other", "part", "")):
            base = f"/{group.replace('.', '/')}/{artifact}/1.0/{artifact}-1.0"
            self.publish(f"{base}.pom", POM.format(g=group, a=artifact, d=needs).encode())
            self.publish(f"{base}.jar", f"{artifact} {CONTENT.decode()}".encode())


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """A repository, a cache and locks of the test's own."""
    served = Repository()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "thing-1.0.lock").write_text(f"{INPUTS}\n# a comment\n\n{JAR.line()}\n")
    monkeypatch.setattr(jars, "_shipped_locks", lambda: tmp_path / "locks")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("TIDEGAUGE_HOME", raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setenv("TIDEGAUGE_MAVEN_REPOSITORY", f"http://127.0.0.1:{server.server_port}/")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        server.shutdown()
        thread.join()
    gc.collect()


def ensure(name: str = "thing") -> list[Path]:
    """The archives of a product: `thing` is locked, `free` is not."""
    return ensure_jars(name, "1.0", COORDINATES, [], SilentProgress())


def cached(tmp_path: Path) -> list[str]:
    """Every file in the cache."""
    return sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_a_missing_archive_is_fetched_once(repository: Repository) -> None:
    """It is put where Maven would put it; the second time nothing is asked for."""
    repository.publish(URL, CONTENT)
    (path,) = ensure()
    assert path.read_bytes() == CONTENT
    assert path == JAR.path
    repository.asked.clear()
    assert ensure() == [path]
    assert repository.asked == []


@pytest.mark.parametrize("damaged", [b"", b"an arch", b"an archivf", b"an archive "])
def test_a_damaged_archive_is_fetched_anew(repository: Repository, damaged: bytes) -> None:
    """Empty, truncated, altered or longer: every use verifies, and what is wrong is replaced."""
    repository.publish(URL, CONTENT)
    JAR.path.parent.mkdir(parents=True)
    JAR.path.write_bytes(damaged)
    assert ensure()[0].read_bytes() == CONTENT


def test_a_wrong_download_is_refused(repository: Repository, tmp_path: Path) -> None:
    """Even with a checksum that fits: only the pinned content gets in, and nothing else is left in the cache."""
    repository.publish(URL, b"something else")
    with pytest.raises(TidegaugeError, match=r"thing-1\.0\.jar was downloaded and refused") as caught:
        ensure()
    assert caught.value.exit_code == Exit.HARNESS_ERROR
    assert cached(tmp_path) == []


def test_a_wrong_download_does_not_replace_what_is_there(repository: Repository) -> None:
    """The damaged file stays damaged, and is refused again."""
    repository.publish(URL, b"something else")
    JAR.path.parent.mkdir(parents=True)
    JAR.path.write_bytes(b"old")
    with pytest.raises(TidegaugeError):
        ensure()
    assert JAR.path.read_bytes() == b"old"


def test_half_a_download_never_appears(repository: Repository, tmp_path: Path) -> None:
    """A connection that breaks leaves no file, neither at the place of the archive nor beside it."""
    repository.publish(URL, CONTENT)
    repository.cut_off = True
    with pytest.raises(CannotHere, match=r"thing-1\.0\.jar could not be downloaded"):
        ensure()
    assert cached(tmp_path) == []


def test_a_hiccup_is_tried_again(repository: Repository) -> None:
    """Two failures in a row are overcome."""
    repository.publish(URL, CONTENT)
    repository.failures = [503, 500]
    assert ensure()[0].read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["thing", "free"])
def test_an_unreachable_repository(repository: Repository, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Locked or not, it is this machine's trouble, and the remedy names the mirror's variable."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setenv("TIDEGAUGE_MAVEN_REPOSITORY", f"http://127.0.0.1:{bound.getsockname()[1]}")
        with pytest.raises(CannotHere, match=r"could not be downloaded.*TIDEGAUGE_MAVEN_REPOSITORY") as caught:
            ensure(name)
    assert caught.value.exit_code == Exit.CANNOT_HERE


def test_an_unknown_version_is_a_usage_error(repository: Repository, tmp_path: Path) -> None:
    """What the repository does not have was asked for wrongly; no lock is kept of it."""
    with pytest.raises(
        UsageError, match=r"thing 9\.9 is not in the Maven repository.*these are tested: 1\.0"
    ) as caught:
        ensure_jars("thing", "9.9", ["org.example:thing:9.9"], [], SilentProgress())
    assert caught.value.exit_code == Exit.USAGE
    assert not [name for name in cached(tmp_path) if name.endswith(".lock")]


def test_what_has_no_lock_is_resolved_once(repository: Repository, tmp_path: Path) -> None:
    """With everything it needs; the outcome is kept as a lock, and afterwards nothing is asked for."""
    repository.publish_thing()
    paths = ensure("free")
    assert [path.read_bytes() for path in paths] == [b"part an archive", b"thing an archive"]
    inputs, *lock = (tmp_path / "cache/tidegauge/locks/free-1.0.lock").read_text().splitlines()
    assert inputs == INPUTS
    assert [Jar.from_line(line).path for line in lock] == paths
    repository.asked.clear()
    assert ensure("free") == paths
    assert repository.asked == []


def test_what_is_excluded_is_left_out(repository: Repository) -> None:
    """An excluded artifact is not even fetched."""
    repository.publish_thing()
    paths = ensure_jars("free", "1.0", ["org.example:thing:1.0"], ["org.other:part"], SilentProgress())
    assert [path.name for path in paths] == ["thing-1.0.jar"]


@pytest.mark.parametrize("first", ["", "# a comment\n", f" {INPUTS}x\n", f"{inputs_line([], [])}\n"])
def test_a_shipped_lock_made_from_something_else_is_not_used(
    repository: Repository, tmp_path: Path, first: str
) -> None:
    """A lock without the right first line says nothing about what was asked for: it is resolved anew, and kept."""
    repository.publish_thing()
    shipped = tmp_path / "locks" / "thing-1.0.lock"
    shipped.write_text(f"{first}{JAR.line()}\n")
    paths = ensure()
    assert [path.read_bytes() for path in paths] == [b"part an archive", b"thing an archive"]
    assert shipped.read_text() == f"{first}{JAR.line()}\n"
    assert (tmp_path / "cache/tidegauge/locks/thing-1.0.lock").read_text().splitlines()[0] == INPUTS
    repository.asked.clear()
    assert ensure() == paths
    assert repository.asked == []


@pytest.mark.parametrize("name", ["thing", "free"])
def test_a_changed_target_does_not_get_the_archives_of_another(
    repository: Repository, tmp_path: Path, name: str
) -> None:
    """Shipped or cached, a lock serves only what it was resolved from; each change is resolved anew."""
    repository.publish_thing()
    repository.publish(URL, CONTENT)
    ensure(name)
    less = ensure_jars(name, "1.0", COORDINATES, ["org.other:part"], SilentProgress())
    assert [path.name for path in less] == ["thing-1.0.jar"]
    more = ensure_jars(name, "1.0", [*COORDINATES, "org.other:part:1.0"], [], SilentProgress())
    assert [path.name for path in more] == ["part-1.0.jar", "thing-1.0.jar"]
    lock = (tmp_path / f"cache/tidegauge/locks/{name}-1.0.lock").read_text()
    assert lock.splitlines()[0] == inputs_line([*COORDINATES, "org.other:part:1.0"], [])
    assert [path.name for path in ensure(name)] == (
        ["thing-1.0.jar"] if name == "thing" else ["part-1.0.jar", "thing-1.0.jar"]
    )


def test_inputs_may_be_given_once(repository: Repository) -> None:
    """An iterator that can be read a single time is enough for the comparison and the resolution."""
    repository.publish_thing()
    paths = ensure_jars("free", "1.0", iter(COORDINATES), iter(["org.other:part"]), SilentProgress())
    assert [path.name for path in paths] == ["thing-1.0.jar"]
    repository.asked.clear()
    assert ensure_jars("free", "1.0", iter(COORDINATES), iter(["org.other:part"]), SilentProgress()) == paths
    assert repository.asked == []


def test_the_first_line_of_a_lock() -> None:
    """A comment of one line; the order of coordinates does not matter, anything else does."""
    assert re.fullmatch(r"# resolved from sha256=[0-9a-f]{64}", INPUTS)
    assert inputs_line(["b", "a"], ["d", "c"]) == inputs_line(("a", "b"), iter(["c", "d"]))
    different = [([], []), (["a"], []), ([], ["a"]), (["a", "b"], []), (["a"], ["b"]), (["a, b"], []), (["a\n"], [])]
    assert len({inputs_line(*each) for each in different}) == len(different)


def test_a_lock_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """Others can read it; what breaks while it is written leaves the old one."""
    path = tmp_path / "deep" / "x.lock"
    write_lock(path, INPUTS, [JAR])
    assert path.read_text() == f"{INPUTS}\n{JAR.line()}\n"
    assert path.stat().st_mode & 0o777 == 0o644

    def breaking() -> Iterator[Jar]:
        yield JAR
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lock(path, "other", breaking())
    assert path.read_text() == f"{INPUTS}\n{JAR.line()}\n"


def test_a_resolved_archive_is_verified(repository: Repository, tmp_path: Path) -> None:
    """An archive that does not fit the published checksum is refused and removed, and no lock is kept."""
    repository.publish_thing()
    repository.files[URL] = b"altered on the way"
    with pytest.raises(TidegaugeError, match="does not have the checksum its repository publishes"):
        ensure("free")
    assert not [name for name in cached(tmp_path) if name.endswith(".lock") or name == "thing-1.0.jar"]


def test_half_a_pom_is_fetched_anew(repository: Repository) -> None:
    """A harness that was killed while resolving must not spoil that version for ever."""
    repository.publish_thing()
    pom = JAR.path.with_suffix(".pom")
    pom.parent.mkdir(parents=True)
    pom.write_text("<project><modelVersion>4.0.0</mod")
    assert len(ensure("free")) == 2


@pytest.mark.parametrize("code", [403, 500, 503])
def test_a_failing_repository_is_not_a_wrong_version(repository: Repository, code: int) -> None:
    """A mirror that is down or wants a password says nothing about the version."""
    repository.publish_thing()
    repository.failures = [code] * 20
    with pytest.raises(CannotHere):
        ensure("free")


def test_versions_are_sorted_as_numbers(repository: Repository, tmp_path: Path) -> None:
    """Newest first, and 1.10 is newer than 1.9."""
    for version in ("1.9", "1.10", "0.11.2"):
        (tmp_path / "locks" / f"thing-{version}.lock").touch()
    assert locked_versions("thing") == ["1.10", "1.9", "1.0", "0.11.2"]
    assert locked_versions("nothing") == []


@pytest.mark.parametrize(("classifier", "name"), [("", "thing-1.0.jar"), ("linux", "thing-1.0-linux.jar")])
def test_files_are_named_as_maven_names_them(classifier: str, name: str) -> None:
    """With a classifier where there is one."""
    assert Jar("g", "thing", "1.0", classifier, "0").file_name == name


@pytest.mark.parametrize("version", locked_versions("kafka"))
def test_every_shipped_lock_is_sound(version: str) -> None:
    """It was made from the shipped target; every other line is an archive with a SHA-256, none is there twice."""
    target = load_target("kafka", version)
    assert target.version == version
    assert target.java
    inputs, *lines = (jars._shipped_locks() / f"kafka-{version}.lock").read_text().splitlines()
    assert inputs == inputs_line(target.coordinates(), target.java.exclude)
    locked = [Jar.from_line(line) for line in lines]
    assert [jar.line() for jar in locked] == lines
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in locked)
    assert len({jar.path for jar in locked}) == len(locked)
    assert {jar.version for jar in locked if jar.group == "org.apache.kafka"} == {version}
    assert {"kafka-clients", "kafka_2.13", "slf4j-simple"} <= {jar.artifact for jar in locked}
    assert len([jar for jar in locked if jar.artifact.startswith("slf4j-") and jar.artifact != "slf4j-api"]) == 1
