"""Faults: nodes are cut off from each other, or from clients."""

from __future__ import annotations

from nemesis.base import Fault

FAULTS: tuple[type[Fault], ...] = ()
