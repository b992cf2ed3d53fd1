"""What nodes answered, as `checkers.core.node_answers` tells it, and when faults lasted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.history.schema import FaultStage, Kind, OffsetView, Type
from tests.oracle import Event
from tests.oracle.eras import Eras
from tests.support.histories import SECOND_NS, Rows

FETCH, LIST_OFFSETS, METADATA = 1, 2, 3
SETTLING_NS = 2 * SECOND_NS
EVERYWHERE = "everywhere"
Place = tuple[int | None, int | None]
LONG_AGO = -(1 << 62)


@dataclass(frozen=True)
class Rise:
    """When a leader epoch was shown first, and since when it may have been there."""

    seen: int
    since: int


Epochs = Mapping[int, Rise]


@dataclass(frozen=True)
class Answer:
    """An answer to Fetch or ListOffsets; a Fetch has a row for each batch, with one number."""

    api: int
    place: Place
    life: int
    scope: object  # answers that are compared with each other
    led: bool
    number: tuple[Kind, int]
    node: int | None
    invoked: int
    time: int
    event: int
    shown: int | None
    stable: int | None
    start: int | None
    told: int | None


def answers(rows: Rows, eras: Eras) -> Iterator[Answer]:
    """All of them."""
    for kind in (Kind.PROBE, Kind.EXCHANGE):
        for row in rows.events[kind]:
            if _answered(kind, row) and row.get("api") in {FETCH, LIST_OFFSETS}:
                yield _answer(kind, row, eras)


def _answered(kind: Kind, row: Event) -> bool:
    reached = kind == Kind.PROBE or row["type"] == Type.OK
    return reached and row.get("error") == 0 and row.get("topic") is not None and row.get("partition") is not None


def _answer(kind: Kind, row: Event, eras: Eras) -> Answer:
    fetch, view = row["api"] == FETCH, row.get("view")
    epoch = row.get("leader_epoch")
    named = None if epoch is None or epoch < 0 else epoch
    of_leader = fetch and named is not None and row.get("api_version") is not None and row["api_version"] < 11
    probe = kind == Kind.PROBE

    def mark(name: str, listed: OffsetView) -> int | None:
        found: int | None = row.get(name) if fetch else row.get("offset") if view == listed else None
        return found

    def known(found: int | None) -> int | None:
        return None if found is None or found < 0 else found

    return Answer(
        api=row["api"],
        place=(row.get("topic"), row.get("partition")),
        life=eras.of(row),
        scope=EVERYWHERE if probe or of_leader else row.get("node"),
        led=probe or not fetch or of_leader,
        number=(kind, row["event"] if probe or row.get("op") is None else row["op"]),
        node=row.get("node"),
        invoked=row["invoked"],
        time=row["time"],
        event=row["event"],
        shown=mark("high_watermark", OffsetView.LATEST),
        stable=known(mark("last_stable_offset", OffsetView.LATEST_COMMITTED)),
        start=known(mark("log_start", OffsetView.EARLIEST)),
        told=None if not fetch and view == OffsetView.EARLIEST else named,
    )


def metadata(rows: Rows, eras: Eras) -> Iterator[tuple[tuple[Place, int], Event]]:
    """Answers about a partition, in each of its lives."""
    for kind in (Kind.PROBE, Kind.EXCHANGE):
        for row in rows.events[kind]:
            if _answered(kind, row) and row.get("api") == METADATA:
                yield ((row.get("topic"), row.get("partition")), eras.of(row)), row


def has_epoch(row: Event) -> bool:
    """Whether it tells a leader epoch."""
    return row.get("leader_epoch") is not None and row["leader_epoch"] >= 0


def epochs(rows: Rows, eras: Eras) -> Mapping[tuple[Place, int], Epochs]:
    """When Metadata answers showed each leader epoch of a partition, in each of its lives."""
    shown: dict[tuple[Place, int], list[Event]] = defaultdict(list)
    for life, row in metadata(rows, eras):
        if has_epoch(row):
            shown[life].append(row)
    return {life: _rises(mine) for life, mine in shown.items()}


def _rises(shown: Sequence[Event]) -> Epochs:
    numbers = {row["leader_epoch"] for row in shown}
    seen = {number: min(row["time"] for row in shown if row["leader_epoch"] == number) for number in numbers}
    leaders = {number: {row.get("leader") for row in shown if row["leader_epoch"] == number} for number in numbers}
    before = {}
    for number in numbers:
        earlier = [row for row in shown if row["time"] < seen[number]]
        # a leader that answered before anybody showed its epoch did not know of it; others may hear of it late
        own = [row for row in earlier if row.get("node") is not None and row.get("node") in leaders[number]]
        before[number] = max((row["invoked"] for row in own or earlier), default=LONG_AGO)
    return {number: Rise(seen[number], min(before[each] for each in numbers if each >= number)) for number in numbers}


def moves(rows: Rows, eras: Eras) -> Mapping[tuple[Place, int], Sequence[Rise]]:
    """When the leader that Metadata names changed, where it tells no epochs."""
    shown: dict[tuple[Place, int], list[Event]] = defaultdict(list)
    for life, row in metadata(rows, eras):
        shown[life].append(row)
    found: dict[tuple[Place, int], Sequence[Rise]] = {}
    for life, mine in shown.items():
        ordered = sorted(mine, key=lambda row: (row["time"], row["event"]))
        if not any(map(has_epoch, mine)):
            found[life] = [
                Rise(row["time"], min(row["time"], max(each["invoked"] for each in ordered[:number])))
                for number, row in enumerate(ordered)
                if number and row.get("leader") != ordered[number - 1].get("leader")
            ]
    return found


def deposed(shown: Epochs, epoch: int | None, until: int) -> bool:
    """Whether a higher epoch may have been there soon enough after this moment."""
    return epoch is not None and any(each > epoch and rise.since <= until + SETTLING_NS for each, rise in shown.items())


@dataclass(frozen=True)
class Lasted:
    """A fault that was injected."""

    name: str
    began: int
    ended: int
    undone: bool
    whole: int


def faults(rows: Rows) -> list[Lasted]:
    """From injection to undoing, or to the end of the load; and until the cluster was whole again."""
    found = []
    end = _end_of_load(rows)
    for number in {row["fault"] for row in rows.events[Kind.FAULT]}:
        mine = sorted((row for row in rows.events[Kind.FAULT] if row["fault"] == number), key=lambda row: row["time"])
        at = {row["stage"]: row["time"] for row in mine}
        if FaultStage.INJECTED in at:
            began, undone = at[FaultStage.INJECTED], at.get(FaultStage.UNDONE)
            ended = end if undone is None else undone
            ended = max(began, ended)
            whole = max(ended, at.get(FaultStage.HEALED, ended))
            found.append(Lasted(mine[0]["name"], began, ended, undone is not None, whole))
    return found


def _end_of_load(rows: Rows) -> int:
    phases: list[tuple[int, str]] = sorted((row["time"], row["name"]) for row in rows.events[Kind.PHASE])
    times = [
        row[name] for events in rows.events.values() for row in events for name in ("time", "invoked") if name in row
    ]
    begun = min((time for time, name in phases if name == "load"), default=min(times))
    after = [time for time, name in phases if time >= begun and name in {"heal", "recover", "final", "seal"}]
    return min(after, default=max(times))
