"""What was done to a partition in the order of offsets, each with what lies below it.

A row per offset: that of the log (`checkers.log`), with what was answered about this offset. An answer that shows an
end or a high watermark e has its place right before the append at e: below what was not there, above all that was.

sent              latest invocation of a send that was acknowledged with this offset
acked             earliest of their completions
read              when a record of this offset was first handed to anybody: the end of that poll
late              latest invocation of an `info` send to this partition whose value a good record at this offset has
ended, end_shown  of answers to ListOffsets(latest) that show this offset: latest invocation, earliest end
led, led_shown    the same of all led answers (`checkers.answers`), high watermarks and ends
shown             earliest end of any answer that shows this offset as high watermark or end
final             latest invocation of a final read (`ok`) that found the end of its partition here

and the maxima over all rows below (`…_below`), or up to and including this one (`…_upto`):

sent_below; appends_below, appends_upto   of sent; of sent and late together
ended_below, ended_upto, led_upto, final_below
still_upto        of the offsets at which led answers stood for FROZEN_NS or longer, from `led_shown` to `led`, the
                  highest: that offset, and both; as evidence also the last of them that was neither of a deposed
                  nor of a new leader (`settled`)

Answers without a mark, or with a negative one, are left out. Rows of an era that is UNSURE are there and prove nothing.

A stretch of offsets is one task, as in the log, and what is below it comes from a small aggregate of its own: neither
reads nor the rows of the log are needed for that. A small history is one stretch.

With `evidence` each moment is a struct: the moment (`at`), and what is known of that event. Answers are then told apart
by the leader epoch that they told, or else the highest that Metadata had shown when they were invoked: of a *deposed*
leader, for a higher one was shown SETTLING_NS after their invocation at the latest (`old_ended`, `old_led`); of a *new*
one, for that epoch, which Metadata had shown and which is not the lowest that it ever showed of the partition, was
first shown at most SETTLING_NS before (`new_led`); or neither: with an epoch that was new once (`led`), one that never
was (`first_led`) or none (`unknown_led`). `ended` has all but those of deposed leaders. Of two events at one moment
that with the higher number is later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checkers.answers import LIST_OFFSETS, SETTLING_NS, answers, deposed, epochs
from checkers.frame import PLACE, History, together
from checkers.log import CHUNK, KEYS, era_read, log
from harness.history import F, Kind, Status, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FROZEN_NS = 5_000_000_000
_APPENDED = "greatest(sent, late)"
_BELOW = {"sent_below": "sent", "appends_below": _APPENDED, "ended_below": "ended", "final_below": "final"}
_UPTO = {"appends_upto": _APPENDED, "ended_upto": "ended", "led_upto": "led", "still_upto": "still"}
_OLD_BELOW = {"old_ended_below": "old_ended"}
_OLD_UPTO = {"old_ended_upto": "old_ended"}
_OLD_UPTO |= {f"{sort}_led_upto": f"{sort}_led" for sort in ("first", "unknown", "new", "old")}
_OP = {"event": "bigint", "value": "bigint", "node": "int", "told": "int", "other": "bigint"}
_OP |= {"fresh": "bigint", "old": "boolean"}


@dataclass(frozen=True)
class Shape:
    """How a moment is written down: by itself, or with its event."""

    evidence: bool

    def op(self, at: str, **known: str) -> str:
        """SQL: a moment; null where there is none."""
        if not self.evidence:
            return at
        given = {"event": "event", **known}
        parts = ", ".join(f"cast({given.get(name, 'null')} as {type_}) as {name}" for name, type_ in _OP.items())
        return f"if({at} is null, null, struct({at} as at, {parts}))"

    @property
    def type(self) -> str:
        """SQL: the type of a moment."""
        return f"struct<at: bigint, {', '.join(f'{n}: {t}' for n, t in _OP.items())}>" if self.evidence else "bigint"

    @property
    def types(self) -> dict[str, str]:
        """SQL: the types of all moments of a row that others than the log bring to it."""
        still = f"struct<offset: bigint, led: {self.type}, led_shown: {self.type}"
        still += f", settled: {self.type}>" if self.evidence else ">"
        return dict.fromkeys(("sent", *self.of_marks, "final", "late"), self.type) | {"still": still}

    @property
    def of_marks(self) -> dict[str, str]:
        """SQL: what is made of the answers that show one mark."""
        begun, over = self.op("invoked", **_OF_ANSWERS), self.op("time", **_OF_ANSWERS | {"other": "invoked"})
        end, led = f"api = {LIST_OFFSETS}", f"max({begun}) filter (where led)"
        first = f"min({over}) filter (where led)"
        stood = f"try_subtract(max(invoked) filter (where led), min(time) filter (where led)) >= {FROZEN_NS}"
        totals = {
            "ended": f"max({begun}) filter (where {end})",
            "end_shown": f"min({over}) filter (where {end})",
            "led": led,
            "led_shown": first,
            "shown": f"min({over})",
            "still": f"if({stood}, struct(offset, {led} as led, {first} as led_shown), null)",
        }
        if self.evidence:
            settled = f"max({begun}) filter (where led and not old and not new) as settled"
            totals |= {
                "still": f"if({stood}, struct(offset, {led} as led, {first} as led_shown, {settled}), null)",
                "ended": f"max({begun}) filter (where {end} and not old)",
                "led": f"max({begun}) filter (where {SETTLED})",
                "first_led": f"max({begun}) filter (where led and not old and epoch is not null and fresh is null)",
                "unknown_led": f"max({begun}) filter (where led and epoch is null)",
                "old_ended": f"max({begun}) filter (where {end} and old)",
                "old_led": f"max({begun}) filter (where led and old)",
                "new_led": f"max({begun}) filter (where led and not old and new)",
            }
        return totals


SETTLED = "led and not old and not new and fresh is not null"
_OF_ANSWERS = {"node": "node", "told": "epoch", "other": "time", "fresh": "fresh", "old": "old"}


def points(history: History, *, evidence: bool = False) -> DataFrame:
    """A row per offset."""
    shape = Shape(evidence)
    marks = [frame for frame in (_marks(history, shape), _finals(history, shape)) if frame is not None]
    types = shape.types
    columns = {column for frame in marks for column in frame.columns} | {"late"}
    present = [name for name in types if name in columns]
    totals = [f"{'min' if name.endswith('shown') else 'max'}({name}) as {name}" for name in present]
    own = {"sent": "invoked", "acked": "completed", "read": "first_read"}
    if evidence:
        totals += [
            f"max({shape.op('invoked', value='value', other='completed')}) as sent",
            f"min({shape.op('completed', value='value', other='invoked')}) as acked",
            f"min({shape.op('read_time', value='value', other='read_time')}) as read",
        ]
    rows = log(history, [*marks, _late(history, shape, "inner")], totals).selectExpr(
        "*",
        *(f"cast(null as {types[name]}) as {name}" for name in types if name not in {*present, *own}),
        *(f"{column} as {name}" for name, column in own.items() if not evidence),
    )
    below, upto = _BELOW | (_OLD_BELOW if evidence else {}), _UPTO | (_OLD_UPTO if evidence else {})
    scanned = _with_maxima(rows, (*PLACE, "era") if history.small else KEYS, below, upto)
    if history.small:
        return scanned
    # every stretch has to be named, also one that was only read
    brought = together(
        [_widened(frame, types) for frame in (_sends(history, shape), *marks, _late(history, shape, "left"))]
    )
    return _with_what_is_below(scanned, brought, {**below, **upto})


def _chunk(offset: str) -> str:
    return f"{offset} div {CHUNK} as chunk"


def _sends(history: History, shape: Shape) -> DataFrame:
    """What sends bring to the maxima; the log itself has them already."""
    return history.sends.where(f"type = {Type.OK:d} and offset >= 0").selectExpr(
        *PLACE, f"{history.deletions.era('invoked', 'time')} as era", _chunk("offset"),
        f"{shape.op('invoked', value='value', other='time')} as sent",
    )  # fmt: skip


def _marks(history: History, shape: Shape) -> DataFrame | None:
    """A row per offset that answers showed."""
    from pyspark.sql import functions as sql

    if not (history.has(Kind.PROBE) or history.has(Kind.EXCHANGE)):
        return None
    rows = _of_leaders(history) if shape.evidence else _shown(history)
    return rows.groupBy(*KEYS, "offset").agg(*(sql.expr(f"{e} as {name}") for name, e in shape.of_marks.items()))


def _shown(history: History) -> DataFrame:
    return answers(history, every_view=False).where("shown >= 0").selectExpr(
        *PLACE, "life as era", _chunk("shown"), "shown as offset", "api", "led", "node", "invoked", "time", "event",
        "told",
    )  # fmt: skip


def _of_leaders(history: History) -> DataFrame:
    """Answers with what is known of the leader that gave them."""
    from pyspark.sql import functions as sql

    known = sql.broadcast(epochs(history).withColumnRenamed("life", "era"))
    rise = "try_element_at(filter(slice(epochs, 2, size(epochs)), e -> e.leader_epoch = epoch), 1).seen"
    return (
        _shown(history)
        .join(known, [*PLACE, "era"], "left")
        .selectExpr("*", "coalesce(told, array_max(filter(epochs, e -> e.seen <= invoked)).leader_epoch) as epoch")
        .selectExpr("*", f"try_add({rise}, {SETTLING_NS}) as fresh")
        .selectExpr(
            "*",
            "coalesce(invoked <= fresh, false) as new",
            f"coalesce({deposed('epoch', 'invoked')}, false) as old",
        )
    )


def with_own_epoch(history: History, rows: DataFrame) -> DataFrame:
    """Rows with an acknowledgement, and the last answer up to it of the epoch in which it came (`own_led_upto`).

    That is the highest epoch that was new once and no more when it came. Later answers of lower ones are those of
    deposed leaders, and higher ones say nothing of it. `rows` have evidence.
    """
    from pyspark.sql import functions as sql

    known = sql.broadcast(epochs(history).withColumnRenamed("life", "era"))
    over = f"filter(slice(epochs, 2, size(epochs)), e -> try_add(e.seen, {SETTLING_NS}) <= acked.at)"
    asked = rows.where("acked is not null").join(known, [*PLACE, "era"], "left")
    given = f"max({Shape(evidence=True).op('invoked', **_OF_ANSWERS)}) as own_led"
    both = (
        _of_leaders(history)
        .where(SETTLED)
        .groupBy(*KEYS, "epoch", "offset")
        .agg(sql.expr(given), sql.expr("0 as asks"))
        .unionByName(
            asked.selectExpr(*rows.columns, f"array_max({over}).leader_epoch as epoch", "1 as asks"),
            allowMissingColumns=True,
        )
    )
    maxima, keys = {"own_led_upto": "own_led"}, (*KEYS, "epoch")
    scanned = _with_maxima(both, keys, {}, maxima, ("offset", "asks"))
    return _with_what_is_below(scanned, both, maxima, keys).where("asks = 1")


def _finals(history: History, shape: Shape) -> DataFrame | None:
    """The ends that final readers found."""
    if not history.does(F.FINAL):
        return None
    return history.finals.where(f"type = {Type.OK:d} and end >= 0").selectExpr(
        *PLACE, f"{history.deletions.era('invoked', 'time')} as era", _chunk("end"), "end as offset",
        f"{shape.op('invoked', other='time')} as final",
    )  # fmt: skip


def _late(history: History, shape: Shape, how: str) -> DataFrame:
    """Sends of which nobody knew whether they had happened, at the offsets at which they were read: few."""
    from pyspark.sql import functions as sql

    era = era_read(history) if history.deletions else "0"
    unknown = history.sends.where(f"type = {Type.INFO:d}").selectExpr(
        *PLACE, "value", f"{shape.op('invoked', value='value', other='time')} as late"
    )
    records = history.records.selectExpr(
        *PLACE, f"if(status = {Status.GOOD:d}, value, null) as value", f"{era} as era", _chunk("offset"), "offset"
    )
    return records.join(sql.broadcast(unknown), [*PLACE, "value"], how).select(*KEYS, "offset", "late")


def _with_maxima(
    rows: DataFrame,
    keys: Sequence[str],
    below: Mapping[str, str],
    upto: Mapping[str, str],
    by: Sequence[str] = ("offset",),
) -> DataFrame:
    """Add the maxima of what lies below each row, and of what lies up to it, inside of a stretch."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    order = Window.partitionBy(*keys).orderBy(*by)
    frames = [(below, order.rowsBetween(Window.unboundedPreceding, -1))]
    frames.append((upto, order.rowsBetween(Window.unboundedPreceding, 0)))
    maxima = [
        sql.expr(f"max({expression})").over(window).alias(name)
        for names, window in frames
        for name, expression in names.items()
    ]
    return rows.select("*", *maxima)


