"""Faults: clients are killed and paused, and made to try again."""

from __future__ import annotations

from nemesis.base import Fault

FAULTS: tuple[type[Fault], ...] = ()
