"""Packets that a node does not let pass: iptables in the node's own network namespace, and nowhere else.

Every injection has two chains of its own on each node it is about, one for what comes in and one for what goes out,
named by its tag. They are filled first and jumped to last, so that they work all at once; the way back is one script
that does no harm where there is nothing to undo. The kernel counts what each rule took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from harness.clusters.node import NodeState
from harness.foundation.errors import ClusterError
from nemesis.base import FaultContext

Way = Literal["in", "out"]
HOOKS: dict[Way, str] = {"in": "INPUT", "out": "OUTPUT"}
IPTABLES = "iptables -w 5"
TAKES = frozenset({"DROP", "REJECT"})
RESET = "REJECT --reject-with tcp-reset"
BACK = "RETURN"


@dataclass(frozen=True)
class PacketRule:
    """A rule on one node."""

    node: int
    way: Way
    match: str  # the packets, in iptables' words
    verdict: str = "DROP"


def build(tag: str, packet_rules: Sequence[PacketRule]) -> str:
    """The script that makes the chains of one node."""
    ways = [way for way in HOOKS if any(wall.way == way for wall in packet_rules)]
    lines = ["set -e", *(f"{IPTABLES} -N {tag}-{way}" for way in ways)]
    lines += [f"{IPTABLES} -A {tag}-{wall.way} {wall.match} -j {wall.verdict}" for wall in packet_rules]
    lines += [f"{IPTABLES} -I {HOOKS[way]} 1 -j {tag}-{way}" for way in ways]
    return "\n".join(lines)


def tear_down(tag: str) -> str:
    """The script that removes them, however much of them there is; it fails where something is left."""
    lines = []
    for way, hook in HOOKS.items():
        chain = f"{tag}-{way}"
        lines.append(f"while {IPTABLES} -D {hook} -j {chain} 2>/dev/null; do :; done")
        lines += [f"{IPTABLES} {action} {chain} 2>/dev/null" for action in ("-F", "-X")]
    lines += [f"rules=$({IPTABLES} -S) || exit 1", f'case "$rules" in *" {tag}-in"*|*" {tag}-out"*) exit 1;; esac']
    return "\n".join(lines)


def taken(listing: str) -> int:
    """How many packets the rules of listed chains have taken."""
    rows = [line.split() for line in listing.splitlines()]
    return sum(int(row[0]) for row in rows if len(row) > 2 and row[2] in TAKES)


def addresses(context: FaultContext, nodes: Iterable[int]) -> dict[int, str]:
    """By which their peers know these nodes; a dead one may have none, and nothing has to be kept from it."""
    found = {}
    for node in nodes:
        try:
            found[node] = context.cluster.peer_address(node)
        except ClusterError:
            if context.cluster.state(node) is not NodeState.DEAD:
                raise
    return found


def mend_all(context: FaultContext, nodes: Iterable[int]) -> None:
    """Undo what the injection did to these networks; one that cannot be reached keeps no other from being mended."""
    errors = []
    for node in nodes:
        try:
            context.cluster.mend_network(node, context.tag)
        except ClusterError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def left_on(context: FaultContext, nodes: Iterable[int], look: Callable[[int], str]) -> str:
    """What a look at each of these nodes finds; one that is down has no network to look into."""
    found = []
    for node in nodes:
        try:
            found.append(look(node))
        except ClusterError:
            if context.cluster.state(node) is not NodeState.DEAD:
                raise
    return "; ".join(filter(None, found))


class Chains:
    """Those of one injection, on all nodes it is about."""

    def __init__(self, context: FaultContext) -> None:
        self._field = context
        self._tag = context.tag
        self._ways: dict[int, set[Way]] = {}  # by node, from the moment on that they may be there

    def put(self, packet_rules: Sequence[PacketRule]) -> None:
        """Install all rules, node by node; one that another fault has just killed needs none."""
        for node, own in groupby(sorted(packet_rules, key=lambda wall: wall.node), key=lambda wall: wall.node):
            here = list(own)
            self._ways[node] = {wall.way for wall in here}
            try:
                self._field.cluster.break_network(node, self._tag, build(self._tag, here), tear_down(self._tag))
            except ClusterError:
                if self._field.cluster.state(node) is not NodeState.DEAD:
                    raise

    def suspend(self) -> None:
        """Let everything pass for a while; the chains and what they counted stay."""
        self._jump("-D {hook} -j {chain}")

    def resume(self) -> None:
        """End that while."""
        self._jump("-I {hook} 1 -j {chain}")

    def remove(self) -> None:
        """Leave nothing of them."""
        mend_all(self._field, self._ways)

    def taken(self) -> dict[int, int]:
        """How many packets did not pass, by node; nothing of a node whose network went away with it."""
        listed = {
            node: self._unless_gone(node, *(f"{IPTABLES} -nvxL {self._tag}-{way}" for way in sorted(ways)))
            for node, ways in self._ways.items()
        }
        return {node: taken(listing) for node, listing in listed.items() if listing is not None}

    def left(self) -> str:
        """Where there still are some, in a few words."""
        return left_on(self._field, self._ways, self._left_on)

    def _left_on(self, node: int) -> str:
        rules = self._inside(node, f"{IPTABLES} -S").split()
        return (
            f"node {node} still has chains of {self._tag}"
            if any(f"{self._tag}-{way}" in rules for way in HOOKS)
            else ""
        )

    def _jump(self, how: str) -> None:
        for node, ways in self._ways.items():
            jumps = [how.format(hook=HOOKS[way], chain=f"{self._tag}-{way}") for way in sorted(ways)]
            self._unless_gone(node, *(f"{IPTABLES} {jump}" for jump in jumps))

    def _unless_gone(self, node: int, *commands: str) -> str | None:
        """What they print; None where the chains are gone, because the node died and perhaps came back since."""
        try:
            return self._inside(node, *commands)
        except ClusterError:
            if left_on(self._field, [node], self._left_on):
                raise
            return None

    def _inside(self, node: int, *commands: str) -> str:
        return self._field.cluster.inside(node, "\n".join(["set -e", *commands]))
