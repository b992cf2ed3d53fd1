"""Which cluster to make: what flags and files say, checked, and turned into one of the three kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from harness.clusters.base import Cluster
from harness.clusters.docker import DockerCluster
from harness.clusters.external import ExternalCluster
from harness.clusters.local import LocalCluster
from harness.clusters.target import load_target
from harness.clusters.which_image import Consent, ensure_image
from harness.config import Model
from harness.errors import UsageError
from harness.progress import Progress
from harness.security import Mechanism, from_environment

Kind = Literal["local", "docker", "external"]


class ClusterSpec(Model):
    """Everything that decides what cluster comes up; holds no secrets, so it can be stored and passed on."""

    kind: Kind = "local"
    target: str = "kafka"
    version: str | None = None
    netns: bool = False
    ports: tuple[int, ...] = ()
    image: str | None = None
    bootstrap: tuple[str, ...] = ()
    tls: bool = False
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    mechanism: Mechanism | None = None

    def checked(self) -> ClusterSpec:
        """This, or an error for settings that do not go together."""
        if self.netns and self.kind != "local":
            raise UsageError(f"--netns does not apply to --cluster {self.kind}", "use it with --cluster local")
        if self.bootstrap and self.kind != "external":
            raise UsageError(f"--bootstrap does not apply to --cluster {self.kind}", "add --cluster external")
        if self.kind == "external" and (self.ports or self.version or self.target != "kafka"):
            raise UsageError("an external cluster is used as it is", "leave --ports, --kafka-version, --target out")
        secured = any((self.tls, self.ca_file, self.certificate_file, self.key_file, self.mechanism))
        if secured and self.kind != "external":
            raise UsageError(f"TLS and SASL flags do not apply to --cluster {self.kind}", "use --cluster external")
        for port in self.ports:
            if not 1024 <= port <= 65535:
                raise UsageError(f"{port} is not a port brokers can use", "choose ports from 1024 to 65535")
        if len(set(self.ports)) != len(self.ports):
            raise UsageError("--ports names a port twice", "give every node a port of its own")
        if self.kind != "external":
            load_target(self.target, self.version)
        return self

    @property
    def log_patterns(self) -> dict[str, str]:
        """What lines of its logs mean; the logs of an external cluster are not ours to read."""
        return {} if self.kind == "external" else load_target(self.target, self.version).logs

    def with_image(self, consent: Consent, progress: Progress) -> ClusterSpec:
        """This, with the image that will be used made sure of; asks before it builds one."""
        if self.kind != "docker" or self.image is not None:
            return self
        target = load_target(self.target, self.version)
        return self.model_copy(update={"image": ensure_image(target, consent, progress)})


def make_cluster(spec: ClusterSpec, progress: Progress) -> Cluster:
    """The cluster, not started yet."""
    if spec.kind == "external":
        security = from_environment(
            tls=spec.tls,
            ca_file=spec.ca_file,
            certificate_file=spec.certificate_file,
            key_file=spec.key_file,
            mechanism=spec.mechanism,
        )
        return ExternalCluster(spec.bootstrap, security, progress)
    target = load_target(spec.target, spec.version)
    if spec.kind == "docker":
        if spec.image is None:
            raise UsageError("no image was chosen", "call with_image() first")
        return DockerCluster(target, image=spec.image, ports=spec.ports, progress=progress)
    return LocalCluster(target, netns=spec.netns, ports=spec.ports, progress=progress)
