"""A cluster on paper whose nodes have networks: scripts change tables, and packets can be asked whether they pass."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from harness.clusters.base import LOG_TAIL_LINES, Cluster
from harness.clusters.cluster_view import ClusterView, PartitionView
from harness.clusters.node import Capability, Node, NodeState
from harness.clusters.target import ReadyCheck
from harness.foundation.errors import ClusterError
from nemesis.base import Fault, FaultContext

PORTS = {"client": 9092, "broker": 9093, "controller": 9094}
_LOOP = re.compile(r"while (.*); do :; done")
_LISTED = """Chain {} (1 references)
    pkts      bytes target     prot opt in     out     source               destination
{:8d}      100 DROP       all  --  *      *       10.0.0.9             0.0.0.0/0
       7       70 RETURN     all  --  *      *       10.0.0.9             0.0.0.0/0
"""


class Refused(Exception):
    """What iptables says to a command that makes no sense."""


@dataclass
class Table:
    """The filter table of one node: chains of rules, each a list of words, with a count each."""

    chains: dict[str, list[list[str]]] = field(default_factory=lambda: {"INPUT": [], "OUTPUT": []})
    taken: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def run(self, script: str) -> str:
        """What the script prints; the few forms that ours have."""
        said, strict = "", False
        for line in script.splitlines():
            if loop := _LOOP.fullmatch(line):
                while self._tried(loop[1]):
                    pass
            elif line == "set -e":
                strict = True
            elif line.startswith("case "):
                if any(chain in line for chain in self.chains if chain not in {"INPUT", "OUTPUT"}):
                    raise Refused(line)
            elif line.startswith("iptables "):
                try:
                    said += self._command(line.removesuffix(" 2>/dev/null").split()[3:])
                except Refused:
                    if strict:
                        raise
            else:
                assert line.startswith("rules=$("), line
        return said

    def passes(self, hook: str, peer: str, port: int, interface: str = "eth0") -> str:
        """What becomes of a packet from or to this address, for this port."""
        for jump in self.chains[hook]:
            assert jump[0] == "-j"
            for rule in self.chains[jump[1]]:
                if _matches(rule, peer, port, interface):
                    verdict = rule[rule.index("-j") + 1]
                    if verdict == "RETURN":
                        break
                    self.taken[jump[1]] += 1
                    return verdict
        return "ACCEPT"

    def _tried(self, line: str) -> bool:
        try:
            self._command(line.removesuffix(" 2>/dev/null").split()[3:])
        except Refused:
            return False
        return True

    def _command(self, words: list[str]) -> str:
        action, chain, *rest = [*words, ""] if len(words) == 1 else words
        if action == "-S":
            return "\n".join(f"-N {name}" for name in self.chains)
        if (chain in self.chains) is (action == "-N"):
            raise Refused(f"{chain} exists, or does not")
        if action == "-nvxL":
            return _LISTED.format(chain, self.taken[chain])
        change = {"-N": self._new, "-A": self._append, "-I": self._insert, "-D": self._delete}
        change |= {"-F": self._flush, "-X": self._remove}
        change[action](chain, rest)
        return ""

    def _new(self, chain: str, _: list[str]) -> None:
        self.chains[chain] = []

    def _append(self, chain: str, rule: list[str]) -> None:
        self.chains[chain].append(rule)

    def _insert(self, chain: str, rule: list[str]) -> None:
        if rule[2] not in self.chains:
            raise Refused(f"no chain {rule[2]}")
        self.chains[chain].insert(int(rule[0]) - 1, rule[1:])

    def _delete(self, chain: str, rule: list[str]) -> None:
        if rule not in self.chains[chain]:
            raise Refused("no such rule")
        self.chains[chain].remove(rule)

    def _flush(self, chain: str, _: list[str]) -> None:
        self.chains[chain].clear()

    def _remove(self, chain: str, _: list[str]) -> None:
        if self.chains[chain] or any(chain in jump for hook in ("INPUT", "OUTPUT") for jump in self.chains[hook]):
            raise Refused(f"{chain} is in use")
        del self.chains[chain]


def _matches(rule: list[str], peer: str, port: int, interface: str) -> bool:
    words = rule[: rule.index("-j")]
    if "-i" in words and (words[words.index("-i") - 1] == "!") == (words[words.index("-i") + 1] == interface):
        return False
    wanted = {key: words[words.index(key) + 1] for key in ("-s", "-d", "--dport") if key in words}
    return wanted.get("-s", wanted.get("-d", peer)) == peer and wanted.get("--dport", str(port)) == str(port)


class PaperNetwork(Cluster):
    """Nodes with addresses and tables; who leads is what the test says."""

    kind = "paper"

    def __init__(self, count: int = 3) -> None:
        super().__init__("product", "1.0", ReadyCheck("kafka", 5))
        self.nodes = tuple(Node(n, f"h:{n}", {"broker": f"b:{n}", "client": f"h:{n}"}) for n in range(1, count + 1))
        self.tables = {node.id: Table() for node in self.nodes}
        self.journal: dict[tuple[int, str], str] = {}
        self.views: dict[tuple[str, int], PartitionView] = {}
        self.told: dict[int, dict[tuple[str, int], PartitionView]] = {}  # what single nodes say instead
        self.silent: set[int] = set()
        self.failing: set[int] = set()  # whose scripts fail half-way
        self.dead: set[int] = set()
        self.scripts: list[tuple[int, str]] = []
        self.answer: str | None = None  # to whatever is asked inside

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All that these faults need."""
        return frozenset({Capability.PARTITION, Capability.SHAPE})

    def peer_address(self, node_id: int) -> str:
        """By its number."""
        return f"10.0.0.{node_id}"

    def inner_port(self, node_id: int, listener: str) -> int:
        """Another one on each node."""
        return PORTS[listener] + 100 * node_id

    def inside(self, node_id: int, script: str) -> str:
        """Run on the table, or the prepared answer."""
        self.scripts.append((node_id, script))
        if node_id in self.dead:
            raise ClusterError("there is no network", "none")
        try:
            return self.tables[node_id].run(script) if self.answer is None else self.answer
        except Refused as error:
            raise ClusterError(str(error), "none") from error

    def break_network(self, node_id: int, name: str, script: str, undo: str) -> None:
        """Journal first; a node that fails does only the first half."""
        self.journal[node_id, name] = undo
        if node_id in self.failing:
            lines = script.splitlines()
            self.inside(node_id, "\n".join(lines[: len(lines) // 2]))
            raise ClusterError("half-way", "none")
        self.inside(node_id, script)

    def mend_network(self, node_id: int, name: str) -> None:
        """What the journal says."""
        if undo := self.journal.pop((node_id, name), None):
            self.inside(node_id, undo)

    def connected(self, one: int, other: int, listener: str = "broker") -> bool:
        """Whether requests from one node reach a listener of the other, and the answers come back."""
        there, back = self.inner_port(other, listener), 50_000
        return all(
            verdict == "ACCEPT"
            for verdict in (
                self.tables[one].passes("OUTPUT", self.peer_address(other), there),
                self.tables[other].passes("INPUT", self.peer_address(one), there),
                self.tables[other].passes("OUTPUT", self.peer_address(one), back),
                self.tables[one].passes("INPUT", self.peer_address(other), back),
            )
        )

    def cut_pairs(self, listener: str = "broker") -> set[tuple[int, int]]:
        """Who does not reach this listener of whom."""
        ids = [node.id for node in self.nodes]
        return {(a, b) for a in ids for b in ids if a != b and not self.connected(a, b, listener)}

    def client_reaches(self, node_id: int) -> bool:
        """Whether somebody outside reaches the listener for clients."""
        table, port = self.tables[node_id], self.inner_port(node_id, "client")
        return table.passes("INPUT", "10.0.0.254", port) == table.passes("OUTPUT", "10.0.0.254", 50_000) == "ACCEPT"

    def reaches_itself(self, node_id: int) -> bool:
        """By its own address, over the loopback interface."""
        address = self.peer_address(node_id)
        ways = [
            self.tables[node_id].passes(hook, address, self.inner_port(node_id, listener), "lo")
            for hook in ("INPUT", "OUTPUT")
            for listener in PORTS
        ]
        return set(ways) == {"ACCEPT"}

    def untouched(self) -> bool:
        """Whether no table has anything of ours."""
        return all(table.chains == {"INPUT": [], "OUTPUT": []} for table in self.tables.values())

    def look(self, nodes: Any, topics: Any, security: Any) -> ClusterView:
        """What `observe` would find."""
        alive = [node.id for node in self.nodes if node.id not in self.silent | self.dead]
        seen = {node: {**self.views, **self.told.get(node, {})} for node in alive}
        return ClusterView(tuple(topics), seen, dict.fromkeys(sorted(self.silent | self.dead), "refused"))

    def _bring_up(self) -> None:
        raise NotImplementedError

    def stop_node(self, node_id: int) -> None:
        """Not used."""

    def kill(self, node_id: int) -> None:
        """Not used."""

    def pause(self, node_id: int) -> None:
        """Not used."""

    def resume(self, node_id: int) -> None:
        """Not used."""

    def start_node(self, node_id: int) -> None:
        """Not used."""

    def state(self, node_id: int) -> NodeState:
        """Dead or running."""
        return NodeState.DEAD if node_id in self.dead else NodeState.RUNNING

    def log_tail(self, node_id: int, lines: int = LOG_TAIL_LINES) -> list[str]:
        """Nothing."""
        return []


def context_on(cluster: Cluster, fault: type[Fault], target: str = "", seed: int = 0, **options: Any) -> FaultContext:
    """The context of a fault, with the topic t in use."""
    chance = random.Random(seed)
    told = {**fault.options, **options}
    return FaultContext(cluster, lambda: ["t"], chance, target or fault.roles[0], lambda: 100.0, told, "tg1")
