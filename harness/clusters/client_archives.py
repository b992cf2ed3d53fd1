"""The archives of Apache Kafka's own clients: pinned like those of the brokers, without anything a broker needs."""

from __future__ import annotations

from pathlib import Path

from harness.clusters.jars import ensure_jars
from harness.foundation.progress import Progress

NAME = "kafka-clients"
VERSION = "4.3.1"
COORDINATES = (f"org.apache.kafka:kafka-clients:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")


def ensure_client_jars(progress: Progress) -> list[Path]:
    """Download what is missing, verify the rest; what belongs on the class path."""
    return ensure_jars(NAME, VERSION, COORDINATES, (), progress)
