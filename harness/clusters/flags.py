"""What flags and variables of the environment say about a cluster."""

from __future__ import annotations

KIND_VARIABLE = "TIDEGAUGE_CLUSTER"
VERSION_VARIABLE = "TIDEGAUGE_KAFKA_VERSION"
TARGET_VARIABLE = "TIDEGAUGE_TARGET"
BOOTSTRAP_VARIABLE = "TIDEGAUGE_BOOTSTRAP"
DEFAULT_KIND = "local"  # of a cluster of which nothing is said


def cluster_of(
    kind: str | None, version: str | None, target: str | None, bootstrap: str | None
) -> dict[str, object] | None:
    """What flags say of the cluster, as a scenario file would; None if they say nothing."""
    said = {"kind": kind, "version": version, "target": target, "bootstrap": parts(bootstrap) if bootstrap else None}
    return {key: value for key, value in said.items() if value} or None


def parts(text: str) -> list[str]:
    """What stands between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
