"""What came of the matrix: a row for each run, and docs/detection.md."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.detection_combinations import COMBINED
from bench.detection_matrix import SPINNING, DetectionCase
from harness.history.store import Run
from harness.runs import provenance

COMMAND = "make detection"


@dataclass(frozen=True)
class FoundAnomaly:
    """An anomaly that was seen in a run: how often, and what the policy says of it."""

    anomaly: str
    count: int
    mark: str

    @property
    def status(self) -> str:
        """The mark without its reason."""
        return self.mark


@dataclass(frozen=True)
class DetectionRow:
    """A run of the matrix and what was found in it."""

    case: DetectionCase
    run: Path | None
    verdict: str = "not run"
    events: int = 0
    found: tuple[FoundAnomaly, ...] = ()
    reasons: tuple[str, ...] = ()
    causes: tuple[tuple[str, str], ...] = ()  # with how sure each is, in the order in which they are told

    @property
    def told(self) -> tuple[str, ...]:
        """The causes by their names."""
        return tuple(name for name, _ in self.causes)

    @property
    def expected(self) -> tuple[str, ...]:
        """The causes that have to be told, in the order that comes nearest to what was told."""
        places = {name: place for place, name in enumerate(self.told)}
        groups = [sorted(each.split("/"), key=lambda name: places.get(name, 0)) for each in self.case.causes]
        hidden = set(self.case.hidden).difference(self.told)
        return tuple(name for group in groups for name in group if name not in hidden)

    @property
    def invented(self) -> tuple[str, ...]:
        """Causes of none of the bugs."""
        return tuple(name for name in self.told if name not in self.expected)

    @property
    def wrong(self) -> str:
        """What of the causes is not as it has to be."""
        missing = [name for name in self.expected if name not in self.told]
        named = [
            f"{what}: {', '.join(names)}"
            for what, names in (("missing", missing), ("invented", self.invented))
            if names
        ]
        return "; ".join(named) or ("" if self.fine else "order")

    @property
    def missed(self) -> bool:
        """Whether nothing was found of what had to be; of several bugs, whether the cause of any is not told."""
        if self.case.causes:
            return not set(self.expected) <= set(self.told)
        return bool(self.case.broken) and not {each.anomaly for each in self.found} & set(self.case.meant)

    @property
    def unexplained(self) -> tuple[FoundAnomaly, ...]:
        """What a broken broker is not meant for, and what correct ones are wrongly found guilty of."""
        if self.case.causes:
            return ()
        explained = {*self.case.meant, *self.case.follows}
        guilty = (each for each in self.found if each.status in {"illegal", "possibly the client"})
        if not self.case.broken:
            return tuple(each for each in guilty if each.status == "illegal")
        return tuple(each for each in guilty if each.anomaly not in explained)

    @property
    def fine(self) -> bool:
        """Whether it went as it had to."""
        in_order = not self.case.causes or self.told == self.expected
        return self.run is not None and not self.missed and not self.unexplained and in_order


def row_of(case: DetectionCase, run: Run | None) -> DetectionRow:
    """From the results in the store."""
    results = run.results if run else None
    if run is None or results is None:
        return DetectionRow(case, None, "not checked" if run else "not run")
    return DetectionRow(
        case,
        run.path,
        results["verdict"],
        results["events"],
        found_in(results),
        tuple(each["sentence"] for each in results["reasons"]),
        tuple((each["name"], each["confidence"]) for each in (results.get("diagnosis") or {}).get("causes", ())),
    )


def found_in(results: dict[str, Any]) -> tuple[FoundAnomaly, ...]:
    """What a results.json has seen, the most serious first."""
    found = [FoundAnomaly(each["anomaly"], each["found"], each["mark"]["status"]) for each in results["seen"]]
    return tuple(sorted(found, key=lambda each: (each.status != "illegal", each.anomaly)))


def page(
    rows: Sequence[DetectionRow], starved: Sequence[DetectionRow] = (), combined: Sequence[DetectionRow] = ()
) -> str:
    """docs/detection.md."""
    broken = [row for row in rows if row.case.broken]
    sound = [row for row in rows if not row.case.broken]
    parts = (
        _head(rows, broken, sound), _broken(broken), combined_table(combined), _sound(sound), starved_table(starved),
        _versions(rows),
    )  # fmt: skip
    return "\n".join([*(line for part in parts for line in part), ""])


def _head(rows: Sequence[DetectionRow], broken: Sequence[DetectionRow], sound: Sequence[DetectionRow]) -> Iterable[str]:
    events = sum(row.events for row in rows)
    yield from (
        "# Detection",
        "",
        "Does each check find the bug it is for, and nothing where there is none? Every [broken broker](broken.md) was",
        "run before both clients, and Apache Kafka as it is with every workload and every fault of the matrix.",
        f"`{COMMAND}` repeats it and writes this page; `bench/detection_matrix.py` has what is run, and what",
        "has to be found.",
        "",
        f"- {sum(not row.missed for row in broken)} of {len(broken)} runs of broken brokers: the bug was found.",
        f"- {sum(bool(row.unexplained) for row in broken)} of them have findings that nothing explains.",
        f"- {sum(row.fine for row in sound)} of {len(sound)} runs of correct brokers: nothing illegal was found.",
        f"- {len(rows)} runs, {events:,} events.",
    )


def _broken(rows: Sequence[DetectionRow]) -> Iterable[str]:
    yield from (
        "",
        "## Broken brokers",
        "",
        "At least one of the anomalies that a bug is for has to be found, whatever its mark; what follows from it is",
        "explained. Findings are illegal unless it says otherwise.",
        "",
        "| broken broker | client | workload | it is for one of | found | unexplained |",
        "| --- | --- | --- | --- | --- | --- |",
    )
    for row in rows:
        found = _told(row.found) or f"**nothing** ({row.verdict})"
        yield _line(
            f"`{row.case.broken}`",
            row.case.client,
            row.case.workload,
            ", ".join(row.case.meant),
            f"**missed**; {found}" if row.missed and row.found else found,
            _told(row.unexplained),
        )


def combined_table(rows: Sequence[DetectionRow]) -> Iterable[str]:
    """Several bugs at once."""
    if not rows:
        return
    certain = sum(sure == "certain" for row in rows for name, sure in row.causes if name in row.invented)
    yield from (
        "",
        "## Several bugs at once",
        "",
        f"Pairs and triples of broken brokers (`{COMMAND} ARGS=--combined`). The cause of each has to be told, the one",
        "that harms acknowledged data most first, and no other; a/b may come in either order. One in brackets need not",
        "be: the other bug keeps this client from reading anything.",
        "",
        f"- {len(rows)} of {len(COMBINED)} combinations were run. Unit tests put runs of the single brokers",
        "  together, and ask for the same causes.",
        f"- {sum(row.fine for row in rows)} of {len(rows)} runs: every cause, in its order, and no other.",
        f"- Causes that are called certain and are of none of the bugs: {certain}.",
        "",
        "| broken brokers | client | workload | causes, in this order | told | wrong |",
        "| --- | --- | --- | --- | --- | --- |",
    )
    for row in rows:
        yield _line(
            ", ".join(f"`{name}`" for name in row.case.broken.split(", ")),
            row.case.client,
            row.case.workload,
            ", ".join(f"({name})" if name in row.case.hidden else name for name in row.case.causes),
            ", ".join(name if sure == "certain" else f"{name} ({sure})" for name, sure in row.causes) or row.verdict,
            row.wrong,
        )


def _sound(rows: Sequence[DetectionRow]) -> Iterable[str]:
    yield from (
        "",
        "## Correct brokers",
        "",
        "Nothing illegal may be found. What is allowed is shown; a verdict of `unknown` has its reason beside it.",
        "",
        *_of_sound(rows),
    )


def starved_table(rows: Sequence[DetectionRow]) -> Iterable[str]:
    """The same where the machine was busy with other things."""
    if rows:
        clean = f"{sum(row.fine for row in rows)} of {len(rows)} runs"
        yield from (
            "",
            "## Correct brokers on a busy machine",
            "",
            f"Every fault that a cluster of processes can have, while {SPINNING} other processes use all the CPU they",
            f"get (`{COMMAND} ARGS=--starved`): nothing illegal was found in {clean}.",
            "",
            *_of_sound(rows),
        )


def with_section(text: str, section: Iterable[str]) -> str:
    """A page with this section in place of its own of that title; a new one comes before the last."""
    new = "\n".join(section).strip()
    if not new:
        return text
    head, *old = text.rstrip("\n").split("\n## ")
    title, place = new.partition("\n")[0], len(old) - 1
    places = [at for at, each in enumerate(old) if f"## {each.partition(chr(10))[0]}" == title]
    ends = (places[0], places[0] + 1) if places else (place, place)
    old[slice(*ends)] = [f"{new.removeprefix('## ')}\n"]
    return "\n## ".join([head, *old]).rstrip("\n") + "\n"


def _of_sound(rows: Sequence[DetectionRow]) -> Iterable[str]:
    yield from ("| workload | client | faults | events | verdict | found |", "| --- | --- | --- | ---: | --- | --- |")
    for row in rows:
        why = f" ({row.reasons[0]})" if row.verdict == "unknown" and row.reasons else ""
        yield _line(
            row.case.workload,
            row.case.client,
            row.case.nemesis,
            f"{row.events:,}",
            f"{row.verdict}{why}" if row.fine else f"**{row.verdict}**",
            _told(row.found),
        )


def _told(found: Iterable[FoundAnomaly]) -> str:
    """Each anomaly with its count; those that are not illegal with their mark."""
    return ", ".join(
        f"{each.anomaly} ×{each.count:,}" + ("" if each.status == "illegal" else f" ({each.status})") for each in found
    )


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _versions(rows: Sequence[DetectionRow]) -> Iterable[str]:
    ours = provenance.versions()
    brokers = sorted({name for row in rows if row.run and (name := _product(Run(row.run).facts))})
    kept = ("tidegauge", "python", "kafka-python", "confluent-kafka", "librdkafka", "pyspark")
    told = ", ".join([*brokers, *(f"{name} {ours[name]}" for name in kept)])
    yield from ("", "## With", "", f"{told}; {time.strftime('%Y-%m-%d')}; `{COMMAND}`.")


def _product(about: dict[str, Any]) -> str:
    """The brokers of a run, by name and version."""
    cluster = about.get("cluster")
    if not isinstance(cluster, dict):
        return ""
    return " ".join(str(cluster[key]) for key in ("product", "version") if cluster.get(key))
