"""A JVM that stands by: a command that is told of it starts none of its own, and finds it warm.

`tidegauge spark` keeps one, in a directory that `TIDEGAUGE_SPARK_JVM` names to other commands. It serves one of them
at a time. A command that finds it taken, gone, or made of other jars starts its own, as if nothing had been said; so
does one that needs another kind of JVM. What a command left in it that was killed, the next one removes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import socket
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import class_archive, spark_jvm
from harness.class_archive import Archive
from harness.errors import TidegaugeError
from harness.guard import Guard
from harness.java import find_java
from harness.paths import clusters_dir
from harness.spark_jvm import LOG_FILE, Jvm, Size
from harness.spark_place import Place

VARIABLE = "TIDEGAUGE_SPARK_JVM"
JARS_FILE = "jars"
TAKEN_FILE = "taken"
LOOK_EVERY_S = 0.2
ANSWER_TIMEOUT_S = 5.0
_NUMBERED = re.compile(r"o\d+")


@dataclass(frozen=True)
class Standby:
    """The JVM, for whoever keeps it."""

    directory: Path
    jvm: Jvm

    def wait(self) -> None:
        """Until somebody wants it to end; that it ends by itself is an error."""
        while not self.jvm.has_ended():
            time.sleep(LOOK_EVERY_S)
        raise TidegaugeError("the JVM that stood by has ended", "start it again", self.jvm.last_lines())


@contextmanager
def standing_by() -> Iterator[Standby]:
    """Have one as long as this lasts; it ends with this process, however that ends."""
    place = Place()
    java, jars = find_java(spark_jvm.MINIMUM_JAVA), spark_jvm.jars(place)
    with ExitStack() as undo:
        guard = Guard(clusters_dir() / f"spark-{secrets.token_hex(4)}")
        undo.callback(guard.release)
        directory = guard.directory
        archive = class_archive.find(java, jars, spark_jvm.OPTIONS) or Archive()
        options = [*spark_jvm.options(Size.SMALL, directory), *archive.options]
        command = spark_jvm.command(java, jars, place, options)
        environment = spark_jvm.environment(place, directory, directory.name)
        jvm = Jvm(command, directory, directory / LOG_FILE, environment)
        undo.callback(jvm.kill)
        jvm.address()
        (directory / JARS_FILE).write_text(_digest(jars))
        (directory / TAKEN_FILE).touch()
        yield Standby(directory, jvm)


@dataclass(eq=False)
class Borrowed:
    """The JVM that stands by, ours alone until it is given back or we end."""

    port: int
    secret: str
    log: Path
    lock: int

    def __post_init__(self) -> None:
        _borrowed.add(self)

    def answers(self) -> bool:
        """Whether it is still there."""
        try:
            socket.create_connection((spark_jvm.LOOPBACK, self.port), ANSWER_TIMEOUT_S).close()
        except OSError:
            return False
        return True

    def give_back(self) -> None:
        """Let others have it."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


def borrow(size: Size, place: Place, jars: Sequence[Path]) -> Borrowed | None:
    """The one that we were told of, if it is there, fits and is free."""
    told = os.environ.get(VARIABLE)
    if not told or size is not Size.SMALL or not place.is_local:
        return None
    if spark_jvm.class_path_of(place) or spark_jvm.options_of(place):
        return None
    directory = Path(told)
    try:
        lock = os.open(directory / TAKEN_FILE, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if (directory / JARS_FILE).read_text() == _digest(jars):
            port, secret = spark_jvm.read_address(directory / spark_jvm.ADDRESS_FILE)
            return Borrowed(port, secret, directory / LOG_FILE, lock)
    except OSError:  # taken, or it has just gone
        pass
    os.close(lock)
    return None


def tidy(gateway: Any) -> None:
    """Remove what is left of whoever had this JVM before: its context, if it was killed, and whatever it named."""
    spark = gateway.jvm.org.apache.spark
    left = getattr(getattr(spark, "SparkContext$"), "MODULE$").getActive()
    if left.isDefined():
        left.get().stop()
    getattr(getattr(spark.util, "Utils$"), "MODULE$").clearLocalRootDirs()  # else it goes on in their directory
    names = gateway.java_gateway_server.getGateway().getBindings().keySet()
    # in two calls, whatever their number; those that Py4J itself needs are not numbered
    names.retainAll([name for name in names.toString().strip("[]").split(", ") if not _NUMBERED.fullmatch(name)])


def _digest(jars: Sequence[Path]) -> str:
    return hashlib.sha256("\n".join(map(str, jars)).encode()).hexdigest()


def _let_go_in_a_forked_child() -> None:
    """A child without exec holds a copy of our lock: as long as it lives, nobody else would get it."""
    for each in list(_borrowed):
        each.give_back()


_borrowed: weakref.WeakSet[Borrowed] = weakref.WeakSet()
os.register_at_fork(after_in_child=_let_go_in_a_forked_child)
