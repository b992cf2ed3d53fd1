"""Stands in for what others rely on: what is known of partitions, and the columns that pieces are cut by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import polars as pl

from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.node_answers import EXCHANGES, PROBES
from checkers.core.piece import Piece
from checkers.core.run import RunContext

COUNTS = ("sent", "acknowledged", "failed", "info", "read", "distinct", "aborted", "transactional", "never_read")
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("topic", "partition", *COUNTS, "final_invoked", "final_offset", "final_end"), pl.Int64),
    "raw_ok": pl.Boolean,
}
LOG = ("process", "topic", "partition", "offset", "value")


class Places(Family):
    """`known["values"]`, of which `places` are what a test says."""

    name = "values"
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "sends": LOG,
        "records": LOG,
        "ops": ("process", "topic", "partition", "f", "type", "end", "invoked", "time", "event"),
        "probes": ("process", *PROBES),
        "exchanges": ("process", *EXCHANGES),
    }

    def __init__(self, places: Sequence[Mapping[str, Any]] = ()) -> None:
        self.places = pl.DataFrame([{**dict.fromkeys(SCHEMA), **row} for row in places], schema=SCHEMA)

    def survey(self, piece: Piece, run: RunContext) -> None:
        """Nothing."""

    def gather(self, surveys: Sequence[None], run: RunContext, others: ByFamily) -> Places:
        """What tests say."""
        return self

    def conclude(self, gathered: Places, judged: Sequence[None], run: RunContext, others: ByFamily) -> FamilyResult:
        """Nothing."""
        return FamilyResult()
