"""Stretches of time in which a partition stood still: no record for the load (READS), or no send got through (SENDS).

What they are is told in `checkers.liveness` and `checkers.progress`. Both come from one pass: what happened in each
second of a partition, of which there are few enough to put them in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.coverage import Fault
from checkers.frame import LOAD_ROLE, PLACE, History, aggregate
from harness.history import F, Type
from harness.limits import DEFAULTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

READS, SENDS = 0, 1
SECOND_NS = 1_000_000_000
SECOND = f"time div {SECOND_NS}L as second"
IMBALANCE = 0.1


def limit_ns(history: History, name: str) -> int:
    """A limit of the scenario, or what it is by default."""
    return int(history.limits.get(name, DEFAULTS[name]) * SECOND_NS)


def there(history: History) -> str:
    """SQL: with a place, of a topic that nobody deleted."""
    return f"topic is not null and partition is not null and {history.deletions.untouched()}"


def _polled(history: History) -> DataFrame:
    """One row: when the load's first poll began, and when its last one ended."""
    polls = history.completions.where(f"f = {F.POLL:d} and count is not null and {history.by_role(LOAD_ROLE)}")
    return polls.selectExpr("min(invoked) as first_poll", "max(time) as last_poll")


def _by_second(history: History) -> DataFrame:
    """Per place and second: what was sent and acknowledged, and what the load was handed."""
    load, here = history.by_role(LOAD_ROLE), there(history)
    member = f"{history.by_about('group', [True])} as by_group"
    sent, ok = f"f = {F.SEND:d}", f"type = {Type.OK:d}"
    opened = f"f = {F.ASSIGN:d} and {ok} and {load}"
    done = history.completions.where(f"({sent} or ({opened})) and {here}").selectExpr(
        *PLACE, SECOND, f"if({sent} and {ok} and offset >= 0, offset, null) as acked",
        f"if({sent} and {ok}, time, null) as got", f"if({sent}, time, null) as done",
        f"if({sent}, invoked, null) as asked", f"if({sent}, null, time) as opened", "null as read",
        "null as read_time", "null as reader", f"{sent} and txn is not null as in_txn", f"not {sent} and {member}",
    )  # fmt: skip
    read = history.records.where(f"{load} and {here} and offset is not null").selectExpr(
        *PLACE, SECOND, "null as acked", "null as got", "null as done", "null as asked", "null as opened",
        "offset as read", "time as read_time", "process as reader", "false as in_txn", member,
    )  # fmt: skip
    return aggregate(history, done.union(read), (*PLACE, "second"), [
        "max(acked) as acked", "count(acked) as acks", "max(if(acked is null, null, got)) as ack_time",
        "min(got) as first_ok", "max(got) as last_ok", "max(done) as done", "min(asked) as asked",
        "min(opened) as opened", "max(read) as read", "min(read_time) as first_read", "max(read_time) as last_read",
        "min(reader) as reader", "max(reader) as other_reader", "bool_or(in_txn) as in_txn",
        "bool_or(by_group) as by_group",
    ])  # fmt: skip


def _numbered(history: History) -> DataFrame:
    """Stretches of both kinds, with their ends and what is known of their place."""
    from pyspark.sql import functions as sql

    so_far = "over (partition by topic, partition order by second rows unbounded preceding)"
    scanned = _by_second(history).selectExpr(
        "*", f"count(read) {so_far} as reads", f"count(last_ok) {so_far} as sends",
        f"coalesce(max(acked) {so_far} > coalesce(max(read) {so_far}, -1L), false) as behind",
    )  # fmt: skip
    # the first send that gets through ends a stretch, too, in which nothing need have happened
    numbers = (
        f"struct({READS} as kind, reads as stretch)", f"struct({SENDS} as kind, sends as stretch)",
        f"if(last_ok is not null and sends = 1, struct({SENDS} as kind, 0L as stretch), null)",
    )  # fmt: skip
    each = scanned.selectExpr("*", f"inline(array_compact(array({', '.join(numbers)})))")
    whole = each.crossJoin(sql.broadcast(_polled(history)))
    reads = f"kind = {READS}"
    early = f"second <= try_subtract(last_poll div {SECOND_NS}L, {limit_ns(history, 'stall_s') // SECOND_NS}L)"
    by_stretch = aggregate(history, whole, (*PLACE, "kind", "stretch"), [
        f"max(if({reads}, last_read, if(stretch > 0, last_ok, null))) as began",
        f"min(if({reads}, first_read, first_ok)) as first",
        "min(if(last_ok is null, asked, null)) as tried", "min(if(last_ok is null, null, asked)) as asked",
        "max(if(last_ok is null, done, null)) as done", "max(read) as read", "min(opened) as opened",
        "bool_or(behind) as behind", "min_by(coalesce(ack_time, last_read), if(behind, second, null)) as behind_at",
        f"max(if({early}, acked, null)) as early", f"sum(if({early}, acks, 0)) as early_acks",
        "min(reader) as reader", "max(other_reader) as other_reader", "bool_or(in_txn) as in_txn",
        "bool_or(by_group) as by_group", "min(first_poll) as first_poll", "max(last_poll) as last_poll",
    ])  # fmt: skip
    place = "over (partition by topic, partition, kind)"
    in_order = "over (partition by topic, partition, kind order by stretch)"
    return by_stretch.selectExpr(
        *PLACE, "kind", "began", "tried", "done", "behind_at", "last_poll", f"lead(first) {in_order} as next",
        f"lead(asked) {in_order} as next_asked", f"coalesce(max(read) {in_order}, -1L) as position",
        f"behind and (min(opened) {place} is not null or max(read) {place} is not null) as behind",
        f"coalesce(min(opened) {place}, first_poll) as opened", f"max(early) {place} as early",
        f"sum(early_acks) {place} as early_acks",
        f"if(min(reader) {place} = max(other_reader) {place}, min(reader) {place}, null) as reader",
        f"bool_or(in_txn) {place} as in_txn", f"bool_or(by_group) {place} as by_group",
    )  # fmt: skip


