"""The cluster and the Spark session that runs share, for as long as that is safe.

A cluster is used again by a run that asks for the same one, if it has all that the run's faults need, no run has
spoiled it, and it is found to be whole. Otherwise a fresh one takes its place. It is equipped for the faults on
networks of all runs that are still to come, so that these need no other one. Clusters that cannot be lent, such as
somebody else's, are not kept: every run looks at them anew.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from contextlib import ExitStack, suppress

from checkers.core.spark import warm_up
from harness.clusters.base import Cluster
from harness.clusters.cleanup.guard import Guard
from harness.clusters.network_support import NETWORK
from harness.clusters.node import Capability
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.errors import TidegaugeError
from harness.foundation.paths import clusters_dir
from harness.foundation.view import View
from harness.runs.shared_resources import SharedResources
from harness.spark.place import Place
from harness.spark.session import Session
from harness.suite.feasibility import PlannedCase
from harness.suite.health import why_not_whole

BESIDE_A_LOAD = 5  # a niceness: what is checked while another run goes on gets a third of what that does


class ResourcePool:
    """Lends what runs share; everything ends with it."""

    def __init__(self, place: Place | None = None) -> None:
        self._place = place or Place()
        self._session: Session | None = None
        self._undo = ExitStack()  # of the session
        self._cluster: Cluster | None = None
        self._spec: ClusterSpec | None = None
        self._spoiled = ""  # why the next run gets another one

    def close(self) -> None:
        """End everything."""
        try:
            self.drop_cluster()
        finally:
            self._undo.close()

    def resources_for(self, planned: PlannedCase, upcoming: Iterable[PlannedCase], view: View) -> SharedResources:
        """What the run uses: a session that is warm or about to be, and a cluster that is up and whole."""
        session = self.session()
        if not planned.cluster.of.can_be_shared:
            return SharedResources(None, session)
        later = (each.needs & NETWORK for each in upcoming if each.cluster == planned.cluster and not each.skipped)
        needs = planned.needs.union(*later)
        return SharedResources(self.cluster(planned.cluster, planned.needs, needs, view), session)

    def cluster(
        self, spec: ClusterSpec, needed: Collection[Capability], wanted: Collection[Capability], view: View
    ) -> Cluster:
        """One that is whole and has what is needed; a fresh one gets what is wanted as well."""
        if self._cluster is not None:
            why = self._why_another(self._cluster, spec, needed)
            if not why:
                self._cluster.progress = view
                return self._cluster
            view.happened(f"a fresh cluster: {why}")
            self.drop_cluster()
        cluster = make_cluster(spec, view)
        cluster.equip(wanted)
        view.phase("cluster")
        self._cluster, self._spec, self._spoiled = cluster, spec, ""
        try:
            cluster.start()
        except BaseException:
            self._cluster = None
            raise
        return cluster

    def spoil(self, why: str) -> None:
        """The cluster is not used again."""
        self._spoiled = self._spoiled or why

    def renew(self, why: str) -> None:
        """Neither the cluster nor the session is used again: something of them may be the trouble."""
        self.spoil(why)
        self._session = None
        with suppress(TidegaugeError):  # what could not be removed is in its journal, and `tidegauge heal` tells of it
            self._undo.close()

    def _why_another(self, cluster: Cluster, spec: ClusterSpec, needed: Collection[Capability]) -> str:
        if self._spoiled:
            return self._spoiled
        if spec != self._spec:
            return "the next one asks for another one"
        if missing := sorted(set(needed) - cluster.capabilities):
            return f"the faults need what this one has not ({', '.join(missing)})"
        return why_not_whole(cluster)

    def drop_cluster(self) -> None:
        """End the cluster; whoever asks for one gets a fresh one."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.stop()

    def session(self) -> Session:
        """Started at once if there is none."""
        if self._session is None:
            guard = Guard(clusters_dir() / f"suite-{secrets.token_hex(4)}")
            self._undo.callback(guard.release)
            scratch, token = guard.directory / "spark", guard.directory.name
            self._session = self._undo.enter_context(
                Session.start(scratch, place=self._place, token=token, warm=warm_up, niceness=BESIDE_A_LOAD)
            )
        return self._session
