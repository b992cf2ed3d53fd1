"""Short names on the screen: p0 instead of tg-128459b3-batch-0 where there is one topic, and what was tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checkers.core.results import Finding
from harness.history.opening import table_of
from harness.judging.checking import Checked

PREFIX = "tg-"
PREFIX_LETTERS = len("tg-01234567-")


@dataclass(frozen=True)
class Names:
    """Of the topics of a run."""

    topics: tuple[str, ...] = ()

    @classmethod
    def of(cls, checked: Checked) -> Names:
        """All topics that the table, the findings or the faults name."""
        results = checked.results
        found = {each.topic for anomaly in results.found for each in anomaly.findings}
        found |= {row.topic for row in results.figures.table}
        found |= {each.fault.topic for each in results.coverage.faults}
        return cls(tuple(sorted(each for each in found if each)))

    def short(self, text: str) -> str:
        """The text with short names for partitions and groups."""
        for topic in self.topics:
            short = "p" if len(self.topics) == 1 else f"{topic[_prefix(topic) :]}-"
            text = text.replace(f"{topic}-", short)
        for prefix in {topic[: _prefix(topic)] for topic in self.topics} - {""}:
            text = text.replace(prefix, "")
        return text

    def place(self, finding: Finding) -> str:
        """p0 offset 15."""
        if finding.topic is None:
            return ""
        offset = "" if finding.offset is None or finding.offset < 0 else f" offset {finding.offset:,}"
        partition = finding.topic if finding.partition is None else self.short(f"{finding.topic}-{finding.partition}")
        return f"{partition}{offset}"


def tested(checked: Checked, width: int) -> str:
    """What was tested, in as much as fits a line: workload, faults, cluster, client, seed."""
    facts = checked.facts
    settings = table_of(table_of(facts, "scenario"), "settings")
    client = [f"{settings['client']}, acks={settings['acks']}"] if {"client", "acks"} <= settings.keys() else []
    seed = [f"seed {facts['seed']}"] if facts.get("seed") is not None else []
    what, product, nodes = _what(checked), *_cluster(facts)
    cluster = [", ".join([*product, *nodes])] if product else []
    for parts in ([*cluster, *client, *seed], [*cluster, *client], [*product, *client], product):
        if len(" · ".join([*what, *parts])) <= width:
            return " · ".join([*what, *parts])
    return " · ".join(what)


def _what(checked: Checked) -> list[str]:
    """The workload and what was broken; of other histories, what they are."""
    facts = checked.facts
    scenario = table_of(facts, "scenario")
    if facts.get("kind") == "tap":
        return ["recorded traffic"]
    if facts.get("kind") == "import":
        return [f"imported {table_of(facts, 'imported').get('file', _run_name(checked))}"]
    plans = scenario.get("nemesis")
    faults = [str(plan.get("fault")) for plan in plans if isinstance(plan, dict)] if isinstance(plans, list) else []
    tap = table_of(scenario, "tap")
    broken = [f"built-in bug {name}" for name in tap.get("broken") or ()]
    rules = ["traffic changed by rules"] if tap.get("rule") else []
    workload = str(scenario.get("workload") or facts.get("title") or _run_name(checked))
    return [workload, *dict.fromkeys(faults), *broken, *rules]


def _cluster(facts: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Kafka 4.3.1; 3 local nodes, as the kind of cluster is called."""
    cluster = table_of(facts, "cluster")
    nodes = cluster.get("nodes")
    if not isinstance(nodes, list) or "product" not in cluster:
        return [], []
    product = "Kafka" if cluster["product"] == "kafka" else str(cluster["product"])
    version = f" {cluster['version']}" if cluster.get("version") else ""
    return [f"{product}{version}"], [f"{len(nodes)} {cluster.get('kind', '')} node{'' if len(nodes) == 1 else 's'}"]


def _run_name(checked: Checked) -> str:
    return str(checked.run.path).rstrip("/").rpartition("/")[2]


def _prefix(topic: str) -> int:
    """How many letters of a topic's name only tell runs apart."""
    ours = topic.startswith(PREFIX) and topic[PREFIX_LETTERS - 1 : PREFIX_LETTERS] == "-"
    return PREFIX_LETTERS if ours else 0
