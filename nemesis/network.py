"""Faults: what passes is lost, late or slow."""

from __future__ import annotations

from nemesis.base import Fault

FAULTS: tuple[type[Fault], ...] = ()
