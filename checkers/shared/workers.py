"""Workers by the client ids that they send: `tidegauge-ROLE-PROCESS`."""

from __future__ import annotations

import polars as pl

WORKER = r"^tidegauge-[a-z]+-([0-9]+)$"
MOST_PROCESSES = (1 << 31) - 1


def worker(client: str = "client") -> pl.Expr:
    """The process that a client id names; null if it names none."""
    number = pl.col(client).str.extract(WORKER, 1).cast(pl.Int64, strict=False)
    return pl.when(number <= MOST_PROCESSES).then(number).cast(pl.Int32)
