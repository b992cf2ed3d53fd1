"""What nodes answered, as `checkers.answers` tells it, and when faults lasted, as `checkers.coverage` does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.history import FaultStage, Kind, Type, View
from tests.histories import SECOND_NS, Rows
from tests.oracle import Event
from tests.oracle.eras import Eras

FETCH, LIST_OFFSETS, METADATA = 1, 2, 3
SETTLING_NS = 2 * SECOND_NS
EVERYWHERE = "everywhere"
Place = tuple[int | None, int | None]
Epochs = Mapping[int, int]  # when each epoch was shown first


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

    def mark(name: str, listed: View) -> int | None:
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
        shown=mark("high_watermark", View.LATEST),
        stable=known(mark("last_stable_offset", View.LATEST_COMMITTED)),
        start=known(mark("log_start", View.EARLIEST)),
        told=None if not fetch and view == View.EARLIEST else named,
    )


def epochs(rows: Rows, eras: Eras) -> Mapping[tuple[Place, int], Epochs]:
    """When Metadata answers showed each leader epoch of a partition, in each of its lives, for the first time."""
    seen: dict[tuple[Place, int], dict[int, int]] = defaultdict(dict)
    for kind in (Kind.PROBE, Kind.EXCHANGE):
        for row in rows.events[kind]:
            epoch = row.get("leader_epoch")
            if _answered(kind, row) and row.get("api") == METADATA and epoch is not None and epoch >= 0:
                mine = seen[(row.get("topic"), row.get("partition")), eras.of(row)]
                mine[epoch] = min(row["time"], mine.get(epoch, row["time"]))
    return seen


def deposed(shown: Epochs, epoch: int | None, until: int) -> bool:
    """Whether a higher epoch was shown soon enough after this moment."""
    return epoch is not None and any(each > epoch and seen <= until + SETTLING_NS for each, seen in shown.items())


@dataclass(frozen=True)
class Lasted:
    """A fault that was injected."""

    name: str
    began: int
    ended: int
    undone: bool


def faults(rows: Rows) -> list[Lasted]:
    """From injection to undoing, or to the end of the load."""
    found = []
    end = _end_of_load(rows)
    for number in {row["fault"] for row in rows.events[Kind.FAULT]}:
        mine = sorted((row for row in rows.events[Kind.FAULT] if row["fault"] == number), key=lambda row: row["time"])
        at = {row["stage"]: row["time"] for row in mine}
        if FaultStage.INJECTED in at:
            began, undone = at[FaultStage.INJECTED], at.get(FaultStage.UNDONE)
            ended = end if undone is None else undone
            found.append(Lasted(mine[0]["name"], began, max(began, ended), undone is not None))
    return found


def _end_of_load(rows: Rows) -> int:
    phases: list[tuple[int, str]] = sorted((row["time"], row["name"]) for row in rows.events[Kind.PHASE])
    times = [
        row[name] for events in rows.events.values() for row in events for name in ("time", "invoked") if name in row
    ]
    begun = min((time for time, name in phases if name == "load"), default=min(times))
    after = [time for time, name in phases if time >= begun and name in {"heal", "recover", "final", "seal"}]
    return min(after, default=max(times))
