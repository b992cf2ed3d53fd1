"""Results as they are kept."""

import json

from checkers.core.results import Anomaly, CheckResults, Finding
from checkers.core.timeline import Fault
from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from checkers.summaries.figures import Figures, PartitionRow, Stall


def everything() -> CheckResults:
    """Results in which every part says something."""
    finding = Finding("stall", "t", 0, 5, (1, 2), (3,), (1,), 7, None, (9,), ("class 2",), "no record", {"shown": 8})
    fault = Fault(1, "leader-kill", 1, 2, healed_ns=3, topic="t", bit=True, detail="1 → 3", evidence="1 → 3")
    return CheckResults(
        events=10,
        anomalies={"stall": Anomaly("stall", "about", 5, 1, [finding], unchecked="no budget")},
        figures=Figures(
            sent=3,
            acknowledged=2,
            distinct=1,
            produce_s=2.0,
            table=[PartitionRow("t", 0, 3, 2, 0, 1, 1, 1, 1.0, 0, 4, None)],
            stalls=[Stall(4, 0, 7, at_end=True)],
            transactions={"committed": 2},
        ),
        coverage=Coverage(
            {"send": {"ok": 2}},
            6,
            2,
            [{"api": 1, "node": 1, "asked": 2, "answered": 1}],
            [FaultCoverage(fault, Span(1, 1), None, Span(0, 0, short=True), Span(1, 0))],
            errors=[{"f": "send", "error": 7, "name": "x", "type": "info", "count": 1, "classified": False}],
        ),
        failures=["a"],
        damaged_processes=frozenset({3, 4}),
        has_holes=True,
        first_ns=5,
        summaries={"latency": [{"p50_ms": 1.0}]},
    )


def test_results_come_back_as_they_were_kept() -> None:
    """Through JSON, to the same objects."""
    kept = everything()
    back = CheckResults.from_json(json.loads(json.dumps(kept.as_json())))
    assert back == kept
    assert back.as_json() == kept.as_json()


def test_what_a_report_draws_is_kept_elsewhere() -> None:
    """Beside the run, in series.json."""
    kept = everything()
    kept.drawn = {"version": 1}
    assert "drawn" not in kept.as_json()
    assert kept.as_json() == everything().as_json()


def test_results_of_another_version_can_be_read() -> None:
    """What they lack is as if nobody had looked, and what nobody knows is left."""
    assert CheckResults.from_json({}) == CheckResults()
    odd = {"events": 3, "new": 1, "figures": {"sent": 2, "new": 1}, "anomalies": {"x": {"name": "x", "about": ""}}}
    back = CheckResults.from_json(odd)
    assert (back.events, back.figures.sent, back.anomalies["x"].looked_at) == (3, 2, 0)
