"""Which image a cluster of containers runs: the one asked for, one that is here, one to pull, or one to build.

`image_builder.py` knows how an image is built without a registry; this module decides when.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from docker.utils import parse_repository_tag

from harness.clusters.docker_engine import connect
from harness.clusters.image_builder import build_image, local_tag
from harness.clusters.jars import ensure_jars
from harness.clusters.target import Target
from harness.foundation.errors import CannotHere, UsageError
from harness.foundation.progress import Progress

Consent = Callable[[str], bool]
OFFICIAL = "apache/kafka"


def ensure_image(target: Target, consent: Consent, progress: Progress) -> str:
    """The name of an image that is on this machine, pulled or, with consent, built when it was not."""
    if target.container is None:
        raise UsageError(
            f"the target '{target.name}' cannot run in containers", "add a [container] table, or use local"
        )
    client = connect()
    asked = target.container.image or os.environ.get("KAFKA_IMAGE")
    if asked:
        if not _present(client, asked) and (why := _pull(client, asked, progress)):
            raise CannotHere(f"the image {asked} is not here and cannot be pulled ({why})", "pull or build it yourself")
        return asked
    here = images_here(target, client)
    if here:
        return here[0]
    official = f"{OFFICIAL}:{target.version}"
    why = _pull(client, official, progress)
    if not why:
        return official
    if not consent(f"{official} cannot be pulled ({why}). Build a compatible image on this machine?"):
        raise CannotHere(
            f"the image {official} is not here and cannot be pulled ({why})",
            f"run `tidegauge image build --kafka-version {target.version}`, or set KAFKA_IMAGE to an image you have",
        )
    return build_for(target, progress, client)


def images_here(target: Target, client: docker.DockerClient) -> list[str]:
    """The images of this Kafka version that need neither pulling nor building, the official one first."""
    names = (f"{OFFICIAL}:{target.version}", local_tag(target.version))
    return [name for name in names if _present(client, name)]


def build_for(target: Target, progress: Progress, client: docker.DockerClient | None = None) -> str:
    """An image of the target's version, made here."""
    if target.java is None:
        raise UsageError(f"only images of Apache Kafka are built here, not of '{target.name}'", "build it yourself")
    client = client or connect()
    jars = ensure_jars(target.name, target.version, target.coordinates(), target.java.exclude, progress)
    return build_image(client, jars, local_tag(target.version), progress)


def _present(client: docker.DockerClient, name: str) -> bool:
    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    except APIError as error:
        if error.status_code == 400:
            raise UsageError(f"'{name}' is not the name of an image", "correct KAFKA_IMAGE or the target") from error
        raise
    return True


def _pull(client: docker.DockerClient, name: str, progress: Progress) -> str:
    """Nothing when it worked, else the reason in a few words."""
    progress.step(f"pulling {name}")
    repository, tag = parse_repository_tag(name)
    try:
        client.images.pull(repository, tag=tag or "latest")
    except DockerException as error:
        return (str(error).strip().splitlines() or ["unknown reason"])[0][:160]
    return ""
