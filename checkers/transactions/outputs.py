"""Inputs and the outputs that transactions made of them: put together once all of both are known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, Ints
from checkers.transactions.transaction_values import Tally

OF_INPUT = Tally("input", ("counting", "open", "outputs"), ("done", "first_output"), ("last_output",))
_NOTHING = {"counting": 0, "open": 0, "outputs": 0, "done": NEVER, "first_output": 0, "last_output": 0}


def outputs_of_inputs(inputs: Mapping[str, Ints], outputs: Mapping[str, Ints], moves: pl.DataFrame) -> dict[str, Ints]:
    """What came of each input: an entry for each, in their order.

    `counting` and `open` are of all outputs, the rest only of those whose transaction moved the group past the input:
    `moves` says how far each did, by partition.
    """
    count = len(inputs["value"])
    order = np.argsort(inputs["value"])
    found = order[np.minimum(np.searchsorted(inputs["value"], outputs["source"], sorter=order), count - 1)]
    known = np.flatnonzero(inputs["value"][found] == outputs["source"])
    row, made = found[known], {name: column[known] for name, column in outputs.items()}
    bound = _moved(made["txn"], inputs["place"][row], moves) > inputs["high"][row]
    totals = OF_INPUT.of([_tallied(row, made, bound)])
    result = {name: np.full(count, nothing) for name, nothing in _NOTHING.items()}
    for name, column in result.items():
        column[totals["input"]] = totals[name]
    return result


def _moved(txn: Ints, place: Ints, moves: pl.DataFrame) -> Ints:
    """How far these transactions moved the groups of these partitions."""
    rows = pl.DataFrame({"txn": txn, "place": place})
    moved = rows.join(moves, on=("txn", "place"), how="left", maintain_order="left")["moved"]
    return moved.fill_null(NONE).to_numpy()


def _tallied(row: Ints, made: Mapping[str, Ints], bound: Bools) -> dict[str, Ints]:
    outputs = bound & (made["counts"] > 0)
    return {
        "input": row,
        "counting": made["counts"],
        "open": made["open"],
        "outputs": outputs.astype(np.int64),
        "done": np.where(bound, made["done"], NEVER),
        "first_output": np.where(outputs, made["value"], NEVER),
        "last_output": np.where(outputs, made["value"], NONE),
    }
