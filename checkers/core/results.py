"""What a check hands on: anomalies with their findings, figures, coverage, and what could not be checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from checkers.core.timeline import Fault
from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from checkers.summaries.figures import Figures, PartitionRow, Stall


@dataclass(frozen=True)
class Finding:
    """One anomaly with what proves it. Values, processes, nodes and events are ids of the history."""

    anomaly: str
    topic: str | None
    partition: int | None
    offset: int | None
    values: tuple[int, ...]
    processes: tuple[int, ...]
    nodes: tuple[int, ...]
    time_ns: int | None
    until_ns: int | None  # of two events that contradict each other, the later one
    events: tuple[int, ...]
    tags: tuple[str, ...]
    detail: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def place(self) -> str:
        """Where it was seen: topic, partition and offset, as far as they are known."""
        if self.topic is None:
            return "unknown place"
        return f"{self.topic}-{self.partition}" + ("" if self.offset is None else f"@{self.offset}")


@dataclass
class Anomaly:
    """What was looked for, in how much, and what was found; `findings` holds the first and the worst."""

    name: str
    about: str
    looked_at: int = 0
    found: int = 0
    findings: list[Finding] = field(default_factory=list)
    not_applicable: str = ""  # why it was not looked for
    unchecked: str = ""  # why it could not be looked for, or not everywhere


@dataclass
class CheckResults:
    """Everything that a history says; bounded in size, whatever the size of the history."""

    events: int = 0
    anomalies: dict[str, Anomaly] = field(default_factory=dict)
    figures: Figures = field(default_factory=Figures)
    coverage: Coverage = field(default_factory=Coverage)
    failures: list[str] = field(default_factory=list)  # a sentence for each check that could not be made
    damage: list[str] = field(default_factory=list)
    damaged_processes: frozenset[int] = frozenset()
    has_holes: bool = False
    verified: bool = True  # whether the checksums of the history's files were compared
    only: list[str] = field(default_factory=list)  # checkers and anomalies that were asked for; nothing: all
    seconds: float = 0.0
    summaries: dict[str, Any] = field(default_factory=dict)  # by family, what it says beside its findings
    first_ns: int = 0  # when the history began
    drawn: dict[str, Any] | None = None  # what the report draws; not a part of results.json
    undrawn: str = ""  # why it draws nothing; the same
    drawing: Any = None  # a function that makes these two, if a large history left that for later

    def draw(self) -> None:
        """Make what the report draws. Of a large history Spark is asked once more, which no verdict waits for."""
        if self.drawing is not None:
            self.drawn, self.undrawn = self.drawing()
            self.drawing = None

    @property
    def found(self) -> list[Anomaly]:
        """Anomalies that were seen."""
        return [anomaly for anomaly in self.anomalies.values() if anomaly.found]

    @property
    def looked_for(self) -> list[Anomaly]:
        """Anomalies that there was something to look at for."""
        return [anomaly for anomaly in self.anomalies.values() if anomaly.looked_at and not anomaly.not_applicable]

    def as_json(self) -> dict[str, Any]:
        """For results.json."""
        plain: dict[str, Any] = asdict(replace(self, drawn=None, drawing=None))
        del plain["drawn"], plain["undrawn"], plain["drawing"]
        plain["damaged_processes"] = sorted(self.damaged_processes)
        plain["figures"] |= {
            "produce_rate": self.figures.produce_rate,
            "consume_rate": self.figures.consume_rate,
            "success_rate": self.figures.success_rate,
            "imbalance": self.figures.imbalance,
            "transaction_rate": self.figures.transaction_rate,
        }
        plain["errors"] = plain["coverage"].pop("errors")
        plain["unclassified"] = self.coverage.unclassified
        for row, line in zip(plain["figures"]["table"], self.figures.table, strict=True):
            row |= {"deviation": line.deviation, "low": line.low}
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CheckResults:
        """From results.json, of this version or another: what it lacks is as if nobody had looked."""
        known = _known(cls, data)
        known["anomalies"] = {name: _anomaly(each) for name, each in data.get("anomalies", {}).items()}
        known["figures"] = _figures(data.get("figures", {}))
        known["coverage"] = _coverage({**data.get("coverage", {}), "errors": data.get("errors", [])})
        known["damaged_processes"] = frozenset(data.get("damaged_processes", ()))
        return cls(**known)


def as_finding(row: Mapping[str, Any], topics: Mapping[int, str]) -> Finding:
    """From a row of `checkers.core.findings`."""
    topic = row["topic"]
    return Finding(
        facts=row.get("facts", {}),
        anomaly=row["anomaly"],
        topic=None if topic is None else topics.get(topic, str(topic)),
        partition=row["partition"],
        offset=row["offset"],
        values=tuple(row["values"]),
        processes=tuple(row["processes"]),
        nodes=tuple(row["nodes"]),
        time_ns=row["time"],
        until_ns=row["until"],
        events=tuple(row["events"]),
        tags=tuple(row["tags"]),
        detail=row.get("detail") or "",
    )


def _known(class_: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Of this data, what the dataclass has a field for."""
    return {each.name: data[each.name] for each in fields(class_) if each.name in data}


def _anomaly(data: Mapping[str, Any]) -> Anomaly:
    findings = [_finding(each) for each in data.get("findings", ())]
    return Anomaly(**{**_known(Anomaly, data), "findings": findings})


def _finding(data: Mapping[str, Any]) -> Finding:
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in _known(Finding, data).items()
    }
    return Finding(**known)


def _figures(data: Mapping[str, Any]) -> Figures:
    table = [PartitionRow(**_known(PartitionRow, row)) for row in data.get("table", ())]
    stalls = [Stall(**_known(Stall, row)) for row in data.get("stalls", ())]
    return Figures(**{**_known(Figures, data), "table": table, "stalls": stalls})


def _coverage(data: Mapping[str, Any]) -> Coverage:
    faults = [
        FaultCoverage(
            fault=Fault(**_known(Fault, each["fault"])),
            **{
                name: None if each.get(name) is None else Span(**_known(Span, each[name]))
                for name in ("before", "during", "after", "clear")
            },
        )
        for each in data.get("faults", ())
    ]
    return Coverage(**{**_known(Coverage, data), "faults": faults})
