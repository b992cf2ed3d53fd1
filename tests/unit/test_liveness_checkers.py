"""What stood still in histories of a few events, all of them in one Spark job, and what it means."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from checkers import liveness, progress
from checkers.coverage import Fault, FaultCoverage, Timeline
from checkers.frame import History, tally, together
from checkers.results import CheckResults, Finding, as_finding
from harness.history import F, Kind
from harness.limits import DEFAULTS, limits_of
from harness.policies import PlannedFault, RunFacts, judge
from tests.histories import SECOND_NS, Case, Rows, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# expected: anomaly, place, tags. The load polls from 0 to 100 s
CASES = [
    Case(
        "nobody is handed what was acknowledged for five seconds, and nobody asked the nodes",
        """c1 assign ─ ok 0@ [1..2]
           p1 send a ─ ok @0 [2..3]
           c1 poll ─ @0:a [3..4]
           p1 send b ─ ok @1 [9..10]
           p1 send c ─ ok @2 [14..15]
           c1 poll ─ @1:b @2:c [14..15]""",
        ("stall 0@1 class unknown, within the limit",),
    ),
    Case(
        "less than five seconds, counted from the acknowledgement, are none",
        """c1 assign ─ ok 0@ [1..2]
           p1 send a ─ ok @0 [2..3]
           c1 poll ─ @0:a [3..4]
           p1 send b ─ ok @1 [9..10]
           c1 poll ─ @1:b [13..14]""",
    ),
    Case(
        "nor is it one before it was anybody's to read",
        """p1 send a ─ ok @0 [2..3]
           c1 assign ─ ok 0@ [29..30]
           c1 poll ─ @0:a [33..34]
           p1 send b ─ ok 1@0 [2..3]""",
    ),
    Case(
        "a watermark that stays where the readers are",
        """c1 assign ─ ok 0@ [1..2]
           p1 send a ─ ok @0 [2..3]
           c1 poll ─ @0:a [3..4]
           p1 send b ─ ok @1 [4..5]
           n1 fetch ─ @1 [6..7]
           n1 list ─ @1 [8..9]
           n1 fetch ─ @2 [10..14]
           c1 poll ─ @1:b [11..12]""",
        ("stall 0@1 class 1",),
    ),
    Case(
        "a fetch that hangs, though another node shows that there is something",
        """c1 assign ─ ok 0@ [1..2]
           p1 send a ─ ok @0 [2..3]
           c1 poll ─ @0:a [3..4]
           p1 send b ─ ok @1 [4..5]
           n1 list ─ @2 [6..7]
           t1 fetch ─ @2 client tidegauge-consumer-101 lost count 1 [4..12]
           t1 fetch ─ @2 client tidegauge count 1 [6..7]
           c1 poll ─ @1:b [13..14]""",
        ("stall 0@1 class 2",),
    ),
    Case(
        "a client that was given records and did not hand them on",
        """c1 assign ─ ok 0@ [1..2]
           p1 send a ─ ok @0 [2..3]
           c1 poll ─ @0:a [3..4]
           p1 send b ─ ok @1 [4..5]
           t1 fetch ─ @2 client tidegauge-consumer-101 count 1 [6..7]
           c1 poll ─ @1:b [13..14]""",
        ("stall 0@1 data available, within the limit",),
    ),
    Case(
        "nor one that was given records of an older format, of which nobody says how many",
        """c1 assign ─ ok 0@ [1..2]
           p1 send a ─ ok @0 [2..3]
           c1 poll ─ @0:a [3..4]
           p1 send b ─ ok @1 [4..5]
           t1 fetch ─ @2 client tidegauge-consumer-101 [6..7]
           c1 poll ─ @1:b [13..14]""",
        ("stall 0@1 data available, within the limit",),
    ),
    Case(
        "the end of others is waited for where there are transactions",
        """c1 assign ─ ok 0@ [1..2]
           p1 send z ─ info @0 in T [2..3]
           p1 send b ─ ok @1 [4..5]
           n1 fetch ─ @0 [6..7]
           c1 poll ─ @1:b [24..25]""",
        ("stall 0@0 class 1, within the limit",),
    ),
    Case(
        "and whoever is gone where there are groups, but not for ever",
        """g1 assign ─ ok 0@ member M [1..2]
           g1 assign ─ ok 1@ member M [1..2]
           p1 send a ─ ok @0 [2..3]
           n1 fetch ─ @0 [6..7]
           g1 poll ─ @0:a [19..20]
           p1 send b ─ ok 1@0 [2..3]
           n1 fetch ─ 1@0 [6..7]
           g1 poll ─ 1@0:b [59..60]""",
        ("stall 0@0 class 1, within the limit", "stall 1@0 class 1"),
    ),
    Case(
        "to the end of the load",
        """c1 assign ─ ok 0@ [1..2]
           p1 send a ─ ok @0 [49..50]""",
        ("stall 0@0 class unknown",),
    ),
    Case(
        "a run in which nothing at all happened stood still",
        """c1 assign ─ ok 0@ [1..2]
           p1 send a ─ ok @0 [58..59]
           c1 poll ─ @0:a [83..84]""",
        ("stall 0@0 class unknown, within the limit, stood still",),
    ),
    Case(
        "a partition that is behind while its reader is done with another one",
        """c2 assign ─ ok 0@ [1..2]
           c2 assign ─ ok 1@ [1..2]
           p1 send a ─ ok 0@0 [94..95]
           p1 send b ─ ok 1@0 [94..95]
           p1 send c ─ ok 1@1 [94..95]
           p1 send d ─ ok 1@2 [97..98]
           c2 poll ─ 0@0:a 1@0:b [97..98]""",
        ("stall 1@1 class 3",),
    ),
    Case(
        "one whose reader has no other, and one that lacks only what came last, are not",
        """c2 assign ─ ok 0@ [1..2]
           c3 assign ─ ok 1@ [1..2]
           p1 send a ─ ok 0@0 [94..95]
           p1 send b ─ ok 1@0 [94..95]
           p1 send c ─ ok 1@1 [94..95]
           c2 poll ─ 0@0:a [97..98]
           c3 poll ─ 1@0:b [97..98]
           p1 send d ─ ok 0@1 [96..97]""",
    ),
    Case(
        "sends that do not get through without a fault",
        """p1 send a ─ ok @0 [1..2]
           p1 send b ─ info [3..20]
           p1 send c ─ ok @1 [22..29]""",
        ("no-progress-in-fault 0@ no fault",),
    ),
    Case(
        "the very first one that does not get through either",
        """p1 send a ─ ok @0 [2..23]
           p1 send b ─ ok 1@0 [2..21]""",
        ("no-progress-in-fault 0@ no fault",),
    ),
    Case(
        "nothing was tried in between",
        """p1 send a ─ ok @0 [1..2]
           p1 send c ─ ok @1 [28..29]
           p1 send d ─ fail [30..31]""",
    ),
    Case(
        "while a fault lasts",
        """p1 send a ─ ok @0 [31..32]
           p1 send b ─ info [33..44]
           p1 send c ─ info [44..62]""",
        ("no-progress-in-fault 0@ leader-kill",),
    ),
    Case(
        "no longer than the limit while it lasts, and too long after it",
        """p1 send a ─ ok @0 [44..45]
           p1 send b ─ info [46..70]
           p1 send c ─ ok @1 [71..92]""",
        ("slow-recovery 0@ leader-kill",),
    ),
    Case(
        "in time after it",
        """p1 send a ─ ok @0 [44..45]
           p1 send c ─ ok @1 [46..89]""",
    ),
]
RULES = liveness.LIVENESS.rules
LINE = Timeline(
    (0, 100 * SECOND_NS),
    faults=[Fault(1, "leader-kill", injected_ns=40 * SECOND_NS, undone_ns=60 * SECOND_NS), Fault(2, "never")],
)


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    """As a check of a small history has it."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    return spark


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    """Every case in a topic of its own; something happens in every second but for those from 60 to 84."""
    rows = Rows()
    for topic, case in enumerate(CASES):
        write(rows, topic, case.text)
    for start, end in ((0, 1), (99, 100)):
        rows.add(Kind.COMPLETE, "c9", f=F.POLL, type=1, count=0, invoked=start * SECOND_NS, time=end * SECOND_NS)
    for second in [*range(60), *range(85, 100)]:
        rows.add(Kind.COMPLETE, "x1", f=F.INIT, type=1, invoked=second * SECOND_NS, time=second * SECOND_NS)
    limits = {"no_progress_s": 19.0}
    return History(spark, rows.store(tmp_path_factory.mktemp("batch")), line=LINE, limits=limits)


