"""Pictures of operations, as Porcupine draws them: a lane for each client, a bar from call to end, offsets on the bars.

Around a finding, what contradicts each other is marked, with the time between. Of a partition, a dot in each append is
the earliest moment at which it can have taken effect: no earlier than the call of any append below it in the log that
is shown or that its witness knows of. Dots that never go back are the order that was found; an append that was over
before its earliest moment has none, which is a contradiction. Where end offsets do not fit the order, they are what is
marked: one that was asked for after an append at it or above it was over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.foundation.protocol import Api
from harness.history.schema import F, OffsetView, Type
from harness.report.names import Names
from harness.report.operations import NS, OperationLine, lasted, operation_line
from harness.report.tracks import Axis, Dot, Panel, Span, Track, fault_bands

US = 1_000
ROW, GAP, TOP = 15, 6, 4
BAR = 12
ROWS_AT_MOST = 6  # of a lane around a finding
LANES_AT_MOST = 14
PARTITION_ROWS = 30  # of a lane of a partition
AWAY_ROWS = 3  # of a lane whose operations are outside of what is shown
OPERATIONS_AT_MOST = 400  # of a partition
PADDING = 0.12
LEAST_NS = 2_000_000
ALONE_NS = 20_000_000  # is shown around a single operation
PAIR = 2  # operations that contradict each other
ANSWERS = 50  # the order from which on actors are nodes, as seen by others
ENDS = 40  # the order of end offsets
RANKS = ("named", "of-it", "near")
LEGEND = (
    ("box op ok", "send"),
    ("box op read", "read"),
    ("box op mark", "answer of a node"),
    ("box op info", "outcome unknown"),
    ("box op refused", "failed"),
)


@dataclass(frozen=True)
class Placed:
    """An operation in a picture, with the moment at which it took effect where that is known."""

    told: OperationLine
    title: str
    link: str = ""
    offset: int | None = None
    point_ns: int | None = None
    called_ns: int | None = None  # of an end offset: when a node was last asked and showed it
    impossible: bool = False


@dataclass(frozen=True)
class Pictures:
    """Pictures of one run."""

    series: Mapping[str, Any]
    names: Names

    def of_finding(self, key: str, title: str, rows: Sequence[Mapping[str, Any]], *, in_order: bool) -> Panel | None:
        """The operations around a finding; and what lies between the two it names, if their order is what is wrong."""
        told = [operation_line(row, self.names) for row in rows]
        if not told:
            return None
        named = [each for each in told if each.rank == 0] or [each for each in told if each.rank == 1] or told
        low, high = min(each.began_ns for each in named), max(each.ended_ns for each in named)
        if len(named) == 1:
            around = max(ALONE_NS, 2 * (high - low))
            low, high = low - around, high + 2 * around

        def shown(each: OperationLine) -> bool:
            in_view = low <= each.ended_ns and each.began_ns <= high
            return in_view or (each.rank < 2 and each.order < ANSWERS)

        placed = [Placed(each, _title(each), f"#{key}-{each.event}") for each in told if shown(each)]
        gap = _gap(named) if in_order else None
        return self._panel(title, _axis(key, placed, (low, high)), placed, gap)

    def of_partition(self, key: str, place: str, rows: Sequence[Mapping[str, Any]], *, linear: bool) -> Panel | None:
        """Appends of a partition in the order of the log, and who read them: of its witness and around findings."""
        title, witness = f"Order of appends in {self.names.place(place)}", self.series["witness"].get(place)
        found = (*_around(rows, self.names), *_witnessed(witness, self.names))
        placed = list({each.told.event: each for each in found}.values())
        if not placed:
            return None
        kept = sorted(placed, key=lambda each: (each.told.rank, each.told.began_ns))[:OPERATIONS_AT_MOST]
        placed = _ordered(kept, linear=linear)
        in_log = [each for each in placed if each.offset is not None]
        wrong = [each for each in in_log if each.impossible or each.told.rank == 0]
        appends = [each for each in in_log if each.told.order < ENDS] or placed
        seen = wrong[:PAIR] or _longest_run(appends)
        view = min(each.told.began_ns for each in seen), max(each.told.ended_ns for each in seen)
        return self._panel(title, _axis(key, placed, view), placed, rows_at_most=PARTITION_ROWS)

    def _panel(
        self,
        title: str,
        axis: Axis,
        placed: Sequence[Placed],
        gap: tuple[int, int] | None = None,
        *,
        rows_at_most: int = ROWS_AT_MOST,
    ) -> Panel:
        by_actor: dict[tuple[int, str], list[Placed]] = {}
        for each in placed:
            by_actor.setdefault((each.told.order, each.told.actor), []).append(each)
        gravest = sorted(by_actor, key=lambda actor: (min(each.told.rank for each in by_actor[actor]), actor))
        spans: list[Span] = []
        moments: list[tuple[Placed, float]] = []
        labels, y = [], float(TOP)
        for actor in sorted(gravest[:LANES_AT_MOST]):
            mine = sorted(by_actor[actor], key=lambda each: (each.told.began_ns, each.offset or 0, each.told.event))
            away = _away(mine, axis)
            rows = _packed(mine, min(rows_at_most, AWAY_ROWS) if away else rows_at_most)
            labels.append((y + 11, f"{actor[1]}{away}", actor[1]))
            for each, row in zip(mine, rows, strict=True):
                spans.append(_bar(each, y + row * ROW, axis))
                moments.append((each, y + row * ROW + BAR / 2))
            y += ROW * (1 + max(rows)) + GAP
        height, dots = round(y), _dots(moments, axis)
        band = [_between(gap, height, axis)] if gap else []
        track = Track(title, height, tuple(labels), spans=(*band, *_with_room(spans)), dots=dots)
        legend = _legend(placed, dotted=bool(dots))
        return Panel(title, axis, (track,), fault_bands(self.series, axis), legend)


def _longest_run(appends: Sequence[Placed]) -> list[Placed]:
    """Of what was kept, the most that is together in the log."""
    runs: list[list[Placed]] = []
    for each in sorted(appends, key=_place_in_log):
        if runs and (each.offset or 0) - (runs[-1][-1].offset or 0) <= 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    return max(runs, key=len)


def _witnessed(witness: Mapping[str, Any] | None, names: Names) -> Iterator[Placed]:
    """Consecutive appends, each with the moment that all of the history allows."""
    for each in (witness or {}).get("operations", []):
        role = str(names.about(each["process"]).get("role", "process"))
        actor = "end offsets" if each["end"] else f"{role} {each['process']}"
        what = "showed end" if each["end"] else f"appended {names.value(each['value'])} at"
        told = OperationLine(
            event=each["event"],
            actor=actor,
            order=ENDS if each["end"] else 10,
            label=f"{'end ' if each['end'] else '@'}{each['offset']}",
            sentence=f"{what} offset {each['offset']}",
            sort="mark" if each["end"] else "ok",
            rank=2,
            began_ns=min(each["from"], each["to"]),  # ends that are alike are one, called last and over first
            ended_ns=max(each["from"], each["to"]),
        )
        yield Placed(told, _title(told), "", each["offset"], each["point"], each["from"] if each["end"] else None)


def _around(rows: Sequence[Mapping[str, Any]], names: Names) -> Iterator[Placed]:
    """Sends that have an offset, and reads."""
    for row in rows:
        append = row["kind"] == "complete" and row.get("f") == F.SEND and row.get("type") == Type.OK and "offset" in row
        if append or row["kind"] == "record":
            told = operation_line(row, names)
            yield Placed(told, _title(told), "", row["offset"] if append else None)
        elif _shows_end(row):
            told = replace(operation_line(row, names), actor=f"end by node {row.get('node', '?')}", order=ENDS)
            yield Placed(told, _title(told), "", row["offset"], called_ns=told.began_ns)


def _shows_end(row: Mapping[str, Any]) -> bool:
    """Whether it is a node's answer that says where the partition ends."""
    asked = row.get("api") == Api.LIST_OFFSETS and row.get("view") == OffsetView.LATEST
    return asked and row.get("type", Type.OK) == Type.OK and not row.get("error") and row.get("offset", -1) >= 0


