"""Watermarks, every answer against every other: told by `checkers.watermarks.family`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

from checkers.core.results import Finding
from harness.history.schema import F, FaultStage, Kind, OffsetView, Type
from tests.oracle import Told, who
from tests.oracle.answers import (
    FETCH,
    LIST_OFFSETS,
    METADATA,
    SETTLING_NS,
    Answer,
    Epochs,
    Place,
    Rise,
    answers,
    deposed,
    epochs,
    faults,
    has_epoch,
    metadata,
    moves,
)
from tests.oracle.eras import UNSURE, Eras
from tests.support.histories import SECOND_NS, Rows, op_of

LSO_STUCK_NS = 30 * SECOND_NS
FAULT_ROWS = 6  # they are of all histories that are checked together
TRANSACTIONAL_APIS = {24, 26, 28}
ANOMALIES = frozenset(
    ["watermark-regression", "end-offset-regression", "lso-regression", "log-start-regression", "lso-above-hw",
     "lso-stuck"]
)  # fmt: skip
Mark = Callable[[Answer], int | None]


def write(rows: Rows, topic: int, random: Random) -> None:
    """Answers of a little cluster whose marks rise and leaders change, some of them wrong."""
    world = _World(random)
    if random.random() < 0.5:
        _write_transaction(rows, topic, world)
    if random.random() < 0.05:
        world.delete(rows, topic)
    if len(rows.events[Kind.FAULT]) < FAULT_ROWS and random.random() < 0.03:
        world.fault(rows, topic)
    for _ in range(random.randint(5, 20)):
        world.answer(rows, topic)


class _World:
    """One partition or two; what is true at a time follows from it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.unit = random.choice([1, SECOND_NS // 2, SECOND_NS, 5 * SECOND_NS, 5 * SECOND_NS])
        self.epochs = sorted(random.choices(range(30), k=random.choice([0, 0, 1, 2])))  # when leaders changed
        self.honest = random.choice([0.5, 0.85, 0.97])
        self.only = random.choice([None, "fetch", "list"])
        self.hanging = random.choice([None, random.randint(0, 4)])  # a transaction that never ends
        self.tells_epochs = random.random() < 0.8
        self.partitions = random.choice([1, 1, 2])

    def when(self, at: int) -> dict[str, int]:
        """From a moment on, for a while that may be no time at all."""
        random = self.random
        until = at + random.choice([0, 1, 1, 2, 4])
        nudge = random.choice([0, 0, 0, 0, -1, 1]) if self.unit > 1 else 0
        return {"invoked": at * self.unit, "time": max(at * self.unit, until * self.unit + nudge)}

    def epoch(self, at: int) -> int:
        """The leader epoch at a time, as those know it who learn of it at once."""
        return 1 + sum(change <= at for change in self.epochs)

    def delete(self, rows: Rows, topic: int) -> None:
        """The topic is deleted, and most often created again."""
        random, at = self.random, self.random.randint(3, 12)
        outcome = random.choice([Type.OK, Type.OK, Type.INFO, Type.FAIL])
        pool = who("k", 1, topic)
        rows.add(Kind.COMPLETE, pool, f=F.DELETE, type=outcome, topic=topic, **self.when(at))
        if random.random() < 0.8:
            rows.add(Kind.COMPLETE, pool, f=F.CREATE, type=Type.OK, topic=topic, **self.when(at + 3))

    def fault(self, rows: Rows, topic: int) -> None:
        """One that is undone after a while, and healed some time later, most often."""
        at, columns = self.random.randint(3, 20), {"fault": topic, "name": f"fault-{topic}"}
        for stage, after in ((FaultStage.INJECTED, 0), (FaultStage.UNDONE, 2), (FaultStage.HEALED, 5)):
            if stage == FaultStage.INJECTED or self.random.random() < 0.8:
                rows.add(Kind.FAULT, "x1", time=(at + after) * self.unit, stage=stage, **columns)

    def answer(self, rows: Rows, topic: int) -> None:
        """What one node says to a probe or a client."""
        random, at = self.random, self.random.randint(0, 30)
        tap = random.random() < 0.3
        knows = at if random.random() < 0.8 else at - 6  # one that does not know of its successor
        known = random.random() < self.honest
        leader = self.epoch(knows) % 3 + 1
        columns: dict[str, Any] = {
            "topic": topic,
            "partition": random.randrange(self.partitions),
            "node": leader if random.random() < 0.7 else random.randint(1, 3),
            "error": random.choice([0] * 14 + [6, None]),
            **self.when(at),
        }
        sort = "metadata" if random.random() < 0.2 else self.only or random.choice(["fetch", "fetch", "list"])
        epoch = self.epoch(knows) if random.random() < 0.9 else random.choice([-1, 1, 2, 3])
        told = {"leader_epoch": epoch} if self.tells_epochs or random.random() < 0.1 else {}
        end = max(0, knows // 3 + (0 if known else random.choice([-3, -2, -1, 1, 2])))
        stable: int | None = end if self.hanging is None else min(end, self.hanging)
        if not known:
            stable = random.choice([end, max(0, end - 1), end + 1, self.hanging, None])
        start = max(0, knows // 10 + (0 if known else random.choice([-1, 0, 1])))
        if sort == "fetch":
            marks: dict[str, int | None] = {"high_watermark": end, "last_stable_offset": stable, "log_start": start}
            for name in marks:
                if random.random() < 0.05:
                    marks[name] = random.choice([None, -1])
            columns |= {"api": FETCH, **marks, **told}
        elif sort == "list":
            view = random.choice([*OffsetView, OffsetView.LATEST, OffsetView.LATEST])
            offset = {OffsetView.EARLIEST: start, OffsetView.LATEST: end, OffsetView.LATEST_COMMITTED: stable}[view]
            columns |= {"api": LIST_OFFSETS, "view": view, "offset": offset, **told}
        else:
            columns |= {"api": METADATA, "leader": random.choice([leader] * 9 + [-1, None]), **told}
        if tap:
            number = random.randint(1, 3)
            op = random.choice([None, op_of(topic, "A") + random.randint(0, 20)]) if sort == "fetch" else None
            version = random.choice([9, 10, 10, 11, 12])
            seen = random.choice([Type.OK] * 8 + [Type.INFO, Type.FAIL])
            node = None if random.random() < 0.02 else number
            columns |= {"type": seen, "api_version": version, "op": op, "node": node}
            rows.add(Kind.EXCHANGE, who("t", number, topic), **columns)
        else:
            rows.add(Kind.PROBE, who("n", 1, topic), **columns)


def _write_transaction(rows: Rows, topic: int, world: _World) -> None:
    columns = {"f": F.TXN, "type": Type.OK, "op": op_of(topic, "T"), "topic": topic}
    rows.add(Kind.COMPLETE, who("p", 1, topic), **columns, **world.when(world.random.randint(0, 9)))


@dataclass(frozen=True)
class _Fall:
    """An answer that shows too little, and how that is told."""

    answer: Answer
    by: int
    tags: tuple[str, ...]


def find(rows: Rows) -> Iterator[Told]:
    """All of these anomalies."""
    eras = Eras(rows)
    all_answers, shown = list(answers(rows, eras)), epochs(rows, eras)
    moved, led = moves(rows, eras), _led(rows, eras)
    windows = [(fault.began, fault.whole) for fault in faults(rows)]
    compared: dict[tuple[Any, ...], list[Answer]] = defaultdict(list)
    for answer in all_answers:
        if answer.node is None and not answer.led:
            continue  # nobody knows whose it is
        compared[answer.api, answer.place, answer.life, answer.scope].append(answer)
    groups: dict[tuple[Any, ...], list[_Fall]] = defaultdict(list)
    for (api, place, life, _), mine in compared.items():
        known = Leaders(
            shown.get((place, life), {}), moved.get((place, life), ()), led.get((place, life), set()), windows
        )
        for anomaly, falls in _falls(api, mine, known):
            for fall in falls:
                groups[anomaly, api, place, life, fall.answer.node, fall.tags].append(fall)
    for (anomaly, _, (topic, partition), life, node, tags), falls in groups.items():
        more = ("deleted topic",) if life == UNSURE else ()
        number, first = len({fall.answer.number for fall in falls}), min(fall.answer.time for fall in falls)
        yield anomaly, topic, partition, node, tags + more, first, max(fall.by for fall in falls), number
    if any(row["f"] == F.TXN for row in rows.events[Kind.COMPLETE]) or any(
        row.get("api") in TRANSACTIONAL_APIS for row in rows.events[Kind.EXCHANGE]
    ):
        yield from _stuck(rows, all_answers, shown)


def _led(rows: Rows, eras: Eras) -> Mapping[tuple[Place, int], set[tuple[Any, int]]]:
    """Who was named as the leader of which epoch."""
    led: dict[tuple[Place, int], set[tuple[Any, int]]] = defaultdict(set)
    for life, row in metadata(rows, eras):
        if has_epoch(row):
            led[life].add((row.get("leader"), row["leader_epoch"]))
    return led


@dataclass(frozen=True)
class Leaders:
    """What is known of the leaders of a partition, and of faults."""

    shown: Epochs
    moved: Sequence[Rise]
    led: set[tuple[Any, int]]
    faults: Sequence[tuple[int, int]]

    @property
    def rises(self) -> list[Rise]:
        """What anybody saw change."""
        return [rise for epoch, rise in self.shown.items() if epoch > min(self.shown)] + list(self.moved)

    def era(self, answer: Answer) -> tuple[Any, ...] | None:
        """Under which leader it was given; None if nobody can say."""
        if answer.told is not None:
            return "told", answer.told
        changes = [rise for epoch, rise in self.shown.items() if epoch > 0] + list(self.moved)
        changes += self.rises
        begin, end = answer.invoked - SETTLING_NS, answer.time + SETTLING_NS
        if any(rise.since <= end and begin <= rise.seen for rise in changes):
            return None
        number = sum(rise.seen <= answer.invoked for rise in self.rises)
        return "seen", number, answer.node if self.rises else None

    def restarted(self, answer: Answer, higher: Answer) -> bool:
        """Whether a follower may have answered that restarted between the two."""
        known = [epoch for epoch, rise in self.shown.items() if rise.seen <= answer.invoked]
        epoch = max(known, default=None) if answer.told is None else answer.told
        between = any(max(higher.invoked, began) < min(answer.time, over) for began, over in self.faults)
        return not answer.led and between and (answer.node, epoch) not in self.led


def _falls(api: int, mine: Sequence[Answer], shown: Leaders) -> Iterator[tuple[str, list[_Fall]]]:
    """Those among answers that are compared with each other."""
    ends = "watermark-regression" if api == FETCH else "end-offset-regression"
    pairs: dict[str, tuple[Mark, Mark]] = {
        ends: (lambda a: a.shown, lambda a: a.shown),
        "lso-regression": (lambda a: a.stable, lambda a: a.stable),
        "log-start-regression": (lambda a: a.start, lambda a: a.start),
        "lso-above-hw": (lambda a: a.stable, lambda a: a.shown),
    }
    for anomaly, (raised, asked) in pairs.items():
        yield anomaly, [fall for answer in mine if (fall := _fall(answer, mine, raised, asked, shown))]
    if api == FETCH:
        yield "lso-above-hw", [fall for answer in mine if (fall := _above(answer))]


def _above(answer: Answer) -> _Fall | None:
    """Whether an answer contradicts itself."""
    if answer.stable is None or answer.shown is None or answer.stable <= answer.shown:
        return None
    return _Fall(answer, answer.stable - answer.shown, ("one answer",))


def _fall(answer: Answer, mine: Sequence[Answer], raised: Mark, asked: Mark, leaders: Leaders) -> _Fall | None:
    """Whether an answer that was over had shown more, and which leader that was."""
    mark = asked(answer)
    if mark is None:
        return None
    higher = [
        each for each in mine if each.time < answer.invoked and (before := raised(each)) is not None and before > mark
    ]
    if not higher:
        return None

    def most(among: Sequence[Answer]) -> Answer:
        return max(among, key=lambda a: (raised(a), a.time, -1 if a.node is None else a.node, a.event))

    era = leaders.era(answer)
    same_era = [each for each in higher if era is not None and leaders.era(each) == era]
    than = most(same_era or higher)
    if same_era and answer.told is None and not leaders.shown:
        change = "epoch unknown"
    elif same_era and leaders.restarted(answer, than):
        change = "restarted"
    elif same_era:
        change = "one epoch"
    elif than.told is not None and answer.told is not None and than.told > answer.told:
        change = "older epoch"
    else:
        change = "epoch rose"
    scope = "same node" if than.node == answer.node is not None else "across nodes"
    by = raised(than)
    assert by is not None
    return _Fall(answer, by - mark, (change, scope))


def _stuck(rows: Rows, all_answers: Sequence[Answer], shown: Mapping[Any, Epochs]) -> Iterator[Told]:
    """Last stable offsets that stand below the watermark."""
    standing: dict[tuple[Any, ...], list[Answer]] = defaultdict(list)
    for each in all_answers:
        if each.api == FETCH and each.stable is not None and each.shown is not None and each.stable < each.shown:
            standing[each.place, each.life, each.node, each.told, each.stable].append(each)
    windows = [(fault.began, fault.whole) for fault in faults(rows)]
    for (place, life, node, told, stable), mine in standing.items():
        first, last = min(each.time for each in mine), max(each.invoked for each in mine)
        if last > first and _outside(first, last, windows) >= LSO_STUCK_NS:
            old = ["older epoch"] if deposed(shown.get((place, life), {}), told, last) else []
            tags = [*old, *(["deleted topic"] if life == UNSURE else [])]
            yield "lso-stuck", *place, node, tuple(tags), first, stable, max(each.time for each in mine)


def _outside(first: int, last: int, windows: Sequence[tuple[int, int]]) -> int:
    """How much of a span lies outside of windows."""
    bounds = sorted({first, last, *(min(max(at, first), last) for window in windows for at in window)})
    return sum(
        end - start
        for start, end in pairwise(bounds)
        if not any(begun <= start and end <= ended for begun, ended in windows)
    )


def key(finding: Finding, topic: int | None) -> Told:
    """The widest fall and the number of answers are facts."""
    facts = finding.facts
    place = (finding.anomaly, topic, finding.partition, facts.get("node"), finding.tags, finding.time_ns)
    if finding.anomaly == "lso-stuck":
        return *place, finding.offset, finding.until_ns
    return *place, facts["shown_before"] - facts["shown"], facts["answers"]
