"""The code passes what `make lint` runs, and nothing in it depends on one machine or one package registry."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# In pieces, so that this file does not contain what it looks for.
HOSTS = (
    ("pypi", "org"),
    ("files", "pythonhosted", "org"),
    ("repo1", "maven", "org"),
    ("repo", "maven", "apache", "org"),
    ("registry", "npmjs", "org"),
    ("deb", "debian", "org"),
)
MACHINE_DIRECTORIES = ("work", "root")
FORBIDDEN = re.compile(
    "|".join([*(r"\.".join(parts) for parts in HOSTS), *(f"/{name}/" for name in MACHINE_DIRECTORIES)]),
    re.IGNORECASE,
)
# The licence is not ours to word.
EXEMPT = {"LICENSE"}
MADE_BY_TOOLS = {".git", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", "__pycache__", "dist"}


@pytest.mark.parametrize(
    "command",
    [("ruff", "check"), ("ruff", "format", "--check"), ("mypy",)],
    ids=["ruff-check", "ruff-format", "mypy-strict"],
)
def test_lint(command: tuple[str, ...]) -> None:
    """Every linter of `make lint` passes."""
    ran = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 0, f"{' '.join(command)} says:\n{ran.stdout}{ran.stderr}"


def test_nothing_names_a_registry_or_a_machine() -> None:
    """No file of the repository holds the host of a package registry or a path of the machine it was written on."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in repository_files()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
        if (match := FORBIDDEN.search(line))
    ]
    assert not found, "\n".join(found)


def test_the_search_for_hosts_and_paths_finds_them() -> None:
    """The test above is not blind."""
    assert FORBIDDEN.search("https://" + ".".join(HOSTS[0]) + "/simple")
    assert FORBIDDEN.search(f"cd /{MACHINE_DIRECTORIES[0]}/x")
    assert not FORBIDDEN.search("a framework/directory and rooted/paths")


def repository_files() -> list[Path]:
    """What git tracks or would track; in a copy without git, all files but those that tools make."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        candidates = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        candidates = [path for path in ROOT.rglob("*") if MADE_BY_TOOLS.isdisjoint(path.relative_to(ROOT).parts)]
    return [path for path in candidates if path.is_file() and path.name not in EXEMPT]
