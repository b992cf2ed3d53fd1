"""Tables of the report: linearizability, stalls, NOT_LEADER errors, settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.report.first_screen import LINEAR
from harness.report.names import Names
from harness.report.picture import Pictures
from harness.report.tracks import Panel

PICTURES = 8  # of partitions
REFUSALS_SHOWN = 30
CLASSES = ("class 1", "class 2", "class 3", "data available", "class unknown")
CONTRADICTIONS = ("not-linearizable", "inconsistent-offset", "realtime-order", "shared-offset")
Row = dict[str, Any]


def linear(results: Mapping[str, Any], series: Mapping[str, Any] | None, names: Names) -> list[Row]:
    """Per partition: its verdict, its picture, and the finding that contradicts it; those that are violated first."""
    summary = (results.get("summaries") or {}).get("linearizability") or {}
    contradictions = {
        f"{finding['topic']}-{finding['partition']}": f"{name}-{number}"
        for name in CONTRADICTIONS
        for number, finding in reversed(list(enumerate(results["anomalies"].get(name, {}).get("findings", [])[:3])))
    }
    around, pictures = _around(series or {}), Pictures(series or {}, names)

    def picture(number: int, each: Mapping[str, Any]) -> Panel | None:
        if series is None or number >= PICTURES:
            return None
        place, linear = each["partition"], each["verdict"] in LINEAR
        return pictures.of_partition(f"order-{number}", place, around.get(place, []), linear=linear)

    def order(each: Mapping[str, Any]) -> tuple[bool, bool]:
        return each["verdict"] in LINEAR, each["partition"] not in contradictions

    rows = sorted(summary.get("partitions", []), key=order)
    return [
        {
            **each,
            "name": names.place(each["partition"]),
            "picture": picture(number, each),
            "finding": contradictions.get(each["partition"]),
        }
        for number, each in enumerate(rows)
    ]


def _around(series: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """The operations that were kept around findings about the order of operations, by partition."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for key, rows in series.get("around", {}).items():
        if key.partition("/")[0] in CONTRADICTIONS:
            for row in rows:
                found.setdefault(f"{row.get('topic')}-{row.get('partition')}", []).append(row)
    return found


def stalls(results: Mapping[str, Any], series: Mapping[str, Any] | None, names: Names) -> list[Row]:
    """Of partitions, with their class; and of consumers, which have none."""
    first_ns = series["first_ns"] if series else None
    rows = [
        {
            "who": names.partition(finding["topic"], finding["partition"]),
            "class": next((tag for tag in finding["tags"] if tag in CLASSES), "class unknown"),
            "began": None if first_ns is None else finding["time_ns"] - first_ns,
            "lasted": (finding["until_ns"] or finding["time_ns"]) - finding["time_ns"],
            "detail": finding["detail"],
        }
        for finding in results["anomalies"].get("stall", {}).get("findings", [])
        if finding["time_ns"] is not None
    ]
    rows += [
        {
            "who": f"consumer {stall['process']}",
            "class": "all of its partitions",
            "began": None if first_ns is None else stall["began_ns"] - first_ns,
            "lasted": stall["lasted_ns"],
            "detail": "received no records" + (", then gave up" if stall["at_end"] else ""),
        }
        for stall in results["figures"]["stalls"]
    ]
    return rows


def refusals(series: Mapping[str, Any] | None, names: Names) -> Row | None:
    """NOT_LEADER errors by client and node, and the partitions that they were about."""
    if not series or not series["seen"]["exchanges"]:
        return None
    every = series["refusals"]
    nodes = sorted({row["node"] for row in every if row["node"] is not None})
    counts: dict[str, dict[int, int]] = {client: {} for client in sorted({str(row["client"]) for row in every})}
    for row in every:
        by_node = counts[str(row["client"])]
        by_node[row["node"]] = by_node.get(row["node"], 0) + row["count"]
    rows = [
        {
            **row,
            "place": names.partition(row["topic"], row["partition"]),
            "leader": _leaders_named(series, f"{row['topic']}-{row['partition']}"),
        }
        for row in every[:REFUSALS_SHOWN]
    ]
    by_client = {client: [by_node.get(node, 0) for node in nodes] for client, by_node in counts.items()}
    return {"nodes": nodes, "counts": by_client, "rows": rows, "total": len(every)}


def _leaders_named(series: Mapping[str, Any], place: str) -> str:
    """Which leaders nodes named for a partition, in the whole run."""
    said = series["leaders"].get(place, {})
    named = {change[1] for changes in said.values() for change in changes}
    return ", ".join(f"node {node}" for node in sorted(named) if node >= 0) or "unknown"


def settings(facts: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Configuration, versions, cluster and machine, as tables of names and values."""
    scenario = facts.get("scenario") or {}
    cluster = {
        name: value for name, value in (facts.get("cluster") or {}).items() if not isinstance(value, list | dict)
    }
    machine = facts.get("machine") or {}
    tables = {
        "Workload": scenario.get("settings") or {},
        "Limits": scenario.get("limits") or {},
        "Cluster": cluster,
        "Versions": facts.get("versions") or {},
        "Machine": {
            "system": machine.get("system"),
            "cpus": machine.get("cpus"),
            "memory": f"{machine['memory_bytes'] / 2**30:.1f} GiB" if machine.get("memory_bytes") else None,
        },
        "Phases": {phase["name"]: f"{phase['took_s']:.1f} s" for phase in facts.get("phases") or []},
    }
    return [
        (title, [(name, _value(value)) for name, value in table.items() if value is not None])
        for title, table in tables.items()
        if any(value is not None for value in table.values())
    ]


def _value(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
