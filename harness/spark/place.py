"""Where Spark runs: on this machine unless somebody says otherwise, on a cluster, or behind a Spark Connect server.

local[*], local[N]          a JVM of our own, which does all the work
spark://HOST:PORT           a standalone cluster; also yarn and k8s://…, as far as this machine is set up for them
sc://HOST[:PORT][/;…]       a Spark Connect server: no JVM here at all
"""

from __future__ import annotations

import importlib.util
import ipaddress
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from harness.foundation.errors import CannotHere, UsageError

MASTER_VARIABLE = "TIDEGAUGE_SPARK_MASTER"
EVERYTHING_HERE = "local[*]"
CONNECT_PORT = 15002
REACH_TIMEOUT_S = 10.0
NEEDED_BY_CONNECT = ("grpc", "grpc_status", "google.rpc", "pandas", "zstandard")
_MASTER = re.compile(r"local(\[(\*|\d+)\])?|spark://[^/\s]+:\d+|yarn|k8s://\S+|sc://[^/\s]+(/\S*)?")
_ADDRESS = re.compile(r"\[?([^\[\]]+?)\]?(?::(\d+))?")


@dataclass(frozen=True)
class Place:
    """A master and what it is told."""

    master: str = EVERYTHING_HERE
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether a JVM of ours does all the work itself."""
        return self.master.startswith("local")

    @property
    def is_connect(self) -> bool:
        """Whether it is a Spark Connect server."""
        return self.master.startswith("sc://")

    @property
    def is_loopback(self) -> bool:
        """Whether all of it is on this machine, though it may be several processes."""
        return self.is_local or (bool(self.addresses) and all(_is_loopback(host) for host, _ in self.addresses))

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each master, or of the server, where the URL names them."""
        if not self.master.startswith(("spark://", "sc://")):
            return ()
        hosts = self.master.partition("://")[2].partition("/")[0].split(",")
        found = (_ADDRESS.fullmatch(host) for host in hosts)
        return tuple((match[1], int(match[2] or CONNECT_PORT)) for match in found if match)

    def check(self) -> None:
        """Find out in seconds what Spark would take minutes for: that nobody answers there, or that grpc is missing."""
        if self.is_connect:
            missing = [name for name in NEEDED_BY_CONNECT if not _is_installed(name)]
            if missing:
                raise CannotHere(
                    f"{self.master} is a Spark Connect server, and {', '.join(missing)} is not installed",
                    "pip install 'tidegauge[connect]'",
                )
        failures = list(self._unreachable())
        if failures and len(failures) == len(self.addresses):
            raise CannotHere(
                f"nothing answers at {self.master} ({'; '.join(failures)})",
                "start Spark there, or leave --spark-master out to check on this machine",
            )

    def _unreachable(self) -> Iterator[str]:
        for address in self.addresses:
            try:
                socket.create_connection(address, REACH_TIMEOUT_S).close()
            except OSError as error:
                yield f"{address[0]} port {address[1]}: {error.strerror or error}"


def place(master: str | None, settings: Iterable[str] = ()) -> Place:
    """From a command line."""
    master = (master or EVERYTHING_HERE).strip()
    if not _MASTER.fullmatch(master):
        raise UsageError(
            f"{master!r} is no master that Spark knows",
            "local[*], local[4], spark://HOST:PORT, yarn, k8s://URL or sc://HOST:PORT (docs/spark.md)",
        )
    conf = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().startswith("spark."):
            raise UsageError(
                f"{text!r} is no setting of Spark", "write --spark-conf spark.executor.memory=4g, once for each"
            )
        conf[name.strip()] = value.strip()
    if "spark.master" in conf or "spark.remote" in conf:
        raise UsageError("where Spark runs is not a matter of --spark-conf", "use --spark-master")
    return Place(master, conf)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
