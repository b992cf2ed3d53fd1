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

from harness.clusters.base import Node
from harness.history import FIRST_TAP, Kind, Recorder
from harness.seal import HISTORY, seal, segment_path
from harness.tap.codec import TopicNames
from harness.tap.exchange import Bend, World
from harness.tap.proxy import Proxy
from harness.tap.seeing import Seer


@dataclass
class Tapped:
    """Taps that work in a thread of their own as long as the block lasts."""

    run: Path
    addresses: list[str] = field(default_factory=list)  # of the taps, in the order of the nodes
    proxy: Proxy = field(init=False)

    @property
    def bootstrap(self) -> str:
        """One address: everything else has to be found through it."""
        return self.addresses[0]

    def exchanges(self, **wanted: object) -> list[dict[str, Any]]:
        """What was recorded, in the order of time, after the block; rows with these values only."""
        if not (self.run / HISTORY).exists():
            seal(self.run)
        rows = pq.read_table(self.run / HISTORY / Kind.EXCHANGE.directory).to_pylist()
        return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


@contextmanager
def tapped(nodes: Sequence[Node], run: Path, *bends: Bend) -> Iterator[Tapped]:
    """Taps before these nodes, which bend what passes."""
    segment = segment_path(run, FIRST_TAP)
    segment.parent.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(segment, FIRST_TAP, {"role": "tap"})
    taps = Tapped(run)
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        taps.proxy = Proxy(Seer(recorder, {}), World(TopicNames(), {}))
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
