"""Tidegauge: finds out whether a Kafka-protocol broker keeps its promises."""

__version__ = "0.1.0"
