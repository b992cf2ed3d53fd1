"""What the pages for newcomers say is done as it stands: every file saved, every command typed.

They need a real cluster and Spark, as the reader of such a page has.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import COMMAND_TIMEOUT_S, REPOSITORY, command, remains
from tests.support.doc_pages import Save, steps

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900), pytest.mark.usefixtures("spark_of_its_own")]


@pytest.mark.parametrize("name", ["tutorial.md", "your-broker.md"])
def test_a_newcomer_gets_through(state_home: Path, tmp_path: Path, name: str) -> None:
    """In an empty directory; each command ends as the page says, and nothing is left but what was kept."""
    typed = 0
    for step in steps(REPOSITORY / "docs" / name):
        if isinstance(step, Save):
            (tmp_path / step.name).write_text(step.text, encoding="utf-8")
            continue
        ran = subprocess.run(
            command(*step.arguments),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        assert ran.returncode == step.code, f"{' '.join(step.arguments)}\n{ran.stdout}\n{ran.stderr}"
        typed += 1
    assert typed >= 5
    assert remains("local-none", state_home) == []