def _ordered(placed: Sequence[Placed], *, linear: bool) -> list[Placed]:
    """With the moment of each append, and what has none; where there is an order, that of its witness is exact."""
    log = sorted((each for each in placed if each.offset is not None), key=_place_in_log)
    done: dict[int, Placed] = {}
    reached = 0
    for each in log:
        if each.called_ns is None:
            reached = max(reached, each.told.began_ns, (each.point_ns or 0) if linear else 0)
            done[each.told.event] = _with_moment(each, reached)
    first_over: int | None = None
    for each in reversed(log):
        if each.called_ns is None:
            first_over = each.told.ended_ns if first_over is None else min(first_over, each.told.ended_ns)
        else:
            late = not linear and first_over is not None and first_over < each.called_ns
            title = f"{each.title}; asked for after an append above it was over" if late else each.title
            done[each.told.event] = replace(each, point_ns=None, impossible=late, title=title)
    return [done.get(each.told.event, each) for each in placed]


def _with_moment(each: Placed, reached: int) -> Placed:
    impossible = reached > each.told.ended_ns
    at = f"{reached / NS:.6f} s"
    effect = f"ended before an append below it began ({at})" if impossible else f"took effect at {at} or later"
    return replace(each, point_ns=reached, impossible=impossible, title=f"{each.title}; {effect}")


