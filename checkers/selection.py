"""Which checkers are asked: all of them, or those that somebody names, by their family or by what they find."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from checkers.families import FAMILIES, STUDIES
from checkers.results import Anomaly

NOT_ASKED = "not asked for"


def written(name: str) -> str:
    """The name of a family or a study on a command line."""
    return name.replace(" ", "-")


def anomalies_of() -> Mapping[str, frozenset[str]]:
    """By every name that somebody may ask for, the anomalies that are meant."""
    found: dict[str, set[str]] = {}
    for family in FAMILIES:
        found.setdefault(written(family.name), set())
        for rule in family.rules:
            found[written(family.name)].add(rule.anomaly)
            found.setdefault(rule.anomaly, set()).add(rule.anomaly)
    for study in STUDIES:
        found.setdefault(written(study.name), set()).update(study.anomalies)
        for anomaly in study.anomalies:
            found.setdefault(anomaly, set()).add(anomaly)
    return {name: frozenset(anomalies) for name, anomalies in found.items()}


def leave_out(anomalies: Mapping[str, Anomaly], only: Collection[str]) -> None:
    """Mark what nobody asked for."""
    if only:
        known = anomalies_of()
        asked = frozenset[str]().union(*(known.get(name, frozenset()) for name in only))
        for anomaly in anomalies.values():
            if anomaly.name not in asked:
                anomaly.not_applicable = NOT_ASKED