@pytest.fixture(scope="module")
def found(history: History) -> list[Finding]:
    """All findings, in one job."""
    return _found(history)


def _found(history: History) -> list[Finding]:
    frames = [family.findings(history) for family in liveness.FAMILIES if family.rules]
    return [as_finding(row.asDict(), history.sealed.topics) for row in together(frames).collect()]


def _told(finding: Finding) -> str:
    offset = "" if finding.offset is None else finding.offset
    return f"{finding.anomaly} {finding.partition}@{offset} {', '.join(finding.tags)}"


@pytest.mark.parametrize("topic", range(len(CASES)), ids=[case.name for case in CASES])
def test_it_finds_what_is_there_and_nothing_else(topic: int, found: list[Finding]) -> None:
    """Planted and near miss: exactly the findings that the case names."""
    of_sends = "send" in CASES[topic].name or "fault" in str(CASES[topic].expected) or "recovery" in str(CASES[topic])
    mine = [each for each in found if each.topic == f"t{topic}"]
    told = [_told(each) for each in mine if each.anomaly != "stall" or not of_sends]
    assert sorted(told) == sorted(CASES[topic].expected)


def test_the_tally_counts_the_findings_and_tells_how_long_sends_took(history: History, found: list[Finding]) -> None:
    """In one job, as the engine does; the summary has a row for each segment with sends."""
    frames = [
        tally(family, history, family.rules).selectExpr(
            f"'{family.name}' as family", "to_json(struct(*), map('ignoreNullFields', 'false')) as row"
        )
        for family in liveness.FAMILIES
    ]
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in together(frames).collect():
        rows.setdefault(row["family"], []).append(json.loads(row["row"]))
    counted = {rule.anomaly: sum(row[f"found_{n}"] for row in rows["liveness"]) for n, rule in enumerate(RULES)}
    assert counted == {name: sum(each.anomaly == name for each in found) for name in counted}
    assert progress.LATENCIES.summary is not None
    before, during, after = progress.LATENCIES.summary(history, rows["latency"])
    assert (before["from_s"], before["to_s"], before["faults"]) == (0, 40, [])
    assert (during["from_s"], during["to_s"], during["faults"]) == (40, 60, ["leader-kill"])
    assert (during["sends"], during["ok"], during["max_ms"]) == (5, 4, 1000)
    assert during["p50_ms"] == during["p99_ms"] == pytest.approx(1000, rel=0.06)
    assert after["availability"] == pytest.approx(10 / 12)


