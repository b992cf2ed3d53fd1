"""Spark and a slow, obvious implementation of the same definitions find the same, in histories nobody thought of.

Many small histories are checked in one job, each in a topic of its own.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.engine import check
from checkers.frame import History, tally
from checkers.watermarks import SETTLING_NS, WATERMARKS
from harness.history import F, Kind, Status, Type, View
from tests.histories import ROLES, SECOND_NS, Rows, spark_session, value_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LETTERS = "abcdx"  # nobody sends x
HISTORIES = 300
SEE_ABORTED = {ROLES[who][1] + 1 for who in "uw"}  # the processes u1 and w1
Event = dict[str, Any]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """One session for all."""
    with spark_session() as session:
        yield session


def _event(random: Random, what: str) -> Event:
    """Small numbers, so that events have to do with each other."""
    invoked = random.randint(0, 24)
    event: Event = {"what": what, "when": (invoked, invoked + random.randint(1, 4)), "partition": random.randint(0, 1)}
    if what == "send":
        event |= {"name": random.choice("abcd"), "type": random.choice([1, 1, 1, 1, 2, 3])}
        event |= {"offset": random.choice([None, -1, 0, 0, 0, 1, 2, 3]), "txn": random.choice([None, None, 1])}
    elif what == "read":
        event |= {"name": random.choice(LETTERS), "status": random.choice([0, 0, 0, 0, 0, 1, 2, 3])}
        event |= {"offset": random.randint(0, 4), "who": random.choice(["c1", "c2", "r1", "u1", "w1"])}
    elif what == "final":
        event |= {"type": random.choice([1, 1, 3]), "when": (invoked + 10, invoked + 11)}
    else:
        event |= {"api": random.choice([1, 1, 2, 2, 3]), "node": random.randint(1, 3), "shown": random.randint(0, 4)}
        event |= {"start": random.choice([0, 0, 0, 2]), "error": random.choice([0, 0, 0, 6])}
        event |= {
            "epoch": random.choice([None, 1, 2]),
            "version": random.choice([10, 12]),
            "type": random.choice([1, 1, 3]),
        }
    return event


def _history(random: Random) -> list[Event]:
    """One with a lot of sends, of reads, of answers or of everything."""
    kinds = random.choice(
        [
            ["send", "final"],
            ["send", "read", "final"],
            ["probe"],
            ["exchange"],
            ["probe", "exchange"],
            ["send", "read", "final", "probe", "exchange"],
        ]
    )
    return [_event(random, random.choice(kinds)) for _ in range(random.randint(4, 16))]


def _home(name: str) -> int:
    return LETTERS.index(name) % 2


def _write(rows: Rows, topic: int, events: list[Event]) -> None:
    rows.topics[topic] = f"t{topic}"
    sent = set()
    for event in events:
        invoked, time = (second * SECOND_NS for second in event["when"])
        common = {"topic": topic, "invoked": invoked, "time": time}
        if event["what"] == "send" and event["name"] not in sent:
            sent.add(event["name"])
            value = value_of(topic, event["name"], 1)
            rows.add(
                Kind.COMPLETE, "p1", f=F.SEND, op=value, value=value, partition=_home(event["name"]),
                type=event["type"], offset=event["offset"] if event["type"] == Type.OK or event["txn"] else None,
                txn=event["txn"], **common,
            )  # fmt: skip
        elif event["what"] == "send":
            continue
        elif event["what"] == "read":
            known = event["status"] in {Status.GOOD, Status.MISROUTED}
            partition = _home(event["name"]) ^ (event["status"] == Status.MISROUTED)
            rows.add(
                Kind.RECORD, event["who"], partition=partition, offset=event["offset"], status=event["status"],
                value=value_of(topic, event["name"], 1) if known else None, **common,
            )  # fmt: skip
        elif event["what"] == "final":
            rows.add(
                Kind.COMPLETE,
                "r1",
                f=F.FINAL,
                partition=event["partition"],
                type=event["type"],
                offset=1,
                end=1,
                **common,
            )
        else:
            _write_answer(rows, event, common)


def _write_answer(rows: Rows, event: Event, common: dict[str, int]) -> None:
    shown = {
        1: {"high_watermark": event["shown"], "log_start": event["start"]},
        2: {"offset": event["shown"], "view": View.LATEST},
        3: {"leader_epoch": event["shown"]},
    }[event["api"]]
    names = ["api", "node", "partition", "error"]
    if event["what"] == "exchange":
        names.append("type")
        told = {"leader_epoch": event["epoch"]} if event["api"] in {1, 2} else {}
        shown |= {"api_version": event["version"], **told}
    kind, who = (Kind.EXCHANGE, "t1") if event["what"] == "exchange" else (Kind.PROBE, "n1")
    rows.add(kind, who, **{name: event[name] for name in names}, **shown, **common)


def _same(one: Event, other: Event) -> bool:
    return bool((one["topic"], one["partition"]) == (other["topic"], other["partition"]))


def _counts(record: Event, send: Event) -> bool:
    """Whether a read says something about a send: of what is in a transaction only those of committed records do."""
    return send["txn"] is None or record["process"] not in SEE_ABORTED


def _usable(send: Event) -> bool:
    return send["type"] == Type.OK and send["offset"] is not None and send["offset"] >= 0


def _of_acknowledgements(rows: Rows) -> set[tuple[Any, ...]]:
    """Lost writes, lost tails and false acknowledgements, word by word: anomaly, topic, values, offset."""
    finals = [row for row in rows.events[Kind.COMPLETE] if row["f"] == F.FINAL and row["type"] == Type.OK]
    records = rows.events[Kind.RECORD]
    starts = [probe for probe in rows.events[Kind.PROBE] if probe["api"] == 1 and not probe["error"]]
    found: set[tuple[Any, ...]] = set()
    for send in rows.events[Kind.COMPLETE]:
        if send["f"] != F.SEND or send["type"] != Type.OK:
            continue
        told = (send["topic"], (send["value"],), send["offset"])
        counted = [row for row in records if _counts(row, send)]
        reached = max((row["offset"] for row in counted if _same(row, send)), default=-1)
        ended = any(_same(final, send) and final["invoked"] >= send["time"] for final in finals)
        if send["value"] not in {row["value"] for row in counted}:
            if _usable(send) and send["offset"] <= reached:
                found.add(("lost-write", *told))
            elif ended:
                found.add(("lost-tail" if _usable(send) else "lost-write", *told))
        before = [probe for probe in starts if _same(probe, send) and probe["time"] < send["invoked"]]
        if not _usable(send) or any(probe["log_start"] > send["offset"] for probe in before):
            found.add(("false-ack", *told))
    return found


def _of_values(rows: Rows) -> set[tuple[Any, ...]]:
    """Phantoms, aborted reads and duplicates."""
    sent = {row["value"]: row for row in rows.events[Kind.COMPLETE] if row["f"] == F.SEND}
    good = [row for row in rows.events[Kind.RECORD] if row["status"] == Status.GOOD]
    found: set[tuple[Any, ...]] = set()
    read = {row["value"] for row in rows.events[Kind.RECORD] if row["value"] is not None}
    for value in read | set(sent):
        told = [row for row in [*good, *filter(_usable, sent.values())] if row["value"] == value]
        offsets = {row["offset"] for row in told}
        topic = next((row["topic"] for row in [*told, *sent.values()] if row["value"] == value), None)
        where = (topic, (value,), min(offsets, default=None))
        if value in read and value not in sent:
            found.add(("phantom", *where))
        if value in sent and sent[value]["type"] == Type.FAIL:
            readers = [row for row in rows.events[Kind.RECORD] if row["value"] == value]
            if any(_counts(row, sent[value]) for row in readers):
                found.add(("aborted-read", *where))
        if len(offsets) > 1:
            found.add(("duplicate", *where))
    return found


def _of_offsets(rows: Rows) -> set[tuple[Any, ...]]:
    """Inconsistent and shared offsets, noughts acknowledged too often, and records that say what is wrong with them."""
    acknowledged: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    holds: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    wrong: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for send in rows.events[Kind.COMPLETE]:
        if send["f"] == F.SEND and _usable(send):
            acknowledged[send["topic"], send["partition"], send["offset"]].add(send["value"])
            holds[send["topic"], send["partition"], send["offset"]].add(send["value"])
    names = {Status.CORRUPT: "corrupt", Status.MISROUTED: "misrouted", Status.FOREIGN: "phantom"}
    for row in rows.events[Kind.RECORD]:
        place, values = (row["topic"], row["partition"], row["offset"]), {row["value"]} - {None}
        holds[place] |= values
        if row["status"] != Status.GOOD:
            wrong[names[row["status"]], *place] |= values
    found: set[tuple[Any, ...]] = set()
    for anomaly, at_least, places in (
        ("inconsistent-offset", 2, holds),
        ("shared-offset", 2, acknowledged),
        ("false-ack", 3, {place: values for place, values in acknowledged.items() if place[2] == 0}),
    ):
        found |= {
            (anomaly, topic, (min(values), max(values)), offset)
            for (topic, _, offset), values in places.items()
            if len(values) >= at_least
        }
    return found | {
        (name, topic, (max(values),) if values else (), offset) for (name, topic, _, offset), values in wrong.items()
    }


def _answers(rows: Rows) -> Iterator[Event]:
    """Answers, with the nodes that they may be compared with and the leader epoch that they tell."""
    for row in rows.events[Kind.PROBE]:
        if not row["error"]:
            yield {**row, "scope": "everywhere", "told": None}
    for row in rows.events[Kind.EXCHANGE]:
        if not row["error"] and row["type"] == Type.OK:
            told = row["leader_epoch"] if row["api"] in {1, 2} else None
            of_leader = told is not None and row["api"] == 1 and row["api_version"] == 10
            yield {**row, "scope": "everywhere" if of_leader else row["node"], "told": told}


def _change(answer: Event, higher: Event) -> str:
    """What lies between answers of two eras."""
    told = None not in (answer["told"], higher["told"])
    return "older epoch" if told and higher["told"] > answer["told"] else "epoch rose"


def _regressions(rows: Rows) -> set[tuple[Any, ...]]:
    """Every answer against every other: anomaly, topic, partition, node, tags, first moment."""
    answers: dict[tuple[Any, ...], list[Event]] = defaultdict(list)
    epochs: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for row in _answers(rows):
        place = (row["topic"], row["partition"])
        if row["api"] == 3:
            seen = epochs[place]
            seen[row["leader_epoch"]] = min(row["time"], seen.get(row["leader_epoch"], row["time"]))
        else:
            shown = row["high_watermark" if row["api"] == 1 else "offset"]
            answers[row["api"], *place, row["scope"]].append({**row, "shown": shown})
    first: dict[tuple[Any, ...], int] = {}
    for (api, topic, partition, _), all_answers in answers.items():
        rises = [seen for _, seen in sorted(epochs[topic, partition].items())][1:]

        def era(row: Event, rises: list[int] = rises) -> tuple[str, int] | None:
            if row["told"] is not None:
                return "told", row["told"]
            near = (row["invoked"] - SETTLING_NS, row["time"] + SETTLING_NS)
            if any(near[0] <= rise <= near[1] for rise in rises):
                return None
            return "seen", sum(bool(rise <= row["invoked"]) for rise in rises)

        for answer in all_answers:
            higher = [row for row in all_answers if row["time"] < answer["invoked"] and row["shown"] > answer["shown"]]
            if not higher:
                continue
            settled = [row for row in higher if era(answer) is not None and era(row) == era(answer)]
            most = max(settled or higher, key=lambda row: (row["shown"], row["time"], row["node"]))
            change = "one epoch" if settled else _change(answer, most)
            if answer["told"] is None and not epochs[topic, partition]:
                change = "epoch unknown"
            scope = "same node" if most["node"] == answer["node"] else "across nodes"
            name = "watermark-regression" if api == 1 else "end-offset-regression"
            key = (name, topic, partition, answer["node"], change, scope)
            first[key] = min(answer["time"], first.get(key, answer["time"]))
    return {(*key, time) for key, time in first.items()}


PLANTED = {
    "lost-write", "lost-tail", "false-ack", "phantom", "aborted-read", "duplicate", "inconsistent-offset",
    "shared-offset", "corrupt", "misrouted",
}  # fmt: skip


CHANGES = {"one epoch", "older epoch", "epoch rose", "epoch unknown"}
SCOPES = {"same node", "across nodes"}


def test_spark_finds_what_the_definitions_say(spark: SparkSession) -> None:
    """Finding by finding, in the same 300 histories every time, which have every anomaly among them."""
    assert _compare(spark, seed=0) == PLANTED | CHANGES | SCOPES


@pytest.mark.nightly
def test_spark_finds_what_the_definitions_say_in_more_histories(spark: SparkSession) -> None:
    """The same of 20 times as many, which have every anomaly among them when taken together."""
    sorts: set[str] = set()

    @settings(max_examples=20)
    @given(seed=st.integers(0, 2**32))
    def compare(seed: int) -> None:
        sorts.update(_compare(spark, seed))

    compare()
    assert sorts == PLANTED | CHANGES | SCOPES


def _compare(spark: SparkSession, seed: int) -> set[str]:
    """Both find the same in the histories of a seed: the sorts of what they found."""
    random = Random(seed)
    rows = Rows()
    for topic in range(HISTORIES):
        _write(rows, topic, _history(random))
    with tempfile.TemporaryDirectory() as directory:
        results = check(spark, rows.store(Path(directory)), limit=10_000)
    assert not results.failures
    findings = [finding for anomaly in results.anomalies.values() for finding in anomaly.findings]
    numbers = {name: number for number, name in rows.topics.items()} | {None: None}
    delivered = {
        (finding.anomaly, numbers[finding.topic], finding.values, finding.offset)
        for finding in findings
        if finding.anomaly in PLANTED
    }
    fallen = {
        (finding.anomaly, numbers[finding.topic], finding.partition, finding.nodes[-1], *finding.tags, finding.time_ns)
        for finding in findings
        if finding.anomaly not in PLANTED
    }
    assert delivered == _of_acknowledgements(rows) | _of_values(rows) | _of_offsets(rows)
    assert fallen == _regressions(rows)
    tags = {tag for finding in findings if finding.anomaly not in PLANTED for tag in finding.tags}
    return {name for name, *_ in delivered} | tags


@settings(max_examples=2)
@given(seed=st.integers(0, 2**32), chunk_rows=st.integers(2, 60))
def test_a_running_maximum_is_the_same_in_chunks(spark: SparkSession, seed: int, chunk_rows: int) -> None:
    """Wherever time is cut, the same answers have fallen."""
    random = Random(seed)
    rows = Rows()
    for topic in range(20):
        _write(rows, topic, [_event(random, random.choice(["probe", "exchange"])) for _ in range(20)])
    with tempfile.TemporaryDirectory() as directory:
        sealed = rows.store(Path(directory))
        whole, chunked = History(spark, sealed), History(spark, sealed, chunk_rows=chunk_rows)
        counts = [sorted(tally(WATERMARKS, h, WATERMARKS.rules).collect()) for h in (whole, chunked)]
        findings = [
            sorted(WATERMARKS.findings(h).select("anomaly", "topic", "partition", "nodes", "tags", "time").collect())
            for h in (whole, chunked)
        ]
    assert counts[0] == counts[1]
    assert findings[0]
    assert findings[0] == findings[1]
