"""A run on the terminal: the verdict on one screen, the table of partitions, the cause, and JSON."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers.core.results import Anomaly, CheckResults, Finding
from checkers.core.timeline import Fault
from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from checkers.summaries.figures import Figures, PartitionRow, Stall
from harness.foundation.console import SafeConsole
from harness.foundation.errors import Exit
from harness.history.store import Run
from harness.judging.checking import Checked
from harness.judging.policies import RunFacts
from harness.judging.verdict import decide
from harness.report.terminal import run as show_run


def row(partition: int, topic: str = "t", read: int = 100) -> PartitionRow:
    """A line of the table."""
    return PartitionRow(topic, partition, 100, 100, 0, 0, read, read, 0.33, 0, 99, 100 - read, missing=100 - read)


def finding(number: int) -> Finding:
    """A lost write."""
    return Finding(
        "lost-write", "t", 0, number, (number,), (1,), (), 5, None, (9,), (), f"acknowledged at offset {number}"
    )


def checked(results: CheckResults, **facts: Any) -> Checked:
    """A run with these results."""
    return Checked(Run(Path("/store/x/y")), {"seed": 7, **facts}, results, decide(results, RunFacts()))


def everything() -> CheckResults:
    """Results with as much to say as possible."""
    stall = Stall(4, 0, 7_000_000_000, at_end=True)
    fault = FaultCoverage(Fault(1, "leader-kill", 1, 2, bit=True, detail="1 → 3"), Span(1, 1), Span(5, 6), Span(0, 0))
    names = ["lost-write", "phantom", "duplicate", "corrupt", "misrouted", "shared-offset"]
    return CheckResults(
        events=10,
        anomalies={name: Anomaly(name, "", 5, 3, [finding(1), finding(2)]) for name in names},
        figures=Figures(300, 300, 0, 0, 280, 280, 1.0, 2.0, 8, [row(n, read=80) for n in range(8)], [stall] * 5, 5),
        coverage=Coverage({"send": {"ok": 300, "info": 2}}, 600, 280, [], [fault] * 5, 7, [], 1),
        failures=["a", "b", "c", "d", "e", "f", "g"],
    )


def shown(results: CheckResults, **facts: Any) -> list[str]:
    """The screen as plain lines."""
    console = SafeConsole(file=io.StringIO(), width=200)
    show_run.verdicts(console, [checked(results, **facts)], as_json=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_verdict_fits_a_screen() -> None:
    """At most 25 lines, whatever there is to say; the run and how to repeat it stay."""
    lines = shown(everything())
    assert len(lines) <= 25
    text = "\n".join(lines)
    for expected in ("INVALID", "lost-write ×3", "LOW", "/store/x/y", "scenario.toml"):
        assert expected in text


def test_the_table_is_that_of_the_notes() -> None:
    """Per partition: sent, acknowledged, read, share, deviation, gaps, offsets."""
    results = CheckResults(figures=Figures(200, 200, 0, 0, 200, 200, 2.0, 1.0, 2, [row(0), row(1)]))
    lines = shown(results)
    assert lines[0].split() == ["partition", "sent", "acked", "read", "share", "deviation", "gaps", "offsets"]
    assert lines[1].split() == ["0", "100", "100", "100", "33.0", "%", "+0", "0", "0-99"]
    assert "200 of 200 messages arrived (100.0 %); produced at 100/s, consumed at 200/s" in lines[3]


def test_the_table_of_many_topics_stays_in_the_results() -> None:
    """It would tell nobody anything."""
    results = CheckResults(figures=Figures(table=[row(0, "a"), row(0, "b")]))
    assert not any("partition " in line for line in shown(results))


def test_what_was_done_beside_sending_and_reading_is_a_line() -> None:
    """Only what was done; what was aborted is not expected to arrive, and gaps that say nothing are not shown."""
    done = Figures(
        sent=100, distinct=80, aborted=20, transactions={"committed": 40, "aborted": 10}, transactions_s=4.0, made=7,
        commits=9, rebalances=3, topics={"created": 2, "grown": 1}, resends=5, table=[replace(row(0), gaps=None)],
    )  # fmt: skip
    lines = shown(CheckResults(figures=done))
    assert lines[1].split()[-2:] == ["-", "0-99"]
    assert "80 of 80 messages arrived (100.0 %)" in lines[2]
    assert lines[3] == (
        "  transactions 40 committed, 10 aborted, 10/s; topics 2 created, 1 grown; 7 messages made from others;"
        " 3 rebalances; 9 offsets committed; 5 batches sent again"
    )
    assert not any("transactions" in line for line in shown(CheckResults(figures=Figures(sent=1))))


def test_errors_that_the_table_does_not_know_are_told() -> None:
    """How many operations ended so, and the first few of them by name; those that it knows are in the results."""
    known = {"f": "send", "error": 7, "name": "REQUEST_TIMED_OUT", "type": "info", "count": 9, "classified": True}
    strange = [known | {"name": f"error {n}", "count": 2, "classified": False} for n in range(4)]
    text = "\n".join(shown(CheckResults(coverage=Coverage(errors=[known, *strange]))))
    assert "8 errors that the table does not know (send: error 0, send: error 1, send: error 2, …)" in text
    assert "does not know" not in "\n".join(shown(CheckResults(coverage=Coverage(errors=[known]))))


def test_nobody_can_repeat_what_was_imported() -> None:
    """It has no scenario."""
    assert not any("repeat" in line for line in shown(CheckResults(), kind="import"))


def test_nothing_at_all_can_be_shown() -> None:
    """An empty history: unknown, and why."""
    text = "\n".join(shown(CheckResults()))
    assert "UNKNOWN" in text
    assert "the history is empty" in text
    assert "an unknown rate" in text


def test_a_run_with_faults_is_repeated_with_the_same_ones() -> None:
    """And one without by its scenario."""
    assert "  repeat    tidegauge run --replay /store/x/y" in shown(CheckResults(), schedule=[{"fault": "x"}])
    assert "  repeat    tidegauge run /store/x/y/scenario.toml" in shown(CheckResults(), schedule=[])


def test_a_surprise_is_told() -> None:
    """When the verdict is not the expected one."""
    assert any("expected" in line for line in shown(CheckResults(), scenario={"expect": "valid"}))
    assert not any("expected" in line for line in shown(CheckResults(), scenario={"expect": "unknown"}))


def test_text_of_brokers_is_no_markup() -> None:
    """It is shown as it is."""
    results = CheckResults(failures=["[red]x[/] \x1b[2J"])
    text = "\n".join(shown(results))
    assert "[red]x[/]" in text
    assert "\x1b" not in text


def test_json_is_results_json() -> None:
    """One object for one run, a list for several."""
    for count in (1, 2):
        console = SafeConsole(file=io.StringIO())
        show_run.verdicts(console, [checked(everything())] * count, as_json=True)
        assert isinstance(console.file, io.StringIO)
        data = json.loads(console.file.getvalue())
        first = data if count == 1 else data[0]
        assert (first["verdict"], first["exit_code"], first["seed"]) == ("invalid", 1, 7)
        assert isinstance(data, dict) == (count == 1)


def test_the_worst_verdict_counts() -> None:
    """Of several runs."""
    bad, unknown = checked(everything()), checked(CheckResults())
    assert show_run.worst([unknown, bad]) == Exit.INVALID
    assert show_run.worst([unknown]) == Exit.UNKNOWN
    assert show_run.worst([]) == Exit.VALID


@pytest.mark.parametrize("rows", [[], [{"name": "x", "about": "y", "settings": {"a": {"default": 1, "about": "z"}}}]])
def test_listings(rows: list[dict[str, Any]]) -> None:
    """A table, or the word that there is nothing."""
    console = SafeConsole(file=io.StringIO(), width=100)
    show_run.listing(console, "runs", rows, as_json=False)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue()


def test_nemeses_are_listed_by_family_within_the_width() -> None:
    """All that a plan can say of a fault, with the defaults as they may be written."""
    rows = [
        {
            "family": "network",
            "name": name,
            "about": "delays every response to clients, each by another time and none for as long as the one before",
            "targets": ["all", "leader"],
            "options": {"by": 0.2, "rate": "64KiB", "to": 3},
            "needs": ["tap"],
            "longest_s": 120.0,
            "random": True,
        }
        for name in ("latency", "a-longer-name")
    ]
    console = SafeConsole(file=io.StringIO(), width=100)
    show_run.listing(console, "nemeses", rows, as_json=False)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[0].rstrip() == "network"
    assert sum(line.startswith("network") for line in lines) == 1
    assert max(map(len, lines)) <= 100
    text = " ".join(" ".join(lines).split())
    assert text.count("at all, leader · by=0.2s · rate=64KiB · to=3 · needs tap · 120 s at most") == 2


def test_the_linearizability_of_partitions_is_told() -> None:
    """In a line: how many are what, and the first that is not as it has to be."""
    place = {"partition": "t-2", "verdict": "violated", "offset": 1301}
    told = {"violated": 1, "linearizable": 2, "partitions": [place]}
    assert any("partitions: 1 violated, 2 linearizable (t-2 at offset 1,301)" in line for line in shown(
        CheckResults(summaries={"linearizability": told})
    ))  # fmt: skip
    assert not any("partitions:" in line for line in shown(CheckResults()))


def test_the_cause_is_told_below_the_verdict() -> None:
    """With what proves it, what to do, and the first counterexample by the clock on the wall."""
    anchor = {"monotonic_ns": 0, "wall_ns": 1_794_895_519_000_000_000}
    lines = shown(everything(), anchor=anchor)
    at = next(number for number, line in enumerate(lines) if line.startswith("  cause "))
    assert lines[at].endswith("(likely)")
    assert any(line.startswith("  remedy  ") for line in lines[at:])
    assert any(line.startswith("  first     06:05:19.000  t-0@") for line in lines[at:])


def test_what_was_measured_is_told_of_a_run_without_a_cause() -> None:
    """And that it was not."""
    anomaly = Anomaly("watermark-behind-ack", "", looked_at=1_937)
    lines = shown(CheckResults(anomalies={anomaly.name: anomaly}))
    assert any("watermark lag: measured, none (1,937 acknowledgements compared)" in line for line in lines)
    assert any("watermark lag: not measured: " in line for line in shown(CheckResults()))


def test_sends_that_were_not_acknowledged_are_counted_beside_what_is_illegal() -> None:
    """In the first line."""
    results = everything()
    results.figures.info = 609
    assert any("INVALID" in line and line.endswith("609 sends not acknowledged") for line in shown(results))
