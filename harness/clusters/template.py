"""The text of a target: placeholders, which are filled for each node, and loops over nodes.

Text in a target may use placeholders. An unknown one is an error, never left standing:

    {node_id} {node_dir} {cluster_id} {version}
    {bind}              the address to listen on            {host}         the name other nodes reach this node by
    {client_host}       the name clients reach it by        {port.NAME}    this node's port of that name
    {peers.NAME}        ["host:port", ...] of the other nodes, as a JSON (and TOML) array
    {nodes.NAME}        the same for all nodes
    {nodes.NAME:csv}    host:port,host:port                 {nodes.NAME:voters}   1@host:port,2@host:port
    {java} {classpath}  when the target has a [java] table
    {class_archive}     the same, a word of its own in the command of [process]: options for a faster start, or nothing
    {helper.host} {helper.port}   where the process of a [helper] table is reached

A loop repeats its text for every node, or for every other node, where a product wants a table for each:

    {for node in nodes} ... {end}           {for node in peers} ... {end}

Inside it, `{node.id}`, `{node.host}`, `{node.client_host}` and `{node.port.NAME}` are those of the node whose turn it
is; anywhere, `{node.2.id}`, `{node.2.host}` and so on are those of node 2.
A line that holds nothing but `{for ...}` or `{end}` leaves no line behind. Loops do not lie in loops.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.foundation.config import suggestion
from harness.foundation.errors import UsageError

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([a-z_][a-z0-9_]*(?:[.:][a-z0-9_-]+)*)\}")
_TAG_LINE = re.compile(r"^[ \t]*(\{for node in \w+\}|\{end\})[ \t]*\n", re.MULTILINE)
_LOOP = re.compile(r"(?<!\{)\{for node in (nodes|peers)\}(?!\})(.*?)(?<!\{)\{end\}(?!\})", re.DOTALL)
_LOOP_BEGINS = re.compile(r"(?<!\{)\{for\b[^}\n]*\}?")
_OF_NODE = re.compile(r"node\.([0-9]+)\.id")


@dataclass(frozen=True)
class NodePlan:
    """What the placeholders of one node mean."""

    node_id: int
    host: str
    bind: str
    client_host: str
    ports: Mapping[str, int]


def placeholders(plans: list[NodePlan], node_id: int, extra: Mapping[str, str]) -> dict[str, str]:
    """Every placeholder of one node, by name."""
    mine = next(plan for plan in plans if plan.node_id == node_id)
    values = {
        "node_id": str(node_id),
        "host": mine.host,
        "bind": mine.bind,
        "client_host": mine.client_host,
        **extra,
    }
    for plan in plans:
        values |= _of_node(plan)
    for name, port in mine.ports.items():
        everyone = [(plan.node_id, f"{plan.host}:{plan.ports[name]}") for plan in plans]
        addresses = [address for _, address in everyone]
        peers = [address for other, address in everyone if other != node_id]
        values[f"port.{name}"] = str(port)
        values[f"nodes.{name}"] = json.dumps(addresses)
        values[f"peers.{name}"] = json.dumps(peers)
        values[f"nodes.{name}:csv"] = ",".join(addresses)
        values[f"peers.{name}:csv"] = ",".join(peers)
        values[f"nodes.{name}:voters"] = ",".join(f"{other}@{address}" for other, address in everyone)
    return values


def _of_node(plan: NodePlan) -> dict[str, str]:
    """What is known of a node whoever it is that reads it."""
    of = f"node.{plan.node_id}"
    values = {f"{of}.id": str(plan.node_id), f"{of}.host": plan.host, f"{of}.client_host": plan.client_host}
    return values | {f"{of}.port.{name}": str(port) for name, port in plan.ports.items()}


def render(text: str, values: Mapping[str, str], source: str) -> str:
    """`text` with its placeholders filled; `{{` and `}}` stand for plain braces."""
    text = _unrolled(text, values, source)

    def fill(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return match.group(0)[0]
        if name not in values:
            raise UsageError(
                f"{source}: unknown placeholder {{{name}}}",
                f"{suggestion(name, list(values))} (plain braces are written {{{{ and }}}})",
            )
        return values[name]

    return _PLACEHOLDER.sub(fill, text)


def _unrolled(text: str, values: Mapping[str, str], source: str) -> str:
    """`text` with its loops written out: `{node.host}` becomes `{node.2.host}` in the turn of node 2."""
    numbers = [match.group(1) for name in values if (match := _OF_NODE.fullmatch(name))]

    def repeat(loop: re.Match[str]) -> str:
        turns = [n for n in numbers if loop.group(1) == "nodes" or n != values["node_id"]]
        return "".join(loop.group(2).replace("{node.", f"{{node.{n}.") for n in turns)

    unrolled = _LOOP.sub(repeat, _TAG_LINE.sub(r"\1", text))
    if left := _LOOP_BEGINS.search(unrolled):
        raise UsageError(
            f"{source}: the loop {left.group()} cannot be read",
            "write {for node in nodes} or {for node in peers}, and {end} behind it",
        )
    return unrolled
