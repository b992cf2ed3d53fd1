"""What `list` and `tap` print: tables of what there is, and where to point an application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.report.terminal.tables import as_json_line, as_json_text, line

if TYPE_CHECKING:  # it takes long to import
    from harness.tap.taps import TapPlace

DURATIONS = ("by", "jitter", "period")  # among the options of faults


def taps(console: Console, places: Sequence[TapPlace], *, as_json: bool) -> None:
    """Where to point an application."""
    if as_json:
        rows = [{"tap": each.address, "upstream": each.upstream} for each in places]
        as_json_line(console, {"taps": rows, "bootstrap": ",".join(each.address for each in places)})
        return
    for each in places:
        line(console, (f"  {each.address}", "bold"), f" → {each.upstream}")
    line(console, ("  point the application at these; Ctrl-C ends the recording", "dim"))


def recorded(console: Console, seen: dict[str, Any], *, as_json: bool) -> None:
    """What passed the taps."""
    if as_json:
        as_json_line(console, seen)
        return
    bent = f", {seen['bent']:,} bent" if seen["bent"] else ""
    line(
        console,
        f"  {seen['exchanges']:,} exchanges on {seen['connections']:,} connections{bent}, "
        f"{seen['not_understood']:,} not understood",
    )
    for sentence in seen["troubles"]:
        line(console, (f"  {sentence}", "yellow"))
    line(console, f"  {'check it':<10}tidegauge check {seen['record']}")


def listing(console: Console, what: str, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    """A table of what there is."""
    if as_json:
        as_json_text(console, rows)
        return
    if not rows:
        line(console, f"there are no {what} here")
        return
    if what == "nemeses":
        _nemeses(console, rows)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    columns = [name for name in rows[0] if name != "settings"]
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row[name])) for name in columns))
    console.print(table)
    for row in rows:
        if "settings" in row:
            line(console)
            line(console, (f"settings of {row['name']}", "bold"), ", for --set and scenario files")
            for name, setting in row["settings"].items():
                default = "" if setting["default"] is None else f" [{setting['default']}]"
                line(console, f"  {name}{default}", (f"  {setting['about']}", "dim"))


def _nemeses(console: Console, rows: list[dict[str, Any]]) -> None:
    """Faults by family: a table would be too wide."""
    width = max(len(row["name"]) for row in rows)
    family = ""
    for row in rows:
        if row["family"] != family:
            family = row["family"]
            line(console, (family, "bold"))
        table = Table.grid(padding=(0, 2))
        table.add_column(width=width + 2)
        table.add_column(overflow="fold")
        table.add_row(Text(f"  {row['name']}"), Text(row["about"]))
        facts = [f"at {', '.join(row['targets'])}", *(_option(*each) for each in row["options"].items())]
        facts += [f"needs {', '.join(row['needs'])}"] if row["needs"] else []
        facts += [f"{row['longest_s']:g} s at most"]
        table.add_row("", Text(" · ".join(facts), "dim"))
        console.print(table)


def _option(name: str, value: object) -> str:
    """As it may be written in a scenario; alone when the fault finds a value by itself."""
    if value is None:
        return name
    return f"{name}={value:g}s" if name in DURATIONS and isinstance(value, int | float) else f"{name}={value}"


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
