"""kafka-python's admin client, for those who may meet a cluster that does not answer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka import KafkaAdminClient

from harness.clusters.kept_connections import connections_to
from harness.clusters.wire import Metadata, address_of


class Admin(KafkaAdminClient):  # type: ignore[misc]  # kafka-python has no types
    """One that leaves neither its thread nor its sockets behind, also when it does not get a connection."""

    _closed = False  # what `close` goes by, and what the constructor sets only at its end

    def __init__(self, *, bootstrap_servers: Collection[str], anywhere: bool = False, **settings: Any) -> None:
        """Connects to the addresses that it starts from alone, unless `anywhere`: to whatever those name."""
        known = () if anywhere else bootstrap_servers
        try:
            super().__init__(bootstrap_servers=list(bootstrap_servers), kafka_client=connections_to(known), **settings)
        except BaseException:
            self.close()
            raise

    def first_answer(self) -> Metadata:
        """The Metadata that it started with: of one address, what that node answered."""
        cluster = self._manager.cluster
        listed = tuple((each.node_id, address_of(each.host, each.port)) for each in cluster.brokers())
        controller = -1 if cluster.controller is None else cluster.controller.node_id
        return Metadata(cluster.cluster_id, controller, dict(listed), listed)

    def metadata(self) -> dict[str, Any]:
        """What `describe_cluster` returns, from Metadata: for products whose DescribeCluster cannot be read."""
        told: dict[str, Any] = self._manager.run(self._get_cluster_metadata, [])
        for broker in told["brokers"]:
            broker["broker_id"] = broker.pop("node_id")
        return told

    def close(self) -> None:
        """Also the sockets that its thread was woken by, which kafka-python leaves to the garbage collector."""
        super().close()
        if net := getattr(self, "_net", None):
            net.close()
