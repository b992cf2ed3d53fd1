"""What can be done to a network here: each thing is tried for real, in a namespace that is gone a moment later.

The same trials are made in a sidecar where the nodes' networks are entered by one.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from harness.clusters.node import Capability, Unavailable
from harness.foundation.namespaces import run_command, with_system_path

USE_DOCKER = "use --cluster docker"
NO_TOOL = "no-such-tool"
TOOLS = {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}  # and the packages that have them


@dataclass(frozen=True)
class Trial:
    """A script that fails where something is not possible."""

    script: str
    tool: str
    package: str
    cannot: str  # what the kernel or the tool does not do
    modules: str  # of the kernel, which do it


TRIALS = {
    Capability.PARTITION: Trial(
        "iptables -w -A INPUT -p tcp -j DROP && iptables -w -A INPUT -p tcp -j REJECT --reject-with tcp-reset",
        "iptables",
        "iptables",
        "iptables cannot drop and refuse packets",
        "ip_tables or nf_tables, ipt_REJECT",
    ),
    Capability.LOSS: Trial(
        "iptables -w -A INPUT -m statistic --mode random --probability 0.5 -j DROP",
        "iptables",
        "iptables",
        "iptables cannot drop packets by chance",
        "xt_statistic",
    ),
    Capability.SHAPE: Trial(
        "tc qdisc add dev lo root tbf rate 64kbit burst 4kb latency 50ms",
        "tc",
        "iproute2",
        "the kernel cannot limit bandwidth",
        "sch_tbf",
    ),
}
NETWORK = frozenset(TRIALS)


@cache
def missing(capability: Capability) -> Unavailable | None:
    """Why nodes in network namespaces of this machine cannot have it; None when they can."""
    return why_no_namespaces() or why_not(capability, lambda script: run_command(["unshare", "--net", *_shell(script)]))


def why_no_namespaces() -> Unavailable | None:
    """What is missing to enter the network namespaces of this machine, before anything is tried in them."""
    if sys.platform != "linux":
        return Unavailable("network namespaces exist on Linux only", USE_DOCKER)
    if os.geteuid() != 0:
        return Unavailable("the nodes' networks can only be changed by root", f"run as root, or {USE_DOCKER}")
    for tool, package in TOOLS.items():
        if which(tool) is None:
            return Unavailable(f"the command `{tool}` is missing", f"install {package}")
    if said := _failure(lambda: run_command(["unshare", "--net", "true"])):
        return Unavailable(
            f"network namespaces cannot be made here ({said})",
            "run with the right to administer the system (CAP_SYS_ADMIN)",
        )
    return None


def why_not(
    capability: Capability, run: Callable[[str], object], install: str = "install {package}"
) -> Unavailable | None:
    """The outcome of a trial, by what `run` raises; `install` is the remedy for a tool that is missing."""
    trial = TRIALS[capability]
    said = _failure(
        lambda: run(f"command -v {trial.tool} >/dev/null || {{ echo {NO_TOOL} >&2; exit 1; }}; {trial.script}")
    )
    if said == NO_TOOL:
        return Unavailable(f"the command `{trial.tool}` is missing", install.format(package=trial.package))
    if said:
        return Unavailable(f"{trial.cannot} here ({said})", f"use a kernel that has {trial.modules}")
    return None


def which(tool: str) -> str | None:
    """Where a tool of the system is, be its directory in PATH or not."""
    return shutil.which(tool, path=with_system_path()["PATH"])


def _shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def _failure(run: Callable[[], object]) -> str:
    try:
        run()
    except OSError as error:
        return str(error)
    return ""
