"""What a report says of findings: their causes, the first counterexample, what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.summaries.finding_queries import FINDINGS
from harness.report.meanings import MEANINGS
from harness.report.names import Names
from harness.report.operations import NS, OperationLine, RunClock, operation_line
from harness.report.picture import Pictures
from harness.report.tracks import Panel

NOT_RECORDED = "not recorded"
NOT_LOOKED_AT = "not read"
STATES = {"not looked at": NOT_LOOKED_AT}  # of replicas, as series.json names them
STATUSES = ("illegal", "possibly the client", "unproven", "allowed")
PICTURES = 24  # drawn in a report, beside one for each anomaly
# of two operations the first was over before the second began, and that is what is wrong with them
IN_ORDER = frozenset(
    {
        "realtime-order",
        "not-linearizable",
        "nonmonotonic-send",
        "watermark-behind-ack",
        "watermark-frozen",
        "watermark-regression",
        "end-offset-regression",
        "lso-regression",
        "log-start-regression",
        "retry-watermark-regression",
        "epoch-regression",
        "committed-offset-regression",
    }
)


@dataclass(frozen=True)
class ReportedFinding:
    """A finding as the report tells it."""

    key: str
    place: str
    when: str
    detail: str
    status: str
    why: str
    tags: tuple[str, ...]
    leader: str
    fault: str
    replicas: tuple[str, ...]
    operations: tuple[tuple[OperationLine, str], ...]  # with the time at which each began
    picture: Panel | None


@dataclass(frozen=True)
class ReportedAnomaly:
    """An anomaly that was seen."""

    name: str
    found: int
    status: str
    why: str
    about: str
    meaning: str
    findings: tuple[ReportedFinding, ...]
    others: tuple[tuple[str, str, str], ...]  # findings that were kept and are told in a line: place, time, detail


@dataclass(frozen=True)
class FindingGroup:
    """Anomalies with one cause, or without one."""

    title: str
    note: str
    anomalies: tuple[ReportedAnomaly, ...]
    folded: bool = False
    number: int = 0  # of its cause, if there are several


@dataclass(frozen=True)
class StoryWriter:
    """Describes one run; `series` is None where they could not be read."""

    results: Mapping[str, Any]
    series: Mapping[str, Any] | None
    clock: RunClock
    names: Names = field(default_factory=Names)

    def seen(self) -> list[ReportedAnomaly]:
        """Every anomaly that was seen: the gravest first, and of these what proves the causes."""
        drawn, told = 0, []
        proofs = [name for cause in self._causes for name in cause.get("explains", [])]

        def order(seen: Mapping[str, Any]) -> tuple[int, int]:
            name = seen["anomaly"]
            return STATUSES.index(seen["mark"]["status"]), proofs.index(name) if name in proofs else len(proofs)

        for mark in sorted(self.results.get("seen", []), key=order):
            anomaly = self.results["anomalies"][mark["anomaly"]]
            status, why = mark["mark"]["status"], mark["mark"]["why"]
            findings = [
                self._finding(
                    anomaly["name"], number, finding, mark["marks"], draw=not number or drawn + number < PICTURES
                )
                for number, finding in enumerate(anomaly["findings"][:FINDINGS])
            ]
            drawn += len(findings)
            others = tuple(
                (place_of(each, self.names), self._when(each), each["detail"])
                for each in anomaly["findings"][FINDINGS:]
            )
            told.append(
                ReportedAnomaly(
                    anomaly["name"], mark["found"], status, why, anomaly["about"], MEANINGS.get(anomaly["name"], ""),
                    tuple(findings), others,
                )
            )  # fmt: skip
        return told

    def groups(self, seen: Sequence[ReportedAnomaly]) -> list[FindingGroup]:
        """Every anomaly once, under the gravest cause that explains it; what is allowed is folded."""
        groups, left = [], [each for each in seen if each.status != "allowed"]
        for number, cause in enumerate(self._causes, 1):
            mine = tuple(each for each in left if each.name in cause["explains"])
            left = [each for each in left if each not in mine]
            if mine:
                several = len(self._causes) > 1
                groups.append(FindingGroup(cause["sentence"], "", mine, number=number if several else 0))
        if illegal := tuple(each for each in left if each.status == "illegal"):
            groups.append(FindingGroup("Not explained by any rule", "", illegal))
        if open_ones := tuple(each for each in left if each.status != "illegal"):
            groups.append(FindingGroup("Not proven", "These are no violations of the broker for certain.", open_ones))
        if allowed := tuple(each for each in seen if each.status == "allowed"):
            note = "The settings of this run permit all of this."
            groups.append(FindingGroup("Allowed by this configuration", note, allowed, folded=True))
        return groups

    def first(self, seen: Sequence[ReportedAnomaly]) -> ReportedFinding | None:
        """The first counterexample: that of the cause on top or, without one, the earliest that is illegal."""
        pointer = self._causes[0].get("first") if self._causes else None
        told = [finding for each in seen if each.status == "illegal" for finding in each.findings]
        if pointer:
            wanted = (pointer.get("anomaly"), pointer.get("events"), pointer.get("time_ns"))
            for each in told:
                anomaly, _, number = each.key.rpartition("-")
                finding = self.results["anomalies"][anomaly]["findings"][int(number)]
                if (anomaly, list(finding["events"]), finding["time_ns"]) == wanted:
                    return each
        return min(told, key=lambda each: self._time(each.key), default=None)

    @property
    def _causes(self) -> list[Mapping[str, Any]]:
        return (self.results.get("diagnosis") or {}).get("causes") or []

    def _time(self, key: str) -> int:
        anomaly, _, number = key.rpartition("-")
        return self.results["anomalies"][anomaly]["findings"][int(number)]["time_ns"] or 1 << 62

    def _when(self, finding: Mapping[str, Any]) -> str:
        if finding["time_ns"] is None:
            return NOT_RECORDED
        began = finding["time_ns"] - self.clock.first_ns
        if not finding["until_ns"] or finding["until_ns"] == finding["time_ns"]:
            return self.clock.both(began)
        return f"{self.clock.both(began)} to {self.clock.both(finding['until_ns'] - self.clock.first_ns)}"

    def _finding(
        self, anomaly: str, number: int, finding: Mapping[str, Any], marks: Sequence[Mapping[str, str]], *, draw: bool
    ) -> ReportedFinding:
        status, why = (marks[number]["status"], marks[number]["why"]) if number < len(marks) else ("unproven", "")
        key = f"{anomaly}-{number}"
        series = self.series or {}
        rows = series.get("around", {}).get(f"{anomaly}/{number}", [])
        pictures = Pictures(series, self.names)
        title = f"Operations around {anomaly} {number + 1}"
        operations = sorted(
            (operation_line(row, self.names) for row in rows), key=lambda each: (each.began_ns, each.ended_ns)
        )
        return ReportedFinding(
            key=key,
            place=place_of(finding, self.names),
            when=self._when(finding),
            detail=finding["detail"],
            status=status,
            why=why,
            tags=tuple(finding["tags"]),
            leader=self._leader(finding),
            fault=self._fault(finding),
            replicas=tuple(self._replicas(f"{anomaly}/{number}", finding)),
            operations=tuple((each, self.clock.both(each.began_ns)) for each in operations),
            picture=pictures.of_finding(key, title, rows, in_order=anomaly in IN_ORDER) if draw else None,
        )

    def _leader(self, finding: Mapping[str, Any]) -> str:
        """Leader and epoch at the time, as each node told them."""
        told = (self.series or {}).get("leaders", {}).get(f"{finding['topic']}-{finding['partition']}")
        if not told or finding["time_ns"] is None:
            return NOT_RECORDED
        at = finding["time_ns"] - self.clock.first_ns
        said: dict[tuple[int, int | None], list[str]] = {}
        for node, changes in sorted(told.items()):
            known = [change for change in changes if change[0] <= at] or changes[:1]
            said.setdefault((known[-1][1], known[-1][2]), []).append(node)
        if len(said) == 1:
            ((leader, epoch),) = said
            return f"{_leader(leader)}, epoch {epoch}"
        return "; ".join(
            f"{_leader(leader)}, epoch {epoch}, says node {' and '.join(nodes)}"
            for (leader, epoch), nodes in said.items()
        )

    def _fault(self, finding: Mapping[str, Any]) -> str:
        """The faults that were active."""
        if self.series is None or finding["time_ns"] is None:
            return NOT_RECORDED
        began = finding["time_ns"] - self.clock.first_ns
        ended = (finding["until_ns"] or finding["time_ns"]) - self.clock.first_ns
        active = [
            f"{fault['name']} (from {fault['from'] / NS:.1f} s to {fault['to'] / NS:.1f} s)"
            for fault in self.series["faults"]
            if fault["from"] is not None and fault["from"] <= ended and began <= fault["to"]
        ]
        return ", ".join(active) or "none"

    def _replicas(self, key: str, finding: Mapping[str, Any]) -> Iterator[str]:
        """Whether the record is still on any replica's disk."""
        if finding["offset"] is None or not finding["values"]:
            yield "does not apply: no record is involved"
            return
        said: dict[str, list[str]] = {}
        for node, state, there in (self.series or {}).get("replicas", {}).get(key) or []:
            where = " and ".join(f"{self.names.value(value)} at offset {offset}" for value, offset in there)
            said.setdefault(where or STATES.get(state, state), []).append(str(node))
        if not said:
            yield NOT_LOOKED_AT
        for state, nodes in said.items():
            yield f"node {', '.join(nodes)}: {state}"


def place_of(finding: Mapping[str, Any], names: Names) -> str:
    """Topic, partition and offset, as far as they are known."""
    if finding["topic"] is None:
        nodes = ", ".join(str(node) for node in finding["nodes"])
        return f"node {nodes}" if nodes else "the cluster"
    at = "" if finding["offset"] is None else f" at offset {finding['offset']:,}"
    return f"{names.partition(finding['topic'], finding['partition'])}{at}"


def _leader(node: int) -> str:
    return f"node {node}" if node >= 0 else "no leader"
