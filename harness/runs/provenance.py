"""What run.json says about where a run happened: versions of everything that takes part, and the machine."""

from __future__ import annotations

import os
import platform
import time
from typing import Any

import psutil

import harness
from harness.runs import machine
from workloads.clients.stack import version_of
from workloads.clients.stacks import STACKS

PACKAGES = ("pyspark", "pyarrow", "numpy", "docker")


def clock_anchor() -> dict[str, int]:
    """One moment on both clocks: what turns an event's time into a wall-clock time."""
    return {"monotonic_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}


def versions() -> dict[str, str]:
    """What takes part on our side."""
    found = {"tidegauge": harness.__version__, "python": platform.python_version()}
    for stack in STACKS.values():
        found |= stack.versions()
    return found | {package: version_of(package) for package in PACKAGES}


def this_machine() -> dict[str, Any]:
    """What it runs on, and what that can do."""
    return {
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "capabilities": {check.name: check.found if check.ok else None for check in machine.examine()},
    }
