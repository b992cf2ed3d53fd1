"""Comparing runs: what counts as a regression, what is noise, and what too few runs cannot show."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.commands.main import app
from harness.foundation.console import SafeConsole
from harness.foundation.errors import UsageError
from harness.report.comparison.html import comparison_page
from harness.report.comparison.inputs import AnomalySample, Group, PartitionCount, Sample, groups_of
from harness.report.comparison.judge import Comparison, compare, percent
from harness.report.comparison.statistics import ArrivalCount
from harness.report.terminal.comparison import shown

NOTES = ("v2.2.7=4391/5000", "v2.2.7.1=3939/5000", "v2.2.7.2=3814/5000", "reverted=4410/5000")


def of_notes() -> Comparison:
    """The notes' own numbers, one run each."""
    return compare(groups_of(NOTES, Path("nowhere")))


def sentence(comparison: Comparison, before: str, after: str) -> str:
    """What is said of a pair."""
    return next(pair.sentence for pair in comparison.pairs if (pair.before, pair.after) == (before, after))


def group(label: str, *runs: Sample) -> Group:
    """Some runs."""
    return Group(label, runs)


def run(arrived: int = 5000, illegal: tuple[str, ...] = (), **values: float) -> Sample:
    """A run that looked for three anomalies."""
    names = ("lost-write", "stall", "duplicate")
    seen = {name: AnomalySample(looked_at=True, found=name in illegal, illegal=name in illegal) for name in names}
    named = {name.replace("_", " "): value for name, value in values.items()}
    return Sample("s/t", ArrivalCount(arrived, 5000), named, seen, "invalid" if illegal else "valid")


def text_of(comparison: Comparison) -> str:
    """As the terminal shows it."""
    console = SafeConsole(file=io.StringIO(), width=120)
    shown(console, comparison)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_regression_of_the_notes_is_outside_noise() -> None:
    """The sentence that note 003 lacked."""
    assert sentence(of_notes(), "v2.2.7", "v2.2.7.1") == "regression: 87.8 % → 78.8 %, outside noise"


def test_one_run_each_does_not_support_the_second_regression_of_the_notes() -> None:
    """78.8 % and 76.3 % may be one and the same."""
    assert sentence(of_notes(), "v2.2.7.1", "v2.2.7.2") == "too few runs to tell: 78.8 % → 76.3 %"


def test_going_back_gives_what_was_there_before() -> None:
    """87.8 % and 88.2 % are no difference."""
    assert sentence(of_notes(), "v2.2.7", "reverted") == "no difference: 87.8 % → 88.2 %, inside noise"
    assert sentence(of_notes(), "v2.2.7.2", "reverted") == "improvement: 76.3 % → 88.2 %, outside noise"


def test_what_one_run_each_cannot_show_is_said() -> None:
    """In every form."""
    comparison = of_notes()
    for text in (text_of(comparison), json.dumps(comparison.as_json()), comparison_page(comparison)):
        assert "cannot show how much runs differ by themselves" in text
        assert "were not measured" in text


def test_a_finding_that_every_run_has_and_none_had_is_a_regression() -> None:
    """Although all messages arrive: a perfect count outranks no contradiction."""
    comparison = compare([group("a", run()), group("b", run(illegal=("duplicate",)))])
    (pair,) = comparison.pairs
    assert pair.verdict == "regression"
    assert pair.sentence == "regression: duplicate, in 0 of 1 runs before, in 1 of 1 after"
    assert "that it does not is not" in pair.measures[1].why
    assert comparison.regressions == [pair]


def test_a_finding_that_some_runs_have_is_nothing_yet() -> None:
    """One of three, and none of three."""
    after = [run(), run(illegal=("stall",)), run()]
    (pair,) = compare([group("a", run(), run(), run()), group("b", *after)]).pairs
    judged = pair.of("stall")
    assert judged is not None
    assert (judged.verdict, pair.verdict) == ("too few runs to tell", "too few runs to tell")


def test_what_a_configuration_allows_is_no_improvement_of_the_other() -> None:
    """Both have it; that only one may is no difference between them."""
    allowed = run()
    allowed = replace(allowed, anomalies={"duplicate": AnomalySample(looked_at=True, found=3, illegal=False)})
    (pair,) = compare([group("a", allowed), group("b", run(illegal=("duplicate",)))]).pairs
    judged = pair.of("duplicate")
    assert judged is not None
    assert judged.verdict == "no difference"


def test_what_was_not_looked_for_is_not_compared() -> None:
    """Absent is not the same as not looked at."""
    blind = replace(run(), anomalies={"stall": AnomalySample(looked_at=False, found=0, illegal=False)})
    (pair,) = compare([group("a", blind), group("b", run(illegal=("stall",)))]).pairs
    assert pair.of("stall") is None


def test_speed_counts_from_a_tenth_on() -> None:
    """A significant difference of 5 % is none; one of 50 % is a regression."""
    fast = [run(latency_p99=value) for value in (100, 101, 100, 101)]
    near = [run(latency_p99=value) for value in (105, 106, 105, 106)]
    slow = [run(latency_p99=value) for value in (150, 151, 150, 149)]
    comparison = compare([group("a", *fast), group("b", *near), group("c", *slow)])
    verdicts = {pair.after: pair.verdict for pair in comparison.pairs if pair.before == "a"}
    assert verdicts == {"b": "no difference", "c": "regression"}
    assert "latency p99 100 ms → 150 ms" in sentence(comparison, "a", "c")


