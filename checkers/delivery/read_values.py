"""Values that were read where or although they should not have been: phantom, aborted-read, misrouted, duplicate."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, Bools
from checkers.core.deletions import UNSURE
from checkers.core.findings import Findings, make_findings
from checkers.core.partitions import PLACE
from checkers.core.run import RunContext, by
from checkers.delivery.acknowledged_values import GONE, tag_if
from checkers.delivery.value_counts import with_places
from checkers.shared.fates import Fates
from harness.history.schema import ID_BITS, Type


def read_findings(fates: Fates, run: RunContext, renumbered: Collection[int]) -> list[Findings]:
    """Findings of values that were read; `renumbered` are producers that began to number anew."""
    return [
        _phantoms(fates.only(fates.type == 0), run),
        _aborted_reads(fates.only((fates.type == Type.FAIL) & fates.read), run),
        _misrouted(fates, run),
        _duplicates(fates.only((fates.low < fates.high) & (fates.low != NEVER)), run, renumbered),
    ]


def _phantoms(fates: Fates, run: RunContext) -> Findings:
    rows = with_places(fates.frame("value", *PLACE, "low", "seen", "read_event"))
    producer = pl.lit(None, pl.Int64) if run.foreign else _process_of("value")
    return make_findings(
        "phantom", rows.with_columns(producer=producer, reader=_process_of("read_event")), run, offset="low",
        values=("value",), processes=("producer", "reader"), time="seen", events=("read_event",), facts=("producer",),
    )  # fmt: skip


def _aborted_reads(fates: Fates, run: RunContext) -> Findings:
    rows = with_places(fates.frame("value", *PLACE, "low", "seen", "txn", "send_event", "read_event"))
    return make_findings(
        "aborted-read", rows.with_columns(in_transaction=pl.col("txn").is_not_null()), run, offset="low",
        values=("value",), time="seen", events=("send_event", "read_event"), facts=("in_transaction",),
    )  # fmt: skip


def _misrouted(fates: Fates, run: RunContext) -> Findings:
    rows = fates.told.filter(pl.Series(fates.astray, dtype=pl.Boolean))
    places = rows.group_by("value", *PLACE, "offset").agg(pl.col("event").min(), pl.col("time").min())
    return make_findings("misrouted", places, run, offset="offset", values=("value",), time="time", events=("event",))


def _duplicates(fates: Fates, run: RunContext, renumbered: Collection[int]) -> Findings:
    rows = with_places(
        fates.frame("value", *PLACE, "low", "high", "seen", "txn", "send_event", "low_event", "high_event")
    )
    idempotent, plain = (by(run.with_about("idempotent", (told,)), "producer") for told in (True, False))
    sender = pl.when(pl.col("txn").is_not_null()).then(pl.lit("transactional"))
    told = rows.with_columns(producer=_process_of("send_event"), apart=_apart(fates, run)).with_columns(
        sender=sender.when(idempotent).then(pl.lit("idempotent")).when(plain).then(pl.lit("plain")),
        anew=tag_if(by(renumbered, "producer"), "numbered anew"),
        apart=tag_if(pl.col("apart"), GONE),
    )
    return make_findings(
        "duplicate", told, run, offset="low", values=("value",), time="seen", events=("low_event", "high_event"),
        tags=("sender", "anew", "apart"), facts=("low", "high"),
    )  # fmt: skip


def _apart(fates: Fates, run: RunContext) -> Bools:
    """Whether no two offsets of a value are certainly of one life of its topic."""
    if not run.deletions:
        return np.zeros(len(fates), np.bool_)
    known = pl.DataFrame({"of": fates.of_placed, "era": fates.placed("era"), "offset": fates.placed("offset")})
    lives = known.filter(pl.col("era") != UNSURE).unique().group_by("of").agg(pl.len(), pl.col("era").n_unique())
    apart = np.ones(len(fates), np.bool_)
    apart[lives.filter(pl.col("era") < pl.col("len"))["of"].to_numpy()] = False
    return apart


def _process_of(identifier: str) -> pl.Expr:
    return pl.col(identifier) // (1 << ID_BITS)
