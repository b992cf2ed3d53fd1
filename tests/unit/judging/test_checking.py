"""From run.json and results.json to what the policy judges by: the configuration, lost processes, older results."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.core.results import Anomaly, CheckResults, Finding
from harness.foundation.errors import CannotHere, UsageError
from harness.foundation.reasons import NOT_WHOLE, NOTED, RUN_FAILED, Reason
from harness.history import opening
from harness.history.recorder import Recorder
from harness.history.schema import F, Kind
from harness.history.sealing import open_history
from harness.history.sources import segment_path
from harness.history.store import Run
from harness.judging import checking
from harness.judging.checking import Checked, run_facts_of
from harness.judging.policies import PlannedFault
from harness.judging.verdict import decide

FACTS: dict[str, Any] = {
    "state": "finished",
    "schedule": [{"fault": "leader-kill"}],
    "scenario": {"settings": {"acks": "1", "client": "kafka-python", "probes": True}},
}


def test_the_policy_sees_the_configuration() -> None:
    """What run.json says is what is judged by."""
    facts = run_facts_of(FACTS)
    assert (facts.acks, facts.client, facts.probes, facts.interrupted) == ("1", "kafka-python", True, False)
    assert [fault.name for fault in facts.faults] == ["leader-kill"]
    assert facts.changes_leaders
    assert facts.failures == ()


@pytest.mark.parametrize("idempotent", [True, False])
def test_idempotence_is_what_the_client_was_told(idempotent: bool) -> None:  # noqa: FBT001
    """Whether the scenario said so or the client's default did."""
    assert run_facts_of({**FACTS, "idempotent": idempotent}).idempotence is idempotent


def test_a_process_that_left_nothing_is_missed(tmp_path: Path) -> None:
    """Whom run.json names as started has to be in the history; otherwise absence proves nothing."""
    Recorder(segment_path(tmp_path, 2), 2, {"role": "producer"}).close()
    sealed = open_history(tmp_path)
    assert opening.without_the_missing(sealed, {"processes": {"2": "producer"}}) == sealed
    lacking = opening.without_the_missing(sealed, {"processes": {"2": "producer", "3": "consumer"}})
    assert lacking.damage == ["process 3 (consumer) left no history"]
    assert lacking.has_holes
    assert lacking.damaged_processes == {3}


def killed(run: Path, process: int, content: bytes = b"") -> None:
    """A producer that recorded a send and died, with more bytes of some kind in its segment."""
    recorder = Recorder(segment_path(run, process), process, {"role": "producer"})
    recorder.begin(F.SEND, topic=0, partition=0)
    with segment_path(run, process).open("ab") as segment:
        segment.write(content)


def stored(run: Path, **facts: Any) -> Run:
    """A run in the store."""
    made = Run(run)
    made.update(**FACTS, **facts)
    return made


@pytest.mark.parametrize("torn", [b"", b"TGS1 and no more"])
def test_the_end_of_a_process_that_was_killed_on_purpose_is_not_missed(tmp_path: Path, torn: bytes) -> None:
    """Its open operations are `info`, nothing is damaged, and its segment is gone as the others are."""
    killed(tmp_path, 2, torn)
    sealed = opening.open_files(stored(tmp_path, killed_on_purpose=[2]))
    assert (sealed.damage, sealed.damaged_processes, sealed.has_holes) == ([], frozenset(), False)
    assert sealed.rows[Kind.COMPLETE] == 1
    assert not (tmp_path / "segments").exists()


@pytest.mark.parametrize("others", [[], [3], None, "2", [None]])
def test_the_end_of_any_other_process_is(tmp_path: Path, others: Any) -> None:
    """Whoever it was."""
    killed(tmp_path, 2)
    sealed = opening.open_files(stored(tmp_path, killed_on_purpose=others))
    assert sealed.damage == ["0002.segment ends without its last frame: its process was killed"]
    assert sealed.damaged_processes == {2}


def test_what_was_lost_before_the_end_stays_lost(tmp_path: Path) -> None:
    """No kill tears a segment in its middle."""
    killed(tmp_path, 2)
    path = segment_path(tmp_path, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:20] + b"?" + whole[21:])
    sealed = opening.open_files(stored(tmp_path, killed_on_purpose=[2]))
    assert sealed.damage
    assert sealed.has_holes


