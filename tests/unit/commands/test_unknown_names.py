"""A name that nobody knows is an error that says which names there are, or the one that was probably meant."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import pytest

from checkers.core.selection import anomalies_of
from harness.clusters.kinds import KINDS, kind_named
from harness.clusters.target import load_target
from harness.commands.check import checkers_named
from harness.foundation.errors import UsageError
from harness.foundation.paths import PACKAGE
from harness.runs.scenario import SHIPPED, find, load
from harness.suite.spec import find_suite, suites_dir
from harness.tap.broken import BROKEN, make_broken
from nemesis import FAULTS, fault_named
from workloads import WORKLOADS
from workloads.clients.stacks import STACKS


@dataclass(frozen=True)
class Named:
    """Something that is found by its name."""

    what: str
    ask: Callable[[str], object]
    known: Collection[str]
    misspelled: str
    meant: str


NAMED = (
    Named("client stack", lambda name: load(None, {}, [f"client={name}"]), STACKS, "kafka-pyton", "kafka-python"),
    Named("kind of cluster", kind_named, KINDS, "dokcer", "docker"),
    Named("workload", lambda name: load(None, {"workload": name}), WORKLOADS, "streem", "stream"),
    Named("fault", fault_named, FAULTS, "leader-kil", "leader-kill"),
    Named("checker", checkers_named, anomalies_of(), "lost-writ", "lost-write"),
    Named(
        "target",
        load_target,
        [path.stem for path in (PACKAGE / "clusters" / "targets").glob("*.toml")],
        "kafka-zookeper",
        "kafka-zookeeper",
    ),
    Named("broken broker", lambda name: make_broken(name, 0), BROKEN, "flips-bit", "flips-bits"),
    Named("scenario", find, [path.stem for path in SHIPPED.glob("*.toml")], "leader-kil", "leader-kill"),
    Named("suite", find_suite, [path.stem for path in suites_dir().glob("*.toml")], "nightli", "nightly"),
)
each = pytest.mark.parametrize("named", NAMED, ids=lambda named: named.what)


@each
def test_the_names_that_there_are_are_listed(named: Named) -> None:
    """All of them, where none is near."""
    with pytest.raises(UsageError) as refused:
        named.ask("xyzzy")
    assert "xyzzy" in str(refused.value)
    assert [name for name in named.known if name not in str(refused.value)] == []


@each
def test_the_one_that_was_meant_is_named(named: Named) -> None:
    """Where one is near."""
    with pytest.raises(UsageError) as refused:
        named.ask(named.misspelled)
    assert named.misspelled in str(refused.value)
    assert f"'{named.meant}'" in str(refused.value) or f" {named.meant}," in str(refused.value)
