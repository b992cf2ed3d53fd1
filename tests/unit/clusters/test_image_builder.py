"""The image made here: what its entrypoint reads from the environment, and what goes into it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.clusters.image_builder import Entry, digest, local_tag, parse_ldd, root_filesystem, write_tar
from harness.clusters.target import load_target
from harness.foundation.errors import CannotHere
from harness.foundation.paths import PACKAGE, compose_file

LDD = """\
/usr/bin/env:
\tlinux-vdso.so.1 (0x00007fe17d40f000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f29a5e3c000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f29a6050000)
/opt/java/lib/libnio.so:
\tlibjvm.so => not found
\tlibnet.so => /opt/java runtime/lib/libnet.so (0x00007f5d20c43000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f5d20a4e000)
/bin/static:
\tnot a dynamic executable
"""


def properties(**environment: str) -> dict[str, str]:
    """What the entrypoint makes of an environment, read back by the rules of java.util.Properties."""
    ran = subprocess.run(
        ["sh", PACKAGE / "clusters" / "entrypoint.sh"],
        env={"PATH": os.environ["PATH"], "TIDEGAUGE_ENTRYPOINT_DRY_RUN": "1", **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    escapes = {"n": "\n", "r": "\r"}
    found = {}
    for line in re.split("[\r\n]+", ran.stdout.rstrip("\n")):
        key, _, value = line.partition("=")
        value = value.lstrip(" \t\f")
        found[key] = re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[1]), value)
    return found


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_LOG4JX", "log4jx"),
        ("KAFKA_A__B", "a_b"),
        ("KAFKA_A___B", "a-b"),
        ("KAFKA_A_B__C___D_E9", "a.b_c-d.e9"),
    ],
)
def test_a_variable_names_a_property(variable: str, name: str) -> None:
    """One, two and three underscores are a dot, an underscore and a hyphen, as in the apache/kafka image."""
    assert properties(**{variable: "x"})[name] == "x"


def test_settings_of_java_are_no_properties() -> None:
    """Options for Java and for logging, and variables of anything else, stay out of server.properties."""
    skipped = (
        "KAFKA_OPTS KAFKA_HEAP_OPTS KAFKA_JVM_PERFORMANCE_OPTS KAFKA_GC_LOG_OPTS KAFKA_JMX_OPTS KAFKA_JMX_PORT "
        "KAFKA_LOG4J_OPTS KAFKA_LOG4J_ROOT_LOGLEVEL KAFKA_TOOLS_LOG4J_LOGLEVEL KAFKA_VERSION CLUSTER_ID NOT_KAFKA_X"
    )
    assert properties(**dict.fromkeys(skipped.split(), "x")) == {"log.dirs": "/tmp/kraft-combined-logs"}


@pytest.mark.parametrize(
    "value",
    [
        "",
        "a=b=c",
        "=",
        "  two leading and trailing blanks  ",
        "\ttab",
        "back\\slash\\",
        "$(exit 3) `exit 3` ${HOME} $$ 'quoted' \"twice\" * ; & | #!",
        "first\nKAFKA_INJECTED=1\ninjected=1",
        "carriage\rinjected=1",
        "CLIENT://:9092,BROKER://:9093",
    ],
)
def test_a_value_arrives_as_it_is(value: str) -> None:
    """No value is run, split, trimmed or able to set another property."""
    assert properties(KAFKA_X=value) == {"x": value, "log.dirs": "/tmp/kraft-combined-logs"}


def test_the_data_directory_can_be_moved() -> None:
    """KAFKA_LOG_DIRS replaces the default directory."""
    assert properties(KAFKA_LOG_DIRS="/data") == {"log.dirs": "/data"}


def test_a_node_without_cluster_id_says_so() -> None:
    """Without CLUSTER_ID nothing is formatted or started."""
    entrypoint = PACKAGE / "clusters" / "entrypoint.sh"
    ran = subprocess.run(
        ["sh", entrypoint], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=30, check=False
    )
    assert ran.returncode != 0
    assert "CLUSTER_ID" in ran.stderr


def test_the_compose_file_has_the_settings_of_the_target() -> None:
    """A containerised node and a process run with the same properties, but for addresses and directories."""
    target = load_target("kafka")
    assert target.process is not None
    compose = compose_file().read_text()
    for line in target.process.files["server.properties"].split():
        name, _, value = line.partition("=")
        if "{" not in value:
            variable = f"KAFKA_{name.replace('.', '_').upper()}"
            assert re.search(rf'^ +{variable}: "?{re.escape(value)}"?$', compose, re.MULTILINE), line
    assert f"apache/kafka:{target.version}}}" in compose


def test_ldd_is_read() -> None:
    """Each library once, the loader by its path; what is virtual, static or missing is left out."""
    assert parse_ldd(LDD) == {
        "libc.so.6": Path("/lib/x86_64-linux-gnu/libc.so.6"),
        "/lib64/ld-linux-x86-64.so.2": Path("/lib64/ld-linux-x86-64.so.2"),
        "libnet.so": Path("/opt/java runtime/lib/libnet.so"),
    }


def test_the_root_filesystem_is_complete(tmp_path: Path) -> None:
    """It has Java, the archives, a shell, the loader's libraries, merged /usr links and every parent directory."""
    jar = tmp_path / "kafka.jar"
    jar.write_bytes(b"jar")
    tree = root_filesystem([jar])
    assert {"opt/java/bin/java", "opt/kafka/libs/kafka.jar", "usr/bin/sh", "usr/bin/env", "etc/nsswitch.conf"} <= set(
        tree
    )
    assert tree["lib64"].link == "usr/lib64"
    assert tree["tmp"].mode == 0o1777
    names = {Path(name).name for name in tree}
    assert {"libc.so.6", "libjvm.so"} <= names
    assert not {name for name in names if "libX11" in name or "libawt" in name}
    assert all(tree[str(parent)].is_dir for name in tree for parent in list(Path(name).parents)[:-1])
    assert digest(tree) == digest(root_filesystem([jar]))


def test_the_archive_is_deterministic(tmp_path: Path) -> None:
    """The same tree gives the same bytes, with modes and links kept and everything owned by root."""
    tree = {"d": Entry(0o1777, is_dir=True), "d/f": Entry(0o644, content=b"text"), "l": Entry(0o777, link="d/f")}
    for name in ("one.tar", "two.tar"):
        write_tar(tree, tmp_path / name)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as tar:
        folder, file, link = tar.getmembers()
        assert (folder.isdir(), folder.mode, file.size, file.uid, link.linkname) == (True, 0o1777, 4, 0, "d/f")


@pytest.mark.parametrize("changed", [Entry(0o644, content=b"new"), Entry(0o755, content=b"old"), Entry(link="old")])
def test_any_change_changes_the_digest(changed: Entry) -> None:
    """Content, mode and kind of a file all decide whether an image is current."""
    assert digest({"f": Entry(0o644, content=b"old")}) != digest({"f": changed})


def test_only_linux_can_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere the error says what to do instead."""
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(CannotHere, match=r"Darwin.*docker pull"):
        root_filesystem([])


@pytest.mark.parametrize("tool", ["sed", "ldd"])
def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    """A machine without a needed tool is told which one, and what to do instead."""
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, path: None if name == tool else which(name, path=path))
    with pytest.raises(CannotHere, match=f"{tool}.*docker pull"):
        root_filesystem([])


def test_the_tag_names_the_version() -> None:
    """Images of several versions live side by side."""
    assert local_tag("4.3.1") == "tidegauge/kafka:4.3.1"
