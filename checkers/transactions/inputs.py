"""Inputs of transactions, their outputs, and the offsets that were committed with them.

offsets-not-atomic is asked where offsets are committed in transactions. A partition is *transformed* when there is a
COMMIT of it in a transaction, ok, with an offset, and all COMMITs of it in transactions and all COMMITTED of it that
ended ok have one `name`: its group. `committed` is the highest offset of those COMMITs. The *answer* is that of the
last COMMITTED: ok, by a process that is not known to read uncommitted, of those that were invoked after the last fault
had healed (was undone, if nobody says; never, if it was not) the one with the latest invocation, then with the highest
offset. An *input* is a value that was sent to a transformed partition, with the offsets at which a good record of it
was handed to a process that is not known to read uncommitted (none: no input). An *output* of it is a send in a
transaction with that value as its `source`. An output *counts* when it is ok or visible, and is *open* when it is info,
not visible, not missing, and no ok final read (as above) of its partition was invoked at or after its completion. It is
*bound* to its input when a COMMIT of the input's partition in its transaction did not fail, and has an offset above all
of the input's. A transaction that never asked for that leaves the group where it is: whoever is next makes an output
again, and no broker can know. For each input

`twice`             its offset is one and the same, and two outputs count that are bound to it
`no output`         `committed` is above all its offsets, and no output counts or is open
`not committed`     its offset is one and the same, an output that is bound to it is ok and completed at or before the
                    invocation of the answer, and the answer is not above the offset
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, Ints
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.run import RunContext
from checkers.core.tables import topic_and_partition
from checkers.transactions.outcomes import known
from checkers.transactions.outputs import outputs_of_inputs
from checkers.transactions.partition_reach import (
    PartitionTable,
)
from checkers.transactions.transaction_values import ValueTotals, sampling_step


@dataclass(frozen=True)
class _Inputs:
    """Inputs, what their groups committed, and what came of their outputs."""

    value: Ints
    place: Ints
    low: Ints
    high: Ints
    committed: Ints
    answer: Ints
    asked: Ints
    counting: Ints
    open: Ints
    outputs: Ints  # that count and are bound to it, as the rest
    done: Ints
    first_output: Ints
    last_output: Ints

    @property
    def one_offset(self) -> Bools:
        """Whether they are at one offset only."""
        return np.equal(self.low, self.high)

    @property
    def behind(self) -> Bools:
        """Whether the group is past them."""
        return np.less(self.high, self.committed)

    @property
    def answered(self) -> Bools:
        """Whether an output was there when the group was asked for its offset."""
        return self.one_offset & (self.done <= self.asked)

    def frame(self, chosen: Bools, tag: str) -> pl.DataFrame:
        """Some of them as a table, with nulls."""
        table = pl.DataFrame({each.name: getattr(self, each.name)[chosen] for each in fields(self)})
        return table.with_columns(
            *topic_and_partition(pl.col("place")), known("done", NEVER), known("asked", NONE), tag=pl.lit(tag)
        )


def inputs_of(said: ValueTotals, partitions: PartitionTable, moves: pl.DataFrame) -> _Inputs:
    """Of all pieces together."""
    made = outputs_of_inputs(said.inputs, said.outputs, moves)
    return _Inputs(**said.inputs, **partitions.groups(said.inputs["place"]), **made)


def findings_of_inputs(inputs: _Inputs, run: RunContext) -> Findings:
    """Inputs whose offset and whose output were not committed together."""
    twice = inputs.one_offset & (inputs.outputs > 1)
    gone = inputs.behind & (inputs.counting == 0) & (inputs.open == 0)
    left = inputs.answered & (inputs.answer != NONE) & (inputs.answer <= inputs.high)
    high = pl.col("high")
    cases: list[tuple[str, Bools, pl.Expr, tuple[str, ...], str]] = [
        ("twice", twice, pl.col("outputs"), ("first_output", "last_output"), "outputs"),
        ("no output", gone, pl.col("committed") - high, (), "committed"),
        ("not committed", left, high - pl.col("answer"), ("first_output",), "answer"),
    ]
    return merge_findings(
        [
            make_findings(
                "offsets-not-atomic", inputs.frame(wrong, tag).with_columns(severity=severity), run, offset="high",
                values=("value", *values), processes=(), time="done", until="asked", tags="tag", severity="severity",
                facts=(fact,),
            )
            for tag, wrong, severity, values, fact in cases
            if wrong.any()
        ],
        run.limit,
    )  # fmt: skip


def looked_at_inputs(inputs: _Inputs) -> int:
    """The most that one of the three looks at."""
    cases = (inputs.one_offset & (inputs.outputs > 0), inputs.behind, inputs.answered)
    return max(int(np.count_nonzero(each)) for each in cases)


def left_out(run: RunContext) -> str:
    """A sentence if only some of the inputs were looked at, else nothing."""
    step = sampling_step(run)
    if step == 1:
        return ""
    return f"the outputs of one in {step} inputs of transactions were looked at: there are too many messages"