def _place_in_log(each: Placed) -> tuple[int, bool, int]:
    """An end offset comes before what is appended there."""
    return each.offset or 0, each.told.order != ENDS, each.told.began_ns


def _title(told: OperationLine) -> str:
    took = lasted(told.ended_ns - told.began_ns)
    return f"{told.actor} {told.sentence}; {told.began_ns / NS:.6f} s to {told.ended_ns / NS:.6f} s, {took}"


def _axis(key: str, placed: Sequence[Placed], view_ns: tuple[int, int]) -> Axis:
    """In microseconds since the view began, so that browsers, which count in floats, can be exact."""
    padding = max(LEAST_NS, int(PADDING * (view_ns[1] - view_ns[0])))
    low, high = view_ns[0] - padding, view_ns[1] + padding
    first = min(low, *(each.told.began_ns for each in placed))
    last = max(high, *(each.told.ended_ns for each in placed))
    return Axis(key, low, US, 0, (high - low) / US, (first - low) / US, (last - low) / US)


def _gap(named: Sequence[OperationLine]) -> tuple[int, int] | None:
    """The time between two operations, if one was over before the other began."""
    if len(named) != PAIR:
        return None
    first, second = sorted(named, key=lambda each: each.ended_ns)
    return (first.ended_ns, second.began_ns) if first.ended_ns < second.began_ns else None


def _packed(mine: Sequence[Placed], at_most: int) -> list[int]:
    """In which row of its lane each operation is, so that those at one time do not cover each other."""
    ends: list[int] = []
    rows = []
    for each in mine:
        row = next((n for n, end in enumerate(ends) if end <= each.told.began_ns), len(ends))
        if row == len(ends) and row < at_most:
            ends.append(0)
        row = min(row, at_most - 1)
        ends[row] = max(ends[row], each.told.ended_ns)
        rows.append(row)
    return rows


def _bar(each: Placed, y: float, axis: Axis) -> Span:
    css = f"op {each.told.sort} {RANKS[each.told.rank]}{' contradiction' if each.impossible else ''}"
    low, high = axis.at(each.told.began_ns), axis.at(each.told.ended_ns)
    return Span(low, high, y, BAR, css, each.title, each.told.label, each.link)


def _with_room(spans: Sequence[Span]) -> list[Span]:
    """Labels may go on behind their bars, up to the next one in the row."""
    following: dict[float, float] = {}
    roomy = []
    for span in sorted(spans, key=lambda span: -span.low):
        roomy.append(replace(span, room=following.get(span.y, span.high + 1e9)))
        following[span.y] = span.low
    return roomy[::-1]


def _dots(moments: Sequence[tuple[Placed, float]], axis: Axis) -> tuple[Dot, ...]:
    """In the order of the log."""
    possible = [(each, y) for each, y in moments if each.point_ns is not None and not each.impossible]
    ordered = sorted(possible, key=lambda moment: _place_in_log(moment[0]))
    return tuple(Dot(axis.at(each.point_ns or 0), y) for each, y in ordered)


def _legend(placed: Sequence[Placed], *, dotted: bool) -> tuple[tuple[str, str], ...]:
    """What is in the picture, and nothing else."""
    sorts = {each.told.sort for each in placed}
    legend = [sample for sample in LEGEND if sample[0].split()[-1] in sorts]
    legend += [("dot", "earliest moment it took effect")] * dotted
    legend += [("box op contradiction", "contradiction")] * any(each.impossible for each in placed)
    return tuple(legend)


def _between(gap: tuple[int, int], height: int, axis: Axis) -> Span:
    text = lasted(gap[1] - gap[0])
    title = f"one operation was over {text} before the other began"
    return Span(axis.at(gap[0]), axis.at(gap[1]), 0, height, "between", title, text)


def _away(mine: Sequence[Placed], axis: Axis) -> str:
    """Where the operations of a lane are, if all of them are outside of what is shown."""
    if all(axis.at(each.told.began_ns) > axis.high for each in mine):
        return " →"
    return " ←" if all(axis.at(each.told.ended_ns) < axis.low for each in mine) else ""
