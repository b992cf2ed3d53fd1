"""Recorded runs, both clients: the right cause on top for every broken broker, and none for correct ones.

tests/golden/diagnosis holds what their results.json say, cut down: of each anomaly how much was looked at and found,
and its first findings. Which broker was broken how is in the name of the file alone.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.detection_combinations import PAIRS, TRIPLES, Combination
from checkers.core.results import CheckResults
from harness.history.store import Run
from harness.judging.checking import RESULTS_VERSION, Checked, run_facts_of
from harness.judging.diagnosis import Diagnosis, diagnose
from harness.judging.verdict import Verdict, decide
from harness.report.terminal import run as show_run

FILES = sorted((Path(__file__).parents[2] / "golden" / "diagnosis").glob("*.json"))
BROKEN = [path for path in FILES if path.stem.startswith("broken-")]
CLEAN = [path for path in FILES if path.stem.startswith("clean-")]
CAUSES = {  # by the broken broker, whatever the variant
    "acks-then-forgets": "acknowledged-then-lost",
    "acks-without-offset": "acknowledged-without-offset",
    "answers-as-leader": "answers-as-leader",
    "appends-retries-twice": "resend-not-recognised",
    "coordinator-lies": "coordinator-differs",
    "end-offset-goes-back": "end-offset-goes-back",
    "fetch-hangs": "fetch-hangs",
    "flips-bits": "corrupted",
    "forgets-group-offsets": "offsets-forgotten",
    "leaks-aborted": "aborted-shown",
    "metadata-lists-self-only": "clients-cannot-find-leaders",
    "misroutes": "misrouted",
    "not-leader-forever": "leader-refuses",
    "reorders": "appended-out-of-order",
    "reuses-offsets": "offsets-assigned-twice",
    "serves-stale-reads": "stale-reads",
    "skips-records": "skipped-by-readers",
    "slow-partition": "partition-behind",
    "splits-brain": "split-brain",
    "tears-transactions": "torn-transactions",
    "watermark-frozen": "watermark-frozen",
    "watermark-is-next-offset": "shown-before-replicated",
    "watermark-overwritten-by-retry": "watermark-not-idempotent",
}
LEADERS_OF_TWO_RUNS = frozenset({"answers-as-leader", "not-leader-forever"})  # nodes are others in each
REFUSED = frozenset({"broken-coordinator-lies-eo-ck"})  # only ever one node was asked who the coordinator is


def load(path: Path) -> tuple[CheckResults, Verdict, dict[str, Any]]:
    """A recorded run."""
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["results"]["version"] == RESULTS_VERSION
    anomalies = {name: {"name": name, "about": "", **each} for name, each in data["results"]["anomalies"].items()}
    results = CheckResults.from_json({**data["results"], "anomalies": anomalies})
    return results, decide(results, run_facts_of(data["facts"])), data["facts"]


def diagnosed(path: Path) -> Diagnosis:
    """Its diagnosis."""
    return diagnose(*load(path))


def expected(path: Path) -> str:
    """The cause, by the name of the file."""
    if path.stem in REFUSED:
        return "coordinator-refuses"
    return next(cause for broken, cause in CAUSES.items() if path.stem.startswith(f"broken-{broken}-"))


def test_every_broken_broker_is_there_with_both_clients() -> None:
    """And correct ones."""
    for broken in CAUSES:
        clients = {path.stem[-2:] for path in BROKEN if path.stem.startswith(f"broken-{broken}-")}
        assert clients == {"ck", "kp"}, broken
    assert CLEAN


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_the_right_cause_is_on_top_and_no_other_is_told(path: Path) -> None:
    """Consequences are no causes, and nothing is left over."""
    found = diagnosed(path)
    assert [cause.name for cause in found.causes] == [expected(path)]
    assert found.unexplained == ()
    assert all(cause.because and cause.remedies for cause in found.causes)


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.stem)
def test_correct_brokers_have_no_cause_and_no_watermark_lag(path: Path) -> None:
    """It was measured."""
    found = diagnosed(path)
    assert (found.causes, found.unexplained, found.excluded) == ((), (), ())
    lag = next(each for each in found.measured if each.name == "watermark lag")
    assert lag.outcome in {"none", "allowed"}
    assert str(lag).startswith("watermark lag: measured, ")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_diagnosis_does_not_know_what_the_run_was_for(path: Path) -> None:
    """Neither by its name, nor by what bent its traffic, nor by what was expected of it."""
    results, verdict, facts = load(path)
    told = {
        **facts,
        "title": "broken-flips-bits",
        "scenario": {**facts["scenario"], "name": "x", "expect": "valid", "tap": {"broken": ["flips-bits"]}},
        "tap": {**facts["tap"], "bent": 7},
    }
    assert diagnose(results, verdict, told) == diagnose(results, verdict, facts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_screen_has_room_for_it(path: Path) -> None:
    """18 lines at 80 columns, 12 if it is valid, the report's included; with cause, remedy and what is excluded."""
    results, verdict, facts = load(path)
    checked = Checked(Run(Path("store/stream/2026-11-19T17-50-00")), facts, results, verdict)
    console = Console(width=80)
    with console.capture() as captured:
        show_run.verdicts(console, [checked], as_json=False)
    lines = captured.get().splitlines()
    most = show_run.VALID_LINES if verdict.outcome == "valid" else show_run.OTHER_LINES
    assert len(lines) < most
    assert max(map(len, lines)) <= 80
    titles = [line.split()[0] for line in lines if line.strip()]
    assert {verdict.outcome.upper(), "checked"} <= set(titles)
    if path in CLEAN:
        assert not {"cause", "fix", "found", "excluded"} & set(titles)
    else:
        assert {"cause", "fix", "repeat"} <= set(titles)
        assert verdict.outcome == "valid" or "excluded" in titles


