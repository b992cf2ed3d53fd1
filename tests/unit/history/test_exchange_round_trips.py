"""What an export gives an import takes: nothing is lost on the way, and the verdict is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.history.opening import open_run, read_facts, without_the_missing
from harness.history.recorder import Recorder
from harness.history.schema import SCHEMA_VERSION, F, Kind, Status, Type
from harness.history.sealing import seal
from harness.history.sources import segment_path
from harness.history.store import Run
from harness.judging.checking import CheckOptions, run_facts_of, setting_of
from harness.judging.verdict import decide
from tests.support.foreign_histories import SETTINGS, give, recorded, take
from tests.support.golden_histories import GOLDEN, SUFFIX, names
from tests.support.kernels import check_here

FORMS = ("jsonl", "parquet")


def judged(run: Run) -> dict[str, Any]:
    """The verdict of a run, checked in this process."""
    facts = read_facts(run)
    sealed = open_run(run)
    results = check_here(without_the_missing(sealed, facts), setting_of(run, facts, CheckOptions()))
    verdict = decide(results, run_facts_of(facts)).as_json()
    return {**verdict, "events": results.events, "failures": results.failures}


@pytest.mark.parametrize("name", names())
def test_golden_histories_go_round(name: str, tmp_path: Path) -> None:
    """In both formats: the same findings with the same marks, the same reasons; and lines come out as before."""
    first = take(GOLDEN / f"{name}{SUFFIX}", tmp_path / "store")
    wanted = judged(first.run)
    lines = give(first, tmp_path / "first.jsonl").file.read_bytes()
    for form in FORMS:
        again = take(give(first, tmp_path / f"h.{form}").file, tmp_path / "store")
        assert judged(again.run) == wanted
        assert give(again, tmp_path / f"again-{form}.jsonl").file.read_bytes() == lines


def with_everything(path: Path) -> Run:
    """A run of ours in which a replica was read, and a connection through a tap failed."""
    run = Run(path)
    path.mkdir(parents=True)
    with Recorder(segment_path(path, 2), 2, {"role": "replica", "node": 1}) as replica:
        replica.topic(0, "orders")
        place: dict[str, Any] = {"topic": 0, "partition": 0}
        replica.end(replica.begin(F.ASSIGN, **place, offset=0), Type.OK, **place, offset=0)
        read = replica.begin(F.REPLICA, **place)
        replica.write(Kind.RECORD, op=read.id, invoked=read.invoked, offset=0, value=7, status=Status.GOOD, **place)
        replica.end(read, Type.OK, **place, count=1, offset=1, end=1, error=0)
    with Recorder(segment_path(path, 3), 3, {"role": "tap"}) as tap:
        tap.write(Kind.EXCHANGE, invoked=1, connection=4, node=1, error=-1, detail="refused")
    seal(path)
    run.update(
        schema_version=SCHEMA_VERSION,
        kind="run",
        title="stream",
        state="finished",
        scenario={"workload": "stream", "settings": SETTINGS, "limits": {"stall_s": 9.5}},
        schedule=[],
    )
    return run


@pytest.mark.parametrize("form", FORMS)
def test_what_only_our_runs_hold_goes_round(form: str, tmp_path: Path) -> None:
    """Records of replicas, and exchanges that are no request's; a second time, too."""
    run = with_everything(tmp_path / "run")
    first = take(give(run, tmp_path / f"h.{form}").file, tmp_path / "store")
    again = take(give(first, tmp_path / f"again.{form}").file, tmp_path / "store")
    runs = enumerate((run, first.run, again.run))
    lines = [give(each, tmp_path / f"{number}.jsonl").file.read_text() for number, each in runs]
    assert lines[0] == lines[1] == lines[2]
    assert first.events == again.events


@pytest.mark.parametrize("form", FORMS)
def test_a_run_of_ours_is_judged_as_one(form: str, tmp_path: Path) -> None:
    """Its clients recorded everything, whoever checks it; its limits come along."""
    run = with_everything(tmp_path / "run")
    taken = take(give(run, tmp_path / f"h.{form}").file, tmp_path / "store")
    facts = [read_facts(each) for each in (run, taken.run)]
    assert [run_facts_of(each).imported for each in facts] == [False, False]
    assert [setting_of(taken.run, each, CheckOptions()).limits["stall_s"] for each in facts] == [9.5, 9.5]
    assert judged(run) == judged(taken.run)
    lines = take(give(recorded(tmp_path / "other"), tmp_path / "other.jsonl").file, tmp_path / "store")
    assert not run_facts_of(read_facts(lines.run)).imported
