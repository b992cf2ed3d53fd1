"""The operations around findings: what the kernels pick against what comparing everything with everything says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest

from checkers.core.nearest import RowsByKey, SortedQueries
from checkers.core.piece import Piece
from checkers.core.results import Anomaly, Finding
from checkers.core.run import RunContext
from checkers.core.tables import tables_of
from checkers.summaries import candidate_rows
from checkers.summaries.context import READS, columns_for, find_context, merge_context
from checkers.summaries.finding_queries import ContextRequest, ShownFinding, context_request
from checkers.summaries.witnesses import window_around
from harness.history.schema import F, Kind, OffsetView, Type
from tests.oracle import delivery, groups, idempotence, leadership, linearizability, replicas, watermarks
from tests.support.histories import Rows, process_of, write
from tests.support.kernels import context, frame_of

KINDS = (Kind.COMPLETE, Kind.RECORD, Kind.PROBE, Kind.EXCHANGE)
Row = dict[str, Any]


def pieces(rows: Rows, run: RunContext, rows_of_a_part: int) -> Iterator[Piece]:
    """A history as it is looked at: at once, or so many rows of a kind at a time."""
    kinds = {kind: frame_of(rows, kind) for kind in KINDS if rows.events.get(kind)}
    if rows_of_a_part:
        for kind, frame in kinds.items():
            for part in frame.iter_slices(rows_of_a_part):
                yield Piece(tables_of(kind, part, READS, run), run)
        return
    tables: dict[str, pl.DataFrame] = {}
    for kind, frame in kinds.items():
        tables |= tables_of(kind, frame, READS, run)
    yield Piece(tables, run)


def picked(rows: Rows, asked: ContextRequest, size: int = 0) -> dict[str, Any]:
    """What is told of findings."""
    run = context(rows)
    return merge_context([find_context(piece, asked, run) for piece in pieces(rows, run, size)], asked, run)


def all_rows(rows: Rows) -> Iterator[tuple[str, Row]]:
    """Every event with its kind, replicas apart."""
    for kind, name in ((Kind.COMPLETE, "complete"), (Kind.PROBE, "probe"), (Kind.EXCHANGE, "exchange")):
        yield from ((name, row) for row in rows.events.get(kind, []))
    for row in rows.events.get(Kind.RECORD, []):
        yield ("replica" if rows.processes[row["process"]]["role"] == "replica" else "record"), row


def covers(kind: str, row: Row, offset: int | None) -> bool:
    """Whether a row is about an offset."""
    first, api = row.get("offset"), row.get("api")
    if offset is None or first is None or kind == "probe" or (kind == "complete" and row["f"] != F.SEND):
        return False
    if kind == "exchange":
        return api in {0, 1} and bool(first <= offset <= first + max(row.get("count") or 1, 1) - 1)
    return bool(first == offset)


def belongs(kind: str, row: Row, shown: ShownFinding, near_ns: int) -> tuple[int, int] | None:
    """Its rank, and how far it is away."""
    client = row.get("client") if kind == "exchange" else None
    own = client is not None and re.search(candidate_rows.OWN, client) is not None
    here = shown.place is not None and (row.get("topic"), row.get("partition")) == shown.place
    moments = [moment for moment in (shown.since, shown.until) if moment is not None]
    away = min((abs(row["time"] - moment) for moment in moments), default=None)
    shows = row.get("api") == 1 or (row.get("api") == 2 and row.get("view") == OffsetView.LATEST)
    if row["event"] in shown.events:
        rank = 0
    elif not own and (row.get("value") in shown.values or (here and covers(kind, row, shown.offset))):
        rank = 1
    elif here and away is not None and away <= near_ns and kind != "replica" and not own and (
        kind != "probe" or (row["error"] == 0 and shows)
    ):  # fmt: skip
        rank = 2
    else:
        return None
    number = re.search(r"-(\d{1,9})$", client or "")
    stranger = bool(shown.blamed) and number is not None and int(number[1]) not in shown.blamed
    return rank, (away or 0) + stranger * candidate_rows.STRANGER_NS


def slowly(rows: Rows, asked: ContextRequest) -> dict[str, set[tuple[str, int, int]]]:
    """Of each finding kinds, ranks and events."""
    near_ns = asked.near_ns(context(rows))
    expected: dict[str, set[tuple[str, int, int]]] = {}
    for shown in asked.findings:
        groups: dict[tuple[str, bool], list[tuple[int, int, int]]] = {}
        for kind, row in all_rows(rows):
            found = belongs(kind, row, shown, near_ns)
            if found:
                groups.setdefault((kind, found[0] == 2), []).append((*found, row["event"]))
        for (kind, near), found_rows in groups.items():
            most = 5 if near and kind != "exchange" else 10
            kept = sorted(found_rows)[:most]
            expected.setdefault(shown.key, set()).update((kind, rank, event) for rank, _, event in kept)
    return expected


def some_findings(rows: Rows, random: Random, count: int = 40) -> ContextRequest:
    """Findings about whatever is there."""
    events = [row for _, row in all_rows(rows)]
    times = [row["time"] for row in events]
    values = [row["value"] for row in events if row.get("value") is not None]

    def finding(number: int) -> ShownFinding:
        about = random.choice(events)
        since = random.choice([about["time"], random.choice(times)])
        named = [random.choice(events)["event"] for _ in range(random.randint(0, 3))]
        return ShownFinding(
            f"x/{number}", about.get("topic"), about.get("partition"),
            random.choice([about.get("offset"), random.randint(0, 6), None]),
            tuple({random.choice(values) for _ in range(random.randint(0, 3))}) if values else (), tuple(set(named)),
            since, random.choice([since, random.choice(times)]),
            tuple({random.choice([1, 2, 3, about["process"]]) for _ in range(random.randint(0, 2))}),
        )  # fmt: skip

    return ContextRequest(tuple(finding(number) for number in range(count)))


def bustle(rows: Rows, topic: int, random: Random) -> None:
    """Much that happens at the same places: the same values, offsets and moments again and again."""
    rows.topics[topic] = f"t{topic}"
    clients = ["tidegauge-producer-1", "tidegauge-consumer-2", "tidegauge-consumer-3", "tidegauge", "app", None,
               "tidegauge-final-9", "app-77777777777777777777"]  # fmt: skip
    for number in range(400):
        time = random.randint(0, 60) * 10**8
        place = {"topic": topic, "partition": random.choice([0, 0, 0, 1, None])}
        common: dict[str, Any] = {
            "time": time,
            "invoked": time - random.randint(0, 10**8),
            **place,
            "offset": random.randint(0, 6),
        }
        value = random.choice([None, *range(8)])
        sort = random.randint(0, 5)
        if sort == 0:
            f = random.choice([F.SEND, F.SEND, F.ASSIGN, F.COMMIT])
            rows.add(Kind.COMPLETE, "p1", op=number, f=f, type=random.choice(list(Type)), value=value, **common)
        elif sort == 1:
            rows.add(Kind.RECORD, random.choice(["c1", "c2", "r1"]), op=number, value=value, status=0, **common)
        elif sort == 2:
            rows.add(Kind.RECORD, random.choice(["s1", "s2"]), op=number, value=value, status=0, **common)
        elif sort == 3:
            asked = {"api": random.choice([1, 2, 3]), "view": random.choice([1, 2]), "error": random.choice([0, 0, 6])}
            rows.add(Kind.PROBE, "n1", node=1, **asked, **common)
        else:
            asked = {"api": random.choice([0, 1, 2]), "view": 2, "error": 0}
            common["count"] = random.choice([None, 0, 1, 3])
            rows.add(Kind.EXCHANGE, "t1", node=1, type=1, client=random.choice(clients), op=number, **asked, **common)


@pytest.mark.parametrize("size", [0, 60])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_picked_is_what_comparing_everything_says(
    size: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named, of it, near; the nearest first, strangers last."""
    monkeypatch.setattr(candidate_rows, "SCANNED", 1000)
    rows, random = Rows(), Random(seed)
    bustle(rows, 0, random)
    bustle(rows, 1, random)
    for topic, oracle in enumerate((delivery, groups, idempotence, leadership, replicas, watermarks), start=2):
        rows.topics[topic] = f"t{topic}"
        oracle.write(rows, topic, random)
    asked = some_findings(rows, random)
    found = picked(rows, asked, size)["around"]
    as_told = {key: {(row["kind"], row["rank"], row["event"]) for row in of} for key, of in found.items()}
    assert as_told == slowly(rows, asked)
    assert all(len(as_told[key]) == len(of) for key, of in found.items())


