"""Reasons: why a verdict is not `valid`, each with a code for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

NOTED = "noted"  # by the runner, or by whoever exported a history
ILLEGAL = "illegal"
WORKER_DIED, DAMAGE, CHECK_FAILED, RUN_FAILED = "worker-died", "damage", "check-failed", "run-failed"
NOT_WHOLE, LOAD_NOT_OVER = "cluster-not-whole", "load-not-over"  # of the broker, perhaps
FAULT_FAILED, NOT_INJECTED, NOT_BITTEN, NOT_UNDONE = (
    "fault-failed", "fault-not-injected", "fault-did-not-bite", "fault-not-undone",
)  # fmt: skip
# what a part of the harness could not do, and says nothing of the broker
OF_THE_HARNESS = frozenset(
    {NOTED, WORKER_DIED, DAMAGE, CHECK_FAILED, FAULT_FAILED, NOT_INJECTED, NOT_BITTEN, NOT_UNDONE}
)


@dataclass(frozen=True)
class Reason:
    """One of them."""

    code: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    @property
    def is_ours(self) -> bool:
        """Whether it is a part of the harness that did not do what it should."""
        return self.code in OF_THE_HARNESS

    def as_json(self) -> dict[str, str]:
        """For run.json and results.json."""
        return asdict(self)

    @classmethod
    def of(cls, kept: str | Mapping[str, Any]) -> Self:
        """From what was kept; older runs kept the sentence alone."""
        return cls(NOTED, kept) if isinstance(kept, str) else cls(str(kept["code"]), str(kept["sentence"]))
