"""A matrix: lists of values by axis, and their product, each combination with a name that stays the same.

A value becomes a layer of a scenario's data, or a setting as `--set` takes it, and a label, which is part of the name
of a case. Labels are letters that may be in the name of a directory, because runs are kept under them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.foundation.errors import UsageError
from harness.runs.scenario import toml_value, with_short_forms_expanded

NONE = "none"  # no fault, no broken broker
PLAIN = frozenset({"nemesis", "workload", "client", "version", "broken"})  # axes whose values speak for themselves
_FOREIGN = re.compile(r"[^A-Za-z0-9_+.]+")


@dataclass(frozen=True)
class Combination:
    """One value of each axis."""

    labels: tuple[str, ...] = ()
    layer: dict[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] = ()


def combinations(matrix: Mapping[str, Any], source: str) -> Iterator[Combination]:
    """The product, the last axis turning fastest; one empty combination without any axis."""
    axes = [[_value(axis, value, source) for value in _values(axis, values, source)] for axis, values in matrix.items()]
    for axis, made in zip(matrix, axes, strict=True):
        labels = [each.labels for each in made]
        if twice := [label[0] for label in labels if labels.count(label) > 1]:
            raise UsageError(
                f"{source}: two values of the axis '{axis}' would both be called '{twice[0]}'",
                "leave one out, or make two scenarios of it",
            )
    for each in itertools.product(*axes):
        yield _together(each)


def _values(axis: str, values: Any, source: str) -> list[Any]:
    if not isinstance(values, list) or not values:
        raise UsageError(f"{source}: the axis '{axis}' is no list of values", f'write {axis} = ["…", "…"]')
    return values


def _value(axis: str, value: Any, source: str) -> Combination:
    labels = (_label(axis, value, source),)
    if not labels[0]:
        raise UsageError(f"{source}: a value of the axis '{axis}' has no name", "name it")
    if axis == "nemesis":
        return Combination(labels, {"nemesis": [] if value == NONE else value})
    if axis == "workload":
        return Combination(labels, {"workload": value})
    if axis == "version":
        return Combination(labels, {"cluster": {"version": value}})
    if axis == "broken":
        return Combination(labels, {"tap": {"broken": [] if value == NONE else [value]}})
    try:
        return Combination(labels, settings=(f"{axis}={toml_value(value)}",))
    except TypeError:
        raise UsageError(
            f"{source}: a value of the axis '{axis}' is a date or a time ({value})", "write a text, a number or a table"
        ) from None


def _label(axis: str, value: Any, source: str) -> str:
    if axis == "nemesis":
        faults = value if isinstance(value, list) else [value]
        if any(isinstance(fault, list) for fault in faults):
            raise UsageError(
                f"{source}: a value of the axis 'nemesis' is nested too deeply",
                'write ["kill", "pause"] for both at once, or "kill,pause" for a mix',
            )
        return _clean("+".join(map(_fault, faults)))
    if axis == "workload" and isinstance(value, dict):
        return _clean(str(value.get("name", "")))
    if axis in PLAIN:
        return _clean(str(value))
    name = axis.rpartition(".")[2]
    if isinstance(value, bool):
        return _clean(name if value else f"no-{name}")
    return _clean(f"{name}-{value}")


def _fault(value: Any) -> str:
    """A fault, or a mix, with its target if it is aimed."""
    (plan,) = with_short_forms_expanded({"nemesis": value})["nemesis"]
    if not isinstance(plan, dict):
        return str(plan)
    faults = plan.get("fault", "")
    name = "+".join(map(str, faults)) if isinstance(faults, list | tuple) else str(faults)
    return f"{name}-{plan['target']}" if plan.get("target") else name


def _clean(text: str) -> str:
    return _FOREIGN.sub("-", text).strip("-.")


def _together(values: tuple[Combination, ...]) -> Combination:
    layer: dict[str, Any] = {}
    for each in values:
        layer |= each.layer  # no two axes make the same key
    return Combination(
        tuple(label for each in values for label in each.labels),
        layer,
        tuple(setting for each in values for setting in each.settings),
    )
