"""What a check as a whole gives: limits, failures, figures, coverage, and what of a history with next to nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.core.check import CheckSettings
from checkers.watermarks.family import Watermarks
from harness.history.schema import F, Kind, Type
from harness.judging.policies import RunFacts
from harness.judging.verdict import decide
from tests.support.histories import ROLES, Rows, write
from tests.support.kernels import check_here

FEW = CheckSettings(only=("lost-write", "phantom"))  # where it is not about what is found


def _one_event(rows: Rows) -> None:
    write(rows, 0, "p1 send a ─ ok @0")


def _only_faults(rows: Rows) -> None:
    for stage in (1, 2, 3):
        rows.add(Kind.FAULT, "x1", fault=1, stage=stage, name="leader-kill", detail="1 → 2", time=stage * 10**9)


def _only_failures(rows: Rows) -> None:
    write(
        rows,
        0,
        "p1 send a ─ fail @\np1 send b ─ info @\nc1 poll ─ info\nr1 final ─ info @0 of 0\nn1 fetch ─ @0 error 6",
    )


def test_watermarks_need_no_probes(tmp_path: Path) -> None:
    """What passed a tap is enough, and its clean part has no findings."""
    rows = Rows()
    write(rows, 0, "t1 fetch ─ @7\nt1 fetch ─ @6\nt1 list ─ @3\nt1 list ─ @3")
    write(rows, 1, "t1 fetch ─ @6\nt1 fetch ─ @7\nt2 fetch ─ @6\nt1 list ─ @6\nt1 list ─ @7")
    found = check_here(rows.store(tmp_path), CheckSettings(only=("watermarks",))).anomalies
    assert [(each.topic, each.offset, each.tags) for each in found["watermark-regression"].findings] == [
        ("t0", 6, ("epoch unknown", "same node"))
    ]
    assert found["end-offset-regression"].found == 0


def test_watermarks_of_a_fetch_with_many_batches_are_one_answer(tmp_path: Path) -> None:
    """It has a row for each batch; and a topic that has no number is not compared with another one."""
    rows = Rows()
    for topic in (0, None):
        for number, (mark, batches) in enumerate([(7, 2), (6, 5)]):
            for _ in range(batches):
                rows.add(
                    Kind.EXCHANGE, "t1", op=number, type=1, api=1, api_version=12, error=0, node=1, topic=topic,
                    partition=0, high_watermark=mark, invoked=10 * number, time=10 * number + 5,
                )  # fmt: skip
    rows.topics[0] = "t0"
    found = (
        check_here(rows.store(tmp_path), CheckSettings(only=("watermarks",))).anomalies["watermark-regression"].findings
    )
    assert [(each.topic, each.facts["answers"]) for each in found] == [("t0", 1)]


def test_more_than_the_limit_is_counted_and_the_first_are_kept(tmp_path: Path) -> None:
    """And of findings that differ in weight, the worst."""
    rows = Rows()
    sends = [f"p1 send {chr(97 + n)} ─ ok @{n}" for n in range(20)]
    falls = [f"n1 fetch ─ {n}@{10 * n}\nn1 fetch ─ {n}@0" for n in range(1, 9)]
    write(rows, 0, "\n".join([*sends, "p1 send z ─ ok @20", "c1 poll ─ @20:z", *falls]))
    results = check_here(rows.store(tmp_path), CheckSettings(only=("lost-write", "watermark-regression")), limit=4)
    lost, fallen = results.anomalies["lost-write"], results.anomalies["watermark-regression"]
    assert (lost.found, [finding.offset for finding in lost.findings]) == (20, [0, 1, 2, 3])
    assert fallen.found == 8
    assert {finding.partition for finding in fallen.findings} == {8, 7, 6, 5}


def test_nothing_is_acknowledged_with_acks_0(tmp_path: Path) -> None:
    """Rules about acknowledgements do not apply, and the others do."""
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok 0@-1\np1 send b ─ ok 0@-1\nc1 poll ─ @0:b @0:x\nr1 final ─ ok @1")
    results = check_here(rows.store(tmp_path), CheckSettings(acks="0"))
    assert {anomaly.name for anomaly in results.found} == {"phantom", "inconsistent-offset", "int-nonmonotonic-poll"}
    assert results.anomalies["lost-write"].not_applicable


def test_an_empty_history_is_looked_at_by_nobody(tmp_path: Path) -> None:
    """It has no findings and no evidence."""
    results = check_here(Rows().store(tmp_path))
    assert (results.events, results.looked_for, results.found) == (0, [], [])


@pytest.mark.parametrize("made_of", [_one_event, _only_faults, _only_failures])
def test_a_history_that_covers_nothing_is_unknown(tmp_path: Path, made_of: Callable[[Rows], None]) -> None:
    """No check fails on it, nobody is accused, and it is not valid."""
    rows = Rows()
    made_of(rows)
    results = check_here(rows.store(tmp_path))
    verdict = decide(results, RunFacts())
    assert (results.failures, verdict.outcome) == ([], "unknown")
    assert verdict.reasons


def test_absurd_offsets_and_times_break_nothing(tmp_path: Path) -> None:
    """Numbers at both ends of their range are compared, never added."""
    rows = Rows()
    huge = 2**63 - 1
    common = {"topic": 0, "partition": 0}
    for value, (offset, time) in enumerate([(huge, huge), (0, -huge)]):
        rows.add(
            Kind.COMPLETE, "p1", f=1, type=1, op=value, value=value, offset=offset, time=time, invoked=time, **common
        )
        rows.add(Kind.RECORD, "c1", status=0, value=value, offset=offset, time=time, invoked=time, **common)
        rows.add(Kind.COMPLETE, "c1", f=2, type=1, count=1, time=time, invoked=time)
        rows.add(Kind.PROBE, "n1", api=1, error=0, node=1, high_watermark=-offset, time=time, invoked=time, **common)
        rows.add(Kind.PROBE, "n1", api=3, error=0, node=1, leader_epoch=value, time=time, invoked=time, **common)
    results = check_here(rows.store(tmp_path))
    assert not results.failures
    assert {anomaly.name for anomaly in results.found} == {"watermark-regression", "nonmonotonic-poll"}


def test_a_check_that_fails_is_named_and_the_others_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One broken family takes nothing with it."""
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok @0\np1 send b ─ ok @1\nc1 poll ─ @1:b\nn1 fetch ─ @2")

    def broken(*_: object) -> None:
        raise RuntimeError("no such column")

    monkeypatch.setattr(Watermarks, "survey", broken)
    results = check_here(rows.store(tmp_path))
    assert results.failures == ["the check of watermarks failed (no such column)"]
    assert results.anomalies["watermark-regression"].unchecked
    assert {anomaly.name for anomaly in results.found} == {"lost-write", "stall"}