def cause_of(name: str) -> tuple[Diagnosis, str]:
    """The diagnosis of a recorded run, and the sentence on top."""
    (path,) = [path for path in BROKEN if path.stem == name]
    found = diagnosed(path)
    assert found.cause is not None
    return found, found.cause.sentence


@pytest.mark.parametrize("client", ["ck", "kp"])
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("watermark-is-next-offset", "data is shown before it is replicated"),
        ("watermark-overwritten-by-retry", "the watermark update is not idempotent under retries"),
        ("metadata-lists-self-only", "clients cannot find leaders: nodes 1, 2 and 3 each list 1 of 3 brokers"),
        ("watermark-frozen-300", "the produce path, not replication"),
        ("fetch-hangs", "data available, fetch does not answer"),
        ("slow-partition", "partition 2 is behind"),
    ],
)
def test_the_conclusions_of_the_notes_are_reached(broken: str, said: str, client: str) -> None:
    """In their words."""
    assert said in cause_of(f"broken-{broken}-{client}")[1]


@pytest.mark.parametrize("client", ["ck", "kp"])
def test_what_is_not_the_cause_is_said(client: str) -> None:
    """Of the clients that were sent in circles: what the authors of the notes looked for first."""
    found, _ = cause_of(f"broken-metadata-lists-self-only-{client}")
    assert [each.name for each in found.excluded][:3] == ["watermark lag", "time-outs", "partition imbalance"]
    assert found.cause is not None
    assert len(found.cause.remedies) == 3
    assert "bootstrap" in found.cause.remedies[2]


def test_a_perfect_count_does_not_outrank_acknowledgements() -> None:
    """All messages arrived, and offsets were acknowledged twice."""
    found, sentence = cause_of("broken-reuses-offsets-ck")
    assert sentence.startswith("offsets are assigned twice: 284 offsets")
    assert found.cause is not None
    assert any("the count of messages hides it" in each for each in found.cause.because)


def together(broken: tuple[str, ...], client: str) -> Diagnosis:
    """The diagnosis of a run that has the findings of several recorded ones."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in (_of(name, client) for name in broken)]
    anomalies: dict[str, dict[str, Any]] = {}
    for name, each in ((name, each) for run in runs for name, each in run["results"]["anomalies"].items()):
        both = anomalies.setdefault(name, {"name": name, "about": "", "looked_at": 0, "found": 0, "findings": []})
        both["looked_at"] = max(both["looked_at"], each.get("looked_at", 0))
        both["found"] += each.get("found", 0)
        both["findings"] += each.get("findings", [])
    facts = runs[0]["facts"]
    results = CheckResults.from_json({**runs[0]["results"], "anomalies": anomalies})
    return diagnose(results, decide(results, run_facts_of(facts)), facts)


def _of(broken: str, client: str) -> Path:
    name = f"broken-{broken.replace(':', '-')}-{client}"
    return next(path for path in FILES if path.stem == name)


@pytest.mark.parametrize("client", ["ck", "kp"])
@pytest.mark.parametrize(
    "combination",
    [each for each in (*PAIRS, *TRIPLES) if not set(each.broken) >= LEADERS_OF_TWO_RUNS],
    ids=lambda each: "+".join(each.broken),
)
def test_every_cause_is_told_the_most_harmful_first(combination: Combination, client: str) -> None:
    """Of findings that lie in the same partitions; no other is."""
    found = together(combination.broken, client)
    assert tuple(cause.name for cause in found.causes) == combination.causes
    assert found.unexplained == ()
