"""Pages in a real Chromium: what opens them, and what happens in them meanwhile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 400, "height": 844}
SCREENSHOTS = "TIDEGAUGE_SCREENSHOTS"
UNFOLD = "document.querySelectorAll('details').forEach(each => { each.open = true })"
# what can be wrong with a page for whoever uses a keyboard or a screen reader; all that axe knows
AXE: dict[str, Any] = {"resultTypes": ["violations"]}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium, as the machine has it; skips without one, unless TIDEGAUGE_REQUIRE_BROWSER is set."""
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
            self.page.screenshot(path=str(Path(directory, f"{name}.png")), full_page=whole)


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


def complaints(page: Page) -> list[str]:
    """What axe-core finds wrong: the rule, and the first elements that break it."""
    found = Axe().run(page, options=AXE).response["violations"]
    return [f"{each['id']}: {[node['html'][:200] for node in each['nodes'][:3]]}" for each in found]
