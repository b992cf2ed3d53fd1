"""What `list` prints."""

import io
from typing import Any

import pytest

from harness.foundation.console import SafeConsole
from harness.report.terminal import lists


@pytest.mark.parametrize("rows", [[], [{"name": "x", "about": "y", "settings": {"a": {"default": 1, "about": "z"}}}]])
def test_listings(rows: list[dict[str, Any]]) -> None:
    """A table, or the word that there is nothing."""
    console = SafeConsole(file=io.StringIO(), width=100)
    lists.listing(console, "runs", rows, as_json=False)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue()


def test_nemeses_are_listed_by_family_within_the_width() -> None:
    """All that a plan can say of a fault, with the defaults as they may be written."""
    rows = [
        {
            "family": "network",
            "name": name,
            "about": "delays every response to clients, each by another time and none for as long as the one before",
            "targets": ["all", "leader"],
            "options": {"by": 0.2, "rate": "64KiB", "to": 3},
            "needs": ["tap"],
            "longest_s": 120.0,
            "random": True,
        }
        for name in ("latency", "a-longer-name")
    ]
    console = SafeConsole(file=io.StringIO(), width=100)
    lists.listing(console, "nemeses", rows, as_json=False)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[0].rstrip() == "network"
    assert sum(line.startswith("network") for line in lines) == 1
    assert max(map(len, lines)) <= 100
    text = " ".join(" ".join(lines).split())
    assert text.count("at all, leader · by=0.2s · rate=64KiB · to=3 · needs tap · 120 s at most") == 2
