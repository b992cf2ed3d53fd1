"""What stood still in histories of a few events, and what it means."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest

from checkers import progress
from checkers.core.family import FamilyResult
from checkers.core.piece import Piece
from checkers.core.results import CheckResults, Finding
from checkers.core.timeline import Fault, Timeline
from checkers.liveness import family as liveness
from checkers.summaries.coverage import FaultCoverage
from harness.foundation.limits import DEFAULTS, limits_of
from harness.history.schema import F, FaultStage, Kind
from harness.judging.policies import PlannedFault, RunFacts, judge
from tests.support.histories import SECOND_NS, Case, Rows, write
from tests.support.kernels import SIZES, WHOLE, Size, check_rows, context, findings_of, frame_of, steps_of

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
FAMILIES = (*liveness.FAMILIES, *progress.FAMILIES)
LIMITS = {"no_progress_s": 19.0}


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Every case in a topic of its own; something happens in every second but for those from 60 to 84."""
    made = Rows()
    for topic, case in enumerate(CASES):
        write(made, topic, case.text)
    for start, end in ((0, 1), (99, 100)):
        made.add(Kind.COMPLETE, "c9", f=F.POLL, type=1, count=0, invoked=start * SECOND_NS, time=end * SECOND_NS)
    for second in [*range(60), *range(85, 100)]:
        made.add(Kind.COMPLETE, "x1", f=F.INIT, type=1, invoked=second * SECOND_NS, time=second * SECOND_NS)
    for second, stage in ((40, FaultStage.INJECTED), (60, FaultStage.UNDONE)):
        made.add(Kind.FAULT, "x1", time=second * SECOND_NS, fault=1, stage=stage, name="leader-kill")
    made.add(Kind.FAULT, "x1", time=70 * SECOND_NS, fault=2, stage=FaultStage.FAILED, name="never", detail="")
    for second, name in ((0, "load"), (100, "final")):
        made.add(Kind.PHASE, "x1", time=second * SECOND_NS, name=name)
    return made


def _checked(rows: Rows, size: Size = WHOLE) -> dict[str, FamilyResult]:
    outcomes, failures = check_rows(rows, FAMILIES, size, limits=LIMITS)
    assert not failures
    return outcomes


@pytest.fixture(scope="module")
def outcomes(rows: Rows) -> dict[str, FamilyResult]:
    """All of them checked at once."""
    return _checked(rows)


@pytest.fixture(scope="module")
def found(rows: Rows, outcomes: dict[str, FamilyResult]) -> list[Finding]:
    """All findings."""
    return findings_of(rows, outcomes)


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


def _of(found: list[Finding], case: str, anomaly: str) -> Finding:
    topic = next(number for number, each in enumerate(CASES) if each.name == case)
    return next(each for each in found if each.topic == f"t{topic}" and each.anomaly == anomaly)


def test_facts_tell_what_was_waited_for_and_what_nodes_showed(found: list[Finding]) -> None:
    """Of stalls with and without answers, and of a partition that is late."""
    shown = _of(found, "a watermark that stays where the readers are", "stall")
    assert shown.facts == {"position": 0, "lasted_ns": 7 * SECOND_NS, "shown": 1}
    assert (shown.time_ns, shown.until_ns, shown.offset, shown.processes) == (5 * SECOND_NS, 12 * SECOND_NS, 1, ())
    unknown = _of(found, "to the end of the load", "stall")
    assert unknown.facts == {"position": -1, "lasted_ns": 50 * SECOND_NS}
    late = _of(found, "a partition that is behind while its reader is done with another one", "stall")
    assert late.facts == {"position": 0, "lasted_ns": 0, "early": 1}


def test_facts_tell_how_long_no_send_got_through(found: list[Finding]) -> None:
    """In all, and of that in a fault or after it."""
    alone = _of(found, "sends that do not get through without a fault", "no-progress-in-fault")
    assert alone.facts == {"lasted_ns": 26 * SECOND_NS, "span_ns": 26 * SECOND_NS}
    met = _of(found, "while a fault lasts", "no-progress-in-fault")
    assert met.facts == {"lasted_ns": 29 * SECOND_NS, "fault": "leader-kill", "span_ns": 20 * SECOND_NS}
    after = _of(found, "no longer than the limit while it lasts, and too long after it", "slow-recovery")
    assert after.facts == {"lasted_ns": 46 * SECOND_NS, "fault": "leader-kill", "span_ns": 32 * SECOND_NS}


