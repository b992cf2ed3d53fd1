"""A foreign history from its file to the verdict, by the command line and with Spark.

They need Spark, as the command does that they call.
"""

from __future__ import annotations

import json
from pathlib import Path

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
