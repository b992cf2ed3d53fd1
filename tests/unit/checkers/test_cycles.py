"""Cycles of small graphs, compared with all cycles that there are; and of large ones, in time."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest

from checkers.cycles.dependencies import TransactionTable, dependencies
from checkers.cycles.graph import RW, TIME, WR, WW, FoundCycles, Graph, search, with_time
from checkers.cycles.steps import Ends, Reads, TransactionSteps, Writes

SOON = 60.0


def _graph(nodes: int, edges: list[tuple[int, int, int]]) -> Graph:
    """Of edges by kind, source and destination."""
    kind, source, destination = (np.array(column, np.int64) for column in zip(*sorted(edges), strict=True))
    return Graph(nodes, nodes, kind.astype(np.int8), source, destination)


def _search(graph: Graph, limit: int = 20) -> dict[str, FoundCycles]:
    found, late = search(graph, limit, time.monotonic() + SOON)
    assert not late
    return found


def _cycles(edges: list[tuple[int, int, int]], kinds: set[int]) -> list[tuple[frozenset[int], list[list[int]]]]:
    """Every simple cycle: its nodes, and for each step the kinds of edges that it may be."""
    graph = nx.DiGraph((source, destination) for kind, source, destination in edges if kind in kinds)
    cycles = []
    for nodes in nx.simple_cycles(graph):
        steps = zip(nodes, [*nodes[1:], nodes[0]], strict=True)
        cycles.append((frozenset(nodes), [[k for k, s, d in edges if (s, d) == step and k in kinds] for step in steps]))
    return cycles


def _components(edges: list[tuple[int, int, int]], kinds: set[int], through: int) -> list[set[int]]:
    graph = nx.DiGraph((source, destination) for kind, source, destination in edges if kind in kinds)
    inside = [(source, destination) for kind, source, destination in edges if kind == through]
    return [part for part in nx.strongly_connected_components(graph) if any(s in part and d in part for s, d in inside)]


def _expected(edges: list[tuple[int, int, int]], invoked: list[int], ended: list[int]) -> dict[str, int]:
    """By the definitions, with an edge of time for each pair."""
    pairs = product(range(len(invoked)), repeat=2)
    edges = edges + [(TIME, one, other) for one, other in pairs if ended[one] < invoked[other]]
    counts: dict[str, int] = {}
    told: dict[str, list[set[int]]] = {}

    def count(name: str, kinds: set[int], through: int, unless: tuple[str, ...] = ()) -> list[set[int]]:
        told[name] = _components(edges, kinds, through)
        before = [part for each in unless for part in told[each]]
        fresh = [part for part in told[name] if not any(part & other for other in before)]
        if fresh and through != RW:
            counts[name] = len(fresh)
        return fresh

    count("G1c wr", {WR}, WR)
    count("G0", {WW}, WW)
    count("G1c ww", {WW, WR}, WR, ("G1c wr",))
    count("G1c-realtime wr", {WR, TIME}, WR, ("G1c wr",))
    count("G0-realtime", {WW, TIME}, WW, ("G0",))
    count("G1c-realtime ww", {WW, WR, TIME}, WR, ("G1c wr", "G1c ww", "G1c-realtime wr"))
    for suffix, more, unless in (("", set(), ()), ("-realtime", {TIME}, ("single",))):
        kinds = {WW, WR, RW, *more}
        once = [nodes for nodes, steps in _cycles(edges, kinds) if sum(set(step) == {RW} for step in steps) <= 1
                and any(RW in step for step in steps)]  # fmt: skip
        for part in count("single" + suffix, kinds, RW, unless):
            name = ("G-single" if any(nodes <= part for nodes in once) else "G2") + suffix
            counts[name] = counts.get(name, 0) + 1
    return counts


@pytest.mark.parametrize("seed", range(60))
def test_it_finds_what_all_cycles_together_show(seed: int) -> None:
    """Random graphs of a few transactions, with times."""
    random = np.random.default_rng(seed)
    nodes = int(random.integers(2, 7))
    drawn = [(int(random.integers(1, 4)), random.choice(nodes, 2, replace=False)) for _ in range(nodes + 2)]
    edges = {(kind, int(source), int(destination)) for kind, (source, destination) in drawn}
    invoked = random.integers(0, 12, nodes)
    ended = invoked + random.integers(1, 6, nodes)
    graph = with_time(_graph(nodes, list(edges)), invoked, ended, np.ones(nodes, np.bool_))
    found = _search(graph)
    assert {name: each.count for name, each in found.items()} == _expected(
        sorted(edges), invoked.tolist(), ended.tolist()
    )
    for each in found.values():
        for cycle in each.cycles:
            assert [step.destination for step in cycle] == [step.source for step in [*cycle[1:], cycle[0]]]
            for step in cycle:
                if step.edge >= 0:
                    assert graph.source[step.edge] == step.source
                    assert graph.destination[step.edge] == step.destination
                else:
                    assert ended[step.source] < invoked[step.destination]
            if each.anomaly.startswith("G-single"):
                assert [int(graph.kind[step.edge]) for step in cycle if step.edge >= 0].count(RW) == 1


def test_the_end_of_what_nobody_knows_is_before_nothing() -> None:
    """Only a transaction that is known to have ended comes before others."""
    edges, times = _graph(2, [(WR, 1, 0)]), (np.array([0, 10]), np.array([5, 15]))
    assert set(_search(with_time(edges, *times, np.array([True, True])))) == {"G1c-realtime wr"}
    assert not _search(with_time(edges, *times, np.array([False, True])))


def test_what_is_a_matter_of_time_is_told_as_such() -> None:
    """Also where an edge that may be on the cycle only once goes the same way."""
    edges = _graph(4, [(RW, 0, 1), (RW, 1, 2), (WW, 2, 3)])
    times = np.array([5, 0, 10, 0]), np.array([20, 8, 20, 3])
    found = _search(with_time(edges, *times, np.ones(4, np.bool_)))
    (cycle,) = found["G-single-realtime"].cycles
    steps = [(step.source, step.destination, int(edges.kind[step.edge]) if step.edge >= 0 else TIME) for step in cycle]
    assert steps == [(0, 1, RW), (1, 2, TIME), (2, 3, WW), (3, 0, TIME)]


def _columns(*rows: tuple[int, ...]) -> list[Any]:
    return [np.array(column) for column in zip(*rows, strict=True)]


def test_what_comes_next_does() -> None:
    """Whatever piece says it: the last writer and reader of a stretch go with the next writer of the same partition."""
    writes = _columns(
        (7, 200_000, 107, 20), (7, 5, 105, 10), (7, 0, 100, 10), (7, 90_000, 106, 20), (8, 300_000, 108, 30),
        (7, 90_000, 104, 50),
    )  # fmt: skip
    steps = TransactionSteps(
        0,
        Writes(*[*writes, *np.zeros((2, 6), np.bool_)]),
        Reads(*_columns((8, 300_000, 108, 90), (7, 5, 105, 10), (7, 0, 100, 70))),
        Ends(*_columns((7, 5, 90), (7, 3, 90), (7, 200_001, 80), (8, 1, 30), (9, 0, 90))),
    )
    assert _depending(steps, 10, 20, 30, 50, 80, 90) == [
        (WW, 10, 50, 7, 90_000, 104),
        (WW, 50, 20, 7, 90_000, 106),
        (WR, 30, 90, 8, 300_000, 108),
        (RW, 90, 50, 7, 90_000, 104),
    ]
    assert _depending(steps, 10, 20, 30, 80, 90) == [(WR, 30, 90, 8, 300_000, 108)], (
        "what 50 wrote is next, all the same"
    )


def _depending(steps: TransactionSteps, *operations: int) -> list[tuple[int, ...]]:
    """Edges between these transactions."""
    nodes = TransactionTable(*(np.array(operations) for _ in range(5)))
    edges = dependencies(steps, nodes)
    ends = nodes.op[edges.source], nodes.op[edges.destination]
    return [
        tuple(map(int, each)) for each in zip(edges.kind, *ends, edges.place, edges.offset, edges.value, strict=True)
    ]


def test_what_goes_back_and_what_does_not_are_told_apart() -> None:
    """Whatever order the nodes are given in: a ring of many among what only goes forward, of any length."""
    random = np.random.default_rng(2)
    nodes, ring = 20_000, 300
    order = random.permutation(nodes)
    forward = [(WW, order[i], order[i + 1]) for i in range(nodes - 1)]
    back = [(WR, order[5000 + ring], order[5000]), (RW, order[9000], order[8990])]
    graph = _graph(nodes, [(kind, int(source), int(destination)) for kind, source, destination in forward + back])
    invoked = np.empty(nodes, np.int64)
    invoked[order] = np.arange(nodes)
    for each in (graph, with_time(graph, invoked, invoked + 2 * nodes, np.ones(nodes, np.bool_))):
        found = _search(each)
        assert {name: (told.count, len(told.cycles[0])) for name, told in found.items()} == {
            "G1c ww": (1, ring + 1),
            "G-single": (1, 11),
        }


def test_a_million_dependencies_are_searched_in_time() -> None:
    """Forward in time but for a few, and one large component of reads that are behind."""
    random = np.random.default_rng(1)
    nodes, count = 200_000, 300_000
    source = random.integers(0, nodes - 50, count)
    parts = [(WW, source, source + random.integers(1, 50, count)), (WR, source, source + random.integers(1, 50, count))]
    parts += [(RW, source + random.integers(1, 50, count), source), (WR, np.array([500, 600]), np.array([600, 500]))]
    kind = np.concatenate([np.full(len(sources), number, np.int8) for number, sources, _ in parts])
    graph = Graph(nodes, nodes, kind, *(np.concatenate([part[side] for part in parts]) for side in (1, 2)))
    invoked = np.arange(nodes) * 1000
    began = time.process_time()
    found = _search(with_time(graph, invoked, invoked + 60_000, np.ones(nodes, np.bool_)))
    assert found["G1c wr"].count == 1
    assert len(found["G1c wr"].cycles[0]) == 2
    assert time.process_time() - began < 10


def test_a_long_cycle_is_told_in_time() -> None:
    """Step by step, without a look at all edges for each."""
    nodes = 200_000
    source = np.arange(nodes)
    graph = Graph(nodes, nodes, np.full(nodes, WW, np.int8), source, np.roll(source, -1))
    began = time.process_time()
    found = _search(graph)
    assert len(found["G0"].cycles[0]) == nodes
    assert time.process_time() - began < 10