def test_many_tasks_find_what_one_finds(
    history: History, found: list[Finding], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large history is spread over tasks; that changes nothing."""
    monkeypatch.setattr(History, "small", property(lambda _: False))
    spread = History(history.spark, history.sealed, line=LINE, limits=history.limits)
    assert sorted(map(_told, _found(spread))) == sorted(map(_told, found))


def test_absurd_numbers_break_nothing(spark: SparkSession, tmp_path: Any) -> None:
    """Numbers at both ends of their range are compared, never added."""
    rows, huge = Rows(), 2**63 - 1
    for f in (F.ASSIGN, F.POLL, F.SEND):
        for number in (huge, 0, -huge):
            rows.add(
                Kind.COMPLETE, "c1", f=f, type=1, op=1, topic=0, partition=0, offset=number, value=1, time=number,
                invoked=-number, count=1,
            )  # fmt: skip
            rows.add(Kind.RECORD, "c1", topic=0, partition=0, offset=number, time=number, invoked=number)
    found = {each.anomaly for each in _found(History(spark, rows.store(tmp_path)))}
    assert found <= {"stall", "no-progress-in-fault"}


KILL, CUT = PlannedFault("leader-kill", changes_leaders=True), PlannedFault("cut", changes_leaders=False, blocks=True)
JUDGED = {
    ("stall", "class 1", None): "illegal",
    ("stall", "class 2", KILL): "allowed",
    ("stall", "class 3", KILL): "allowed",
    ("stall", "within the limit", None): "allowed",
    ("stall", "stood still", None): "allowed",
    ("no-progress-in-fault", "leader-kill", KILL): "illegal",
    ("no-progress-in-fault", "leader-kill", CUT): "allowed",
    ("slow-recovery", "leader-kill", KILL): "illegal",
    ("slow-recovery", "cut", CUT): "allowed",
}


@pytest.mark.parametrize(("case", "status"), JUDGED.items(), ids=[f"{each[0]} {each[1]} {each[2]}" for each in JUDGED])
def test_what_it_means(case: tuple[str, str, PlannedFault | None], status: str) -> None:
    """By the faults that were there."""
    anomaly, tag, fault = case
    assert _judged(anomaly, tag, fault, (80, 90)) == status


def test_a_stall_that_outlasts_a_fault_and_its_recovery_is_the_brokers() -> None:
    """What counts is what lies outside of both, taken together."""
    assert _judged("stall", "class 1", KILL, (80, 124)) == "allowed"
    assert _judged("stall", "class 1", KILL, (80, 126)) == "illegal"
    assert _judged("stall", "class 1", KILL, (60, 80)) == "illegal"


def test_a_recovery_from_whatever_fault_has_an_end() -> None:
    """After one that lets nothing through, thirty seconds are given, and the five that a stall may last."""
    assert _judged("slow-recovery", "cut", CUT, (80, 124)) == "allowed"
    assert _judged("slow-recovery", "cut", CUT, (80, 126)) == "illegal"
    assert _judged("no-progress-in-fault", "cut", CUT, (80, 126)) == "allowed"


@pytest.mark.parametrize("anomaly", ["slow-recovery", "no-progress-in-fault"])
def test_what_a_client_that_hung_did_not_send_is_nobody_elses_fault(anomaly: str) -> None:
    """It was killed when it should long have given up; what is allowed stays so."""
    hung = ("worker 5 (producer) ended with SIGKILL",)
    assert _judged(anomaly, "leader-kill", KILL, (80, 90), hung) == "unproven"
    assert _judged(anomaly, "cut", CUT, (80, 90), hung) == "allowed"
    assert _judged(anomaly, "leader-kill", KILL, (80, 90), ("worker 3 (consumer) ended with SIGKILL",)) == "illegal"


def _judged(
    anomaly: str, tag: str, fault: PlannedFault | None, span_s: tuple[int, int], dead: tuple[str, ...] = ()
) -> str:
    """Of a fault from 75 to 90 s."""
    time, until = (each * SECOND_NS for each in span_s)
    results = CheckResults()
    if fault is not None:
        came = Fault(1, fault.name, injected_ns=75 * SECOND_NS, undone_ns=90 * SECOND_NS, bit=True)
        results.coverage.faults.append(FaultCoverage(came, None, None, None))
    finding = Finding(anomaly, "t0", 0, 1, (), (), (), time, until, (), (tag,), "")
    return judge(finding, results, RunFacts(faults=(fault,) if fault else (), dead_workers=dead)).status


def test_limits_are_never_shorter_than_the_time_outs_of_the_run() -> None:
    """Of transactions and of sessions; all others are as the scenario has them."""
    assert limits_of({}, {}) == DEFAULTS
    limits = limits_of({"stall_s": 7.0}, {"transaction_timeout_ms": 60_000, "session_timeout_ms": 45_000})
    assert (limits["stall_s"], limits["lso_stuck_s"], limits["group_stall_s"]) == (7.0, 80.0, 180.0)


def test_watermarks_that_nodes_showed_are_evidence_for_others(history: History) -> None:
    """Of probes, and of what passed the taps."""
    shown = liveness.evidence_of_watermarks(history).where("topic = 4").orderBy("time", "source").collect()
    assert [(row.high_watermark, row.end, row.source) for row in shown] == [(None, 2, "probe"), (2, None, "tap")]
