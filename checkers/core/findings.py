"""Findings: what proves an anomaly. How many there are is counted; the first and the worst of them are kept.

A kernel hands over a table of rows that are findings, and says which columns are what. Everything that it names as
`facts` stays with a finding as typed fields; sentences are made of them elsewhere (`harness.judging.sentences`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from checkers.core.run import RunContext
from harness.history.schema import ID_BITS

WORST = 5  # of the findings that are kept of each anomaly and set of tags; the others are the first
FindingRow = dict[str, Any]
Group = tuple[str, tuple[str, ...], bool]  # an anomaly, tags, and whether a process with a damaged history is involved
Names = str | Sequence[str]


@dataclass
class Findings:
    """What was found so far; two of them can be put together."""

    counts: dict[Group, int] = field(default_factory=dict)
    rows: dict[Group, list[FindingRow]] = field(default_factory=dict)

    def add(self, others: Findings, limit: int) -> None:
        """Take in what somebody else found."""
        for group, count in others.counts.items():
            self.counts[group] = self.counts.get(group, 0) + count
            self.rows[group] = _kept([*self.rows.get(group, []), *others.rows[group]], limit)

    def count(self, anomaly: str) -> int:
        """How often an anomaly was found."""
        return sum(count for group, count in self.counts.items() if group[0] == anomaly)


def merge_findings(parts: Iterable[Findings], limit: int) -> Findings:
    """All of them."""
    whole = Findings()
    for part in parts:
        whole.add(part, limit)
    return whole


def make_findings(  # noqa: PLR0913 - a finding has that many parts
    anomaly: str,
    frame: pl.DataFrame,
    run: RunContext,
    *,
    offset: str | None = None,
    values: Names = (),
    processes: Names | None = None,
    nodes: Names = (),
    time: str | None = None,
    until: str | None = None,
    events: Names = (),
    tags: Names = (),
    severity: str | None = None,
    facts: Sequence[str] = (),
) -> Findings:
    """Rows of a table as findings; every argument names columns of it.

    `values`, `processes`, `nodes` and `events` name one column with a list, or several that make one (without nulls).
    `tags` name columns of texts, null where the tag is not there. Unless `processes` is given, they are those that
    wrote the events. `topic` and `partition` are taken from the columns of that name, if there are any.
    """
    if frame.is_empty() or not run.wants(anomaly):
        return Findings()
    tag_names = [tags] if isinstance(tags, str) else list(tags)
    lists = {"values": values, "processes": processes, "nodes": nodes, "events": events}
    place = [name for name in ("topic", "partition") if name in frame.columns]
    ids = [name for names in (values, events) for name in ([names] if isinstance(names, str) else names)]
    order = [name for name in (time, *place, offset, *ids) if name]
    result = Findings()
    split = frame.partition_by(tag_names, as_dict=True, maintain_order=True) if tag_names else {(): frame}
    for key, part in split.items():
        of_tags = tuple(tag for tag in _flat(key) if tag)
        for damaged, mine in _by_damage(part, run, processes, events):
            group = (anomaly, of_tags, damaged)
            first, worst = _first(mine, order, run.limit), _worst(mine, severity, order)
            kept = [_row(each, anomaly, of_tags, lists, (offset, time, until, severity), facts)
                    for each in pl.concat([first, worst]).to_dicts()]  # fmt: skip
            part_of = Findings({group: len(mine)}, {group: _kept(kept, run.limit)})
            result.add(part_of, run.limit)
    return result


def _first(mine: pl.DataFrame, order: Sequence[str], limit: int) -> pl.DataFrame:
    """The first rows; ids come last in the order, so that nothing hangs on how the rows came to lie."""
    if not order or len(mine) <= limit:
        return mine.head(limit)
    if not mine[order[0]].null_count() and mine.schema[order[0]].is_integer():
        mine = mine.filter(pl.col(order[0]) <= mine[order[0]].bottom_k(limit).max())
    return mine.sort(order, nulls_last=False, maintain_order=True).head(limit)


def _worst(mine: pl.DataFrame, severity: str | None, order: Sequence[str]) -> pl.DataFrame:
    """The most severe rows, the first of them if there are many; none without a severity."""
    if not severity or mine[severity].null_count() == len(mine):
        return mine.head(0)
    severe = mine.filter(pl.col(severity) >= mine[severity].top_k(WORST).min())
    return severe.sort([severity, *order], descending=[True, *([False] * len(order))], nulls_last=False).head(WORST)


def _flat(key: Any) -> Sequence[Any]:
    return key if isinstance(key, tuple) else (key,)


def _by_damage(
    frame: pl.DataFrame, run: RunContext, processes: Names | None, events: Names
) -> list[tuple[bool, pl.DataFrame]]:
    """Those that a process with a damaged history is part of, and the others."""
    if not run.damaged:
        return [(False, frame)]
    names = [processes] if isinstance(processes, str) else list(processes) if processes is not None else None
    shift = names is None
    columns = ([events] if isinstance(events, str) else list(events)) if names is None else names
    damaged = pl.lit(value=False)
    for name in columns:
        is_list = isinstance(frame.schema[name], pl.List)
        of = pl.element() if is_list else pl.col(name)
        inside = (of.cast(pl.Int64) // (1 << ID_BITS) if shift else of).is_in(sorted(run.damaged))
        damaged |= (pl.col(name).list.eval(inside).list.any() if is_list else inside).fill_null(value=False)
    of_damaged = frame.filter(damaged)
    return [(flag, part) for flag, part in ((True, of_damaged), (False, frame.filter(~damaged))) if len(part)]


def _row(  # noqa: PLR0913, PLR0917 - what a finding is made of
    each: Mapping[str, Any],
    anomaly: str,
    tags: tuple[str, ...],
    lists: Mapping[str, Names | None],
    single: tuple[str | None, ...],
    facts: Sequence[str],
) -> FindingRow:
    offset, time, until, severity = (None if name is None else each[name] for name in single)
    of = {name: _list(each, names) for name, names in lists.items() if names is not None}
    of.setdefault("processes", tuple(dict.fromkeys(event >> ID_BITS for event in of["events"])))
    return {
        "anomaly": anomaly,
        "topic": each.get("topic"),
        "partition": each.get("partition"),
        "offset": offset,
        "time": time,
        "until": until,
        "tags": tags,
        "severity": severity,
        "facts": {name: each[name] for name in facts if each[name] is not None},
        **of,
    }


def _list(each: Mapping[str, Any], names: Names) -> tuple[int, ...]:
    found = each[names] or () if isinstance(names, str) else [each[name] for name in names]
    return tuple(dict.fromkeys(value for value in found if value is not None))


def _kept(rows: list[FindingRow], limit: int) -> list[FindingRow]:
    """The first and the worst."""
    different = list({repr(row): row for row in rows}.values())
    if len(different) <= limit:
        return sorted(different, key=_order)
    worst = sorted(different, key=lambda row: (-(row["severity"] or 0), _order(row)))[: min(WORST, limit)]
    first = [row for row in sorted(different, key=_order) if row not in worst][: limit - len(worst)]
    return sorted([*first, *worst], key=_order)


def _order(row: FindingRow) -> tuple[Any, ...]:
    """In time, then by place."""
    known = ("time", "topic", "partition", "offset")
    return (*((row[name] is not None, row[name] or 0) for name in known), row["values"], row["events"])
