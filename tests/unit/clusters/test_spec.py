"""Which cluster to make: what does not go together is refused before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.clusters import wire
from harness.clusters.docker import DockerCluster
from harness.clusters.external import ExternalCluster
from harness.clusters.local import LocalCluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.config import parse
from harness.foundation.errors import CannotHere, UsageError
from harness.foundation.progress import SilentProgress

PORTS = (20001, 20002, 20003)


def spec(**given: Any) -> ClusterSpec:
    """A specification as the command line makes it."""
    return parse(ClusterSpec, given, "the command line")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"netns": True},
        {"ports": PORTS},
        {"version": "4.1"},
        {"kind": "docker", "ports": PORTS, "version": "4.1"},
        {"kind": "external", "bootstrap": ["h:1"], "tls": True, "ca_file": "x", "mechanism": "PLAIN"},
    ],
)
def test_what_goes_together_is_taken(given: dict[str, Any]) -> None:
    """Checking changes nothing."""
    assert spec(**given).checked() == spec(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "docker", "netns": True}, "--netns does not apply to --cluster docker"),
        ({"kind": "external", "netns": True}, "--netns does not apply to --cluster external"),
        ({"bootstrap": ["h:1"]}, "--bootstrap does not apply to --cluster local: add --cluster external"),
        ({"kind": "docker", "bootstrap": ["h:1"]}, "--bootstrap does not apply to --cluster docker"),
        ({"kind": "external", "ports": PORTS}, "an external cluster is used as it is"),
        ({"kind": "external", "version": "4.1"}, "an external cluster is used as it is"),
        ({"kind": "external", "target": "x.toml"}, "an external cluster is used as it is"),
        ({"tls": True}, "TLS and SASL flags do not apply to --cluster local"),
        ({"kind": "docker", "mechanism": "PLAIN"}, "TLS and SASL flags do not apply to --cluster docker"),
        ({"ca_file": "x"}, "TLS and SASL flags do not apply"),
        ({"ports": (80, 20002, 20003)}, "80 is not a port brokers can use"),
        ({"ports": (20001, 65536, 20003)}, "65536 is not a port"),
        ({"ports": (-1,)}, "-1 is not a port"),
        ({"ports": (20001, 20001, 20003)}, "--ports names a port twice"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], said: str) -> None:
    """Each refusal names the flag and what to do."""
    with pytest.raises(UsageError, match=said):
        spec(**given).checked()


@pytest.mark.parametrize("flag", ["certificate_file", "key_file"])
def test_client_certificates_do_not_apply_to_our_own_clusters(flag: str) -> None:
    """A TLS flag that would be ignored in silence is refused."""
    with pytest.raises(UsageError, match="TLS and SASL flags do not apply"):
        spec(**{flag: "x"}).checked()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"kind": "cloud"},
            r"'kind' is wrong: there is no kind of cluster 'cloud', only local, docker, external: choose one",
        ),
        ({"kind": "dokcer"}, r"'kind' is wrong: there is no .*: did you mean 'docker'\?"),
        ({"ports": ["one"]}, r"'ports\.0' cannot be 'one': use a whole number"),
        ({"mechanism": "GSSAPI"}, "'mechanism' cannot be 'GSSAPI': use PLAIN, SCRAM-SHA-256 or"),
        ({"netsn": True}, "unknown key 'netsn': did you mean 'netns'"),
    ],
)
def test_wrong_values_are_refused(given: dict[str, Any], said: str) -> None:
    """The command line is checked like a file."""
    with pytest.raises(UsageError, match=f"the command line: .*{said}"):
        spec(**given)


def test_a_specification_travels_as_json() -> None:
    """The command passes it to the process that holds the cluster; it carries no secrets."""
    given = spec(kind="external", bootstrap=["h:1"], ca_file="ca.pem", mechanism="PLAIN", tls=True)
    assert ClusterSpec.model_validate_json(given.model_dump_json()) == given
    assert not {name for name in ClusterSpec.model_fields if "password" in name}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, LocalCluster),
        ({"kind": "docker", "image": "apache/kafka:4.3.1"}, DockerCluster),
        ({"kind": "external", "bootstrap": ["h:1"]}, ExternalCluster),
    ],
)
def test_the_kind_decides_the_cluster(given: dict[str, Any], kind: type) -> None:
    """Making a cluster starts nothing."""
    made = make_cluster(spec(**given).checked(), SilentProgress())
    assert type(made) is kind
    assert made.nodes == ()
    assert not made.directory.exists()


def test_docker_needs_an_image() -> None:
    """Whoever skips the choice of an image is told."""
    with pytest.raises(UsageError, match="no image was chosen"):
        make_cluster(spec(kind="docker"), SilentProgress())


@pytest.mark.parametrize("given", [{}, {"kind": "external"}, {"kind": "docker", "image": "mine:1"}])
def test_an_image_is_looked_for_only_when_needed(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Local and external clusters, and an image already chosen, need no Docker."""
    monkeypatch.setattr("harness.clusters.kinds.docker.ensure_image", lambda *_: pytest.fail("not needed"))
    assert spec(**given).with_image(lambda _: False, SilentProgress()) == spec(**given)


