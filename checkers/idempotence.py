"""Retries and idempotence, as the taps saw them: what became of each batch that a producer had numbered.

A *batch* is told by its partition, life, producer id, producer epoch and base sequence, all of them >= 0. A life is an
era of `checkers.deletions`; what may belong to two lives is one life by itself, and what is found there is tagged
`deleted topic`. Rows without topic or partition are left out.

A *sending* is a row of a Produce exchange (api 0), whatever its type; it is *acknowledged* if its error is 0 and its
offset >= 0. A *copy* is a row of a Fetch exchange (api 1) of type ok with error 0 and an offset >= 0, which is the base
offset of the batch. Errors, 46 (a duplicate that the broker refuses) among them, are no acknowledgements.

retry-duplicate        a batch has copies at two different offsets (`read twice`), or else acknowledged sendings with
                       two different offsets (`acknowledged twice`); one finding per batch
retry-offset-changed   a batch has acknowledged sendings with two different offsets, and all its acknowledged sendings
                       have one checksum (not null); one finding per batch
retry-reorder          a batch's place is the lowest offset of its copies, or without any that of its acknowledged
                       sendings; one without both does not count. In one partition, life, producer id and epoch: a batch
                       with a lower place than the one with the next lower sequence has, unless that is more than 2^30
                       lower (sequences begin again after 2^31 - 1); one finding per batch
retry-watermark-regression
                       here a batch of a producer that does not number (any of the three is null or < 0) counts too,
                       told by its partition, life, client id (null is one, too) and checksum (not null). A batch is
                       *resent* if it has sendings in two or more exchanges (`op`), all to one node, with error 0 in one
                       or more of them; it was resent at the highest `invoked` of its sendings, and handled at their
                       highest `time`. A mark is the high watermark (not null) of a Fetch, or the offset (not null) of a
                       ListOffsets for the latest (view 2), of that node, partition and life, in a probe or an exchange
                       of type ok, with error 0. Before: the highest mark of those with resent - 2 s <= `time` <
                       resent; after: the lowest one of those with `invoked` > handled and `time` <= handled + 2 s;
                       both of one request (api). One finding per batch and request if after < before
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.deletions import UNSURE
from checkers.frame import PLACE, Family, History, Rule, Study, as_findings, seconds, together
from checkers.metadata import life_of
from harness.history import Kind, Type, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
NEAR_NS = 2_000_000_000
CHUNK = 1 << 20  # sequences
WRAP = 1 << 30

_PRODUCER = (*PLACE, "life", "producer_id", "producer_epoch")
_NUMBERED = "coalesce(producer_id >= 0 and producer_epoch >= 0 and sequence >= 0, false)"
_ACKNOWLEDGED = f"api = {PRODUCE} and error = 0 and offset >= 0"
_COPY = f"api = {FETCH} and type = {Type.OK:d} and error = 0 and offset >= 0"
_READ_TWICE = "coalesce(low_copy < high_copy, false)"
_ACKNOWLEDGED_TWICE = "coalesce(low_ack < high_ack, false)"
_CHANGED = f"{_ACKNOWLEDGED_TWICE} and one_crc"
_REORDERED = f"place < place_before and sequence - sequence_before <= {WRAP}"
_DELETED = f"if(life = {UNSURE}, 'deleted topic', null)"
_NUMBERS = "format_string('producer %d (epoch %d), sequence %d', producer_id, producer_epoch, sequence)"


def batches(history: History) -> DataFrame:
    """A row per batch: where it was acknowledged and read, and where the one before it is."""
    return _in_order(history, _batches(history))


def _batches(history: History, *evidence: str) -> DataFrame:
    chosen = history.kind(Kind.EXCHANGE).where(
        f"topic is not null and partition is not null and {_NUMBERED} and (({_ACKNOWLEDGED}) or ({_COPY}))"
    )
    keys = (*_PRODUCER, "chunk")
    chunk = f"sequence div {CHUNK}" if _in_chunks(history) else "0L"
    rows = chosen.selectExpr(
        *PLACE, life_of(history), "producer_id", "producer_epoch", f"{chunk} as chunk", "sequence",
        f"if(api = {FETCH}, offset, null) as copy", f"if(api = {PRODUCE}, offset, null) as ack",
        f"if(api = {PRODUCE}, crc, null) as crc", "event", "time",
    )  # fmt: skip
    names = ", ".join([*keys, "sequence"])
    columns = (
        "min(copy) as low_copy", "max(copy) as high_copy", "min(ack) as low_ack", "max(ack) as high_ack",
        "min(crc) = max(crc) and count(crc) = count(ack) as one_crc", "coalesce(min(copy), min(ack)) as place",
        *evidence,
    )  # fmt: skip
    return history.spark.sql(
        f"select {names}, {', '.join(columns)} from {{rows}} group by {names}",  # noqa: S608 - of names, not of data
        rows=history.spread(rows, *keys),
    )


def _in_chunks(history: History) -> bool:
    return history.sealed.rows.get(Kind.EXCHANGE, 0) > history.chunk_rows


def _in_order(history: History, rows: DataFrame) -> DataFrame:
    """With the sequence and place of the batch that comes before; sequences are cut into chunks."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    inside = Window.partitionBy(*_PRODUCER, "chunk").orderBy("sequence")
    before = sql.struct("sequence", "place")
    scanned = rows.select("*", sql.lag(before).over(inside).alias("before"))
    if _in_chunks(history):
        chunks = Window.partitionBy(*_PRODUCER).orderBy("chunk")
        carried = (
            rows.groupBy(*_PRODUCER, "chunk")
            .agg(sql.max("sequence").alias("sequence"), sql.max_by("place", "sequence").alias("place"))
            .select(*_PRODUCER, "chunk", sql.lag(before).over(chunks).alias("carried"))
            .where("carried is not null")
        )
        joined = scanned.join(sql.broadcast(carried), [*_PRODUCER, "chunk"], "left")
        scanned = joined.select(*rows.columns, sql.coalesce("before", "carried").alias("before"))
    return scanned.selectExpr(*rows.columns, "before.sequence as sequence_before", "before.place as place_before")


