"""The layers of docs/design.md: `make lint` keeps them, and an import in the wrong direction fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support import REPOSITORY

with (REPOSITORY / "pyproject.toml").open("rb") as _file:
    LINTER: dict[str, Any] = tomllib.load(_file)["tool"]["importlinter"]
LAYERS, ALONE = (contract["name"] for contract in LINTER["contracts"])


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The code and its contracts, to be changed."""
    for package in LINTER["root_packages"]:
        shutil.copytree(REPOSITORY / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    return tmp_path


def linted(directory: Path) -> tuple[int, str]:
    """The exit code of the import linter, and what it says on one line."""
    linter = Path(sys.executable).parent / "lint-imports"
    ran = subprocess.run(
        [linter, "--no-cache", "--no-logo"], cwd=directory, capture_output=True, text=True, timeout=240, check=False
    )
    return ran.returncode, " ".join((ran.stdout + ran.stderr).split())


def test_the_code_keeps_its_layers(copied: Path) -> None:
    """As it is."""
    code, said = linted(copied)
    assert (code, f"{LAYERS} KEPT" in said, f"{ALONE} KEPT" in said) == (0, True, True), said


@pytest.mark.parametrize(
    ("importer", "imported", "contract"),
    [
        pytest.param("harness.foundation", "harness.history", LAYERS, id="up, by one layer"),
        pytest.param("harness.foundation", "harness.commands", LAYERS, id="up, by all"),
        pytest.param("checkers", "harness.judging", LAYERS, id="from the checkers to their judges"),
        pytest.param("nemesis", "workloads", LAYERS, id="between siblings"),
        pytest.param("harness.tap", "harness.clusters", LAYERS, id="between siblings in harness"),
        pytest.param("checkers", "harness.spark", ALONE, id="from the checkers to Spark"),
    ],
)
@pytest.mark.parametrize("line", ["import {}", "def late(): import {}"], ids=["at the top", "in a function"])
def test_an_import_in_the_wrong_direction_fails(
    copied: Path, importer: str, imported: str, contract: str, line: str
) -> None:
    """Wherever it stands, and the contract that it breaks is named."""
    (copied / importer.replace(".", "/") / "wrong.py").write_text(f"{line.format(imported)}\n")
    code, said = linted(copied)
    assert (code, f"{contract} BROKEN" in said) == (1, True), said
    assert f"{importer}.wrong -> {imported}" in said


def test_every_package_has_a_layer() -> None:
    """One that has none could import whatever it likes."""
    layers = LINTER["contracts"][0]["layers"]
    named = {package.strip() for layer in layers for package in layer.split("|")}
    packages = {f"harness.{each.parent.name}" for each in (REPOSITORY / "harness").glob("*/__init__.py")}
    assert named == packages | set(LINTER["root_packages"]) - {"harness"}
