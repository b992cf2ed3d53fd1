"""Transactions: what of them became visible, and whether that agrees with how they ended.

A transaction is a completion of TXN; its `op` is what its parts have as `txn`, its `type` how it ended: ok committed,
fail aborted, info unknown. Its *writes* are the sends with its `op` as `txn`, each with its own type, offset and times.
Parts whose transaction has no completion belong to none. A value is *visible* when a good record of it was handed to a
process of which the manifest does not say that it reads uncommitted; it is *in the log* when one was handed to a
process that does. Topics that the workload deleted (`checkers.deletions`) are left alone: neither their sends nor their
records count.

How far a partition was read: its *reach* is the highest offset of a record, of whatever status, that was handed to a
process that neither reads uncommitted nor is a member of a group, or one less than the `end` of an ok final read
(FINAL, of a process that does not read uncommitted), whichever is more. Those stop at the last stable offset: what they
passed was decided. A write is *missing* when it is not visible, its topic is not compacted, and

- its offset is known, not negative, and at or below the reach of its partition, or
- it is ok, and an ok final read of its partition was invoked at or after its completion.

torn                a transaction that ended ok or info, of which a write is visible and a write is missing
wrong-outcome       `commit`: it ended ok, nothing of it is visible, all its writes in topics that are not compacted are
                    missing (and there is one), and one of those is in the log: it was aborted.
                    `abort`: it ended fail, and a write is visible
zombie-write        a write is visible that was invoked after its producer had been fenced: an INIT of the same `name`
                    that ended ok, was invoked after the transaction was, and completed before the write was invoked.
                    A finding per transaction
precommitted-read   a write of which a good record has its own transaction as `txn`: polled by it,
                    by a process that is not known to read uncommitted. Here the transaction need have no completion

offsets-not-atomic is asked where offsets are committed in transactions. A partition is *transformed* when there is a
COMMIT of it in a transaction, ok, with an offset, and all COMMITs of it in transactions and all COMMITTED of it that
ended ok have one `name`: its group. `committed` is the highest offset of those COMMITs. The *answer* is that of the
last COMMITTED: ok, by a process that is not known to read uncommitted, of those that were invoked after the last fault
had healed (was undone, if nobody says; never, if it was not) the one with the latest invocation, then with the highest
offset. An *input* is a value that was sent to a transformed partition, with the offsets at which a good record of it
was handed to a process that is not known to read uncommitted (none: no input). An *output* of it is a send in a
transaction with that value as its `source`. An output *counts* when it is ok or visible, and is *open* when it is info,
not visible, not missing, and no ok final read (as above) of its partition was invoked at or after its completion. For
each input

`twice`             its offset is one and the same, and two outputs count
`no output`         `committed` is above all its offsets, and no output counts or is open
`not committed`     its offset is one and the same, an output is ok and completed at or before the invocation of the
                    answer, and the answer is not above the offset

How a value fares is one hash aggregate by value; a second one brings the writes of each transaction, and the outputs of
each input, together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers import cycles
from checkers.deletions import NEVER_NS
from checkers.frame import PLACE, Family, History, Rule, Study, aggregate, process_of
from harness.history import F, Status, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OK, _INFO = (f"type = {type_:d}" for type_ in (Type.OK, Type.INFO))
_TOLD = f"value is not null and status = {Status.GOOD:d}"
_COMMITTED, _RAW = 1, 2  # who was handed a value
_TXN, _INPUT = 0, 1  # what a row is about
_ENDED = "coalesce(completed <= final_invoked, false)"  # the partition was read to its end after it

# what a row says of a write of a transaction, of an output, of an input
_SAYS = {
    "visible": "boolean", "missing": "boolean", "kept": "boolean", "raw": "boolean", "invoked": "bigint",
    "value": "bigint", "place": "bigint", "at": "bigint",
    "counts": "boolean", "open": "boolean", "done": "bigint",
    "low": "bigint", "high": "bigint", "committed": "bigint", "answer": "bigint", "asked": "bigint",
}  # fmt: skip
_OF_WRITES = ("visible", "missing", "kept", "raw", "invoked", "value", "place", "at")
_OF_INPUTS = ("place", "low", "high", "committed", "answer", "asked")


def outcomes(history: History) -> DataFrame:
    """One row per transaction, and one per input: what is visible and what is missing of its writes or outputs."""
    rows = _parts(history).unionByName(_ends(history), allowMissingColumns=True)
    topic, partition = _unpacked("min(place)")
    missing_topic, missing_partition = _unpacked("min_by(place, value) filter (where missing)")
    return aggregate(
        history,
        rows,
        ["about", "key"],
        [
            "max(outcome) as outcome",
            "max(fenced) as fenced",
            "count(invoked) as writes",
            *(f"count_if({name}) as {name}" for name in ("visible", "missing", "kept", "counts", "open")),
            "count_if(missing and raw) as aborted",
            "max(invoked) as newest",
            "max(invoked) filter (where visible) as newest_visible",
            "min(done) as done",
            *(f"max({name}) as {name}" for name in ("low", "high", "committed", "answer", "asked", "ended", "event")),
            f"{topic} as topic",
            f"{partition} as partition",
            # evidence; who only counts does not pay for it
            f"{missing_topic} as missing_topic",
            f"{missing_partition} as missing_partition",
            "min_by(at, value) filter (where missing) as missing_at",
            "min(value) filter (where missing) as first_missing",
            "min(value) filter (where visible) as first_visible",
            "max_by(value, struct(invoked, value)) filter (where visible) as newest_value",
            "min(value) filter (where counts) as first_output",
            "max(value) filter (where counts) as last_output",
        ],
    )


def _parts(history: History) -> DataFrame:
    """A row per write of a transaction, per output and per input; one value may be all of these."""
    of_txn = _row(_TXN, "txn", {name: name for name in _OF_WRITES})
    if not _transforms(history):
        return _writes(history).selectExpr(f"inline(array({of_txn}))")
    unsure = f"{_INFO} and not visible and not missing and not {_ENDED}"
    said = {"value": "value", "counts": f"{_OK} or visible", "open": unsure, "done": f"if({_OK}, completed, null)"}
    of_output = _row(_INPUT, "source", said)
    of_input = _row(_INPUT, "value", {name: name for name in _OF_INPUTS})
    found = [
        f"if(txn is null, null, {of_txn})",
        f"if(txn is null or source is null, null, {of_output})",
        f"if(low is null or committed is null, null, {of_input})",
    ]
    return _writes(history).selectExpr(f"inline(array_compact(array({', '.join(found)})))")


def _row(about: int, key: str, says: dict[str, str]) -> str:
    columns = (f"cast({says.get(name, 'null')} as {type_}) as `{name}`" for name, type_ in _SAYS.items())
    return f"struct({about} as about, {key} as key, {', '.join(columns)})"


def _packed() -> str:
    """SQL: a partition as one number, which aggregates by place are quicker with."""
    return f"(shiftleft(cast(topic as bigint), 32) | (cast(partition as bigint) & {0xFFFFFFFF}L))"


def _unpacked(place: str) -> tuple[str, str]:
    """SQL: its topic and its partition."""
    return f"cast(shiftright({place}, 32) as int)", f"cast(shiftright(shiftleft({place}, 32), 32) as int)"


def _transforms(history: History) -> bool:
    """Whether offsets may have been committed in transactions."""
    return history.does(F.COMMIT)


def _committed_reader(history: History) -> str:
    """SQL, of a process: nobody says that it reads uncommitted."""
    return f"not ({history.sees_aborted})"


def _writes(history: History) -> DataFrame:
    """One row per value that was sent in a transaction, or that may be an input: how it fared."""
    from pyspark.sql import functions as sql

    transforms, committed = _transforms(history), _committed_reader(history)
    untouched = history.deletions.untouched()
    wanted = "true" if transforms else "txn is not null"
    sends = _touched(history, history.sends.where(f"{wanted} and {untouched}")).selectExpr(
        "value", f"{_packed()} as place", "type", "txn", "source", "if(offset >= 0, offset, null) as at", "invoked",
        "time as completed",
    )  # fmt: skip
    seen_at = [f"if({committed}, offset, null) as seen_at"] if transforms else []
    records = _touched(history, history.records.where(f"{_TOLD} and {untouched}")).selectExpr(
        "value", f"cast(if({committed}, {_COMMITTED}, {_RAW}) as tinyint) as handed", *seen_at
    )
    known = aggregate(
        history,
        history.spread(sends.unionByName(records, allowMissingColumns=True), "value"),
        ["value"],
        [
            *(f"max({name}) as {name}" for name in ("place", "type", "txn", "source", "at", "invoked", "completed")),
            "coalesce(bit_or(handed), 0) as handed",
            *(["min(seen_at) as low", "max(seen_at) as high"] if transforms else []),
        ],
    ).where("type is not null" if transforms else "txn is not null")
    compacted = ", ".join(map(str, sorted(history.compacted)))
    kept = f"{_unpacked('place')[0]} not in ({compacted})" if compacted else "true"
    visible = f"(handed & {_COMMITTED}) <> 0"
    joined = known.join(sql.broadcast(_partitions(history)), "place", "left")
    if transforms:
        joined = joined.join(sql.broadcast(_groups(history)), "place", "left")
    return joined.selectExpr(
        "*", f"{visible} as visible", f"{kept} as kept", f"(handed & {_RAW}) <> 0 as raw"
    ).selectExpr("*", f"not visible and kept and (coalesce(at <= reach, false) or ({_OK} and {_ENDED})) as missing")


def _touched(history: History, rows: DataFrame) -> DataFrame:
    """Rows of topics that a transaction wrote to, or committed offsets of: most of a large history may be of others."""
    from pyspark.sql import functions as sql

    if history.small:
        return rows
    parts = history.completions.where(f"txn is not null and f in ({F.SEND:d}, {F.COMMIT:d})")
    return rows.join(sql.broadcast(parts.select("topic").distinct()), "topic", "left_semi")


def _partitions(history: History) -> DataFrame:
    """One row per partition: how far it was read."""
    untouched, committed = history.deletions.untouched(), _committed_reader(history)
    alone = f"{untouched} and {committed} and not ({history.by_about('group', [True])})"
    records = _touched(history, history.records.where(alone)).selectExpr(f"{_packed()} as place", "offset as reach")
    finals = history.finals.where(f"{_OK} and {untouched} and {committed}").selectExpr(
        f"{_packed()} as place", "try_subtract(`end`, 1L) as reach", "invoked as final_invoked"
    )
    rows = records.unionByName(finals, allowMissingColumns=True)
    return aggregate(history, rows, ["place"], ["max(reach) as reach", "max(final_invoked) as final_invoked"])


def _groups(history: History) -> DataFrame:
    """One row per transformed partition."""
    commits, asks = f"f = {F.COMMIT:d} and txn is not null", f"f = {F.COMMITTED:d}"
    believed = f"{asks} and {_committed_reader(history)} and invoked > {_healed_ns(history)}L"
    rows = history.completions.where(f"{_OK} and ({commits} or {asks})").selectExpr(
        f"{_packed()} as place", "coalesce(name, '') as name", f"{commits} as commits",
        f"if({commits}, offset, null) as committed", f"if({believed}, struct(invoked, offset), null) as answer",
    )  # fmt: skip
    totals = ["max(committed) as committed", "max(answer) as answer", "min(name) = max(name) and max(commits) as one"]
    groups = aggregate(history, rows, ["place"], totals).where("one")
    return groups.selectExpr("place", "committed", "answer.offset as answer", "answer.invoked as asked")


def _healed_ns(history: History) -> int:
    """When the last fault was over."""
    faults = history.line.faults if history.line else []
    ends = [
        next((ns for ns in (fault.healed_ns, fault.undone_ns) if ns is not None), NEVER_NS)
        for fault in faults
        if fault.injected_ns is not None
    ]
    return max(ends, default=-NEVER_NS)


def _ends(history: History) -> DataFrame:
    """One row per transaction: how it ended, and when its producer was fenced."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    columns = (f"{_TXN} as about", "op as key", "type as outcome", "fenced", "time as ended", "event")
    if not history.does(F.INIT):
        ends = history.completions.where(f"f = {F.TXN:d}")
        return ends.selectExpr("*", "cast(null as bigint) as fenced").selectExpr(*columns)
    rows = history.completions.where(f"f = {F.TXN:d} or (f = {F.INIT:d} and {_OK} and name is not null)").selectExpr(
        "op", "f", "type", "time", "event", "name", "invoked", f"if(f = {F.INIT:d}, time, null) as init"
    )
    # A transactional id has its transactions one after the other, so that they fit into a task. What comes later comes
    # first here; where both were invoked at one instant, the transaction does.
    later = Window.partitionBy("name").orderBy(sql.desc("invoked"), sql.desc("f"))
    fenced = sql.min("init").over(later.rowsBetween(Window.unboundedPreceding, 0))
    return rows.select("*", fenced.alias("fenced")).where(f"f = {F.TXN:d}").selectExpr(*columns)


