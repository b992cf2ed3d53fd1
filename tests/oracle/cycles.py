"""Cycles of transactions, by the words of `checkers.cycles.family`: an edge for each pair, and paths by looking."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import networkx as nx

from checkers.core.results import Finding
from checkers.core.run import STRETCH as CHUNK
from harness.history.schema import F, Kind, Status, Type
from tests.oracle import Event, Told, who
from tests.oracle.common import (
    APART_NS,
    alone_ns,
    deleted_topics,
    op_of,
    operations,
    reads_uncommitted,
    records,
    value_of,
)
from tests.support.histories import Rows

ANOMALIES = frozenset(
    {"G0", "G1c", "G-single", "G2", "G0-realtime", "G1c-realtime", "G-single-realtime", "G2-realtime"}
)
STEP_NS = 1000
Edge = tuple[str, int, int]  # a kind, and two transactions
Component = frozenset[int]


# ------------------------------------------------------------------------------------------------- making them up

# What transactions do, one after the other: who, writes or reads (all there is), and in which partition; and when they
# were invoked and ended, if not all at once.
PLOTS: dict[str, tuple[str, dict[str, tuple[int, int]]]] = {
    "G0": ("Aw0 Bw0 Bw1 Aw1", {}),
    "G1c wr": ("Aw0 Br0 Bw1 Ar1", {}),
    "G1c ww": ("Aw0 Bw0 Bw1 Ar1", {}),
    "G-single": ("Cw0 Ar0 Bw0 Bw1 Ar1", {}),
    "G2": ("Cw0 Cw1 Ar0 Bw0 Br1 Aw1", {}),
    "three": ("Aw0 Br0 Bw1 Cr1 Cw0 Ar0", {}),
    "G0-realtime": ("Aw0 Bw0", {"A": (3, 5), "B": (0, 2)}),
    "G1c-realtime wr": ("Aw0 Br0", {"A": (3, 5), "B": (0, 2)}),
    "G1c-realtime ww": ("Aw0 Bw0 Bw1 Cr1", {"A": (3, 5), "C": (0, 2)}),
    "G-single-realtime": ("Cw0 Ar0 Bw0", {"A": (3, 5), "B": (0, 2), "C": (0, 1)}),
    "G2-realtime": ("Dw0 Dw1 Ar0 Bw0 Br1 Cw1", {"A": (3, 5), "C": (0, 2)}),
    "in order": ("Aw0 Br0 Bw1 Cr1", {"A": (0, 1), "B": (2, 3), "C": (4, 5)}),
}
OFTEN = ["G2"] * 5 + ["G2-realtime"] * 9 + ["G-single-realtime", "G0-realtime", "G1c-realtime ww"] * 2  # easily spoilt


def write(rows: Rows, topic: int, random: Random) -> None:
    """A plot, or a change of one, or anything; around the end of a chunk of offsets, or at the beginning."""
    steps, times = PLOTS[random.choice([*PLOTS, *OFTEN])]
    plot = steps.split() if random.random() < 0.8 else [_anything(random) for _ in range(random.randrange(3, 9))]
    while random.random() < 0.35:
        at = random.randrange(len(plot) + 1)
        plot[at : at + random.randrange(2)] = [_anything(random)] if random.random() < 0.7 else []
    if random.random() < 0.2:
        times = {name: tuple(sorted(random.choices(range(6), k=2))) for name in "ABCD"}  # type: ignore[misc]
    _write(rows, topic, random, plot, times)


def _anything(random: Random) -> str:
    return random.choice("ABCD") + random.choice("wwr") + random.choice("01")


def _write(rows: Rows, topic: int, random: Random, plot: list[str], times: dict[str, tuple[int, int]]) -> None:
    writer, numbers = who("i", 0, topic), iter(range(900))
    first = random.choice([0, 0, CHUNK - 1, CHUNK - 2, CHUNK - 3])
    logs: dict[str, list[tuple[int, int]]] = {"0": [], "1": []}
    names = sorted({step[0] for step in plot})
    ops = {name: op_of(topic, number, writer) for number, name in enumerate(names)}
    noise = random.choice([0, 1])
    ends = {name: random.choice([*[Type.OK] * 9, *[Type.FAIL, Type.INFO, Type.INFO] * noise]) for name in names}

    def moments(name: str) -> dict[str, int]:
        invoked, ended = times.get(name, (0, 5))
        return {"invoked": alone_ns(topic) + invoked * STEP_NS, "time": alone_ns(topic) + ended * STEP_NS}

    for step in plot:
        name, does, partition = step[0], step[1], step[2]
        place = {"topic": topic, "partition": int(partition)}
        number, log = next(numbers), logs[partition]
        if does == "w":
            value, offset = value_of(topic, number, writer), first + len(log) + random.choice([0, 0, 1])
            offset = max([offset, *(each + random.choice([1, 1, 1, 0]) for each, _ in log[-1:])])
            log.append((offset, value))
            type_ = ends[name] if random.random() < 1 - 0.15 * noise else random.choice(list(Type))
            told = {"f": F.SEND, "op": value, "value": value, "type": type_, "txn": ops[name], **place}
            rows.add(
                Kind.COMPLETE,
                writer,
                offset=offset if random.random() < 1 - 0.06 * noise else None,
                **told,
                **moments(name),
            )
        else:
            txn = ops[name] if random.random() < 1 - 0.05 * noise else None
            columns = {"op": op_of(topic, 500 + number, writer), "txn": txn, **place, **moments(name)}
            _poll(rows, random, who(random.choice("ccccccc" + "u" * noise), 0, topic), log, columns)
    if random.random() < 0.5:
        for partition, log in logs.items():
            place = {"topic": topic, "partition": int(partition)}
            columns = {"op": op_of(topic, 700 + int(partition), writer), **place, **moments("A")}
            _poll(rows, random, who(random.choice("cu"), 1, topic), log, columns)
    for name in names:
        if random.random() < 0.97:
            about = {"f": F.TXN, "type": ends[name], "name": f"C{topic}{name}"}
            rows.add(Kind.COMPLETE, writer, op=ops[name], **about, **moments(name))


def _poll(rows: Rows, random: Random, process: str, log: list[tuple[int, int]], columns: Event) -> None:
    """Records, from the first or from a later one on."""
    found = log[random.choice([0, 0, 0, 1]) :]
    of_poll = {name: value for name, value in columns.items() if name != "partition"}
    rows.add(Kind.COMPLETE, process, f=F.POLL, type=Type.OK, count=len(found), **of_poll)
    for offset, value in found:
        good = random.random() < 0.97
        said = {"status": Status.GOOD if good else Status.CORRUPT, "value": value if good else None}
        rows.add(Kind.RECORD, process, offset=offset, producer=value >> 40 if good else None, **said, **columns)


# ------------------------------------------------------------------------------------------------ finding them again


def find(rows: Rows) -> Iterator[Told]:
    """All components, each by the class that it belongs to."""
    writes, reads, visible = _writes_and_reads(rows)
    nodes = {
        txn["op"]: txn
        for txn in operations(rows, F.TXN)
        if txn["type"] == Type.OK or (txn["type"] == Type.INFO and txn["op"] in visible)
    }
    edges, topics = _dependencies(writes, reads, nodes)
    timed = edges | _realtime(nodes)

    def components(kinds: str, through: str) -> list[Component]:
        return _components(timed if "time" in kinds else edges, kinds.split(), through)

    wr, ww, both, all_ = (
        components(kinds, through)
        for kinds, through in (("wr", "wr"), ("ww", "ww"), ("ww wr", "wr"), ("ww wr rw", "rw"))
    )
    wr_time = components("wr time", "wr")
    told: list[tuple[str, tuple[str, ...], list[Component], str, str]] = [
        ("G0", (), ww, "ww", "ww"),
        ("G1c", ("wr",), wr, "wr", "wr"),
        ("G1c", ("ww",), _without(both, wr), "ww wr", "wr"),
        ("G", (), all_, "ww wr rw", "rw"),
        ("G0-realtime", (), _without(components("ww time", "ww"), ww), "ww time", "ww"),
        ("G1c-realtime", ("wr",), _without(wr_time, wr), "wr time", "wr"),
        ("G1c-realtime", ("ww",), _without(components("ww wr time", "wr"), wr, both, wr_time), "ww wr time", "wr"),
        ("G-realtime", (), _without(components("ww wr rw time", "rw"), all_), "ww wr rw time", "rw"),
    ]
    leaving: dict[int, list[Edge]] = defaultdict(list)
    for edge in timed:
        leaving[edge[1]].append(edge)
    for anomaly, tags, found, kinds, through in told:
        for component in found:
            edges_inside = (edge for node in component for edge in leaving[node] if edge[2] in component)
            inside = {edge for edge in edges_inside if edge[0] in kinds.split()}
            name, length = _named(anomaly, inside, through)
            late = name.endswith("-realtime")
            shared = late and min(nodes[op]["invoked"] for op in component) < APART_NS
            topic = None if shared else topics[min(component & topics.keys())]
            yield (name, topic, tags, None if late else length, True)


def _named(anomaly: str, inside: set[Edge], through: str) -> tuple[str, int | None]:
    """The anomaly, and how many transactions are on the shortest cycle of a component."""
    shortest = _shortest(inside, through, without="")
    if through != "rw":
        return anomaly, shortest
    once = _shortest(inside, through, without="rw")
    return anomaly.replace("G", "G2" if once is None else "G-single", 1), shortest if once is None else once


def _writes_and_reads(rows: Rows) -> tuple[list[Event], list[Event], set[int]]:
    """Writes, reads of transactions, and the transactions of which a write is visible."""
    gone = deleted_topics(rows)
    good = [
        record
        for record in records(rows)
        if record.get("value") is not None
        and record["status"] == Status.GOOD
        and record.get("topic") not in gone
        and not reads_uncommitted(rows, record["process"])
    ]
    seen = {record["value"] for record in good}
    sends = [
        send
        for send in operations(rows, F.SEND)
        if send.get("txn") is not None and _offset(send) >= 0 and send.get("topic") not in gone
    ]
    unknown = {txn["op"] for txn in operations(rows, F.TXN) if txn["type"] == Type.INFO}
    maybe = [send for send in sends if send["type"] != Type.FAIL]
    in_doubt = [send for send in maybe if send["type"] == Type.INFO or send["txn"] in unknown]
    happened = {send["txn"] for send in in_doubt if send["value"] in seen}
    doubtful = {send["value"] for send in in_doubt}
    writes = [send for send in maybe if send["txn"] in happened or send["value"] not in doubtful]
    visible = {write["txn"] for write in writes if write["value"] in seen}
    reads = [record for record in good if record.get("txn") is not None and _offset(record) >= 0]
    return writes, reads, visible


def _offset(event: Event) -> int:
    offset = event.get("offset")
    return -1 if offset is None else int(offset)


def _dependencies(writes: list[Event], reads: list[Event], nodes: dict[int, Event]) -> tuple[set[Edge], dict[int, int]]:
    """Edges of data, and the topic that each transaction has them in."""
    written: dict[Any, list[Event]] = defaultdict(list)
    read: dict[Any, list[Event]] = defaultdict(list)
    for events, places in ((writes, written), (reads, read)):
        for event in events:
            places[event["topic"], event["partition"]].append(event)
    found: set[Edge] = set()
    topics: dict[int, int] = {}
    for place in written.keys() | read.keys():
        log = sorted(written[place], key=lambda event: (event["offset"], event["value"]))
        edges = {("ww", one["txn"], other["txn"]) for one, other in pairwise(log)}
        for event in read[place]:
            same = [each for each in log if (each["offset"], each["value"]) == (event["offset"], event["value"])]
            edges |= {("wr", each["txn"], event["txn"]) for each in same}
        for reader in {event["txn"] for event in read[place]}:
            highest = max(event["offset"] for event in read[place] if event["txn"] == reader)
            edges |= {("rw", reader, each["txn"]) for each in [each for each in log if each["offset"] > highest][:1]}
        edges = {edge for edge in edges if edge[1] != edge[2] and edge[1] in nodes and edge[2] in nodes}
        topics |= {op: place[0] for edge in edges for op in edge[1:]}
        found |= edges
    return found, topics


def _realtime(nodes: dict[int, Event]) -> set[Edge]:
    """From each that ended ok to those after it, unless there is one wholly between, for then there is a path."""
    ordered = sorted(nodes, key=lambda op: int(nodes[op]["invoked"]))
    edges: set[Edge] = set()
    invoked = [nodes[op]["invoked"] for op in ordered]
    for op, txn in nodes.items():
        if txn["type"] != Type.OK:
            continue
        between = None  # when the first of those after it had ended
        for other in ordered[bisect_right(invoked, txn["time"]) :]:
            if between is not None and between < nodes[other]["invoked"]:
                break
            edges.add(("time", op, other))
            if nodes[other]["type"] == Type.OK:
                ended = nodes[other]["time"]
                between = ended if between is None else min(between, ended)
    return edges


def _components(edges: set[Edge], kinds: list[str], through: str) -> list[Component]:
    """Strongly connected ones with an edge of that kind inside."""
    graph = nx.DiGraph((source, destination) for kind, source, destination in edges if kind in kinds)
    label = {node: number for number, part in enumerate(nx.strongly_connected_components(graph)) for node in part}
    inside = {label[source] for kind, source, other in edges if kind == through and label[source] == label[other]}
    parts: dict[int, set[int]] = defaultdict(set)
    for node, number in label.items():
        parts[number].add(node)
    return [frozenset(parts[number]) for number in inside]


def _without(components: list[Component], *others: list[Component]) -> list[Component]:
    """Those that have none of the others in them."""
    taken = {node for parts in others for part in parts for node in part}
    return [component for component in components if not component & taken]


def _shortest(inside: set[Edge], through: str, without: str) -> int | None:
    """Transactions on the shortest cycle by an edge of a kind, and else by none of another; none without a cycle."""
    graph = nx.DiGraph((source, destination) for kind, source, destination in inside if kind != without)
    lengths = [
        nx.shortest_path_length(graph, destination, source) + 1
        for kind, source, destination in inside
        if kind == through and source in graph and destination in graph and nx.has_path(graph, destination, source)
    ]
    return min(lengths, default=None)


def key(finding: Finding, topic: int | None) -> Told:
    """What was found, and whether the cycle that it tells is one of its class."""
    kinds = ["time" if kind == "realtime" else kind for kind in finding.facts["kinds"]]
    late = finding.anomaly.endswith("-realtime")
    name, tags = finding.anomaly.removesuffix("-realtime"), finding.tags
    allowed, through = {
        "G0": ({"ww"}, "ww"),
        "G1c": ({"wr"} if tags == ("wr",) else {"ww", "wr"}, "wr"),
        "G-single": ({"ww", "wr", "rw"}, "rw"),
        "G2": ({"ww", "wr", "rw"}, "rw"),
    }[name]
    sound = (
        len(kinds) == len(finding.facts["operations"]) == len(finding.events)
        and through in kinds
        and {*kinds} <= allowed | ({"time"} if late else set())
        and ("time" in kinds) == late
        and (name != "G-single" or kinds.count("rw") == 1)
        and (name != "G2" or kinds.count("rw") > 1)
    )
    shared = late and (finding.time_ns or 0) < APART_NS
    return (finding.anomaly, None if shared else topic, tags, None if late else len(finding.events), sound)
