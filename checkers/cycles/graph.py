"""Cycles in a graph of dependencies, by kinds of edges: which components have one, and a short one of each.

A graph is arrays: an edge has a kind, a source and a destination. Real time is put in by nodes of its own, one for each
moment at which something ended: an edge from whatever ended then, one to the next moment, and one from the last moment
before something was invoked. So the order of time costs a handful of edges for each node, not one for each pair.

A strongly connected component of the edges of some kinds has a cycle of these kinds, and every edge inside of it is on
one. Components come from scipy, without a loop over nodes; only the few components that are told are looked into.
Nearly all edges of a healthy history go forward in time. What goes back spans some nodes, and only there can cycles be
(`_perhaps`): the rest is left out before components are asked for.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from checkers.core.arrays import Bools, Ints

WW, WR, RW, TIME = 1, 2, 3, 4
TRIES = 256  # edges of a component from which a cycle is looked for
COMPONENTS = 1000  # that are looked into for a cycle with one edge of a kind
WORK = 2_000_000  # edges that are walked over for the sake of one component


@dataclass(frozen=True)
class Graph:
    """`nodes` are what cycles are told of; nodes from there on are moments."""

    nodes: int
    total: int
    kind: npt.NDArray[np.int8]
    source: Ints
    destination: Ints
    rank: Ints | None = None  # of each node, in an order that most edges go along; None: that of their numbers


@dataclass(frozen=True)
class CycleClass:
    """A class of cycles: of these kinds of edges, with one of `through` on it."""

    anomaly: str
    kinds: frozenset[int]
    through: int
    tag: str = ""
    unless: tuple[str, ...] = ()  # a component that contains one of these classes (`anomaly tag`) is not told again
    once: bool = False  # exactly one edge of `through` is on the cycle if that is possible, else it is `otherwise`
    otherwise: str = ""

    @property
    def name(self) -> str:
        """Of the class, as others refer to it."""
        return f"{self.anomaly} {self.tag}".strip()


@dataclass(frozen=True)
class CycleStep:
    """From a node to the next one; `edge` is -1 where it is a matter of time."""

    source: int
    destination: int
    edge: int


@dataclass
class FoundCycles:
    """What there is of one class."""

    anomaly: str
    tag: str = ""
    count: int = 0  # components
    cycles: list[list[CycleStep]] = field(default_factory=list)


CLASSES = (
    CycleClass("G1c", frozenset({WR}), WR, "wr"),
    CycleClass("G0", frozenset({WW}), WW),
    CycleClass("G1c", frozenset({WW, WR}), WR, "ww", ("G1c wr",)),
    CycleClass("G-single", frozenset({WW, WR, RW}), RW, once=True, otherwise="G2"),
    CycleClass("G1c-realtime", frozenset({WR, TIME}), WR, "wr", ("G1c wr",)),
    CycleClass("G0-realtime", frozenset({WW, TIME}), WW, "", ("G0",)),
    CycleClass("G1c-realtime", frozenset({WW, WR, TIME}), WR, "ww", ("G1c wr", "G1c ww", "G1c-realtime wr")),
    CycleClass(
        "G-single-realtime", frozenset({WW, WR, RW, TIME}), RW, "", ("G-single",), once=True, otherwise="G2-realtime"
    ),
)


def with_time(graph: Graph, invoked: Ints, ended: Ints, known: Bools) -> Graph:
    """The graph with moments; where it is not `known` when a node ended, nothing comes after it."""
    moments, which = np.unique(ended[known], return_inverse=True)
    first = graph.total
    count = len(moments)
    before = np.searchsorted(moments, invoked, side="left") - 1  # the last moment that is earlier
    late = np.flatnonzero(before >= 0)
    chain = first + np.arange(max(count - 1, 0))
    source = np.concatenate([graph.source, np.flatnonzero(known), chain, first + before[late]])
    destination = np.concatenate([graph.destination, first + which.reshape(-1), chain + 1, late])
    kind = np.concatenate([graph.kind, np.full(len(source) - len(graph.kind), TIME, np.int8)])
    order = np.argsort(np.concatenate([ended, moments]), kind="stable")  # what ends at a moment is before it
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return Graph(graph.nodes, first + count, kind, source, destination, rank)


def search(graph: Graph, limit: int, deadline: float) -> tuple[dict[str, FoundCycles], list[str]]:
    """By class what was found, with at most so many cycles of each; and the classes that there was no time for."""
    found: dict[str, FoundCycles] = {}
    members: dict[str, Bools] = {}  # by class the nodes of its components
    late = []
    cyclic = _inside(graph, np.arange(len(graph.kind)))[0] if time.monotonic() <= deadline else _NO_EDGES
    for each in CLASSES:
        if time.monotonic() > deadline:
            late.append(each.name)
            continue
        parts = _Parts(graph, cyclic, each)
        told = np.zeros(graph.total, np.bool_)
        for name in each.unless:
            told |= members.get(name, told)
        members[each.name] = np.isin(parts.label, parts.cyclic)
        fresh = parts.cyclic[~np.isin(parts.cyclic, np.unique(parts.label[told]))].tolist()
        for number, label in enumerate(fresh[:COMPONENTS] if each.once else fresh[:limit]):
            if number and time.monotonic() > deadline:
                late.append(each.name)
                break
            _add_cycles(parts, label, found, limit)
        if fresh and not each.once:
            found[each.name].count = len(fresh)
    return found, late


class _Parts:
    """The components of the edges of a class, with the edges inside of them."""

    def __init__(self, graph: Graph, cyclic: Ints, wanted: CycleClass) -> None:
        self.graph, self.wanted = graph, wanted
        kinds = graph.kind[cyclic]
        there = (kinds == wanted.through).any()
        chosen = cyclic[np.isin(kinds, list(wanted.kinds))] if there else _NO_EDGES
        inside, self.label = _inside(graph, chosen)
        labels = self.label[graph.source[inside]]
        order = np.argsort(labels, kind="stable")
        self._edges, self._labels = inside[order], labels[order]
        self.cyclic = np.unique(self._labels[graph.kind[self._edges] == wanted.through])

    def edges(self, label: int) -> Ints:
        """Those inside of a component."""
        first, last = np.searchsorted(self._labels, [label, label + 1])
        edges: Ints = self._edges[first:last]
        return edges


_NO_EDGES = np.zeros(0, np.int64)


def _inside(graph: Graph, chosen: Ints) -> tuple[Ints, Ints]:
    """Those of these edges that are on cycles of them, and by node the number of its component."""
    chosen = chosen[_perhaps(graph, chosen)]
    source, destination = graph.source[chosen], graph.destination[chosen]
    label = _components(graph.total, source, destination)
    return chosen[(label[source] == label[destination]) & (source != destination)], label


def _perhaps(graph: Graph, chosen: Ints) -> Bools:
    """Which of these edges may be on a cycle: no cycle gets past a rank that no edge goes back over."""
    source, destination = graph.source[chosen], graph.destination[chosen]
    if graph.rank is not None:
        source, destination = graph.rank[source], graph.rank[destination]
    back = source > destination
    if not back.any():
        return back
    begun, ended = (np.bincount(ranks[back], minlength=graph.total) for ranks in (destination, source))
    spanned = np.cumsum(begun - ended) > 0  # whether an edge goes back from above this rank to it or below
    span = np.concatenate([[0], np.cumsum(~spanned)[:-1]])
    together: Bools = span[source] == span[destination]
    return together


def _components(total: int, source: Ints, destination: Ints) -> Ints:
    """The number of the component of each node."""
    if not len(source):
        return np.arange(total)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    matrix = csr_array((np.ones(len(source), np.float32), (source, destination)), shape=(total, total))
    label: Ints = connected_components(matrix, directed=True, connection="strong")[1]
    return label


def _add_cycles(parts: _Parts, label: int, found: dict[str, FoundCycles], limit: int) -> None:
    """Count a component by what it is, and keep a cycle of it as long as some are wanted."""
    wanted = parts.wanted
    cycle = _short_cycle(parts, label, once=wanted.once)
    name, anomaly = (wanted.name, wanted.anomaly) if cycle or not wanted.once else (wanted.otherwise, wanted.otherwise)
    told = found.setdefault(name, FoundCycles(anomaly, wanted.tag))
    told.count += 1
    if len(told.cycles) < limit:
        told.cycles.append(cycle or _short_cycle(parts, label, once=False))


def _short_cycle(parts: _Parts, label: int, *, once: bool) -> list[CycleStep]:
    """The shortest one through any of the edges that are tried; `once`: through no other edge of that kind."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    graph, edges = parts.graph, parts.edges(label)
    through = graph.kind[edges] == parts.wanted.through
    nodes, local = np.unique(np.concatenate([graph.source[edges], graph.destination[edges]]), return_inverse=True)
    source, destination = local[: len(edges)], local[len(edges) :]
    ways = np.flatnonzero(~through) if once else np.arange(len(edges))
    weights, shape = np.ones(len(ways)), (len(nodes), len(nodes))
    matrix = csr_array((weights, (source[ways], destination[ways])), shape=shape)
    best: list[int] = []
    by = -1
    for edge in np.flatnonzero(through)[: min(TRIES, max(1, WORK // len(edges)))].tolist():
        _, before = breadth_first_order(matrix, destination[edge], return_predecessors=True)
        path = _path(before, int(destination[edge]), int(source[edge]))
        if path and (not best or len(path) < len(best)):
            best, by = path, int(edges[edge])
    return _steps(graph, edges[ways], nodes[best].tolist(), by) if best else []


def _path(before: npt.NDArray[np.int32], first: int, last: int) -> list[int]:
    """From the first to the last node; empty if there is no way."""
    if before[last] < 0:
        return []
    path = [last]
    while path[-1] != first:
        path.append(int(before[path[-1]]))
    return path[::-1]


def _steps(graph: Graph, edges: Ints, path: list[int], closing: int) -> list[CycleStep]:
    """The cycle along these nodes, without the moments between them, and back by an edge, which comes first."""
    nodes = [node for node in path if node < graph.nodes]
    after = np.full(graph.total, -1)
    after[nodes[:-1]] = nodes[1:]
    along = edges[after[graph.source[edges]] == graph.destination[edges]]
    first = dict(zip(graph.source[along[::-1]].tolist(), along[::-1].tolist(), strict=True))
    between = [
        CycleStep(source, destination, first.get(source, -1)) for source, destination in itertools.pairwise(nodes)
    ]
    return [CycleStep(nodes[-1], nodes[0], closing), *between]
