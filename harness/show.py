"""What commands print: tables for people, JSON for scripts. Text from brokers is never taken as markup."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.doctor import Check
from harness.errors import TidegaugeError
from workloads.large_batch import Outcome, PartitionRow


def as_json_text(console: Console, data: object) -> None:
    """Exactly the JSON, whatever the width of the terminal."""
    console.file.write(json.dumps(data, indent=2) + "\n")
    console.file.flush()


def error(console: Console, failure: TidegaugeError) -> None:
    """One sentence, and below it what a log has to say."""
    console.print(f"[bold red]error[/bold red]  {escape(str(failure))}", highlight=False, soft_wrap=True)
    for line in failure.log_tail:
        console.print(f"  │ {line}", markup=False, highlight=False, soft_wrap=True)


def cluster(console: Console, description: dict[str, Any], *, as_json: bool) -> None:
    """A cluster that came up."""
    if as_json:
        as_json_text(console, description)
        return
    title = (
        f"{description['product']} {description['version']}, {len(description['nodes'])} nodes, {description['kind']}"
    )
    console.print(f"[bold]{description['name']}[/bold]  {title}, ready after {description['ready_after_s']} s")
    console.print(f"  cluster id  {description['cluster_id']}", highlight=False)
    console.print(f"  bootstrap   {description['bootstrap']}", highlight=False, soft_wrap=True)
    console.print(f"  remove      tidegauge cluster down {description['name']}", highlight=False)


def removed(console: Console, names: list[str], *, as_json: bool) -> None:
    """Clusters that are gone."""
    if as_json:
        as_json_text(console, {"removed": names})
    else:
        console.print(f"removed {', '.join(names)}" if names else "no cluster is up", highlight=False)


def status(console: Console, clusters: list[dict[str, Any]], *, as_json: bool) -> None:
    """Every cluster and every node."""
    if as_json:
        as_json_text(console, clusters)
        return
    if not clusters:
        console.print("no cluster is up")
    for each in clusters:
        console.print(
            f"[bold]{each['name']}[/bold]  {each['product']} {each['version']}, {each['kind']}, "
            f"harness {each['harness_pid']}, cluster id {each['cluster_id']}",
            highlight=False,
        )
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for title in ("  node", "address", "answers", "lists brokers"):
            table.add_column(title)
        for node in each["nodes"]:
            words = {None: "not asked", True: "yes", False: "no"}
            table.add_row(
                f"  {node['id']}",
                node["address"],
                words[node["answers"]],
                str(node["lists_brokers"]) if node["answers"] else "",
            )
        console.print(table)


def logs(console: Console, lines_by_node: dict[int, list[str]], *, as_json: bool) -> None:
    """Log lines, as they are."""
    if as_json:
        as_json_text(console, {str(node): lines for node, lines in lines_by_node.items()})
        return
    for node, lines in lines_by_node.items():
        for line in lines:
            console.print(f"node {node} │ {line}", markup=False, highlight=False, soft_wrap=True)


def image(console: Console, name: str, *, as_json: bool) -> None:
    """An image that was built."""
    if as_json:
        as_json_text(console, {"image": name})
    else:
        console.print(f"built {name}", highlight=False)


def checks(console: Console, found: list[Check], *, as_json: bool) -> None:
    """What this machine has and has not."""
    if as_json:
        as_json_text(console, [check.as_json() for check in found])
        return
    for check in found:
        mark = "[green]✓[/green]" if check.ok else "[yellow]✗[/yellow]"
        console.print(f"{mark} {check.name:<9} {escape(check.found)}", highlight=False, soft_wrap=True)
        if not check.ok:
            console.print(f"            costs: {check.costs}", markup=False, highlight=False, soft_wrap=True)
            console.print(f"            remedy: {check.remedy}", markup=False, highlight=False, soft_wrap=True)


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
    total, widest = settings.messages, max(row.expected for row in rows)
    console.print(
        f"imbalance: {outcome.imbalance()} messages (expected at most {widest - min(r.expected for r in rows)})"
    )
    for stall_s in outcome.stalls_s:
        console.print(f"[yellow]stall: nothing arrived for {stall_s:.1f} s[/yellow]")
    for name, count in outcome.send_errors.items():
        console.print(f"[yellow]{count:,} sends ended with {name}[/yellow]")
    if outcome.duplicates:
        console.print(f"[yellow]{outcome.duplicates:,} duplicates[/yellow]")
    rates = f"produced at {_rate(outcome.acknowledged, outcome.produce_s)}, "
    rates += f"consumed at {_rate(outcome.distinct, outcome.consume_s)}"
    colour = "green" if outcome.complete else "red"
    percent = f"{100 * outcome.distinct / total:.1f} %"
    console.print(
        f"[bold {colour}]{outcome.distinct:,} of {total:,}[/bold {colour}] messages arrived ({percent}); {rates}",
        highlight=False,
        soft_wrap=True,
    )


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
