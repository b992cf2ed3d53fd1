"""What is compared: runs, groups of runs, and plain numbers, as a command line names them.

    NAME                 a scenario of the store: all its checked runs
    NAME/TIME, latest    one run of the store
    DIRECTORY            one run, or a directory of runs
    'NAME-*/latest'      whatever the pattern matches, in the store or here
    4391/5000            numbers: so many of so many messages arrived; commas between several runs
    LABEL=…              any of these under a name of your own

Everything is read from results.json (and run.json, for what was asked of the run); no history, no Spark.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.foundation.errors import UsageError
from harness.history.store import LATEST, RESULTS_FILE, RUN_FILE, Run
from harness.judging.checking import RESULTS_VERSION
from harness.report.comparison.statistics import ArrivalCount

WATERMARK_LAG = "watermark lag"  # as the diagnosis calls it
_NUMBERS = re.compile(r"\d+/\d+(,\d+/\d+)*")
_LABELLED = re.compile(r"([^=/*?\[]+)=(.+)", re.DOTALL)
_NOT_ASKED = frozenset({"name", "seed", "expect", "settings"})  # differences that are none of what a run does


@dataclass(frozen=True)
class AnomalySample:
    """What a run says of one anomaly."""

    looked_at: bool
    found: int
    illegal: bool


@dataclass(frozen=True)
class PartitionCount:
    """What arrived in one partition of the load."""

    name: str
    counted: ArrivalCount
    low: bool


@dataclass(frozen=True)
class Sample:
    """One run, as far as runs are compared."""

    name: str
    counted: ArrivalCount | None = None
    values: Mapping[str, float] = field(default_factory=dict)  # of what else was measured, by measure
    anomalies: Mapping[str, AnomalySample] | None = None  # None: nobody looked
    outcome: str = ""
    partitions: tuple[PartitionCount, ...] = ()
    asked: Mapping[str, str] = field(default_factory=dict)  # what the run was told, by setting
    product: str = ""  # what was under test
    waited: bool = True  # consumers waited for everything; else what had no time to arrive counts as not arrived
    lag: str | None = None  # what the diagnosis says of watermark lag; None: it was not measured


@dataclass(frozen=True)
class Group:
    """Runs that are taken to be repetitions of one another."""

    label: str
    runs: tuple[Sample, ...]
    left_out: tuple[str, ...] = ()  # a sentence for each run that says nothing

    @property
    def counted(self) -> list[ArrivalCount]:
        """What arrived, by run."""
        return [run.counted for run in self.runs if run.counted]

    def values(self, measure: str) -> list[float]:
        """What was measured, by run."""
        return [run.values[measure] for run in self.runs if measure in run.values]


def groups_of(arguments: Sequence[str], store: Path) -> list[Group]:
    """What the arguments name; an error for one that names nothing."""
    groups = [_group(text, store) for text in arguments]
    labels = [group.label for group in groups]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise UsageError(f"{', '.join(twice)} is there twice", "give each a name of its own: NAME=RUN")
    return groups


def sample_of(name: str, results: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> Sample:
    """A run from its results.json, and from its run.json if there is one."""
    figures = _table(results, "figures")
    expected = int(figures.get("sent") or 0) - int(figures.get("aborted") or 0)
    arrived = int(figures.get("distinct") or 0)
    return Sample(
        name,
        counted=ArrivalCount(min(arrived, expected), expected) if expected > 0 else None,
        values=dict(_values(results, figures)),
        anomalies=dict(_anomalies(results)),
        outcome=str(results.get("verdict", "")),
        partitions=tuple(_partitions(figures)),
        asked=dict(_asked(facts or {})),
        product=_product(facts or {}),
        waited=bool((facts or {}).get("ends_by_itself")),
        lag=_lag(results),
    )


def asked_differently(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Settings in which the groups differ, with the values of each: what else a difference may come from."""
    told = [group for group in groups if any(run.asked for run in group.runs)]
    names = sorted({name for group in told for run in group.runs for name in run.asked})
    found = {}
    for name in names:
        values = [_value_in(group, name) for group in told]
        if len(set(values)) > 1:
            found[name] = [f"{group.label}: {value}" for group, value in zip(told, values, strict=True)]
    return {"workload": found["workload"]} if "workload" in found else found


def _value_in(group: Group, name: str) -> str:
    values = sorted({run.asked.get(name, "-") for run in group.runs if run.asked})
    return values[0] if len(values) == 1 else f"{len(values)} different ones"


def asked_unevenly(group: Group) -> list[str]:
    """What runs of one group were asked differently: they are no repetitions of one another then."""
    names = sorted({name for run in group.runs for name in run.asked})
    return [name for name in names if len({run.asked.get(name) for run in group.runs if run.asked}) > 1]


def _group(text: str, store: Path) -> Group:
    label, named = text, text
    labelled = _LABELLED.fullmatch(text)
    if labelled and not Path(text).exists():
        label, named = labelled[1].strip(), labelled[2]
    if _NUMBERS.fullmatch(named):
        return Group(label, tuple(_from_numbers(part) for part in named.split(",")))
    runs, left_out = [], []
    for path in _paths(named, store):
        sample = _read(path)
        if isinstance(sample, Sample):
            runs.append(sample)
        else:
            left_out.append(sample)
    if not runs and left_out:
        raise UsageError(left_out[0], "check it first with `tidegauge check`")
    if not runs:
        raise UsageError(
            f"'{named}' names no run", "name a run or a scenario of the store, a directory, or numbers as 4391/5000"
        )
    return Group(label, tuple(runs), tuple(left_out))


