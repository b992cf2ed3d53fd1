"""Faults: the nodes' data, and what it lies on."""

from __future__ import annotations

from nemesis.base import Fault

FAULTS: tuple[type[Fault], ...] = ()
