"""Pins the archives of Apache Kafka: `python -m harness.clusters.lock_jars [VERSION...]`, by default those we ship.

A release of Kafka does not change, so a lock changes only with the coordinates or exclusions in `targets/kafka.toml`
and `targets/kafka-zookeeper.toml`, which older versions belong to, or with a new version. Every archive is downloaded
and verified against the checksum its repository publishes.
"""

from __future__ import annotations

import sys

from harness.clusters.jars import inputs_line, locked_versions, resolve, write_lock
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
    path = PACKAGE / "clusters" / "targets" / "locks" / f"{target.name}-{target.version}.lock"
    write_lock(path, inputs_line(coordinates, target.java.exclude), jars)
    return f"{target.name} {target.version}: {len(jars)} archives"


def main() -> None:
    """Lock every version given on the command line, or those that have a lock already."""
    try:
        shipped = [version for name in (NAME, *load_target(NAME).before.values()) for version in locked_versions(name)]
        for version in sys.argv[1:] or shipped:
            sys.stdout.write(f"{lock(version)}\n")
            sys.stdout.flush()
    except TidegaugeError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
