"""Faults: replicas, partitions and settings of the topics in use."""

from __future__ import annotations

from nemesis.base import Fault

FAULTS: tuple[type[Fault], ...] = ()
