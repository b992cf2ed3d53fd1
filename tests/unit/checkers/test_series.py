"""What the report draws of a history of a few events; and what is made of what was counted."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import polars as pl
import pytest

from checkers.core.piece import Piece
from checkers.core.results import Anomaly, Finding
from checkers.core.tables import tables_of
from checkers.summaries import context as finding_context
from checkers.summaries import series as series_module
from checkers.summaries.drawn_series import PARTITIONS, _latency, drawn, fingerprint, witnesses
from checkers.summaries.finding_queries import context_request
from checkers.summaries.series import BUCKETS, CLASSES, FAMILIES, OTHERS, Grid, points, thinned
from checkers.summaries.witnesses import SAMPLED, WITNESSED
from harness.foundation.error_codes import name_of
from harness.history.schema import F, FaultStage, Kind, Type
from tests.oracle import delivery, idempotence, leadership, watermarks
from tests.support.histories import SECOND_NS, Rows, process_of, value_of, write
from tests.support.kernels import SIZES, WHOLE, Size, context, frame_of, steps_of
from tests.support.stub_values import Places

Row = dict[str, Any]

HISTORY = """
    n1 metadata ─ 0@ epoch 4 leader 1 isr 1,2 [0..1]
    p1 send a ─ ok @0 [1..2]
    p2 send b ─ ok @0 [3..4]
    p1 send c ─ ok @1 [4..5]
    p1 send d ─ info @ error 7 [5..30]
    c1 poll ─ @0:a @1:c [6..7]
    n1 fetch ─ @2 [7..8]
    n1 fetch ─ @1 [9..10]
    n1 metadata ─ 0@ epoch 5 leader 2 isr 2 [11..12]
    n2 list ─ @2 [12..13]
    t1 produce ─ 0@ error 6 client app [13..14]
    t1 produce ─ 0@ error 6 client app [14..15]
    t1 produce ─ 0@ error 6 client tidegauge [15..16]
    r1 final ─ ok @2 [24..25]
    s1 assign ─ ok @0 [26..27]
    s1 poll ─ @0:a @1:c [27..28]
    s1 replica ─ ok @2 end 2 [27..28]