def test_findings_are_counted_and_so_is_how_long_sends_took(
    outcomes: dict[str, FamilyResult], found: list[Finding]
) -> None:
    """The summary has a row for each segment with sends."""
    counted = {name: outcomes["liveness"].findings.count(name) for name in liveness.Liveness.anomalies}
    assert counted == {name: sum(each.anomaly == name for each in found) for name in counted}
    assert all(outcomes["liveness"].looked_at[name] >= count > 0 for name, count in counted.items())
    before, during, after = outcomes["latency"].summary
    assert (before["from_s"], before["to_s"], before["faults"]) == (0, 40, [])
    assert (during["from_s"], during["to_s"], during["faults"]) == (40, 60, ["leader-kill"])
    assert (during["sends"], during["ok"], during["max_ms"]) == (5, 4, 1000)
    assert during["p50_ms"] == during["p99_ms"] == pytest.approx(1000, rel=0.06)
    assert after["availability"] == pytest.approx(10 / 12)


@pytest.mark.parametrize("size", SIZES[1:], ids=str)
def test_pieces_find_what_one_finds(
    size: Size, rows: Rows, outcomes: dict[str, FamilyResult], found: list[Finding]
) -> None:
    """A large history is spread over tasks; that changes nothing."""
    cut = _checked(rows, size)
    assert sorted(map(_told, findings_of(rows, cut))) == sorted(map(_told, found))
    for family in FAMILIES:
        assert cut[family.name].looked_at == outcomes[family.name].looked_at
        assert cut[family.name].summary == outcomes[family.name].summary


@pytest.mark.parametrize("polled", [3, 13])
def test_only_a_stall_is_looked_at_again(polled: int) -> None:
    """A healthy history is read once."""
    rows = Rows()
    write(
        rows,
        0,
        f"""c1 assign ─ ok 0@ [0..1]
                       p1 send a ─ ok @0 [1..2]
                       n1 fetch ─ @1 [3..4]
                       c1 poll ─ @0:a [2..{polled}]""",
    )
    steps = steps_of(rows, FAMILIES, context(rows))
    assert not steps.failures
    assert ("liveness" in steps.judged) is (polled > 10)
    assert steps.conclude()["liveness"].findings.count("stall") == int(polled > 10)


def test_without_pieces_there_is_nothing() -> None:
    """Nor without polls."""
    run = context(Rows())
    (family,) = liveness.FAMILIES
    waited = family.gather([], run, {})
    assert not family.needs_judging(waited, run, {})
    assert family.conclude(waited, [], run, {}).looked_at == dict.fromkeys(family.anomalies, 0)


def test_nothing_was_sent() -> None:
    """Then there is no summary, either."""
    rows = Rows()
    rows.add(Kind.COMPLETE, "c1", f=F.POLL, type=1, count=0, invoked=1, time=2)
    outcomes = _checked(rows)
    assert outcomes["latency"].summary is None
    assert outcomes["liveness"].looked_at == dict.fromkeys(liveness.Liveness.anomalies, 0)


def test_a_fetch_that_ends_where_two_stalls_meet_is_inside_of_both() -> None:
    """And one that lasts longer than both overlaps with both, and lies in neither."""
    rows = Rows()
    write(rows, 0, """t1 fetch ─ @7 client tidegauge-consumer-1 count 0 [20..20]
                      t1 fetch ─ @9 client tidegauge-consumer-1 count 1 [5..50]
                      t1 fetch ─ @8 client tidegauge-consumer-1 count 1 [41..41]""")  # fmt: skip
    run = context(rows)
    stalls = pl.DataFrame({"number": [0, 1, 2], "place": [0, 0, 0], "since": [10, 20, 40], "until": [20, 30, 45]})
    spans = stalls.with_columns(pl.col("number").cast(pl.UInt32), pl.col("since", "until") * SECOND_NS)
    exchanges = frame_of(rows, Kind.EXCHANGE).with_columns(era=pl.lit(0, pl.Int32))
    told = liveness.answers_in(spans, Piece({"exchanges": exchanges}, run), run).sort("number")
    assert told["shown"].to_list() == [7, 7, 8]
    assert told["given"].to_list() == [False, False, True]
    assert told["asked"].to_list() == [True, True, True]


