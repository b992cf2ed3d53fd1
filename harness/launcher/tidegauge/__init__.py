"""Tidegauge, as it is installed: the command, `python -m tidegauge`, and the pytest plugin.

Its packages have plain names (`harness`, `checkers`, `nemesis`, `workloads`) that other programs may use as well. So a
wheel puts them into a directory of this package, which only Tidegauge's own processes have on their path: the command
and whatever it starts, and a pytest process that collects a suite or uses a fixture. In a checkout they are importable
anyway.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

CODE = Path(__file__).resolve().parent / "_code"  # only in a wheel
PACKAGES = ("harness", "checkers", "nemesis", "workloads")


def activate() -> None:
    """Make our packages importable, here and in the processes that this one starts."""
    if not CODE.is_dir():
        return
    code = str(CODE)
    for name in PACKAGES:
        there = getattr(sys.modules.get(name), "__file__", None)
        if there is not None and not Path(there).is_relative_to(CODE):
            raise ImportError(
                f"Tidegauge cannot be loaded into this process, because '{name}' is imported from {there} already: "
                "run the suite with `tidegauge suite`, or rename that package"
            )
    if code not in sys.path:
        sys.path.insert(0, code)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if code not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (code, *paths)))


def main() -> NoReturn:
    """Be the `tidegauge` command."""
    activate()
    from harness.commands.main import main as command

    command()
