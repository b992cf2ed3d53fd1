"""Nobody reads what was written for people: findings and verdicts are decided by facts, codes and tags."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness.foundation.paths import PACKAGE

ROOT = PACKAGE.parent
PRODUCT = ("checkers", "harness", "nemesis", "workloads")
DECIDES = ("harness/judging", "harness/suite/outcome.py", "harness/report/story.py", "harness/experiments")
PROSE = {"detail", "why", "sentence"}  # of findings, marks and reasons
LOOKS = {"match", "search", "fullmatch", "findall", "finditer", "split", "startswith", "endswith", "find", "index",
         "count", "partition", "rpartition", "removeprefix", "removesuffix"}  # fmt: skip


def modules(*places: str) -> list[Path]:
    """The files of these packages."""
    found = [ROOT / place for place in places]
    return sorted(file for each in found for file in ([each] if each.is_file() else each.rglob("*.py")))


def _is_prose(node: ast.expr) -> bool:
    """Whether it is such a field, however it is asked for."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value in PROSE
    return isinstance(node, ast.Attribute) and node.attr in PROSE


def _looked_at(node: ast.AST) -> list[ast.expr]:
    """What is searched here, or asked whether it holds something."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOKS:
        return [node.func.value, *node.args]
    if isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
        return node.comparators
    return []


def looked_into(tree: ast.AST) -> list[int]:
    """The lines in which a text for people is searched."""
    return [each.lineno for node in ast.walk(tree) for each in _looked_at(node) if _is_prose(each)]


def test_it_is_seen_when_somebody_does() -> None:
    """Each way to do it, and what is none."""
    wrong = ["PATTERN.search(finding.detail)", "re.match('lost', mark['why'])", "finding.detail.startswith('a')",
             "'epoch' in finding.detail"]  # fmt: skip
    right = ["finding.detail or ''", "PATTERN.search(line)", "'one epoch' in finding.tags", "print(mark.why)"]
    assert [bool(looked_into(ast.parse(code))) for code in wrong + right] == [True] * 4 + [False] * 4


@pytest.mark.parametrize("file", modules(*DECIDES), ids=lambda file: str(file.relative_to(ROOT)))
def test_what_decides_has_no_regular_expressions(file: Path) -> None:
    """Verdicts, diagnoses, suites and what looks for smaller histories have no use for one."""
    imported = [
        alias.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for alias in (node.names if isinstance(node, ast.Import) else ())
    ]
    assert "re" not in imported


def test_nobody_looks_into_sentences() -> None:
    """In all of the product."""
    assert [
        f"{file.relative_to(ROOT)}:{line}"
        for file in modules(*PRODUCT)
        for line in looked_into(ast.parse(file.read_text(encoding="utf-8")))
    ] == []
