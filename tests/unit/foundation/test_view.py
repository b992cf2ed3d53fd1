"""The view of a run: rates and a summary, as plain lines in a log and as a screen on a terminal."""

import io
import re

import pytest
from rich.console import Console

from harness.foundation.console import SafeConsole
from harness.foundation.pace import Pace, Rates, lasting
from harness.foundation.view import Asides, LoadStatus, PlainView, clock, summary, viewed_on


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


def test_a_pace_says_how_long_the_rest_takes() -> None:
    """Once there is one, in units that people use."""
    pace = Pace(100.0)
    assert pace.said(0, 127, "archives", 130.0) == "0 of 127 archives"
    assert pace.said(45, 127, "archives", 100.5) == "45 of 127 archives"
    assert pace.said(45, 127, "archives", 105.0) == "45 of 127 archives, 9/s, 9 s left"
    assert pace.said(1, 3, "", 160.0) == "1 of 3, 1/min, 2 min 0 s left"
    assert pace.said(3, 3, "", 160.0) == "3 of 3"


def test_durations_that_change_are_whole_seconds() -> None:
    """And minutes."""
    assert (lasting(0.4), lasting(59.4), lasting(125.0)) == ("0 s", "59 s", "2 min 5 s")
    assert (clock(14.2, None), clock(14.2, 20.0), clock(31.0, 20.0)) == ("14 s", "14 of 20 s", "20 of 20 s")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        """Now."""
        return self.now_s


def test_lines_elsewhere_are_few(plain: Console) -> None:
    """What happens at once; how far it is at most every ten seconds; nothing twice, and nothing that steers."""
    passing = Clock()
    view = PlainView(plain, passing)
    view.phase("set up")
    view.step("starting 3 nodes")
    view.part(1, 3, "ready")
    view.phase("load", 20)
    view.happened("[bold]leader-kill 1 injected[/]")
    view.happened("[bold]leader-kill 1 injected[/]")
    for second in range(25):
        passing.now_s += 1
        view.standing(LoadStatus({"sent": second}, ("leader-kill: node 1 is dead",), "p0 led by 2"))
    view.phase("seal")
    assert text_of(plain).splitlines() == [
        "  0.0 s  set up",
        "  0.0 s           [bold]leader-kill 1 injected[/]",
        " 10.0 s  load     10 of 20 s · 9 sent (1/s) · leader-kill: node 1 is dead · p0 led by 2",
        " 20.0 s  load     20 of 20 s · 19 sent (1/s) · leader-kill: node 1 is dead · p0 led by 2",
    ]


def test_steps_are_told_when_they_take_long(plain: Console) -> None:
    """With how much of them is done."""
    passing = Clock()
    view = PlainView(plain, passing)
    view.phase("set up")
    passing.now_s += 5
    view.step("fetching kafka 4.3.1")
    for done in range(1, 4):
        passing.now_s += 4
        view.part(done, 3, "archives")
    assert text_of(plain).splitlines() == [
        "  0.0 s  set up",
        " 13.0 s  set up   fetching kafka 4.3.1: 2 of 3 archives, 15/min, 4 s left",
    ]


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {}])
def test_no_bars_where_lines_cannot_be_drawn_again(environment: dict[str, str]) -> None:
    """On a dumb terminal, and in a pipe."""
    console = SafeConsole(file=io.StringIO(), force_terminal=bool(environment) or None, _environ=environment)
    with viewed_on(console) as view:
        assert isinstance(view, PlainView)


def test_without_colour_there_is_none() -> None:
    """NO_COLOR is heeded, and COLUMNS."""
    environment = {"NO_COLOR": "1", "COLUMNS": "60", "TERM": "xterm-256color"}
    console = SafeConsole(file=io.StringIO(), force_terminal=True, _environ=environment)
    with viewed_on(console) as view:
        view.phase("load", 20)
        view.standing(LoadStatus({"sent": 123456, "ok": 123456, "read": 123456}, ("leader-kill: " + "x" * 90,)))
    shown = text_of(console)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", shown)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= 60


def test_a_screen_on_a_terminal() -> None:
    """Finished phases stay, with what happened in them."""
    console = SafeConsole(file=io.StringIO(), width=120, force_terminal=True)
    with viewed_on(console) as view:
        view.phase("set up")
        view.step("starting 3 nodes")
        view.part(1, 3, "ready")
        view.phase("load", 30)
        view.standing(LoadStatus({"sent": 7, "ok": 7}, ("leader-kill: node 1 is dead",), "p0 led by 2"))
        view.happened("leader of p0: 1 → 2")
        view.phase("heal")
    shown = text_of(console)
    for expected in (
        "set up",
        "1 of 3 ready",
        "7 sent",
        "node 1 is dead",
        "p0 led by 2",
        "leader of p0: 1 → 2",
        "heal",
    ):
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
