"""The catalogue once more, slow and obvious, in plain Python: what Spark has to agree with, finding by finding.

A module per family. `write` makes up a small history in a topic of its own, with processes of its own (`who`), of
events that have to do with each other; `find` looks at the rows of all histories and tells what is wrong with them, in
the words of the specification that opens the checker's module; `key` tells a finding of Spark in the same form. Every
`find` looks at every history, whoever made it up.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from random import Random
from typing import Any, Protocol, cast

from checkers.core.results import Finding
from tests.support.histories import Rows

FIRST_PROCESS = 100
TOPICS_AT_MOST = 10_000
Event = dict[str, Any]
Told = tuple[Any, ...]  # an anomaly, a topic's number, and whatever tells findings apart


class Oracle(Protocol):
    """What a module of this package offers."""

    ANOMALIES: frozenset[str]

    def write(self, rows: Rows, topic: int, random: Random) -> None:
        """A history."""

    def find(self, rows: Rows) -> Iterable[Told]:
        """What is wrong with all of them."""

    def key(self, finding: Finding, topic: int | None) -> Told:
        """What Spark found."""


def who(role: str, number: int, topic: int) -> str:
    """A process that no other history has; up to nine of each role, numbered so that those of one sort are a range."""
    assert 0 <= number < 9
    assert 0 <= topic < TOPICS_AT_MOST
    return f"{role}{FIRST_PROCESS + number * TOPICS_AT_MOST + topic}"


COMPACTED = "k"  # how the names of compacted topics begin


def compacted(rows: Rows, topic: int | None) -> bool:
    """Whether a topic is compacted; `write` makes it so by its name: `rows.topics[topic] = COMPACTED + str(topic)`."""
    return topic is not None and rows.topics[topic].startswith(COMPACTED)


def oracles() -> list[Oracle]:
    """All modules of this package that make up histories."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return [cast("Oracle", module) for module in modules if hasattr(module, "ANOMALIES")]
