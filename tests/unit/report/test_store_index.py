"""The index of a store: every run in a row, whatever state it is in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.history.store import RESULTS_FILE, RUN_FILE
from harness.report.making import REPORT_FILE
from harness.report.store_index import INDEX_FILE, IndexedRun, indexed, write_index
from tests.support.hostile_run import HOSTILE, facts, results


def add(store: Path, name: str, run: object = None, told: object = None) -> Path:
    """A run with these files; text is written as it is."""
    path = store / name
    path.mkdir(parents=True)
    for file, data in ((RUN_FILE, run), (RESULTS_FILE, told)):
        if data is not None:
            (path / file).write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def only(store: Path) -> IndexedRun:
    """The one run of a store."""
    (run,) = indexed(store)
    return run


@pytest.mark.parametrize(
    ("run", "told", "verdict", "why"),
    [
        (facts(), results("valid"), "valid", "the run failed"),
        (facts(), results(), "invalid", "offsets are assigned twice"),
        (facts(), results("unknown"), "unknown", "the run failed"),
        (facts(), None, "not checked", "never checked"),
        ({**facts(), "state": "load"}, None, "unfinished", "ended while it was load"),
        ({}, None, "unfinished", "ended while it was starting"),
        ("{", None, "corrupt", "cannot be read"),
        (facts(), "[", "corrupt", "results.json cannot be read"),
        (facts(), {"verdict": "valid"}, "corrupt", "holds something else"),
        (None, results(), "corrupt", "there is no file"),
    ],
)
def test_a_run_is_listed_as_what_it_is(tmp_path: Path, run: object, told: object, verdict: str, why: str) -> None:
    """With a verdict, unfinished, never checked, or corrupt."""
    add(tmp_path, "stream/2026-11-15T12-30-05", run, told)
    shown = only(tmp_path)
    assert shown.verdict == verdict
    assert why in shown.why


def test_runs_are_listed_the_newest_first(tmp_path: Path) -> None:
    """Whatever their scenario; links, suites and other directories are no runs."""
    for name in ("b/2026-11-15T12-30-05", "a/2026-11-16T12-30-05", "c/2026-11-14T12-30-05"):
        add(tmp_path, name, facts())
    (tmp_path / "a" / "latest").symlink_to("2026-11-16T12-30-05")
    add(tmp_path, "suites/2026-11-15T12-30-05", facts())
    (tmp_path / "d" / "notes").mkdir(parents=True)
    assert [run.path[0] for run in indexed(tmp_path)] == ["a", "b", "c"]


def test_two_runs_are_compared_by_verdict_figures_and_settings(tmp_path: Path) -> None:
    """Every value is text for people."""
    add(tmp_path, "stream/2026-11-15T12-30-05", facts(), results())
    compared = only(tmp_path).compared
    expected = {"verdict": "invalid", "seed": "7", "messages delivered": "17 of 20", "anomaly realtime-order": "1"}
    assert expected.items() <= compared.items()
    assert (compared["setting acks"], compared["started"]) == ("all", "2026-11-15 12:30:05")


def test_the_index_is_in_the_store_and_links_to_the_reports_that_are_there(tmp_path: Path) -> None:
    """By relative addresses."""
    path = add(tmp_path, "a b/2026-11-15T12-30-05", facts(), results())
    add(tmp_path, "c/2026-11-15T12-30-05", facts(), results())
    (path / REPORT_FILE).write_text("report")
    index, runs = write_index(tmp_path)
    assert index == tmp_path / INDEX_FILE
    assert len(runs) == 2
    page = index.read_text(encoding="utf-8")
    assert page.count(f"/{REPORT_FILE}") == 1
    assert 'href="a%20b/2026-11-15T12-30-05/report.html"' in page


def test_the_index_can_be_published_with_the_reports(tmp_path: Path) -> None:
    """Nothing else of the store is copied."""
    store, public = tmp_path / "store", tmp_path / "public"
    (add(store, "a/2026-11-15T12-30-05", facts(), results()) / REPORT_FILE).write_text("report")
    add(store, "b/2026-11-15T12-30-05", facts())
    write_index(store, public)
    there = sorted(str(path.relative_to(public)) for path in public.rglob("*") if path.is_file())
    assert there == [f"a/2026-11-15T12-30-05/{REPORT_FILE}", INDEX_FILE]


def test_no_text_of_a_run_becomes_markup(tmp_path: Path) -> None:
    """Neither in the table nor in the data."""
    add(tmp_path, "stream/2026-11-15T12-30-05", facts(), results())
    page = write_index(tmp_path)[0].read_text(encoding="utf-8")
    assert HOSTILE not in page
    assert page.count("<script") == 2


def test_an_empty_store_has_an_index(tmp_path: Path) -> None:
    """It says how to begin."""
    assert "The store is empty" in write_index(tmp_path)[0].read_text(encoding="utf-8")


def test_two_hundred_runs_are_a_small_page(tmp_path: Path) -> None:
    """Bytes a run, however long what it says."""
    told: dict[str, Any] = results()
    told["diagnosis"]["causes"][0]["sentence"] = "x" * 5_000
    for number in range(200):
        add(tmp_path, f"stream-{number}/2026-11-15T12-30-05", facts(), told)
    assert write_index(tmp_path)[0].stat().st_size < 1_000_000