def _widened(frame: DataFrame, types: Mapping[str, str]) -> DataFrame:
    return frame.selectExpr(
        *KEYS, *(name if name in frame.columns else f"cast(null as {type_}) as {name}" for name, type_ in types.items())
    )


def _with_what_is_below(
    scanned: DataFrame, brought: DataFrame, maxima: Mapping[str, str], keys: Sequence[str] = KEYS
) -> DataFrame:
    """Add to the maxima what the stretches below bring."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    numbers = {expression: number for number, expression in enumerate(dict.fromkeys(maxima.values()))}
    place = [key for key in keys if key != "chunk"]
    earlier = Window.partitionBy(*place).orderBy("chunk").rowsBetween(Window.unboundedPreceding, -1)
    carried = (
        brought.groupBy(*keys)
        .agg(*(sql.expr(f"max({expression}) as inside_{number}") for expression, number in numbers.items()))
        .select(*keys, *(sql.max(f"inside_{n}").over(earlier).alias(f"carried_{n}") for n in numbers.values()))
    )
    joined = scanned.join(sql.broadcast(carried), [*keys], "left")
    kept = [f"`{name}`" for name in scanned.columns if name not in maxima]
    return joined.selectExpr(*kept, *(f"greatest({n}, carried_{numbers[e]}) as {n}" for n, e in maxima.items()))
