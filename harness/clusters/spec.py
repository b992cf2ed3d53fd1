"""Which cluster to make: what flags and files say, checked, and turned into one of its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from harness.clusters.base import Cluster
from harness.clusters.flags import DEFAULT_KIND
from harness.clusters.image_choice import Consent
from harness.clusters.kinds import KINDS, kind_named
from harness.clusters.kinds.base import ClusterKind
from harness.foundation.config import Model
from harness.foundation.errors import UsageError
from harness.foundation.progress import Progress
from harness.foundation.security import Mechanism


def _known(name: str) -> str:
    try:
        return kind_named(name).name
    except UsageError as error:
        raise ValueError(str(error)) from None


Kind = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": list(KINDS)})]


class ClusterSpec(Model):
    """Everything that decides what cluster comes up; holds no secrets, so it can be stored and passed on."""

    kind: Kind = DEFAULT_KIND
    target: str = "kafka"
    version: str | None = None
    netns: bool = False
    ports: tuple[int, ...] = ()
    image: str | None = None
    bootstrap: tuple[str, ...] = ()
    stateless: bool = False  # of a cluster that runs already; a target says it in its file
    tls: bool = False
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    mechanism: Mechanism | None = None

    @property
    def of(self) -> ClusterKind:
        """The kind itself."""
        return kind_named(self.kind)

    @property
    def explicit(self) -> set[str]:
        """The settings that are not as they are unless somebody says otherwise."""
        fields = type(self).model_fields
        values = {name: getattr(self, name) for name in fields}
        return {name for name, value in values.items() if value and value != fields[name].default}

    def checked(self) -> ClusterSpec:
        """This, or an error for settings that do not go together."""
        foreign = self.explicit - self.of.takes
        for brought in (each for kind in KINDS.values() for each in kind.extra_settings):
            if not foreign.isdisjoint(brought.settings):
                raise UsageError(f"{brought.flags} not apply to --cluster {self.kind}", brought.remedy)
        self.of.refuse(self)
        for port in self.ports:
            if not 1024 <= port <= 65535:
                raise UsageError(f"{port} is not a port brokers can use", "choose ports from 1024 to 65535")
        if len(set(self.ports)) != len(self.ports):
            raise UsageError("--ports names a port twice", "give every node a port of its own")
        self.of.target(self)
        return self

    @property
    def log_patterns(self) -> dict[str, str]:
        """What lines of its logs mean, where those are ours to read."""
        target = self.of.target(self)
        return target.logs if target else {}

    def with_image(self, consent: Consent, progress: Progress) -> ClusterSpec:
        """This, with what it needs on this machine made sure of; asks before it builds an image."""
        return self.of.prepared(self, consent, progress)


def make_cluster(spec: ClusterSpec, progress: Progress) -> Cluster:
    """The cluster, not started yet."""
    return spec.of.make(spec, progress)
