"""A file system for one node: an image file, mounted, which can be filled, stalled, broken and made whole again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Disk:
    """One node's file system."""

    image: Path
    mount: Path  # where it is mounted; the node's data lies directly in it
