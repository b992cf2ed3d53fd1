"""Rows of a screen: a title, and text beside it that is wrapped to the width; with more rows than room, the least go.

A path is never broken, and so may be wider than the screen. What cannot be left out is shown whatever room there is.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

TITLE = 10
INDENT = 2
NARROWEST = 40

Line = tuple[str | tuple[str, str], ...]


@dataclass(frozen=True)
class Row:
    """A title, and what there is to say; `least` says which rows are left out first, 0 that it never is."""

    title: str
    text: str
    style: str = ""  # of the title
    least: int = 0
    lines: int = 0  # that it may take; all that it needs unless given
    shrinks: bool = False  # to one line, where there is no room for more
    whole: bool = False  # in one piece, to be copied: the terminal breaks it

    def wrapped(self, width: int) -> list[str]:
        """Its lines, without the title."""
        if self.whole:
            return [self.text]
        room = max(NARROWEST, width) - INDENT - TITLE
        lines = textwrap.wrap(self.text, room, break_long_words=False, break_on_hyphens=False) or [""]
        if not self.lines or len(lines) <= self.lines:
            return lines
        kept = lines[: self.lines]
        last = kept[-1] if len(kept[-1]) < room - 1 else kept[-1].rpartition(" ")[0]
        return [*kept[:-1], f"{last.rstrip(' ,;:')} …"]

    def shown(self, width: int) -> list[Line]:
        """Its lines as they are printed."""
        if not (self.title or self.text):
            return [("",)]
        first, *more = self.wrapped(width)
        title = f"{'':<{INDENT}}{self.title:<{TITLE}}"
        return [((title, self.style), first), *((f"{'':<{INDENT + TITLE}}{line}",) for line in more)]

    def height(self, width: int) -> int:
        """How many lines of a screen it takes."""
        return -(-(INDENT + TITLE + len(self.text)) // width) if self.whole else len(self.wrapped(width))


def fitted(rows: Sequence[Row], width: int, lines: int) -> list[Row]:
    """As many of them as fit: first those go that are the least, then what can shrink does."""
    kept = list(rows)
    while _height(kept, width) > lines and any(row.least for row in kept):
        kept.remove(max(reversed(kept), key=lambda row: row.least))
    for number, row in reversed(list(enumerate(kept))):
        if row.shrinks and _height(kept, width) > lines:
            kept[number] = replace(row, lines=1)
    return kept


def _height(rows: Sequence[Row], width: int) -> int:
    return sum(row.height(width) for row in rows)
