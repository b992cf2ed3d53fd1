"""Runs that are not among the files of this machine: on HDFS, in S3, wherever the Spark in use can read.

Such a run is named by its URL. Everything of it is read through Spark: manifest, run.json, and the sizes of its files.
Checksums are not compared, because that would bring the whole history here, and nothing is written beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.foundation.errors import CannotHere, TidegaugeError, UsageError
from harness.history.places import HISTORY
from harness.history.schema import Kind
from harness.history.sealed import MANIFEST, Sealed, as_url, assemble
from harness.history.store import RUN_FILE, Run
from harness.history.store import find as find_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/.*)")
_NOT_THERE = "PATH_NOT_FOUND"


@dataclass(frozen=True)
class RemoteRun:
    """One run, by its URL."""

    path: str

    def facts(self, spark: SparkSession) -> dict[str, Any]:
        """run.json; nothing if there is none."""
        text = _read(spark, f"{self.path}/{RUN_FILE}")
        if text is None:
            return {}
        try:
            facts = json.loads(text)
        except ValueError as error:
            raise UsageError(f"{self.path}/{RUN_FILE} cannot be read ({error})", "restore it") from error
        return facts if isinstance(facts, dict) else {}

    def open(self, spark: SparkSession) -> Sealed:
        """Its history, as far as the files are there with the sizes that they had when it was sealed."""
        base = f"{self.path}/{HISTORY}"
        text = _read(spark, f"{base}/{MANIFEST}")
        if text is None:
            raise UsageError(
                f"there is no sealed history at {self.path}",
                "name the directory of a run; one that was killed is sealed by `tidegauge check` where it ran",
            )
        sizes = _sizes(spark, base)

        def look_at(name: str, _: Kind, entry: Mapping[str, Any]) -> tuple[int | None, str]:
            left_out = f"and its {entry['rows']:,} events were left out"
            if name not in sizes:
                return None, f"is missing, {left_out}"
            if sizes[name] != entry["bytes"]:
                return None, f"has {sizes[name]:,} bytes instead of {entry['bytes']:,}, {left_out}"
            return entry["rows"], ""

        def foreign(listed: Collection[str]) -> list[str]:
            return sorted(sizes.keys() - listed - {MANIFEST})

        return assemble(base, lambda: json.loads(text), look_at, foreign, base)


def find(store: Path, name: str) -> Run | RemoteRun:
    """A run by its name in the store, its directory, or its URL; a URL of a file here is a directory here."""
    match = _URL.fullmatch(name)
    if match is None:
        return find_run(store, name)
    scheme, path = match.groups()
    path = f"/{path.lstrip('/')}"
    if scheme.lower() == "file" and Path(path).exists():
        return find_run(store, path)
    return RemoteRun(name.rstrip("/"))


def _read(spark: SparkSession, url: str) -> str | None:
    """A whole file; None if it is not there."""
    try:
        rows = spark.read.text(as_url(url), wholetext=True).collect()
    except Exception as error:
        if _NOT_THERE in str(error):
            return None
        raise _not_readable(url, error) from error
    return str(rows[0]["value"]) if rows else ""


def _sizes(spark: SparkSession, base: str) -> dict[str, int]:
    """The files of a history, by their names in it; nothing of their content is read."""
    try:
        files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(as_url(base))
        rows = files.select("path", "length").collect()
    except Exception as error:
        raise _not_readable(base, error) from error
    return {row["path"].rpartition(f"/{HISTORY}/")[2]: row["length"] for row in rows}


def _not_readable(url: str, error: Exception) -> TidegaugeError:
    said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    causes = [line.strip() for line in str(error).splitlines() if "Caused by" in line or "Exception: " in line]
    return CannotHere(
        f"Spark cannot read {url} ({(causes or [said])[0][:300]})",
        "give it the jars and settings of that file system: --spark-conf spark.jars=… (docs/spark.md)",
    )
