"""The first screen of a report: did the cluster keep its promises, if not why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.foundation.reasons import ILLEGAL
from harness.report.names import counted
from harness.report.story import ReportedAnomaly

NOT_REPEATED = frozenset({"tap", "import"})  # kinds of runs whose clients are not ours
LINEAR = frozenset({"linearizable", "linearizable; end() was never called"})
SYMBOLS = {"valid": "✓", "invalid": "✕", "unknown": "?"}


@dataclass(frozen=True)
class Tile:
    """A number of the first screen, and where its evidence is."""

    label: str
    value: str
    note: str
    link: str


@dataclass(frozen=True)
class ShownCause:
    """A cause with the anomalies that prove it, by name and count."""

    cause: Mapping[str, Any]
    evidence: tuple[ReportedAnomaly, ...]


@dataclass(frozen=True)
class FirstScreen:
    """What is said before anything is drawn."""

    verdict: str
    symbol: str
    sentence: str
    reasons: tuple[str, ...]
    tiles: tuple[Tile, ...]
    causes: tuple[ShownCause, ...]
    unexplained: tuple[ReportedAnomaly, ...]
    allowed: tuple[ReportedAnomaly, ...]
    not_excluded: tuple[Mapping[str, Any], ...]
    repeat: str | None


def first_screen(
    facts: Mapping[str, Any], results: Mapping[str, Any], seen: Sequence[ReportedAnomaly], path: str
) -> FirstScreen:
    """From run.json, results.json and what the findings section shows."""
    diagnosis = results.get("diagnosis") or {}
    causes = diagnosis.get("causes") or []
    explained = {name for cause in causes for name in cause["explains"]}
    weighty = [each for each in seen if each.status != "allowed"]
    measured = diagnosis.get("measured") or []
    return FirstScreen(
        verdict=results["verdict"],
        symbol=SYMBOLS.get(results["verdict"], "?"),
        sentence=sentence(results),
        reasons=tuple(each["sentence"] for each in results.get("reasons", []) if each["code"] != ILLEGAL),
        tiles=tuple(_tiles(facts, results)),
        causes=tuple(
            ShownCause(each, tuple(anomaly for anomaly in weighty if anomaly.name in each["explains"]))
            for each in causes
        ),
        unexplained=tuple(each for each in weighty if each.name not in explained),
        allowed=tuple(each for each in seen if each.status == "allowed"),
        not_excluded=tuple(each for each in measured if causes and each["outcome"] == "not excluded"),
        repeat=_repeat(facts, path),
    )


def sentence(results: Mapping[str, Any]) -> str:
    """The verdict."""
    events = counted(results.get("events", 0), "event")
    if results["verdict"] == "valid":
        checked = counted(results.get("looked_for", 0), "anomaly", "anomalies")
        return f"The cluster kept its promises: no violation in {events}, {checked} checked."
    if results["verdict"] == "invalid":
        illegal = sum(seen["mark"]["status"] == "illegal" for seen in results.get("seen", []))
        return f"The cluster broke its promises: {counted(illegal, 'kind')} of violation in {events}."
    return "No verdict: evidence that a verdict needs is missing."


def _tiles(facts: Mapping[str, Any], results: Mapping[str, Any]) -> list[Tile]:
    figures, tiles = results["figures"], []
    if sent := figures["sent"] - figures["aborted"]:
        lost = sent - figures["distinct"]
        note = "all of them" if not lost else f"{figures['info']:,} unknown, {figures['failed']:,} failed"
        tiles.append(Tile("Messages delivered", f"{figures['distinct']:,} of {sent:,}", note, "partitions"))
    partitions = ((results.get("summaries") or {}).get("linearizability") or {}).get("partitions", [])
    if partitions:
        linear = sum(each["verdict"] in LINEAR for each in partitions)
        violated = sum(each["verdict"] == "violated" for each in partitions)
        others = len(partitions) - linear - violated
        parts = [f"{violated} violated"] * bool(violated) + [f"{others} with a late end offset"] * bool(others)
        note = ", ".join(parts) or "in the order of their offsets"
        tiles.append(Tile("Linearizable partitions", f"{linear} of {len(partitions)}", note, "linearizability"))
    faults = [each["fault"] for each in results["coverage"]["faults"]]
    if faults:
        effective = sum(bool(each["bit"]) for each in faults)
        tiles.append(Tile("Faults that took effect", f"{effective} of {len(faults)}", _fault_names(faults), "faults"))
    elif broken := ((facts.get("scenario") or {}).get("tap") or {}).get("broken"):
        tiles.append(Tile("Built-in bug", ", ".join(broken), "simulated by the taps", "configuration"))
    elif facts.get("scenario"):
        tiles.append(Tile("Faults", "none", "nothing was broken on purpose", "faults"))
    checked = f"{results.get('looked_for', 0)} of {len(results['anomalies'])}"
    note = counted(results.get("events", 0), "event")
    tiles.append(Tile("Anomalies checked", checked, note, "coverage"))
    return tiles


def _fault_names(faults: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(str(each["name"]) for each in faults))
    return ", ".join(names[:2]) + (" and others" if len(names) > 2 else "")


def _repeat(facts: Mapping[str, Any], path: str) -> str | None:
    """The command that repeats the run; clients that are not ours cannot be repeated."""
    if not facts.get("scenario") or facts.get("kind") in NOT_REPEATED or facts.get("traffic_only"):
        return None
    return f"tidegauge run --replay {path}" if facts.get("schedule") else f"tidegauge run {path}/scenario.toml"
