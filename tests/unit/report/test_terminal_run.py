"""A run on the terminal: the verdict on one screen, the cause, what is covered, and JSON."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkers.core.results import Anomaly, CheckResults, Finding
from checkers.core.timeline import Fault
from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from checkers.summaries.figures import Figures, PartitionRow, Stall
from harness.foundation.console import SafeConsole
from harness.foundation.detail import Detail
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


def shown(results: CheckResults, detail: Detail = Detail.NORMAL, width: int = 200, **facts: Any) -> list[str]:
    """The screen as plain lines."""
    console = SafeConsole(file=io.StringIO(), width=width)
    show_run.verdicts(console, [checked(results, **facts)], as_json=False, detail=detail)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def fine(**figures: Any) -> CheckResults:
    """Results that make a run valid."""
    read = Coverage({"send": {"ok": 100}}, 200, 100, [], [], 1, [], 0)
    table = [row(0)] if "table" not in figures else figures.pop("table")
    return CheckResults(
        events=10, figures=Figures(**{"sent": 100, "acknowledged": 100, "distinct": 100, **figures}, table=table),
        coverage=read,
    )  # fmt: skip


def test_a_verdict_fits_a_screen() -> None:
    """At most 18 lines with the report's; the verdict, the run and how to repeat it stay."""
    lines = shown(everything(), width=80)
    assert len(lines) < show_run.OTHER_LINES
    text = "\n".join(lines)
    for expected in ("INVALID", "3 of 300 acknowledged messages lost", "repeat", "scenario.toml"):
        assert expected in text


def test_a_valid_run_is_calm() -> None:
    """What was tested, the verdict and what it comes to, what it covers, and where it is."""
    cluster = {"product": "kafka", "version": "4.3.1", "kind": "somewhere", "nodes": [{}, {}, {}]}
    settings = {"client": "x", "acks": "all"}
    plan = [{"fault": "leader-kill"}]
    scenario = {"workload": "stream", "settings": settings, "nemesis": plan}
    assert shown(fine(), width=80, cluster=cluster, scenario=scenario) == [
        "stream · leader-kill · Kafka 4.3.1, 3 somewhere nodes · x, acks=all · seed 7",
        "",
        "  VALID     all 100 acknowledged messages read",
        "  checked   0 anomalies, 10 events, 1 of 1 partitions to the end",
        "  run       /store/x/y",
    ]


def test_the_first_line_says_as_much_as_fits() -> None:
    """The workload and what was broken always."""
    scenario = {"workload": "w" * 30, "settings": {"client": "c" * 20, "acks": "all"}, "tap": {"broken": ["lies"]}}
    cluster = {"product": "other", "nodes": [{}], "kind": "k"}
    for width, said in ((200, " · seed 7"), (105, "acks=all"), (60, " · other"), (20, "built-in bug lies")):
        line, *_ = shown(fine(), width=width, scenario=scenario, cluster=cluster)
        assert line.endswith(said)
        assert line.startswith("w" * 30)


def test_quiet_is_the_line_of_the_verdict() -> None:
    """And nothing else."""
    assert shown(fine(), Detail.QUIET) == ["  VALID     all 100 acknowledged messages read"]


def test_what_became_of_the_messages_is_told() -> None:
    """Sends that were not acknowledged, messages nobody read, partitions that are linearizable."""
    told = {"linearizability": {"linearizable": 2, "partitions": []}}
    assert "all 100 acknowledged messages read; 2 partitions linearizable" in shown(replace(fine(), summaries=told))[2]
    weak = {"linearizability": {"linearizable": 1, "monotonic only": 1, "partitions": []}}
    assert "linearizable" not in shown(replace(fine(), summaries=weak))[2]
    assert "100 of 120 sends acknowledged, all of them read" in shown(fine(sent=130, aborted=10))[2]
    assert "80 of 100 acknowledged messages read" in shown(fine(table=[row(0, read=80)]))[2]


def test_faults_are_told_with_their_proof() -> None:
    """One in words, several by their kinds; how much went on meanwhile."""
    one = FaultCoverage(Fault(1, "kill", 1, 2, bit=True, topic="t", detail="t-0: 1 → 3"), None, Span(5, 6), Span(5, 6))
    none = FaultCoverage(Fault(1, "pause", 1, 2), None, None, None)

    def faults(*covered: FaultCoverage) -> list[str]:
        results = fine()
        results.coverage.faults.extend(covered)
        return [line for line in shown(results) if line.startswith("  fault")]

    assert faults(one) == ["  fault     kill: p0: 1 → 3; 5 sends, 6 reads meanwhile"]
    assert faults(none) == ["  fault     pause had no effect; what happened meanwhile is unknown"]
    assert faults(one, one, none) == [
        "  faults    2 of 3 took effect: kill ×2, pause ×1; 10 sends and 12 reads meanwhile"
    ]


