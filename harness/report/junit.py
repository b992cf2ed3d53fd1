"""JUnit XML, for CI systems. Of checked runs: one test case for each.

    valid     passes
    invalid   `failure`: every cause that was found, the most harmful first, then what was seen
    unknown   `error`, with what was missing: a run that proves nothing must not look like one that passed, as a skipped
              one would; and nothing that was promised is known to be broken, as a failure would say

The verdict decides, as it decides the exit code; what the scenario expected is a property of the test case. Text from
brokers may hold anything: what XML cannot carry is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from harness.foundation.errors import from_os_error
from harness.judging.policies.marks import mark_of

FINDINGS_TOLD = 3  # of each anomaly
LETTERS_AT_MOST = 20_000  # of one text
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class ReportedRun:
    """A run as its results.json and its run.json tell it."""

    results: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scenario(self) -> str:
        """The name of its scenario."""
        return str(self.facts.get("title") or Path(str(self.results.get("run", ""))).parent.name or "run")

    @property
    def name(self) -> str:
        """The name of the run in its scenario."""
        return Path(str(self.results.get("run", ""))).name or "run"

    @property
    def verdict(self) -> str:
        """How it ended."""
        return str(self.results.get("verdict", "unknown"))

    @property
    def causes(self) -> list[Mapping[str, Any]]:
        """What the diagnosis says, the most harmful first."""
        diagnosis = self.results.get("diagnosis")
        return list(diagnosis.get("causes") or []) if isinstance(diagnosis, dict) else []

    @property
    def took_s(self) -> float | None:
        """How long its phases took, as far as they were noted."""
        phases = self.facts.get("phases")
        return sum(float(phase["took_s"]) for phase in phases) if phases else None

    @property
    def reasons(self) -> list[str]:
        """Why the verdict is what it is."""
        return [str(reason["sentence"]) for reason in self.results.get("reasons") or []]

    def findings(self, anomaly: str) -> list[Mapping[str, Any]]:
        """Those that were kept."""
        return list((self.results.get("anomalies") or {}).get(anomaly, {}).get("findings") or [])


@dataclass(frozen=True)
class JunitCase:
    """One case of a document, whatever it is about."""

    classname: str
    name: str
    took_s: float | None = None
    properties: Mapping[str, object] = field(default_factory=dict)
    problem: str = ""  # failure, error or skipped; nothing for one that passes
    kind: str = ""
    message: str = ""
    text: str = ""


def write_junit(file: Path, runs: Sequence[ReportedRun]) -> None:
    """Put the XML in place; directories are made."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(junit(runs))
    except OSError as error:
        raise from_os_error(error, "writing the JUnit file") from error


def junit(runs: Sequence[ReportedRun]) -> bytes:
    """The document about some runs."""
    return document("tidegauge", [_case(run) for run in runs])


def document(name: str, cases: Sequence[JunitCase]) -> bytes:
    """The document."""
    problems = [case.problem for case in cases]
    counts = {
        "tests": str(len(cases)),
        "failures": str(problems.count("failure")),
        "errors": str(problems.count("error")),
        "skipped": str(problems.count("skipped")),
    }
    top = Element("testsuites", {"name": "tidegauge", **counts})
    suite = SubElement(top, "testsuite", {"name": clean(name), **counts})
    suite.extend(map(_element, cases))
    indent(top)
    body: bytes = tostring(top, encoding="utf-8")
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + body + b"\n"


def _element(case: JunitCase) -> Element:
    attributes = {"classname": clean(case.classname), "name": clean(case.name)}
    if case.took_s is not None:
        attributes["time"] = f"{case.took_s:.2f}"
    element = Element("testcase", attributes)
    properties = SubElement(element, "properties")
    for name, value in case.properties.items():
        SubElement(properties, "property", {"name": name, "value": clean(str(value))})
    if case.problem:
        told = {"message": clean(case.message)} if case.message else {}
        kind = {"type": clean(case.kind)} if case.kind else {}
        SubElement(element, case.problem, kind | told).text = clean(case.text) or None
    return element


def _case(run: ReportedRun) -> JunitCase:
    properties = {name: run.results.get(name) for name in ("expected", "seed", "run", "tidegauge")}
    case = JunitCase(
        f"tidegauge.{run.scenario}",
        run.name,
        run.took_s,
        {name: value for name, value in properties.items() if value is not None},
    )
    if run.verdict == "valid":
        return case
    return replace(
        case,
        problem="failure" if run.verdict == "invalid" else "error",
        kind=run.verdict,
        message=_message(run),
        text="\n".join(_lines(run)),
    )


def _message(run: ReportedRun) -> str:
    if not run.causes:
        return "; ".join(run.reasons) or run.verdict
    others = len(run.causes) - 1
    more = f" (and {others} other cause{'s' if others > 1 else ''})" if others else ""
    return f"{run.causes[0]['sentence']}{more}"


def _lines(run: ReportedRun) -> Iterator[str]:
    yield run.verdict.upper()
    yield from (f"  {reason}" for reason in run.reasons)
    for cause in run.causes:
        yield f"cause: {cause['sentence']} ({cause.get('confidence', 'confidence unknown')})"
        yield from (f"  because {each}" for each in cause.get("because") or [])
        yield from (f"  remedy: {each}" for each in cause.get("remedies") or [])
    for seen in run.results.get("seen") or []:
        yield f"{seen['anomaly']} ×{seen['found']:,}: {mark_of(seen['mark'])}"
        for finding in run.findings(seen["anomaly"])[:FINDINGS_TOLD]:
            place = f"{finding['topic']}-{finding['partition']}" if finding.get("topic") is not None else "-"
            yield f"  {place} {finding.get('detail') or ''}".rstrip()
    if run.results.get("run"):
        yield f"run: {run.results['run']}"


def clean(text: str) -> str:
    """Only what XML can carry, and not without an end."""
    kept = _NOT_XML.sub("\ufffd", text)
    return kept if len(kept) <= LETTERS_AT_MOST else f"{kept[:LETTERS_AT_MOST]}… (cut)"
