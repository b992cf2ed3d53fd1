"""The report in a real Chromium: it draws, it zooms, it asks nobody, and nothing that a broker says does anything.

Skipped where there is no Chromium, unless TIDEGAUGE_REQUIRE_BROWSER is set. Screenshots are kept in the directory that
TIDEGAUGE_SCREENSHOTS names, for people to look at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from harness.report.page import render
from tests.support.chromium import DESKTOP, PHONE, UNFOLD, chromium, complaints, opened, overflow
from tests.support.hostile_run import HOSTILE, facts, results, series

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests."""
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run in which everything is hostile."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(facts(), results(), series(), "store/stream/latest"), encoding="utf-8", errors="replace")
    return path


def colours(page: Page) -> tuple[str, str]:
    """Of the paper, and of an axis of a chart."""
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    label = page.evaluate("getComputedStyle(document.querySelector('.ticks text')).fill")
    return str(paper), str(label)


def test_it_draws_without_a_complaint_and_asks_nobody(browser: Browser, report: Path) -> None:
    """The file itself is all that is loaded."""
    with opened(browser, report) as seen:
        seen.keep("report-light")
        assert seen.said == []
        assert seen.asked == [report.as_uri()]
        assert seen.page.locator(".panel .plot").count() >= 8
        assert seen.page.locator(".panel .op").count() > 4
        assert "broke its promises" in seen.page.inner_text("#verdict")


def test_hostile_text_is_shown_and_does_nothing(browser: Browser, report: Path) -> None:
    """Topics, log lines, errors, client ids, details of faults."""
    with opened(browser, report) as seen:
        seen.page.evaluate(UNFOLD)
        seen.page.locator(".panel .op").first.hover(force=True)
        assert (seen.dialogs, seen.said) == ([], [])
        assert seen.page.locator("body script").count() == 1
        assert seen.page.locator("img").count() == 0
        assert HOSTILE in seen.page.inner_text("h1")
        assert seen.page.inner_text("body").count(HOSTILE) > 10


def test_the_policy_stops_what_would_slip_through(browser: Browser, report: Path) -> None:
    """Neither a script nor a request that somebody manages to put into the page does anything."""
    with opened(browser, report) as seen:
        seen.page.evaluate(
            """() => {
                const script = document.createElement('script');
                script.textContent = 'window.slipped = true';
                document.body.append(script);
                const image = document.createElement('img');
                image.src = 'https://example.invalid/x.png';
                document.body.append(image);
            }"""
        )
        assert seen.page.evaluate("window.slipped") is None
        assert len([text for text in seen.said if "Content Security Policy" in text]) == 2


def test_a_picture_zooms_by_itself(browser: Browser, report: Path) -> None:
    """By buttons, by the wheel and by keys; the run's charts stay as they are."""
    with opened(browser, report) as seen:
        panel = seen.page.locator("#realtime-order-0 .panel")
        bar = panel.locator(".op.named").first

        def width() -> float:
            return (bar.bounding_box() or {"width": 0.0})["width"]

        before = width()
        panel.get_by_role("button", name="zoom in").click()
        expect(panel).to_have_attribute("data-zoom", "2.000")
        assert width() > before
        expect(seen.page.locator("#run-timeline")).to_have_attribute("data-zoom", "1.000")
        seen.keep("report-zoomed", whole=False)
        panel.get_by_role("button", name="reset").click()
        expect(panel).to_have_attribute("data-zoom", "1.000")
        panel.locator(".tracks").focus()
        seen.page.keyboard.press("-")
        expect(panel).to_have_attribute("data-zoom", "0.500")
        seen.page.keyboard.press("0")
        panel.locator(".plot").first.hover()
        seen.page.keyboard.down("Control")
        seen.page.mouse.wheel(0, -100)
        seen.page.keyboard.up("Control")
        expect(panel).to_have_attribute("data-zoom", "1.400")
        assert seen.said == []


