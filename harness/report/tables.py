"""Tables of the report: linearizability, stalls, NOT_LEADER errors, settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.report.first_screen import LINEAR
from harness.report.names import Names
from harness.report.timeline import of_witness

WITNESSES = 6
REFUSALS_SHOWN = 30
CLASSES = ("class 1", "class 2", "class 3", "data available", "class unknown")
CONTRADICTIONS = ("not-linearizable", "inconsistent-offset", "realtime-order", "shared-offset")
Row = dict[str, Any]


def linear(results: Mapping[str, Any], series: Mapping[str, Any] | None, names: Names) -> list[Row]:
    """Per partition: its verdict, and its witness or the findings that contradict it."""
    summary = (results.get("summaries") or {}).get("linearizability") or {}
    contradictions = {
        f"{finding['topic']}-{finding['partition']}": f"{name}-{number}"
        for name in CONTRADICTIONS
        for number, finding in reversed(list(enumerate(results["anomalies"].get(name, {}).get("findings", [])[:3])))
    }
    drawn, rows = 0, []
    for each in summary.get("partitions", []):
        witness = (series or {}).get("witness", {}).get(each["partition"])
        name, line = names.place(each["partition"]), None
        if series and witness and each["verdict"] in LINEAR and drawn < WITNESSES:
            line = of_witness(f"witness-{drawn}", f"order of appends in {name}", witness, series, names)
            drawn += 1
        finding = contradictions.get(each["partition"]) if line is None else None
        rows.append({**each, "name": name, "timeline": line, "finding": finding})
    return rows


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