def test_rows_that_belong_to_a_finding_are_never_told_as_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where there are more of them than are scanned."""
    monkeypatch.setattr(candidate_rows, "SCANNED", 3)
    rows, random = Rows(), Random(7)
    bustle(rows, 0, random)
    asked = some_findings(rows, random)
    near_ns, by_event = asked.near_ns(context(rows)), {row["event"]: (kind, row) for kind, row in all_rows(rows)}
    shown = {each.key: each for each in asked.findings}
    for key, of in picked(rows, asked)["around"].items():
        for row in of:
            found = belongs(*by_event[row["event"]], shown[key], near_ns)
            assert found is not None
            assert found[0] == row["rank"]


def test_operations_are_told_with_what_they_are() -> None:
    """As pages read them: since the history began, topics by name, long texts cut, nothing that is null."""
    rows = Rows()
    write(rows, 3, "p1 send a ─ ok @0 [1..2]\n t1 produce ─ @5 count 3 client app-4 detail x [2..3]")
    rows.events[Kind.EXCHANGE][0]["detail"] = "x" * 1000
    exchange, send = rows.events[Kind.EXCHANGE][0], rows.events[Kind.COMPLETE][0]
    finding = Finding("a", "t3", 0, 7, (send["value"],), (), (), 2 * 10**9, None, (), ())
    asked = context_request({"a": Anomaly("a", "", findings=[finding] * 4), "b": Anomaly("b", "")}, context(rows))
    assert [each.key for each in asked.findings] == ["a/0", "a/1", "a/2"]
    found = picked(rows, asked)["around"]
    assert found["a/0"] == found["a/2"]
    assert found["a/0"] == [
        {"kind": "complete", "rank": 1, "from": 0, "to": 10**9, "event": send["event"], "process": process_of("p1"),
         "f": 1, "type": 1, "partition": 0, "offset": 0, "value": send["value"], "topic": "t3"},
        {"kind": "exchange", "rank": 1, "from": 10**9, "to": 2 * 10**9, "event": exchange["event"],
         "process": process_of("t1"), "type": 1, "partition": 0, "offset": 5, "node": 1, "api": 0, "error": 0,
         "count": 3, "client": "app-4", "detail": "x" * 300, "topic": "t3"},
    ]  # fmt: skip


def test_findings_are_told_of_up_to_a_bound() -> None:
    """Of each anomaly the first three, without regard to what it is allowed to."""
    rows = Rows(topics={0: "t"})
    finding = Finding("a", "t", 0, 0, (), (), (), 1, 0, (), ())
    many = {str(n): Anomaly(str(n), "", findings=[finding] * 3) for n in range(50)}
    asked = context_request(many, context(rows))
    assert [len(asked.findings), asked.findings[-1].key, asked.findings[0].until] == [120, "39/2", 1]


REPLICAS = """
    p1 send a ─ ok @0 [1..2]
    p1 send b ─ ok @1 [2..3]
    s1 assign ─ ok @0 [26..27]
    s1 poll ─ @0:a @1:b [27..28]
    s1 replica ─ ok @2 end 2 [27..28]
    s2 assign ─ ok @0 [26..27]
    s2 poll ─ @0:a @1:a [27..28]
    s2 replica ─ ok @2 end 2 [27..28]
    s3 assign ─ ok @0 [26..27]
    s3 replica ─ ok @2 end 1 [27..28]
    s4 assign ─ ok @0 [26..27]
    s4 poll ─ @0:a [27..28]
    s4 replica ─ ok @1 end 2 [27..28]
    s4 assign ─ ok @0 [28..29]
    s4 replica ─ ok @2 end 2 [28..29]
