"""Where the history of a run is, in its directory."""

from __future__ import annotations

HISTORY = "history"  # sealed
SEGMENTS = "segments"  # what processes wrote, until it is sealed
