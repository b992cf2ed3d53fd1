"""Nobody compares the names of kinds of clusters or of client stacks: what differs between them is asked of them."""

from __future__ import annotations

import ast

import pytest

from harness.clusters.kinds import KINDS
from tests.support import REPOSITORY
from workloads.clients.stacks import STACKS

PRODUCT = ("harness", "checkers", "nemesis", "workloads")
NAMES = frozenset({*KINDS, *STACKS})


def compared(tree: ast.Module) -> list[int]:
    """Lines in which such a name is compared, is a key, or is one of a few literals."""
    lines = []
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                parts = [node.left, *node.comparators]
            case ast.Dict():
                parts = [key for key in node.keys if key]
            case ast.MatchValue():
                parts = [node.value]
            case ast.Subscript(value=ast.Name("Literal")):
                parts = [node.slice]
            case _:
                continue
        parts += [each for part in parts for each in getattr(part, "elts", ())]
        names = {part.value for part in parts if isinstance(part, ast.Constant)}
        lines += [node.lineno] if names & NAMES else []
    return lines


@pytest.mark.parametrize(
    "code",
    [
        'if kind in ("docker",): pass',
        'Kind = Literal["local", "docker"]',
        'OF = {"external": 1}',
        'if client == "kafka-python": pass',
        'match client:\n    case "confluent-kafka": pass',
    ],
)
def test_comparisons_are_seen(code: str) -> None:
    """However they are written."""
    assert compared(ast.parse(code)) != []


def test_nobody_compares_names() -> None:
    """One more kind or stack would fall through whatever asks for a name."""
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}"
        for place in PRODUCT
        for path in sorted((REPOSITORY / place).rglob("*.py"))
        if any(f'"{name}"' in (text := path.read_text(encoding="utf-8")) for name in NAMES)
        for line in compared(ast.parse(text))
    ]
    assert found == []