"""


@pytest.fixture(scope="module")
def series() -> dict[str, Any]:
    """Of a partition one offset of which was acknowledged twice."""
    rows = Rows()
    write(rows, 0, HISTORY)
    common = {"fault": 1, "name": "kill"}
    rows.add(Kind.FAULT, "x1", time=3 * SECOND_NS, stage=int(FaultStage.INJECTED), **common)
    rows.add(Kind.FAULT, "x1", time=6 * SECOND_NS, stage=int(FaultStage.UNDONE), **common)
    rows.add(Kind.PHASE, "x1", time=SECOND_NS, name="load")
    first, second = rows.events[Kind.COMPLETE][:2]
    finding = Finding(
        "shared-offset", "t0", 0, 0, (first["value"], second["value"]), (first["process"], second["process"]), (),
        first["time"], second["time"], (first["event"], second["event"]), (),
    )  # fmt: skip
    return drawings(rows, {"shared-offset": Anomaly("shared-offset", "", findings=[finding])})


def drawings(rows: Rows, anomalies: dict[str, Anomaly], size: Size = WHOLE) -> dict[str, Any]:
    """Everything that a report draws."""
    run = context(rows)
    steps = steps_of(rows, [Places(), *FAMILIES], run, size)
    gathered = steps.conclude()["series"].summary
    assert not steps.failures
    findings = [finding for anomaly in anomalies.values() for finding in anomaly.findings]
    wanted = context_request(anomalies, run, witnesses(gathered, findings, run))
    kinds = (Kind.COMPLETE, Kind.RECORD, Kind.PROBE, Kind.EXCHANGE)
    tables: dict[str, pl.DataFrame] = {}
    for kind in kinds:
        tables |= tables_of(kind, frame_of(rows, kind), finding_context.READS, run)
    parts = [finding_context.find_context(Piece(tables, run), wanted, run)]
    return {**drawn(gathered, findings, run), **finding_context.merge_context(parts, wanted, run)}


def test_sends_and_reads_are_counted_when_they_ended(series: dict[str, Any]) -> None:
    """One of which nobody knows the end when it was sent."""
    (flow,) = series["flow"].values()

    def at(what: str) -> list[tuple[float, int]]:
        return [((series["start"] + bucket * series["bucket"]) / SECOND_NS, count) for bucket, count in flow[what]]

    assert at("ok") == [(2, 1), (4, 1), (5, 1)]
    assert at("info") == [(5, 1)]
    assert at("read") == [(7, 2)]
    assert at("acknowledged") == [(2, 1), (4, 1), (5, 2)]
    assert [len(points) for points in series["errors"].values()] == [1]


def test_marks_are_told_by_node_where_they_changed(series: dict[str, Any]) -> None:
    """A watermark that fell is seen."""
    (marks,) = series["marks"].values()
    assert [value for _, value in marks["1"]["high_watermark"] if value is not None] == [2, 1]
    assert [value for _, value in marks["2"]["end"]] == [2]


def test_leaders_epochs_and_replicas_are_told_where_they_changed(series: dict[str, Any]) -> None:
    """With the moment."""
    (leaders,) = series["leaders"].values()
    assert leaders == {"1": [[SECOND_NS, 1, 4, "1,2"], [12 * SECOND_NS, 2, 5, "2"]]}


def test_who_asked_whom_and_was_refused(series: dict[str, Any]) -> None:
    """Not the harness, which asks every node on purpose."""
    (refused,) = series["refusals"]
    assert (refused["client"], refused["node"], refused["count"]) == ("app", 1, 2)


def test_faults_and_the_load_are_bands_of_time(series: dict[str, Any]) -> None:
    """Since the history began."""
    (fault,) = series["faults"]
    assert (fault["name"], fault["from"], fault["to"]) == ("kill", 3 * SECOND_NS, 6 * SECOND_NS)
    assert series["start"] == SECOND_NS


def test_a_finding_has_the_operations_that_prove_it(series: dict[str, Any]) -> None:
    """Named ones, those of its values, and what was going on; and what replicas have of it."""
    around = series["around"]["shared-offset/0"]
    named = [(row["process"], row["offset"]) for row in around if row["rank"] == 0]
    assert named == [(process_of("p1"), 0), (process_of("p2"), 0)]
    assert {row["kind"] for row in around if row["rank"] == 1} == {"record", "replica"}
    assert series["replicas"]["shared-offset/0"] == [[1, "has it", [[value_of(0, "a", process_of("p1")), 0]]]]


def test_a_witness_has_moments_that_never_go_back(series: dict[str, Any]) -> None:
    """In the order of offsets; an end comes before what is not there yet."""
    (witness,) = series["witness"].values()
    told = [(row["offset"], row["end"], row["point"] // SECOND_NS) for row in witness["operations"]]
    assert told == [(0, False, 1), (0, False, 3), (1, False, 4), (2, True, 12)]


@pytest.mark.parametrize("lasted_s", [0, 1, 29.9, 30, 61, 3600, 86_400])
def test_time_is_cut_into_few_round_pieces(lasted_s: float) -> None:
    """Whatever it is."""
    grid = Grid(7, 7 + int(lasted_s * SECOND_NS))
    assert int(lasted_s * SECOND_NS) // grid.bucket_ns < BUCKETS
    assert str(grid.bucket_ns).strip("0") in {"1", "2", "5"}


def test_percentiles_are_within_nine_percent() -> None:
    """And never above the longest."""
    rows = [
        {"bucket": 0, "class": 80, "count": 90, "longest": 1_100},
        {"bucket": 0, "class": 132, "count": 10, "longest": 99_000},
    ]
    ((bucket, median, most, _, longest),) = _latency(pl.DataFrame(rows))
    assert (bucket, longest) == (0, 99.0)
    assert median == pytest.approx(1.05, rel=0.09)
    assert most == median
    assert _latency(pl.DataFrame([{"bucket": 0, "class": 80, "count": 1, "longest": 1_024}]))[0][1] == 1.024


def marks_of(rows: list[Row], silence: int = 10) -> list[tuple[int, int | None]]:
    """The points of a line."""
    found = thinned(points(pl.DataFrame(rows), silence))
    return list(found.select("bucket", "value").iter_rows())


LINE = {"topic": 0, "partition": 0, "node": 1, "api": 1}


def test_a_mark_that_falls_and_rises_in_a_bucket_is_two_points() -> None:
    """And a node that says nothing for long breaks its line."""
    rows: list[Row] = [
        {**LINE, "bucket": 0, "low": 5, "high": 5, "last": 5},
        {**LINE, "bucket": 1, "low": 2, "high": 9, "last": 9},
        {**LINE, "bucket": 50, "low": 9, "high": 9, "last": 9},
    ]
    assert marks_of(rows) == [(0, 5), (1, 2), (1, 9), (1, None), (50, 9)]


def test_points_between_two_of_the_same_value_are_left_out() -> None:
    """The ends of a level stretch stay, and those of each line."""
    rows = [{**LINE, "bucket": bucket, "value": value} for bucket, value in enumerate([1, 1, 1, 2])]
    assert thinned(pl.DataFrame(rows))["bucket"].to_list() == [0, 2, 3]
    two = [{**LINE, "node": node, "bucket": bucket, "value": 1} for node in (1, 2) for bucket in (0, 1, 2)]
    assert thinned(pl.DataFrame(two)).select("node", "bucket").rows() == [(1, 0), (1, 2), (2, 0), (2, 2)]


def test_findings_of_two_checks_are_told_apart() -> None:
    """Whatever else the results say."""
    one = {"anomalies": {"a": {"findings": [{"offset": 1}]}}, "seconds": 1}
    assert fingerprint(one) == fingerprint({**one, "seconds": 2})
    assert fingerprint(one) != fingerprint({"anomalies": {"a": {"findings": [{"offset": 2}]}}})


def busy(seed: int) -> Rows:
    """Histories of several sorts, with errors, more partitions than are drawn, and phases."""
    rows, random = Rows(), Random(seed)
    for topic, oracle in enumerate((delivery, idempotence, leadership, watermarks, delivery, leadership)):
        rows.topics[topic] = ""
        oracle.write(rows, topic, random)
        rows.topics[topic] = f"t{topic}"
    for number in range(300):
        time = random.randint(0, 10**5) * 10**6
        common = {"time": time, "invoked": time - random.randint(0, 10**10), "topic": random.choice([0, 1, None])}
        common["partition"] = random.randint(0, 20)
        if number % 3 == 0:
            type_ = random.choice(list(Type))
            rows.add(Kind.COMPLETE, "p1", f=F.SEND, type=type_, offset=number, value=number, op=number, **common)
        elif number % 3 == 1:
            asked = {
                "api": random.choice([0, 1, 3]),
                "error": random.choice([0, 0, 5, 6, 74]),
                "node": number % 4 or None,
            }
            said = {"leader": random.choice([1, 2, None]), "leader_epoch": random.randint(0, 2), "isr": "1,2"}
            client = random.choice(["tidegauge", "app", None])
            rows.add(Kind.EXCHANGE, "t1", type=random.choice([1, 1, 3]), client=client, **asked, **said, **common)
        else:
            rows.add(Kind.RECORD, random.choice(["c1", "r1"]), offset=number, value=number, status=0, **common)
    for event in rows.events[Kind.COMPLETE]:
        if random.random() < 0.2:
            event["error"] = random.choice([-192, 6, 7, 9999, *range(20)])
    times = sorted({event["time"] for event in rows.events[Kind.COMPLETE]})
    rows.add(Kind.PHASE, "x1", time=times[len(times) // 5], name="load")
    return rows


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(6))
def test_series_are_what_counting_says(seed: int, size: Size) -> None:
    """One event after the other."""
    rows = busy(seed)
    finding = Finding("x", "t0", 20, None, (), (), (), None, None, (), ())
    found = drawings(rows, {"x": Anomaly("x", "", findings=[finding] * 2)}, size)
    slow = Slow(rows)
    assert "t0-20" in found["partitions"]
    assert set(found["partitions"]) == slow.busiest(PARTITIONS)
    assert len(found["partitions"]) == PARTITIONS
    assert found["others"] == len(slow.sent.keys() - set(found["partitions"]))
    assert found["flow"] == slow.flow(found["partitions"])
    errors = slow.errors()
    assert {name: found["errors"].get(name) for name in errors} == errors
    assert found["latency"] == slow.latency()
    assert {(row["client"], row["node"], row["api"], row["topic"], row["partition"]): row["count"]
            for row in found["refusals"]} == slow.refusals()  # fmt: skip
    assert found["marks"] == slow.marks(found["partitions"])
    assert found["leaders"] == slow.leaders(found["partitions"])


class Slow:
    """Series by loops."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        run = context(rows)
        self.first_ns, grid = run.first_time_ns, Grid.of(run)
        self.start_ns, self.bucket_ns = grid.first_ns, grid.bucket_ns
        self.silence = max(2, 2 * SECOND_NS // grid.bucket_ns)
        sends = [(event, self.bucket(event["invoked"] if event["type"] == Type.INFO else event["time"]))
                 for event in rows.events[Kind.COMPLETE] if event["f"] == F.SEND]  # fmt: skip
        self.sends = [(event, bucket) for event, bucket in sends if bucket >= 0]
        self.reads = [
            (event, bucket)
            for event in rows.events[Kind.RECORD]
            if rows.processes[event["process"]]["role"] == "consumer" and (bucket := self.bucket(event["time"])) >= 0
        ]
        self.sent = Counter(self.name(event) for event, _ in self.sends)
        self.sent.update({self.name(event): 0 for event, _ in self.reads})
        self.sent.pop(OTHERS, None)

    def bucket(self, time: int) -> int:
        """In which it is."""
        return (time - self.start_ns) // self.bucket_ns

    def name(self, event: Row) -> str:
        """Of its partition."""
        if event.get("topic") is None or event.get("partition") is None:
            return OTHERS
        return f"{self.rows.topics[event['topic']]}-{event['partition']}"

    def busiest(self, count: int) -> set[str]:
        """Beside that with a finding."""

        def order(name: str) -> tuple[bool, int, int, int]:
            topic, _, partition = name.rpartition("-")
            return name != "t0-20", -self.sent[name], int(topic[1:]), int(partition)

        return set(sorted({*self.sent, "t0-20"}, key=order)[:count])

    def flow(self, names: list[str]) -> dict[str, dict[str, list[list[int]]]]:
        """Sends and reads."""
        counted: Counter[tuple[str, str, int]] = Counter()
        for event, bucket in self.sends:
            name = self.name(event) if self.name(event) in names else OTHERS
            counted[name, Type(event["type"]).name.lower(), bucket] += 1
            if name != OTHERS and event["type"] == Type.OK and event["offset"] is not None:
                key = (name, "acknowledged", bucket)
                counted[key] = max(counted[key], event["offset"] + 1)
        for event, bucket in self.reads:
            counted[self.name(event) if self.name(event) in names else OTHERS, "read", bucket] += 1
        flow: dict[str, dict[str, list[list[int]]]] = {}
        for (name, what, bucket), value in sorted(counted.items()):
            if value:
                flow.setdefault(name, {}).setdefault(what, []).append([bucket, value])
        return flow

    def errors(self) -> dict[str, list[list[int]]]:
        """The twelve most frequent, and the others."""
        failed = [event for event in self.rows.events[Kind.COMPLETE]
                  if event.get("error") and self.bucket(event["time"]) >= 0]  # fmt: skip
        totals = Counter(name_of(event["error"]) for event in failed)
        kept = sorted(totals, key=lambda name: (-totals[name], name))[:12]
        counted = Counter(
            (name if (name := name_of(event["error"])) in kept else "other errors", self.bucket(event["time"]))
            for event in failed
        )
        told: dict[str, list[list[int]]] = {}
        for (name, bucket), count in sorted(counted.items()):
            told.setdefault(name, []).append([bucket, count])
        return told

    def latency(self) -> list[list[float]]:
        """From the histogram."""
        took: dict[int, list[int]] = {}
        for event in (event for event in self.rows.events[Kind.COMPLETE] if event["f"] == F.SEND):
            if event["type"] == Type.OK and (bucket := self.bucket(event["time"])) >= 0:
                took.setdefault(bucket, []).append(max(1, (event["time"] - event["invoked"]) // 1000))
        told = []
        for bucket, of in sorted(took.items()):
            of.sort()
            most = of[-1] / 1e3
            row: list[float] = [bucket]
            for share in (0.5, 0.9, 0.99):
                which = of[math.ceil(round(share * len(of), 9)) - 1]
                class_ = math.floor(CLASSES * math.log2(which))
                row.append(min(most, round(2 ** ((class_ + 0.5) / CLASSES) / 1e3, 3)))
            told.append([*row, most])
        return told

    def refusals(self) -> Counter[tuple[Any, ...]]:
        """Not the harness's."""
        return Counter(
            (event.get("client"), event.get("node"), event["api"], self.rows.topics.get(event["topic"]),
             event["partition"])
            for event in self.rows.events[Kind.EXCHANGE]
            if event.get("error") in {6, 74, 75} and event["type"] == Type.OK and event.get("client") != "tidegauge"
        )  # fmt: skip

    def answers(self, names: list[str], api: set[int]) -> list[tuple[Row, int]]:
        """Those of drawn partitions, in order."""
        probes = [(event, 0) for event in self.rows.events[Kind.PROBE]]
        seen = [(event, 1) for event in self.rows.events[Kind.EXCHANGE] if event["type"] == Type.OK]
        return sorted(
            (
                each
                for each in (*probes, *seen)
                if self.name(each[0]) in names
                and each[0]["api"] in api
                and each[0].get("node") is not None
                and self.bucket(each[0]["time"]) >= 0
            ),
            key=lambda each: (each[0]["time"], each[0]["event"]),
        )

    def marks(self, names: list[str]) -> dict[str, dict[str, dict[str, list[list[int | None]]]]]:
        """Bucket by bucket."""
        shown: dict[tuple[str, str, str], dict[int, list[int]]] = {}
        for event, _ in self.answers(names, {1, 2}):
            is_fetch = event["api"] == 1
            mark = event.get("high_watermark") if is_fetch else event.get("offset") if event.get("view") == 2 else None
            if event["error"] == 0 and mark is not None and mark >= 0:
                line = (self.name(event), str(event["node"]), "high_watermark" if is_fetch else "end")
                shown.setdefault(line, {}).setdefault(self.bucket(event["time"]), []).append(mark)
        lines: dict[str, dict[str, dict[str, list[list[int | None]]]]] = {}
        for (name, node, what), buckets in shown.items():
            lines.setdefault(name, {}).setdefault(node, {})[what] = self.line(buckets)
        return lines

    def line(self, buckets: dict[int, list[int]]) -> list[list[int | None]]:
        """As it was drawn before there were tables."""
        drawn_: list[list[int | None]] = []
        for bucket, marks in sorted(buckets.items()):
            if drawn_ and bucket - int(drawn_[-1][0] or 0) > self.silence:
                drawn_.append([drawn_[-1][0], None])
            before = next((value for _, value in reversed(drawn_) if value is not None), min(marks))
            extreme = min(marks) if min(marks) < before else max(marks)
            drawn_ += [[bucket, value] for value in dict.fromkeys([extreme, marks[-1]])]
        last = len(drawn_) - 1
        return [
            point
            for n, point in enumerate(drawn_)
            if n in {0, last} or not drawn_[n - 1][1] == point[1] == drawn_[n + 1][1]
        ]

    def leaders(self, names: list[str]) -> dict[str, dict[str, list[list[Any]]]]:
        """What probes were told, or what clients were if there are no probes."""
        of_probes = bool(self.rows.events[Kind.PROBE])
        claims: dict[tuple[Any, ...], int] = {}
        for event, source in self.answers(names, {3}):
            if source == (0 if of_probes else 1) and event.get("error") in {0, 5}:
                leader = -1 if event.get("leader") is None else event["leader"]
                said = (leader, event.get("leader_epoch"), event.get("isr"))
                key = (self.name(event), str(event["node"]), self.bucket(event["time"]), said)
                claims[key] = min(event["time"], claims.get(key, event["time"]))
        told: dict[str, dict[str, list[list[Any]]]] = {}
        ordered = sorted(claims.items(), key=lambda each: (each[1], [(x is not None, x) for x in each[0][3]]))
        for (name, node, _, said), time in ordered:
            changes = told.setdefault(name, {}).setdefault(node, [])
            if not changes or tuple(changes[-1][1:]) != said:
                changes.append([time - self.first_ns, *said])
        return told


def test_a_history_of_exchanges_alone_draws_what_passed_the_taps() -> None:
    """The busiest partitions are those of which most was asked; what is deleted has no witness."""
    rows = Rows()
    write(rows, 0, "t1 produce ─ 0@5 [1..2]\n t1 produce ─ 1@5 [1..2]\n t1 fetch ─ 1@5 [1..2]")
    found = drawings(rows, {})
    assert (found["partitions"], found["flow"], found["others"]) == (["t0-0", "t0-1"], {}, 0)
    assert found["witness"] == {}
    many = Rows()
    write(many, 0, "\n".join(f"t1 fetch ─ {n}@5 [1..2]" for n in [*range(30), 29]))
    assert drawings(many, {})["partitions"][-1] == "t0-29"
    assert drawings(many, {})["others"] == 6


def test_of_thousands_of_partitions_only_those_have_marks_about_which_most_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a history that is looked at in pieces; sends are counted everywhere."""
    rows = Rows()
    told = [f"n1 fetch ─ {n}@{time} [{time}..{time + 1}]" for n in range(9) for time in range(1, 2 + n)]
    sent = [f"p1 send {chr(97 + n)} ─ ok {n}@0 [1..2]" for n in range(9)]
    write(rows, 0, "\n".join([*told, *sent]))
    assert len(drawings(rows, {}, SIZES[1])["marks"]) == 9
    monkeypatch.setattr(series_module, "ROWS_AT_MOST", 8)
    found = drawings(rows, {}, Size(stretch=4))  # the last one has nine points by itself
    assert list(found["marks"]) == ["t0-8"]
    assert set(found["flow"]) == {f"t0-{n}" for n in range(9)}
    assert len(drawings(rows, {})["marks"]) == 9


def test_appends_are_shown_in_samples_of_the_load_as_well() -> None:
    """A wide window, and narrow ones that do not overlap it or each other."""
    rows = Rows()
    rows.topics[0] = "t0"
    for number in range(600):
        moment = {"time": (number + 1) * SECOND_NS, "invoked": number * SECOND_NS, "topic": 0, "partition": 0}
        rows.add(Kind.COMPLETE, "p1", f=F.SEND, type=Type.OK, value=number, op=number, offset=number, **moment)
    operations = drawings(rows, {})["witness"]["t0-0"]["operations"]
    offsets = [row["offset"] for row in operations]
    assert offsets == sorted(set(offsets))
    ends = [here for here, after in pairwise([*offsets, 10**6]) if after - here > 1]
    assert len(ends) == 7
    assert len(offsets) == (2 * WITNESSED + 1) + 6 * (2 * SAMPLED + 1)
    moments = [row["point"] for row in operations]
    assert moments == sorted(moments)


def test_what_was_deleted_has_no_witness() -> None:
    """Offsets say nothing there."""
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok @0")
    assert list(drawings(rows, {})["witness"]) == ["t0-0"]
    write(rows, 1, "k1 delete ─ ok")
    assert drawings(rows, {})["witness"] == {}


def test_an_empty_history_has_empty_series() -> None:
    """And nothing fails."""
    found = drawings(Rows(), {})
    assert (found["flow"], found["marks"], found["leaders"], found["around"]) == ({}, {}, {}, {})