def _find_batches(history: History, rules: Sequence[Rule]) -> DataFrame:
    """With the events of the lowest and the highest place."""
    frame = _in_order(
        history,
        _batches(
            history, "min(time) as time", "max(time) as until", "count(ack) as acks", "count(copy) as copies",
            *(f"{which}_by(event, {of}) as {which}_{of}_event" for of in ("copy", "ack") for which in ("min", "max")),
        ),
    )  # fmt: skip
    finders = {
        "retry-duplicate": (f"{_READ_TWICE} or {_ACKNOWLEDGED_TWICE}", _DUPLICATE),
        "retry-offset-changed": (_CHANGED, _OFFSET_CHANGED),
        "retry-reorder": (_REORDERED, _REORDER),
    }
    found = []
    for rule in rules:
        where, columns = finders[rule.anomaly]
        of_all = {"anomaly": f"'{rule.anomaly}'", "time": "time", "until": "until"}
        found.append(as_findings(frame.where(where), of_all | columns))
    return together(found)


_DUPLICATE = {
    "offset": f"if({_READ_TWICE}, low_copy, low_ack)",
    "events": f"if({_READ_TWICE}, array(min_copy_event, max_copy_event), array(min_ack_event, max_ack_event))",
    "tags": f"array_compact(array(if({_READ_TWICE}, 'read twice', 'acknowledged twice'), {_DELETED}))",
    "severity": f"if({_READ_TWICE}, high_copy - low_copy, high_ack - low_ack)",
    "detail": f"format_string('%s: %s at offset %d and at offset %d', {_NUMBERS}, if({_READ_TWICE}, 'read',"
    f" 'acknowledged'), if({_READ_TWICE}, low_copy, low_ack), if({_READ_TWICE}, high_copy, high_ack))",
}
_OFFSET_CHANGED = {
    "offset": "low_ack",
    "events": "array(min_ack_event, max_ack_event)",
    "tags": f"array_compact(array({_DELETED}))",
    "severity": "high_ack - low_ack",
    "detail": f"format_string('%s: acknowledged %d times, at offsets from %d to %d', {_NUMBERS}, acks, low_ack,"
    " high_ack)",
}
_REORDER = {
    "offset": "place",
    "events": "array(coalesce(min_copy_event, min_ack_event))",
    "tags": f"array_compact(array(if(copies > 0, 'read', 'acknowledged'), {_DELETED}))",
    "severity": "place_before - place",
    "detail": f"format_string('%s: at offset %d, below sequence %d at offset %d', {_NUMBERS}, place, sequence_before,"
    " place_before)",
}


def resends(history: History) -> DataFrame:
    """A row for each batch that was sent again, and request: the marks before and after it."""
    from pyspark.sql import functions as sql

    sent = _resent(history)
    slots = ", ".join(f"{time} div {NEAR_NS}" for time in _NEAR)
    near = sent.selectExpr("*", f"explode(array_distinct(array_compact(array({slots})))) as slot")
    joined = _marks(history).join(sql.broadcast(near), [*PLACE, "life", "node", "slot"])
    names = ", ".join([*PLACE, "life", "node", "api", "batch", "resent", "handled", "event"])
    earlier = f"time < resent and time >= coalesce({_NEAR[0]}, time)"
    later = f"invoked > handled and time <= coalesce({_NEAR[3]}, time)"
    return history.spark.sql(
        f"""select {names}, max(mark) filter (where {earlier}) as before, min(mark) filter (where {later}) as after
            from {{joined}} group by {names}""",  # noqa: S608 - of names, not of data
        joined=joined,
    )


