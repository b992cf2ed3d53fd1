"""What commands print: tables for people, JSON for scripts. Text from brokers is never taken as markup."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.clusters.cleanup.heal import Healed
from harness.foundation.errors import TidegaugeError


def as_json_text(console: Console, data: object) -> None:
    """Exactly the JSON, whatever the width of the terminal."""
    console.file.write(json.dumps(data, indent=2) + "\n")
    console.file.flush()


def as_json_line(console: Console, data: object) -> None:
    """One of several answers of a command that goes on: a line each, so that a script can read them as they come."""
    console.file.write(json.dumps(data) + "\n")
    console.file.flush()


def line(console: Console, *parts: str | tuple[str, str]) -> None:
    """One line of plain text, some of it styled; whatever the text holds, it is shown as it is written."""
    console.print(Text.assemble(*parts), highlight=False, soft_wrap=True)


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


def healed(console: Console, found: Healed, *, as_json: bool) -> None:
    """What a killed harness had left."""
    if as_json:
        as_json_text(console, found.as_json())
        return
    for sentence in found.sentences:
        line(console, sentence)
