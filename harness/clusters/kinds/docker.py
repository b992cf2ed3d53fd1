"""Containers, whose image has to be chosen first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.clusters.base import Cluster
from harness.clusters.docker import SERVICE_LABEL, DockerCluster
from harness.clusters.docker_engine import compose_version, connect
from harness.clusters.image_builder import local_tag
from harness.clusters.image_choice import OFFICIAL, Consent, ensure_image, images_here
from harness.clusters.kinds.base import OF_A_PRODUCT, ClusterKind
from harness.clusters.requirements import Requirement, RequirementMissing
from harness.clusters.target import load_target
from harness.foundation.errors import UsageError
from harness.foundation.namespaces import COMPOSE_PROJECT_LABEL
from harness.foundation.progress import Progress

if TYPE_CHECKING:
    from harness.clusters.spec import ClusterSpec

ENGINE_TIMEOUT_S = 5  # for the doctor, who does not wait for an engine


class Docker(ClusterKind):
    """Clocks of containers have no zone but UTC."""

    cluster = DockerCluster
    about = "containers"
    takes = OF_A_PRODUCT | {"image"}
    logs_in_utc = True

    def why_unfit(self, spec: ClusterSpec) -> str:
        """A target has to say how it runs in a container."""
        target = load_target(spec.target, spec.version)
        return "" if target.container else f"the target '{target.name}' cannot run in containers: use --cluster local"

    def prepared(self, spec: ClusterSpec, consent: Consent, progress: Progress) -> ClusterSpec:
        """With the image that will be used made sure of; asks before it builds one."""
        if spec.image is not None:
            return spec
        image = ensure_image(load_target(spec.target, spec.version), consent, progress)
        return spec.model_copy(update={"image": image})

    def assumed(self, spec: ClusterSpec) -> ClusterSpec:
        """With an image that may not be there."""
        return spec.model_copy(update={"image": spec.image or OFFICIAL})

    def make(self, spec: ClusterSpec, progress: Progress) -> Cluster:
        """Of the image."""
        target = load_target(spec.target, spec.version)
        if spec.image is None:
            raise UsageError("no image was chosen", "call with_image() first")
        return DockerCluster(target, image=spec.image, ports=spec.ports, progress=progress)

    def log_lines(self, directory: Path, node_id: int, lines: int) -> list[str]:
        """From the engine."""
        labels = [f"{COMPOSE_PROJECT_LABEL}={directory.name}", f"{SERVICE_LABEL}=node-{node_id}"]
        containers = connect().containers.list(all=True, filters={"label": labels})
        return [line for c in containers for line in c.logs(tail=lines).decode(errors="replace").splitlines()]

    def unstarted(self) -> Cluster:
        """Of Apache Kafka, in an image that was built here."""
        target = load_target("kafka")
        return DockerCluster(target, image=local_tag(target.version))

    def requirements(self) -> tuple[Requirement, ...]:
        """The engine, its command line, and an image."""
        return (
            Requirement("docker", "no --cluster docker", _engine),
            Requirement("compose", "no --cluster docker", _compose),
            Requirement("image", "the first docker cluster pulls or builds one", _image),
        )


def _engine() -> str:
    return f"Docker {connect(timeout_s=ENGINE_TIMEOUT_S).version()['Version']}"


def _compose() -> str:
    return compose_version()


def _image() -> str:
    found = images_here(load_target("kafka"), connect(timeout_s=ENGINE_TIMEOUT_S))
    if not found:
        raise RequirementMissing(
            "no image of Apache Kafka is here", "run `tidegauge image build`, or pull apache/kafka"
        )
    return ", ".join(found)


KIND = Docker()
