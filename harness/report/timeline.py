"""The timeline of operations: a lane for each client, a bar from call to end, faults as bands. Drawn by us, as SVG.

What is computed here is where everything goes; `templates/timeline.svg.jinja` writes it down, and `templates/page.js`
moves it when somebody zooms. Without JavaScript it shows the operations that a finding names, and what went on then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.names import Names
from harness.report.operations import NS, OperationLine, lasted, operation_line

WIDTH, LABELS = 960, 176
ROW, GAP, TOP, AXIS = 15, 7, 18, 22
ROWS_AT_MOST = 6  # of a lane
LANES_AT_MOST = 14
TICKS = 6
PADDING = 0.12
LEAST_NS = 2_000_000
ALONE_NS = 20_000_000  # is shown around a single operation
ANSWERS = 50  # the order from which on actors are nodes, as seen by others
NARROW = 2.0  # pixels that anything gets
LETTER = 6.2  # pixels


@dataclass(frozen=True)
class Bar:
    """One operation."""

    told: OperationLine
    y: float
    x: float
    width: float
    link: str
    point_ns: int | None = None
    point_x: float = 0.0

    @property
    def outside(self) -> bool:
        """Whether the label has no room in the bar."""
        return self.width < LETTER * len(self.told.label) + 6


@dataclass(frozen=True)
class Lane:
    """One client, or one node."""

    name: str
    y: float
    height: float
    away: str = ""  # where its operations are, if all of them are outside of what is shown


@dataclass(frozen=True)
class Band:
    """A stretch of time: a fault, or what lies between two operations that contradict each other."""

    name: str
    from_ns: int
    to_ns: int
    x: float
    width: float


@dataclass(frozen=True)
class FindingTimeline:
    """Everything that is drawn; times are nanoseconds since the history began."""

    title: str
    view_ns: tuple[int, int]
    whole_ns: tuple[int, int]
    lanes: tuple[Lane, ...]
    bars: tuple[Bar, ...]
    faults: tuple[Band, ...]
    between: Band | None
    height: float

    width = WIDTH
    labels = LABELS
    top = TOP

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Where times are written, and which."""
        low, high = self.view_ns
        return [
            ((WIDTH - LABELS) * n / TICKS, moment(low + (high - low) * n / TICKS, high - low)) for n in range(TICKS + 1)
        ]

    @property
    def path(self) -> str:
        """The line through the moments at which operations took effect."""
        points = [(bar.point_x, bar.y + ROW / 2) for bar in self.bars if bar.point_ns is not None]
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def moment(since_ns: float, span_ns: float) -> str:
    """A time, as exactly as the span that is shown asks for."""
    digits = 1 if span_ns > 20 * NS else 2 if span_ns > 2 * NS else 3 if span_ns > NS / 5 else 4
    return f"{since_ns / NS:.{digits}f} s"


def of_finding(  # noqa: PLR0913 - what is drawn, and how
    key: str,
    title: str,
    rows: Sequence[Mapping[str, Any]],
    series: Mapping[str, Any],
    names: Names,
    *,
    in_order: bool,
) -> FindingTimeline | None:
    """The operations around a finding; and what lies between the two it names, if their order is what is wrong."""
    told = [operation_line(row, names) for row in rows]
    if not told:
        return None
    named = [each for each in told if each.rank == 0] or [each for each in told if each.rank == 1] or told
    low, high = min(each.began_ns for each in named), max(each.ended_ns for each in named)
    if len(named) == 1:
        around = max(ALONE_NS, 2 * (high - low))
        low, high = low - around, high + 2 * around
    gap = None
    if in_order and len(named) == 2:
        first, second = sorted(named, key=lambda each: each.ended_ns)
        gap = (first.ended_ns, second.began_ns) if first.ended_ns < second.began_ns else None

    def shown(each: OperationLine) -> bool:
        in_view = low <= each.ended_ns and each.began_ns <= high
        return in_view or (each.rank < 2 and each.order < ANSWERS)

    inside = [each for each in told if shown(each)]
    return _laid_out(key, title, inside, {}, (low, high), series["faults"], gap)


