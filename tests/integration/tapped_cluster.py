"""Taps in this process before a real cluster, and what passed them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from kafka import KafkaAdminClient

from harness.clusters.base import Cluster
from harness.clusters.node import Node
from harness.foundation.protocol import Api
from harness.history.places import HISTORY
from harness.history.recorder import Recorder
from harness.history.schema import FIRST_TAP, Kind, Type
from harness.history.sealing import seal
from harness.history.sources import segment_path
from harness.tap.codec import TopicNames
from harness.tap.exchange import Bend, TapContext
from harness.tap.exchange_recorder import ExchangeRecorder
from harness.tap.process import TapConfig, Upstream
from harness.tap.proxy import Proxy
from harness.tap.rules import Rule
from harness.tap.taps import Taps
from tests.support import unique
from tests.support.worker_sessions import rows as records


@dataclass
class Tapped:
    """Taps that work in a thread of their own as long as the block lasts."""

    run: Path
    addresses: list[str] = field(default_factory=list)  # of the taps, in the order of the nodes
    proxy: Proxy = field(init=False)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    @property
    def bootstrap(self) -> str:
        """One address: everything else has to be found through it."""
        return self.addresses[0]

    def counted(self, api: Api) -> int:
        """Records in the answered requests of an API so far, while the taps still work."""
        self.loop.call_soon_threadsafe(self.proxy.seer.flush)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop).result(10)
        rows = records(segment_path(self.run, FIRST_TAP))[1][Kind.EXCHANGE]
        rows = rows[(rows["api"] == api) & (rows["type"] == Type.OK) & (rows["error"] == 0)]
        return int(rows["count"][rows["count"] > 0].sum())

    def exchanges(self, **wanted: object) -> list[dict[str, Any]]:
        """What was recorded, after the block."""
        return exchanges(self.run, **wanted)


def exchanges(run: Path, **wanted: object) -> list[dict[str, Any]]:
    """What was recorded there, in the order of time; rows with these values only."""
    if not (run / HISTORY).exists():
        seal(run)
    rows = pq.read_table(run / HISTORY / Kind.EXCHANGE.directory).to_pylist()
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


@contextmanager
def tapped(nodes: Sequence[Node], run: Path, *bends: Bend) -> Iterator[Tapped]:
    """Taps before these nodes, which bend what passes."""
    segment = segment_path(run, FIRST_TAP)
    segment.parent.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(segment, FIRST_TAP, {"role": "tap"})
    taps = Tapped(run)
    ready, stop, loop = threading.Event(), asyncio.Event(), taps.loop

    async def serve() -> None:
        taps.proxy = Proxy(ExchangeRecorder(recorder, {}), TapContext(TopicNames(), {}))
        for bend in bends:
            taps.proxy.bend(bend)
        for node in nodes:
            host, _, port = node.address.rpartition(":")
            taps.addresses.append(f"127.0.0.1:{taps.proxy.open(node.id, (host, int(port))).port}")
        ready.set()
        await stop.wait()
        await taps.proxy.close()
        recorder.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield taps
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        loop.close()
    assert taps.proxy.counts.troubles == []


@contextmanager
def process_of_taps(cluster: Cluster, run: Path, *rules: Rule) -> Iterator[Taps]:
    """Taps in a process of their own, as in a run."""
    (run / "segments").mkdir(parents=True)
    upstreams = tuple(Upstream(node=node.id, address=node.address) for node in cluster.nodes)

    def config(process: int) -> TapConfig:
        return TapConfig(process=process, segment=segment_path(run, process), upstreams=upstreams, rules=rules)

    taps = Taps(config, {}, run / "logs", lambda _: None)
    taps.prepare()
    taps.start()
    try:
        yield taps
    finally:
        taps.stop()
    assert (taps.deaths, taps.troubles) == ([], [])


def create(cluster: Cluster, partitions: int = 1) -> str:
    """A topic, made without the taps."""
    name = unique("tap")
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 3}})
    admin.wait_for_topics([name])
    admin.close()
    return name