@pytest.mark.parametrize("content", [None, b"", b"TGS1"])
def test_a_process_that_was_killed_before_it_wrote_anything_is_not_missed(
    tmp_path: Path, content: bytes | None
) -> None:
    """On purpose, that is; otherwise absence proves nothing."""
    Recorder(segment_path(tmp_path, 3), 3, {"role": "consumer"}).close()
    if content is not None:
        segment_path(tmp_path, 2).write_bytes(content)
    started = {"2": "producer", "3": "consumer"}
    for purpose in ([2], []):
        run = stored(tmp_path, processes=started, killed_on_purpose=purpose)
        segments = {path: path.read_bytes() for path in (tmp_path / "segments").iterdir()}
        known = opening.without_the_missing(opening.open_files(run), run.facts)
        assert (known.has_holes, bool(known.damage)) == (not purpose, not purpose)
        shutil.rmtree(tmp_path / "history")
        (tmp_path / "segments").mkdir(exist_ok=True)
        for path, was in segments.items():
            path.write_bytes(was)


def test_the_verdict_knows_what_faults_may_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their classes; one that nobody knows may change leaders."""
    fault = SimpleNamespace(changes_leaders=False, blocks=True, deletes=True, unclean=False)
    monkeypatch.setattr(checking, "FAULTS", {"recreate-topic": fault})
    facts = run_facts_of({**FACTS, "schedule": [{"fault": "recreate-topic"}, {"fault": "gone"}]})
    assert facts.faults == (
        PlannedFault("recreate-topic", changes_leaders=False, blocks=True, deletes=True),
        PlannedFault("gone", changes_leaders=True),
    )


def test_what_run_json_lacks_is_no_crash() -> None:
    """Whatever somebody made of it."""
    odd: list[dict[str, Any]] = [{"scenario": None}, {"scenario": {"settings": None}}, {"schedule": None}]
    assert not any(run_facts_of(facts).known for facts in odd)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, "run.json"),
        ({"state": "running"}, "was killed"),
        ({"state": "failed", "error": "node 1 died"}, "node 1 died"),
    ],
)
def test_a_run_without_a_good_end_cannot_be_valid(facts: dict[str, Any], said: str) -> None:
    """It says what happened."""
    (failure,) = run_facts_of(facts).failures
    assert failure.code == RUN_FAILED
    assert said in failure.sentence


def test_troubles_keep_their_codes_and_those_of_older_runs_are_notes() -> None:
    """Whether one may be the broker's doing is told by its code, and not by its words."""
    said = "the cluster was not whole after 30 s"
    failures = run_facts_of({"state": "recorded", "troubles": [{"code": NOT_WHOLE, "sentence": said}, said]}).failures
    assert failures == (Reason(NOT_WHOLE, said), Reason(NOTED, said))
    assert [each.is_ours for each in failures] == [False, True]


def test_a_run_that_was_checked_is_judged_and_diagnosed_again_without_its_history(tmp_path: Path) -> None:
    """From results.json; one that never was is refused."""
    run = stored(tmp_path)
    with pytest.raises(UsageError, match="tidegauge check"):
        checking.checked_before(run)
    lost = Finding("lost-write", "t", 0, 5, (7,), (), (), 9, None, (), (), "acknowledged at offset 5")
    results = CheckResults(events=3, anomalies={"lost-write": Anomaly("lost-write", "", 4, 1, [lost])})
    first = Checked(run, run.facts, results, decide(results, run_facts_of({**FACTS, "schedule": []})))
    run.write_results({**first.as_json(), "diagnosis": "of an older version"})
    again = checking.checked_before(run)
    assert again.results == results
    assert again.diagnosis.cause is not None
    assert again.as_json()["diagnosis"]["causes"][0]["name"] == "acknowledged-then-lost"


@pytest.mark.parametrize("version", [None, 2, 4, "3"])
def test_results_of_another_version_are_not_read(tmp_path: Path, version: object) -> None:
    """Who wrote no version wrote sentences where there are codes now: the run has to be checked again."""
    run = stored(tmp_path)
    results = Checked(run, run.facts, CheckResults(), decide(CheckResults(), run_facts_of(FACTS))).as_json()
    del results["version"]
    run.write_results(results if version is None else {**results, "version": version})
    with pytest.raises(UsageError, match="another version") as raised:
        checking.checked_before(run)
    assert raised.value.remedy == f"check it again: tidegauge check {run.path}"


def test_results_that_cannot_be_kept_are_told_all_the_same(tmp_path: Path) -> None:
    """The verdict is there, and the error says that it is."""
    run = stored(tmp_path)
    (run.path / "results.json.new").symlink_to("/dev/full")
    checked = Checked(run, run.facts, CheckResults(), decide(CheckResults(), run_facts_of(FACTS)))
    error = checking._keep(checked)
    assert isinstance(error, CannotHere)
    assert "the run was checked (unknown), but its results could not be kept: the store is full" in str(error)
    assert run.results is None
