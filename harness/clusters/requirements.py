"""What clusters require of this machine, as the doctor checks it: what each is, and what is missed without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.clusters.node import Unavailable


@dataclass(frozen=True)
class Requirement:
    """One thing to look for."""

    name: str
    costs: str  # what is not possible without it
    find: Callable[[], str]  # what there is, in a few words; NotThere where it is missing
    needed: bool = False  # by the clusters that one gets unless one asks for others


class RequirementMissing(Exception):
    """It is missing."""

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(found)
        self.found = found
        self.remedy = remedy


def fail_if(missing: Unavailable | tuple[str, str] | None) -> None:
    """NotThere, where something is missing."""
    if missing:
        raise RequirementMissing(*(missing if isinstance(missing, tuple) else (missing.what, missing.remedy)))