def test_verbose_has_everything() -> None:
    """Partitions, rates, stalls, all reasons, the evidence of what is allowed, and what was not checked."""
    done = Figures(
        sent=100, acknowledged=100, distinct=80, aborted=20, transactions={"committed": 40, "aborted": 10},
        transactions_s=4.0, made=7, commits=9, rebalances=3, topics={"created": 2, "grown": 1}, resends=5,
        table=[replace(row(0), gaps=2)], produce_s=10.0, stalls=[Stall(4, 0, 7_000_000_000, at_end=True)] * 4,
        stalls_count=4,
    )  # fmt: skip
    anomaly = Anomaly("duplicate", "", not_applicable="nobody read")
    text = "\n".join(shown(replace(fine(), figures=done, anomalies={"duplicate": anomaly}), Detail.VERBOSE))
    for expected in (
        "p0: 100 sent, 100 acked, 100 read; offsets 0 to 99, 2 gaps",
        "80 of 80 messages read during the load; produced at 10/s, consumed at an unknown rate",
        "transactions: 40 committed, 10 aborted",
        "topics: 2 created, 1 grown",
        "7 messages made from others, 3 rebalances, 9 offsets committed, 5 batches resent",
        "consumer 4 received no records for 7.0 s until it gave up",
        "and 1 more pauses of consumers",
        "unchecked duplicate: nobody read",
    ):
        assert expected in text
    assert "stall" not in "\n".join(shown(fine(stalls=done.stalls, stalls_count=4)))


def test_errors_that_the_table_does_not_know_are_told() -> None:
    """How many operations ended so, and the first few of them by name; those that it knows are in the results."""
    known = {"f": "send", "error": 7, "name": "REQUEST_TIMED_OUT", "type": "info", "count": 9, "classified": True}
    strange = [known | {"name": f"error {n}", "count": 2, "classified": False} for n in range(4)]
    text = "\n".join(shown(CheckResults(coverage=Coverage(errors=[known, *strange]))))
    assert "8 unknown errors (send: error 0, send: error 1, send: error 2, …)" in text
    assert "unknown error" not in "\n".join(shown(CheckResults(coverage=Coverage(errors=[known]))))


def test_nobody_can_repeat_what_was_imported() -> None:
    """It has no scenario."""
    lines = shown(CheckResults(), kind="import", imported={"file": "x.edn"})
    assert not any("repeat" in line for line in lines)
    assert lines[0] == "imported x.edn · seed 7"


def test_nothing_at_all_can_be_shown() -> None:
    """An empty history: unknown, and why."""
    text = "\n".join(shown(CheckResults()))
    assert "  UNKNOWN   the history is empty" in text
    assert "no final read" in text


def test_an_unknown_run_says_what_is_missing_and_what_is_known() -> None:
    """The reasons, and that nothing wrong was found so far."""
    results = replace(fine(), failures=["a", "b", "c", "d", "e", "f"])
    lines = shown(results)
    at = lines.index("  UNKNOWN   a")
    assert lines[at + 1 : at + 6] == [
        "  also      b",
        "            c",
        "            d",
        "            and 2 more reasons (--verbose)",
        "  so far    all 100 acknowledged messages read; nothing wrong found",
    ]


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


def test_the_cause_is_told_below_the_verdict() -> None:
    """With what proves it, what to do, and the first counterexample by the clock on the wall."""
    anchor = {"monotonic_ns": 0, "wall_ns": 1_794_895_519_000_000_000}
    lines = shown(everything(), anchor=anchor)
    at = next(number for number, line in enumerate(lines) if line.startswith(("  cause ", "  1 ")))
    assert lines[at].endswith("(likely)")
    assert any(line.startswith("  fix  ") for line in lines[at:])
    assert any(line.startswith("  first     06:05:19.000  lost-write, p0 offset") for line in lines[at:])


def test_sends_that_were_not_acknowledged_are_counted_beside_what_is_illegal() -> None:
    """After what is lost."""
    results = everything()
    results.figures.info = 9
    assert (
        "  INVALID   3 of 300 acknowledged messages lost; 9 of 300 sends never acknowledged; 3 records damaged;"
        in (shown(results)[2])
    )
