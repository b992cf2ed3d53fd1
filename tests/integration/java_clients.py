"""Kafka's own command-line clients, in Java."""

from __future__ import annotations

import subprocess

from harness.clusters.base import Cluster
from harness.clusters.local import LocalCluster


class Java:
    """Kafka's own command-line clients."""

    def __init__(self, cluster: Cluster) -> None:
        assert isinstance(cluster, LocalCluster)
        tools = cluster._prepare_tools()  # the same Java and archives as the brokers'
        self._command = [tools["java"], "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", tools["classpath"]]
        old = cluster.version.startswith("3.")
        self._producer = "kafka.tools.ConsoleProducer" if old else "org.apache.kafka.tools.ConsoleProducer"
        self._consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"

    def produce(self, bootstrap: str, topic: str, lines: list[str]) -> None:
        """One record for each line."""
        self._run([self._producer, "--bootstrap-server", bootstrap, "--topic", topic], "\n".join(lines) + "\n")

    def consume(self, bootstrap: str, topic: str, count: int) -> list[str]:
        """That many records from the beginning."""
        asked = ["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--max-messages", str(count)]
        return self._run([self._consumer, *asked, "--timeout-ms", "30000"], "").splitlines()

    def _run(self, arguments: list[str], typed: str) -> str:
        ran = subprocess.run(
            [*self._command, *arguments], input=typed, capture_output=True, text=True, timeout=120, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout
