"""What is found does not depend on size: flaws that were planted where files and tasks meet, and nothing else.

They need Spark: files and tasks meet nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.duck import QUESTIONS, Duck
from bench.histories import Made, generate
from checkers.core.check import CheckSettings, check
from checkers.core.results import CheckResults
from harness.foundation import class_archive
from harness.foundation.class_archive import Archive
from harness.history import parquet
from harness.history.sealed import Sealed
from harness.history.sealing import open_history
from harness.spark.session import Session

pytestmark = pytest.mark.usefixtures("spark_of_its_own")

CORE = CheckSettings(only=(*QUESTIONS, "int-nonmonotonic-poll"))
SEVERAL = 1_000  # findings are kept
FILE_ROWS = 20_000  # several files of a kind, several row groups and tasks of a file


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """It writes no archive of its classes, which nobody would use again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_archive, "record", lambda *_: Archive())
        with Session.start(tmp_path_factory.mktemp("spark")) as started:
            yield started


def _places(results: CheckResults, *anomalies: str) -> list[tuple[int, int]]:
    return sorted(
        (finding.partition or 0, finding.offset or 0)
        for name in anomalies
        for finding in results.anomalies[name].findings
    )


def _compare(made: Made, sealed: Sealed, results: CheckResults, directory: Path) -> None:
    """Spark, DuckDB and the plan agree."""
    duck = {name: [(row[1], row[2]) for row in rows] for name, rows in Duck(sealed, directory / "duck").ask().items()}
    assert not results.failures
    assert _places(results, "lost-write") == sorted(duck["lost-write"]) == sorted(made.lost)
    assert _places(results, "duplicate") == sorted(duck["duplicate"]) == sorted(made.doubled)
    after = sorted((partition, offset + 1) for partition, offset in made.doubled)
    assert _places(results, "inconsistent-offset") == sorted(duck["inconsistent-offset"]) == after
    again = sorted((partition, offset - 1) for partition, offset in made.backward)
    assert _places(results, "nonmonotonic-poll", "int-nonmonotonic-poll") == again
    assert sorted(duck["nonmonotonic-poll"]) == again
    for name, expected in (("watermark-regression", made.fallen), ("watermark-behind-ack", made.behind)):
        assert [partition for partition, _ in sorted(duck[name])] == list(expected), name
        assert {finding.partition for finding in results.anomalies[name].findings} == set(expected), name


def _checked(session: Session, events: int, partitions: int, directory: Path) -> None:
    made = generate(directory, events, partitions, plants=20)
    sealed = open_history(directory)
    _compare(made, sealed, check(session.get(), sealed, CORE, limit=SEVERAL), directory)


def test_flaws_where_files_are_cut(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small files, small stretches of offsets, and a task for each of many buckets."""
    monkeypatch.setattr(parquet, "FILE_ROWS", FILE_ROWS)
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", FILE_ROWS // 4)
    monkeypatch.setattr("checkers.core.spark.ONE_TASK_EVENTS", 0)
    monkeypatch.setattr("checkers.core.spark.EVENTS_OF_A_BUCKET", FILE_ROWS)
    monkeypatch.setattr("checkers.core.spark.STRETCH", 1 << 10)
    _checked(session, 300_000, 3, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("partitions", [1, 3, 1_000, 10_000])
def test_ten_million_events(session: Session, tmp_path: Path, partitions: int) -> None:
    """Hot and wide, in files as large as sealing makes them, and all in one partition."""
    _checked(session, 10_000_000, partitions, tmp_path)
