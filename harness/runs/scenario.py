"""What a run is: a workload, faults, a cluster, a time and a seed; from a file, the environment and flags.

A scenario file is TOML (docs/scenario.schema.json describes it). The command line wins over the environment, that over
the file, and that over the defaults. Every part draws its chances from a seed of its own, derived from the scenario's:
one more operation in the workload does not shift a fault.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from harness.clusters.flags import DEFAULT_KIND
from harness.clusters.kinds import KINDS
from harness.clusters.spec import ClusterSpec
from harness.foundation.config import Model, attempt, read_toml, suggestion
from harness.foundation.durations import Duration
from harness.foundation.errors import UsageError
from harness.foundation.limits import Limits
from harness.foundation.mistakes import Mistake, refusal
from harness.foundation.paths import PACKAGE
from harness.runs.origins import COMMAND_LINE, Origins, origins
from harness.tap.spec import TapSpec
from nemesis import check_sense
from nemesis.schedule import FaultPlan
from workloads import WORKLOADS, find_workload
from workloads.base import Settings

DEFAULT_WORKLOAD = "large-batch"
NAME_CHARACTERS = 100
SHIPPED = PACKAGE / "runs" / "scenarios"


class Scenario(Model):
    """Everything that decides what a run does; holds no secrets, so it can be stored and repeated."""

    name: str = Field("", description="Directory of its runs in the store; default: workload+fault.")
    workload: str = Field(DEFAULT_WORKLOAD, description="What clients do.")
    settings: SerializeAsAny[Settings] = Field(description="The workload's settings.")
    nemesis: tuple[FaultPlan, ...] = Field((), description="Which faults, when.")
    cluster: ClusterSpec = Field(ClusterSpec(), description="What it runs on.")
    tap: TapSpec = Field(TapSpec(), description="The taps between clients and brokers: what they record and change.")
    limits: Limits = Field(Limits(), description="How long something may stand still.")
    time: Duration = Field(30.0, gt=0, description="How long the load lasts, or may last if it ends by itself.")
    seed: int = Field(0, ge=0, lt=2**63, description="Random seed, to repeat a run's choices; default: random.")
    expect: Literal["valid", "invalid", "unknown"] = Field("valid", description="The expected verdict.")

    @model_validator(mode="after")
    def _with_a_name(self) -> Self:
        if self.name and not all(letter.isalnum() or letter in "-_+." for letter in self.name.lstrip(".")):
            raise ValueError("a scenario's name is letters, digits and - _ + . only: it names a directory")
        if len(self.name) > NAME_CHARACTERS:
            raise ValueError(f"a scenario's name has at most {NAME_CHARACTERS} characters: it names a directory")
        if self.name == "latest":
            raise ValueError("a scenario cannot be named 'latest': that is the link to the newest run")
        if self.name.startswith("."):
            raise ValueError("a scenario's name does not begin with a dot: it names a directory")
        return self

    @property
    def title(self) -> str:
        """What the run is called."""
        broken = [text.replace(":", "-") for text in self.tap.broken]
        return self.name or "+".join([self.workload, *self.faults, *broken])

    @property
    def faults(self) -> tuple[str, ...]:
        """What the faults are called, each once."""
        return tuple(dict.fromkeys(plan.title for plan in self.nemesis))

    def with_cluster(self, cluster: ClusterSpec) -> Scenario:
        """The same on another cluster."""
        return self.model_copy(update={"cluster": cluster})

    def as_file(self) -> dict[str, Any]:
        """As the data of a scenario file that repeats it."""
        data = self.model_dump(mode="json", exclude_defaults=True, by_alias=True, exclude={"settings", "workload"})
        settings = self.settings.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        return {"workload": {"name": self.workload, **settings}, "seed": self.seed, **data}


def derived_seed(seed: int, *parts: object) -> int:
    """63 bits for one part of a run, which change with the seed and the part's name and with nothing else."""
    digest = hashlib.sha256("/".join(map(str, (seed, *parts))).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def load(file: Path | None, flags: Mapping[str, Any], settings: Iterable[str] = ()) -> Scenario:
    """A file below, flags above it, on top `key=value` settings; a checked scenario out."""
    settings = list(settings)
    base = str(file) if file else COMMAND_LINE
    return checked(
        merged(with_short_forms_expanded(read_toml(file)) if file else {}, with_short_forms_expanded(flags)),
        settings,
        origins(base, flags, settings),
    )


def checked(data: dict[str, Any], settings: Iterable[str], source: Origins) -> Scenario:
    """The scenario of layers that were laid over each other; `source` says where each part came from."""
    data = {"seed": secrets.randbits(31), **data}
    if isinstance(data.get("tap"), dict) and data["tap"].get("broken"):
        data.setdefault("expect", "invalid")
    for text in settings:
        _set(data, text)
    return _parse(data, source)


def find(name: str) -> Path:
    """A scenario file by its path, or by the name of one that we ship."""
    shipped = {path.stem: path for path in SHIPPED.glob("*.toml")}
    if not name.endswith(".toml") and "/" not in name:
        if name not in shipped:
            raise UsageError(f"there is no scenario '{name}'", suggestion(name, list(shipped)))
        return shipped[name]
    return Path(name)


def _parse(data: dict[str, Any], source: Origins) -> Scenario:
    """The scenario, or an error that lists all mistakes."""
    data = dict(data)
    table = data.pop("workload", {})
    if not isinstance(table, dict):
        raise UsageError(f"{source.base}: 'workload' is wrong", 'write workload = { name = "…", … }')
    found: list[tuple[str, Mistake]] = []
    if data.pop("settings", None) is not None:
        remedy = "settings of the workload belong into [workload]"
        found.append((source.base, Mistake(("settings",), "unknown key 'settings'", remedy)))
    name, settings = _settings_of(dict(table), source, found)
    scenario, mistakes = attempt(Scenario, {**data, "workload": name, "settings": settings})
    found += [(_blamed(source, each, ()), each) for each in mistakes]
    if scenario:
        found += [(source.file, each) for each in _contradictions(scenario)]
    if found or scenario is None:
        raise refusal(found)
    return scenario


def _settings_of(
    table: dict[str, Any], source: Origins, found: list[tuple[str, Mistake]]
) -> tuple[str, SerializeAsAny[Settings]]:
    """The workload and its settings; what is wrong with them is added to what was `found`."""
    name = table.pop("name", DEFAULT_WORKLOAD)
    try:
        workload = find_workload(name)
    except UsageError as error:
        found.append((source.file, Mistake(("workload", "name"), error.message, error.remedy)))
        return DEFAULT_WORKLOAD, find_workload(DEFAULT_WORKLOAD).model()
    settings, mistakes = attempt(workload.model, table)
    found += [(_blamed(source, each, ("workload",)), each.within(f"workload {name}")) for each in mistakes]
    return name, settings or workload.model()


def _blamed(source: Origins, mistake: Mistake, table: tuple[str, ...]) -> str:
    """Where a mistake came from; its place is relative to the table."""
    return source.of((*table, *mistake.place), whole_table=mistake.of_table)


def _contradictions(scenario: Scenario) -> Iterator[Mistake]:
    """What is right by itself and does not go together."""
    for plan in scenario.nemesis:
        try:
            check_sense([plan])
        except UsageError as error:
            yield Mistake(("nemesis",), error.message, error.remedy)
    try:
        target = scenario.cluster.checked().of.target(scenario.cluster)
    except UsageError as error:
        yield Mistake(("cluster",), error.message, error.remedy)
        return
    replicas = scenario.settings.replication_factor
    if target and replicas > target.nodes and not scenario.settings.topic:
        nodes = f"{target.nodes} nodes" if target.nodes > 1 else "one node"
        use = f"use 1 to {target.nodes}" if target.nodes > 1 else "use 1, and min_insync_replicas=1"
        yield Mistake(
            ("workload", "replication_factor"), f"replication_factor={replicas} is more than the cluster's {nodes}", use
        )


def with_short_forms_expanded(layer: Mapping[str, Any]) -> dict[str, Any]:
    """A layer with its short forms written out: a name instead of a table, one fault instead of a list."""
    data = {key: value for key, value in layer.items() if value is not None}
    if isinstance(data.get("workload"), str):
        data["workload"] = {"name": data["workload"]}
    if isinstance(data.get("cluster"), str):
        data["cluster"] = {"kind": data["cluster"]}
    if isinstance(data.get("cluster"), dict) and "kafka_version" in data["cluster"]:
        table = dict(data["cluster"])
        data["cluster"] = {"version": table.pop("kafka_version"), **table}
    faults = data.get("nemesis")
    if faults is not None:
        faults = faults if isinstance(faults, list | tuple) else [faults]
        data["nemesis"] = [_plan(fault) if isinstance(fault, str) else fault for fault in faults]
    return data


def _plan(text: str) -> dict[str, Any]:
    """The short form of a plan: the name of a fault, `isolate:follower`, or a mix: `kill,pause`."""
    names, colon, role = text.partition(":")
    if colon and not role:
        raise UsageError(f"'{text}' names no role after its colon", "write for example isolate:follower")
    faults = [name.strip() for name in names.split(",") if name.strip()]
    return {"fault": faults[0] if len(faults) == 1 else faults, **({"target": role} if role else {})}


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """`above` wins; tables are merged, except that another workload takes nothing from the one below.

    A cluster of another kind takes what such a cluster can be told.
    """
    merged = {**below, **above}
    for key in ("workload", "cluster", "tap", "limits"):
        low, high = below.get(key), above.get(key)
        if isinstance(low, dict) and isinstance(high, dict):
            other = key == "workload" and high.get("name", low.get("name")) != low.get("name")
            merged[key] = high if other else {**(_fitting(low, high) if key == "cluster" else low), **high}
    return merged


def _fitting(low: dict[str, Any], high: dict[str, Any]) -> dict[str, Any]:
    """Without the keys that the kind of cluster above does not know; the same kind gets all."""
    below = low.get("kind", DEFAULT_KIND)
    kind = high.get("kind", below)
    if kind == below or not isinstance(kind, str):  # what is no kind at all is refused later
        return low
    takes = {each.name: each.takes for each in KINDS.values()}
    foreign = frozenset().union(*takes.values()) - takes.get(kind, frozenset())
    return {key: value for key, value in low.items() if key not in foreign}


def _set(data: dict[str, Any], text: str) -> None:
    """Apply one `key=value`: a setting of the workload, or after a dot one of the cluster or the faults."""
    key, equals, raw = text.partition("=")
    if not equals or not key:
        raise UsageError(f"'--set {text}' is not key=value", "write for example --set acks=all")
    value = _value(raw)
    table, _, inner = key.rpartition(".")
    for part in ("workload", "cluster", "tap", "limits"):
        if not isinstance(data.get(part, {}), dict):
            raise UsageError(f"'{part}' of the scenario is not a table", f'write {part} = {{ … }} or {part} = "name"')
    if any(not isinstance(plan, dict) for plan in data.get("nemesis", ())):
        raise UsageError("'nemesis' of the scenario is not a list of tables", 'write nemesis = [{ fault = "…" }]')
    if table in {"", "workload"}:
        data["workload"] = {**data.get("workload", {}), inner: value}
    elif table in {"cluster", "tap", "limits"}:
        data[table] = {**data.get(table, {}), inner: value}
    elif table == "nemesis":
        if not data.get("nemesis"):
            raise UsageError(f"'--set {text}' changes a fault and there is none", "add --nemesis")
        data["nemesis"] = [{**plan, inner: value} for plan in data["nemesis"]]
    else:
        raise UsageError(
            f"'--set {text}' names no part of a scenario",
            suggestion(table, ["workload", "cluster", "nemesis", "tap", "limits"]),
        )


def _value(raw: str) -> Any:
    """As TOML would read it; a bare word is a text."""
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return raw


def to_toml(data: Mapping[str, Any]) -> str:
    """Plain data as a TOML file; nested tables are written in line."""
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in data.items())


