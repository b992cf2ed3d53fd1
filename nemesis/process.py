"""Faults: nodes are killed, paused, stopped and restarted."""

from __future__ import annotations

from nemesis.base import Fault

FAULTS: tuple[type[Fault], ...] = ()
