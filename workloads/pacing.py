"""Sending at a steady rate or flat out: ticks of some 10 ms, each with the messages that are due, until told to stop.

A producer that was held up for longer than a second does not make up for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workloads.base import Settings, TopicSpec
    from workloads.producing import RecordingProducer
    from workloads.session import WorkerSession

TICK_S = 0.01
DEBT_S = 1.0


def send_in_ticks(
    session: WorkerSession, sender: RecordingProducer, rate: float, send: Callable[[int, int], None]
) -> None:
    """Have each tick sent by `send(tick, messages)`; the rate is messages per second of this worker, 0 is flat out."""
    ticks = sent = 0
    began_at = time.monotonic()
    while not session.control.stopped:
        tick_began_at = time.monotonic()
        count = sender.chunk
        if rate:
            due = (tick_began_at - began_at) * rate
            sent = max(sent, int(due - DEBT_S * rate))
            count = min(count, int(due) - sent)
        if count:
            send(ticks, count)
            sent += count
            ticks += 1
        sender.drain(0)
        while rate and (left_s := tick_began_at + TICK_S - time.monotonic()) > 0:
            sender.drain(left_s)
        sender.make_room()
    sender.finish()


def feed(session: WorkerSession, settings: Settings, rate: float, topic: TopicSpec) -> None:
    """Send to the partitions of a topic in turn until told to stop; the rate is that of all producers together."""
    import numpy as np

    from workloads.producing import open_producer

    sender = open_producer(session, settings)
    name = topic.full_name(session.config.prefix)
    first = session.config.number * topic.partitions // session.config.of  # each begins elsewhere

    def send(tick: int, count: int) -> None:
        sender.send(topic.number, name, np.full(count, (first + tick) % topic.partitions))

    send_in_ticks(session, sender, rate / session.config.of, send)
