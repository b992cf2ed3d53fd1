"""The summary for GitHub: verdict, cause and findings, with no text of a broker taken for markup."""

from pathlib import Path
from typing import Any

import pytest

from harness.report.github import RUNS_SHOWN, VARIABLE, append_summary, escaped, summary
from harness.report.junit import ReportedRun

ILLEGAL = {"status": "illegal", "code": "", "why": ""}
ALLOWED = {"status": "allowed", "code": "weak-acks", "why": "acks=1, and a fault changes leaders"}


def told(verdict: str = "invalid", **change: Any) -> ReportedRun:
    """A run."""
    results = {
        "verdict": verdict,
        "run": "/store/stream/1",
        "seed": 7,
        "reasons": [{"code": "illegal", "sentence": "stall ×1"}],
        "seen": [
            {"anomaly": "stall", "found": 1, "mark": ILLEGAL, "marks": [ILLEGAL]},
            {"anomaly": "lost-write", "found": 2, "mark": ALLOWED, "marks": []},
        ],
        "anomalies": {"stall": {"findings": [{"detail": "waited | and waited"}]}},
        "figures": {"sent": 100, "distinct": 50},
        **change,
    }
    return ReportedRun(results)


def test_a_summary_has_the_verdict_the_cause_and_the_findings() -> None:
    """And how much arrived."""
    cause = {"sentence": "node 1 lists 1 broker", "confidence": "certain", "remedies": ["list all"]}
    text = summary([told(diagnosis={"causes": [cause]})])
    for part in ("### ❌ INVALID: stream", "**Cause** (certain): node 1 lists 1 broker", "- remedy: list all"):
        assert part in text
    assert "| stall | 1 | illegal | waited &#124; and waited |" in text
    assert "| lost-write | 2 | allowed&#58; acks&#61;1, and a fault changes leaders |  |" in text
    assert "50 of 100 messages arrived (50.0 %)" in text


def test_every_cause_has_a_line() -> None:
    """In the order of the diagnosis, which is that of harm."""
    causes = [{"sentence": f"cause {number} <b>", "confidence": "certain"} for number in range(7)]
    text = summary([told(diagnosis={"causes": causes})])
    assert "**7 causes, the most harmful first**" in text
    numbered = [line for line in text.splitlines() if line.partition(". ")[0].isdecimal()]
    assert numbered == [f"{number + 1}. (certain): cause {number} &#60;b&#62;" for number in range(7)]


def test_it_is_appended_where_github_asks_for_it(tmp_path: Path) -> None:
    """What others wrote stays; nobody who does not ask gets one."""
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    assert append_summary([told("valid")], {VARIABLE: str(file)})
    assert file.read_text().startswith("before\n### ✅ VALID")
    assert not append_summary([told()], {})


@pytest.mark.parametrize(
    "text",
    ["<script>x</script>", "[a](http://b)", "![i](x)", "a|b", "`c`", "**d**", "&lt;", "www.evil.example", "$x$", "- e"],
)
def test_markup_is_shown_as_it_is(text: str) -> None:
    """No sign that Markdown or HTML would take for something else is left."""
    left = escaped(text).replace("&#", "")
    assert not set(left) & set("<>[]`*|!$._")
    assert not left.startswith("-")


def test_nobody_is_mentioned() -> None:
    """GitHub looks for names after it has read the entities."""
    assert escaped("@octocat #1") == "&#64;\u2060octocat &#35;\u20601"


def test_a_text_stays_on_its_line_and_has_an_end() -> None:
    """A line break would end a table."""
    assert escaped("a\r\n\x00b\u202ec") == "a b c"
    assert len(escaped("x" * 10_000)) < 600


def test_many_runs_are_counted() -> None:
    """A summary may not be as long as it likes."""
    assert "And 5 runs more" in summary([told()] * (RUNS_SHOWN + 5))