def own_reads(history: History) -> DataFrame:
    """One row per write of a transaction, and per value that a transaction polled."""
    untouched = history.deletions.untouched()
    sends = history.sends.where(f"txn is not null and {untouched}").selectExpr(
        "value", "txn", *PLACE, "offset as at", "event as sent"
    )
    polled = f"txn is not null and {_TOLD} and {untouched} and {_committed_reader(history)}"
    records = history.records.where(polled).selectExpr("value", "txn", "event as polled", "time")
    return aggregate(
        history,
        history.spread(sends.unionByName(records, allowMissingColumns=True), "value"),
        ["value", "txn"],
        [*(f"max({name}) as {name}" for name in (*PLACE, "at", "sent")), "min(polled) as polled", "min(time) as time"],
    )


def _outcome(*types: Type) -> str:
    return f"about = {_TXN} and outcome in ({', '.join(f'{type_:d}' for type_ in types)})"


_HERE = {"time": "ended", "events": "array(event)", "processes": f"array({process_of('event')})"}
_OF_INPUT = {"offset": "high", "processes": "array()", "time": "done", "until": "asked"}
TRANSACTIONS = Family(
    "transactions",
    outcomes,
    (
        Rule(
            "torn",
            "a part of a transaction is visible, and another part is missing",
            f"{_outcome(Type.OK, Type.INFO)} and visible > 0 and missing > 0",
            f"{_outcome(Type.OK, Type.INFO)} and visible > 0 and writes > 1",
            {
                **_HERE,
                "topic": "missing_topic",
                "partition": "missing_partition",
                "offset": "missing_at",
                "values": "array(first_missing, first_visible)",
                "severity": "missing",
                "detail": "format_string('%d of the %d writes of a transaction are visible, %d are missing', visible,"
                " writes, missing)",
            },
        ),
        Rule(
            "wrong-outcome",
            "its commit was acknowledged, and it was aborted",
            f"{_outcome(Type.OK)} and visible = 0 and kept > 0 and missing = kept and aborted > 0",
            f"{_outcome(Type.OK)} and kept > 0",
            {
                **_HERE,
                "offset": "missing_at",
                "values": "array(first_missing)",
                "tags": "array('commit')",
                "severity": "missing",
                "detail": "format_string('its commit was acknowledged; %d of its %d writes are in the log, and none is"
                " visible', aborted, writes)",
            },
        ),
        Rule(
            "wrong-outcome",
            "it was aborted for certain, and is visible",
            f"{_outcome(Type.FAIL)} and visible > 0",
            f"{_outcome(Type.FAIL)} and writes > 0",
            {
                **_HERE,
                "values": "array(first_visible)",
                "tags": "array('abort')",
                "severity": "visible",
                "detail": "format_string('it was aborted, and %d of its %d writes are visible', visible, writes)",
            },
        ),
        Rule(
            "zombie-write",
            "a producer was fenced, and what it wrote after that is visible",
            f"about = {_TXN} and newest_visible > fenced",
            f"about = {_TXN} and newest > fenced",
            {
                **_HERE,
                "values": "array(newest_value)",
                "time": "fenced",
                "until": "newest_visible",
                "severity": "try_subtract(newest_visible, fenced)",
                "detail": "'another instance had taken its transactional id before it was sent'",
            },
        ),
        Rule(
            "offsets-not-atomic",
            "two outputs of one input",
            f"about = {_INPUT} and low = high and counts > 1",
            f"about = {_INPUT} and low = high and counts > 0",
            {
                **_OF_INPUT,
                "values": "array(key, first_output, last_output)",
                "tags": "array('twice')",
                "severity": "counts",
                "detail": "format_string('%d outputs were made of it and committed', counts)",
            },
        ),
        Rule(
            "offsets-not-atomic",
            "an input is behind the group, and there is no output of it",
            f"about = {_INPUT} and high < committed and counts = 0 and open = 0",
            f"about = {_INPUT} and high < committed",
            {
                **_OF_INPUT,
                "values": "array(key)",
                "tags": "array('no output')",
                "severity": "try_subtract(committed, high)",
                "detail": "format_string('the group committed offset %d in a transaction, and no output of it was"
                " committed', committed)",
            },
        ),
        Rule(
            "offsets-not-atomic",
            "an output was committed, and the group is before its input",
            f"about = {_INPUT} and low = high and done <= asked and answer <= high",
            f"about = {_INPUT} and low = high and done <= asked",
            {
                **_OF_INPUT,
                "values": "array(key, first_output)",
                "tags": "array('not committed')",
                "severity": "try_subtract(high, answer)",
                "detail": "format_string('an output of it was committed, and the group is at offset %d', answer)",
            },
        ),
    ),
    needs=lambda history: history.does(F.TXN),
)
OWN_READS = Family(
    "own writes",
    own_reads,
    (
        Rule(
            "precommitted-read",
            "a transaction polled what it had written itself",
            "sent is not null and polled is not null",
            "polled is not null",
            {
                "offset": "at",
                "values": "array(value)",
                "time": "time",
                "events": "array(sent, polled)",
                "detail": "'its own transaction polled it before it was committed'",
            },
        ),
    ),
    needs=lambda history: history.does(F.TXN) and history.does(F.POLL),
)


def find_torn(history: History) -> DataFrame:
    """Transactions of which a part is visible and another is missing."""
    return TRANSACTIONS.findings(history, TRANSACTIONS.of("torn"))


def find_wrong_outcomes(history: History) -> DataFrame:
    """Transactions that were committed and are aborted, or the reverse."""
    return TRANSACTIONS.findings(history, TRANSACTIONS.of("wrong-outcome"))


def find_zombie_writes(history: History) -> DataFrame:
    """Visible writes of producers that had been fenced."""
    return TRANSACTIONS.findings(history, TRANSACTIONS.of("zombie-write"))


def find_offsets_not_atomic(history: History) -> DataFrame:
    """Inputs whose offset and whose output were not committed together."""
    return TRANSACTIONS.findings(history, TRANSACTIONS.of("offsets-not-atomic"))


def find_precommitted_reads(history: History) -> DataFrame:
    """What a transaction polled of its own."""
    return OWN_READS.findings(history, OWN_READS.of("precommitted-read"))


FAMILIES: tuple[Family, ...] = (TRANSACTIONS, OWN_READS)
STUDIES: tuple[Study, ...] = (cycles.CYCLES,)