def toml_value(value: Any) -> str:
    """One value, in line."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(key)} = {toml_value(item)}" for key, item in value.items() if item is not None)
        return "{ " + inside + " }" if inside else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)  # numbers, booleans and strings are written alike in both


def json_schema() -> dict[str, Any]:
    """What a scenario file may hold, for editors and other programs."""
    schema = Scenario.model_json_schema(by_alias=True)
    definitions = schema.setdefault("$defs", {})
    properties = schema["properties"]
    properties.pop("settings")
    forms: list[dict[str, Any]] = [{"type": "string", "enum": sorted(WORKLOADS)}]
    for name, workload in sorted(WORKLOADS.items()):
        table = workload.model.model_json_schema(by_alias=True)
        definitions |= table.pop("$defs", {})
        table["properties"] = {"name": {"const": name}, **table["properties"]}
        table["required"] = ["name"] if name != DEFAULT_WORKLOAD else []
        table["title"] = name
        forms.append(table)
    properties["workload"] = {"description": "What clients do.", "anyOf": forms}
    properties["nemesis"] = {
        "description": properties["nemesis"].get("description", ""),
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Plan"}]}},
        ],
    }
    cluster = definitions["ClusterSpec"]["properties"]
    cluster["kafka_version"] = {**cluster["version"], "title": "Kafka Version", "description": "The same as version."}
    properties["cluster"] = {
        "description": "What it runs on.",
        "anyOf": [{"type": "string", "enum": list(KINDS)}, {"$ref": "#/$defs/ClusterSpec"}],
    }
    schema.pop("required", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Tidegauge scenario",
        "description": "A workload, faults, a cluster, what the taps do, a time and a seed.",
    }
