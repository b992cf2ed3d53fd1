"""What a comparison reads from stored runs, and how runs are named and grouped on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.foundation.errors import UsageError
from harness.judging.checking import RESULTS_VERSION
from harness.report.comparison.inputs import groups_of, sample_of
from harness.report.comparison.statistics import ArrivalCount


def results(**change: Any) -> dict[str, Any]:
    """A results.json as far as it is compared."""
    row = {"topic": "tg-1-batch", "partition": 0, "sent": 100, "distinct": 60, "low": True}
    mark = {"status": "illegal", "code": "", "why": ""}
    return {
        "version": RESULTS_VERSION,
        "verdict": "invalid",
        "figures": {
            "sent": 110, "aborted": 10, "distinct": 60, "produce_rate": 50.0, "consume_rate": None, "table": [row],
        },
        "seen": [{"anomaly": "lost-write", "found": 40, "mark": mark, "marks": [mark]}],
        "anomalies": {
            "lost-write": {"found": 40, "looked_at": 100, "not_applicable": "", "unchecked": ""},
            "stall": {"found": 0, "looked_at": 0, "not_applicable": "", "unchecked": ""},
            "duplicate": {"found": 0, "looked_at": 7, "not_applicable": "", "unchecked": "its check failed"},
        },
        "summaries": {
            "latency": [
                {"faults": [], "ok": 5, "p50_ms": 1.0, "p99_ms": 2.0},
                {"faults": [], "ok": 50, "p50_ms": 3.0, "p99_ms": 4.0},
                {"faults": ["kill"], "ok": 500, "p50_ms": 5.0, "p99_ms": 6.0},
            ]
        },
        **change,
    }  # fmt: skip


def store_of(path: Path, **runs: Any) -> Path:
    """A store with runs, by scenario/time."""
    for name, content in runs.items():
        run = path / name.replace("__", "/")
        run.mkdir(parents=True)
        (run / "run.json").write_text(json.dumps({"scenario": {"workload": "stream", "settings": {"acks": "1"}}}))
        if content is not None:
            (run / "results.json").write_text(json.dumps(content))
    return path


def test_a_run_is_what_its_results_say() -> None:
    """What was not aborted and arrived; of latencies those without faults; what nobody looked at is not absent."""
    sample = sample_of("x", results())
    assert sample.counted == ArrivalCount(60, 100)
    assert sample.values == {"throughput of sends": 50.0, "latency p50": 3.0, "latency p99": 4.0}
    assert sample.anomalies is not None
    assert (sample.anomalies["lost-write"].illegal, sample.anomalies["lost-write"].found) == (True, 40)
    assert not sample.anomalies["stall"].looked_at
    assert not sample.anomalies["duplicate"].looked_at
    assert [(each.name, each.counted, each.low) for each in sample.partitions] == [("0", ArrivalCount(60, 100), True)]
    assert sample.lag is None


def test_watermark_lag_is_what_the_diagnosis_measured() -> None:
    """Seen, none, or not measured: three different things."""
    for outcome, looked, found in (("seen", True, 1), ("none", True, 0), ("not measured", False, 0)):
        row = {"name": "watermark lag", "outcome": outcome, "sentence": "…"}
        sample = sample_of("x", results(diagnosis={"measured": [row]}))
        assert sample.anomalies is not None
        seen = sample.anomalies["watermark lag"]
        assert (seen.looked_at, seen.found) == (looked, found)
        assert (sample.lag is not None) == looked


def test_results_that_lack_everything_are_no_error() -> None:
    """Those of an empty history."""
    sample = sample_of("x", {})
    assert (sample.counted, sample.values, sample.anomalies) == (None, {}, {})


def test_numbers_are_runs(tmp_path: Path) -> None:
    """One, or several with commas, with a label or without."""
    one, several = groups_of(["4391/5000", "v2=3939/5000,3814/5000"], tmp_path)
    assert (one.label, one.counted) == ("4391/5000", [ArrivalCount(4391, 5000)])
    assert (several.label, several.counted) == ("v2", [ArrivalCount(3939, 5000), ArrivalCount(3814, 5000)])


def test_a_scenario_is_all_its_checked_runs(tmp_path: Path) -> None:
    """The link to the newest is no run of its own; one that was never checked is named."""
    store = store_of(tmp_path, a__1=results(), a__2=results(), a__3=None)
    (store / "a" / "latest").symlink_to("2")
    (group,) = groups_of(["a"], store)
    assert [run.name for run in group.runs] == ["a/1", "a/2"]
    assert group.left_out == ("a/3 was never checked",)
    (newest,) = groups_of(["a/latest"], store)
    assert [run.name for run in newest.runs] == ["a/2"]
    assert newest.runs[0].asked == {"workload": '"stream"', "acks": '"1"'}


def test_results_of_another_version_are_left_out(tmp_path: Path) -> None:
    """They say other things; what is left out is named, and alone it is an error that says what to do."""
    store = store_of(tmp_path, a__1=results(), a__2=results(version=RESULTS_VERSION - 1), b__1={"verdict": "valid"})
    (group,) = groups_of(["a"], store)
    assert [run.name for run in group.runs] == ["a/1"]
    assert group.left_out == ("a/2 was checked by another version of Tidegauge",)
    with pytest.raises(UsageError, match="another version") as raised:
        groups_of(["b"], store)
    assert "tidegauge check" in raised.value.remedy


def test_a_pattern_is_a_group(tmp_path: Path) -> None:
    """In the store, each run once."""
    store = store_of(tmp_path, a__1=results(), b__1=results(), c__1=results())
    (group,) = groups_of(["ab=[ab]/1"], store)
    assert (group.label, [run.name for run in group.runs]) == ("ab", ["a/1", "b/1"])


@pytest.mark.parametrize("named", ["nothing", "5001/5000", "1/0", "a", "x=nothing"])
def test_what_names_nothing_is_an_error(tmp_path: Path, named: str) -> None:
    """As is a run that was never checked, alone."""
    with pytest.raises(UsageError):
        groups_of([named], store_of(tmp_path, a__1=None))


def test_two_groups_need_two_names(tmp_path: Path) -> None:
    """Nobody could tell them apart."""
    with pytest.raises(UsageError, match="twice"):
        groups_of(["1/2", "1/2"], tmp_path)
