"""Batches that come again: what a rule that loses, holds or doubles sends makes clients do.

Nothing is looked at before such a rule has acted. From then on each send is compared with those that were bent and have
not come again yet; only the latest of them are remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from harness.foundation.frame_skim import Garbled
from harness.foundation.protocol import Api
from harness.tap.batch_headers import batch_positions, header_at
from harness.tap.bounded_dict import BoundedDict
from harness.tap.effects import Close, Drop, Duplicate, Effects, Hold
from harness.tap.exchange import Exchange

Batch = tuple[str, int, int, int, int, int]  # topic, partition, producer id, epoch, sequence, checksum


class ResendCounter:
    """Sends that were bent, and how many of their batches came again, by who bent them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._awaited: BoundedDict[Batch, tuple[str, ...]] = BoundedDict()

    def bent(self, exchange: Exchange, name: str, effects: Effects) -> None:
        """Something was done to an exchange; the client may send it again because of that."""
        if exchange.api == Api.PRODUCE and any(isinstance(each, Drop | Hold | Duplicate | Close) for each in effects):
            for batch in _batches(exchange):
                self._awaited[batch] = (*self._awaited.get(batch, ()), name)

    def saw(self, exchange: Exchange) -> None:
        """A request came, and nothing has been done to it so far."""
        if self._awaited and exchange.api == Api.PRODUCE:
            for batch in _batches(exchange):
                self.counts.update(set(self._awaited.pop(batch, ())))


def _batches(exchange: Exchange) -> Iterator[Batch]:
    try:
        parts = exchange.request_parts()
    except Garbled:
        return
    for part in parts:
        records = part.message.records
        for position in batch_positions(records):
            header = header_at(records, position)
            numbers = (header.producer_id, header.producer_epoch, header.base_sequence, header.crc)
            yield part.topic, part.partition, *numbers
