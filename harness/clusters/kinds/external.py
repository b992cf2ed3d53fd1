"""What runs already and is somebody else's: it is used as it is, and every run looks at it anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from harness.clusters.base import Cluster
from harness.clusters.external import ExternalCluster
from harness.clusters.kinds.base import OF_A_PRODUCT, ClusterKind, KindSettings
from harness.foundation.errors import CannotHere, UsageError
from harness.foundation.progress import Progress
from harness.foundation.security import from_environment

if TYPE_CHECKING:
    from harness.clusters.spec import ClusterSpec

SECURED = ("tls", "ca_file", "certificate_file", "key_file", "mechanism")


class External(ClusterKind):
    """Known by its addresses."""

    cluster = ExternalCluster
    about = "runs already"
    takes = frozenset({"bootstrap", "stateless", *SECURED})
    extra_settings = (
        KindSettings(("bootstrap",), "--bootstrap does", "add --cluster external"),
        KindSettings(("stateless",), "cluster.stateless does", "write `stateless = true` into the target file"),
        KindSettings(SECURED, "TLS and SASL flags do", "use --cluster external"),
    )
    can_be_shared = False
    start_s = 1.0

    def refuse(self, spec: ClusterSpec) -> None:
        """What only whoever starts it decides."""
        if not OF_A_PRODUCT.isdisjoint(spec.explicit):
            raise UsageError("an external cluster is used as it is", "leave --ports, --kafka-version, --target out")

    def target(self, spec: ClusterSpec) -> None:
        """Not ours to know."""

    def make(self, spec: ClusterSpec, progress: Progress) -> Cluster:
        """From its addresses, and the environment for who we are."""
        security = from_environment(
            tls=spec.tls,
            ca_file=spec.ca_file,
            certificate_file=spec.certificate_file,
            key_file=spec.key_file,
            mechanism=spec.mechanism,
        )
        cluster = ExternalCluster(spec.bootstrap, security, progress)
        cluster.stateless = spec.stateless
        return cluster

    def log_lines(self, directory: Path, node_id: int, lines: int) -> NoReturn:  # noqa: ARG002 - as above
        """On hosts that we know nothing of."""
        raise CannotHere("the logs of an external cluster are not ours to read", "look on its hosts")


KIND = External()
