"""All families of checkers: whatever module of `checkers` has `FAMILIES`. Each comes after those that it asks for.

What a family may ask of others is in its `after`; helpers that find nothing by themselves come first.
"""

from __future__ import annotations

import importlib
import pkgutil
from graphlib import TopologicalSorter
from types import ModuleType

import checkers
from checkers.core.family import Family


def families_of(package: ModuleType) -> tuple[Family, ...]:
    """Those in the modules of a package."""
    modules = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.ispkg)
    found = [
        family
        for name in modules
        for family in getattr(importlib.import_module(f"{package.__name__}.{name}"), "FAMILIES", ())
    ]
    by_name = {family.name: family for family in found}
    order = TopologicalSorter({family.name: family.after for family in found}).static_order()
    return tuple(by_name[name] for name in order if name in by_name)


FAMILIES: tuple[Family, ...] = families_of(checkers)
