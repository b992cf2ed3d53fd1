"""What clusters share whose nodes have networks of their own: scripts run in them, and what they broke is mended."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from harness.clusters.base import Cluster
from harness.foundation.errors import ClusterError
from harness.foundation.namespaces import Place, entry_of, mend, run_at


class NetworkedCluster(Cluster):
    """A cluster that knows the place of each node's network."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._broken: dict[str, tuple[Place, str]] = {}  # where, and the script that undoes it

    @abstractmethod
    def _place(self, node_id: int) -> Place:
        """Where the node's network is now; an error when it has none."""

    def inside(self, node_id: int, script: str) -> str:
        """What a script prints that runs in the network of the node."""
        return self._run(self._place(node_id), script)

    def break_network(self, node_id: int, name: str, script: str, undo: str) -> None:
        """The undo is in the journal before the script runs."""
        place, key = self._place(node_id), _key(node_id, name)
        self.guard.record(**entry_of(place, key, undo))
        self._broken[key] = (place, undo)
        self._run(place, script)

    def mend_network(self, node_id: int, name: str) -> None:
        """Undone where it was done; a network that is gone took it along."""
        key = _key(node_id, name)
        if key not in self._broken:
            return
        place, undo = self._broken[key]
        try:
            mend(place, undo)
        except OSError as error:
            raise ClusterError(
                f"the network of node {node_id} could not be restored ({error})", "stop the cluster: it goes with it"
            ) from error
        self.guard.forget("network", key)
        del self._broken[key]

    def _run(self, place: Place, script: str) -> str:
        try:
            return run_at(place, script, token=self.name)
        except OSError as error:
            raise ClusterError(
                f"a script failed in a node's network ({error})", "see `tidegauge doctor` for what this machine can do"
            ) from error


def _key(node_id: int, name: str) -> str:
    return f"node-{node_id}/{name}"
