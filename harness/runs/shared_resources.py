"""What several runs can share: a cluster that is up, and a Spark session that is warm.

A run on a shared one uses it and leaves it as it is: it makes topics of its own and removes them. Both end with
whoever lends them, also when this process is killed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from rich.console import Console

from checkers.core.spark import warm_up
from harness.clusters.base import Cluster
from harness.clusters.cleanup.guard import Guard
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation import optional_work
from harness.foundation.paths import clusters_dir
from harness.foundation.view import viewed_on
from harness.spark.place import Place
from harness.spark.session import Session


@dataclass(frozen=True)
class SharedResources:
    """What a run uses instead of making it itself."""

    cluster: Cluster | None = None  # up, and as the scenario asks for it
    session: Session | None = None
    reports: bool = True  # whether each run gets its report at once; `tidegauge report` makes one at any time


@contextmanager
def sharing(
    name: str, spec: ClusterSpec | None, console: Console, place: Place, *, reports: bool = True
) -> Iterator[SharedResources]:
    """A session, and a cluster if one is asked for, as long as this lasts."""
    with ExitStack() as undo:
        guard = Guard(clusters_dir() / f"{name}-{secrets.token_hex(4)}")
        undo.callback(guard.release)
        token, scratch = guard.directory.name, guard.directory / "spark"
        session = undo.enter_context(Session.start(scratch, place=place, token=token, warm=warm_up))
        cluster = None
        if spec is not None:
            with viewed_on(console) as view:
                view.phase("cluster")
                cluster = make_cluster(spec, view)
                undo.callback(cluster.stop)
                undo.push(optional_work.give_up_on_error)
                cluster.start()
        yield SharedResources(cluster, session, reports)
