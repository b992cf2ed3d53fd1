"""What flags say about the cluster of a case, and why a case cannot be had on what they ask for.

Flags are for all cases of a suite, and some case may be about something else: a version of Apache Kafka where another
product is to be tested, or a product that has no containers where all is to run in these. Such a case is skipped, with
the reason; the flags are a mistake only if they make no sense by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.clusters.spec import ClusterSpec
from harness.clusters.target import Target, load_target
from harness.foundation.config import parse
from harness.foundation.errors import UsageError
from harness.runs.scenario import merged

UNLESS_NAMED = ("version", "target")  # flags that say what is tested only where the scenario does not
APACHE_KAFKA = "kafka"  # what --kafka-version is about, and what is tested unless somebody says otherwise


@dataclass(frozen=True)
class CaseCluster:
    """What the flags come to for one case."""

    cluster: dict[str, Any] = field(default_factory=dict)  # what wins over all that the suite says
    without: frozenset[str] = frozenset()  # what the suite says for all cases, and of another product
    cannot: str = ""  # why the case cannot be had so


def asked_of(flags: Mapping[str, Any], below: Mapping[str, Any], named: set[str]) -> CaseCluster:
    """For a case with this cluster, of which its scenario itself has named some keys."""
    wanted = {key: value for key, value in flags.items() if key not in UNLESS_NAMED or key not in named}
    target = below.get("target", APACHE_KAFKA)
    if "version" in wanted and "target" in named and not _same_product(target, APACHE_KAFKA):
        del wanted["version"]
    if "target" not in wanted or "version" in wanted or _same_product(wanted["target"], target):
        return CaseCluster(wanted)
    if "version" not in named:
        return CaseCluster(wanted, frozenset({"version"}))
    about = f"version {below['version']} of '{target}'" if "version" in below else f"a version of '{target}'"
    return CaseCluster(
        cannot=f"the case is about {about}, and '{wanted['target']}' is another product: leave --target out"
    )


def make_sense(flags: Mapping[str, Any], defaults: Mapping[str, Any]) -> bool:
    """Whether flags are right by themselves, and only do not go together with what some case says."""
    try:
        parse(ClusterSpec, merged({"cluster": dict(defaults)}, {"cluster": dict(flags)})["cluster"], "flags").checked()
    except UsageError:
        return False
    return True


def unfit(cluster: ClusterSpec) -> str:
    """Why this kind of cluster cannot run the target; nothing if it can."""
    return cluster.of.why_unfit(cluster)


def _same_product(one: Any, other: Any) -> bool:
    """Whether versions of the one are versions of the other; what is no target at all is refused later."""
    if one == other or not (isinstance(one, str) and isinstance(other, str)):
        return True
    return bool(_publishers(load_target(one)) & _publishers(load_target(other)))


def _publishers(target: Target) -> set[str]:
    """Who publishes the archive that has its version: the first one."""
    return {target.java.jars[0].partition(":")[0]} if target.java else set()
