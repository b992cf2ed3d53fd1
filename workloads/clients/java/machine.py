"""The JVM in this process: started once, with Kafka's clients on its class path.

It leaves signals to Python (-Xrs), keeps to one small collector, and compiles with the quick compiler alone: a worker
lives for a minute or two.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import jpype

from harness.clusters.client_archives import ensure_client_jars
from harness.foundation.errors import CannotHere
from harness.foundation.java import Java, find_java
from harness.foundation.progress import SilentProgress

OPTIONS = (
    "-Xrs",
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
LIBRARY = {"darwin": "libjvm.dylib", "win32": "jvm.dll"}.get(sys.platform, "libjvm.so")


def java_class(name: str) -> Any:
    """A class of Java's or Kafka's; `clients.` stands for Kafka's clients."""
    start()
    return _class(f"org.apache.kafka.{name}" if name.startswith(("clients.", "common.")) else name)


@cache
def _class(name: str) -> Any:
    return jpype.JClass(name)


@cache
def start() -> None:
    """Start it, unless it runs."""
    jars = ensure_client_jars(SilentProgress())
    jpype.startJVM(
        str(library_of(find_java())),
        *OPTIONS,
        classpath=[str(jar) for jar in jars],
        convertStrings=False,
        interrupt=False,
    )


def library_of(java: Java) -> Path:
    """The JVM as a library, which lies in different places of a Java."""
    home = java.path.resolve().parent.parent
    for directory in (home / "lib" / "server", home / "jre" / "lib" / "server", home / "bin" / "server"):
        if (directory / LIBRARY).exists():
            return directory / LIBRARY
    raise CannotHere(
        f"the Java at {home} has no {LIBRARY}, which client=java runs in",
        "install a complete Java runtime, or unset JAVA_HOME to use the bundled one",
    )


def options(settings: dict[str, Any]) -> Any:
    """Settings as Kafka's clients take them; None is left to them."""
    properties = java_class("java.util.Properties")()
    for name, value in settings.items():
        if value is not None:
            properties.put(name, str(value).lower() if isinstance(value, bool) else str(value))
    return properties


def seconds(timeout_s: float) -> Any:
    """A `Duration`."""
    return java_class("java.time.Duration").ofMillis(max(0, int(timeout_s * 1000)))


def partition_of(topic: str, partition: int) -> Any:
    """A `TopicPartition`."""
    return java_class("common.TopicPartition")(topic, partition)