def test_all_charts_of_a_run_zoom_together(browser: Browser, report: Path) -> None:
    """By dragging over one of them, by buttons and by keys; the slider moves all of them."""
    with opened(browser, report) as seen:
        timeline = seen.page.locator("#run-timeline")
        timeline.scroll_into_view_if_needed()
        box = timeline.locator(".plot").first.bounding_box()
        assert box is not None

        def are_at(factor: float) -> None:
            for panel in seen.page.locator('[data-axis="run"]').all():
                expect(panel).to_have_attribute("data-zoom", re.compile(f"^{factor:.1f}"))

        are_at(1)
        middle = box["y"] + box["height"] / 2
        seen.page.mouse.move(box["x"] + box["width"] * 0.25, middle)
        seen.page.mouse.down()
        seen.page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=4)
        seen.page.mouse.up()
        are_at(4)
        ticks = timeline.locator(".ticks").text_content() or ""
        timeline.locator("input[type=range]").fill("1000")
        expect(timeline.locator(".ticks")).not_to_have_text(ticks)
        timeline.locator(".tracks").focus()
        seen.page.keyboard.press("0")
        are_at(1)
        timeline.get_by_role("button", name="zoom in").click()
        are_at(2)
        assert seen.said == []


def test_values_are_shown_where_the_pointer_is(browser: Browser, report: Path) -> None:
    """Of every line of the chart, and in all charts a cursor at the same time; by keys as well."""
    with opened(browser, report) as seen:
        seen.page.locator("#run-timeline .plot").first.hover()
        bubble = seen.page.locator(".bubble")
        bubble.wait_for(state="visible")
        text = bubble.inner_text()
        assert "6.5" in text.splitlines()[0]
        assert "acknowledged: " in text
        seen.keep("report-hover", whole=False)
        places = seen.page.locator("[data-axis=run] .cursor").evaluate_all(
            "lines => lines.map(line => line.getAttribute('x1'))"
        )
        assert len(set(places)) == 1
        seen.page.mouse.move(5, 5)
        bubble.wait_for(state="hidden")
        seen.page.locator("#run-timeline .tracks").focus()
        seen.page.keyboard.press("ArrowRight")
        bubble.wait_for(state="visible")


def test_a_finding_on_the_timeline_leads_to_its_evidence(browser: Browser, report: Path) -> None:
    """Which is unfolded."""
    with opened(browser, report) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = false })")
        seen.page.locator("#run-timeline .span.finding").first.click(force=True)
        seen.page.wait_for_url("**#realtime-order-0")
        assert seen.page.locator("#realtime-order-0 .facts").is_visible()


def test_commands_can_be_copied(browser: Browser, report: Path) -> None:
    """The button says that it was done."""
    with opened(browser, report, permissions=["clipboard-read", "clipboard-write"]) as seen:
        command = seen.page.locator(".command").first
        command.get_by_role("button", name="Copy").click()
        command.get_by_role("button", name="Copied").wait_for()
        copied = seen.page.evaluate("navigator.clipboard.readText()")
        assert copied == command.locator("pre").inner_text()


def test_an_operation_tells_about_itself_and_leads_to_its_row(browser: Browser, report: Path) -> None:
    """Which is unfolded."""
    with opened(browser, report) as seen:
        row = seen.page.locator("#realtime-order-0 tr.named").first
        assert not row.is_visible()
        panel = seen.page.locator("#realtime-order-0 .panel")
        panel.locator(".op.named").first.click(force=True)
        text = panel.locator(".picked-text")
        expect(text).to_contain_text("acknowledged at offset 27")
        text.get_by_role("link").click()
        row.wait_for(state="visible")
        assert seen.page.url.endswith(f"#{row.get_attribute('id')}")


def test_it_can_be_read_without_javascript(browser: Browser, report: Path) -> None:
    """Everything is there but the zoom."""
    with opened(browser, report, java_script_enabled=False) as seen:
        seen.keep("report-no-javascript")
        assert seen.page.locator(".panel .plot").count() >= 8
        assert seen.page.locator("#realtime-order-0 .op.named").first.is_visible()
        assert seen.page.locator(".tools").count() == 0
        assert "broke its promises" in seen.page.inner_text("#verdict")


