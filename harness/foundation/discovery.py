"""What is found by being there: modules of a package that define a thing of a certain name."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType


def modules_with(name: str, package: str, directories: Iterable[str], first: Sequence[str] = ()) -> list[ModuleType]:
    """The modules of a package in these directories that define `name`: those of `first` in that order, then by name.

    The others are not imported: what stands beside them may load libraries that nobody needs yet.
    """
    defines = re.compile(rf"^{name}\b.* = ", re.MULTILINE)
    found = {
        each.name
        for directory in directories
        for each in pkgutil.iter_modules([directory])
        if not each.ispkg and defines.search((Path(directory) / f"{each.name}.py").read_text(encoding="utf-8"))
    }
    order = [*(each for each in first if each in found), *sorted(found - set(first))]
    return [importlib.import_module(f"{package}.{each}") for each in order]
