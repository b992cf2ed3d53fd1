"""The timeline of a run: what it shows, on one axis."""

from __future__ import annotations

from typing import Any

from harness.report.names import Names
from harness.report.operations import RunClock
from harness.report.page import render
from harness.report.run_timeline import run_timeline
from harness.report.story import StoryWriter
from harness.report.tracks import Panel, Track, run_axis
from tests.support.hostile_run import FIRST_NS, ILLEGAL, S, facts, results, series


def timeline(told: dict[str, Any], drawn: dict[str, Any]) -> Panel:
    """Of these results and series."""
    writer = StoryWriter(told, drawn, RunClock(FIRST_NS), Names.of(facts(), told, drawn))
    panel, _ = run_timeline(writer, writer.seen())
    assert panel is not None
    return panel


def track(panel: Panel, title: str) -> Track:
    """One of its tracks."""
    return next(each for each in panel.tracks if each.title == title)


def test_load_faults_leaders_and_findings_share_one_axis() -> None:
    """In this order."""
    panel = timeline(results(), series())
    assert [each.title for each in panel.tracks] == ["Messages per second", "Phases and faults", "Leaders", "Findings"]
    assert panel.axis == run_axis(series())


def test_a_finding_is_at_its_time_and_leads_to_its_evidence() -> None:
    """In the row of its anomaly."""
    findings = track(timeline(results(), series()), "Findings")
    assert [text for _, text, _ in findings.labels] == ["realtime-order"]
    (span,) = findings.spans
    assert (span.low, span.high, span.link) == (3_000, 4_000, "#realtime-order-0")


def test_what_is_allowed_has_one_row() -> None:
    """However many anomalies it is."""
    told = results()
    kept = told["anomalies"]["realtime-order"]["findings"]
    allowed = {"status": "allowed", "code": "", "why": ""}
    for name in ("duplicate", "lost-tail"):
        told["anomalies"][name]["findings"] = kept
        told["seen"].append({"anomaly": name, "found": 1, "mark": allowed, "marks": [allowed]})
    findings = track(timeline(told, series()), "Findings")
    assert [text for _, text, _ in findings.labels] == ["realtime-order", "allowed"]
    assert [span.css for span in findings.spans] == ["finding", "finding allowed", "finding allowed"]


def test_many_anomalies_have_few_rows() -> None:
    """The gravest their own, the others one."""
    told = results()
    kept = told["anomalies"]["realtime-order"]["findings"]
    for name in list(told["anomalies"])[:20]:
        told["anomalies"][name]["findings"] = kept
        told["seen"].append({"anomaly": name, "found": 1, "mark": ILLEGAL, "marks": [ILLEGAL]})
    labels = [text for _, text, _ in track(timeline(told, series()), "Findings").labels]
    assert (len(labels), labels[-1]) == (9, "other findings")


def test_faults_at_one_time_do_not_cover_each_other() -> None:
    """They are in rows below the phases; one that was never injected is not drawn."""
    drawn = series()
    (fault,) = drawn["faults"]
    drawn["faults"] = [fault, {**fault, "from": 3 * S}, {**fault, "from": 6 * S, "to": 7 * S}, {**fault, "from": None}]
    drawn["phases"] = [["set up", 0], ["load", S], ["final", 10 * S]]
    spans = track(timeline(results(), drawn), "Phases and faults").spans
    assert [span.text for span in spans[:2]] == ["load", "final read"]
    assert [span.y for span in spans[2:]] == [20, 38, 20]


def test_a_finding_of_one_moment_can_be_seen() -> None:
    """A box without a width is not drawn at all."""
    told = results()
    told["anomalies"]["realtime-order"]["findings"][0]["until_ns"] = None
    page = render(facts(), told, series(), "store/stream/latest")
    assert 'width="0"' not in page


def test_without_series_there_is_no_timeline() -> None:
    """Nothing is made up."""
    writer = StoryWriter(results(), None, RunClock(0))
    assert run_timeline(writer, writer.seen()) == (None, 0)