def stretches(history: History) -> DataFrame:
    """One row per stretch: when nothing came, and whether that is too long."""
    reads = f"kind = {READS}"
    ended = _numbered(history).selectExpr(
        "*", f"case when kind = {SENDS} then greatest(began, least(tried, next_asked))"
        " when behind then greatest(began, behind_at, opened) end as since",
        f"coalesce(next, if({reads}, last_poll, done)) as until",
    )  # fmt: skip
    lag = f"cast(early as double) - position > {IMBALANCE} * early_acks"
    stall_ns = limit_ns(history, "stall_s")
    at_end = _with_faults(history, ended).selectExpr(
        "*", f"{reads} and coalesce(lasted >= {stall_ns}L, false) as stalled",
        f"{reads} and next is null and last_poll is not null and coalesce({lag}, false) as lags",
        f"{reads} and next is null and coalesce(position >= early, false) as finished",
    )  # fmt: skip
    others = "bool_or(finished) over (partition by topic, reader)"
    no_progress, recovery = limit_ns(history, "no_progress_s"), limit_ns(history, "recovery_s")
    waited = f"coalesce(kind = {SENDS} and until > since, false)"
    alone = f"met is null and not at_an_end and lasted > {no_progress}L"
    return at_end.selectExpr(
        "*", f"lags and not stalled and reader is not null and {others} as late", f"{waited} as waited",
        f"coalesce({waited} and (met.span > {no_progress}L or ({alone})), false) as stuck",
        f"coalesce({waited} and outlasted.span > {recovery}L, false) as slow",
    )  # fmt: skip


def _with_faults(history: History, spans: DataFrame) -> DataFrame:
    """Add the fault that a stretch shares most with, and the one whose end it outlasts most."""
    from pyspark.sql import functions as sql

    schema = "faults array<struct<began:bigint,ended:bigint,undone:boolean,quiet:bigint,name:string>>"
    given = history.spark.createDataFrame([(_windows(history),)], schema)
    joined = spans.crossJoin(sql.broadcast(given))
    shared = "try_subtract(least(until, f.ended), greatest(since, f.began))"
    after = "try_subtract(least(until, f.quiet), f.ended)"
    ends_in = "since <= f.ended and until > f.ended"
    found = "struct({} as span, try_subtract(0L, f.began) as first, f.name as name)"
    best = f"array_max(transform(filter(faults, f -> {{}}), f -> {found}))"
    return joined.selectExpr(
        "*", "try_subtract(until, since) as lasted",
        f"{best.format(f'{shared} > 0', shared)} as met",
        f"{best.format(f'f.undone and {ends_in}', after)} as outlasted",
        f"exists(faults, f -> {ends_in}) as at_an_end",
    )  # fmt: skip


def _windows(history: History) -> list[tuple[int, int, bool, int, str]]:
    """Each fault's window, whether it was undone, and when the next one was injected after that."""
    line = history.line
    faults: Sequence[Fault] = line.faults if line else ()
    starts = sorted(fault.injected_ns for fault in faults if fault.injected_ns is not None)
    found = []
    for fault in faults:
        window = line.window_ns(fault) if line else None
        if window:
            quiet = next((start for start in starts if start > window[1]), (1 << 63) - 1)
            found.append((*window, fault.undone_ns is not None, quiet, fault.name))
    return found
