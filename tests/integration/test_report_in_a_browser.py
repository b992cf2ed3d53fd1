"""The report in a real Chromium: it draws, it zooms, it asks nobody, and nothing that a broker says does anything.

Skipped where there is no Chromium, unless TIDEGAUGE_REQUIRE_BROWSER is set. Screenshots are kept in the directory that
TIDEGAUGE_SCREENSHOTS names, for people to look at.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from harness.report.page import render
from tests.support.hostile_run import HOSTILE, facts, results, series

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 400, "height": 844}
SCREENSHOTS = "TIDEGAUGE_SCREENSHOTS"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, as the machine has it."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None and os.environ.get("TIDEGAUGE_REQUIRE_BROWSER"):
        pytest.fail("there is no Chromium on PATH")
    if program is None:
        pytest.skip("there is no Chromium on PATH")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # the page is ours, and as root Chromium starts without its sandbox only
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run in which everything is hostile."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(facts(), results(), series(), "store/stream/latest"), encoding="utf-8", errors="replace")
    return path


@dataclass
class Seen:
    """An open report, and what happened in it."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def met(self, dialog: Dialog) -> None:
        """Somebody's script ran."""
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def keep(self, name: str, *, whole: bool = True) -> None:
        """A screenshot, if somebody wants to look at it."""
        if directory := os.environ.get(SCREENSHOTS):
            Path(directory).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(Path(directory, f"report-{name}.png")), full_page=whole)


@contextmanager
def opened(browser: Browser, report: Path, **options: Any) -> Iterator[Seen]:
    """The report in a window of its own."""
    context = browser.new_context(**{"viewport": DESKTOP, **options})
    seen = Seen(context.new_page())
    seen.page.on("console", lambda message: seen.said.append(message.text))
    seen.page.on("pageerror", lambda error: seen.said.append(str(error)))
    seen.page.on("request", lambda request: seen.asked.append(request.url))
    seen.page.on("dialog", seen.met)
    seen.page.goto(report.as_uri())
    yield seen
    context.close()


def overflow(page: Page) -> int:
    """Pixels by which the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def colours(page: Page) -> tuple[str, str]:
    """Of the paper, and of an axis of a chart."""
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    label = page.evaluate("getComputedStyle(document.querySelector('.ticks text')).fill")
    return str(paper), str(label)


def test_it_draws_without_a_complaint_and_asks_nobody(browser: Browser, report: Path) -> None:
    """The file itself is all that is loaded."""
    with opened(browser, report) as seen:
        seen.keep("light")
        assert seen.said == []
        assert seen.asked == [report.as_uri()]
        assert seen.page.locator(".panel .plot").count() >= 8
        assert seen.page.locator(".panel .op").count() > 4
        assert "broke its promises" in seen.page.inner_text("#verdict")


def test_hostile_text_is_shown_and_does_nothing(browser: Browser, report: Path) -> None:
    """Topics, log lines, errors, client ids, details of faults."""
    with opened(browser, report) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
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
        seen.keep("zoomed", whole=False)
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
        seen.keep("hover", whole=False)
        places = seen.page.locator(".cursor").evaluate_all("lines => lines.map(line => line.getAttribute('x1'))")
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
        seen.keep("no-javascript")
        assert seen.page.locator(".panel .plot").count() >= 8
        assert seen.page.locator("#realtime-order-0 .op.named").first.is_visible()
        assert seen.page.locator(".tools").count() == 0
        assert "broke its promises" in seen.page.inner_text("#verdict")


def test_dark_is_dark_in_charts_as_well(browser: Browser, report: Path) -> None:
    """As the reader's system has it."""
    with opened(browser, report, color_scheme="light") as seen:
        light = colours(seen.page)
    with opened(browser, report, color_scheme="dark") as seen:
        seen.keep("dark")
        dark = colours(seen.page)
    assert light[0] != dark[0]
    assert light[1] != dark[1]


def test_it_fits_a_phone(browser: Browser, report: Path) -> None:
    """What is wider scrolls by itself, also when all is unfolded."""
    with opened(browser, report, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2) as seen:
        seen.keep("phone")
        assert overflow(seen.page) == 0
        seen.page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        assert overflow(seen.page) == 0


def test_it_prints_with_everything_unfolded(browser: Browser, report: Path) -> None:
    """Paper cannot be clicked."""
    with opened(browser, report) as seen:
        seen.page.emulate_media(media="print")
        row = seen.page.locator("#realtime-order-0 tr.named").first
        assert (row.bounding_box() or {"height": 0})["height"] > 0
        assert not seen.page.locator(".tools").first.is_visible()
        assert seen.page.pdf()[:5] == b"%PDF-"
