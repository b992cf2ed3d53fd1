"""Other versions, other products, and clusters that run already.

They start the products that they are about.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from harness.clusters.external import ExternalCluster
from harness.clusters.image_choice import ensure_image
from harness.clusters.jars import locked_versions
from harness.clusters.local import LocalCluster
from harness.clusters.prepared_files import prepared_dir
from harness.clusters.target import load_target
from harness.foundation.errors import CannotHere, ClusterError
from harness.foundation.paths import cache_dir
from harness.foundation.processes import marked
from harness.foundation.progress import SilentProgress
from harness.foundation.protocol import Api
from harness.foundation.security import Security, SecuritySpec, from_environment
from harness.history.sources import segment_path
from harness.tap.process import TapConfig, Upstream
from harness.tap.taps import Taps
from tests.integration.tapped_cluster import exchanges
from tests.integration.traffic import EXPECTED, confluent_round_trip, kafka_python_round_trip
from tests.support import cli, eventually, remains, up

pytestmark = pytest.mark.cluster

PASSWORD = "tell-nobody-8c1f"
ZOOKEEPER = "org.apache.zookeeper.server.ZooKeeperServerMain"


OTHER_VERSIONS = [version for version in locked_versions("kafka") if version != load_target("kafka").version]


@pytest.mark.parametrize(
    "version", [*(pytest.param(v, marks=pytest.mark.nightly) for v in OTHER_VERSIONS[:-1]), OTHER_VERSIONS[-1]]
)
def test_other_versions_of_kafka(state_home: Path, version: str) -> None:
    """Each that we ship a lock for comes up and carries messages; so does its short name."""
    cluster = up("--kafka-version", version.rpartition(".")[0])
    assert cluster["version"] == version
    assert kafka_python_round_trip(cluster["bootstrap"]) == EXPECTED
    assert confluent_round_trip(cluster["bootstrap"]) == EXPECTED
    assert cli("cluster", "down").returncode == 0
    assert remains(cluster["name"], state_home) == []


@pytest.mark.nightly  # it fetches a Java and archives of its own
@pytest.mark.parametrize("version", locked_versions("kafka-zookeeper"))
def test_versions_of_kafka_with_zookeeper(state_home: Path, version: str) -> None:
    """Each that we ship a lock for comes up beside ZooKeeper and carries messages; both are gone afterwards."""
    cluster = up("--kafka-version", version)
    assert (cluster["product"], cluster["version"]) == ("kafka-zookeeper", version)
    assert [each for each in marked(cluster["name"]) if ZOOKEEPER in each.cmdline()]
    assert kafka_python_round_trip(cluster["bootstrap"]) == EXPECTED
    assert confluent_round_trip(cluster["bootstrap"]) == EXPECTED
    assert cli("cluster", "down").returncode == 0
    assert remains(cluster["name"], state_home) == []


def test_a_damaged_cache_mends_itself(state_home: Path, tmp_path: Path) -> None:
    """A truncated archive and a truncated checkpoint are made anew instead of failing inside a broker."""
    target = load_target("kafka")
    shutil.copytree(cache_dir(), tmp_path / "cache" / "tidegauge")
    cache = tmp_path / "cache" / "tidegauge"
    damaged = [cache / prepared_dir(target).relative_to(cache_dir()) / "data" / "bootstrap.checkpoint"]
    damaged += list(cache.rglob(f"kafka-clients-{target.version}.jar"))
    assert len(damaged) == 2
    for file in damaged:
        file.write_bytes(file.read_bytes()[:10])
    cluster = up(XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert kafka_python_round_trip(cluster["bootstrap"]) == EXPECTED
    assert cli("cluster", "down").returncode == 0
    assert remains(cluster["name"], state_home) == []


@pytest.mark.docker
def test_another_product_as_containers(state_home: Path, tmp_path: Path) -> None:
    """A target that names an image and its settings needs no compose file of its own (processes: your-broker.md)."""
    image = ensure_image(load_target("kafka"), lambda _: True, SilentProgress())
    file = tmp_path / "my-broker.toml"
    file.write_text(f"""
