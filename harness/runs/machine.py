"""What this machine can do: each thing Tidegauge uses, and for a missing one what that costs and how to get it."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from harness.clusters.base import FREE_DISK_BYTES, Capability, Cluster, Missing
from harness.clusters.clock import find_library, why_no_clocks
from harness.clusters.disk import why_no_disks
from harness.clusters.jars import locked_versions
from harness.clusters.kinds import KINDS
from harness.clusters.prepared_files import is_kept
from harness.clusters.requirements import Look, NotThere, fail_if
from harness.clusters.target import load_target
from harness.foundation.errors import TidegaugeError, from_os_error
from harness.foundation.java import find_java
from harness.foundation.paths import cache_dir, nearest, state_dir
from harness.foundation.ports import PortLeases
from harness.spark.jvm import MINIMUM_JAVA, jars
from harness.spark.place import Place


@dataclass(frozen=True)
class Check:
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


def examine() -> list[Check]:
    """All checks; none starts or changes anything."""
    of_kinds = [look for name in sorted(KINDS) for look in KINDS[name].looks()]
    return [_checked(look) for look in (*_first(), *of_kinds, *_last())]


def examine_faults() -> list[Check]:
    """The faults that this machine cannot do, by kind of cluster and reason; no cluster is started for it."""
    from nemesis import FAULTS  # it knows all about clusters, which ask us nothing

    found: dict[tuple[str, Missing], list[str]] = {}
    for cluster in filter(None, (kind.unstarted() for kind in KINDS.values())):
        for fault in FAULTS.values():
            missing = next(filter(None, (_cannot(cluster, each) for each in sorted(fault.needs))), None)
            if missing:
                found.setdefault((cluster.kind, missing), []).append(fault.name)
    return [
        Check(
            f"faults on {kind}",
            ok=False,
            found=missing.what,
            costs=f"no {', '.join(names)} with --cluster {kind}",
            remedy=missing.remedy,
        )
        for (kind, missing), names in found.items()
    ]


def _cannot(cluster: Cluster, capability: Capability) -> Missing | None:
    """Why not, even when looking fails."""
    try:
        return cluster.cannot(capability)
    except TidegaugeError as error:
        return Missing(error.message, error.remedy)
    except OSError as error:
        problem = from_os_error(error, "looking")
        return Missing(problem.message, problem.remedy)


def _first() -> tuple[Look, ...]:
    """What is needed whatever the cluster."""
    return (
        Look("java", "no local cluster and no locally built image", _java, needed=True),
        Look("kafka", "the first start takes longer", _kafka),
        Look("spark", "histories are recorded but cannot be checked", _spark),
        Look("ports", "no cluster at all", _ports, needed=True),
        Look("disk", "no cluster at all", _disk, needed=True),
    )


def _last() -> tuple[Look, ...]:
    """What some faults are made with."""
    return (Look("loop", "no faults of disks", _loop), Look("faketime", "no faults of clocks", _faketime))


def _checked(look: Look) -> Check:
    try:
        return Check(look.name, ok=True, found=look.find(), needed_for_local=look.needed)
    except NotThere as missing:
        found, remedy = missing.found, missing.remedy
    except TidegaugeError as error:
        found, remedy = error.message, error.remedy
    except OSError as error:
        problem = from_os_error(error, "looking")
        found, remedy = problem.message, problem.remedy
    return Check(look.name, ok=False, found=found, costs=look.costs, remedy=remedy, needed_for_local=look.needed)


def _java() -> str:
    java = find_java()
    return f"Java {java.major} from {java.origin} ({java.path})"


def _kafka() -> str:
    target = load_target("kafka")
    fetched = [v for v in locked_versions("kafka") if is_kept(load_target("kafka", v))]
    if target.version not in fetched:
        raise NotThere("Apache Kafka is not downloaded yet", "the first `cluster up` does it by itself")
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
        raise NotThere(f"{free_bytes // 2**20} MiB free at {place}", "free some space, or set TIDEGAUGE_HOME")
    return f"{free_bytes / 2**30:.1f} GiB free at {place}"


def _loop() -> str:
    fail_if(why_no_disks())
    return "file systems in image files can be mounted"


def _faketime() -> str:
    fail_if(why_no_clocks())
    return f"{find_library()}"