def _from_numbers(text: str) -> Sample:
    arrived, expected = map(int, text.split("/"))
    if not 0 <= arrived <= expected or not expected:
        raise UsageError(f"'{text}' is no share", "write how many of how many messages arrived, as 4391/5000")
    return Sample(text, counted=ArrivalCount(arrived, expected))


def _paths(named: str, store: Path) -> list[Path]:
    """The directories of the runs that a name stands for, each once."""
    found: list[Path] = []
    for place in (Path(named).expanduser(), store / named):
        matches = sorted(glob.glob(str(place))) if glob.has_magic(named) else [str(place)]  # noqa: PTH207 - any place
        for path in map(Path, matches):
            found += _runs_in(path)
        if found:
            break
    return list(dict.fromkeys(path.resolve() for path in found))


def _runs_in(path: Path) -> list[Path]:
    """A run, or the runs directly inside a directory; the link to the newest is one of them under another name."""
    if _is_run(path):
        return [path]
    if not path.is_dir():
        return []
    return [inner for inner in sorted(path.iterdir()) if inner.name != LATEST and _is_run(inner)]


def _is_run(path: Path) -> bool:
    return (path / RESULTS_FILE).is_file() or (path / RUN_FILE).is_file()


def _read(path: Path) -> Sample | str:
    """The run, or why it says nothing."""
    name = "/".join(path.parts[-2:])
    if not (path / RESULTS_FILE).exists():
        return f"{name} was never checked"
    run = Run(path)
    results = run.results
    if results is None:
        return f"{name} has a {RESULTS_FILE} that cannot be read"
    if results.get("version") != RESULTS_VERSION:
        return f"{name} was checked by another version of Tidegauge"
    return sample_of(name, results, run.facts if (path / RUN_FILE).exists() else None)


def _values(results: Mapping[str, Any], figures: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """What was measured, by measure; what was not is left out."""
    for measure, name in (("throughput of sends", "produce_rate"), ("throughput of reads", "consume_rate")):
        if isinstance(figures.get(name), int | float):
            yield measure, float(figures[name])
    summaries = _table(results, "summaries")
    calm = [row for row in summaries.get("latency") or [] if not row.get("faults") and row.get("ok")]
    if calm:  # the stretch without faults in which most was sent
        longest = max(calm, key=lambda row: int(row["ok"]))
        yield from ((f"latency {name}", float(longest[f"{name}_ms"])) for name in ("p50", "p99"))


def _anomalies(results: Mapping[str, Any]) -> Iterator[tuple[str, AnomalySample]]:
    marks = {row["anomaly"]: row["mark"]["status"] for row in results.get("seen") or []}
    for name, row in _table(results, "anomalies").items():
        found = int(row.get("found") or 0)
        looked = bool(found or (row.get("looked_at") and not row.get("not_applicable") and not row.get("unchecked")))
        yield name, AnomalySample(looked, found, marks.get(name) == "illegal")
    for row in _table(results, "diagnosis").get("measured") or []:
        if row.get("name") == WATERMARK_LAG:
            wrong = row.get("outcome") == "seen"
            yield WATERMARK_LAG, AnomalySample(row.get("outcome") != "not measured", int(wrong), wrong)


def _lag(results: Mapping[str, Any]) -> str | None:
    """The sentence of the diagnosis about watermark lag, if it was measured."""
    for row in _table(results, "diagnosis").get("measured") or []:
        if row.get("name") == WATERMARK_LAG and row.get("outcome") != "not measured":
            return str(row["sentence"])
    return None


def _partitions(figures: Mapping[str, Any]) -> Iterator[PartitionCount]:
    rows: Iterable[Mapping[str, Any]] = figures.get("table") or []
    topics = sorted({str(row["topic"]) for row in rows})
    for row in rows:
        if row["sent"]:  # names of topics differ from run to run, their order does not
            where = (
                str(row["partition"]) if len(topics) == 1 else f"{topics.index(str(row['topic']))}/{row['partition']}"
            )
            counted = ArrivalCount(min(int(row["distinct"]), int(row["sent"])), int(row["sent"]))
            yield PartitionCount(where, counted, bool(row["low"]))


def _asked(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What decides what a run does, flat."""
    scenario = _table(facts, "scenario")
    for name, value in scenario.items():
        if name not in _NOT_ASKED:
            yield name, json.dumps(value, sort_keys=True, ensure_ascii=False)
    for name, value in _table(scenario, "settings").items():
        yield name, json.dumps(value, sort_keys=True, ensure_ascii=False)


def _product(facts: Mapping[str, Any]) -> str:
    cluster = _table(facts, "cluster")
    return " ".join(str(cluster[name]) for name in ("product", "version") if cluster.get(name))


def _table(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = of.get(name)
    return found if isinstance(found, dict) else {}
