"""kafka-python's admin client, for those who may meet a cluster that does not answer."""

from __future__ import annotations

from typing import Any

from kafka import KafkaAdminClient


class Admin(KafkaAdminClient):  # type: ignore[misc]  # kafka-python has no types
    """One that leaves neither its thread nor its sockets behind, also when it does not get a connection."""

    _closed = False  # what `close` goes by, and what the constructor sets only at its end

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except BaseException:
            self.close()
            raise

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
