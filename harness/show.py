"""What commands print: tables for people, JSON for scripts. Text from brokers is never taken as markup."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.doctor import Check
from harness.errors import TidegaugeError
from workloads.large_batch import Outcome, PartitionRow


def as_json_text(console: Console, data: object) -> None:
    """Exactly the JSON, whatever the width of the terminal."""
    console.file.write(json.dumps(data, indent=2) + "\n")
    console.file.flush()


def line(console: Console, *parts: str | tuple[str, str]) -> None:
    """One line of plain text, some of it styled; whatever the text holds, it is shown as it is written."""
    text = Text.assemble(*parts)
    text.plain = text.plain.replace("\x1b", "␛")  # a log line must not steer the terminal
    console.print(text, highlight=False, soft_wrap=True)


def error(console: Console, failure: TidegaugeError) -> None:
    """One sentence, and below it what a log has to say."""
    line(console, ("error", "bold red"), f"  {failure}")
    for note in getattr(failure, "__notes__", []):
        for each in note.splitlines():
            line(console, f"  │ {each}")


def cluster(console: Console, description: dict[str, Any], *, as_json: bool) -> None:
    """A cluster that came up."""
    if as_json:
        as_json_text(console, description)
        return
    name, nodes = description["name"], len(description["nodes"])
    what = f"{description['product']} {description['version']}, {nodes} nodes, {description['kind']}"
    line(console, (name, "bold"), f"  {what}, ready after {description['ready_after_s']} s")
    line(console, f"  cluster id  {description['cluster_id']}")
    line(console, f"  bootstrap   {description['bootstrap']}")
    line(console, f"  remove      tidegauge cluster down {name}")


def removed(console: Console, names: list[str], *, as_json: bool) -> None:
    """Clusters that are gone."""
    if as_json:
        as_json_text(console, {"removed": names})
    else:
        line(console, f"removed {', '.join(names)}" if names else "no cluster is up")


def status(console: Console, clusters: list[dict[str, Any]], *, as_json: bool) -> None:
    """Every cluster and every node."""
    if as_json:
        as_json_text(console, clusters)
        return
    if not clusters:
        line(console, "no cluster is up")
    for each in clusters:
        what = f"{each['product']} {each['version']}, {each['kind']}"
        owner = f"harness {each['harness_pid']}, cluster id {each['cluster_id']}"
        line(console, (each["name"], "bold"), f"  {what}, {owner}")
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for title in ("  node", "address", "answers", "lists brokers"):
            table.add_column(title)
        for node in each["nodes"]:
            answers = {None: "not asked", True: "yes", False: "no"}[node["answers"]]
            brokers = str(node["lists_brokers"]) if node["answers"] else ""
            table.add_row(*map(Text, (f"  {node['id']}", node["address"], answers, brokers)))
        console.print(table)


def logs(console: Console, lines_by_node: dict[int, list[str]], *, as_json: bool) -> None:
    """Log lines, as they are."""
    if as_json:
        as_json_text(console, {str(node): lines for node, lines in lines_by_node.items()})
        return
    for node, lines in lines_by_node.items():
        for each in lines:
            line(console, f"node {node} │ {each}")


def image(console: Console, name: str, *, as_json: bool) -> None:
    """An image that was built."""
    if as_json:
        as_json_text(console, {"image": name})
    else:
        line(console, f"built {name}")


def checks(console: Console, found: list[Check], *, as_json: bool) -> None:
    """What this machine has and has not."""
    if as_json:
        as_json_text(console, [check.as_json() for check in found])
        return
    for check in found:
        mark = ("✓", "green") if check.ok else ("✗", "yellow")
        line(console, mark, f" {check.name:<9} {check.found}")
        if not check.ok:
            line(console, f"            costs: {check.costs}")
            line(console, f"            remedy: {check.remedy}")


def demo(console: Console, outcome: Outcome, *, as_json: bool) -> None:
    """The per-partition table of the notes."""
    settings, rows = outcome.settings, outcome.rows()
    if as_json:
        as_json_text(
            console,
            {
                "settings": asdict(settings),
                "acknowledged": outcome.acknowledged,
                "received": outcome.distinct,
                "duplicates": outcome.duplicates,
                "foreign": outcome.foreign,
                "send_errors": dict(outcome.send_errors),
                "produce_s": round(outcome.produce_s, 3),
                "consume_s": round(outcome.consume_s, 3),
                "stalls_s": [round(stall, 1) for stall in outcome.stalls_s],
                "imbalance": outcome.imbalance(),
                "partitions": [{**asdict(row), "deviation": row.deviation} for row in rows],
                "complete": outcome.complete,
            },
        )
        return
    table = Table(title="per partition", title_justify="left")
    for title in ("partition", "messages", "share", "deviation", "offsets", "gaps"):
        table.add_column(title, justify="left" if title == "offsets" else "right")
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)
    expected = [row.expected for row in rows]
    line(console, f"imbalance: {outcome.imbalance()} messages (expected at most {max(expected) - min(expected)})")
    for stall_s in outcome.stalls_s:
        line(console, (f"stall: nothing arrived for {stall_s:.1f} s", "yellow"))
    for name, count in outcome.send_errors.items():
        line(console, (f"{count:,} sends ended with {name}", "yellow"))
    if outcome.duplicates:
        line(console, (f"{outcome.duplicates:,} duplicates", "yellow"))
    if outcome.foreign:
        line(console, (f"{outcome.foreign:,} records that nobody sent", "yellow"))
    produced, consumed = _rate(outcome.acknowledged, outcome.produce_s), _rate(outcome.distinct, outcome.consume_s)
    colour = "bold green" if outcome.complete else "bold red"
    share = f" ({100 * outcome.distinct / settings.messages:.1f} %)" if settings.messages else ""
    arrived = (f"{outcome.distinct:,} of {settings.messages:,}", colour)
    line(console, arrived, f" messages arrived{share}; produced at {produced}, consumed at {consumed}")


def _cells(row: PartitionRow) -> tuple[str, ...]:
    offsets = "none" if row.first_offset is None else f"{row.first_offset}-{row.last_offset}"
    return (
        str(row.partition),
        f"{row.messages:,}{' LOW' if row.low else ''}",
        f"{100 * row.share:.1f} %",
        f"{row.deviation:+d}",
        offsets,
        str(row.gaps),
    )


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f} messages/s" if seconds > 0 else "an unknown rate"
