"""A run without faults, as the runner does it, as far as workers go."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.core.run import REPLICA_ROLE
from harness.clusters.base import Cluster
from harness.history.schema import F, Kind, Type, now
from harness.history.sealed import Sealed
from harness.history.sealing import OPEN, open_history
from tests.integration.tapped_cluster import Tapped
from tests.support import eventually, unique
from tests.support.worker_sessions import RUN, rows
from workloads import find_workload
from workloads.base import CONSUMER, FINAL, PROBE, PRODUCER, REPLICA, FinalTarget, NodeAddress, Role, WorkerConfig
from workloads.fleet import Fleet
from workloads.topics import create_topics

STOP_S = 60


def left_open(history: Sealed, killed: Collection[int] = ()) -> list[tuple[int, str]]:
    """Operations that only sealing made an end of, but for those of processes killed on purpose: process and name."""
    columns = ["process", "f", "detail"]
    rows = pq.read_table(history.files[Kind.COMPLETE], columns=columns, filters=[("detail", "=", OPEN)]).to_pylist()
    return [(row["process"], F(row["f"]).name) for row in rows if row["process"] not in killed]


def every_loss_is_seen(run_directory: Path) -> None:
    """Already a plain count of acknowledged against read tells that something is gone; the check has all of it."""
    missing = len(_acknowledged_and_never_read(open_history(run_directory)))
    assert missing > 0
    seen = json.loads((run_directory / "results.json").read_text())["seen"]
    lost = [each for each in seen if each["anomaly"] in {"lost-write", "lost-tail"}]  # the last log decides which
    assert sum(each["found"] for each in lost) >= missing
    assert all(each["mark"]["status"] == "allowed" for each in lost)


def _acknowledged_and_never_read(history: Sealed) -> set[int]:
    """By anybody: the load's consumers are stopped with it, and the final read comes after them."""
    ended = pq.read_table(history.files[Kind.COMPLETE], columns=["f", "type", "value"])
    sent = ended.filter((pc.field("f") == int(F.SEND)) & (pc.field("type") == int(Type.OK)))["value"]
    records = pq.read_table(history.files[Kind.RECORD], columns=["process", "value"])
    replicas = [number for number, about in history.processes.items() if about.get("role") == REPLICA_ROLE]
    read = records.filter(~pc.field("process").isin(replicas))["value"]
    return set(sent.to_pylist()) - set(read.to_pylist())


class Run:
    """A workload on a cluster behind taps."""

    def __init__(self, cluster: Cluster, taps: Tapped, directory: Path, workload: str, **settings: Any) -> None:
        self.workload = find_workload(workload)
        self.settings = self.workload.model(bootstrap="first", **settings)
        self.fleet = Fleet({}, directory / "logs")
        self._directory, self.taps = directory, taps
        self._nodes = tuple(
            NodeAddress(id=node.id, address=tap) for node, tap in zip(cluster.nodes, taps.addresses, strict=True)
        )
        self._prefix, self._began = unique("test"), now()
        self.topics = self.workload.topics(self.settings)
        self.names = [topic.full_name(self._prefix) for topic in self.topics]
        create_topics(cluster.nodes, cluster.security, self.topics, self._prefix)

    def start(self, role: Role, targets: tuple[FinalTarget, ...] = ()) -> None:
        """One worker."""
        process = len(self.fleet.workers)
        self.fleet.start(
            WorkerConfig(
                process=process,
                role=role.name,
                number=role.number,
                of=role.of,
                parts=role.parts,
                task=role.task,
                seed=process,
                workload=self.workload.name,
                settings=self.settings.model_dump(mode="json"),
                segment=self._directory / f"{process}.segment",
                run=RUN,
                began=self._began,
                prefix=self._prefix,
                topics=tuple(self.topics),
                nodes=self._nodes,
                targets=targets,
            )
        )

    def load(self, enough: Callable[[], bool]) -> None:
        """All stages beside the probes, until that is enough."""
        self.start(Role(PROBE))
        for stage in self.workload.stages(self.settings, 0):
            for role in stage:
                self.start(role)
            if all(role.finite for role in stage):
                self.fleet.tell({"acked": self.fleet.totals(PRODUCER)["ok"]}, CONSUMER)
                eventually(lambda: self.fleet.over(stage[0].name), f"{stage[0].name} is done")  # noqa: B023
        eventually(lambda: self.fleet.poll() is None and enough(), "the load")  # type: ignore[func-returns-value]
        self.fleet.stop(STOP_S)
        assert self.fleet.dead() == []

    def final_read(self) -> None:
        """Every partition of every topic that the segments name, and the same of each node."""
        acknowledged = self.rows(Kind.COMPLETE, F.SEND)
        names = {number: name for path in self.segments() for number, name in rows(path)[0].topics.items()}
        targets = []
        for number, name in names.items():
            for partition in range(self.settings.partitions):
                here = acknowledged[(acknowledged["topic"] == number) & (acknowledged["partition"] == partition)]
                last = int(here["offset"].max(initial=-1))
                targets.append(FinalTarget(topic=number, name=name, partition=partition, last_acked=last))
        self.start(Role(FINAL), tuple(targets))
        for number in range(len(self._nodes)):
            self.start(Role(REPLICA, number, len(self._nodes)), tuple(targets))
        eventually(lambda: self.fleet.over(FINAL) and self.fleet.over(REPLICA), "the final read")
        assert self.fleet.dead() == []

    def rows(self, kind: Kind, f: F | None = None) -> Any:
        """All rows of a kind, of all workers."""
        found = np.concatenate([rows(path)[1][kind] for path in self.segments()])
        return found if f is None else found[found["f"] == f]

    def segments(self) -> list[Path]:
        """Of all workers so far."""
        return sorted(self._directory.glob("*.segment"))
