"""What our pages share: templates that escape everything, and a policy that permits nothing but what is in the page."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.report.tracks import number

TEMPLATES = Path(__file__).parent / "templates"
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def environment(filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """Templates with these filters, besides those that every page needs."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = number
    made.filters["capital"] = lambda text: text[:1].upper() + text[1:]
    made.filters["moment"] = lambda text: str(text).replace("T", " ").replace("+0000", " UTC")
    made.filters["count"] = lambda number: f"{number:,}"
    made.filters |= filters
    made.finalize = visible
    return made


def visible(value: object) -> object:
    """Text that steers a terminal, or the direction in which people read, is shown and does nothing."""
    return (
        value
        if isinstance(value, Markup) or not isinstance(value, str)
        else _STEERING.sub("\N{REPLACEMENT CHARACTER}", value)
    )


def frame(styles: Sequence[str], scripts: Sequence[str]) -> dict[str, object]:
    """Our own style and script, and the policy that permits them by their hashes and nothing else."""
    style, script = (
        "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names) for names in (styles, scripts)
    )
    own = f"style-src {_hashed(style)}; script-src {_hashed(script)}"
    return {
        "policy": f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'",
        "style": Markup(style),  # noqa: S704 - our own file
        "script": Markup(script),  # noqa: S704 - our own file
    }


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
