"""Whether a history of `exactly-once` shows what its name promises; each sentence that comes back is a broken promise.

The truth is the final read: it says which inputs are in the log, which outputs were committed, and from which input
each of them was made. The group is where it said when it was asked last, which every transformer does after its last
transaction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.history.schema import F, Kind, Type
from harness.history.sealed import Sealed

Row = dict[str, Any]


@dataclass
class Seen:
    """What the checks need of a history."""

    sent: list[Row]  # completions of sends to the input
    made: list[Row]  # completions of sends to the output
    inputs: dict[int, tuple[int, int]]  # partition and offset of each value in the input
    outputs: list[Row]  # committed records of the output, in the order of partition and offset
    committed: dict[int, int]  # by partition of the input, as the group answered last
    transactions: dict[int, Type]
    commits: list[Row] = field(default_factory=list)  # completions of commits of the group


def seen(history: Sealed) -> Seen:
    """Read it."""
    numbers = {name.rpartition("-")[2]: number for number, name in history.topics.items()}
    ended = pq.read_table(history.files[Kind.COMPLETE])
    finals = ended.filter(pc.equal(ended["f"], int(F.FINAL)))["op"]
    records = pq.read_table(history.files[Kind.RECORD])
    read = records.filter(pc.is_in(records["op"], finals)).sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )
    rows = {f: ended.filter(pc.equal(ended["f"], int(f))).to_pylist() for f in (F.SEND, F.COMMIT, F.COMMITTED, F.TXN)}
    final = read.to_pylist()
    answers = sorted((row for row in rows[F.COMMITTED] if row["type"] == Type.OK), key=lambda row: row["invoked"])
    return Seen(
        sent=[row for row in rows[F.SEND] if row["topic"] == numbers["input"]],
        made=[row for row in rows[F.SEND] if row["topic"] == numbers["output"]],
        inputs={row["value"]: (row["partition"], row["offset"]) for row in final if row["topic"] == numbers["input"]},
        outputs=[row for row in final if row["topic"] == numbers["output"]],
        committed={row["partition"]: max(0, row["offset"]) for row in answers},
        transactions={row["op"]: Type(row["type"]) for row in rows[F.TXN]},
        commits=rows[F.COMMIT],
    )


def broken_promises(history: Sealed, *, drained: bool) -> list[str]:
    """All that does not hold; with `drained`, everything that was acknowledged has to be through as well."""
    found = seen(history)
    return [
        *(_not_through(found) if drained else ()),
        *_not_once(found),
        *_out_of_order(found),
        *_offsets_apart(found),
        *_torn(found),
    ]


def _not_through(found: Seen) -> Iterator[str]:
    """Acknowledged inputs without an output."""
    sources = {row["source"] for row in found.outputs}
    for row in found.sent:
        if row["type"] == Type.OK and row["value"] not in sources:
            yield f"input {row['value']} at {row['partition']}@{row['offset']} was acknowledged and has no output"


def _not_once(found: Seen) -> Iterator[str]:
    """Inputs with several outputs, and outputs of no input."""
    for source, count in Counter(row["source"] for row in found.outputs).items():
        if count > 1:
            yield f"input {source} has {count} outputs"
        if source not in found.inputs:
            yield f"an output was made from {source}, which is not in the input"


def _out_of_order(found: Seen) -> Iterator[str]:
    """Outputs in another partition, or in another order, than their inputs."""
    last: dict[int, int] = {}
    for row in found.outputs:
        partition, offset = found.inputs.get(row["source"], (row["partition"], -1))
        if partition != row["partition"]:
            yield f"input {row['source']} of partition {partition} has its output in {row['partition']}"
        elif 0 <= offset <= last.get(partition, -1):
            yield f"the output of {partition}@{offset} comes after that of {partition}@{last[partition]}"
        last[partition] = max(offset, last.get(partition, -1))


def _offsets_apart(found: Seen) -> Iterator[str]:
    """Offsets of the group that do not lie right after the last input whose output was committed; gaps before them."""
    sources = {row["source"] for row in found.outputs}
    through: dict[int, list[int]] = defaultdict(list)
    for value, (partition, offset) in found.inputs.items():
        if value in sources:
            through[partition].append(offset)
    for partition in sorted({partition for partition, _ in found.inputs.values()}):
        offset, done = found.committed.get(partition, 0), through[partition]
        after = max(done, default=-1) + 1
        if offset != after:
            yield f"the group is at {partition}@{offset}, and outputs were committed up to {partition}@{after}"
        if len(set(done)) < sum(1 for at, one in found.inputs.values() if at == partition and one < after):
            yield f"partition {partition} has inputs before {partition}@{after} without an output"


def _torn(found: Seen) -> Iterator[str]:
    """Transactions of which only a part was committed, or that ended otherwise than their clients were told."""
    visible = {row["value"] for row in found.outputs}
    parts: dict[int, list[bool]] = defaultdict(list)
    for row in found.made:
        parts[row["txn"]].append(row["value"] in visible)
    for transaction, there in parts.items():
        ended = found.transactions[transaction]
        if any(there) and not all(there):
            yield f"{sum(there)} of {len(there)} outputs of transaction {transaction} were committed"
        elif any(there) and ended == Type.FAIL:
            yield f"transaction {transaction} was aborted, and its outputs are there"
        elif not any(there) and ended == Type.OK:
            yield f"transaction {transaction} was committed, and its outputs are not there"
    for row in found.commits:
        at, after = found.committed.get(row["partition"], 0), row["offset"]
        if row["type"] == Type.OK and after > at:
            yield f"offset {row['partition']}@{after} was committed, and the group is at {row['partition']}@{at}"
