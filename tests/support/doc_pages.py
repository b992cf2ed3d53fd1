"""The pages of documentation, and what a page asks its reader to do: files to save and commands to type, in order."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import REPOSITORY

PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(?P<kind>console|toml|python)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (?P<name>[\w.-]+\.(toml|py))\n")
_ENDS = re.compile(r"\s+# exit code (?P<code>\d)$")


@dataclass(frozen=True)
class Save:
    """A file of the reader's."""

    name: str
    text: str


@dataclass(frozen=True)
class Type:
    """A command, without the name of the program, and how it ends."""

    arguments: tuple[str, ...]
    code: int


def steps(page: Path) -> Iterator[Save | Type]:
    """All of them; what a block shows without `$`, or without a name, is there to be read."""
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        named = _FILE.match(block["text"])
        if block["kind"] != "console" and named:
            yield Save(named["name"], block["text"])
        for line in block["text"].splitlines() if block["kind"] == "console" else ():
            if line.startswith("$ tidegauge "):
                ends = _ENDS.search(line)
                words = shlex.split(line[: ends.start()] if ends else line)
                yield Type(tuple(words[2:]), int(ends["code"]) if ends else 0)
