"""A summary for the page of a GitHub workflow run: Markdown, appended to the file that GITHUB_STEP_SUMMARY names.

Text from brokers and runs is hostile: it is shown as text, whatever Markdown or HTML it holds, and cannot make links,
mention people or end a table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.foundation.errors import from_os_error
from harness.judging.policies.marks import mark_of
from harness.report.junit import ReportedRun

VARIABLE = "GITHUB_STEP_SUMMARY"
SEEN_SHOWN = 10
REASONS_SHOWN = 5
LETTERS_AT_MOST = 500  # of one text
RUNS_SHOWN = 50  # a summary may have a megabyte
SIGNS = {"valid": "✅", "invalid": "❌", "unknown": "❔"}
# every ASCII sign that Markdown or HTML may take for something else
_SPECIAL = re.compile(r"([\\`*_{}\[\]#+.!|~<>&@:$\"'=^]|^-)")
_APART = (
    "\u2060"  # nothing to see; what follows is no name or number of GitHub's then, for which entities are no obstacle
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def append_summary(runs: Sequence[ReportedRun], environment: Mapping[str, str] = os.environ) -> bool:
    """Append it, where GitHub asks for one; says whether it did."""
    name = environment.get(VARIABLE)
    if not name:
        return False
    try:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(summary(runs))
    except OSError as error:
        raise from_os_error(error, "writing the summary for GitHub") from error
    return True


def summary(runs: Sequence[ReportedRun]) -> str:
    """The Markdown."""
    return "\n".join([line for run in runs[:RUNS_SHOWN] for line in _lines(run)] + _more(runs)) + "\n"


def _more(runs: Sequence[ReportedRun]) -> list[str]:
    return [f"And {len(runs) - RUNS_SHOWN} runs more."] if len(runs) > RUNS_SHOWN else []


def _lines(run: ReportedRun) -> Iterator[str]:
    yield f"### {SIGNS.get(run.verdict, '❔')} {run.verdict.upper()}: {escaped(run.scenario)}"
    yield ""
    yield from _causes(run.causes)
    reasons = run.reasons if run.verdict != "valid" else []
    yield from (f"- {escaped(reason)}" for reason in reasons[:REASONS_SHOWN])
    if len(reasons) > REASONS_SHOWN:
        yield f"- and {len(reasons) - REASONS_SHOWN} reasons more"
    yield ""
    seen = list(run.results.get("seen") or [])
    if seen:
        yield "| anomaly | found | mark | first |"
        yield "| --- | ---: | --- | --- |"
        yield from (_row(run, each) for each in seen[:SEEN_SHOWN])
        if len(seen) > SEEN_SHOWN:
            yield f"| and {len(seen) - SEEN_SHOWN} more | | | |"
        yield ""
    yield from _figures(run.results.get("figures") or {})
    yield f"Run {escaped(run.name)}, seed {escaped(str(run.results.get('seed')))}"
    yield ""


def _causes(causes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Every cause in a line, the most harmful first, with the remedies of that one."""
    if not causes:
        return
    if len(causes) == 1:
        yield f"**Cause** {_cause(causes[0])}"
    else:
        yield f"**{len(causes)} causes, the most harmful first**"
        yield ""
        yield from (f"{number}. {_cause(cause)}" for number, cause in enumerate(causes, 1))
    yield ""
    remedies = [f"- remedy: {escaped(str(each))}" for each in causes[0].get("remedies") or []]
    yield from (*remedies, "") if remedies else ()


def _cause(cause: Mapping[str, Any]) -> str:
    return f"({escaped(str(cause.get('confidence', '')))}): {escaped(str(cause['sentence']))}"


def _row(run: ReportedRun, seen: Mapping[str, Any]) -> str:
    first = next(iter(run.findings(seen["anomaly"])), {})
    cells = (seen["anomaly"], f"{seen['found']:,}", mark_of(seen["mark"]), first.get("detail") or "")
    return "| " + " | ".join(escaped(str(cell)) for cell in cells) + " |"


def _figures(figures: Mapping[str, Any]) -> Iterator[str]:
    expected = int(figures.get("sent") or 0) - int(figures.get("aborted") or 0)
    if expected > 0:
        arrived = int(figures.get("distinct") or 0)
        yield f"{arrived:,} of {expected:,} messages arrived ({100 * arrived / expected:.1f} %)"
        yield ""


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    plain = _CONTROL.sub(" ", text)
    plain = plain if len(plain) <= LETTERS_AT_MOST else f"{plain[:LETTERS_AT_MOST]}…"
    return _SPECIAL.sub(lambda sign: f"&#{ord(sign[0])};{_APART if sign[0] in '@#' else ''}", plain)
