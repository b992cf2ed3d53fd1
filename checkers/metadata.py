"""Metadata: what nodes say of brokers and leaders, compared with each other and over time.

An *answer* is a row of a probe (api 3), or of an exchange (api 3) of type ok that a client got; the harness's own
requests (client id `tidegauge`) are left out there, for what they saw is in the probes. Rows without a node are left
out. It was given somewhere between `invoked` and `time`; A came before B only if A's `time` is less than B's `invoked`.
S is SETTLING_NS: nodes do not learn of a new leader, or of a broker that came or went, at one instant.

A *claim* is an answer about a partition with error 0, leader >= 0 and leader_epoch >= 0. Claims of one partition, node,
leader, epoch and list of brokers are one: `first` is their lowest `time`, `last` their highest `invoked`.

metadata-disagreement   `one epoch`: two claims of one epoch name different leaders (one finding per epoch); `stale`: a
                        claim with last > first + S, by the first of a claim that another node made of a higher epoch,
                        with another leader (one finding per node and epoch of the lower claim)
epoch-regression        `one node`: two claims of one node, the last of a lower epoch > the first of a higher one (one
                        finding per node and lower epoch); `one client`: among the claims that were told to one client
                        (of exchanges that have a client id), two of different nodes, the last of a lower epoch > the
                        first of a higher one + S (one finding per client and lower epoch)
metadata-incomplete     `leader`: a claim whose list of brokers (not null) has not its leader (one finding per node,
                        leader, epoch and list), also `brief` unless last > first + S; `broker`: as below
leaderless              as below; limit: `leaderless_s` of the scenario, else 10 s

Of two claims that contradict each other a finding tells the time from the lowest `first` of the higher ones to the
highest `last` of the lower ones. Of one epoch it tells that from the moment at which two leaders had been named to the
highest `first` or `last` of all that contradict each other.

A topic that the workload deletes begins again. Claims of one life (an era of `checkers.deletions`) are compared with
each other alone, and those that may belong to two lives are left out everywhere.

Left-out brokers: time is cut into slots of S (`time div S`), and all answers count that have a list of brokers,
whatever their topic and error. Broker b is *left out* by node n in a slot in which both n and b answered, n never
listed b, and some other node than n, b itself perhaps, listed b in each of its answers; it is *listed* if both answered
and n listed it; other slots say nothing. Slots in which b is left out, with none between in which it is listed, are one
finding if the highest `invoked` of n's answers in them > the lowest `time` + S.

Leaderless: an answer about a partition with error 0 and leader >= 0 names a leader; one with error 5, or with error 0
and leader < 0, says that there is none; others do not count. A second (`time div 10^9`) is dark if an answer in it said
that there is none, and none in it named a leader. Dark seconds with no second between them in which a leader was named
are one stretch: a finding if the highest `invoked` of the answers in it > the lowest `time` + limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.deletions import UNSURE
from checkers.frame import PLACE, Family, History, Rule, Study, as_findings, seconds, together
from harness.history import Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTLING_NS = 2_000_000_000
SECOND_NS = 1_000_000_000
LEADERLESS_S = 10.0
METADATA = 3
LEADER_NOT_AVAILABLE = 5
OWN_CLIENT = "tidegauge"  # of all that is no worker
OF_OTHERS = f"coalesce(client, '') <> '{OWN_CLIENT}'"

_ANSWER = (*PLACE, "node", "leader", "leader_epoch", "error", "brokers", "invoked", "time", "event")
_AN_EPOCH = "a.epoch = b.epoch and a.leader <> b.leader and a.first <= b.first"
_STALE = f"a.node <> b.node and a.epoch < b.epoch and a.leader <> b.leader and a.last > try_add(b.first, {SETTLING_NS})"
_BACK = "a.node = b.node and a.epoch < b.epoch and a.last > b.first"
_BACK_ACROSS = f"a.node <> b.node and a.epoch < b.epoch and a.last > try_add(b.first, {SETTLING_NS})"
_UNLISTED = "a.brokers is not null and not array_contains(split(a.brokers, ','), cast(a.leader as string))"


def life_of(history: History) -> str:
    """SQL: the life of its topic that an answer belongs to."""
    return f"{history.deletions.era('invoked', 'time')} as life"


def claims(history: History, of: str | None = None) -> DataFrame:
    """One row per partition and life with all claims; or also per client, of what clients were told."""
    rows = _exchanges(history).where("client is not null") if of else answers(history)
    claimed = "topic is not null and partition is not null and error = 0 and leader >= 0 and leader_epoch >= 0"
    keys = f"topic, partition, life{f', {of}' if of else ''}"
    chosen = rows.where(claimed).selectExpr("*", life_of(history))
    return history.spark.sql(
        f"""select {keys}, collect_list(struct(node, leader, epoch, brokers, begun, first, last, event)) as claims
            from (select {keys}, node, leader, leader_epoch as epoch, brokers, min(invoked) as begun,
                         min(time) as first, max(invoked) as last, min(event) as event
                  from {{rows}} where life <> {UNSURE}
                  group by {keys}, node, leader, leader_epoch, brokers)
            group by {keys}""",  # noqa: S608 - of names, not of data
        rows=chosen,
    )


def answers(history: History) -> DataFrame:
    """Every answer to Metadata."""
    of_probes = history.probes.where(f"api = {METADATA} and node is not null").select(*_ANSWER)
    return together([of_probes, *([_exchanges(history).select(*_ANSWER)] if history.has(Kind.EXCHANGE) else [])])


def _exchanges(history: History) -> DataFrame:
    told = f"api = {METADATA} and type = {Type.OK:d} and node is not null and {OF_OTHERS}"
    return history.kind(Kind.EXCHANGE).where(told)


def _each(history: History, of: str | None = None) -> DataFrame:
    """A row per claim, with all of its partition."""
    return claims(history, of).selectExpr("*", "explode(claims) as a")


def another(condition: str) -> str:
    """SQL: whether any of the claims contradicts claim a."""
    return f"exists(claims, b -> {condition})"


def pairs(rows: DataFrame, keys: Sequence[str], condition: str) -> DataFrame:
    """Of each row every two of its claims that contradict each other."""
    each = rows.selectExpr(*keys, "claims", "explode(claims) as a").selectExpr(
        *keys, "claims", "a", "explode(claims) as b"
    )
    return each.where(condition)


def _find_claims(history: History, rules: Sequence[Rule]) -> DataFrame:
    frame = claims(history)
    finders = {
        "metadata-disagreement": lambda: [
            _contradictions(history, frame, "metadata-disagreement", "one epoch", _AN_EPOCH, ("a.epoch as of_epoch",)),
            _contradictions(
                history, frame, "metadata-disagreement", "stale", _STALE, ("a.epoch as of_epoch", "a.node as of_node")
            ),
        ],
        "epoch-regression": lambda: [
            _contradictions(
                history, frame, "epoch-regression", "one node", _BACK, ("a.epoch as of_epoch", "a.node as of_node")
            )
        ],
        "metadata-incomplete": lambda: [_unlisted(history, frame)],
    }
    return together([found for rule in rules for found in finders[rule.anomaly]()])


def _find_client_claims(history: History, _: Sequence[Rule]) -> DataFrame:
    by = ("a.epoch as of_epoch", "client")
    return _contradictions(history, claims(history, "client"), "epoch-regression", "one client", _BACK_ACROSS, by)


def _contradictions(  # noqa: PLR0913, PLR0917 - one query
    history: History, frame: DataFrame, anomaly: str, tag: str, condition: str, by: Sequence[str]
) -> DataFrame:
    """A finding for each group of pairs: the two claims that were first apart, and until when they were."""
    from pyspark.sql import functions as sql

    of_client = "client" in by
    keys = (*PLACE, "life", *(["client"] if of_client else []))
    names = [each.rsplit(" ", maxsplit=1)[-1] for each in by]
    found = pairs(frame, keys, condition).selectExpr(*{*keys} - {*names}, *by, "a", "b")
    last = "greatest(a.last, b.first, b.last)" if condition == _AN_EPOCH else "a.last"
    first = found.groupBy(*{*keys, *names}).agg(
        sql.expr("min(struct(b.first, a.first, a.node, b.node, a, b)) as pair"), sql.expr(f"max({last}) as until")
    )
    told = "format_string(' (as client %s was told)', client)" if of_client else "''"
    columns = {
        "anomaly": f"'{anomaly}'",
        "nodes": "array_distinct(array(pair.b.node, pair.a.node))",
        "time": "pair.b.first",
        "until": "until",
        "events": "array(pair.b.event, pair.a.event)",
        "tags": f"array('{tag}')",
        "severity": "try_subtract(until, pair.b.first)",
        "detail": "format_string('node %d named leader %d of epoch %d at %.3f s; node %d named leader %d of epoch %d"
        f" until %.3f s%s', pair.b.node, pair.b.leader, pair.b.epoch, {seconds(history, 'pair.b.first')}, pair.a.node,"
        f" pair.a.leader, pair.a.epoch, {seconds(history, 'until')}, {told})",
    }
    return as_findings(first, columns)


def _unlisted(history: History, frame: DataFrame) -> DataFrame:
    columns = {
        "anomaly": "'metadata-incomplete'",
        "nodes": "array(a.node, a.leader)",
        "time": "a.first",
        "until": "greatest(a.first, a.last)",
        "events": "array(a.event)",
        "tags": f"array_compact(array('leader', if(a.last > try_add(a.first, {SETTLING_NS}), null, 'brief')))",
        "severity": "try_subtract(a.last, a.first)",
        "detail": "format_string('node %d named leader %d (epoch %d) and listed the brokers %s, from %.3f s to %.3f s',"
        f" a.node, a.leader, a.epoch, a.brokers, {seconds(history, 'a.first')},"
        f" {seconds(history, 'greatest(a.first, a.last)')})",
    }
    return as_findings(frame.selectExpr(*PLACE, "explode(claims) as a").where(_UNLISTED), columns)


def leaderless(history: History) -> DataFrame:
    """A row for each second in which a leader was named, with the dark ones that follow it."""
    lit = "error = 0 and leader >= 0"
    none = f"(error = {LEADER_NOT_AVAILABLE} or (error = 0 and leader < 0))"
    rows = answers(history).where(f"topic is not null and partition is not null and (({lit}) or {none})")
    return history.spark.sql(
        f"""select topic, partition, min(since) as since, max(until) as until, sum(said) as said
            from (select *, count_if(lit) over (partition by topic, partition, life order by slot
                              rows between unbounded preceding and current row) as lights
                  from (select topic, partition, life, time div {SECOND_NS} as slot, count_if({lit}) > 0 as lit,
                               if(count_if({lit}) > 0, null, min(time)) as since,
                               if(count_if({lit}) > 0, null, max(invoked)) as until,
                               if(count_if({lit}) > 0, 0, count(*)) as said
                        from {{rows}} where life <> {UNSURE} group by topic, partition, life, time div {SECOND_NS}))
            group by topic, partition, life, lights""",  # noqa: S608 - of names, not of data
        rows=rows.selectExpr("*", life_of(history)),
    )


def _dark(history: History) -> str:
    limit_ns = int(history.limits.get("leaderless_s", LEADERLESS_S) * SECOND_NS)
    return f"until > try_add(since, {limit_ns})"


def _leaderless_frame(history: History) -> DataFrame:
    return leaderless(history).selectExpr("*", f"{_dark(history)} as dark")


def _find_leaderless(history: History, _: Sequence[Rule]) -> DataFrame:
    columns = {
        "anomaly": "'leaderless'",
        "time": "since",
        "until": "until",
        "severity": "try_subtract(until, since)",
        "detail": f"format_string('no leader from %.3f s to %.3f s, as %d answers said', {seconds(history, 'since')},"
        f" {seconds(history, 'until')}, said)",
    }
    return as_findings(_leaderless_frame(history).where("dark"), columns)


def brokers(history: History) -> DataFrame:
    """A row for each slot in which one node listed another, with those after it in which it left it out."""
    rows = answers(history).where("brokers is not null")
    return history.spark.sql(
        f"""with said as (
              select slot, collect_list(struct(node, lists, first, last)) as all_said
              from (select slot, node, collect_list(list) as lists, min(first) as first, max(last) as last
                    from (select time div {SETTLING_NS} as slot, node, split(brokers, ',') as list, min(time) as first,
                                 max(invoked) as last
                          from {{rows}} group by time div {SETTLING_NS}, node, brokers)
                    group by slot, node)
              group by slot),
            seen as (
              select slot, a, cast(b.node as int) as other, cast(b.node as string) as b, all_said
              from (select *, explode(all_said) as b from (select *, explode(all_said) as a from said))
              where a.node <> b.node),
            missed as (
              select slot, a, other, not exists(a.lists, l -> array_contains(l, b)) and exists(all_said,
                m -> m.node <> a.node and forall(m.lists, l -> array_contains(l, b))) as missing
              from seen where exists(a.lists, l -> array_contains(l, b)) or exists(all_said,
                m -> m.node <> a.node and forall(m.lists, l -> array_contains(l, b))))
            select cast(null as int) as topic, cast(null as int) as partition, node, other, min(first) as since,
                   max(last) as until
            from (select a.node as node, other, if(missing, a.first, null) as first, if(missing, a.last, null) as last,
                         count_if(not missing) over (partition by a.node, other order by slot
                           rows between unbounded preceding and current row) as run
                  from missed)
            group by node, other, run""",  # noqa: S608 - of names, not of data
        rows=rows,
    )


def _find_brokers(history: History, _: Sequence[Rule]) -> DataFrame:
    columns = {
        "anomaly": "'metadata-incomplete'",
        "nodes": "array(node, other)",
        "time": "since",
        "until": "until",
        "tags": "array('broker')",
        "severity": "try_subtract(until, since)",
        "detail": "format_string('node %d left out broker %d, which answered, from %.3f s to %.3f s', node, other,"
        f" {seconds(history, 'since')}, {seconds(history, 'until')})",
    }
    return as_findings(brokers(history).where(_LEFT_OUT), columns)


_LEFT_OUT = f"until > try_add(since, {SETTLING_NS})"


def _asked(history: History) -> bool:
    return history.probes_by(METADATA) or history.asks(METADATA)


_INCOMPLETE = "a broker that answers, or a leader, is not among those that a node lists"
CLAIMS = Family(
    "claims",
    _each,
    (
        Rule(
            "metadata-disagreement",
            "two nodes name different leaders: for one epoch, or for long",
            another(f"({_AN_EPOCH}) or ({_STALE})"),
            "size(claims) > 1",
        ),
        Rule("epoch-regression", "a node names an older leader epoch than before", another(_BACK), "true"),
        Rule(
            "metadata-incomplete",
            _INCOMPLETE,
            _UNLISTED,
            "true",
        ),
    ),
    find=_find_claims,
    needs=_asked,
)
CLIENTS = Family(
    "what clients were told",
    lambda history: _each(history, "client"),
    (
        Rule(
            "epoch-regression",
            "a client is told an older leader epoch than before",
            another(_BACK_ACROSS),
            "size(claims) > 1",
        ),
    ),
    find=_find_client_claims,
    needs=lambda history: history.asks(METADATA),
)
LEADERLESS = Family(
    "leaderless",
    _leaderless_frame,
    (Rule("leaderless", "no node names a leader, for longer than the limit", "dark", "true"),),
    find=_find_leaderless,
    needs=_asked,
)
BROKERS = Family(
    "brokers",
    brokers,
    (
        Rule(
            "metadata-incomplete",
            _INCOMPLETE,
            _LEFT_OUT,
            "true",
        ),
    ),
    find=_find_brokers,
    needs=_asked,
)


def find_metadata_disagreements(history: History) -> DataFrame:
    """Two nodes that name different leaders, for one epoch or for long."""
    return CLAIMS.findings(history, CLAIMS.of("metadata-disagreement"))


def find_epoch_regressions(history: History) -> DataFrame:
    """Leader epochs that went backward, on a node or for a client."""
    of_nodes = CLAIMS.findings(history, CLAIMS.of("epoch-regression"))
    return of_nodes.unionByName(CLIENTS.findings(history)) if history.has(Kind.EXCHANGE) else of_nodes


def find_incomplete_metadata(history: History) -> DataFrame:
    """Brokers that are left out, and leaders that are not among them."""
    return CLAIMS.findings(history, CLAIMS.of("metadata-incomplete")).unionByName(BROKERS.findings(history))


def find_leaderless(history: History) -> DataFrame:
    """Partitions that had no leader for longer than the limit."""
    return LEADERLESS.findings(history)


FAMILIES: tuple[Family, ...] = (CLAIMS, CLIENTS, LEADERLESS, BROKERS)
STUDIES: tuple[Study, ...] = ()