def test_the_chosen_image_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made sure of is what is used."""
    monkeypatch.setattr("harness.clusters.kinds.docker.ensure_image", lambda target, *_: f"img:{target.version}")
    assert spec(kind="docker", version="4.1").with_image(lambda _: True, SilentProgress()).image == "img:4.1.2"


@pytest.mark.parametrize(
    "addresses",
    [[], ["h"], ["h:"], [":9092"], ["h:x"], ["h:0"], ["h:65536"], ["h:1", "h:"], ["http://h:1"], ["h/x:1"], ["/:1"]],
)
def test_external_addresses_are_checked(addresses: list[str]) -> None:
    """Every address is HOST:PORT, and there is at least one."""
    with pytest.raises(UsageError, match=r"is not an address|needs its addresses"):
        make_cluster(spec(kind="external", bootstrap=addresses), SilentProgress())


def test_external_ports_are_plain_numbers() -> None:
    """A superscript is a digit to Python and no number."""
    with pytest.raises(UsageError):
        make_cluster(spec(kind="external", bootstrap=["h:²"]), SilentProgress())


@pytest.mark.parametrize("address", ["h:1", "127.0.0.1:65535", "[::1]:9092", "[fe80::1%eth0]:9092"])
def test_addresses_of_all_kinds_are_taken(address: str) -> None:
    """Names, and both kinds of numbers."""
    assert isinstance(make_cluster(spec(kind="external", bootstrap=[address]), SilentProgress()), ExternalCluster)


def test_addresses_of_an_external_cluster_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """An IPv6 address that a broker reports is written in brackets, so that its port can be told from it."""
    hosts = {3: "fe80::1", 1: "h", 2: "10.0.0.1"}
    listed = tuple((number, wire.address_of(host, 9092)) for number, host in hosts.items())
    monkeypatch.setattr(wire, "ask_metadata", lambda *_: wire.Metadata("theirs", 1, dict(listed), listed))
    cluster = make_cluster(spec(kind="external", bootstrap=["h:1"]), SilentProgress())
    cluster._bring_up()
    assert cluster.cluster_id == "theirs"
    assert cluster.bootstrap == "h:9092,10.0.0.1:9092,[fe80::1]:9092"


def test_an_external_cluster_is_never_broken(tmp_path: Path) -> None:
    """It can do nothing to its nodes, and every attempt is refused."""
    cluster = ExternalCluster(("h:1",), make_cluster(spec(), SilentProgress()).security)
    assert cluster.capabilities == frozenset()
    for action in (cluster.stop_node, cluster.kill, cluster.pause, cluster.resume, cluster.start_node):
        with pytest.raises(CannotHere, match="the harness did not start it"):
            action(1)
