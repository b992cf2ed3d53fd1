"""Our code, sent to where tasks run."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
# Kernels, and the modules of the foundation that they look at: what these import is here as well, a test sees to that.
SHIPPED = (
    "checkers",
    "harness/__init__.py",
    "harness/foundation/__init__.py",
    "harness/foundation/error_codes.py",
    "harness/foundation/protocol.py",
    "harness/history/__init__.py",
    "harness/history/outcomes.py",
    "harness/history/schema.py",
)


def ship(spark: SparkSession, directory: Path | None = None) -> None:
    """Send it: from a directory that lasts as long as the session, or by Spark Connect."""
    with tempfile.TemporaryDirectory(prefix="tidegauge-code-") as passing:
        archive = (directory or Path(passing)) / "tidegauge_kernels.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
            for path in _files():
                target.write(path, path.relative_to(ROOT).as_posix())
        if directory is None:
            spark.addArtifacts(str(archive), pyfile=True)
        else:
            spark.sparkContext.addPyFile(str(archive))


def _files() -> Iterator[Path]:
    for name in SHIPPED:
        yield from [ROOT / name] if name.endswith(".py") else sorted((ROOT / name).rglob("*.py"))
