"""Coordinators: where nodes say that they are, compared with each other.

coordinator-mismatch    what two nodes say of one thing contradicts

What counts are answers to FindCoordinator (api 10; exchanges of type ok, error 0, leader >= 0, of all clients) whose
detail is `WHAT at ADDRESS`, perhaps followed by a remark in brackets. Each says two things: that WHAT is at `node
LEADER`, and that `node LEADER` is at ADDRESS. What two different nodes say of one thing contradicts if it differs and
if each node said it more than S after the other: the highest `invoked` of one > the lowest `time` of the other + S, and
the reverse. One finding per thing; `steadfast` if two nodes that contradict each other never said anything else of it,
else `moved`. It tells the time from the moment at which two of those had both said it to the last one at which two of
them, each by its highest `invoked`, still did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.frame import Family, History, Rule, Study, as_findings, seconds
from checkers.metadata import SETTLING_NS, another, pairs
from harness.history import Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIND_COORDINATOR = 10
_CONTRADICTS = (
    f"a.said < b.said and a.node <> b.node and a.last > try_add(b.first, {SETTLING_NS})"
    f" and b.last > try_add(a.first, {SETTLING_NS})"
)


def coordinators(history: History) -> DataFrame:
    """A row for each thing that nodes told the whereabouts of, with all that they said of it."""
    found = f"api = {FIND_COORDINATOR} and type = {Type.OK:d} and error = 0 and leader >= 0 and node is not null"
    pattern = r"^(.*) at (\\S+)( \\(.*\\))?$"
    rows = history.kind(Kind.EXCHANGE).where(f"{found} and detail rlike '{pattern}'")
    said = rows.selectExpr(
        "node", "invoked", "time", "event",
        f"inline(array(struct(regexp_extract(detail, '{pattern}', 1) as thing, concat('node ', leader) as said),"
        f" struct(concat('node ', leader) as thing, regexp_extract(detail, '{pattern}', 2) as said)))",
    )  # fmt: skip
    return history.spark.sql(
        """select cast(null as int) as topic, cast(null as int) as partition, thing,
                  collect_list(struct(node, said, first, last, event)) as claims
           from (select thing, node, said, min(time) as first, max(invoked) as last, min(event) as event
                 from {said} group by thing, node, said)
           group by thing""",
        said=said,
    )


def _find_coordinators(history: History, _: Sequence[Rule]) -> DataFrame:
    from pyspark.sql import functions as sql

    one_mind = "size(filter(claims, c -> c.node = {0}.node)) = 1"
    found = pairs(coordinators(history), ["thing"], _CONTRADICTS).selectExpr(
        "thing", "a", "b", f"{one_mind.format('a')} and {one_mind.format('b')} as steadfast"
    )
    first = found.groupBy("thing").agg(
        sql.expr("max(steadfast) as steadfast"),
        sql.expr("min(struct(not steadfast, greatest(a.first, b.first), a.node, b.node, a, b)) as pair"),
        sql.expr("min(greatest(a.first, b.first)) as since"),
        sql.expr("max(greatest(a.first, b.first, least(a.last, b.last))) as until"),
    )
    columns = {
        "anomaly": "'coordinator-mismatch'",
        "topic": "null",
        "partition": "null",
        "nodes": "array(pair.a.node, pair.b.node)",
        "time": "since",
        "until": "until",
        "events": "array(pair.a.event, pair.b.event)",
        "tags": "array(if(steadfast, 'steadfast', 'moved'))",
        "severity": "try_subtract(until, since)",
        "detail": "format_string('%s: at %s, said node %d from %.3f s to %.3f s, at %s, said node %d from %.3f s to"
        f" %.3f s', thing, pair.a.said, pair.a.node, {seconds(history, 'pair.a.first')},"
        f" {seconds(history, 'pair.a.last')}, pair.b.said, pair.b.node, {seconds(history, 'pair.b.first')},"
        f" {seconds(history, 'pair.b.last')})",
    }
    return as_findings(first, columns)


COORDINATORS = Family(
    "coordinators",
    coordinators,
    (
        Rule(
            "coordinator-mismatch",
            "nodes name different coordinators, or different addresses of one",
            f"exists(claims, a -> {another(_CONTRADICTS)})",
            "true",
        ),
    ),
    find=_find_coordinators,
    needs=lambda history: history.asks(FIND_COORDINATOR),
)


def find_coordinator_mismatches(history: History) -> DataFrame:
    """Nodes that name different coordinators."""
    return COORDINATORS.findings(history)


FAMILIES: tuple[Family, ...] = (COORDINATORS,)
STUDIES: tuple[Study, ...] = ()
