"""The view of a run: rates and a summary, as plain lines in a log and as a screen on a terminal."""

import io

import pytest
from rich.console import Console

from harness.foundation import view as live
from harness.foundation.console import SafeConsole
from harness.foundation.view import Asides, LoadStatus, PlainView, Rates, summary, viewed_on


def text_of(console: Console) -> str:
    """What was printed."""
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def plain() -> Console:
    """Not a terminal."""
    return SafeConsole(file=io.StringIO(), width=200)


def test_rates_are_those_of_the_last_seconds() -> None:
    """Not an average since the beginning."""
    rates = Rates()
    rates.of({"ok": 0}, 0.0)
    rates.of({"ok": 1000}, 10.0)
    assert rates.of({"ok": 1100}, 11.0) == {"ok": 100.0}


def test_the_first_rate_is_none() -> None:
    """Nothing is divided by nothing."""
    assert Rates().of({"ok": 5}, 1.0) == {"ok": 0.0}


def test_a_summary_names_outcomes() -> None:
    """What did not happen is left out."""
    said = summary(
        LoadStatus({"sent": 5, "ok": 4, "info": 1, "fail": 0, "read": 0}), {"sent": 2.0, "ok": 1.0, "read": 0.0}
    )
    assert said == "5 sent (2/s) · 4 ok (1/s) · 1 info"
    assert summary(LoadStatus(), {}) == "nothing yet"


def test_lines_elsewhere(plain: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Phases and happenings at once, the standing every ten seconds, nothing that steers a terminal."""
    with viewed_on(plain) as view:
        assert isinstance(view, PlainView)
        view.phase("load", 30)
        view.standing(LoadStatus({"sent": 1}))
        view.happened("[bold]leader-kill 1 bit[/]")
        monkeypatch.setattr(live, "LINE_EVERY_S", 0.0)
        view.standing(LoadStatus({"sent": 2}, ("leader-kill: node 1 is dead",), "p0 led by 2, in sync 2,3"))
    shown = text_of(plain)
    assert "at most 30 s" in shown
    assert "[bold]leader-kill 1 bit[/]" in shown
    assert "1 sent" not in shown
    assert "2 sent" in shown
    assert "node 1 is dead" in shown
    assert "led by 2, in sync 2,3" in shown
    assert "\x1b" not in shown


def test_a_screen_on_a_terminal() -> None:
    """Finished phases stay, with what happened in them."""
    console = SafeConsole(file=io.StringIO(), width=120, force_terminal=True)
    with viewed_on(console) as view:
        view.phase("set up")
        view.step("starting 3 nodes")
        view.detail("1/3 ready")
        view.phase("load", 30)
        view.standing(LoadStatus({"sent": 7, "ok": 7}, ("leader-kill: node 1 is dead",), "p0 led by 2"))
        view.happened("leader of p0: 1 → 2")
        view.phase("heal")
    shown = text_of(console)
    for expected in ("set up", "1/3 ready", "7 sent", "node 1 is dead", "p0 led by 2", "leader of p0: 1 → 2", "heal"):
        assert expected in shown


def test_after_closing_the_screen_is_left_to_others() -> None:
    """Only what happened is still told, as a line."""
    console = SafeConsole(file=io.StringIO(), width=120, force_terminal=True)
    with viewed_on(console) as view:
        view.phase("check")
        view.close()
        before = text_of(console)
        view.phase("tear down")
        view.step("removing")
        assert text_of(console) == before
        view.happened("a container stayed")
    assert "a container stayed" in text_of(console)


def test_what_is_done_aside_only_tells_what_happened() -> None:
    """With the name of what it is about, since something else has the screen."""
    console = SafeConsole(file=io.StringIO(), width=120)
    view = Asides(console, "stream")
    view.phase("check")
    view.step("2,000 events")
    view.happened("a segment is torn")
    assert text_of(console) == "stream: a segment is torn\n"
