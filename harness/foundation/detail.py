"""How much a command shows: the verdict only (`-q`), what most people need, or every detail (`-v`)."""

from __future__ import annotations

from enum import IntEnum


class Detail(IntEnum):
    """From the least to the most."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2
