"""The demonstration: a real cluster, the notes' large batch, and the notes' table."""

from __future__ import annotations

from harness.clusters.spec import ClusterSpec, make_cluster
from harness.progress import Progress
from workloads import large_batch

TOPIC = "debug-large-batch"


def run(spec: ClusterSpec, progress: Progress) -> large_batch.Outcome:
    """Bring a cluster up, run the workload on it, take it down."""
    with make_cluster(spec, progress) as cluster:
        outcome = large_batch.run(cluster.bootstrap, cluster.security, TOPIC, large_batch.Settings(), progress)
        progress.step("removing the cluster")
    return outcome
