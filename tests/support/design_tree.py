"""The tree of `harness/` in docs/design.md, made of the code: `python -m tests.support.design_tree`, for `make schema`.

Packages come in the order of their layers, and what a module is comes from the first sentence of its docstring.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.support import REPOSITORY

PAGE = REPOSITORY / "docs" / "design.md"
HARNESS = REPOSITORY / "harness"
BEGIN, END = "<!-- `make schema` writes this tree -->\n", "<!-- the end of the tree -->\n"
LETTERS_AT_MOST = 86
LETTERS_AT_LEAST = 20  # less would be a title, which says no more than the name of the module
NAME = 26  # columns


def layers() -> list[list[str]]:
    """The layers from the top, as `make lint` keeps them: the packages of each."""
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        contract = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]
    return [[package.strip() for package in layer.split("|")] for layer in contract["layers"]]


def tree() -> str:
    """Packages of `harness/` and their modules, with what each is in a few words."""
    packages = [HARNESS / name.partition(".")[2] for layer in layers() for name in layer if name.startswith("harness.")]
    lines = ["harness/"]
    for package in packages:
        lines.append(_line(1, package))
        lines += [_line(2, entry) for entry in _entries(package)]
    lines += [_line(1, entry) for entry in _entries(HARNESS) if entry not in packages]
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the tree as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    assert found, f"{PAGE} has lost the marks of its tree"
    return f"{before}{BEGIN}\n```\n{tree()}\n```\n\n{END}{after}"


def few_words(docstring: str) -> str:
    """The first sentence, or what of it can stand alone."""
    text = " ".join(docstring.partition("\n\n")[0].split())
    text = text.partition(". ")[0].rstrip(".")
    for border in (": ", "; ", ", "):
        while len(text) > LETTERS_AT_MOST and text.rfind(border) >= LETTERS_AT_LEAST:
            text = text[: text.rfind(border)]
    return text


def _entries(directory: Path) -> Iterator[Path]:
    for entry in sorted(directory.iterdir()):
        if (entry / "__init__.py").exists() or (entry.suffix == ".py" and entry.name != "__init__.py"):
            yield entry


def _line(depth: int, entry: Path) -> str:
    module, name = (entry / "__init__.py", f"{entry.name}/") if entry.is_dir() else (entry, entry.name)
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return f"{'    ' * depth}{name:<{NAME - 4 * (depth - 1)}}{few_words(docstring)}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
