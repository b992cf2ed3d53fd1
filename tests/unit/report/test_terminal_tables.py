"""What commands print: hostile text verbatim, JSON that parses."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.commands.doctor import checks
from harness.foundation.console import SafeConsole
from harness.foundation.errors import NodeDied
from harness.report.terminal import tables as show
from harness.runs.machine import MachineCheck

EMOJI = ":key:"
BACKSLASH = "a\\"
HOSTILE = ["[red]x[/red]", "<script>alert(1)</script>", "[/]", "[link=file:///x]y[/link]", "\\[bold]"]

NASTY = " ".join([*HOSTILE, '"quoted"', "x" * 300, "☃ :key: \\"])


class Screen:
    """A console and what is on it."""

    def __init__(self, width: int = 80) -> None:
        self.file = io.StringIO()
        self.console = SafeConsole(file=self.file, width=width)

    @property
    def text(self) -> str:
        """Everything printed."""
        return self.file.getvalue()

    @property
    def json(self) -> Any:
        """Everything printed, as JSON."""
        return json.loads(self.text)


@pytest.fixture
def screen() -> Screen:
    """A narrow console that is no terminal."""
    return Screen()


def description(**changes: Any) -> dict[str, Any]:
    """A cluster as `--json` shows it."""
    node = {"id": 1, "address": "h:1", "listeners": {}, "answers": True, "lists_brokers": 3}
    base: dict[str, Any] = {
        "name": "local-1",
        "kind": "local",
        "product": "kafka",
        "version": "4.3.1",
        "cluster_id": "abc",
        "bootstrap": "h:1",
        "nodes": [node],
        "harness_pid": 7,
        "ready_after_s": 1.5,
    }
    return base | changes


def leaves(data: Any) -> list[Any]:
    """Every value in plain data, however deep."""
    if isinstance(data, dict):
        return leaves(list(data.values()))
    return [leaf for each in data for leaf in leaves(each)] if isinstance(data, list) else [data]


@pytest.mark.parametrize("text", [*HOSTILE, "a\\", EMOJI])
def test_errors_and_log_lines_are_printed_verbatim(screen: Screen, text: str) -> None:
    """What a broker or a path says is never markup, and long lines are not broken."""
    long = f"{text} {'x' * 100}"
    show.error(screen.console, NodeDied(f"it said {long}", "mend it", (long, text)))
    assert screen.text.splitlines() == [f"error  it said {long}: mend it", f"  │ {long}", f"  │ {text}"]


def test_notes_of_an_error_are_printed(screen: Screen) -> None:
    """Its log lines first, then what was found out later, such as what could not be undone; line by line."""
    failure = NodeDied("it died", "see", ("last", "words"))
    failure.add_note("not everything could be removed (netns [a]: busy): mend it\nsecond line")
    show.error(screen.console, failure)
    assert screen.text.splitlines() == [
        "error  it died: see",
        "  │ last",
        "  │ words",
        "  │ not everything could be removed (netns [a]: busy): mend it",
        "  │ second line",
    ]


def test_an_error_without_notes_is_one_line(screen: Screen) -> None:
    """Nothing below it."""
    show.error(screen.console, NodeDied("it died", "see"))
    assert screen.text == "error  it died: see\n"


@pytest.mark.parametrize("text", [*HOSTILE, "a\\", EMOJI])
def test_logs_are_printed_verbatim(screen: Screen, text: str) -> None:
    """Line by line, with the node in front."""
    show.logs(screen.console, {1: [text, "plain"], 2: [text]}, as_json=False)
    assert screen.text.splitlines() == [f"node 1 │ {text}", "node 1 │ plain", f"node 2 │ {text}"]


@pytest.mark.parametrize("text", [*HOSTILE, BACKSLASH, EMOJI])
def test_checks_are_printed_verbatim(screen: Screen, text: str) -> None:
    """What was found, what it costs and the remedy."""
    checks(screen.console, [MachineCheck("docker", ok=False, found=text, costs=text, remedy=text)], as_json=False)
    lines = screen.text.splitlines()
    assert lines[0] == f"✗ docker {text}"
    assert [line.strip() for line in lines[1:]] == [f"costs: {text}", f"remedy: {text}"]


def test_checks_are_printed_in_columns(screen: Screen) -> None:
    """However long a name is."""
    found = [
        MachineCheck("tc", ok=True, found="x"),
        MachineCheck("faults on docker", ok=False, found="x", costs="x", remedy="x"),
    ]
    checks(screen.console, found, as_json=False)
    first, second, costs, remedy = screen.text.splitlines()
    assert first.index("x") == second.index("x") == costs.index("costs") == remedy.index("remedy")


@pytest.mark.parametrize("field", ["cluster_id", "bootstrap", "version"])
@pytest.mark.parametrize("text", ["[red]x[/red]", "[fe80::1]:9092", ":key:"])
def test_a_cluster_is_printed_verbatim(screen: Screen, field: str, text: str) -> None:
    """The id and the addresses of an external cluster are what its brokers say they are."""
    show.cluster(screen.console, description(**{field: text}), as_json=False)
    assert text in screen.text


@pytest.mark.parametrize("text", ["[red]x[/red]", "[fe80::1]:9092", ":key:"])
def test_a_status_is_printed_verbatim(screen: Screen, text: str) -> None:
    """The same for the status: the cluster's id, and the nodes' addresses."""
    node = {"id": 1, "address": text, "answers": True, "lists_brokers": 3}
    show.status(screen.console, [description(cluster_id=text, nodes=[node])], as_json=False)
    assert screen.text.count(text) == 2


@pytest.mark.parametrize(("answers", "word"), [(True, "yes"), (False, "no"), (None, "not asked")])
def test_the_status_of_a_node(screen: Screen, answers: bool | None, word: str) -> None:  # noqa: FBT001
    """Whether it answers, and how many brokers it lists if it does."""
    node = {"id": 4, "address": "h:9", "answers": answers, "lists_brokers": 3}
    show.status(screen.console, [description(nodes=[node])], as_json=False)
    expected = ["4", "h:9", *word.split(), *(["3"] if answers else [])]
    assert screen.text.splitlines()[-1].split() == expected


def test_no_cluster(screen: Screen) -> None:
    """Nothing to show is said in words."""
    show.status(screen.console, [], as_json=False)
    show.removed(screen.console, [], as_json=False)
    show.removed(screen.console, ["a", "b"], as_json=False)
    assert screen.text.splitlines() == ["no cluster is up", "no cluster is up", "removed a, b"]


@pytest.mark.parametrize(
    ("shown", "data"),
    [
        (show.cluster, description(cluster_id=NASTY)),
        (show.status, [description(cluster_id=NASTY)]),
        (show.status, []),
        (show.image, NASTY),
        (show.removed, [NASTY]),
        (show.logs, {1: [NASTY]}),
        (checks, [MachineCheck("java", ok=True, found=NASTY)]),
    ],
)
def test_every_json_parses(shown: Callable[..., None], data: Any) -> None:
    """Whatever the width of the terminal and whatever the text, which arrives unchanged."""
    screen = Screen(width=20)
    shown(screen.console, data, as_json=True)
    assert NASTY not in str(data) or NASTY in leaves(screen.json)
