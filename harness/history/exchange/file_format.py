"""The exchange format: what a file of events says, in words that any program can write.

The first thing is a header, which names the format and tells what the verdict has to know beside the events. Then comes
one event after the other, with the columns of its kind that are not null: numbers as in the history, and words where
the history has numbers for words (`WORDS`); topics go by their names. docs/history.md is the specification.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, field_validator

from harness.foundation.config import Model
from harness.foundation.reasons import Reason
from harness.history.schema import COLUMNS, ID_BITS, KINDS, TEXT, F, FaultStage, Kind, OffsetView, Status, Type

IMPORTED = "import"  # the kind of a run whose history was imported
DEFAULT_ROLE = "consumer"  # its reads count as those of the load
PROCESSES_AT_MOST = 1 << (63 - ID_BITS)  # so that the number of a process fits above the counter of an event


def _words(values: type[IntEnum]) -> dict[str, int]:
    return {value.name.lower(): int(value) for value in values}


WORDS: dict[str, dict[str, int]] = {
    "f": _words(F),
    "type": _words(Type),
    "status": _words(Status),
    "view": _words(OffsetView),
    "stage": _words(FaultStage),
}
KIND_WORDS = {kind.name.lower(): kind for kind in Kind}
CLIENTS = frozenset({Kind.INVOKE, Kind.COMPLETE, Kind.RECORD})
REQUIRED: dict[Kind, frozenset[str]] = {
    Kind.INVOKE: frozenset({"op", "f"}),
    Kind.COMPLETE: frozenset({"op", "f", "type"}),
    Kind.RECORD: frozenset({"op", "topic", "partition", "offset"}),
    Kind.PROBE: frozenset({"invoked", "node", "api"}),
    Kind.EXCHANGE: frozenset({"invoked"}),  # a connection that failed is the row of no request
    Kind.FAULT: frozenset({"fault", "stage", "name"}),
    Kind.BROKER: frozenset(),
    Kind.PHASE: frozenset({"name"}),
}
SEND_NEEDS = ("topic", "value")  # without them a send can be found by nobody


class Wrong(Exception):
    """Something in a file that cannot be taken: where, and why not."""

    def __init__(self, line: int, reason: str, remedy: str = "fix it where it was written, or remove it") -> None:
        super().__init__(f"{line}: {reason}")
        self.line = line
        self.reason = reason
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[Wrong], tuple[int, str, str]]:
        """It travels between processes."""
        return Wrong, (self.line, self.reason, self.remedy)


class RunInfo(Model):
    """What run.json knows of a run and the verdict needs."""

    title: StrictStr | None = None
    workload: StrictStr | None = None
    expect: StrictStr | None = None
    seed: StrictInt | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    limits: dict[StrictStr, StrictInt | StrictFloat] = Field(default_factory=dict)  # seconds, as in a scenario
    ours: StrictBool = False  # whether its clients were Tidegauge's, which record more than others
    idempotent: StrictBool | None = None
    schedule: tuple[dict[str, Any], ...] = ()
    compacted: tuple[StrictStr, ...] = ()
    anchor: dict[str, StrictInt] | None = None
    no_probes: StrictStr | None = None
    ends_by_itself: StrictBool = False
    interrupted: StrictBool = False
    traffic_only: StrictBool = False
    dead_workers: tuple[StrictStr, ...] = ()
    dead_roles: tuple[StrictStr, ...] = ()  # of the first of these, as far as anybody knows
    elections: dict[Annotated[str, Field(pattern=r"^[0-9]{1,9}$")], StrictBool] | None = None  # unclean, by fault
    troubles: tuple[StrictStr | dict[StrictStr, StrictStr], ...] = ()  # sentences, or each with a code
    tap: dict[str, StrictInt] | None = None
    damage: tuple[StrictStr, ...] = ()
    damaged_processes: tuple[StrictInt, ...] = ()

    @field_validator("settings")
    @classmethod
    def _settings_are_what_the_verdict_reads(cls, settings: dict[str, Any]) -> dict[str, Any]:
        if settings.get("acks", "all") not in ("0", "1", "all"):
            raise ValueError('acks is "0", "1" or "all"')
        for name, kind in (("idempotence", bool), ("unclean_election", bool), ("retries", int)):
            if type(settings.get(name)) not in (kind, type(None)):
                raise ValueError(f"{name} is {'true or false' if kind is bool else 'a whole number'}")
        return settings

    @field_validator("schedule")
    @classmethod
    def _faults_have_names(cls, slots: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        if not all(isinstance(slot.get("fault"), str) for slot in slots):
            raise ValueError("each slot names its fault")
        return slots


class FileHeader(Model):
    """The first line of a file."""

    tidegauge: Literal["history"] = "history"
    version: Literal[1] = 1
    about: RunInfo = RunInfo()
    processes: dict[StrictStr, dict[str, Any]] = Field(default_factory=dict)
    topics: tuple[StrictStr, ...] = ()
    events: StrictInt | None = None

    @field_validator("processes")
    @classmethod
    def _processes_are_numbers_with_roles(cls, processes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for number, about in processes.items():
            if not number.isdecimal() or str(int(number)) != number or int(number) >= PROCESSES_AT_MOST:
                raise ValueError(f"'{number}' is no number of a process")
            if not isinstance(about.get("role"), str):
                raise ValueError(f"process {number} has no role")  # noqa: TRY004 - pydantic takes no other
        return processes

    @field_validator("topics")
    @classmethod
    def _topics_have_names(cls, topics: tuple[str, ...]) -> tuple[str, ...]:
        if not all(topics) or len(set(topics)) != len(topics):
            raise ValueError("each topic is named once, and not by nothing")
        return topics

    def as_text(self) -> str:
        """As it stands in a file."""
        return json.dumps(self.model_dump(mode="json", exclude_none=True), separators=(",", ":"))


@cache
def limits(kind: Kind, name: str) -> tuple[int, int]:
    """The smallest and the largest number of a column; the very smallest of its type stands for null."""
    stored = np.iinfo(COLUMNS[name].stored)
    low, high = int(stored.min) + 1, int(stored.max)
    if name in {"event", "time", "invoked", "op"} or (kind in CLIENTS and name in {"partition", "count"}):
        low = 0
    if kind is Kind.RECORD and name == "offset":
        low = 0
    if name == "process":
        low, high = 0, PROCESSES_AT_MOST - 1
    return low, high


def is_text(name: str) -> bool:
    """Whether a column is free text."""
    return COLUMNS[name].type == TEXT


def unfit_keys(kind: Kind, keys: tuple[str, ...]) -> str | None:
    """Why an event of a kind cannot have just these keys; None when it can."""
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        return f"the key '{twice}' is there twice"
    known = KINDS[kind]
    if unknown := [key for key in keys if key not in known and key != "kind"]:
        return f"'{unknown[0]}' is no column of {kind.name.lower()}"
    if missing := sorted(({"time", "process"} | REQUIRED[kind]) - set(keys)):
        return f"the key '{missing[0]}' is missing"
    return None


def facts_from(header: FileHeader, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says of an imported run; `changes` are settings that the user knows."""
    about = header.about
    facts = about.model_dump(
        mode="json",
        exclude_none=True,
        exclude={"workload", "expect", "settings", "limits", "damage", "damaged_processes"},
    )
    if "idempotence" in changes:
        facts.pop("idempotent", None)
    scenario: dict[str, Any] = {"workload": about.workload, "expect": about.expect}
    scenario |= {"settings": {**about.settings, **changes}, "limits": about.limits or None}
    return {**facts, "scenario": {name: value for name, value in scenario.items() if value is not None}}


def about_of(facts: Mapping[str, Any], failures: tuple[Reason, ...], damage: Mapping[str, Any]) -> RunInfo:
    """The same the other way round; `failures` say what went wrong in the run."""
    scenario = facts.get("scenario") or {}
    known: dict[str, Any] = {name: facts.get(name) for name in ("seed", "idempotent", "anchor", "no_probes", "tap")}
    known["elections"] = facts.get("elections") or None
    known |= {name: tuple(facts.get(name) or ()) for name in ("schedule", "compacted", "dead_workers", "dead_roles")}
    known |= {name: bool(facts.get(name)) for name in ("ends_by_itself", "interrupted")}
    return RunInfo(
        title=facts.get("title"),
        workload=scenario.get("workload"),
        expect=scenario.get("expect"),
        settings=scenario.get("settings") or {},
        limits=scenario.get("limits") or {},
        ours=facts.get("kind") != IMPORTED or bool(facts.get("ours")),
        troubles=tuple(each.as_json() for each in failures),
        traffic_only=facts.get("kind") == "tap" or bool(facts.get("traffic_only")),
        **known,
        **damage,
    )