def test_too_few_to_tell_about_speed_does_not_hide_that_messages_arrive() -> None:
    """One run each of the same: no difference, and a word about the latency."""
    comparison = compare([group("a", run(latency_p99=100)), group("b", run(latency_p99=200))])
    assert comparison.pairs[0].verdict == "no difference"
    assert "too few runs to tell: latency p99" in text_of(comparison)


def test_an_improvement_is_none_while_something_is_open() -> None:
    """More arrives, and one run of three stalls."""
    before, after = [run(4000), run(4010), run(3990)], [run(), run(illegal=("stall",)), run()]
    (pair,) = compare([group("a", *before), group("b", *after)]).pairs
    judged = pair.of("success rate")
    assert judged is not None
    assert (judged.verdict, pair.verdict) == ("improvement", "too few runs to tell")


def test_what_was_asked_differently_is_told() -> None:
    """A difference may come from that."""
    one, other = (replace(run(), asked={"acks": value, "client": "x"}) for value in ("1", "all"))
    comparison = compare([group("a", one), group("b", other)])
    assert comparison.differs == {"acks": ["a: 1", "b: all"]}
    assert "asked differently acks: a: 1 · b: all" in text_of(comparison)


def test_a_group_that_is_no_repetition_is_told() -> None:
    """Runs of different scenarios under one pattern."""
    mixed = [replace(run(), asked={"workload": name}) for name in ("stream", "groups")]
    assert any("no repetitions" in note for note in compare([group("a", *mixed), group("b", run())]).notes)


def test_what_a_stopped_load_had_no_time_to_read_is_no_regression() -> None:
    """Where consumers wait for everything, it is one."""
    stopped = [group(label, replace(run(arrived), waited=False)) for label, arrived in (("a", 5000), ("b", 1700))]
    (pair,) = compare(stopped).pairs
    assert pair.verdict == "too few runs to tell"
    assert "had no time to arrive" in pair.measures[0].why
    assert compare([group("a", run()), group("b", run(1700))]).pairs[0].verdict == "regression"


def test_partitions_have_a_table() -> None:
    """With an interval each, and a mark where it is low."""
    parts = (
        PartitionCount("0", ArrivalCount(1650, 1667), low=False),
        PartitionCount("10", ArrivalCount(1021, 1667), low=True),
    )
    text = text_of(compare([group("a", replace(run(), partitions=parts)), group("b", run())]))
    assert re.search(r"^0 +99\.0 % \(\S+ to \S+\) +-", text, re.MULTILINE)
    assert re.search(r"^10 +61\.2 % \(\S+ to \S+\) LOW +-", text, re.MULTILINE)


def test_one_thing_cannot_be_compared() -> None:
    """Nor can nine."""
    for count in (1, 9):
        with pytest.raises(UsageError):
            compare([group(str(number), run()) for number in range(count)])


def test_a_page_is_escaped_and_runs_nothing() -> None:
    """Whatever runs are called."""
    evil = '<script>alert(1)</script>"\x1b[2J'
    hostile = replace(run(illegal=("stall",)), name=evil, asked={evil: evil})
    page = comparison_page(compare([group(evil, hostile), group("b", run())]))
    assert "<script" not in page
    assert "default-src &#x27;none&#x27;" in page
    assert "http://" not in page
    assert "\x1b" not in text_of(compare([group(evil, hostile), group("b", run())]))


def test_what_is_not_all_is_never_rounded_to_all() -> None:
    """One of a hundred thousand is missing."""
    assert [percent(share) for share in (1.0, 0.99999, 0.878, 0.0, 1e-9)] == [
        "100.0 %", "99.999 %", "87.8 %", "0.0 %", "almost 0 %",
    ]  # fmt: skip


def test_the_command_fails_on_a_regression_if_asked_to() -> None:
    """Exit code 1, and 0 without the flag or against a baseline that is no better."""
    runner = CliRunner()
    assert runner.invoke(app, ["compare", *NOTES[:2], "--fail-on-regression"]).exit_code == 1
    assert runner.invoke(app, ["compare", *NOTES[:2]]).exit_code == 0
    assert runner.invoke(app, ["compare", NOTES[1], NOTES[0], "--fail-on-regression"]).exit_code == 0


def test_the_command_writes_all_three_forms(tmp_path: Path) -> None:
    """Text or JSON to the terminal, HTML to a file."""
    page = tmp_path / "compared.html"
    done = CliRunner().invoke(app, ["compare", *NOTES, "--json", "--html", str(page)])
    data = json.loads(done.stdout)
    assert [row["label"] for row in data["groups"]] == ["v2.2.7", "v2.2.7.1", "v2.2.7.2", "reverted"]
    assert data["regressions"] == ["v2.2.7.1", "v2.2.7.2"]
    assert "87.8 %" in page.read_text()
