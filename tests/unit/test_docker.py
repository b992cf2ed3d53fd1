"""Docker, without an engine: where it is looked for, how long, and which image is asked of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import docker
import docker.errors
import pytest
import requests
from docker.context import ContextAPI

from harness.clusters import which_image
from harness.clusters.docker import PING_TIMEOUT_S, connect, endpoint
from harness.clusters.target import load_target
from harness.errors import CannotHere, Exit, UsageError
from harness.progress import Silent

DEFAULT = "unix:///var/run/docker.sock"


class Engine:
    """What answers, or does not; and every client that was made."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.made: list[tuple[int, str]] = []
        self.did: list[str] = []

    def from_env(self, *, timeout: int, environment: dict[str, str]) -> Engine:
        """In place of `docker.from_env`."""
        self.made.append((timeout, environment["DOCKER_HOST"]))
        if self.error:
            raise self.error
        return self

    def ping(self) -> None:
        """Written down."""
        self.did.append("ping")

    def close(self) -> None:
        """Written down."""
        self.did.append("close")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine that is none."""
    made = Engine()
    monkeypatch.setattr(docker, "from_env", made.from_env)
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.1.2.3:2375")
    return made


@pytest.mark.parametrize(
    ("variable", "context", "expected"),
    [
        ("tcp://a:1", "unix:///b", "tcp://a:1"),
        ("", "unix:///b", "unix:///b"),
        (None, "unix:///b", "unix:///b"),
        (None, None, DEFAULT),
        (None, "", DEFAULT),
    ],
)
def test_where_the_engine_is(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, context: str | None, expected: str
) -> None:
    """The variable, the context of the command line, or the usual socket; in this order."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    if variable is not None:
        monkeypatch.setenv("DOCKER_HOST", variable)
    monkeypatch.setattr(ContextAPI, "kwargs_from_context", lambda: {"base_url": context} if context else {})
    assert endpoint() == expected


def test_a_connection_is_tried_briefly_first(engine: Engine) -> None:
    """An engine that hangs is found out in seconds, though its later answers may take long."""
    assert connect(timeout_s=77) is engine  # type: ignore[comparison-overlap]
    assert engine.made == [(PING_TIMEOUT_S, "tcp://10.1.2.3:2375"), (77, "tcp://10.1.2.3:2375")]
    assert engine.did == ["close", "ping"]
    assert PING_TIMEOUT_S == 5


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (docker.errors.DockerException("no\nsuch"), r"\(no\): start the Docker engine"),
        (requests.ReadTimeout("slow"), r"\(slow\): start the Docker engine"),
        (PermissionError(13, "Permission denied"), r"\(\[Errno 13\] Permission denied\): join the group"),
        (docker.errors.DockerException(), r"\(DockerException\): start"),
    ],
)
def test_an_engine_that_does_not_answer(engine: Engine, error: Exception, said: str) -> None:
    """Where, why and what to do, after one try."""
    engine.error = error
    with pytest.raises(CannotHere, match=rf"Docker does not answer at tcp://10\.1\.2\.3:2375 {said}.*DOCKER_HOST"):
        connect()
    assert len(engine.made) == 1


class Images:
    """The images of an engine."""

    def __init__(self, here: tuple[str, ...] = (), error: Exception | None = None) -> None:
        self.here = here
        self.error = error
        self.pulled: list[tuple[str, str]] = []

    def get(self, name: str) -> None:
        """There, or not."""
        if self.error:
            raise self.error
        if name not in self.here:
            raise docker.errors.ImageNotFound("no")

    def pull(self, repository: str, tag: str) -> None:
        """Written down."""
        self.pulled.append((repository, tag))


def choose(monkeypatch: pytest.MonkeyPatch, images: Images, asked: str) -> str:
    """The image that KAFKA_IMAGE asks for."""
    client: Any = SimpleNamespace(images=images)
    monkeypatch.setattr(which_image, "connect", lambda: client)
    monkeypatch.setenv("KAFKA_IMAGE", asked)
    return which_image.ensure_image(load_target("kafka"), lambda _: pytest.fail("asked for consent"), Silent())


@pytest.mark.parametrize(
    ("name", "pulled"),
    [
        ("kafka", ("kafka", "latest")),
        ("apache/kafka:4.1.2", ("apache/kafka", "4.1.2")),
        ("registry:5000/kafka", ("registry:5000/kafka", "latest")),
        ("registry:5000/kafka:1", ("registry:5000/kafka", "1")),
        ("kafka@sha256:abc", ("kafka", "sha256:abc")),
    ],
)
def test_the_tag_is_told_from_the_registrys_port(
    monkeypatch: pytest.MonkeyPatch, name: str, pulled: tuple[str, str]
) -> None:
    """What is not here is pulled, exactly that; what is here is not."""
    images = Images()
    assert choose(monkeypatch, images, name) == name
    assert images.pulled == [pulled]
    images = Images(here=(name,))
    assert choose(monkeypatch, images, name) == name
    assert images.pulled == []


def api_error(status: int) -> docker.errors.APIError:
    """What the engine answers."""
    response: Any = SimpleNamespace(status_code=status, url="", reason="")
    return docker.errors.APIError("no", response=response)


def test_a_name_that_is_none_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said with the name, and nothing is pulled."""
    images = Images(error=api_error(400))
    with pytest.raises(UsageError, match="'UPPER CASE' is not the name of an image: correct KAFKA_IMAGE") as caught:
        choose(monkeypatch, images, "UPPER CASE")
    assert caught.value.exit_code == Exit.USAGE
    assert images.pulled == []


def test_another_error_of_the_engine_is_not_the_names_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes through as it is."""
    with pytest.raises(docker.errors.APIError):
        choose(monkeypatch, Images(error=api_error(500)), "kafka")
