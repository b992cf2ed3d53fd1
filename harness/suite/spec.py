"""What a suite is: a TOML file in, checked cases out. Nothing is started, and every mistake is told with its place.

Layers are laid over each other: defaults, the scenario's file, its own keys, a combination of its matrix, flags. A
workload without a name, or a plan without a fault, is for whatever is named above it. Where no fault is named above a
plan of the defaults there is none; anywhere else that is a mistake, since the case would pass without its fault.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from harness.foundation.config import Model, parse, read_toml, suggestion
from harness.foundation.errors import UsageError
from harness.foundation.mistakes import all_of
from harness.foundation.paths import PACKAGE
from harness.runs import scenario as scenarios
from harness.runs.origins import Origins
from harness.runs.scenario import Scenario, derived_seed
from harness.suite.expectation import Expectation
from harness.suite.flags import asked_of, make_sense, unfit
from harness.suite.matrix import Combination, combinations
from nemesis.schedule import FaultPlan

OWN = ("name", "file", "repeat", "expect", "matrix")  # keys of a suite's scenario that no scenario file has, or not so
OF_A_FILE = frozenset(Scenario.model_fields) - {"settings", "name"}
TRIES_AT_MOST = 1000
SEED_BITS = 31


class SuiteFile(Model):
    """The top of the file; scenarios are looked at one by one."""

    title: str = Field("", description="Of the suite.")
    defaults: dict[str, Any] = Field({}, description="Keys of a scenario file, for all scenarios.")
    scenario: tuple[dict[str, Any], ...] = Field(min_length=1, description="The scenarios.")


class SuiteScenario(Model):
    """What a scenario of a suite has beside the keys of a scenario file."""

    name: str = ""
    file: str | None = None
    repeat: int = Field(1, ge=1, le=TRIES_AT_MOST)
    expect: Expectation | None = None
    matrix: dict[str, Any] = {}


@dataclass(frozen=True)
class SuiteCase:
    """One combination of one scenario: what is run, how often, and what has to come of it."""

    name: str
    scenario: Scenario
    expect: Expectation
    repeat: int = 1
    seed: int | None = None  # what the file says; one of its own for each case otherwise
    cannot: str = ""  # why it cannot be had on what the flags ask for

    def tried(self, number: int, suite_seed: int) -> Scenario:
        """The scenario of one of its tries, which are counted from 1."""
        if self.seed is not None and number == 1:
            seed = self.seed
        else:
            whose = suite_seed if self.seed is None else self.seed
            seed = derived_seed(whose, self.name, number) >> (63 - SEED_BITS)
        return self.scenario.model_copy(update={"seed": seed})

    @property
    def digest(self) -> str:
        """Changes with whatever decides about the case, and with nothing else."""
        data = [self.scenario.as_file(), self.expect.model_dump(mode="json"), self.repeat, self.seed]
        return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Suite:
    """A suite that could be run."""

    name: str
    title: str
    file: Path
    cases: tuple[SuiteCase, ...] = field(default=())


def suites_dir() -> Path:
    """The suites that we ship: at the top of a checkout, inside the package when installed from a wheel."""
    packaged = PACKAGE / "suites"
    return packaged if packaged.is_dir() else PACKAGE.parent / "suites"


def find_suite(name: str) -> Path:
    """A suite file by its path, or by the name of one that we ship."""
    if name.endswith(".toml") or "/" in name:
        return Path(name)
    shipped = {path.stem: path for path in suites_dir().glob("*.toml")}
    if name not in shipped:
        raise UsageError(f"there is no suite '{name}'", suggestion(name, list(shipped)))
    return shipped[name]


def load_suite(file: Path, cluster: Mapping[str, Any] | None = None) -> Suite:
    """The suite of a file; `cluster` is what flags say about the cluster."""
    whole = parse(SuiteFile, read_toml(file), str(file))
    _refuse_unknown(whole.defaults, OF_A_FILE, f"{file}: defaults")
    cases: dict[str, SuiteCase] = {}
    errors: list[UsageError] = []
    for number, entry in enumerate(whole.scenario, start=1):
        try:
            found = list(_cases(entry, whole.defaults, cluster or {}, file, number))
        except UsageError as error:
            errors.append(error)
            continue
        for case in found:
            if case.name in cases:
                errors.append(UsageError(f"{file}: two cases are called '{case.name}'", "give their scenarios names"))
            cases[case.name] = case
    if errors:
        raise all_of(errors, f"{file} has {len(errors)} wrong scenarios")
    return Suite(file.stem, whole.title, file, tuple(cases.values()))


def case_of(entry: Mapping[str, Any], name: str, flags: Mapping[str, Any], place: Path) -> SuiteCase:
    """The one case of a scenario that is written elsewhere than in a suite; files are relative to `place`."""
    if "matrix" in entry:
        raise UsageError(f"{name}: there is no matrix here", "use pytest.mark.parametrize")
    (case,) = _cases({"name": name, **entry}, {}, flags, place, 1)
    return case


def _cases(
    entry: Mapping[str, Any], defaults: Mapping[str, Any], flags: Mapping[str, Any], file: Path, number: int
) -> Iterator[SuiteCase]:
    source = f"{file}: scenario {entry.get('name') or entry.get('file') or number}"
    _refuse_unknown(entry, OF_A_FILE | set(OWN), source)
    own = parse(SuiteScenario, {key: entry[key] for key in OWN if key in entry}, source)
    below = _file_of(own, file, source)
    inline = {key: value for key, value in entry.items() if key not in OWN}
    for each in combinations(own.matrix, source):
        try:
            yield _case(own, [defaults, below, inline, each.layer], each, flags, source)
        except UsageError as error:
            if source in error.message:
                raise
            raise UsageError(f"{source}: {error.message}", error.remedy) from None


def _case(
    own: SuiteScenario, layers: list[Mapping[str, Any]], each: Combination, flags: Mapping[str, Any], source: str
) -> SuiteCase:
    """As flags would have it, or as the file has it where they cannot."""
    named = {key for layer in layers[1:] for key in _table(layer, "cluster")}
    named |= {text.partition("=")[0].removeprefix("cluster.") for text in each.settings if text.startswith("cluster.")}
    asked = asked_of(flags, _table(_laid(layers), "cluster"), named)
    if asked.cannot:
        return replace(_made(own, layers, each, {}, source), cannot=asked.cannot)
    try:
        made = _made(own, [_without(layers[0], asked.without), *layers[1:]], each, asked.cluster, source)
    except UsageError as error:
        plain = _made(own, layers, each, {}, source)  # what is wrong with the case itself is told first
        if not make_sense(asked.cluster, _table(_without(layers[0], asked.without), "cluster")):
            raise
        return replace(plain, cannot=str(error))
    return replace(made, cannot=unfit(made.scenario.cluster) if asked.cluster else "")


def _made(
    own: SuiteScenario, layers: list[Mapping[str, Any]], each: Combination, cluster: dict[str, Any], source: str
) -> SuiteCase:
    name = "+".join(filter(None, (_base(own, each, layers), *each.labels)))
    place = f"{source} ({name})" if each.labels else source
    data = _laid([*layers, {"cluster": cluster} if cluster else {}])
    seed = data.pop("seed", None)
    expect = own.expect or _expected(data, place)
    data["expect"] = expect.outcome
    data = {**data, "seed": seed or 0}
    name = name or scenarios.checked(data, each.settings, Origins(place)).title
    if expect.needed(own.repeat) > own.repeat:
        raise UsageError(
            f"{place}: expected in {expect.needed(own.repeat)} of {own.repeat} tries", "raise repeat, or lower at_least"
        )
    scenario = scenarios.checked({**data, "name": name}, each.settings, Origins(place))
    return SuiteCase(name, scenario, expect, own.repeat, seed)


def _without(layer: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    """A layer whose cluster says nothing of these."""
    table = {key: value for key, value in _table(layer, "cluster").items() if key not in keys}
    return {**layer, "cluster": table} if keys else dict(layer)


def _base(own: SuiteScenario, each: Combination, layers: list[Mapping[str, Any]]) -> str:
    """What cases are called before the values of their matrix."""
    if own.name or own.file:
        return own.name or Path(own.file or "").stem
    if not each.labels or "workload" in each.layer:
        return ""
    return str(_table(_laid(layers), "workload").get("name", ""))


def _file_of(own: SuiteScenario, suite: Path, source: str) -> dict[str, Any]:
    if own.file is None:
        return {}
    data = read_toml(suite.parent / own.file)
    _refuse_unknown(data, OF_A_FILE | {"name"}, f"{source} ({own.file})")
    data.pop("name", None)  # a case is called as the suite says
    return data


def _expected(data: Mapping[str, Any], source: str) -> Expectation:
    """What the scenario file or the defaults say; a broken broker is expected to be found out."""
    written = data.get("expect") or ("invalid" if _table(data, "tap").get("broken") else "valid")
    return parse(Expectation, written if isinstance(written, dict) else {"verdict": written}, f"{source}: expect")


def _laid(layers: list[Mapping[str, Any]]) -> dict[str, Any]:
    """All layers over each other, the last one on top; the first are the defaults."""
    data: dict[str, Any] = {}
    for layer in layers:
        high = scenarios.with_short_forms_expanded(layer)
        low = data.get("workload")
        if isinstance(low, dict) and "name" not in low and isinstance(high.get("workload"), dict):
            high["workload"] = {**low, **high["workload"]}
            data.pop("workload")
        base = _nameless(data)
        if "nemesis" in high:
            _refuse_unknown_of_plans(high["nemesis"])
            high["nemesis"] = [{**base, **plan} if isinstance(plan, dict) else plan for plan in high["nemesis"]]
        data = scenarios.merged(data, high)
    if _nameless(data) and all(layer.get("nemesis") is None for layer in layers[1:]):
        data.pop("nemesis")  # of the defaults; a scenario that says when a fault comes and names none is refused
    return data


def _nameless(data: Mapping[str, Any]) -> dict[str, Any]:
    """A plan without a fault, which says when faults come that are named elsewhere."""
    plans = data.get("nemesis") or []
    one = plans[0] if len(plans) == 1 and isinstance(plans[0], dict) else {}
    return {} if "fault" in one else dict(one)


def _refuse_unknown_of_plans(plans: list[Any]) -> None:
    """Also in a plan that says no more than when faults come: nobody would miss the fault of a misspelled one."""
    known = {field.alias or name for name, field in FaultPlan.model_fields.items()}
    for plan in plans:
        if isinstance(plan, dict) and (unknown := [key for key in plan if key not in known]):
            raise UsageError(f"unknown key 'nemesis.{unknown[0]}'", suggestion(str(unknown[0]), sorted(known)))


def _table(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = scenarios.with_short_forms_expanded(data).get(key)
    return found if isinstance(found, dict) else {}


def _refuse_unknown(table: Mapping[str, Any], known: frozenset[str] | set[str], source: str) -> None:
    if unknown := [key for key in table if key not in known]:
        raise UsageError(f"{source}: unknown key '{unknown[0]}'", suggestion(unknown[0], sorted(known)))
