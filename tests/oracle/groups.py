"""Groups and what they commit, by the words of the modules of `checkers.groups` and of `checkers.commits`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from random import Random
from typing import Any

from checkers.core.results import Finding
from harness.history.schema import F, Kind, Type
from tests.oracle import Event, Told, compacted
from tests.oracle.common import deleted_topics, operations, reads_uncommitted, records
from tests.oracle.model_group import OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT, make_up
from tests.support.histories import SECOND_NS, Rows

ANOMALIES = frozenset(
    {
        "committed-offset-regression", "committed-offset-vanished", "committed-beyond-read", "double-ownership",
        "rebalance-loss",
    }
)  # fmt: skip
FOR_EVER = float("inf")
KNOWN_NS = 10 * SECOND_NS
SETTLING_NS = 2 * SECOND_NS
Place = tuple[str, int, int]  # a group, a topic and a partition


def write(rows: Rows, topic: int, random: Random) -> None:
    """A group."""
    make_up(rows, topic, random)


def find(rows: Rows) -> Iterator[Told]:
    """All that is wrong with groups."""
    deleted = deleted_topics(rows)
    yield from _answers(rows, deleted)
    yield from _beyond(rows, deleted)
    yield from _skipped(rows, deleted)
    yield from _owned_twice(rows, deleted)


def _placed(events: Iterable[Event], group: str, deleted: set[int | None]) -> dict[Place, list[Event]]:
    """By group and place; what has none is left out."""
    places: dict[Place, list[Event]] = defaultdict(list)
    for event in events:
        names = (event.get(group), event.get("topic"), event.get("partition"))
        if None not in names and event.get("topic") not in deleted:
            places[names].append(event)  # type: ignore[index]
    return places


def _finding(anomaly: str, place: Place, **evidence: Any) -> Told:
    names = ("offset", "values", "time", "until", "events", "tags", "count")
    group, topic, partition = place
    return (anomaly, topic, partition, group, *(evidence.get(name, ()) for name in names))


def _answers(rows: Rows, deleted: set[int | None]) -> Iterator[Told]:
    """Answers of groups that do not go with what was committed."""
    done = _placed(operations(rows, F.COMMIT, F.COMMITTED), "name", deleted)
    seen = _placed(rows.events[Kind.EXCHANGE], "detail", deleted)
    for place in done.keys() | seen.keys():
        commits: list[tuple[Event, bool, float]] = []  # each with whether it was acknowledged, and its end
        answers: list[tuple[Event, bool]] = []  # each with whether it waits for no transaction
        for event in done.get(place, []):
            if event["f"] == F.COMMIT:
                acknowledged = event["type"] == Type.OK
                if event["type"] != Type.FAIL:
                    commits.append((event, acknowledged, event["time"] if acknowledged else FOR_EVER))
            elif event["type"] == Type.OK:
                answers.append((event, reads_uncommitted(rows, event["process"])))
        for event in seen.get(place, []):
            acknowledged = event["type"] == Type.OK and event.get("error") == 0
            if event["api"] == OFFSET_FETCH and acknowledged:
                answers.append((event, True))
            elif event["api"] in {OFFSET_COMMIT, TXN_OFFSET_COMMIT} and event["type"] != Type.FAIL:
                acknowledged = acknowledged and event["api"] == OFFSET_COMMIT
                commits.append((event, acknowledged, event["time"] if acknowledged else FOR_EVER))
        usable = [
            commit for commit in commits if (commit[0].get("offset") or 0) >= 0 and commit[0].get("offset") is not None
        ]
        told = [each for each in answers if each[0].get("offset") is not None]
        yield from _wrong_answers(place, usable, told, steady=_steady(seen.get(place, [])))


def _steady(exchanges: list[Event]) -> bool:
    """Whether one node alone acknowledged commits and answered."""
    nodes = {
        event.get("node")
        for event in exchanges
        if event["api"] in {OFFSET_COMMIT, OFFSET_FETCH} and event["type"] == Type.OK and event.get("error") == 0
    }
    return len(nodes) == 1 and None not in nodes


def _wrong_answers(
    place: Place, commits: list[tuple[Event, bool, float]], answers: list[tuple[Event, bool]], *, steady: bool
) -> Iterator[Told]:
    wrong: dict[tuple[str, tuple[str, ...]], list[tuple[Event, Event]]] = defaultdict(list)
    for answer, loose in answers:
        before = [event for event, acknowledged, _ in commits if acknowledged and event["time"] < answer["invoked"]]
        if not before:
            continue
        last = max(before, key=lambda event: (event["invoked"], event["offset"], event["time"], event["event"]))
        tags: tuple[str, ...] = ("transaction",) if loose and last.get("txn") is not None else ()
        if not steady and answer["invoked"] <= last["time"] + KNOWN_NS:
            tags += ("moved",)
        explained = any(
            event["offset"] == answer["offset"] and event["invoked"] <= answer["time"] and until >= last["invoked"]
            for event, _, until in commits
        )
        if answer["offset"] < 0:
            wrong["committed-offset-vanished", tags].append((answer, last))
        elif answer["offset"] < last["offset"] and not explained:
            wrong["committed-offset-regression", tags].append((answer, last))
    for (anomaly, told), found in wrong.items():
        answer, last = min(found, key=lambda each: (each[0]["time"], each[0]["event"]))
        yield _finding(
            anomaly, place, offset=last["offset"], time=last["time"], until=answer["time"],
            events=(last["event"], answer["event"]), tags=told, count=len(found),
        )  # fmt: skip


def _groups(rows: Rows) -> dict[int, set[str]]:
    """By process the groups that it ever subscribed to."""
    groups: dict[int, set[str]] = defaultdict(set)
    for event in operations(rows, F.SUBSCRIBE):
        if event.get("name") is not None:
            groups[event["process"]].add(event["name"])
    return groups


def _reads(rows: Rows, deleted: set[int | None]) -> dict[tuple[int, int], list[Event]]:
    """Records by partition, where offsets stay what they are."""
    places: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in records(rows):
        names = (event.get("topic"), event.get("partition"), event.get("offset"))
        if None not in names and names[0] not in deleted and not compacted(rows, names[0]):
            places[event["topic"], event["partition"]].append(event)
    return places


def _beyond(rows: Rows, deleted: set[int | None]) -> Iterator[Told]:
    """Commits above what the group had been handed."""
    groups, reads = _groups(rows), _reads(rows, deleted)
    marked = {event.get("topic") for event in operations(rows, F.SEND) if event.get("txn") is not None}
    for place, commits in _placed(operations(rows, F.COMMIT), "name", deleted).items():
        group, topic, partition = place
        if topic in marked or compacted(rows, topic):
            continue
        mine = [event for event in reads.get((topic, partition), []) if group in groups[event["process"]]]
        highest: dict[int, Event] = {}  # commit of each second
        for event in commits:
            if event["type"] == Type.OK and event.get("offset") is not None:
                second = event["time"] // SECOND_NS
                known = highest.get(second, event)
                highest[second] = max(known, event, key=lambda each: (each["offset"], -each["time"], -each["event"]))
        wrong = []
        for second, commit in highest.items():
            handed = [event["offset"] for event in mine if _handed_at(event) // SECOND_NS <= second]
            if handed and commit["offset"] > 1 + max(handed):
                wrong.append(commit)
        if wrong:
            one = min(wrong, key=lambda event: (event["time"], event["event"]))
            events = (one["event"],)
            yield _finding(
                "committed-beyond-read", place, offset=one["offset"], time=one["time"], events=events, count=len(wrong)
            )


def _handed_at(record: Event) -> int:
    """The earliest moment at which its reader may have had it."""
    invoked = record.get("invoked")
    return int(record["time"] if invoked is None else invoked)


def _skipped(rows: Rows, deleted: set[int | None]) -> Iterator[Told]:
    """Acknowledged records that a group went past."""
    groups = _groups(rows)
    sends: dict[tuple[int, int, int], list[Event]] = defaultdict(list)
    for event in operations(rows, F.SEND):
        names = (event.get("topic"), event.get("partition"), event.get("offset"))
        if event["type"] == Type.OK and None not in names:
            sends[names].append(event)  # type: ignore[index]
    killed = [
        event
        for event in operations(rows, F.POLL)
        if event["type"] == Type.INFO and event.get("count") is None and event.get("invoked") is not None
    ]
    held = _held(rows)
    for (topic, partition), reads in _reads(rows, deleted).items():
        for group in {group for event in reads for group in groups[event["process"]]}:
            inside = [event for event in reads if group in groups[event["process"]]]
            outside = [event for event in reads if group not in groups[event["process"]]]
            polls = [
                event["invoked"]
                for event in killed
                if group in groups[event["process"]]
                and held.get(event["process"], {}).get(
                    (topic, partition), event["process"] not in held and event["process"] in _readers(inside)
                )
            ]
            mine = sorted({event["offset"] for event in inside})
            lost: dict[tuple[str, ...], list[tuple[int, Event]]] = defaultdict(list)
            for offset in range(mine[0], mine[-1]):
                readers = [event["process"] for event in outside if event["offset"] == offset]
                acknowledged = sends.get((topic, partition, offset), [])
                certain = any(
                    event.get("txn") is None or not reads_uncommitted(rows, reader)
                    for event in acknowledged
                    for reader in readers
                )
                if certain and offset not in mine:
                    in_hand = any(_in_hand(offset, poll, inside) for poll in polls)
                    send = min(acknowledged, key=lambda event: (event["time"], event["event"]))
                    lost[("open poll",) if in_hand else ()].append((offset, send))
            for tags, found in lost.items():
                offset, send = found[0]
                yield _finding(
                    "rebalance-loss", (group, topic, partition), offset=offset, values=(send["value"],),
                    time=send["time"], events=(send["event"],), tags=tags, count=len(found),
                )  # fmt: skip


def _readers(records: list[Event]) -> set[int]:
    return {event["process"] for event in records}


def _held(rows: Rows) -> dict[int, dict[tuple[int, int], bool]]:
    """By process that was given any partition, and by place that it was given, whether it was not taken since."""
    held: dict[int, dict[tuple[int, int], bool]] = defaultdict(dict)
    for event in sorted(operations(rows, F.ASSIGN, F.REVOKE), key=lambda event: event["event"]):
        place = (event.get("topic"), event.get("partition"))
        if None in place:
            continue
        if event["f"] == F.ASSIGN and _counts(event):
            held[event["process"]][place] = True  # type: ignore[index]
        elif event["f"] == F.REVOKE and place in held.get(event["process"], {}):
            held[event["process"]][place] = False
    return held


def _in_hand(offset: int, poll: int, inside: list[Event]) -> bool:
    """Whether the group went past it only after that poll, and was there when it was invoked, or soon after it."""
    low = max(event["offset"] for event in inside if event["offset"] < offset)
    since = min(_handed_at(event) for event in inside if event["offset"] == low)
    above = [_handed_at(event) for event in inside if event["offset"] > offset]
    return since <= poll + SETTLING_NS and min(above) > poll


def _owned_twice(rows: Rows, deleted: set[int | None]) -> Iterator[Told]:
    """Partitions that two members of a group had at once."""
    for place, events in _placed(operations(rows, F.ASSIGN, F.REVOKE), "name", deleted).items():
        ordered = sorted(
            (event for event in events if event.get("member") is not None and _counts(event)),
            key=lambda event: (event["time"], event["event"]),
        )
        given = [number for number, event in enumerate(ordered) if event["f"] == F.ASSIGN]
        for number, then in pairwise(given):
            first, second = ordered[number], ordered[then]
            after = next((event for event in ordered[number + 1 :] if event["member"] == first["member"]), None)
            if after is None or after["f"] != F.REVOKE or first["member"] == second["member"]:
                continue
            tag = _overlap(_generation(first), _generation(after), _generation(second), after["type"])
            if second["time"] < after["invoked"] and tag:
                ids = (first["event"], after["event"], second["event"])
                times = {"time": first["time"], "until": second["time"]}
                yield _finding("double-ownership", place, offset=None, events=ids, tags=(tag,), count=None, **times)


def _counts(event: Event) -> bool:
    return event["f"] == F.REVOKE or (event["type"] == Type.OK and event.get("offset") is None)


def _generation(event: Event) -> int | None:
    generation = event.get("generation")
    return None if generation is None or generation < 0 else int(generation)


def _overlap(first: int | None, revoked: int | None, second: int | None, type_: Type) -> str:
    """Why the first assignment was still good when the second was made; nothing if it need not have been."""
    if first is None or second is None:
        return "generation unknown" if type_ == Type.OK else ""
    last = first if revoked is None or type_ != Type.OK else revoked
    return "one generation" if first <= second <= last else ""


def key(finding: Finding, topic: int | None) -> Told:
    """What the kernels found."""
    facts = finding.facts
    until = () if finding.until_ns is None else finding.until_ns
    counted = next((facts[name] for name in ("times", "seconds", "lost") if name in facts), None)
    return (
        finding.anomaly, topic, finding.partition, facts["group"], finding.offset, finding.values, finding.time_ns,
        until, finding.events, finding.tags, counted,
    )  # fmt: skip
