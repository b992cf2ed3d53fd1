"""All families of checkers: whatever module of `checkers` has `FAMILIES`. Each comes after those that it asks for.

What a family may ask of others is in its `after`; helpers that find nothing by themselves come first.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from graphlib import TopologicalSorter
from types import ModuleType

import checkers
from checkers.core.family import Family

FRAME = "checkers.core"  # has no families, and looks for them


def families_of(package: ModuleType) -> tuple[Family, ...]:
    """Those in the modules of a package, and of the packages in it."""
    found = [family for name in _modules(package) for family in getattr(importlib.import_module(name), "FAMILIES", ())]
    by_name = {family.name: family for family in found}
    order = TopologicalSorter({family.name: family.after for family in found}).static_order()
    return tuple(by_name[name] for name in order if name in by_name)


def _modules(package: ModuleType) -> Iterator[str]:
    for module in sorted(pkgutil.iter_modules(package.__path__, f"{package.__name__}."), key=lambda each: each.name):
        if not module.ispkg:
            yield module.name
        elif module.name != FRAME:
            yield from _modules(importlib.import_module(module.name))


FAMILIES: tuple[Family, ...] = families_of(checkers)
