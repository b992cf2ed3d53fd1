"""What a wheel holds: everything that is needed where there is no checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support import REPOSITORY


def test_a_wheel_holds_targets_locks_suites_and_the_compose_file(tmp_path: Path) -> None:
    """Installed from a wheel, every kind of cluster can be started, and pytest finds the plugin."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=REPOSITORY, check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    locks = {
        f"harness/clusters/targets/locks/{path.name}"
        for path in (REPOSITORY / "harness/clusters/targets/locks").iterdir()
    }
    assert locks
    assert names >= locks | {
        "harness/clusters/targets/kafka.toml",
        "harness/clusters/docker-compose.yml",
        "harness/clusters/entrypoint.sh",
        "workloads/large_batch.py",
        "nemesis/__init__.py",
        "checkers/__init__.py",
        "harness/suites/ci.toml",
    }
    assert not [name for name in names if name.startswith(("tests/", "bench/"))]
    (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
    assert "tidegauge = harness.suite.pytest_plugin" in zipfile.ZipFile(wheel).read(entry_points).decode()
