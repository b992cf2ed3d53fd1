"""Network namespaces: names and addresses; nothing is created here."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from harness.clusters import netns, network_support
from harness.clusters.netns import SUBNETS, Network
from harness.clusters.node import Unavailable
from harness.foundation.errors import CannotHere, ClusterError
from harness.foundation.namespaces import Namespace


class Journal:
    """A guard that only remembers, together with the `ip` commands."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def record(self, **entry: str) -> None:
        """What a guard would write down."""
        self.events.append(f"record {entry['kind']} {entry['value']}")


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that can do everything."""
    monkeypatch.setattr(network_support, "why_no_namespaces", lambda: None)
    monkeypatch.setattr(network_support, "which", lambda tool: f"/sbin/{tool}")


def routes(monkeypatch: pytest.MonkeyPatch, *destinations: str) -> None:
    """What `ip route` says."""
    said = json.dumps([{"dst": destination} for destination in destinations])
    monkeypatch.setattr(netns, "_ip", lambda arguments: said)


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster is refused with the reason and the remedy."""
    monkeypatch.setattr(network_support, "why_no_namespaces", lambda: Unavailable("no root", "run as root"))
    with pytest.raises(CannotHere, match=r"networks of their own here \(no root\): run as root"):
        Network("local-0123abcd")


@pytest.mark.usefixtures("able")
def test_names_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Namespaces carry the cluster's random part, names fit an interface, nodes count from .1."""
    routes(monkeypatch)
    network = Network("local-0123abcd")
    assert [network.namespace(n) for n in (1, 9)] == ["tg0123abcd-1", "tg0123abcd-9"]
    assert len(network._tag) <= 15
    assert network.address(3) == str(network._subnet[3])
    assert network.address(3).endswith(".3")
    assert network.host_address == str(network._subnet[254])
    assert network.inside(2, ["java", "-x"]) == ["/sbin/nsenter", "--net=/run/netns/tg0123abcd-2", "java", "-x"]
    assert network.place(2) == Namespace("/run/netns/tg0123abcd-2")


def test_a_subnet_in_use_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a route leads into, whole or in part, is left alone; the default route leads everywhere and nowhere."""
    whole, part, inside, free = SUBNETS[0], SUBNETS[10], SUBNETS[20], SUBNETS[30]
    monkeypatch.setattr(netns, "SUBNETS", [whole, part, inside, free])
    routes(monkeypatch, "default", "127.0.0.0/8", str(whole), str(part[9]), str(inside.supernet()))
    assert netns._free_subnet() == free


@pytest.mark.parametrize("destination", ["198.0.0.0/8", "198.18.0.0/15"])
def test_no_free_subnet_is_an_error(monkeypatch: pytest.MonkeyPatch, destination: str) -> None:
    """A route that covers all our subnets, as some VPNs have, leaves nothing to choose."""
    routes(monkeypatch, destination)
    with pytest.raises(CannotHere, match=r"no subnet of .* is free"):
        netns._free_subnet()


def test_no_routes_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ip` prints nothing where there are none."""
    monkeypatch.setattr(netns, "_ip", lambda arguments: "")
    assert netns._free_subnet() in SUBNETS


def test_subnets_are_set_aside_and_large_enough() -> None:
    """All in the range for testing networks, each with room for nine nodes and the host."""
    assert all(subnet.subnet_of(IPv4Network("198.18.0.0/15")) and subnet.num_addresses == 256 for subnet in SUBNETS)


@pytest.mark.usefixtures("able")
def test_everything_is_recorded_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every namespace and the link on the host are in the journal before the command that makes them."""
    routes(monkeypatch)
    network, journal = Network("local-0123abcd"), Journal()
    monkeypatch.setattr(netns, "_ip", lambda arguments: journal.events.append(f"ip {arguments}"))
    network.create(journal, 3)  # type: ignore[arg-type]
    for name in ("tg0123abcd-sw", "tg0123abcd-1", "tg0123abcd-2", "tg0123abcd-3"):
        assert journal.events.index(f"record netns {name}") < journal.events.index(f"ip netns add {name}")
    made = next(n for n, event in enumerate(journal.events) if "peer name tg0123abcd " in event)
    assert journal.events.index("record link tg0123abcd") < made
    addresses = [event for event in journal.events if " addr add " in event]
    assert len(addresses) == len({event.split("addr add ")[1].split()[0] for event in addresses}) == 4


def test_a_failing_command_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What `ip` says becomes the error."""
    script = tmp_path / "ip"
    script.write_text("#!/bin/sh\necho Operation not permitted >&2; exit 2\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=r"`ip netns add x` failed \(Operation not permitted\)"):
        netns._ip("netns add x")
