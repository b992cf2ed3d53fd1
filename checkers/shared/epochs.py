"""Leader epochs: when Metadata showed each of them first. No anomaly by itself; many others ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import polars as pl

from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.node_answers import EXCHANGES, PROBES, Epochs, merged_epochs
from checkers.core.piece import Piece
from checkers.core.run import RunContext


class LeaderEpochs(Family):
    """`others["epochs"]` is `checkers.core.node_answers.Epochs`."""

    name = "epochs"
    after = ()
    reads: ClassVar[Mapping[str, Sequence[str]]] = {"probes": PROBES, "exchanges": EXCHANGES}

    def survey(self, piece: Piece, run: RunContext) -> pl.DataFrame:
        """Those of the partitions in it."""
        return piece.epochs

    def gather(self, surveys: Sequence[pl.DataFrame], run: RunContext, others: ByFamily) -> Epochs:
        """Of all partitions."""
        return Epochs(merged_epochs([*surveys, Piece({}, run).epochs]))

    def conclude(self, gathered: Epochs, judged: Sequence[object], run: RunContext, others: ByFamily) -> FamilyResult:
        """Nothing."""
        return FamilyResult()


FAMILIES: tuple[Family, ...] = (LeaderEpochs(),)
