"""JUnit files: a test case per run, an unknown verdict as an error, and hostile text as text."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from harness.report.junit import LETTERS_AT_MOST, ReportedRun, clean, junit, write_junit

ILLEGAL = {"status": "illegal", "code": "", "why": ""}


def told(verdict: str, **change: Any) -> ReportedRun:
    """A run with one finding."""
    finding = {"topic": "t", "partition": 0, "detail": "acknowledged at offset 3"}
    reason = ("illegal", "lost-write ×1") if verdict == "invalid" else ("nothing-read", "nothing was read")
    seen = {"anomaly": "lost-write", "found": 1, "mark": ILLEGAL, "marks": [ILLEGAL]}
    results = {
        "verdict": verdict,
        "run": "/store/large-batch/2026-01-31T10-00-00",
        "expected": "valid",
        "seed": 7,
        "reasons": [dict(zip(("code", "sentence"), reason, strict=True))],
        "seen": [seen] if verdict == "invalid" else [],
        "anomalies": {"lost-write": {"findings": [finding]}},
        **change,
    }
    return ReportedRun(results, {"title": "large-batch", "phases": [{"took_s": 1.5}, {"took_s": 2}]})


def parsed(*runs: ReportedRun) -> ET.Element:
    """The document, read back."""
    return ET.fromstring(junit(runs))


def test_each_run_is_a_test_case() -> None:
    """With its scenario, its name, how long it took, and what was expected."""
    top = parsed(told("valid"), told("invalid"), told("unknown"))
    assert {name: top.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
    }
    first = top.findall(".//testcase")[0]
    assert (first.get("classname"), first.get("name"), first.get("time")) == (
        "tidegauge.large-batch",
        "2026-01-31T10-00-00",
        "3.50",
    )
    assert {each.get("name"): each.get("value") for each in first.iter("property")}["expected"] == "valid"
    assert [child.tag for child in first] == ["properties"]


def test_an_invalid_run_fails_with_its_findings() -> None:
    """Reasons, anomalies, the first findings, where the run is."""
    (failure,) = parsed(told("invalid")).iter("failure")
    assert (failure.get("type"), failure.get("message")) == ("invalid", "lost-write ×1")
    for text in ("lost-write ×1: illegal", "t-0 acknowledged at offset 3", "/store/large-batch/"):
        assert text in (failure.text or "")


def test_the_cause_comes_first() -> None:
    """Where the diagnosis names one."""
    cause = {"sentence": "node 1 lists 1 of 3 brokers", "confidence": "certain", "remedies": ["list all"]}
    (failure,) = parsed(told("invalid", diagnosis={"causes": [cause]})).iter("failure")
    assert failure.get("message") == "node 1 lists 1 of 3 brokers"
    assert "node 1 lists 1 of 3 brokers (certain)" in (failure.text or "")
    assert "remedy: list all" in (failure.text or "")


def test_every_cause_is_named_in_order() -> None:
    """The message has the most harmful one, and how many others there are; the text has them all."""
    causes = [{"sentence": f"cause {number}", "confidence": "certain"} for number in range(3)]
    (failure,) = parsed(told("invalid", diagnosis={"causes": causes})).iter("failure")
    assert failure.get("message") == "cause 0 (and 2 other causes)"
    lines = (failure.text or "").splitlines()
    assert [line for line in lines if line.startswith("cause: ")] == [f"cause: cause {n} (certain)" for n in range(3)]


def test_an_unknown_run_is_an_error_and_says_what_was_missing() -> None:
    """Neither passed nor failed nor skipped."""
    top = parsed(told("unknown"))
    (error,) = top.iter("error")
    assert error.get("message") == "nothing was read"
    assert not list(top.iter("failure"))
    assert not list(top.iter("skipped"))


def test_hostile_text_stays_text() -> None:
    """Markup, and letters that XML cannot carry."""
    evil = "</failure><script>\x00\x1b[31m\ud800 ]]>"
    (failure,) = parsed(told("invalid", reasons=[{"code": "noted", "sentence": evil}])).iter("failure")
    assert "</failure><script>\ufffd\ufffd[31m\ufffd ]]>" in (failure.text or "")


def test_a_long_text_is_cut() -> None:
    """A broker may say whatever it likes, and as much."""
    assert clean("x" * 10 * LETTERS_AT_MOST).endswith("… (cut)")


def test_results_that_say_nothing_are_an_error() -> None:
    """No verdict is not a pass."""
    (error,) = parsed(ReportedRun({})).iter("error")
    assert error.get("type") == "unknown"


def test_the_file_is_written_wherever_it_is_wanted(tmp_path: Path) -> None:
    """Directories are made."""
    write_junit(tmp_path / "a" / "b.xml", [told("valid")])
    assert ET.parse(tmp_path / "a" / "b.xml").getroot().get("tests") == "1"