"""


@pytest.mark.parametrize("size", [0, 60])
def test_what_replicas_have_is_told_node_by_node(size: int) -> None:
    """A record of its values, another one at its offset, nothing; or nobody got there. The last read counts."""
    rows = Rows()
    write(rows, 0, REPLICAS)
    value = rows.events[Kind.COMPLETE][1]["value"]
    shown = ShownFinding("x/0", 0, 0, 1, (value,), (), 3 * 10**9, None, ())
    nowhere = ShownFinding("y/0", 0, 0, None, (value,), (), 3 * 10**9, None, ())
    found = picked(rows, ContextRequest((shown, nowhere)), size)["replicas"]
    assert found == {
        "x/0": [[1, "has it", [[value, 1]]], [2, "another record", []], [3, "not looked at", []],
                [4, "nothing there", []]],
    }  # fmt: skip


@pytest.mark.parametrize("size", [0, 60])
@pytest.mark.parametrize("seed", range(5))
def test_witnesses_are_the_appends_around_an_offset(size: int, seed: int) -> None:
    """With moments that are what a loop over everything that lies below says."""
    rows, random = Rows(), Random(seed)
    rows.topics[0] = "t0"
    for number in range(300):
        time = random.randint(1, 1000) * 10**6
        common = {"time": time, "invoked": time - random.randint(0, 10**6), "topic": 0, "partition": number % 2}
        offset = random.randint(-1, 60)
        if number % 3:
            type_ = random.choice([Type.OK, Type.OK, Type.INFO])
            rows.add(Kind.COMPLETE, "p1", f=F.SEND, type=type_, value=number, op=number, offset=offset, **common)
        else:
            api = {"api": 2, "view": random.choice([2, 2, 3]), "error": random.choice([0, 0, 6]), "node": 1}
            kind, who, more = random.choice([(Kind.PROBE, "n1", {}), (Kind.EXCHANGE, "t1", {"type": 1})])
            rows.add(kind, who, offset=offset, **api, **more, **common)
    windows = {(0, 0): (window_around(30), window_around(50, 3)), (0, 1): (window_around(3),)}
    found = picked(rows, ContextRequest(witnesses=windows), size)["witness"]
    assert list(found) == ["t0-0", "t0-1"]
    first = context(rows).first_time_ns
    for (_, partition), of_place in windows.items():
        operations = found[f"t0-{partition}"]["operations"]
        known = log_operations(rows, partition)
        kept = [each for low, high in of_place for each in first_ones(known, low, high)]
        assert sorted((row["offset"], not row["end"], row["from"] + first, row["event"]) for row in operations) == (
            sorted((offset, not end, invoked, event) for offset, invoked, end, event in kept)
        )
        for row in operations:
            low = max(low for low, _ in of_place if low <= row["offset"])
            below = [
                invoked
                for offset, invoked, end, event in known
                if (offset, not end, invoked, event)
                <= (row["offset"], not row["end"], row["from"] + first, row["event"])
                and (offset < low or (offset, invoked, end, event) in kept)
            ]
            assert row["point"] + first == max([first, *below])


def first_ones(known: list[tuple[int, int, bool, int]], low: int, high: int) -> list[tuple[int, int, bool, int]]:
    """Of a window, as many as are kept."""
    inside = [each for each in known if low <= each[0] <= high]
    return sorted(inside, key=lambda each: (each[0], each[3]))[: 2 * (high - low) + 2]


def log_operations(rows: Rows, partition: int) -> list[tuple[int, int, bool, int]]:
    """Offset, invocation, whether it is an end, and the event."""
    sends = [
        (row["offset"], row["invoked"], False, row["event"])
        for row in rows.events[Kind.COMPLETE]
        if row["type"] == Type.OK and row["offset"] >= 0 and row["partition"] == partition
    ]
    ends: dict[int, tuple[int, int]] = {}
    for row in (*rows.events[Kind.PROBE], *rows.events[Kind.EXCHANGE]):
        if row["error"] == 0 and row["view"] == 2 and row["offset"] >= 0 and row["partition"] == partition:
            ends[row["offset"]] = max(ends.get(row["offset"], (0, 0)), (row["invoked"], row["event"]))
    return [*sends, *((offset, invoked, True, event) for offset, (invoked, event) in ends.items())]


def test_a_history_without_any_of_it_says_nothing() -> None:
    """No rows, no findings, or findings of things that are not there."""
    rows = Rows(topics={0: "t"})
    nothing: dict[str, Any] = {"around": {}, "replicas": {}, "witness": {}}
    assert picked(rows, ContextRequest()) == nothing
    assert merge_context([], ContextRequest(), context(rows)) == nothing
    shown = ShownFinding("x/0", None, None, None, (), (), None, None, ())
    assert picked(rows, ContextRequest((shown,))) == nothing
    write(rows, 0, "p1 send a ─ ok @0\n n1 list ─ @1\n t1 list ─ @1")
    assert picked(rows, ContextRequest((shown,))) == nothing
    assert picked(rows, ContextRequest())["around"] == {}


def test_a_finding_without_a_moment_has_what_comes_first() -> None:
    """Of its values."""
    rows = Rows()
    write(rows, 0, "\n".join(["p1 send a ─ ok @0", *(f"c1 poll ─ @0:a [{n}..{n + 1}]" for n in range(40, 20, -1))]))
    value = rows.events[Kind.COMPLETE][0]["value"]
    found = picked(rows, ContextRequest((ShownFinding("x/0", None, None, None, (value,), (), None, None, ()),)))
    read = [row["to"] // 10**9 for row in found["around"]["x/0"] if row["kind"] == "record"]
    assert read == list(range(22, 32))


def slow_nearest(rows: Sequence[tuple[int, int, int]], key: int, moment: int, most: int) -> set[int]:
    """Numbers of rows."""
    mine = [(n, time, event) for n, (of, time, event) in enumerate(rows) if of == key]
    after = sorted((time - moment, event, n) for n, time, event in mine if time >= moment)
    before = sorted((moment - time, event, n) for n, time, event in mine if time <= moment)
    return {n for _, _, n in (*after[:most], *before[:most])}


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_rows_of_a_key_are_found(seed: int) -> None:
    """On both sides of a moment."""
    random = Random(seed)
    rows = [(random.randint(0, 3), random.randint(0, 9), event) for event in range(random.randint(0, 60))]
    questions = [(random.randint(0, 5), random.randint(-2, 12)) for _ in range(20)]
    keys, times, events = np.array(rows, np.int64).reshape(-1, 3).T
    asked, moments = np.array(questions, np.int64).T
    found = RowsByKey(keys, times, events).nearest(asked, moments, 4)
    for number, (key, moment) in enumerate(questions):
        mine = {int(row) for row, question in zip(*found, strict=True) if question == number}
        assert mine == slow_nearest(rows, key, moment, 4)


@pytest.mark.parametrize("seed", range(20))
def test_questions_between_two_numbers_are_found(seed: int) -> None:
    """Of the same place only."""
    random = Random(seed)
    questions = [(random.randint(0, 3), random.randint(0, 9)) for _ in range(random.randint(0, 20))]
    rows = [(random.randint(-1, 5), low := random.randint(-2, 10), low + random.randint(-1, 4)) for _ in range(30)]
    places, numbers = np.array(questions, np.int64).reshape(-1, 2).T
    shelf = SortedQueries.of(places, numbers, np.arange(len(questions)))
    first, end = shelf.between(*np.array(rows, np.int64).T)
    for (place, low, high), a, b in zip(rows, first.tolist(), end.tolist(), strict=True):
        expected = {n for n, (of, number) in enumerate(questions) if of == place and low <= number <= high}
        assert set(shelf.query[a:b].tolist()) == expected


@pytest.mark.parametrize("size", [0, 7])
def test_witnesses_need_only_their_own_columns(size: int) -> None:
    """Of a history in which nothing was found no records are read, and no texts."""
    rows = Rows()
    for topic in range(5):
        rows.topics[topic] = f"t{topic}"
        linearizability.write(rows, topic, Random(topic))
    asked = ContextRequest((), {(topic, 0): (window_around(3),) for topic in range(5)})
    run, wanted = context(rows), columns_for(asked)
    assert set(wanted) == {"sends", "probes", "exchanges"}
    parts = [
        find_context(Piece({table: piece[table].select(*wanted[table], "era") for table in wanted}, run), asked, run)
        for piece in pieces(rows, run, size)
    ]
    told = merge_context(parts, asked, run)
    assert told == picked(rows, asked, size)
    assert any(each["operations"] for each in told["witness"].values())
