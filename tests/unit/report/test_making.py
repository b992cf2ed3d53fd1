"""Reports of stored runs: made again from what is kept, without Spark, and never from what belongs to another check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from checkers.summaries.drawn_series import VERSION, fingerprint
from harness.foundation.errors import UsageError
from harness.foundation.view import View, viewed_on
from harness.history.sealed import Sealed
from harness.history.store import RESULTS_FILE, RUN_FILE, Run
from harness.judging.checking import RESULTS_VERSION, After, Checked, CheckOptions, checked_before
from harness.report import making
from harness.report.making import REPORT_FILE, SERIES_FILE, kept_series, report_again, report_checked
from harness.report.trace import TRACE_FILE
from harness.spark.place import Place
from tests.support.hostile_run import facts, results, series


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that was checked, and whose history somebody removed."""
    for name, data in ((RUN_FILE, facts()), (RESULTS_FILE, results()), (SERIES_FILE, series())):
        (tmp_path / name).write_text(json.dumps(data))
    return Run(tmp_path)


def sealed_in(directory: Path) -> Sealed:
    """A history without events."""
    return Sealed(directory, {}, {}, {}, {}, [], frozenset(), has_holes=False, first_time_ns=0, last_time_ns=1)


def fresh(run: Run) -> Checked:
    """As a check hands it over, with what is drawn."""
    checked = checked_before(run)
    checked.results.drawn = {name: value for name, value in series().items() if name != "of"}
    return checked


def test_what_is_kept_is_drawn_without_spark(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the history nor another check is needed."""
    monkeypatch.setattr(making, "check_again", None)
    with viewed_on(Console(quiet=True)) as view:
        path = report_again(run, view)
    assert path == run.path / REPORT_FILE
    assert 'data-axis="run"' in path.read_text(encoding="utf-8")


def test_series_of_another_check_are_not_taken(run: Run) -> None:
    """Nor those of another version, nor noise."""
    assert kept_series(run, results()) == series()
    other = results()
    other["anomalies"]["realtime-order"]["findings"][0]["offset"] = 27
    assert kept_series(run, other) is None
    (run.path / SERIES_FILE).write_text(json.dumps({**series(), "version": VERSION + 1}))
    assert kept_series(run, results()) is None
    (run.path / SERIES_FILE).write_text("[")
    assert kept_series(run, results()) is None


def test_without_series_the_run_is_checked_once_more(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """And told as that check found it, with its series, which are kept."""
    (run.path / SERIES_FILE).unlink()
    asked: list[tuple[list[Run], CheckOptions]] = []

    def again(runs: list[Run], _: View, how: CheckOptions, after: After) -> list[Checked]:
        """A check that leaves what is drawn for later, and a session that ends with it."""
        asked.append((runs, how))
        checked = fresh(run)
        drawn, checked.results.drawn = checked.results.drawn, None
        checked.results.drawing = lambda: (drawn, "")
        after(checked, sealed_in(run.path))
        assert checked.results.drawn == drawn
        return [checked]

    monkeypatch.setattr(making, "check_again", again)
    monkeypatch.setattr(making, "open_run", lambda _: sealed_in(run.path))
    with viewed_on(Console(quiet=True)) as view:
        page = report_again(run, view, Place("local[1]")).read_text(encoding="utf-8")
    assert asked == [([run], CheckOptions(Place("local[1]")))]
    assert 'data-axis="run"' in page
    assert kept_series(run, results()) == series()


def test_without_series_and_history_the_report_says_that_nothing_is_drawn(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict is still there, and nothing is started for it."""
    monkeypatch.setattr("harness.judging.checking.Session", None)
    (run.path / SERIES_FILE).unlink()
    with viewed_on(Console(quiet=True)) as view:
        page = report_again(run, view).read_text(encoding="utf-8")
    assert "nothing is drawn" in page
    assert "broke its promises" in page


def test_a_run_that_was_never_checked_has_no_report(run: Run) -> None:
    """And the error says what to do."""
    (run.path / RESULTS_FILE).unlink()
    with viewed_on(Console(quiet=True)) as view, pytest.raises(UsageError, match="tidegauge check"):
        report_again(run, view)


def test_results_of_another_version_have_no_report(run: Run) -> None:
    """Nobody knows what they mean; the error says what to do."""
    (run.path / RESULTS_FILE).write_text(json.dumps({**results(), "version": RESULTS_VERSION - 1}))
    with viewed_on(Console(quiet=True)) as view, pytest.raises(UsageError, match="another version") as raised:
        report_again(run, view)
    assert raised.value.remedy == f"check it again: tidegauge check {run.path}"


def test_what_a_check_brought_is_kept_with_the_findings_that_it_shows(run: Run) -> None:
    """So that nobody takes it for that of another check."""
    (run.path / SERIES_FILE).unlink()
    with viewed_on(Console(quiet=True)) as view:
        page = report_checked(fresh(run), sealed_in(run.path), view)
    assert page == run.path / REPORT_FILE
    assert json.loads((run.path / SERIES_FILE).read_text(encoding="utf-8"))["of"] == fingerprint(results())
    assert kept_series(run, results()) == series()


def test_a_verdict_is_not_lost_because_of_its_report(run: Run, tmp_path: Path) -> None:
    """Neither pictures nor a page that cannot be made raise anything; what is wrong is said."""
    said: list[str] = []
    for name in (SERIES_FILE, TRACE_FILE, REPORT_FILE):
        (run.path / f"{name}.new").mkdir()
    with viewed_on(Console(quiet=True)) as view, pytest.MonkeyPatch.context() as patch:
        patch.setattr(view, "happened", said.append)
        assert report_checked(fresh(run), sealed_in(tmp_path), view) is None
    assert [text.split(" (")[0] for text in said] == [
        f"there is no {SERIES_FILE}",
        f"there is no {TRACE_FILE}",
        "there is no report",
    ]


def test_a_check_that_brought_nothing_to_draw_has_a_report(run: Run) -> None:
    """It says that nothing is drawn, and is made all the same."""
    with viewed_on(Console(quiet=True)) as view:
        page = report_checked(checked_before(run), sealed_in(run.path), view)
    assert page is not None
    assert "nothing is drawn" in page.read_text(encoding="utf-8")


def test_series_that_cannot_be_kept_are_drawn_all_the_same(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, say: the verdict of a run must not look like trouble, which would be tried again."""
    said: list[str] = []
    (run.path / f"{SERIES_FILE}.new").mkdir()
    with viewed_on(Console(quiet=True)) as view:
        monkeypatch.setattr(view, "happened", said.append)
        page = report_checked(fresh(run), sealed_in(run.path), view)
    assert page is not None
    assert 'data-axis="run"' in page.read_text(encoding="utf-8")
    assert [text.split(" (")[0] for text in said] == [f"there is no {SERIES_FILE}"]
