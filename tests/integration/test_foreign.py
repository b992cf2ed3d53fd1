"""A foreign history from its file to the verdict, by the command line and with Spark.

They need Spark, as the command does that they call.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.foundation.errors import Exit
from tests.support import cli
from tests.support.foreign_histories import LOST_AND_ABORTED, edn

pytestmark = pytest.mark.usefixtures("spark_of_its_own")


def test_a_jepsen_history_is_checked_and_travels_on(tmp_path: Path) -> None:
    """A lost write, the transaction that it tears, and an aborted read; what was exported of it comes back whole."""
    store = str(tmp_path / "store")
    file = edn(tmp_path / "history.edn", LOST_AND_ABORTED)
    ran = cli("import", str(file), "--set", "acks=all", "--check", "--json", "--store", store)
    assert ran.returncode == Exit.INVALID, ran.stderr
    results = json.loads(ran.stdout)
    seen = {each["anomaly"]: (each["found"], each["mark"]["status"]) for each in results["check"]["seen"]}
    assert seen == dict.fromkeys(("lost-write", "aborted-read", "torn"), (1, "illegal"))
    assert results["events"] == {"invoke": 9, "complete": 9, "record": 2, "phase": 1}
    exported = str(tmp_path / "history.jsonl")
    assert cli("export", "latest", exported, "--store", store).returncode == Exit.VALID
    again = cli("import", exported, "--json", "--store", store)
    assert again.returncode == Exit.VALID, again.stderr
    assert json.loads(again.stdout)["events"] == results["events"]
    wrong = cli("import", __file__, "--format", "jepsen", "--store", str(tmp_path / "other"))
    assert (wrong.returncode, "line 1" in wrong.stderr) == (Exit.USAGE, True)
    assert not (tmp_path / "other").exists()


@pytest.mark.nightly
def test_what_was_exported_is_judged_as_it_was(tmp_path: Path) -> None:
    """The same findings and the same reasons after an export and an import."""
    store = str(tmp_path / "store")
    file = edn(tmp_path / "history.edn", LOST_AND_ABORTED)
    first = json.loads(cli("import", str(file), "--set", "acks=all", "--check", "--json", "--store", store).stdout)
    exported = str(tmp_path / "history.jsonl")
    assert cli("export", "latest", exported, "--store", store).returncode == Exit.VALID
    again = json.loads(cli("import", exported, "--check", "--json", "--store", store).stdout)
    assert [again["check"][name] for name in ("seen", "reasons")] == [
        first["check"][name] for name in ("seen", "reasons")
    ]


@pytest.mark.cluster
@pytest.mark.parametrize("workload", ["large-batch", "exactly-once"])
def test_a_run_goes_round(tmp_path: Path, workload: str) -> None:
    """A recorded run is judged the same after an export and an import, in either format."""
    store = str(tmp_path / "store")
    ran = cli("run", "-w", workload, "--time", "6s", "--json", "--store", store)
    assert ran.returncode == Exit.VALID, ran.stdout + ran.stderr
    first = json.loads(ran.stdout)
    for suffix in ("jsonl.gz", "parquet"):
        file = str(tmp_path / f"history.{suffix}")
        exported = cli("export", first["run"], file, "--store", store)
        assert exported.returncode == Exit.VALID, exported.stderr
        again = cli("import", file, "--check", "--json", "--store", store)
        assert again.returncode == Exit.VALID, again.stderr
        assert judged(json.loads(again.stdout)["check"]) == judged(first)


def judged(results: dict[str, Any]) -> dict[str, Any]:
    """The verdict, what was found and how it is marked, and in how much it was looked for."""
    return {
        "verdict": (results["verdict"], results["reasons"]),
        "seen": [(seen["anomaly"], seen["found"], seen["mark"]["status"]) for seen in results["seen"]],
        "looked at": {name: each.get("looked_at") for name, each in results["anomalies"].items()},
        "causes": [cause["sentence"] for cause in results["diagnosis"]["causes"]],
    }
