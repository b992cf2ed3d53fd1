"""Where each part of a scenario came from, so that a mistake is blamed on its file, its flag or its variable."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.clusters.flags import BOOTSTRAP_VARIABLE, KIND_VARIABLE, TARGET_VARIABLE, VERSION_VARIABLE
from harness.foundation.mistakes import Place

Keys = tuple[str, ...]  # a place without the numbers of list items
COMMAND_LINE = "the command line"  # where there is no file
SETTINGS_VARIABLE = "TIDEGAUGE_SET"
FLAGS: Mapping[Keys, tuple[str, str]] = {  # with the variable that means the same
    ("workload",): ("--workload", "TIDEGAUGE_WORKLOAD"),
    ("nemesis",): ("--nemesis", "TIDEGAUGE_NEMESIS"),
    ("time",): ("--time", "TIDEGAUGE_TIME"),
    ("seed",): ("--seed", "TIDEGAUGE_SEED"),
    ("cluster", "kind"): ("--cluster", KIND_VARIABLE),
    ("cluster", "version"): ("--kafka-version", VERSION_VARIABLE),
    ("cluster", "target"): ("--target", TARGET_VARIABLE),
    ("cluster", "bootstrap"): ("--bootstrap", BOOTSTRAP_VARIABLE),
    ("tap", "on"): ("--tap", "TIDEGAUGE_TAP"),
    ("tap", "broken"): ("--broken", "TIDEGAUGE_BROKEN"),
}


@dataclass(frozen=True)
class Origins:
    """The file, or what stands in its place, and what was laid over it: the last one counts."""

    base: str
    laid_over: tuple[tuple[Keys, str], ...] = ()

    @property
    def file(self) -> str:
        """The file; nothing if there is none."""
        return "" if self.base == COMMAND_LINE else self.base

    def of(self, place: Place, *, whole_table: bool = False) -> str:
        """What a mistake at this place is blamed on; one of a whole table on all that made it what it is."""
        keys = _keys(place)
        if whole_table and keys:
            labels = [label for prefix, label in self.laid_over if prefix[: len(keys)] == keys]
            return " with ".join(filter(None, (self.file if labels else self.base, " ".join(labels))))
        return next((label for prefix, label in reversed(self.laid_over) if keys[: len(prefix)] == prefix), self.base)


def origins(base: str, flags: Mapping[str, Any], settings: Iterable[str]) -> Origins:
    """Those of a file below flags and `key=value` settings."""
    given = [keys for keys in FLAGS if _given(flags, keys)]
    of_settings = [(_keys_of_setting(text), _label(text)) for text in settings]
    return Origins(base, (*((keys, _flag(keys)) for keys in given), *of_settings))


def _given(flags: Mapping[str, Any], keys: Keys) -> bool:
    value: Any = flags
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value is not None


def _flag(keys: Keys) -> str:
    flag, variable = FLAGS[keys]
    return f"{flag} or {variable}" if os.environ.get(variable) else flag


def _label(setting: str) -> str:
    """A setting as its user wrote it."""
    of_environment = setting in os.environ.get(SETTINGS_VARIABLE, "").split()
    return f"{SETTINGS_VARIABLE}={setting}" if of_environment else f"--set {setting}"


def _keys_of_setting(text: str) -> Keys:
    table, _, key = text.partition("=")[0].rpartition(".")
    return (table or "workload", key)


def _keys(place: Place) -> Keys:
    return tuple(part for part in place if isinstance(part, str))