def test_a_check_that_takes_too_long_is_named_and_the_others_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped where it is."""
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok @0\np1 send b ─ ok @1\nc1 poll ─ @1:b\nn1 fetch ─ @2")

    def endless(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(Watermarks, "survey", endless)
    results = check_here(rows.store(tmp_path), CheckSettings(budget_s=1.0))
    assert results.failures == ["the check of watermarks failed (it took longer than its budget of 1 s)"]
    assert {anomaly.name for anomaly in results.found} == {"lost-write", "stall"}


def test_figures_and_coverage_come_with_the_same_job(tmp_path: Path) -> None:
    """The table, the rates, a stall, what happened around a fault, and how the final reads ended."""
    rows = Rows()
    text = """p1 send a ─ ok 0@0 [10..11]
        p1 send b ─ ok 1@0 [21..22]
        p1 send c ─ fail 1@ [22..23]
        p1 send d ─ ok 1@1 [41..42]
        c1 poll ─ 0@0:a [11..12]
        c1 poll ─ nothing [13..14]
        c1 poll ─ 1@0:b 1@1:d [42..43]
        c1 poll ─ nothing [43..58]
        r1 final ─ ok 0@1 [60..61]
        r1 final ─ info 1@1 of 2 [60..61]
        n1 fetch ─ @1 [11..12]
        n1 fetch ─ @1 error 6 [11..12]"""
    write(rows, 0, text)
    for name, second in (("load", 10), ("heal", 50)):
        rows.add(Kind.PHASE, "x1", name=name, time=second * 10**9)
    for stage, second in ((1, 20), (2, 25), (3, 40)):
        rows.add(Kind.FAULT, "x1", fault=1, stage=stage, name="leader-kill", detail="1 → 2", time=second * 10**9)
    results = check_here(rows.store(tmp_path))
    figures, covered = results.figures, results.coverage
    assert not results.failures
    assert [(row.sent, row.acknowledged, row.failed, row.distinct) for row in figures.table] == [
        (1, 1, 0, 1),
        (3, 2, 1, 2),
    ]
    assert (figures.produce_s, figures.consume_s) == (32.0, 32.0)
    assert [(stall.began_ns, stall.lasted_ns) for stall in figures.stalls] == [(12 * 10**9, 31 * 10**9)]
    (fault,) = covered.faults
    spans = [fault.before, fault.during, fault.after]
    assert [span and (span.sends, span.reads) for span in spans] == [(1, 1), (1, 0), (1, 2)]
    assert fault.fault.bit
    assert covered.operations["send"] == {"ok": 3, "fail": 1}
    assert covered.probes == [{"api": 1, "node": 1, "asked": 2, "answered": 1}]
    assert covered.finals_complete == 1
    assert covered.finals_incomplete == [{"topic": "t0", "partition": 1, "final_offset": 1, "final_end": 2}]


def test_a_consumer_that_was_killed_did_not_wait(tmp_path: Path) -> None:
    """Sealing ends its open poll with the history, and it was there for no time of that."""
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok 0@0 [10..11]\np1 send b ─ ok 0@1 [21..22]\nc1 poll ─ 0@0:a [11..12]")
    rows.add(Kind.COMPLETE, "c1", f=F.POLL, type=Type.INFO, invoked=12 * 10**9, time=60 * 10**9)
    results = check_here(rows.store(tmp_path), FEW)
    assert (results.failures, results.figures.stalls) == ([], [])
    assert results.coverage.operations["poll"] == {"ok": 1, "info": 1}


def test_a_duplicate_says_what_its_producer_was(tmp_path: Path) -> None:
    """As the manifest knows it; where it does not, nothing is said."""
    rows = Rows()
    for topic, send in enumerate(
        ["p1 send a ─ ok @0", "i1 send a ─ ok @0", "j1 send a ─ info", "j1 send a ─ ok @0 txn"]
    ):
        write(rows, topic, f"{send}\nc1 poll ─ @0:a @1:a")
    duplicates = check_here(rows.store(tmp_path), CheckSettings(only=("duplicate",))).anomalies["duplicate"].findings
    assert {finding.topic: finding.tags for finding in duplicates} == {
        "t0": (),
        "t1": ("idempotent",),
        "t2": ("plain",),
        "t3": ("transactional",),
    }


def test_a_duplicate_of_a_producer_that_numbers_anew_is_known_as_such(tmp_path: Path) -> None:
    """As the taps saw it, by the epochs under one client id; another client with one epoch is not meant."""
    rows = Rows()
    write(rows, 0, "i1 send a ─ ok @0\nc1 poll ─ @0:a @1:a")
    write(rows, 1, "i2 send a ─ ok @0\nc1 poll ─ @0:a @1:a")
    for who, epoch in ((1, 0), (1, 1), (2, 0), (2, 0)):
        rows.add(
            Kind.EXCHANGE, "t1", api=0, client=f"tidegauge-producer-{ROLES['i'][1] + who}", producer_id=7,
            producer_epoch=epoch, type=Type.OK, time=1, invoked=0,
        )  # fmt: skip
    results = check_here(rows.store(tmp_path), CheckSettings(only=("duplicate",)))
    assert not results.failures
    assert {finding.topic: finding.tags for finding in results.anomalies["duplicate"].findings} == {
        "t0": ("idempotent", "numbered anew"),
        "t1": ("idempotent",),
    }


def test_a_compacted_topic_need_not_keep_everything(tmp_path: Path) -> None:
    """Nothing but that is excused, in no other topic; and gaps say nothing there, as with transactions."""
    rows = Rows()
    text = "p1 send a ─ ok @0\np1 send b ─ ok @2\nc1 poll ─ @1:x @3:b\nr1 poll ─ @3:b\nr1 final ─ ok @4"
    write(rows, 0, text)
    write(rows, 1, text)
    write(rows, 2, "p1 send a ─ ok @0 txn\np1 send b ─ ok @2 txn\nc1 poll ─ @0:a @2:b\nr1 final ─ ok @4")
    results = check_here(rows.store(tmp_path), CheckSettings(compacted=["t0", "another"]))
    assert not results.failures
    lost = [finding.topic for finding in results.anomalies["lost-write"].findings]
    assert lost == ["t1"]
    assert [finding.topic for finding in results.anomalies["phantom"].findings] == ["t0", "t1"]
    assert [row.gaps for row in results.figures.table] == [None, 1, None]


def test_of_a_foreign_history_nobody_is_blamed(tmp_path: Path) -> None:
    """The upper bits of its values say nothing."""
    rows = Rows()
    write(rows, 0, "c1 poll ─ @0:x")
    (phantom,) = check_here(rows.store(tmp_path), replace(FEW, foreign=True)).anomalies["phantom"].findings
    assert (phantom.facts, phantom.processes) == ({}, (101,))


@pytest.mark.parametrize(("setting", "incomplete"), [(FEW, ["t1-0"]), (replace(FEW, foreign=True), [])])
def test_transactions_ask_for_a_raw_read(tmp_path: Path, setting: CheckSettings, incomplete: list[str]) -> None:
    """Of our own runs: one that never took place is missed, others need not have made any."""
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok @0\nc1 poll ─ @0:a\nr1 final ─ ok @1")
    write(rows, 1, "p1 send a ─ ok @0 txn\nc1 poll ─ @0:a\nr1 final ─ ok @1")
    write(rows, 2, "p1 send a ─ ok @0 txn\nc1 poll ─ @0:a\nr1 final ─ ok @1\nw1 raw ─ ok @1")
    covered = check_here(rows.store(tmp_path), setting).coverage
    assert (covered.raws_incomplete, covered.raws_incomplete_count) == (incomplete, len(incomplete))


def test_what_was_done_is_counted(tmp_path: Path) -> None:
    """Transactions, groups, topics, resends, errors, and raw reads that did not get to the end."""
    rows = Rows()
    write(
        rows,
        0,
        "p1 send a ─ ok 0@0 txn\np1 send b ─ fail 1@0 txn\nc1 poll ─ @0:a\nw1 raw ─ info 0@1 of 2\nw1 raw ─ ok 1@2",
    )
    at = {"topic": 0, "partition": 0, "invoked": 1, "time": 2_000_000_001}
    for type_ in (Type.OK, Type.OK, Type.FAIL, Type.INFO):
        rows.add(Kind.COMPLETE, "p1", f=F.TXN, type=type_, **at)
    for member, invoked in ((7, 1), (7, 1), (7, 2), (8, 2), (None, 3)):
        rows.add(Kind.COMPLETE, "c1", f=F.ASSIGN, type=Type.OK, member=member, **(at | {"invoked": invoked}))
    rows.add(Kind.COMPLETE, "c1", f=F.ASSIGN, type=Type.OK, member=8, offset=4, **(at | {"invoked": 4}))  # goes back
    rows.add(Kind.COMPLETE, "c1", f=F.COMMIT, type=Type.OK, **at)
    rows.add(Kind.COMPLETE, "p1", f=F.SEND, type=Type.OK, value=5, offset=5, source=3, **at)
    rows.add(Kind.COMPLETE, "p1", f=F.SEND, type=Type.INFO, value=6, source=3, error=7, **at)
    rows.add(Kind.COMPLETE, "p1", f=F.SEND, type=Type.INFO, value=7, error=-999, **at)
    rows.add(Kind.COMPLETE, "k1", f=F.GROW, type=Type.OK, **at)
    for crc in (1, 1, 1, 2, None):
        rows.add(Kind.EXCHANGE, "t1", api=0, type=1, error=0, crc=crc, client="x", **at)
    for type_, error in ((Type.OK, 6), (Type.INFO, None)):
        rows.add(Kind.EXCHANGE, "t1", api=0, type=type_, error=error, crc=3 + type_, client="x", **at)
    results = check_here(rows.store(tmp_path), FEW)
    assert not results.failures
    figures = results.figures
    assert (figures.transactions, figures.transaction_rate) == ({"committed": 2, "aborted": 1, "unknown": 1}, 1.0)
    assert (figures.rebalances, figures.commits, figures.made, figures.resends) == (3, 1, 1, 2)
    assert (figures.topics, figures.aborted, figures.unsettled, figures.offsetless) == ({"grown": 1}, 1, 2, 4)
    assert results.coverage.raws_incomplete == ["t0-0"]
    assert results.coverage.errors == [
        {"f": "send", "error": -999, "name": "error -999", "type": "info", "count": 1, "classified": False},
        {"f": "send", "error": 7, "name": "REQUEST_TIMED_OUT", "type": "info", "count": 1, "classified": True},
    ]
    told = results.as_json()
    assert (told["unclassified"], told["errors"]) == (1, results.coverage.errors)


def test_a_drawing_that_fails_costs_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its tables nor what is around findings; it is said why nothing is drawn."""
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok @0\np1 send b ─ ok @1\nc1 poll ─ @1:b\nn1 fetch ─ @2")
    sealed = rows.store(tmp_path)
    assert check_here(sealed).drawn

    def broken(*_: object) -> None:
        raise RuntimeError("no ink")

    for what in (
        "checkers.summaries.series.SeriesFamily.survey",
        "checkers.summaries.drawn_series.drawn",
        "checkers.summaries.context.find_context",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(what, broken)
            results = check_here(sealed)
        assert (results.failures, results.drawn) == ([], None), what
        assert "no ink" in results.undrawn, what
        assert results.anomalies["lost-write"].found == 1, what
