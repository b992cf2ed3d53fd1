"""Durations as people write them: `20s`, `500ms`, `2m`, `1h`, or a number of seconds; in the program, seconds."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST_S = 7 * 24 * 3600.0
PATTERN = r"^\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)?\s*$"
_WRITTEN = re.compile(PATTERN, re.ASCII)
HOW_TO_WRITE = "write 500ms, 20s, 2m, 1h or a number of seconds"


def seconds(written: object) -> float:
    """The seconds of a duration; ValueError for what is none."""
    if isinstance(written, str) and (match := _WRITTEN.match(written)):
        value = float(match[1]) * UNITS_S[match[2] or "s"]
    elif isinstance(written, int | float) and not isinstance(written, bool):
        value = float(written)
    else:
        raise ValueError(f"{written!r} is not a valid duration: {HOW_TO_WRITE}")
    if not math.isfinite(value) or not 0 <= value <= LONGEST_S:
        raise ValueError(f"{written!r} is out of range: use 0 s to 7 days")
    return round(value, 6)


def _schema() -> dict[str, Any]:
    return {
        "anyOf": [{"type": "number", "minimum": 0, "maximum": LONGEST_S}, {"type": "string", "pattern": PATTERN}],
        "description": f"A duration: {HOW_TO_WRITE}.",
    }


Duration = Annotated[float, BeforeValidator(seconds), WithJsonSchema(_schema())]
