"""Writes docs/anomalies.md, all that is looked for: `python -m harness.report.catalogue`, what `make schema` does."""

from __future__ import annotations

from itertools import chain

from checkers.core.families import FAMILIES
from harness.foundation.paths import PACKAGE
from harness.report.meanings import MEANINGS

PAGE = PACKAGE.parent / "docs" / "anomalies.md"
OPENING = """# Anomalies

Everything that is looked for, what is seen when it is found, and what it means for whoever uses the broker. Exact
definitions open the modules of [the checkers](checkers.md); what is allowed when is said in [verdicts](verdicts.md).
`make schema` writes this page from the code.

| anomaly | what is seen | what it means |
| --- | --- | --- |
"""


def page() -> str:
    """The page, in the order of the checkers."""
    seen: dict[str, dict[str, None]] = {}
    for name, about in chain.from_iterable(family.anomalies.items() for family in FAMILIES):
        seen.setdefault(name, {})[about] = None
    rows = (f"| {name} | {'; or '.join(seen[name])} | {MEANINGS.get(name, '')} |" for name in seen)
    return OPENING + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
