"""A comparison on the terminal: the table of the notes, then each pair with its verdict and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.report.comparison.inputs import Group
from harness.report.comparison.judge import SUCCESS, Comparison, MeasureComparison, Pair, percent
from harness.report.comparison.statistics import CLUMP, RUNS_FOR_VARIANCE, mean_interval, wilson
from harness.report.terminal.tables import line

COLOURS = {"regression": "bold red", "improvement": "bold green", "too few runs to tell": "yellow"}
PARTITIONS_SHOWN = 12
NAMES_SHOWN = 4
VALUE_LETTERS = 60
INSIDE = " *"
LEGEND = f"*  the noise inside runs alone (messages lost {CLUMP:.0f} at a time): fewer than {RUNS_FOR_VARIANCE} runs"


def shown(console: Console, comparison: Comparison) -> None:
    """Everything, in as few lines as it takes."""
    _print(console, summary_rows(comparison))
    if rows := partition_rows(comparison.groups):
        line(console)
        _print(console, rows)
    line(console)
    for pair in comparison.pairs:
        _pair(console, pair)
    for setting, values in list(comparison.differs.items())[:NAMES_SHOWN]:
        told = " · ".join(_cut(value) for value in values)
        line(console, ("  asked differently ", "yellow"), f"{setting}: {told}")
    if len(comparison.differs) > NAMES_SHOWN:
        line(console, f"  and {len(comparison.differs) - NAMES_SHOWN} settings more (--json)")
    for note in [*([LEGEND] if has_legend(comparison) else []), *comparison.notes]:
        line(console, (f"  {note}", "dim"))


def has_legend(comparison: Comparison) -> bool:
    """Whether some interval is that of a few runs."""
    return any(0 < len(group.counted) < RUNS_FOR_VARIANCE for group in comparison.groups)


def summary_rows(comparison: Comparison) -> list[list[str]]:
    """The table of the notes: a header, then a row for each group; changes are against the first."""
    rows = [["", "runs", "ended", "arrived", "rate", "95 % interval", "points", ""]]
    for group in comparison.groups:
        pair = next((each for each in comparison.pairs if _is(each, comparison.groups[0], group)), None)
        judged = pair.of(SUCCESS) if pair else None
        rows.append(
            [
                group.label,
                str(len(group.runs)),
                verdicts(group),
                arrived(group),
                percent(_rate(group)) if group.counted else "not measured",
                interval(group),
                f"{100 * judged.difference.change:+.1f}" if judged else "-",
                pair.verdict if pair else "baseline",
            ]
        )
    if all(row[2] == "-" for row in rows[1:]):
        return [[*row[:2], *row[3:]] for row in rows]
    return rows


def partition_rows(groups: Sequence[Group]) -> list[list[str]]:
    """What arrived in each partition, by group; none where nobody counted or they are too many."""
    names = sorted({each.name for group in groups for run in group.runs for each in run.partitions}, key=_by_number)
    if not names or len(names) > PARTITIONS_SHOWN:
        return []
    return [
        ["partition", *(group.label for group in groups)],
        *([name, *(_of_partition(group, name) for group in groups)] for name in names),
    ]


def verdicts(group: Group) -> str:
    """How the runs ended, each outcome once with its count."""
    found = [run.outcome for run in group.runs if run.outcome]
    return ", ".join(f"{found.count(each)} {each}" for each in dict.fromkeys(found)) or "-"


def arrived(group: Group) -> str:
    """How many of how many, in all runs together."""
    if not group.counted:
        return "-"
    return f"{sum(run.arrived for run in group.counted):,}/{sum(run.expected for run in group.counted):,}"


def interval(group: Group) -> str:
    """Where the group's rate lies; of few runs, the noise inside them, which is marked."""
    if not group.counted:
        return "-"
    found = mean_interval([run.rate for run in group.counted])
    counts = [(run.arrived, run.expected) for run in group.counted]
    low, high = found or wilson(sum(each for each, _ in counts), sum(each for _, each in counts), CLUMP)
    return f"{100 * max(0.0, low):.1f} to {100 * min(1.0, high):.1f}{'' if found else INSIDE}"


def others(pair: Pair) -> Iterator[str]:
    """What else was compared and shows nothing, in a line for each verdict."""
    for verdict in ("no difference", "too few runs to tell"):
        names = [each.measure for each in pair.measures if each.verdict == verdict and each.measure != SUCCESS]
        if names:
            more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
            yield f"{verdict}: {', '.join(names[:NAMES_SHOWN])}{more}"


def telling(pair: Pair) -> list[MeasureComparison]:
    """What has a line of its own: messages that arrive, and whatever differs."""
    return [each for each in pair.measures if each.measure == SUCCESS or each.verdict in {"regression", "improvement"}]


def _pair(console: Console, pair: Pair) -> None:
    line(console, (f"  {pair.before} → {pair.after}", "bold"), f"  {pair.verdict}")
    for judged in telling(pair):
        line(console, (f"    {judged.sentence}", COLOURS.get(judged.verdict, "")))
        line(console, (f"      {judged.why}", "dim"))
    for text in others(pair):
        line(console, (f"    {text}", "dim"))


def _print(console: Console, rows: list[list[str]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in rows[0]:
        table.add_column(Text(title), overflow="fold")
    for row in rows[1:]:
        table.add_row(*(Text(cell, COLOURS.get(cell, "")) for cell in row))
    console.print(table, highlight=False)


def _of_partition(group: Group, name: str) -> str:
    counts = [each for run in group.runs for each in run.partitions if each.name == name]
    if not counts:
        return "-"
    got, expected = sum(each.counted.arrived for each in counts), sum(each.counted.expected for each in counts)
    rates = [each.counted.rate for each in counts]
    found = mean_interval(rates) if len(rates) >= RUNS_FOR_VARIANCE else wilson(got, expected, CLUMP)
    low, high = found or (0.0, 1.0)
    flag = " LOW" if any(each.low for each in counts) else ""
    return f"{percent(got / expected)} ({100 * max(0.0, low):.1f} to {100 * min(1.0, high):.1f}){flag}"


def _rate(group: Group) -> float:
    return sum(run.rate for run in group.counted) / len(group.counted)


def _is(pair: Pair, before: Group, after: Group) -> bool:
    return (pair.before, pair.after) == (before.label, after.label)


def _by_number(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("/"))


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_LETTERS else f"{text[: VALUE_LETTERS - 1]}…"