name = "my-broker"
version = "1"
ports = ["kafka", "raft", "internal"]

[container]
image = "{image}"

[container.env]
CLUSTER_ID = "{{cluster_id}}"
KAFKA_NODE_ID = "{{node_id}}"
KAFKA_PROCESS_ROLES = "broker,controller"
KAFKA_CONTROLLER_QUORUM_VOTERS = "{{nodes.raft:voters}}"
KAFKA_CONTROLLER_LISTENER_NAMES = "RAFT"
KAFKA_INTER_BROKER_LISTENER_NAME = "INTERNAL"
KAFKA_LISTENERS = "KAFKA://{{bind}}:{{port.kafka}},RAFT://{{bind}}:{{port.raft}},INTERNAL://{{bind}}:{{port.internal}}"
KAFKA_ADVERTISED_LISTENERS = "KAFKA://{{client_host}}:{{port.kafka}},INTERNAL://{{host}}:{{port.internal}}"
KAFKA_LISTENER_SECURITY_PROTOCOL_MAP = "KAFKA:PLAINTEXT,RAFT:PLAINTEXT,INTERNAL:PLAINTEXT"
KAFKA_LOG_DIRS = "/tmp/data"
""")
    cluster = up("--cluster", "docker", "--target", str(file))
    assert cluster["product"] == "my-broker"
    assert confluent_round_trip(cluster["bootstrap"]) == EXPECTED
    assert cli("cluster", "down").returncode == 0
    assert remains(cluster["name"], state_home) == []


def test_a_cluster_that_runs_already_is_used_and_left_as_it_is(state_home: Path) -> None:
    """Given by one address: all nodes are found, nothing can be broken, and `down` only forgets it."""
    ours = up()
    external = up("--cluster", "external", "--bootstrap", ours["nodes"][1]["address"])
    assert external["cluster_id"] == ours["cluster_id"]
    assert [n["address"] for n in external["nodes"]] == [n["address"] for n in ours["nodes"]]
    assert external["capabilities"] == []
    assert kafka_python_round_trip(external["bootstrap"]) == EXPECTED
    assert cli("cluster", "down", external["name"]).returncode == 0
    assert kafka_python_round_trip(ours["bootstrap"]) == EXPECTED
    with ExternalCluster((ours["nodes"][0]["address"],), Security()) as cluster:
        for act in (cluster.kill, cluster.pause, cluster.resume, cluster.stop_node, cluster.start_node):
            with pytest.raises(CannotHere, match="did not start it"):
                act(1)
    assert cli("cluster", "down").returncode == 0
    assert remains(ours["name"], state_home) == []


class Secured(NamedTuple):
    """A cluster that takes TLS and SASL only."""

    bootstrap: str
    ca_file: Path
    stranger_ca_file: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Real Kafka with certificates of an authority of our own and one user."""
    directory = tmp_path_factory.mktemp("tls")
    authority, stranger = trustme.CA(), trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
    pkcs8 = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    (directory / "node.pem").write_bytes(key.private_bytes(*pkcs8) + chain)
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    stranger.cert_pem.write_to_path(str(directory / "stranger.pem"))
    target = load_target("kafka")
    assert target.process is not None
    files = dict(target.process.files)
    files["server.properties"] = files["server.properties"].replace("CLIENT:PLAINTEXT", "CLIENT:SASL_SSL") + (
        "ssl.keystore.type=PEM\n"
        f"ssl.keystore.location={directory}/node.pem\n"
        "sasl.enabled.mechanisms=PLAIN\n"
        "listener.name.client.plain.sasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_tester="{PASSWORD}";\n'
    )
    process = target.process.model_copy(update={"files": files})
    with LocalCluster(target.model_copy(update={"process": process, "ready": "port"})) as cluster:
        yield Secured(cluster.bootstrap, directory / "ca.pem", directory / "stranger.pem")


def security(monkeypatch: pytest.MonkeyPatch, ca_file: Path, password: str = PASSWORD) -> Security:
    """As the command line makes it."""
    monkeypatch.setenv("TIDEGAUGE_SASL_USERNAME", "tester")
    monkeypatch.setenv("TIDEGAUGE_SASL_PASSWORD", password)
    return from_environment(tls=True, ca_file=ca_file, certificate_file=None, key_file=None, mechanism="PLAIN")


