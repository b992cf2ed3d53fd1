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

    def close(self) -> None:
        """Also the sockets that its thread was woken by, which kafka-python leaves to the garbage collector."""
        super().close()
        if net := getattr(self, "_net", None):
            net.close()