_NEAR = (f"try_subtract(resent, {NEAR_NS})", "resent", "handled", f"try_add(handled, {NEAR_NS})")
_FELL = "after < before"


def _resent(history: History) -> DataFrame:
    """Batches that were sent again, all times to one node."""
    sendings = history.kind(Kind.EXCHANGE).where(
        f"api = {PRODUCE} and topic is not null and partition is not null and ({_NUMBERED} or crc is not null)"
    )
    rows = sendings.selectExpr(
        *PLACE, life_of(history), "node", "op", "invoked", "time", "error", "event",
        *(f"if({_NUMBERED}, {name}, null) as {name}" for name in ("producer_id", "producer_epoch", "sequence")),
        f"if({_NUMBERED}, null, crc) as crc", f"if({_NUMBERED}, null, client) as client",
    )  # fmt: skip
    names = ", ".join([*_PRODUCER, "sequence", "crc", "client"])
    return history.spark.sql(
        f"""select topic, partition, life, min(node) as node, min(event) as batch, max(event) as event,
                   max(invoked) as resent, max(time) as handled
            from {{rows}} group by {names}
            having min(op) < max(op) and min(node) = max(node) and count(node) = count(*)
                   and count_if(error = 0) > 0""",  # noqa: S608 - of names, not of data
        rows=history.spread(rows, *_PRODUCER, "sequence"),
    )


def _marks(history: History) -> DataFrame:
    shown = f"error = 0 and (api = {FETCH} or (api = {LIST_OFFSETS} and view = {View.LATEST:d}))"
    frames = [history.probes.where(shown), history.kind(Kind.EXCHANGE).where(f"{shown} and type = {Type.OK:d}")]
    columns = (
        *PLACE, life_of(history), "node", "api", f"time div {NEAR_NS} as slot", "invoked", "time",
        f"if(api = {FETCH}, high_watermark, offset) as mark",
    )  # fmt: skip
    return together([frame.selectExpr(*columns) for frame in frames]).where("mark is not null")


def _find_resends(history: History, _: Sequence[Rule]) -> DataFrame:
    columns = {
        "anomaly": "'retry-watermark-regression'",
        "offset": "after",
        "nodes": "array(node)",
        "time": "resent",
        "until": "handled",
        "events": "array_distinct(array(batch, event))",
        "tags": f"array_compact(array(if(api = {FETCH}, 'watermark', 'end offset'), {_DELETED}))",
        "severity": "try_subtract(before, after)",
        "detail": "format_string('a batch was sent again to node %d at %.3f s and handled at %.3f s: it showed %d"
        f" before and %d after', node, {seconds(history, 'resent')}, {seconds(history, 'handled')}, before, after)",
    }
    return as_findings(resends(history).where(_FELL), columns)


BATCHES = Family(
    "batches",
    batches,
    (
        Rule(
            "retry-duplicate",
            "a batch with one producer id, epoch and sequence was appended twice",
            f"{_READ_TWICE} or {_ACKNOWLEDGED_TWICE}",
            "true",
        ),
        Rule(
            "retry-offset-changed",
            "a batch that was sent again was acknowledged at another offset",
            _CHANGED,
            "low_ack is not null",
        ),
        Rule(
            "retry-reorder",
            "a producer's batches were appended out of the order of their sequences",
            _REORDERED,
            "place_before is not null",
        ),
    ),
    find=_find_batches,
    needs=lambda history: history.asks(PRODUCE, FETCH),
)
RESENDS = Family(
    "resends and watermarks",
    resends,
    (
        Rule(
            "retry-watermark-regression",
            "a watermark fell right after a batch was sent again",
            _FELL,
            "before is not null and after is not null",
        ),
    ),
    find=_find_resends,
    needs=lambda history: history.asks(PRODUCE),
)


def find_retry_duplicates(history: History) -> DataFrame:
    """Batches that were appended twice."""
    return BATCHES.findings(history, BATCHES.of("retry-duplicate"))


def find_retry_offset_changes(history: History) -> DataFrame:
    """Batches that were acknowledged at two offsets."""
    return BATCHES.findings(history, BATCHES.of("retry-offset-changed"))


def find_retry_reorders(history: History) -> DataFrame:
    """Batches that were appended out of order."""
    return BATCHES.findings(history, BATCHES.of("retry-reorder"))


def find_retry_watermark_regressions(history: History) -> DataFrame:
    """Watermarks that fell right after a batch was sent again."""
    return RESENDS.findings(history)


FAMILIES: tuple[Family, ...] = (BATCHES, RESENDS)
STUDIES: tuple[Study, ...] = ()