def test_dark_is_dark_in_charts_as_well(browser: Browser, report: Path) -> None:
    """As the reader's system has it."""
    with opened(browser, report, color_scheme="light") as seen:
        light = colours(seen.page)
    with opened(browser, report, color_scheme="dark") as seen:
        seen.keep("report-dark")
        dark = colours(seen.page)
    assert light[0] != dark[0]
    assert light[1] != dark[1]


def test_it_fits_a_phone(browser: Browser, report: Path) -> None:
    """What is wider scrolls by itself, also when all is unfolded."""
    with opened(browser, report, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2) as seen:
        seen.keep("report-phone")
        assert overflow(seen.page) == 0
        seen.page.evaluate(UNFOLD)
        assert overflow(seen.page) == 0


def test_it_prints_with_everything_unfolded(browser: Browser, report: Path) -> None:
    """Paper cannot be clicked."""
    with opened(browser, report) as seen:
        seen.page.emulate_media(media="print")
        row = seen.page.locator("#realtime-order-0 tr.named").first
        assert (row.bounding_box() or {"height": 0})["height"] > 0
        assert not seen.page.locator(".tools").first.is_visible()
        assert seen.page.pdf()[:5] == b"%PDF-"


def test_paper_is_white_whatever_the_system_has(browser: Browser, report: Path) -> None:
    """Pale colours cannot be read on it."""
    with opened(browser, report, color_scheme="dark") as seen:
        seen.page.emulate_media(media="print", color_scheme="dark")
        seen.keep("report-print", whole=False)
        paper = colours(seen.page)
        seen.page.emulate_media(media="print", color_scheme="light")
        assert colours(seen.page) == paper


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_as_much_as_is_ever_drawn_is_one_page(browser: Browser, tmp_path: Path, viewport: dict[str, int]) -> None:
    """What a run of ten million events leaves: 24 partitions on 5 nodes in 300 steps; most of it is folded."""
    path = tmp_path / "report.html"
    drawn = series(partitions=24, nodes=5, points=300)
    path.write_text(render(facts(), results(), drawn, "store/stream/latest"), encoding="utf-8")
    with opened(browser, path, viewport=viewport) as seen:
        seen.keep(f"report-large-{viewport['width']}")
        assert (seen.said, overflow(seen.page)) == ([], 0)
        seen.page.evaluate(UNFOLD)
        assert overflow(seen.page) == 0
        seen.page.locator("#run-timeline").get_by_role("button", name="zoom in").click()
        for panel in seen.page.locator('[data-axis="run"]').all():
            expect(panel).to_have_attribute("data-zoom", "2.000")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("verdict", ["valid", "invalid", "unknown"])
def test_it_can_be_used_by_keyboard_and_screen_reader(
    browser: Browser, tmp_path: Path, verdict: str, scheme: str
) -> None:
    """Landmarks, headings, names and contrast, as axe-core checks them, with everything unfolded as well."""
    path = tmp_path / "report.html"
    path.write_text(render(facts(), results(verdict), series(), "store/stream/latest"), encoding="utf-8")
    with opened(browser, path, color_scheme=scheme) as seen:
        seen.keep(f"report-{verdict}-{scheme}", whole=False)
        assert complaints(seen.page) == []
        seen.page.evaluate(UNFOLD)
        assert complaints(seen.page) == []
        assert seen.page.get_by_role("main").count() == 1
        assert seen.page.get_by_role("navigation").count() == 1


def test_every_chart_can_be_reached_by_keyboard(browser: Browser, report: Path) -> None:
    """And says what keys do."""
    with opened(browser, report) as seen:
        seen.page.evaluate(UNFOLD)
        charts = seen.page.locator(".tracks").all()
        assert len(charts) >= 6
        for chart in charts:
            chart.focus()
            expect(chart).to_be_focused()
            expect(chart).to_have_attribute("aria-label", re.compile("arrow keys read values"))
