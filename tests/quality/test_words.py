"""Nobody looks into what is written for people: what findings, reasons and marks say is in their facts and codes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PRODUCT = ("harness", "checkers", "nemesis", "workloads")
WORDS = frozenset({"detail", "sentence", "why"})  # of findings, reasons and causes, marks
# what makes histories, or shows them as they are: it has details of its own, and knows no findings
OF_EVENTS = (
    "harness/clusters/detached.py",
    "harness/history/exchange",
    "harness/report/trace.py",
    "harness/history/sources.py",
    "harness/tap",
    "nemesis",
    "workloads",
)
OF_FINDINGS = (
    "checkers.core.results",
    "harness.judging.diagnosis",
    "harness.judging.sentences",
    "harness.judging.verdict",
)
WITHOUT_PATTERNS = (
    "harness/judging",
    "harness/experiments/explore",
    "harness/foundation/reasons.py",
    "harness/report/story.py",
    "harness/runs/runner.py",
    "harness/report/terminal",
    "harness/suite/expectation.py",
    "harness/suite/running.py",
    "harness/suite/tries.py",
    "checkers/core/conclusion.py",
    "checkers/core/findings.py",
    "checkers/core/results.py",
)
SHOWS = frozenset({"str", "escaped", "paragraph"})
LOADS = ast.Attribute | ast.Subscript | ast.Call
PASSED_ON = (ast.FormattedValue, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Return, ast.Yield, ast.keyword,
             ast.Starred, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)  # fmt: skip


def modules(*places: str) -> Iterator[Path]:
    """Of the product."""
    for place in places:
        path = REPOSITORY / place
        assert path.exists(), path
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def parsed(path: Path) -> ast.Module:
    """Its code."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(path: Path) -> set[str]:
    """The modules that it imports."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def looked_into(tree: ast.Module) -> Iterator[int]:
    """Lines in which somebody does more with words than pass them on, or see whether there are any."""
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, LOADS) and _is_words(node) and not _passed_on(node, above):
            yield node.lineno


def _is_words(node: ast.Attribute | ast.Subscript | ast.Call) -> bool:
    """`finding.detail`, `row["detail"]`, `row.get("detail")`."""
    if isinstance(node, ast.Attribute):
        return node.attr in WORDS and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Subscript):
        return _named(node.slice) and isinstance(node.ctx, ast.Load)
    return isinstance(node.func, ast.Attribute) and node.func.attr == "get" and _named(*node.args[:1])


def _named(*nodes: ast.expr) -> bool:
    return any(isinstance(each, ast.Constant) and each.value in WORDS for each in nodes)


def _passed_on(node: ast.AST, above: dict[ast.AST, ast.AST]) -> bool:
    holder = above[node]
    if isinstance(holder, ast.BoolOp) or (isinstance(holder, ast.IfExp) and node is not holder.test):
        return _passed_on(holder, above)
    if isinstance(holder, ast.Call):
        name = holder.func.id if isinstance(holder.func, ast.Name) else ""
        return node is holder.func or name in SHOWS or name[:1].isupper()
    return isinstance(holder, PASSED_ON) or _asked_whether(node, holder) or _kept(holder)


def _asked_whether(node: ast.AST, holder: ast.AST) -> bool:
    """Whether there are any."""
    if isinstance(holder, ast.comprehension):
        return node in holder.ifs
    return isinstance(holder, ast.IfExp | ast.If) or (
        isinstance(holder, ast.UnaryOp) and isinstance(holder.op, ast.Not)
    )


def _kept(holder: ast.AST) -> bool:
    """Under the same name; or it is no more than a place of what describes results.json."""
    if isinstance(holder, ast.Assign):
        return all(isinstance(each, ast.Attribute) and each.attr in WORDS for each in holder.targets)
    return isinstance(holder, ast.Subscript) and isinstance(holder.ctx, ast.Store)


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("re.search(PATTERN, finding.detail)", True),
        ("'acks=' in finding.detail", True),
        ("finding.detail.startswith('acks')", True),
        ("reason.sentence == 'the history is empty'", True),
        ("row['detail'][3:]", True),
        ("int(row.get('detail'))", True),
        ("said = mark.why", True),
        ("len(finding.detail)", True),
        ("[each for each in found if each.detail.endswith('x')]", True),
        ("f'{finding.detail}'", False),
        ("(place, finding.detail)", False),
        ("Told(detail=finding.detail or '')", False),
        ("x = f': {fault.detail}' if fault.detail and not fault.failed else ''", False),
        ("Excluded(each.name, each.sentence)", False),
        ("[reason.sentence for reason in found]", False),
        ("finding.detail(3)", False),
        ("finding.detail = 'x'", False),
    ],
)
def test_who_looks_into_words_is_seen(code: str, *, wrong: bool) -> None:
    """The test below is not blind, and words may be shown."""
    assert bool(list(looked_into(ast.parse(code)))) == wrong


def test_nobody_looks_into_words() -> None:
    """They are shown, and kept; nothing is decided by them."""
    of_events = set(modules(*OF_EVENTS))
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}"
        for path in modules(*PRODUCT)
        if path not in of_events
        for line in looked_into(parsed(path))
    ]
    assert found == []


def test_who_has_details_of_its_own_knows_no_findings() -> None:
    """What is left out above has none to look into."""
    assert [path for path in modules(*OF_EVENTS) if not imported(path).isdisjoint(OF_FINDINGS)] == []


def test_who_judges_has_no_use_for_patterns() -> None:
    """Nothing that decides imports `re`."""
    assert [path for path in modules(*WITHOUT_PATTERNS) if not imported(path).isdisjoint({"re", "fnmatch"})] == []
