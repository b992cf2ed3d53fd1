"""Clients that hear nothing, do not listen, or cannot be told apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.history_plan import (
    FIRST_CONSUMER,
    FIRST_PRODUCER,
    MS,
    TOPIC,
)
from bench.sick.load import SickLoad
from bench.sick.rows import TEXT, TIMED_OUT, Streams, null
from harness.history.schema import ID_BITS, Kind, Type
from harness.history.sources import Rows


class AllInfo(SickLoad):
    """Clients hear nothing of what they send."""

    def sends(self, kind: Kind) -> Iterator[Rows]:
        """Until their time is over."""
        for rows in super().sends(kind):
            if kind is Kind.COMPLETE:
                rows["type"], rows["error"], rows["offset"] = Type.INFO, TIMED_OUT, null("offset")
                rows["detail"] = TEXT["Local: Message timed out"]
                rows["time"] += 500 * MS
            yield rows

    def produces(self) -> Iterator[Rows]:
        """The answers are lost on their way back."""
        for rows in super().produces():
            rows["type"], rows["detail"] = Type.INFO, TEXT["the client got no answer"]
            yield rows


class NoAcknowledgements(SickLoad):
    """With acks=0 clients do not wait for answers; some libraries then tell an offset of -1, others none."""

    def sends(self, kind: Kind) -> Iterator[Rows]:
        """They end at once."""
        for rows in super().sends(kind):
            if kind is Kind.COMPLETE:
                rows["offset"] = np.where(rows["value"] % 2 == 0, -1, null("offset"))
            yield rows

    def produces(self) -> Iterator[Rows]:
        """Without any answer."""
        for rows in super().produces():
            for name in ("offset", "error", "log_start", "producer_id", "producer_epoch", "sequence"):
                rows[name] = null(name)
            rows["acks"] = 0
            yield rows

    def processes(self) -> dict[int, dict[str, Any]]:
        """Nobody numbers what he sends."""
        return {number: about | ({"idempotent": False} if "idempotent" in about else {})
                for number, about in super().processes().items()}  # fmt: skip


class SendsAndPolls(SickLoad):
    """Values are numbers of their key, and so is all that is known of them."""

    PARTITIONS = 8
    OF_100 = 302

    def streams(self) -> Streams:
        """No phases, no probes, no tap, and nobody reads to the end."""
        streams: Streams = {kind: [] for kind in Kind}
        for kind in (Kind.INVOKE, Kind.COMPLETE):
            streams[kind] += [map(self._numbered, self.sends(kind)), self.polls(kind)]
        streams[Kind.RECORD].append(map(self._numbered, self.reads()))
        return streams

    def topics(self) -> dict[int, str]:
        """A single one."""
        return {TOPIC: "jepsen"}

    def processes(self) -> dict[int, dict[str, Any]]:
        """Any of them may do anything."""
        return {number: {"role": "consumer"} for first in (FIRST_PRODUCER, FIRST_CONSUMER)
                for number in range(first, first + self.plan.clients)}  # fmt: skip

    @staticmethod
    def _numbered(rows: Rows) -> Rows:
        rows["value"] = (rows["partition"].astype(np.int64) << ID_BITS) + rows["sequence"]
        for name in {"producer", "sequence"} & {*(rows.dtype.names or ())}:
            rows[name] = null(name)
        return rows
