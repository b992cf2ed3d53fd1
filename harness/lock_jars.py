"""Pins the archives of Apache Kafka anew: `python -m harness.lock_jars [VERSION...]`, without versions those we ship.

A release of Kafka does not change, so a lock changes only with the coordinates or exclusions in `targets/kafka.toml`
or with a new version. Every archive is downloaded and verified against the checksum its repository publishes.
"""

from __future__ import annotations

import sys

from harness.clusters.target import load_target
from harness.errors import TidegaugeError, UsageError
from harness.jars import inputs_line, locked_versions, resolve, write_lock
from harness.paths import PACKAGE

NAME = "kafka"


def lock(version: str) -> int:
    """Write the lock of one version; returns how many archives it lists."""
    java = load_target(NAME).java
    if java is None:
        raise UsageError(f"the target '{NAME}' has no [java] table", "there is nothing to lock")
    coordinates = [coordinate.replace("{version}", version) for coordinate in java.jars]
    jars = resolve(NAME, version, coordinates, java.exclude)
    path = PACKAGE / "targets" / "locks" / f"{NAME}-{version}.lock"
    write_lock(path, inputs_line(coordinates, java.exclude), jars)
    return len(jars)


def main() -> None:
    """Lock every version given on the command line, or those that have a lock already."""
    try:
        for version in sys.argv[1:] or locked_versions(NAME):
            sys.stdout.write(f"{NAME} {version}: {lock(version)} archives\n")
            sys.stdout.flush()
    except TidegaugeError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
