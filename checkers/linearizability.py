"""Linearizability of each partition: exact, without a search, because offsets tell the order.

A partition is a log with append → offset, read(offset) → value and end() → offset. Operations are

append   the sends that ended `ok` with one offset >= 0, as one operation: invoked when the last of them was, complete
         when the first of them was acknowledged or, if that is earlier, when a record of that offset was first handed
         to anybody (the end of that poll). What was sent in a transaction completes with the transaction, later than
         it was appended: that asks for less, never for more.
         An `info` send is an append, too, invoked as it was, at each offset of its partition at which a good record
         with its value was read; and never complete but by a read.
read     of an offset: it ends after the append. What nobody knows the send of is an append all the same, invoked at any
         time.
end      an answer to ListOffsets(latest) without an error (`checkers.answers`), of a probe or one that reached its
         client. Those that show the same end are one operation: invoked when the last of them was, complete when the
         first was.

The order of operations is that of offsets, end() → e right before the append at e. Each takes effect at a moment, not
before it was invoked and not after it was complete; and moments do not fall from one operation to the next one in the
order. (So two operations that touch at one instant do not contradict each other.) They exist if and only if no
operation x was complete before one of lower order was invoked, or an append before itself was; a maximum over all that
is below says it, and gives the moments: `witness`.

realtime-order     x was acknowledged before a send was invoked that was acknowledged with a lower offset.
not-linearizable   x contradicts an operation of lower order, or itself:
    append         an append x that was complete before an append at the same or a lower offset was invoked; where it is
                   no realtime-order
    end, behind    an append x that was complete before an end() → e was invoked, with e <= its offset; where neither of
                   the above contradicts it
    end, ahead     an end() → e that was complete before an append was invoked at an offset < e
    end, fell      an end() → e that was complete before an end() < e was invoked; where it is not ahead
    older epoch    beside `behind`, `fell`: all those end() of lower order were of deposed leaders (`checkers.points`)

Each x is one finding of each line at most, together with the operation of lower order that was invoked last. Eras that
are UNSURE (`checkers.deletions`) are left out.

The summary gives each partition a verdict: `linearizable`; `monotonic only`, if appends and reads have their moments
and some end() has none; `violated`, also if one offset has two values. Partitions without acknowledgements have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from checkers import visibility
from checkers.frame import PLACE, Family, History, Rows, Rule, Study, find, together
from checkers.offsets import OFFSETS
from checkers.points import points
from checkers.visibility import SURE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LISTED = 50  # partitions that the summary tells of one by one


def _no(condition: str) -> str:
    return f"not coalesce({condition}, false)"


def _conditions(at: str) -> dict[str, str]:
    """SQL: what contradicts; `at` follows the name of a moment."""
    done, end = f"least(acked{at}, read{at})", f"end_shown{at}"
    ended_upto, ended_below = f"ended_upto{at}", f"ended_below{at}"
    if at:
        ended_upto, ended_below = (f"greatest({name}, old_{name})" for name in (ended_upto, ended_below))
    realtime, append = f"acked{at} < sent_below{at}", f"{done} < appends_upto{at}"
    return {
        "realtime": f"{SURE} and {realtime}",
        "append": f"{SURE} and {append} and {_no(realtime)}",
        "behind": f"{SURE} and {done} < {ended_upto} and {_no(append)}",
        "ended_wrongly": f"{SURE} and {end} < greatest(appends_below{at}, {ended_below})",
    }


_PROVEN = _conditions(".at")
_APPENDS = f"{SURE} and (acks > 0 or reads > 0)"
_NOT_LINEARIZABLE = "not-linearizable"


def _judged(history: History) -> DataFrame:
    """The points, and what is wrong with each."""
    return points(history).selectExpr("*", *(f"{condition} as {sort}" for sort, condition in _conditions("").items()))


def _pair(x: str, y: str, tags: str) -> dict[str, str]:
    """The evidence: of the two, the one that was over came first."""

    def told(op: str) -> str:
        return f"coalesce(concat('end() by node ', {op}.node), concat('value ', {op}.value), 'a read')"

    return {
        "offset": "offset",
        "values": f"array_distinct(array({x}.value, {y}.value))",
        "nodes": f"array_distinct(array({x}.node, {y}.node))",
        "time": f"{x}.at",
        "until": f"greatest({y}.at, {y}.other)",
        "events": f"array({x}.event, {y}.event)",
        "tags": tags,
        "severity": f"try_subtract({y}.at, {x}.at)",
        "detail": f"concat('offset ', offset, ': ', {told(x)}, ' was over ', "
        f"coalesce(cast(try_subtract({y}.at, {x}.at) as string), 'many'), ' ns before ', {told(y)},"
        " ' began, which is before it in the log')",
    }


_DONE = "least(acked, read)"
_BEHIND = f"if({_DONE}.at < ended_upto.at, ended_upto, old_ended_upto)"
_OLD = "'older epoch'"
_LOWER = (
    "case when end_shown.at < appends_below.at then appends_below"
    " when end_shown.at < ended_below.at then ended_below else old_ended_below end"
)
_LOWER_TAGS = (
    "case when end_shown.at < appends_below.at then array('end', 'ahead')"
    f" when end_shown.at < ended_below.at then array('end', 'fell') else array('end', 'fell', {_OLD}) end"
)
_EVIDENCE = {
    "realtime": _pair("acked", "sent_below", "array()"),
    "append": _pair(_DONE, "appends_upto", "array('append')"),
    "behind": _pair(_DONE, _BEHIND, f"array('end', 'behind', if({_DONE}.at < ended_upto.at, null, {_OLD}))"),
    "ended_wrongly": _pair("end_shown", f"({_LOWER})", _LOWER_TAGS),
}
_ABOUT = {
    "realtime": "a send begun after another was acknowledged got a lower offset",
    "append": "appends and reads that cannot have happened in the order of their offsets",
    "behind": "appends, reads and ends that cannot have happened in the order of their offsets",
    "ended_wrongly": "ends that cannot have happened in the order of their offsets",
}
_NAMES = {"realtime": "realtime-order"}
_RULES = {
    sort: Rule(
        _NAMES.get(sort, _NOT_LINEARIZABLE),
        about,
        sort,
        {"realtime": f"{SURE} and acks > 0", "ended_wrongly": f"{SURE} and end_shown is not null"}.get(sort, _APPENDS),
        needs_acknowledgements=True,
    )
    for sort, about in _ABOUT.items()
}


def _find(history: History, rules: Sequence[Rule]) -> DataFrame:
    mine = [
        Rule(rule.anomaly, rule.about, _PROVEN[sort], None, _EVIDENCE[sort])
        for sort, rule in _RULES.items()
        if rule in rules
    ]
    others = [rule for rule in rules if rule in visibility.RULES]
    of_the_log = [rule for rule in rules if rule in OFFSETS.rules]
    frames = [OFFSETS.findings(history, of_the_log)] if of_the_log else []
    frames += [find(points(history, evidence=True), mine)] if mine else []
    return together([*frames, *([visibility.find_visibility(history, others)] if others else [])])


def _summary(history: History, rows: Rows) -> dict[str, Any]:
    """A verdict for each partition, those that are violated first."""
    verdicts = sorted((_verdict(row) for row in rows if row["acknowledged"]), key=lambda each: each["rank"])
    told = [
        {
            "partition": f"{history.sealed.topics.get(each['topic'], each['topic'])}-{each['partition']}",
            "verdict": each["verdict"],
            **({} if each["at"] is None else {"offset": each["at"]}),
        }
        for each in verdicts[:LISTED]
    ]
    counts = {name: sum(each["verdict"] == name for each in verdicts) for name in VERDICTS}
    return {**{name: count for name, count in counts.items() if count}, "partitions": told}


VERDICTS = ("violated", "monotonic only", "linearizable", "linearizable but for end(), which nobody asked for")


def _verdict(row: Any) -> dict[str, Any]:
    if row["first_violated"] is not None:
        rank, at = 0, row["first_violated"]
    elif row["first_end_violated"] is not None:
        rank, at = 1, row["first_end_violated"]
    else:
        rank, at = (2 if row["ends"] else 3), None
    place = {name: row[name] for name in PLACE}
    return {**place, "verdict": VERDICTS[rank], "at": at, "rank": (rank, row["topic"] or 0, row["partition"] or 0)}


LINEARIZABILITY = Family(
    "linearizability",
    _judged,
    (*OFFSETS.rules, *_RULES.values(), *visibility.RULES),
    figures={
        **OFFSETS.figures,
        "acknowledged": "count_if(acks > 0)",
        "ends": "count_if(end_shown is not null)",
        "first_violated": f"min(if(realtime or append or ({SURE} and low < high), offset, null))",
        "first_end_violated": "min(if(behind or ended_wrongly, offset, null))",
    },
    find=_find,
    summary=_summary,
)


def find_realtime_order(history: History) -> DataFrame:
    """Sends that got a lower offset than one that had been acknowledged before they began."""
    return LINEARIZABILITY.findings(history, LINEARIZABILITY.of("realtime-order"))


def find_not_linearizable(history: History) -> DataFrame:
    """Operations that cannot have happened in the order of their offsets."""
    return LINEARIZABILITY.findings(history, LINEARIZABILITY.of(_NOT_LINEARIZABLE))


def witness(history: History) -> DataFrame:
    """The moments at which the appends of each partition can have taken effect: topic, partition, era, offset, point.

    They are such moments where nothing was found; elsewhere there are none. An append below which nothing was invoked
    that anybody knows of is at the beginning of the history.
    """
    moment = f"coalesce(greatest(appends_upto, ended_upto), {history.sealed.first_time_ns}L) as point"
    return points(history).where(_APPENDS).selectExpr(*PLACE, "era", "offset", moment)


FAMILIES: tuple[Family, ...] = (LINEARIZABILITY,)
STUDIES: tuple[Study, ...] = ()
