"""The matrix of detection: complete, its runs possible, its rows judged right, and its page readable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import detection
from bench.detection import chosen, newest
from bench.detection_combinations import COMBINED
from bench.detection_matrix import CLIENTS, MATRIX, STARVED, WORKLOADS, DetectionCase
from bench.detection_report import (
    DetectionRow,
    FoundAnomaly,
    combined_table,
    found_in,
    page,
    row_of,
    with_section,
)
from checkers.core.families import FAMILIES
from harness.foundation.errors import UsageError
from harness.history.places import HISTORY
from harness.history.store import Run, create
from harness.judging.diagnosis.rules import NAMES
from harness.runs.scenario import load, to_toml
from harness.tap.broken import BROKEN
from nemesis import FAULTS
from workloads import WORKLOADS as ALL_WORKLOADS

ANOMALIES = {name for family in FAMILIES for name in family.anomalies}
BUG = DetectionCase(
    "broken-x-ck", "confluent-kafka", "stream", {}, 12, broken="x", meant=("lost-write",), follows=("gap",)
)
SOUND = DetectionCase("clean-stream-ck", "confluent-kafka", "stream", {}, 12, nemesis="kill")
BY_RIGHT = {"status": "allowed", "code": "weak-acks", "why": "acks=1, and a fault changes leaders"}
WRONG = {"status": "illegal", "code": "", "why": ""}
ILLEGAL = {"mark": WRONG, "marks": [WRONG]}
ALLOWED = {"mark": BY_RIGHT, "marks": [BY_RIGHT]}


def stored(store: Path, case: DetectionCase, seen: dict[str, dict[str, Any]], verdict: str = "invalid") -> Run:
    """A run of a case in the store, checked, with anomalies."""
    run = create(store, case.name)
    (run.path / HISTORY).mkdir()
    run.update(cluster={"product": "kafka", "version": "4.3.1"})
    told = [{"anomaly": name, "found": 3, **mark} for name, mark in seen.items()]
    run.write_results(
        {"verdict": verdict, "events": 1234, "reasons": [{"code": "noted", "sentence": "too | little"}], "seen": told}
    )
    return run


def row(case: DetectionCase, tmp_path: Path, verdict: str = "invalid", **seen: dict[str, Any]) -> DetectionRow:
    """What came of a case; names of anomalies with _ for -."""
    return row_of(case, stored(tmp_path, case, {name.replace("_", "-"): mark for name, mark in seen.items()}, verdict))


def test_every_broken_broker_is_run_before_both_clients() -> None:
    """Whoever adds one adds it here."""
    assert {(case.broken.partition(":")[0], case.client) for case in MATRIX if case.broken} == {
        (name, client) for name in BROKEN for client in CLIENTS
    }


def test_correct_brokers_go_through_everything() -> None:
    """Every workload with both clients and no fault, and every fault with some workload."""
    sound = [case for case in MATRIX if not case.broken]
    assert {(case.workload, case.client) for case in sound if not case.nemesis} >= {
        (workload, client) for workload in ALL_WORKLOADS for client in CLIENTS
    }
    assert set(WORKLOADS) == set(ALL_WORKLOADS)
    assert {case.nemesis.partition(":")[0] for case in sound if case.nemesis} == set(FAULTS)


def test_a_busy_machine_goes_through_every_fault() -> None:
    """In thirty runs or more."""
    assert {fault.partition(":")[0] for case in STARVED for fault in case.nemesis.split(", ")} == set(FAULTS)
    assert len(STARVED) >= 30


def test_names_are_unique() -> None:
    """They are directories of the store."""
    cases = (*MATRIX, *STARVED, *COMBINED)
    assert len({case.name for case in cases}) == len(cases)


def test_each_bug_is_meant_for_something_that_is_looked_for() -> None:
    """No misspelt anomaly, neither among the meant nor among those that follow."""
    named = {name for case in MATRIX for name in (*case.meant, *case.follows)}
    assert named <= ANOMALIES
    assert all(case.meant for case in MATRIX if case.broken)


@pytest.mark.parametrize("case", [*MATRIX, *STARVED, *COMBINED], ids=lambda case: case.name)
def test_each_scenario_is_right(case: DetectionCase, tmp_path: Path) -> None:
    """The harness takes it as it is written."""
    file = tmp_path / "case.toml"
    file.write_text(to_toml(case.as_file()), encoding="utf-8")
    scenario = load(file, {})
    assert (scenario.name, scenario.time, scenario.workload) == (case.name, case.time_s, case.workload)
    assert scenario.settings.client == case.client
    assert scenario.tap.broken == tuple(filter(None, case.broken.split(", ")))
    assert len(scenario.nemesis) == len(list(filter(None, case.nemesis.split(", "))))


def test_pairs_and_triples_are_there_with_both_clients_and_causes_that_rules_have() -> None:
    """A dozen pairs and four triples, at least."""
    sizes = [len(case.broken.split(", ")) for case in COMBINED]
    assert (sizes.count(2), sizes.count(3)) >= (24, 8)
    assert {case.client for case in COMBINED} == set(CLIENTS)
    assert {name for case in COMBINED for each in case.causes for name in each.split("/")} <= NAMES


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ("a b c", ""),
        ("a c b", ""),  # b and c may come in either order
        ("b a c", "order"),
        ("a b", "missing: c"),
        ("a b c d", "invented: d"),
    ],
)
def test_causes_of_several_bugs_are_told_each_in_its_order(told: str, wrong: str) -> None:
    """And no other, of which the page says how sure it was."""
    case = DetectionCase("both", "confluent-kafka", "stream", {}, 9, broken="x, y, z", causes=("a", "b/c"))
    causes = tuple((name, "certain") for name in told.split())
    row = DetectionRow(case, Path("run"), "invalid", causes=causes)
    assert (row.wrong, row.fine) == (wrong, not wrong)
    text = "\n".join(combined_table([row]))
    assert "| `x`, `y`, `z` | confluent-kafka | stream | a, b/c |" in text
    assert f"of none of the bugs: {int('d' in told)}." in text


def test_a_hidden_cause_need_not_be_told_and_is_not_invented() -> None:
    """Another bug may keep a client from ever meeting it; the others have to be told as always."""
    case = DetectionCase("both", "kafka-python", "stream", {}, 9, broken="x, y", causes=("a", "b"), hidden=("a",))
    for told, wrong in (("b", ""), ("a b", ""), ("b a", "order"), ("a", "missing: b"), ("b c", "invented: c")):
        row = DetectionRow(case, Path("run"), "invalid", causes=tuple((name, "certain") for name in told.split()))
        assert (row.wrong, row.fine) == (wrong, not wrong)
        assert "| (a), b |" in "\n".join(combined_table([row]))


def test_a_section_replaces_its_own_and_leaves_the_others() -> None:
    """The runs of the rest of the page need not be in the store; a new section comes before the last."""
    text = "# Page\n\nHead.\n\n## One\n\n1\n\n## Two\n\n2\n\n## With\n\nkafka\n"
    assert with_section(text, ["", "## One", "", "new"]) == text.replace("\n1\n", "\nnew\n")
    assert with_section(text, ["", "## With", "", "new"]) == text.replace("\nkafka\n", "\nnew\n")
    assert with_section(text, ["", "## Three", "", "3"]) == text.replace("## With", "## Three\n\n3\n\n## With")
    assert with_section(text, []) == text


def test_a_bug_that_is_found(tmp_path: Path) -> None:
    """Whatever its mark; what follows from it is explained."""
    assert row(BUG, tmp_path, lost_write=ILLEGAL, gap=ILLEGAL).fine
    assert row(BUG, tmp_path, lost_write=ALLOWED).fine


def test_a_bug_that_is_missed(tmp_path: Path) -> None:
    """What follows does not do instead."""
    found = row(BUG, tmp_path, gap=ILLEGAL)
    assert found.missed
    assert not found.fine


def test_a_finding_that_nothing_explains(tmp_path: Path) -> None:
    """It fails the matrix, unless it is allowed anyway."""
    found = row(BUG, tmp_path, lost_write=ILLEGAL, torn=ILLEGAL)
    assert [each.anomaly for each in found.unexplained] == ["torn"]
    assert not found.fine
    assert row(BUG, tmp_path, lost_write=ILLEGAL, torn=ALLOWED).fine


def test_correct_brokers_may_show_what_is_allowed(tmp_path: Path) -> None:
    """And nothing illegal; an unknown verdict is no accusation."""
    assert row(SOUND, tmp_path, "unknown", duplicate=ALLOWED).fine
    assert not row(SOUND, tmp_path, lost_write=ILLEGAL).fine


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    """Neither a missing nor an unfinished one counts as gone well."""
    assert (newest(tmp_path, SOUND), row_of(SOUND, None).fine) == (None, False)
    create(tmp_path, SOUND.name).update(state="running")
    assert newest(tmp_path, SOUND) is None


def test_the_gravest_comes_first() -> None:
    """Illegal before allowed."""
    seen = [{"anomaly": "a", "found": 1, **ALLOWED}, {"anomaly": "b", "found": 2, **ILLEGAL}]
    assert found_in({"seen": seen}) == (FoundAnomaly("b", 2, "illegal"), FoundAnomaly("a", 1, "allowed"))


def test_the_page(tmp_path: Path) -> None:
    """A line for each run, counts and marks in it, cells that stay cells."""
    rows = [
        row(BUG, tmp_path, lost_write=ILLEGAL, torn=ILLEGAL),
        row(SOUND, tmp_path, "unknown", duplicate=ALLOWED),
        DetectionRow(BUG, None),
    ]
    text = page(rows)
    assert "| `x` | confluent-kafka | stream | lost-write | lost-write ×3, torn ×3 | torn ×3 |" in text
    assert "| `x` | confluent-kafka | stream | lost-write | **nothing** (not run) |  |" in text
    cells = "| stream | confluent-kafka | kill | 1,234 | unknown (too \\| little) | duplicate ×3 (allowed) |"
    assert cells in text
    assert "- 1 of 2 runs of broken brokers: the bug was found." in text
    assert "kafka 4.3.1, tidegauge" in text


def test_patterns(tmp_path: Path) -> None:
    """As a shell has them; one that matches nothing is an error."""
    assert {case.broken for case in chosen(MATRIX, ["broken-flips*"])} == {"flips-bits"}
    assert chosen(MATRIX, []) == list(MATRIX)
    with pytest.raises(UsageError):
        chosen(MATRIX, ["nothing"])


def test_what_is_stored_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the missing runs are recorded; the exit code says whether all is well."""
    asked: list[str] = []

    def recorded(case: DetectionCase, store: Path, _: Path) -> str:
        asked.append(case.name)
        stored(store, case, {"misrouted": ILLEGAL})
        return case.name

    monkeypatch.setattr(detection, "record", recorded)
    given = ["--store", str(tmp_path), "--only", "broken-misroutes-*", "--page", str(tmp_path / "page.md")]
    assert detection.main(given) == 0
    assert asked == ["broken-misroutes-ck", "broken-misroutes-kp"]
    assert detection.main(given) == 0
    assert len(asked) == 2
    assert detection.main([*given, "--fresh"]) == 0
    assert len(asked) == 4
    run = newest(tmp_path, chosen(MATRIX, ["broken-misroutes-ck"])[0])
    assert run is not None
    run.write_results(json.loads((run.path / "results.json").read_text()) | {"seen": []})
    assert detection.main(given) == 1
    assert "**nothing** (invalid)" in (tmp_path / "page.md").read_text()
