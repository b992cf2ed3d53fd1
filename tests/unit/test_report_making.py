"""Reports of stored runs: made again from what is kept, without Spark, and never from what belongs to another check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from checkers import series as asked_of_spark
from harness.checking import checked_before
from harness.errors import UsageError
from harness.history import Kind
from harness.live import viewed_on
from harness.report import making
from harness.report.making import REPORT_FILE, SERIES_FILE, kept_series, report_again, report_checked
from harness.seal import Sealed
from harness.store import RESULTS_FILE, RUN_FILE, Run
from tests.reports import facts, results, series


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that was checked, and whose history somebody removed."""
    for name, data in ((RUN_FILE, facts()), (RESULTS_FILE, results()), (SERIES_FILE, series())):
        (tmp_path / name).write_text(json.dumps(data))
    return Run(tmp_path)


def test_what_is_kept_is_drawn_without_spark(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the history nor a session is needed."""
    monkeypatch.setattr(making, "Session", None)
    with viewed_on(Console(quiet=True)) as view:
        path = report_again(run, view)
    assert path == run.path / REPORT_FILE
    assert '<svg class="timeline"' in path.read_text(encoding="utf-8")


def test_series_of_another_check_are_not_taken(run: Run) -> None:
    """Nor those of another version, nor noise."""
    assert kept_series(run, results()) == series()
    other = results()
    other["anomalies"]["realtime-order"]["findings"][0]["offset"] = 27
    assert kept_series(run, other) is None
    (run.path / SERIES_FILE).write_text(json.dumps({**series(), "version": asked_of_spark.VERSION + 1}))
    assert kept_series(run, results()) is None
    (run.path / SERIES_FILE).write_text("[")
    assert kept_series(run, results()) is None


def test_without_series_and_history_the_report_says_that_nothing_is_drawn(run: Run) -> None:
    """The verdict is still there."""
    (run.path / SERIES_FILE).unlink()
    with viewed_on(Console(quiet=True)) as view:
        page = report_again(run, view).read_text(encoding="utf-8")
    assert "nothing is drawn" in page
    assert "Promises were broken" in page


def test_a_run_that_was_never_checked_has_no_report(run: Run) -> None:
    """And the error says what to do."""
    (run.path / RESULTS_FILE).unlink()
    with viewed_on(Console(quiet=True)) as view, pytest.raises(UsageError, match="tidegauge check"):
        report_again(run, view)


def test_a_verdict_is_not_lost_because_of_its_report(run: Run, tmp_path: Path) -> None:
    """Neither pictures nor a page that cannot be made raise anything; what is wrong is said."""
    said: list[str] = []
    (run.path / f"{REPORT_FILE}.new").mkdir()
    with viewed_on(Console(quiet=True)) as view, pytest.MonkeyPatch.context() as patch:
        patch.setattr(view, "happened", said.append)
        sealed = Sealed(
            tmp_path, {}, {Kind.COMPLETE: 1}, {}, {}, [], frozenset(), has_holes=False, first_time_ns=0, last_time_ns=1
        )
        assert report_checked(checked_before(run), sealed, None, view) is None  # type: ignore[arg-type]
    assert [text.split(" (")[0] for text in said] == [
        "nothing is drawn: the series could not be read",
        "there is no report",
    ]


def test_series_that_cannot_be_kept_are_drawn_all_the_same(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, say: the verdict of a run must not look like trouble, which would be tried again."""
    said: list[str] = []
    (run.path / f"{SERIES_FILE}.new").mkdir()
    monkeypatch.setattr(making, "read_series", lambda *_: series())
    sealed = Sealed(
        run.path, {}, {Kind.COMPLETE: 1}, {}, {}, [], frozenset(), has_holes=False, first_time_ns=0, last_time_ns=1
    )
    with viewed_on(Console(quiet=True)) as view:
        monkeypatch.setattr(view, "happened", said.append)
        page = report_checked(checked_before(run), sealed, None, view)  # type: ignore[arg-type]
    assert page is not None
    assert '<svg class="timeline"' in page.read_text(encoding="utf-8")
    assert [text.split(" (")[0] for text in said] == [f"there is no {SERIES_FILE}"]
