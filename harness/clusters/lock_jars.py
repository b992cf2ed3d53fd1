"""Pins the archives of Apache Kafka: `python -m harness.clusters.lock_jars [VERSION...]`, by default those we ship.

By default it also pins Kafka's own clients (`harness.clusters.client_archives`).

A release of Kafka does not change, so a lock changes only with the coordinates or exclusions in `targets/kafka.toml`
and `targets/kafka-zookeeper.toml`, which older versions belong to, or with a new version. Every archive is downloaded
and verified against the checksum its repository publishes.
"""

from __future__ import annotations

import sys

from harness.clusters import client_archives
from harness.clusters.jars import Jar, inputs_line, locked_versions, resolve, write_lock
from harness.clusters.target import load_target
from harness.foundation.errors import TidegaugeError, UsageError
from harness.foundation.paths import PACKAGE

NAME = "kafka"  # versions before its first are those of the other target


def lock(version: str) -> str:
    """Write the lock of one version; says what it was and how many archives it lists."""
    target = load_target(NAME, version)
    if target.java is None:
        raise UsageError(f"the target '{target.name}' has no [java] table", "there is nothing to lock")
    coordinates = target.coordinates()
    jars = resolve(target.name, target.version, coordinates, target.java.exclude)
    return _write(target.name, target.version, inputs_line(coordinates, target.java.exclude), jars)


def lock_clients() -> str:
    """The same for Kafka's own clients."""
    name, version, coordinates = client_archives.NAME, client_archives.VERSION, client_archives.COORDINATES
    return _write(name, version, inputs_line(coordinates, ()), resolve(name, version, coordinates, ()))


def _write(name: str, version: str, inputs: str, jars: list[Jar]) -> str:
    write_lock(PACKAGE / "clusters" / "targets" / "locks" / f"{name}-{version}.lock", inputs, jars)
    return f"{name} {version}: {len(jars)} archives"


def main() -> None:
    """Lock every version given on the command line, or those that have a lock already."""
    try:
        shipped = [version for name in (NAME, *load_target(NAME).before.values()) for version in locked_versions(name)]
        for version in sys.argv[1:] or shipped:
            sys.stdout.write(f"{lock(version)}\n")
            sys.stdout.flush()
        if not sys.argv[1:]:
            sys.stdout.write(f"{lock_clients()}\n")
    except TidegaugeError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
