"""What this machine can do: each thing Tidegauge uses, and for a missing one what that costs and how to get it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from harness.clusters import abilities
from harness.clusters.base import FREE_DISK_BYTES, Capability, Cluster, Missing
from harness.clusters.clock import find_library, why_no_clocks
from harness.clusters.disk import why_no_disks
from harness.clusters.docker import DockerCluster, compose_version, connect
from harness.clusters.image import local_tag
from harness.clusters.local import LocalCluster
from harness.clusters.once import is_kept
from harness.clusters.target import load_target
from harness.clusters.which_image import images_here
from harness.errors import TidegaugeError, from_os_error
from harness.jars import locked_versions
from harness.java import find_java
from harness.networks import run_command
from harness.paths import cache_dir, nearest, state_dir
from harness.ports import PortLeases
from harness.spark_jvm import MINIMUM_JAVA, jars
from harness.spark_place import Place


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
    return [
        _try("java", "no local cluster and no locally built image", _java, needed=True),
        _try("kafka", "the first start takes longer", _kafka),
        _try("spark", "histories are recorded but cannot be checked", _spark),
        _try("ports", "no cluster at all", _ports, needed=True),
        _try("disk", "no cluster at all", _disk, needed=True),
        _try("docker", "no --cluster docker", _docker),
        _try("compose", "no --cluster docker", compose_version),
        _try("image", "the first docker cluster pulls or builds one", _image),
        _try("root", "no --netns, and no network faults on local clusters", _root),
        _try("netns", "no --netns: local nodes share one network stack", _netns),
        _try("iptables", "no partitions and no packet loss on local clusters", _iptables),
        _try("tc", "no limited bandwidth on local clusters", _tc),
        _try("loop", "no faults of disks", _loop),
        _try("faketime", "no faults of clocks", _faketime),
    ]


def examine_faults() -> list[Check]:
    """The faults that this machine cannot do, by kind of cluster and reason; no cluster is started for it."""
    from nemesis import FAULTS  # it knows all about clusters, which ask us nothing

    found: dict[tuple[str, Missing], list[str]] = {}
    for cluster in _unstarted():
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


def _unstarted() -> list[Cluster]:
    target = load_target("kafka")
    return [LocalCluster(target), DockerCluster(target, image=local_tag(target.version))]


class _Missing(Exception):
    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(found)
        self.found = found
        self.remedy = remedy


def _try(name: str, costs: str, look: Callable[[], str], *, needed: bool = False) -> Check:
    try:
        return Check(name, ok=True, found=look(), needed_for_local=needed)
    except _Missing as missing:
        found, remedy = missing.found, missing.remedy
    except TidegaugeError as error:
        found, remedy = error.message, error.remedy
    except OSError as error:
        problem = from_os_error(error, "looking")
        found, remedy = problem.message, problem.remedy
    return Check(name, ok=False, found=found, costs=costs, remedy=remedy, needed_for_local=needed)


def _java() -> str:
    java = find_java()
    return f"Java {java.major} from {java.origin} ({java.path})"


def _kafka() -> str:
    target = load_target("kafka")
    fetched = [v for v in locked_versions("kafka") if is_kept(load_target("kafka", v))]
    if target.version not in fetched:
        raise _Missing("Apache Kafka is not downloaded yet", "the first `cluster up` does it by itself")
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
        raise _Missing(f"{free_bytes // 2**20} MiB free at {place}", "free some space, or set TIDEGAUGE_HOME")
    return f"{free_bytes / 2**30:.1f} GiB free at {place}"


def _docker() -> str:
    return f"Docker {connect(timeout_s=5).version()['Version']}"


def _image() -> str:
    found = images_here(load_target("kafka"), connect(timeout_s=5))
    if not found:
        raise _Missing("no image of Apache Kafka is here", "run `tidegauge image build`, or pull apache/kafka")
    return ", ".join(found)


def _root() -> str:
    if os.geteuid() != 0:
        raise _Missing(f"user id {os.geteuid()}", "run as root for network faults on local clusters, or use docker")
    return "root"


def _netns() -> str:
    _fail_if(abilities.why_no_namespaces())
    return "network namespaces can be made"


def _iptables() -> str:
    _fail_if(abilities.missing(Capability.PARTITION))
    _fail_if(abilities.missing(Capability.LOSS))
    return run_command(["iptables", "--version"]).strip()


def _tc() -> str:
    _fail_if(abilities.missing(Capability.SHAPE))
    return "bandwidth can be limited (tbf)"


def _loop() -> str:
    _fail_if(why_no_disks())
    return "file systems in image files can be mounted"


def _faketime() -> str:
    _fail_if(why_no_clocks())
    return f"{find_library()}"


def _fail_if(missing: Missing | tuple[str, str] | None) -> None:
    if missing:
        raise _Missing(*(missing if isinstance(missing, tuple) else (missing.what, missing.remedy)))
