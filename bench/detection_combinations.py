"""Several bugs at once: pairs and triples of broken brokers in front of each client, each cause found, in its order.

A combination names the causes that have to be told, the most harmful first, and no other may be. Causes of a single bug
are in `bench.detection_matrix` only by their anomalies: what a bug does to the diagnosis of another one shows here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.detection_matrix import (
    CLIENTS,
    IDEMPOTENT,
    IMPATIENT,
    KAFKA_PYTHON,
    MODEST,
    SHORT,
    SLOW,
    STREAM,
    DetectionCase,
)


@dataclass(frozen=True)
class Combination:
    """Broken brokers that play at once, and the causes that they have, in the order in which they have to be told.

    Two causes with a / between them may come in either order: how much they harm differs from run to run. One that is
    hidden from a client need not be told: who never finds a leader to read from meets no damaged record.
    """

    broken: tuple[str, ...]
    causes: tuple[str, ...]
    workload: str = "stream"
    settings: dict[str, Any] = field(default_factory=lambda: STREAM)
    time_s: int = 16
    hidden: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by client

    def cases(self) -> Iterator[DetectionCase]:
        """With each client."""
        title = "+".join(each.replace(":", "-") for each in self.broken)
        for client in CLIENTS:
            yield DetectionCase(
                f"both-{title}-{SHORT[client]}" if len(self.broken) == 2 else f"all-{title}-{SHORT[client]}",
                client,
                self.workload,
                self.settings,
                self.time_s,
                broken=", ".join(self.broken),
                causes=self.causes,
                hidden=self.hidden.get(client, ()),
            )


PAIRS = (
    Combination(("reuses-offsets", "end-offset-goes-back"), ("offsets-assigned-twice", "end-offset-goes-back")),
    Combination(("reuses-offsets", "flips-bits"), ("offsets-assigned-twice", "corrupted")),
    Combination(("acks-then-forgets", "serves-stale-reads"), ("acknowledged-then-lost", "stale-reads")),
    Combination(("flips-bits", "skips-records"), ("corrupted", "skipped-by-readers")),
    Combination(("misroutes", "end-offset-goes-back"), ("misrouted", "end-offset-goes-back")),
    Combination(
        ("not-leader-forever", "reuses-offsets"), ("offsets-assigned-twice", "leader-refuses"), settings=IMPATIENT
    ),
    Combination(("answers-as-leader", "not-leader-forever"), ("leader-refuses/answers-as-leader",), settings=IMPATIENT),
    Combination(
        ("metadata-lists-self-only", "flips-bits"),
        ("corrupted", "clients-cannot-find-leaders"),
        settings=IMPATIENT,
        hidden={KAFKA_PYTHON: ("corrupted",)},
    ),
    Combination(("splits-brain", "flips-bits"), ("split-brain", "corrupted"), settings=IMPATIENT),
    Combination(("acks-without-offset", "watermark-frozen:300"), ("acknowledged-without-offset", "watermark-frozen")),
    Combination(("appends-retries-twice", "flips-bits"), ("corrupted", "resend-not-recognised"), settings=IDEMPOTENT),
    Combination(("coordinator-lies", "flips-bits"), ("corrupted", "coordinator-differs"), "groups", SLOW, 20),
    Combination(
        ("tears-transactions", "leaks-aborted"), ("torn-transactions", "aborted-shown"), "transactions", MODEST
    ),
)
TRIPLES = (
    Combination(
        ("reuses-offsets", "flips-bits", "end-offset-goes-back"),
        ("offsets-assigned-twice", "corrupted", "end-offset-goes-back"),
    ),
    Combination(
        ("answers-as-leader", "not-leader-forever", "reuses-offsets"),
        ("offsets-assigned-twice", "leader-refuses/answers-as-leader"),
        settings=IMPATIENT,
    ),
    Combination(
        ("metadata-lists-self-only", "reuses-offsets", "flips-bits"),
        ("offsets-assigned-twice", "corrupted", "clients-cannot-find-leaders"),
        settings=IMPATIENT,
        hidden={KAFKA_PYTHON: ("corrupted",)},
    ),
    Combination(
        ("coordinator-lies", "skips-records", "flips-bits"),
        ("corrupted", "skipped-by-readers", "coordinator-differs"),
        "groups",
        SLOW,
        20,
    ),
)
COMBINED: tuple[DetectionCase, ...] = tuple(case for each in (*PAIRS, *TRIPLES) for case in each.cases())
