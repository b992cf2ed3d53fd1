"""Every path and module that a page names is there, and what design.md shows of the code is the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import REPOSITORY, design_tree
from tests.support.doc_pages import PAGES

TOPS = "harness|nemesis|checkers|workloads|tests|bench|docs|suites"
DESIGN = REPOSITORY / "docs" / "design.md"
_PATH = re.compile(rf"(?<![\w/.*-])(?:{TOPS})/[\w./*-]*")
_MODULE = re.compile(rf"(?:-m |`)((?:{TOPS})\.[\w.]+\w)")
_SHORT = re.compile(r"`(?P<name>[\w/]+\.py)`")
_ANY = re.compile(r"[A-Z]{2}")  # a name in capitals stands for any
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def missing(text: str) -> list[str]:
    """What a text names that is not there.

    `delivery.py` is short for a module in a directory that the same line names, or else that the text names anywhere.
    """
    lines = [(line, set(directories(line))) for line in text.splitlines()]
    anywhere = set().union(*(named for _, named in lines))
    return [gone for line, named in lines for gone in missing_of(line, named or anywhere)]


def missing_of(line: str, directories: set[Path]) -> Iterator[str]:
    """The same of one line, with the directories that short names may stand for."""
    yield from (path for path in paths(line) if not list(REPOSITORY.glob(path)))
    yield from (name for name in _MODULE.findall(line) if not is_there(name))
    for name in _SHORT.findall(line):
        if not _PATH.match(name) and not any((directory / name).exists() for directory in directories):
            yield name


def directories(line: str) -> Iterator[Path]:
    """Those that a line names, and those of the files that it names."""
    for path in paths(line):
        for found in REPOSITORY.glob(path):
            yield found if found.is_dir() else found.parent


def paths(line: str) -> list[str]:
    """Those from the top of the repository; a star stands for anything."""
    return [name.rstrip(".") for name in _PATH.findall(line) if not _ANY.search(name)]


def is_there(name: str) -> bool:
    """A module, or something in one."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return "." in name and find_spec(name.rpartition(".")[0]) is not None


@by_page
def test_paths_and_modules_that_are_named_exist(page: Path) -> None:
    """In the text, in tables and in commands."""
    assert missing(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("`checkers/replicas.py`, `keys.py`, see `checkers/core/`", []),
        ("`checkers/replicas.py`, `gone.py`", ["gone.py"]),
        ("the module `replicas.py`\n\nof `checkers/`", []),
        ("`harness/gone/`", ["harness/gone/"]),
        ("(docs/gone.md)", ["docs/gone.md"]),
        ("make test ARGS=tests/unit/gone", ["tests/unit/gone"]),
        ("`tests/unit/docs/test_*.py`, `tests/golden/NAME.jsonl.gz`", []),
        ("`tests/unit/docs/gone_*.py`", ["tests/unit/docs/gone_*.py"]),
        ("python -m harness.gone", ["harness.gone"]),
        ("`checkers.core.family.Family`", []),
    ],
)
def test_what_is_missing_is_seen(text: str, gone: list[str]) -> None:
    """However it is written."""
    assert missing(text) == gone


def test_the_tree_of_the_design_is_the_tree() -> None:
    """`make schema` writes it from the docstrings; every module has a few words."""
    text = DESIGN.read_text(encoding="utf-8")
    assert text == design_tree.page(text), "run `make schema`"
    assert [line for line in design_tree.tree().splitlines()[1:] if len(line.split()) < 3] == []


def test_the_layers_of_the_design_are_those_of_lint() -> None:
    """The drawing has each of them, from the top down."""
    drawing = DESIGN.read_text(encoding="utf-8").partition("## Layers")[2].split("```")[1]
    drawn = [re.split(r"\s{2,}", line.strip())[0] for line in drawing.strip().splitlines()]
    layers = [" | ".join(name.removeprefix("harness.") for name in layer) for layer in design_tree.layers()]
    assert drawn == layers


def test_the_tests_have_the_rooms_of_the_product() -> None:
    """Whoever changes a package knows where its tests are."""
    packages = {name.removeprefix("harness.") for layer in design_tree.layers() for name in layer}
    rooms = {entry.name for entry in (REPOSITORY / "tests" / "unit").iterdir() if list(entry.glob("test_*.py"))}
    assert rooms == packages | {"bench", "docs"}
