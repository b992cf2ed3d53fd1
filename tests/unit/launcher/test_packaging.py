"""A release: the wheel holds all that is needed where there is no checkout, clashes with nobody, and works.

The installed command needs a virtual environment of its own, and a real Spark session for the check.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support import REPOSITORY
from tests.support.golden_histories import GOLDEN

CODE = "tidegauge/_code/"  # where our packages are, whose names others may use as well
OTHERS = ("harness", "checkers", "nemesis", "workloads")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `python -m build --wheel` makes, with the same back end."""
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (found,) = place.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment outside the checkout with the wheel, our dependencies, and packages called like ours."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(place, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(place)}))
    # a path in a .pth file is used as it is: the .pth file there that leads to this checkout is not read
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in OTHERS:
        (packages / f"{name}.py").write_text(f"MINE = {name!r}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--disable-pip-version-check", "-q", str(wheel)], check=True)
    return place


def run(installed: Path, place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command of the virtual environment, in a directory outside the checkout."""
    environment = {
        name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV", "PYTEST_ADDOPTS"}
    }
    program, *arguments = command
    return subprocess.run(
        [str(installed / "bin" / program), *arguments],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_wheel_holds_targets_locks_suites_and_the_compose_file(wheel: Path) -> None:
    """Installed from a wheel, every kind of cluster can be started, and pytest finds the plugin."""
    names = set(zipfile.ZipFile(wheel).namelist())
    data = [
        path.relative_to(REPOSITORY)
        for package in OTHERS
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "launcher" not in path.parts
    ]
    assert {path.suffix for path in data} >= {".py", ".toml", ".lock", ".jinja", ".css", ".js", ".sh", ".json"}
    assert names >= {f"{CODE}{path}" for path in data} | {
        f"{CODE}harness/clusters/docker-compose.yml",
        f"{CODE}harness/suites/ci.toml",
        "tidegauge/__init__.py",
        "tidegauge/__main__.py",
        "tidegauge/pytest_plugin.py",
    }
    (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
    assert "tidegauge = tidegauge.pytest_plugin" in zipfile.ZipFile(wheel).read(entry_points).decode()


def test_what_spark_needs_for_kernels_is_installed_with_the_wheel() -> None:
    """Spark names it as an extra; here it may be installed for another reason."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    declared = {Requirement(each).name for each in project["dependencies"]}
    needed = [Requirement(each) for each in requires("pyspark") or ()]
    of_sql = {each.name for each in needed if each.marker and each.marker.evaluate({"extra": "sql"})}
    assert of_sql
    assert of_sql <= declared


def test_a_wheel_adds_one_package(wheel: Path) -> None:
    """With its metadata, and nothing that could be somebody else's."""
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tidegauge"}


def test_an_installed_command_answers(installed: Path, tmp_path: Path) -> None:
    """Outside the checkout, next to packages called like ours."""
    assert run(installed, tmp_path, "tidegauge", "--version").stdout.startswith("tidegauge ")
    assert run(installed, tmp_path, "python", "-m", "tidegauge", "--version").stdout.startswith("tidegauge ")
    for what in ("runs", "scenarios", "workloads", "nemeses", "broken", "checkers"):
        listed = run(installed, tmp_path, "tidegauge", "list", what, "--json")
        assert (listed.returncode, listed.stderr) == (0, "")
    assert run(installed, tmp_path, "tidegauge", "suite", "ci", "--list").returncode == 0


def test_an_installed_command_checks_a_history(installed: Path, tmp_path: Path) -> None:
    """In Spark's workers, too."""
    history = GOLDEN / "watermark-frozen.jsonl.gz"
    checked = run(installed, tmp_path, "tidegauge", "import", str(history), "--check", "--store", "store")
    assert checked.returncode == 1, checked.stderr
    assert "INVALID" in checked.stdout
    assert "watermark-frozen" in checked.stdout


def test_other_packages_of_the_same_name_stay_importable(installed: Path, tmp_path: Path) -> None:
    """Also in tests, for which pytest loads the plugin."""
    (tmp_path / "test_mine.py").write_text(
        "".join(f"import {name}\n" for name in OTHERS)
        + f"def test_mine():\n    assert [{', '.join(f'{name}.MINE' for name in OTHERS)}] == {list(OTHERS)!r}\n"
    )
    ran = run(installed, tmp_path, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert ran.returncode == 0, ran.stdout
    assert "1 passed" in ran.stdout


def test_pytest_collects_a_suite_with_the_installed_plugin(installed: Path, tmp_path: Path) -> None:
    """Unless a package of that name was imported before: then it says what to do."""
    (tmp_path / "mine.toml").write_text('[[scenario]]\nname = "one"\nworkload = "stream"\n')
    collect = ("python", "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider")
    ran = run(installed, tmp_path, *collect, "mine.toml")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "mine.toml::one" in ran.stdout
    (tmp_path / "conftest.py").write_text("import harness\n")
    ran = run(installed, tmp_path, *collect, "mine.toml")
    assert ran.returncode != 0
    assert "run the suite with `tidegauge suite`" in ran.stdout
