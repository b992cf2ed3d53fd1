"""The index of a store in a real Chromium: 200 runs, filtered, and two of them compared by two clicks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from harness.history.store import RESULTS_FILE, RUN_FILE
from harness.report.making import REPORT_FILE
from harness.report.store_index import write_index
from tests.support.chromium import PHONE, chromium, complaints, opened, overflow
from tests.support.hostile_run import HOSTILE, facts, results

if TYPE_CHECKING:
    from playwright.sync_api import Browser

RUNS = 200


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests."""
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a store of many runs, some of which were never checked, never ended, or cannot be read."""
    store = tmp_path_factory.mktemp("store")
    for number in range(RUNS):
        path = store / f"scenario-{number % 10}" / f"2026-11-{1 + number // 24:02}T{number % 24:02}-30-05"
        path.mkdir(parents=True)
        title = HOSTILE if number == 7 else f"scenario-{number % 10}"
        run = {**facts(), "title": title, "seed": number, "state": "load" if number % 50 == 11 else "finished"}
        (path / RUN_FILE).write_text("{" if number % 50 == 12 else json.dumps(run))
        if number % 50 not in {11, 13}:
            told = results("invalid" if number % 10 == 3 else "valid")
            (path / RESULTS_FILE).write_text(json.dumps(told))
            (path / REPORT_FILE).write_text(f"<title>the report of {number}</title>")
    page, runs = write_index(store)
    assert len(runs) == RUNS
    return page


def test_every_run_is_there_without_a_complaint_and_without_a_request(browser: Browser, index: Path) -> None:
    """Whatever its state; hostile names are text."""
    with opened(browser, index) as seen:
        seen.keep("index-light", whole=False)
        rows = seen.page.locator(".runs tbody tr")
        assert rows.count() == RUNS
        for verdict in ("valid", "invalid", "unfinished", "not checked", "corrupt"):
            assert seen.page.locator(f'.runs tr[data-verdict="{verdict}"]').count() >= 4, verdict
        assert seen.page.get_by_text(HOSTILE).count() >= 1
        assert (seen.said, seen.asked, seen.dialogs) == ([], [index.as_uri()], [])


def test_two_clicks_compare_two_runs(browser: Browser, index: Path) -> None:
    """What differs comes first; a third click begins again."""
    with opened(browser, index) as seen:
        buttons = seen.page.get_by_role("button", name="Compare", exact=False)
        comparison = seen.page.locator("#comparison")
        buttons.nth(0).click()
        expect(comparison).to_be_hidden()
        buttons.nth(1).click()
        expect(comparison).to_be_visible()
        seen.keep("index-comparison", whole=False)
        assert "seed" in comparison.locator("tbody tr").first.inner_text()
        first, then = (buttons.nth(n).get_attribute("aria-label") or "" for n in (1, 0))
        command = comparison.locator("pre").inner_text()
        assert command == f"tidegauge compare '{first.split(' ', 1)[1]}' '{then.split(' ', 1)[1]}'"
        assert complaints(seen.page) == []
        buttons.nth(2).click()
        expect(comparison).to_be_hidden()


def test_runs_are_filtered_by_words_and_verdict(browser: Browser, index: Path) -> None:
    """Both at once."""
    with opened(browser, index) as seen:
        shown = seen.page.locator(".runs tbody tr:visible")
        seen.page.get_by_role("button", name="invalid", exact=True).click()
        expect(shown).to_have_count(RUNS // 10 - 4)
        seen.page.get_by_role("searchbox").fill("scenario-3 113")
        expect(shown).to_have_count(0)
        seen.page.get_by_role("searchbox").fill("scenario-3 123")
        expect(shown).to_have_count(1)
        seen.page.get_by_role("button", name="all", exact=True).click()
        seen.page.get_by_role("searchbox").fill("")
        expect(shown).to_have_count(RUNS)


def test_a_run_leads_to_its_report(browser: Browser, index: Path) -> None:
    """Where the store is."""
    with opened(browser, index) as seen:
        seen.page.locator(".runs th a").first.click()
        expect(seen.page).to_have_title(f"the report of {RUNS - 1}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_used_by_keyboard_and_screen_reader(browser: Browser, index: Path, scheme: str) -> None:
    """As axe-core checks it."""
    with opened(browser, index, color_scheme=scheme) as seen:
        seen.keep(f"index-{scheme}", whole=False)
        assert complaints(seen.page) == []


def test_it_fits_a_phone_and_can_be_read_without_javascript(browser: Browser, index: Path) -> None:
    """A run is then a few lines instead of a row."""
    with opened(browser, index, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2) as seen:
        seen.keep("index-phone", whole=False)
        assert overflow(seen.page) == 0
    with opened(browser, index, java_script_enabled=False) as seen:
        assert seen.page.locator(".runs tbody tr").count() == RUNS
        assert not seen.page.locator(".filters").is_visible()