def of_witness(
    key: str,
    title: str,
    witness: Mapping[str, Any],
    series: Mapping[str, Any],
    names: Names,
) -> FindingTimeline | None:
    """Consecutive appends of a partition, each with the moment at which it took effect, in the order of the log."""
    told: list[OperationLine] = []
    points: dict[int, int] = {}
    for each in witness["operations"]:
        who = f"{names.about(each['process']).get('role', 'process')} {each['process']}"
        name = f"end() → {each['offset']}" if each["end"] else f"{each['offset']}, {who}"
        told.append(
            OperationLine(
                event=each["event"],
                actor=name,
                order=len(told),
                label="",
                sentence="" if each["end"] else "was appended",
                sort="mark" if each["end"] else "ok",
                rank=2,
                began_ns=each["from"],
                ended_ns=each["to"],
            )
        )
        points[each["event"]] = each["point"]
    if not told:
        return None
    appends = [each for each in told if each.sort == "ok"] or told
    view = min(each.began_ns for each in appends), max(each.ended_ns for each in appends)
    return _laid_out(key, title, told, points, view, series["faults"], None, lanes_at_most=len(told))


def _laid_out(  # noqa: PLR0913, PLR0917 - what is drawn, and how much of it
    key: str,
    title: str,
    told: Sequence[OperationLine],
    points: Mapping[int, int],
    view_ns: tuple[int, int],
    faults: Sequence[Mapping[str, Any]],
    gap: tuple[int, int] | None,
    lanes_at_most: int = LANES_AT_MOST,
) -> FindingTimeline:
    padding = max(LEAST_NS, int(PADDING * (view_ns[1] - view_ns[0])))
    low, high = max(0, view_ns[0] - padding), view_ns[1] + padding
    scale = (WIDTH - LABELS) / (high - low)

    def x(since_ns: int) -> float:
        return (since_ns - low) * scale

    by_actor: dict[tuple[int, str], list[OperationLine]] = {}
    for each in told:
        by_actor.setdefault((each.order, each.actor), []).append(each)
    busiest = sorted(by_actor, key=lambda actor: (min(each.rank for each in by_actor[actor]), actor))[:lanes_at_most]
    lanes, bars, y = [], [], float(TOP)
    for actor in sorted(busiest):
        ends: list[int] = []
        for each in sorted(by_actor[actor], key=lambda each: (each.began_ns, each.ended_ns, each.event)):
            row = next((n for n, end in enumerate(ends) if end <= each.began_ns), len(ends))
            if row == len(ends) and row < ROWS_AT_MOST:
                ends.append(each.ended_ns)
            row = min(row, ROWS_AT_MOST - 1)
            ends[row] = max(ends[row], each.ended_ns)
            point = points.get(each.event)
            width = max(NARROW, (each.ended_ns - each.began_ns) * scale)
            place = y + row * ROW
            at = 0.0 if point is None else x(point)
            bars.append(Bar(each, place, x(each.began_ns), width, f"{key}-{each.event}", point, at))
        height = ROW * max(1, len(ends))
        lanes.append(Lane(actor[1], y, height, _away(by_actor[actor], low, high)))
        y += height + (GAP if not points else 2)

    def band(name: str, begin: int, end: int) -> Band:
        return Band(name, begin, end, x(begin), max(NARROW, (end - begin) * scale))

    bands = [band(str(f["name"]), f["from"], f["to"]) for f in faults if f["from"] is not None]
    whole = (min(low, *(each.began_ns for each in told)), max(high, *(each.ended_ns for each in told)))
    return FindingTimeline(
        title,
        (low, high),
        whole,
        tuple(lanes),
        tuple(bars),
        tuple(bands),
        band(lasted(gap[1] - gap[0]), *gap) if gap else None,
        y + AXIS,
    )


def _away(told: Sequence[OperationLine], low: int, high: int) -> str:
    if all(each.began_ns > high for each in told):
        return "later"
    return "earlier" if all(each.ended_ns < low for each in told) else ""
