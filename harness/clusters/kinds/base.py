"""What a kind of cluster is: all that differs between processes, containers, and what somebody else runs.

A kind is an object. It says what a cluster of it can be told, makes one, and knows its logs and what it needs of this
machine; nobody else asks what a kind is called. What can be done to the nodes of a cluster is asked of the cluster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from harness.clusters.base import Cluster
from harness.clusters.requirements import Requirement
from harness.clusters.target import Target, load_target
from harness.foundation.progress import Progress

if TYPE_CHECKING:  # they know all kinds
    from harness.clusters.image_choice import Consent
    from harness.clusters.spec import ClusterSpec

OF_A_PRODUCT = frozenset({"target", "version", "ports"})  # what whoever starts nodes of a target can be told


@dataclass(frozen=True)
class KindSettings:
    """Settings that came with a kind, and the words with which kinds that do not take them refuse them."""

    settings: tuple[str, ...]
    flags: str  # with their verb
    remedy: str


class ClusterKind(ABC):
    """One kind; its name is what its clusters are called."""

    cluster: ClassVar[type[Cluster]]  # the class of its clusters
    about: ClassVar[str]  # in a few words
    takes: ClassVar[frozenset[str]]  # the settings that such a cluster can be told
    extra_settings: ClassVar[tuple[KindSettings, ...]] = ()
    can_be_shared: ClassVar[bool] = True  # to several runs, one after the other
    start_s: ClassVar[float] = 20.0  # what a start takes on two cores, roughly
    logs_in_utc: ClassVar[bool] = False  # where lines do not say their zone; else they are in that of this machine

    @property
    def name(self) -> str:
        """As scenarios and flags write it."""
        return self.cluster.kind

    @property
    def ours(self) -> bool:
        """Whether the harness starts its nodes, and may break them."""
        return self.cluster.nodes_are_ours

    # what somebody asks for

    def refuse(self, spec: ClusterSpec) -> None:  # noqa: B027 - most take what they are told
        """An error for settings that make no sense together."""

    def target(self, spec: ClusterSpec) -> Target | None:
        """What its nodes run; None where that is not ours to know."""
        return load_target(spec.target, spec.version)

    def why_unfit(self, spec: ClusterSpec) -> str:  # noqa: ARG002 - for those that cannot run each
        """Why such a cluster cannot run the target; nothing if it can."""
        return ""

    def prepared(self, spec: ClusterSpec, consent: Consent, progress: Progress) -> ClusterSpec:  # noqa: ARG002 - as above
        """The same with all that has to be on this machine before it is made, such as an image."""
        return spec

    def assumed(self, spec: ClusterSpec) -> ClusterSpec:
        """The same as if that were there, to see what would be possible."""
        return spec

    @abstractmethod
    def make(self, spec: ClusterSpec, progress: Progress) -> Cluster:
        """The cluster, not started yet."""

    # one that another process holds

    @abstractmethod
    def log_lines(self, directory: Path, node_id: int, lines: int) -> list[str]:
        """The last lines of the log of a node, for a cluster that has this directory and is called like it."""

    # for the doctor

    def unstarted(self) -> Cluster | None:
        """One of which can be asked what faults would be possible here; None where there are none."""
        return None

    def requirements(self) -> tuple[Requirement, ...]:
        """What it needs of this machine."""
        return ()