@pytest.mark.parametrize("seed", range(20))
def test_faults_are_compared_with_stretches_as_if_one_by_one(seed: int) -> None:
    """However they overlap, and with equal times and names among them."""
    random = Random(seed)
    line = Timeline((0, 30))
    for number in range(random.randint(0, 8)):
        began = random.choice([None, *range(20)])
        undone = random.choice([None, *range(began or 0, 30)])
        line.faults.append(Fault(number, random.choice("abc"), injected_ns=began, undone_ns=undone))
    since = np.array([random.randrange(30) for _ in range(40)])
    until = since + np.array([random.randint(1, 15) for _ in range(40)])
    faults = progress.Faults(line)
    met, shared = faults.shared_most(since, until)
    outlasted, after = faults.outlasted(since, until)
    windows = [(*window, fault) for fault in line.faults if (window := line.window_ns(fault))]
    for n, (begin, end) in enumerate(zip(since.tolist(), until.tolist(), strict=True)):
        with_each = [(min(end, b) - max(begin, a), -a, fault.name) for a, b, fault in windows]
        expected = max((each for each in with_each if each[0] > 0), default=(0, 0, None))
        assert (shared[n], faults.names[met[n]] if met[n] >= 0 else None) == (expected[0], expected[2])
        with_each = [
            (min([end, *(other for other, _, _ in windows if other > b)]) - b, -a, fault.name)
            for a, b, fault in windows
            if fault.undone_ns is not None and begin <= b < end
        ]
        expected = max(with_each, default=(0, 0, None))
        assert (after[n], faults.names[outlasted[n]] if outlasted[n] >= 0 else None) == (expected[0], expected[2])


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_absurd_numbers_break_nothing(size: Size) -> None:
    """Numbers at both ends of their range are compared, never added."""
    rows, huge = Rows(), 2**63 - 1
    rows.topics[0] = "t0"
    for f in (F.ASSIGN, F.POLL, F.SEND):
        for number in (huge, 0, -huge):
            rows.add(
                Kind.COMPLETE, "c1", f=f, type=1, op=1, topic=0, partition=0, offset=number, value=1, time=number,
                invoked=-number, count=1,
            )  # fmt: skip
            rows.add(Kind.RECORD, "c1", topic=0, partition=0, offset=number, time=number, invoked=number)
    found = {each.anomaly for each in findings_of(rows, _checked(rows, size))}
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
    assert _judged(anomaly, "leader-kill", KILL, (80, 90), ("producer",)) == "unproven"
    assert _judged(anomaly, "leader-kill", KILL, (80, 90), ("consumer", None)) == "unproven"
    assert _judged(anomaly, "cut", CUT, (80, 90), ("producer",)) == "allowed"
    assert _judged(anomaly, "leader-kill", KILL, (80, 90), ("consumer",)) == "illegal"


def _judged(
    anomaly: str, tag: str, fault: PlannedFault | None, span_s: tuple[int, int], dead: tuple[str | None, ...] = ()
) -> str:
    """Of a fault from 75 to 90 s."""
    time, until = (each * SECOND_NS for each in span_s)
    results = CheckResults()
    if fault is not None:
        came = Fault(1, fault.name, injected_ns=75 * SECOND_NS, undone_ns=90 * SECOND_NS, bit=True)
        results.coverage.faults.append(FaultCoverage(came, None, None, None))
    finding = Finding(anomaly, "t0", 0, 1, (), (), (), time, until, (), (tag,), "")
    deaths, roles = tuple(f"worker {number} died" for number, _ in enumerate(dead)), tuple(filter(None, dead))
    facts = RunFacts(faults=(fault,) if fault else (), dead_workers=deaths, dead_roles=roles)
    return judge(finding, results, facts).status


def test_limits_are_never_shorter_than_the_time_outs_of_the_run() -> None:
    """Of transactions and of sessions; all others are as the scenario has them."""
    assert limits_of({}, {}) == DEFAULTS
    limits = limits_of({"stall_s": 7.0}, {"transaction_timeout_ms": 60_000, "session_timeout_ms": 45_000})
    assert (limits["stall_s"], limits["lso_stuck_s"], limits["group_stall_s"]) == (7.0, 80.0, 180.0)


def test_watermarks_that_nodes_showed_are_evidence_for_others(rows: Rows) -> None:
    """Of probes, and of what passed the taps."""
    tables = {name: frame_of(rows, kind).with_columns(era=pl.lit(0, pl.Int32))
              for name, kind in (("probes", Kind.PROBE), ("exchanges", Kind.EXCHANGE))}  # fmt: skip
    shown = Piece(tables, context(rows)).answers.filter(pl.col("topic") == 4).sort("time", "api")
    assert shown.select("api", "shown").rows() == [(1, 2), (2, 2)]
