"""Leadership: who acts as the leader of a partition, and whether clients find it.

S is SETTLING_NS of `checkers.metadata`, which also says what a claim is, with its `first` and its node, leader and
epoch; `begun` is the lowest `invoked` of a claim. Claims and all that follows belong to one life of a topic (an era of
`checkers.deletions`); what may belong to two lives is left out. Rows without a node, topic or partition are left out.

not-leader-loop   exchanges of type ok of one client (by its client id; not null, and not `tidegauge`, which asks every
                  node on purpose), one partition and one of the requests Produce, Fetch, ListOffsets. A *refusal* has
                  error 6, 74 or 75, a *success* error 0, and all others do not count. Rows of one `op` are one answer.
                  Refusals in the order of `time`, with no success of the same client, partition and request at a `time`
                  between them (at one instant refusals come first), are a run. A run of 5 or more is a finding if some
                  node refused twice in it with a refresh between: an exchange of api 3, type ok, of that client, with a
                  row for that partition, that was invoked after the first refusal of that node in the run had ended
                  (strictly), and that ended before another refusal of that node was invoked (strictly). `brief` if the
                  last `time` of the run <= the first + S. What it cost: sends of the process in the client id
                  (tidegauge-ROLE-PROCESS) to that topic and partition (or none) that did not end ok, and that ended
                  between the first `time` of the run and the last + S
impostor-leader   an *act* is an answer with error 0, to a probe (api 1 or 2), or in an exchange of type ok of another
                  client than `tidegauge`: Produce with acks <> 0 and an offset >= 0 (an *append*), ListOffsets, or
                  Fetch below version 11, from which on followers may answer. Acts of one node in one second (`time div
                  10^9`, cut towards zero) are one: `began` is its lowest `invoked`, `ended` its highest `time`. Its
                  epoch is the highest one among the claims of other nodes with first < began - S. It is not known
                  (null) without one; or if none of them was made again after the act (last > ended), for nobody need
                  have heard yet of a leader that came since; or if any node has a claim of a higher epoch with begun <=
                  ended + S. An act whose epoch is known, and for which all those claims of that epoch name one leader
                  that is another node, is an impostor's. One finding per partition, node and epoch, which tells of the
                  impostor's acts alone; `deposed` if another node has a claim of a lower epoch that names it
split-brain       `one epoch`: two nodes have acts with appends of one known epoch; `overlapping`: in one second two
                  nodes have appends in acts of no known epoch, and one append of each ended before one of the other was
                  invoked. One finding per partition and epoch, or second, which tells of the appends of those nodes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.deletions import UNSURE
from checkers.frame import PLACE, Family, History, Rule, Study, as_findings, seconds, together
from checkers.metadata import METADATA, OF_OTHERS, SECOND_NS, SETTLING_NS, claims, life_of
from harness.history import Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
FETCH_OF_FOLLOWERS = 11
LOOP = 5
NEVER_NS = (1 << 63) - 1

_OF_A_PLACE = "node is not null and topic is not null and partition is not null"
_REFUSED = "error in (6, 74, 75)"
_ASKED = ("client", *PLACE, "api")
_POINT = "struct(cast({0} as bigint) as at, {1} as raises, cast({2} as bigint) as ok, cast({3} as bigint) as fresh)"
_LOOPS = f"refusals >= {LOOP} and again"
_INTERLEAVED = "exists(nodes, b -> a.node <> b.node and a.first < b.last and b.first < a.last)"
_BOTH = f"filter(nodes, a -> a.appends > 0 and (epoch is not null or {_INTERLEAVED}))"
_SPLIT = f"n.node = array_min(transform(nodes, n -> n.node)) and size({_BOTH}) > 1"


def refusals(history: History) -> DataFrame:
    """A row for each run of refusals of a client that was refused often enough."""
    passed = history.kind(Kind.EXCHANGE).where(
        f"type = {Type.OK:d} and {_OF_A_PLACE} and client is not null and {OF_OTHERS}"
    )
    of_logs = f"api in ({PRODUCE}, {FETCH}, {LIST_OFFSETS})"
    points = history.spark.sql(
        f"""with often as (select client, topic, partition, api as of_api from {{passed}}
                           where {of_logs} and {_REFUSED} group by client, topic, partition, api
                           having count(*) >= {LOOP})
            select /*+ broadcast(often) */ client, topic, partition, of_api as api, node, invoked, time, event,
                   coalesce(op, event) as op, {life_of(history)},
                   explode(case when api = {METADATA} then array({_POINT.format("time", 1, "null", "invoked")})
                                when error = 0 then array({_POINT.format("time", 1, "time", "null")})
                                else array({_POINT.format("invoked", 0, "null", "null")},
                                           {_POINT.format("time", 0, "null", "null")}) end) as point
            from {{passed}} join often using (client, topic, partition)
            where api = {METADATA} or (api = of_api and (error = 0 or {_REFUSED}))""",  # noqa: S608 - of names, not of data
        passed=passed,
    )
    points = points.where(f"life <> {UNSURE}").selectExpr(
        *_ASKED, "node", "invoked", "time", "event", "op", "life", "point.*"
    )
    scanned = _with_running_maxima(history, points, ("ok", "fresh"))
    return history.spark.sql(
        f"""with refused as (
              select {", ".join(_ASKED)}, life, op, max(node) as node, max(time) as time, min(event) as event,
                     max(if(at = time, ok, null)) as since, max(if(at = invoked, fresh, null)) as fresh
              from {{scanned}} where raises = 0 group by {", ".join(_ASKED)}, life, op),
            by_node as (
              select {", ".join(_ASKED)}, life, since, node, count(*) as refusals, min(time) as first,
                     max(time) as last, min(event) as event, max(fresh) > min(time) as again
              from refused group by {", ".join(_ASKED)}, life, since, node)
            select {", ".join(_ASKED)}, sum(refusals) as refusals, min(first) as first, max(last) as last,
                   collect_list(node) as nodes, min(event) as event, bool_or(again) as again
            from by_node group by {", ".join(_ASKED)}, life, since""",  # noqa: S608 - of names, not of data
        scanned=scanned,
    )


def _with_running_maxima(history: History, points: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Replace columns by their running maxima in the order of `at`, questions first; time is cut into chunks."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    sealed = history.sealed
    chunks = 1 + sealed.rows.get(Kind.EXCHANGE, 0) // history.chunk_rows
    width_ns = max(1, (sealed.last_time_ns - sealed.first_time_ns) // chunks)
    chunked = points.selectExpr("*", f"at div {width_ns} as chunk" if chunks > 1 else "0L as chunk")
    inside = Window.partitionBy(*_ASKED, "chunk").orderBy("at", "raises").rowsBetween(Window.unboundedPreceding, 0)
    others = [name for name in points.columns if name not in columns]
    scanned = chunked.select(*others, "chunk", *(sql.max(name).over(inside).alias(name) for name in columns))
    if chunks == 1:
        return scanned.drop("chunk")
    earlier = Window.partitionBy(*_ASKED).orderBy("chunk").rowsBetween(Window.unboundedPreceding, -1)
    carried = (
        chunked.groupBy(*_ASKED, "chunk")
        .agg(*(sql.max(name).alias(name) for name in columns))
        .select(*_ASKED, "chunk", *(sql.max(name).over(earlier).alias(f"carried_{name}") for name in columns))
    )
    joined = scanned.join(sql.broadcast(carried), [*_ASKED, "chunk"], "left")
    return joined.select(*others, *(sql.greatest(name, f"carried_{name}").alias(name) for name in columns))


def _find_loops(history: History, _: Sequence[Rule]) -> DataFrame:
    """With what each loop cost."""
    from pyspark.sql import functions as sql

    loops = (
        refusals(history)
        .where(_LOOPS)
        .selectExpr(
            "*", "try_cast(regexp_extract(client, '^tidegauge-[a-z]+-(\\\\d+)$', 1) as int) as worker",
            f"coalesce(try_add(last, {SETTLING_NS}), {NEVER_NS}) as over",
        )
    )  # fmt: skip
    failed = history.sends.where(f"type <> {Type.OK:d}").selectExpr(
        "process as worker", "topic as to", "partition as part", "time as ended", "op as given_up"
    )
    met = "l.worker = s.worker and l.topic = s.to and (s.part is null or s.part = l.partition) and s.ended between"
    joined = sql.broadcast(loops.alias("l")).join(failed.alias("s"), sql.expr(f"{met} l.first and l.over"), "left")
    cost = joined.select("l.*", "s.given_up").groupBy(*loops.columns).agg(sql.count_distinct("given_up").alias("cost"))
    columns = {
        "anomaly": "'not-leader-loop'",
        "processes": "array_compact(array(worker))",
        "nodes": "array_sort(nodes)",
        "time": "first",
        "until": "last",
        "events": "array(event)",
        "tags": f"array_compact(array(if(last <= try_add(first, {SETTLING_NS}), 'brief', null)))",
        "severity": "refusals",
        "detail": "format_string('client %s was refused %d times in a row by node %s (request %d), from %.3f s to"
        " %.3f s, and asked again after a refresh; %d sends were given up meanwhile', client, refusals,"
        " array_join(array_sort(nodes), ', '), api,"
        f" {seconds(history, 'first')}, {seconds(history, 'last')}, cost)",
    }
    return as_findings(cost, columns)


def acts(history: History) -> DataFrame:
    """A row per partition, epoch (or second) and node that acted as its leader, with all of these nodes."""
    from pyspark.sql import functions as sql

    told = claims(history).withColumnRenamed("claims", "known")
    seen = _acts(history).join(sql.broadcast(told), [*PLACE, "life"], "left")
    others = f"filter(known, c -> c.node <> node and c.first < try_subtract(began, {SETTLING_NS}))"
    later = f"coalesce(try_add(ended, {SETTLING_NS}), {NEVER_NS})"
    judged = (
        seen.selectExpr("*", f"{others} as others")
        .selectExpr("*", "array_max(transform(others, c -> c.epoch)) as newest")
        .selectExpr(
            "*", "exists(others, c -> c.epoch = newest and c.last > ended) as upheld",
            f"exists(known, c -> c.epoch > newest and c.begun <= {later}) as outdated",
            "array_distinct(transform(filter(others, c -> c.epoch = newest), c -> c.leader)) as named",
        )
        .selectExpr("*", "if(upheld and not outdated, newest, null) as epoch")
        .selectExpr("*", "epoch is not null and size(named) = 1 and get(named, 0) <> node as impostor")
    )  # fmt: skip
    return history.spark.sql(
        """select topic, partition, epoch, collect_list(struct(node, acts, appends, began, ended, first, last, event,
                  append, impostor, deposed, leader)) as nodes
           from (select topic, partition, life, epoch, if(epoch is null, slot, null) as second, node,
                        sum(acts) filter (where impostor) as acts, min(began) filter (where impostor) as began,
                        max(ended) filter (where impostor) as ended, min(event) filter (where impostor) as event,
                        min(get(named, 0)) filter (where impostor) as leader, bool_or(impostor) as impostor,
                        bool_or(exists(known, c -> c.node <> node and c.epoch < epoch and c.leader = node)) as deposed,
                        sum(appends) as appends, min(first) as first, max(last) as last, min(append) as append
                 from {judged} group by topic, partition, life, epoch, if(epoch is null, slot, null), node)
           group by topic, partition, life, epoch, second""",
        judged=judged,
    ).selectExpr("*", "explode(nodes) as n")


def _acts(history: History) -> DataFrame:
    """What each node did in each second as only a leader does."""
    columns = (*PLACE, "node", "api", "invoked", "time", "event")
    by_probes = history.probes.where(f"error = 0 and {_OF_A_PLACE} and api in ({FETCH}, {LIST_OFFSETS})")
    frames = [by_probes.select(*columns)]
    if history.has(Kind.EXCHANGE):
        appended = f"(api = {PRODUCE} and coalesce(acks, -1) <> 0 and offset >= 0)"
        led = f"{appended} or api = {LIST_OFFSETS} or (api = {FETCH} and api_version < {FETCH_OF_FOLLOWERS})"
        of_others = f"type = {Type.OK:d} and error = 0 and {_OF_A_PLACE} and {OF_OTHERS}"
        frames.append(history.kind(Kind.EXCHANGE).where(f"({led}) and {of_others}").select(*columns))
    return history.spark.sql(
        f"""select topic, partition, life, node, time div {SECOND_NS} as slot, count(*) as acts,
                   count_if(api = {PRODUCE}) as appends, min(invoked) as began, max(time) as ended,
                   min(if(api = {PRODUCE}, time, null)) as first, max(if(api = {PRODUCE}, invoked, null)) as last,
                   min(event) as event, min(if(api = {PRODUCE}, event, null)) as append
            from {{rows}} where life <> {UNSURE}
            group by topic, partition, life, node, time div {SECOND_NS}""",  # noqa: S608 - of names, not of data
        rows=together(frames).selectExpr("*", life_of(history)),
    )


def _find_acts(history: History, rules: Sequence[Rule]) -> DataFrame:
    frame = acts(history)
    finders = {"impostor-leader": _impostors, "split-brain": _split}
    return together([finders[rule.anomaly](history, frame) for rule in rules])


def _impostors(history: History, frame: DataFrame) -> DataFrame:
    columns = {
        "anomaly": "'impostor-leader'",
        "nodes": "array(n.node)",
        "time": "n.began",
        "until": "n.ended",
        "events": "array(n.event)",
        "tags": "array_compact(array(if(n.deposed, 'deposed', null)))",
        "severity": "n.acts",
        "detail": "format_string('node %d answered %d times as a leader, from %.3f s to %.3f s; the others named node"
        f" %d as the leader of epoch %d', n.node, n.acts, {seconds(history, 'n.began')}, {seconds(history, 'n.ended')},"
        " n.leader, epoch)",
    }
    return as_findings(frame.where("n.impostor"), columns)


def _split(history: History, frame: DataFrame) -> DataFrame:
    both = frame.where(_SPLIT).selectExpr(*PLACE, "epoch", f"{_BOTH} as both")
    columns = {
        "anomaly": "'split-brain'",
        "nodes": "array_sort(transform(both, n -> n.node))",
        "time": "array_min(transform(both, n -> n.first))",
        "until": "array_max(transform(both, n -> greatest(n.first, n.last)))",
        "events": "transform(both, n -> n.append)",
        "tags": "array(if(epoch is null, 'overlapping', 'one epoch'))",
        "severity": "aggregate(both, 0L, (sum, n) -> sum + n.appends)",
        "detail": "format_string('%s, %s', array_join(transform(array_sort(both), n -> format_string('node %d"
        f" acknowledged %d appends from %.3f s to %.3f s', n.node, n.appends, {seconds(history, 'n.first')},"
        f" {seconds(history, 'greatest(n.first, n.last)')})), ', '), if(epoch is null, 'side by side',"
        " concat('in epoch ', epoch)))",
    }
    return as_findings(both, columns)


LOOPS = Family(
    "refusals",
    refusals,
    (Rule("not-leader-loop", "a client is refused again and again, also after a refresh", _LOOPS, "true"),),
    find=_find_loops,
    needs=lambda history: history.asks(METADATA) and history.asks(PRODUCE, FETCH, LIST_OFFSETS),
)
ACTS = Family(
    "leaders at work",
    acts,
    (
        Rule("impostor-leader", "a node that does not lead answers as if it did", "n.impostor", "epoch is not null"),
        Rule("split-brain", "two nodes acknowledge appends at once", _SPLIT, "n.appends > 0"),
    ),
    find=_find_acts,
    needs=lambda history: history.probes_by(FETCH, LIST_OFFSETS) or history.asks(PRODUCE, FETCH, LIST_OFFSETS),
)


def find_not_leader_loops(history: History) -> DataFrame:
    """Clients that are refused again and again."""
    return LOOPS.findings(history)


def find_impostor_leaders(history: History) -> DataFrame:
    """Nodes that do not lead and answer as if they did."""
    return ACTS.findings(history, ACTS.of("impostor-leader"))


def find_split_brains(history: History) -> DataFrame:
    """Two nodes that acknowledged appends at once."""
    return ACTS.findings(history, ACTS.of("split-brain"))


FAMILIES: tuple[Family, ...] = (LOOPS, ACTS)
STUDIES: tuple[Study, ...] = ()