def all_nodes(secured: Secured, how: Security) -> str:
    """The bootstrap addresses, once every broker has registered."""
    found: list[str] = []

    def three() -> bool:
        with ExternalCluster(tuple(secured.bootstrap.split(",")), how) as cluster:
            found[:] = [cluster.bootstrap]
            return len(cluster.nodes) == 3

    eventually(three, "three brokers")
    return found[0]


def test_tls_and_sasl_with_both_clients(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verified certificates and a password, and messages go through."""
    how = security(monkeypatch, secured.ca_file)
    bootstrap = all_nodes(secured, how)
    assert kafka_python_round_trip(bootstrap, how) == EXPECTED
    assert confluent_round_trip(bootstrap, how) == EXPECTED


def test_tls_and_sasl_through_a_tap(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tap speaks TLS in the clients' place and knows no password: theirs passes through."""
    how = security(monkeypatch, secured.ca_file)
    all_nodes(secured, how)
    monkeypatch.delenv("TIDEGAUGE_SASL_PASSWORD")
    spec = SecuritySpec.of(how)
    upstream = Upstream(address=secured.bootstrap.split(",")[0])
    (tmp_path / "segments").mkdir()

    def config(process: int) -> TapConfig:
        segment = segment_path(tmp_path, process)
        return TapConfig(process=process, segment=segment, upstreams=(upstream,), security=spec)

    taps = Taps(config, {}, tmp_path / "logs", lambda _: None)
    taps.prepare()
    taps.start()
    (place,) = taps.current.taps
    assert kafka_python_round_trip(place.address, how.without_tls()) == EXPECTED
    assert confluent_round_trip(place.address, how.without_tls()) == EXPECTED
    taps.stop()
    assert (taps.deaths, taps.troubles, taps.counts["not_understood"]) == ([], [], 0)
    assert len(taps.current.taps) == 3, "the others were found through the first"
    rows = exchanges(tmp_path)
    assert {row["api"] for row in rows} >= {Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE, Api.PRODUCE, Api.FETCH}
    assert PASSWORD not in json.dumps(rows)


def test_a_certificate_of_a_stranger_is_refused(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verification is on."""
    with (
        pytest.raises(ClusterError, match="SASL_SSL"),
        ExternalCluster((secured.bootstrap.split(",")[0],), security(monkeypatch, secured.stranger_ca_file)),
    ):
        pass


def test_secrets_are_in_no_argument_output_or_file(
    secured: Secured, state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither when it works nor when it fails."""
    all_nodes(secured, security(monkeypatch, secured.ca_file))
    monkeypatch.delenv("TIDEGAUGE_SASL_PASSWORD")
    (tmp_path / "password").write_text(PASSWORD + "\n")
    flags = (
        "--cluster",
        "external",
        "--bootstrap",
        secured.bootstrap,
        "--tls-ca",
        str(secured.ca_file),
        "--sasl",
        "PLAIN",
    )
    environment = {"TIDEGAUGE_SASL_USERNAME": "tester", "TIDEGAUGE_SASL_PASSWORD_FILE": str(tmp_path / "password")}
    ran = cli("cluster", "up", *flags, "--json", **environment)
    assert ran.returncode == 0, ran.stderr
    cluster = json.loads(ran.stdout)
    assert cluster["security"] == "SASL_SSL"
    assert PASSWORD not in ran.stdout + ran.stderr
    assert PASSWORD not in " ".join(psutil.Process(cluster["harness_pid"]).cmdline())
    for file in Path(cluster["directory"]).rglob("*"):
        assert not file.is_file() or PASSWORD not in file.read_text(errors="replace")
    assert cli("cluster", "down", cluster["name"]).returncode == 0
    (tmp_path / "password").write_text(f"not-{PASSWORD}")
    failed = cli("cluster", "up", *flags, **environment)
    assert failed.returncode == 3, failed.stderr
    assert PASSWORD not in failed.stdout + failed.stderr
