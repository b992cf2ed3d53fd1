"""What this machine can do: each thing Tidegauge uses, and for a missing one what that costs and how to get it."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from harness.clusters.base import FREE_DISK_BYTES, Cluster
from harness.clusters.clock import find_library, why_no_clocks
from harness.clusters.disk import why_no_disks
from harness.clusters.jars import locked_versions
from harness.clusters.kinds import KINDS
from harness.clusters.node import Capability, Unavailable
from harness.clusters.prepared_files import is_prepared
from harness.clusters.requirements import Requirement, RequirementMissing, fail_if
from harness.clusters.target import load_target
from harness.foundation.errors import TidegaugeError, from_os_error
from harness.foundation.java import find_java
from harness.foundation.paths import cache_dir, nearest, state_dir
from harness.foundation.ports import PortLeases
from harness.spark.jvm import MINIMUM_JAVA, jars
from harness.spark.place import Place


@dataclass(frozen=True)
class MachineCheck:
    """One thing this machine has or has not."""

    name: str
    ok: bool
    found: str
    costs: str = ""
    remedy: str = ""
    needed_for_local: bool = False

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def examine() -> list[MachineCheck]:
    """All checks; none starts or changes anything."""
    of_kinds = [look for name in sorted(KINDS) for look in KINDS[name].requirements()]
    return [_checked(look) for look in (*_first(), *of_kinds, *_last())]


def examine_faults() -> list[MachineCheck]:
    """The faults that this machine cannot do, by kind of cluster and reason; no cluster is started for it."""
    from nemesis import FAULTS  # it knows all about clusters, which ask us nothing

    found: dict[tuple[str, Unavailable], list[str]] = {}
    for cluster in filter(None, (kind.unstarted() for kind in KINDS.values())):
        for fault in FAULTS.values():
            missing = next(filter(None, (_cannot(cluster, each) for each in sorted(fault.needs))), None)
            if missing:
                found.setdefault((cluster.kind, missing), []).append(fault.name)
    return [
        MachineCheck(
            f"faults on {kind}",
            ok=False,
            found=missing.what,
            costs=f"no {', '.join(names)} with --cluster {kind}",
            remedy=missing.remedy,
        )
        for (kind, missing), names in found.items()
    ]


def _cannot(cluster: Cluster, capability: Capability) -> Unavailable | None:
    """Why not, even when looking fails."""
    try:
        return cluster.cannot(capability)
    except TidegaugeError as error:
        return Unavailable(error.message, error.remedy)
    except OSError as error:
        problem = from_os_error(error, "looking")
        return Unavailable(problem.message, problem.remedy)


def _first() -> tuple[Requirement, ...]:
    """What is needed whatever the cluster."""
    return (
        Requirement("java", "no local cluster and no locally built image", _java, needed=True),
        Requirement("kafka", "the first start takes longer", _kafka),
        Requirement("spark", "histories are recorded but cannot be checked", _spark),
        Requirement("ports", "no cluster at all", _ports, needed=True),
        Requirement("disk", "no cluster at all", _disk, needed=True),
    )


def _last() -> tuple[Requirement, ...]:
    """What some faults are made with."""
    return (Requirement("loop", "no faults of disks", _loop), Requirement("faketime", "no faults of clocks", _faketime))


def _checked(look: Requirement) -> MachineCheck:
    try:
        return MachineCheck(look.name, ok=True, found=look.find(), needed_for_local=look.needed)
    except RequirementMissing as missing:
        found, remedy = missing.found, missing.remedy
    except TidegaugeError as error:
        found, remedy = error.message, error.remedy
    except OSError as error:
        problem = from_os_error(error, "looking")
        found, remedy = problem.message, problem.remedy
    return MachineCheck(look.name, ok=False, found=found, costs=look.costs, remedy=remedy, needed_for_local=look.needed)


def _java() -> str:
    java = find_java()
    return f"Java {java.major} from {java.origin} ({java.path})"


def _kafka() -> str:
    target = load_target("kafka")
    fetched = [v for v in locked_versions("kafka") if is_prepared(load_target("kafka", v))]
    if target.version not in fetched:
        raise RequirementMissing("Apache Kafka is not downloaded yet", "the first `cluster up` does it by itself")
    return f"Apache Kafka {', '.join(fetched)} in {cache_dir()}"


def _spark() -> str:
    java = find_java(MINIMUM_JAVA)
    jars(Place())
    return f"Spark {version('pyspark')} on Java {java.major}"


def _ports() -> str:
    leases = PortLeases()
    try:
        leases.take(9)
    finally:
        leases.release()
    return "free ports on 127.0.0.1"


def _disk() -> str:
    place = nearest(state_dir())
    free_bytes = shutil.disk_usage(place).free
    if free_bytes < FREE_DISK_BYTES:
        raise RequirementMissing(f"{free_bytes // 2**20} MiB free at {place}", "free some space, or set TIDEGAUGE_HOME")
    return f"{free_bytes / 2**30:.1f} GiB free at {place}"


def _loop() -> str:
    fail_if(why_no_disks())
    return "file systems in image files can be mounted"


def _faketime() -> str:
    fail_if(why_no_clocks())
    return f"{find_library()}"
