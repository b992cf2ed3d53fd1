"""Which checkers are asked: all of them, or those that somebody names, by their family or by what they find."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from checkers.core.families import FAMILIES

NOT_ASKED = "not asked for"
INTERNAL = frozenset({"epochs", "fates", "coverage", "figures", "series"})  # nobody asks for these by name


def written(name: str) -> str:
    """The name of a family on a command line."""
    return name.replace(" ", "-")


def anomalies_of() -> Mapping[str, frozenset[str]]:
    """By every name that somebody may ask for, the anomalies that are meant."""
    found: dict[str, set[str]] = {}
    for family in FAMILIES:
        if family.name not in INTERNAL:
            found.setdefault(written(family.name), set()).update(family.anomalies)
        for anomaly in family.anomalies:
            found.setdefault(anomaly, set()).add(anomaly)
    return {name: frozenset(anomalies) for name, anomalies in found.items()}


def asked_for(only: Collection[str]) -> frozenset[str]:
    """The anomalies that these names mean; all, without any."""
    known = anomalies_of()
    return frozenset[str]().union(*(known.get(name, frozenset()) for name in only or known))
