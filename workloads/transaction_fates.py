"""What is to become of each transaction, and at which of its steps."""

from __future__ import annotations

import random
import time
from enum import Enum, auto

from workloads.exactly_once_settings import ExactlyOnceSettings


class TransactionStep(Enum):
    """Where a transaction is."""

    BEGUN = auto()
    READ = auto()  # a poll brought records, nothing was made of them yet
    SENT = auto()
    DELIVERED = auto()
    OFFSETS = auto()  # the positions are in the transaction


class TransactionFate(Enum):
    """What a transformer does to a transaction at a step."""

    COMMIT = auto()
    ABORT = auto()
    LOSE_PRODUCER = auto()  # it is closed, and the transaction left open
    LOSE_CONSUMER = auto()  # it leaves or is gone, and the transaction goes on to its end without it
    CRASH = auto()  # both are gone


RESTARTS = (TransactionFate.LOSE_PRODUCER, TransactionFate.LOSE_CONSUMER, TransactionFate.CRASH)


class Chances:
    """What is to become of each transaction, from a seed."""

    def __init__(self, settings: ExactlyOnceSettings, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - chances, not secrets
        self._abort, self._every_s = settings.abort, settings.restart_every
        self._restart_at = time.monotonic() + self._pause_s()

    def next(self) -> tuple[TransactionFate, TransactionStep]:
        """For a transaction that begins now."""
        way, step = TransactionFate.COMMIT, self._random.choice(list(TransactionStep))
        if self._every_s and time.monotonic() >= self._restart_at:
            self._restart_at = time.monotonic() + self._pause_s()
            way = self._random.choice(RESTARTS)
        elif self._random.random() < self._abort:
            way = TransactionFate.ABORT
        return way, step

    def leaves(self) -> bool:
        """Whether a consumer that goes does so in order."""
        return self._random.random() < 0.5

    def _pause_s(self) -> float:
        return self._every_s * self._random.uniform(0.5, 1.5)
