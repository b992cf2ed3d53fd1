"""Loss and bandwidth on a cluster on paper, and what the taps are told to do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.clusters.cluster_view import PartitionView
from harness.foundation.errors import ClusterError
from harness.tap.rules import Rule
from nemesis import base
from nemesis.base import Fault, FaultEvidence
from nemesis.network import FAULTS, Bandwidth, Jitter, Latency, OnTheWire, PacketLoss, Reset, SlowClose
from nemesis.tap_rules import AtTheTap
from tests.support.fake_network import PaperNetwork, context_on

SHOWN = "qdisc tbf 8001: root refcnt 2 rate 512Kbit burst 16Kb lat 400ms\n"
COUNTED = " Sent {} bytes 99 pkt (dropped 0, overlimits {} requeues 0)\n backlog 0b 0p requeues 0\n"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> PaperNetwork:
    """One partition, led by node 1, all in sync."""
    made = PaperNetwork()
    made.views["t", 0] = PartitionView(1, 4, (1, 2, 3), (1, 2, 3))
    monkeypatch.setattr(base, "observe", made.look)
    return made


def test_loss_hits_all_that_comes_from_outside(cluster: PaperNetwork) -> None:
    """Peers and clients, and not the loopback; by the probability that was asked for."""
    fault = PacketLoss(context_on(cluster, PacketLoss, probability=0.25))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence == "node 1 (leader of t-0) loses 25% of what comes in"
    fault.inject()
    (rule,) = cluster.tables[1].chains["tg1-in"]
    assert " ".join(rule) == "! -i lo -m statistic --mode random --probability 0.250000 -j DROP"
    assert cluster.reaches_itself(1)
    assert not cluster.client_reaches(1)
    assert cluster.cut_pairs() == {(1, 2), (2, 1), (1, 3), (3, 1)}


def test_loss_is_proven_by_every_node_that_should_lose(cluster: PaperNetwork) -> None:
    """With the numbers."""
    fault = PacketLoss(context_on(cluster, PacketLoss, "all-but-leader"))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence == "nodes 2, 3 (followers of t-0) lose 30% of what comes in"
    fault.inject()
    cluster.tables[2].taken["tg1-in"] = 1200
    assert fault.proof() is None
    cluster.tables[3].taken["tg1-in"] = 3
    assert fault.proof() == FaultEvidence("packets lost: 1,200 to node 2, 3 to node 3")
    assert "node 2 still has chains of tg1; node 3" in fault.healed()
    fault.undo()
    fault.undo()
    assert cluster.untouched()
    assert not fault.healed()


def slow(cluster: PaperNetwork, target: str = "", **options: Any) -> Bandwidth:
    """A limit that is there."""
    fault = Bandwidth(context_on(cluster, Bandwidth, target, **options))
    assert fault.aim() is not None
    cluster.answer = ""
    fault.inject()
    return fault


@pytest.mark.parametrize(
    ("rate", "limit", "burst"), [("64KiB", 65536, 655), ("10MB/s", 10**7, 10**5), (5000, 5000, 50)]
)
def test_bandwidth_is_in_bytes(cluster: PaperNetwork, rate: str | int, limit: int, burst: int) -> None:
    """On the interface that has the address by which peers reach the node."""
    slow(cluster, rate=rate)
    ((node, script),) = cluster.scripts
    assert node == 1
    assert "ip -o -4 addr show to 10.0.0.1/32" in script
    assert f'tc qdisc replace dev "$dev" root tbf rate {limit}bps burst "$burst" ' in script
    assert f"2 * $5 > {burst} ? 2 * $5 : {burst} " in script
    assert "tc qdisc del" in cluster.journal[1, "tg1"]


def test_bandwidth_is_proven_by_waiting(cluster: PaperNetwork) -> None:
    """The kernel counts how often a packet had to wait; one that sends nothing proves nothing."""
    fault = slow(cluster)
    for no_proof in ("qdisc noqueue 0: root refcnt 2\n", COUNTED.format(900, 0), COUNTED.format(0, 9)):
        cluster.answer = SHOWN + no_proof
        assert fault.proof() is None
    cluster.answer = SHOWN + COUNTED.format(123456, 42)
    assert fault.proof() == FaultEvidence("node 1 was held back 42 times while it sent 123,456 bytes", 1)


def test_bandwidth_is_proven_on_every_node(cluster: PaperNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not on one of them."""
    fault = slow(cluster, "all")
    said = {1: 1, 2: 0, 3: 1}
    monkeypatch.setattr(cluster, "inside", lambda node, _: SHOWN + COUNTED.format(10, said[node]))
    assert fault.proof() is None
    said[2] = 7
    bite = fault.proof()
    assert bite is not None
    assert "node 2 was held back 7 times" in bite.sentence


@pytest.mark.parametrize("back", [False, True], ids=["dead", "back without a limit"])
def test_a_node_that_died_need_not_be_held_back(
    cluster: PaperNetwork, monkeypatch: pytest.MonkeyPatch, *, back: bool
) -> None:
    """Another fault killed it; the others prove it, as long as there are any."""
    fault = slow(cluster, "all")
    gone = {2}

    def inside(node: int, _: str) -> str:
        if node in gone and not back:
            raise ClusterError("there is no network", "none")
        return ("qdisc noqueue 0: root\n" if node in gone else SHOWN) + COUNTED.format(10, 1)

    monkeypatch.setattr(cluster, "inside", inside)
    if not back:
        with pytest.raises(ClusterError, match="no network"):
            fault.proof()
        cluster.dead = {1, 2, 3}
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence.count("was held back 1 times") == 2
    gone |= {1, 3}
    assert fault.proof() is None


@pytest.mark.parametrize("kind", [PacketLoss, Bandwidth])
def test_nodes_that_do_not_answer_are_left_out(cluster: PaperNetwork, kind: type[OnTheWire]) -> None:
    """They may not even have an address."""
    cluster.silent = {2}
    fault = kind(context_on(cluster, kind, "all"))
    assert fault.aim() is not None
    assert fault.chosen.nodes == (1, 3)
    cluster.silent = {1, 2, 3}
    assert kind(context_on(cluster, kind, "all")).aim() is None


def test_loss_is_proven_by_those_that_live(cluster: PaperNetwork) -> None:
    """One that was killed has lost nothing that anybody could count."""
    fault = PacketLoss(context_on(cluster, PacketLoss, "all"))
    assert fault.aim() is not None
    fault.inject()
    for table in cluster.tables.values():
        table.taken["tg1-in"] = 5
    cluster.dead = {1, 3}
    assert fault.proof() == FaultEvidence("packets lost: 5 to node 2")
    cluster.dead = {1, 2, 3}
    assert fault.proof() is None


@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [
        (Latency, {"by": 0}, "'latency' by 0 s is no fault"),
        (Jitter, {"by": 0}, "'jitter' by 0 s is no fault"),
        (SlowClose, {"by": 0}, "'slow-close' by 0 s is no fault"),
        (Jitter, {"by": 0.1, "jitter": 0.3}, "the jitter of 'jitter' is 0.3 s, and it cannot be more than the 0.1 s"),
        (Jitter, {"jitter": 0.3}, "the jitter of 'jitter' is 0.3 s, and it cannot be more than the 0.2 s"),
        (PacketLoss, {"probability": 0.0009}, "the probability of 'packet-loss' is 0.001 at least"),
        (Bandwidth, {"rate": 0}, "'bandwidth': 0 is not between"),
        (Bandwidth, {"rate": "fast"}, "'bandwidth': 'fast' is no rate"),
    ],
)
def test_what_cannot_bite_is_refused(kind: type[Fault], options: dict[str, Any], why: str) -> None:
    """In a sentence, with the defaults filled in or not."""
    assert kind.refuse(options).startswith(why)
    assert kind.refuse({**kind.options, **options}).startswith(why)


@pytest.mark.parametrize("kind", FAULTS)
def test_the_defaults_can_bite(kind: type[Fault]) -> None:
    """As can no options at all."""
    assert kind.refuse({}) == kind.refuse(kind.options) == ""


@pytest.mark.parametrize("kind", [fault for fault in FAULTS if issubclass(fault, AtTheTap)])
def test_probes_are_not_hit(kind: type[AtTheTap]) -> None:
    """Where the load is ours, only its clients are."""
    where = context_on(PaperNetwork(), kind)
    assert kind(where).rule((1,)).client == ""
    assert kind(replace(where, clients=cast("Any", SimpleNamespace()))).rule((1,)).client == "tidegauge-*er-*"


def test_bandwidth_is_healed_when_the_limit_is_gone(cluster: PaperNetwork) -> None:
    """Every node that has a network is asked."""
    fault = slow(cluster, "all")
    fault.undo()
    fault.undo()
    assert not cluster.journal
    cluster.answer = SHOWN
    assert fault.healed().count("still has a limit") == 3
    cluster.dead = {1, 2}
    assert fault.healed() == "node 3 still has a limit on what it sends"
    cluster.answer = "qdisc noqueue 0: root refcnt 2\n"
    assert not fault.healed()


def test_one_node_that_is_gone_keeps_no_other_from_being_mended(cluster: PaperNetwork) -> None:
    """The error is told."""
    fault = slow(cluster, "all")
    cluster.dead = {1}
    with pytest.raises(ClusterError, match="there is no network"):
        fault.undo()
    assert not cluster.journal


@pytest.mark.parametrize("kind", [PacketLoss, Bandwidth])
def test_a_fault_without_a_victim_is_not_injected(cluster: PaperNetwork, kind: type[OnTheWire]) -> None:
    """Aim comes first."""
    cluster.silent = {1, 2, 3}
    fault = kind(context_on(cluster, kind))
    assert fault.aim() is None
    with pytest.raises(ClusterError, match="call aim"):
        fault.inject()
    fault.undo()
    assert not fault.healed()


@pytest.mark.parametrize(
    ("kind", "options", "wanted"),
    [
        (Latency, {}, {"action": "delay", "side": "response", "by": 0.2}),
        (Latency, {"by": 1.5}, {"action": "delay", "side": "response", "by": 1.5}),
        (Jitter, {}, {"action": "delay", "side": "response", "by": 0.2, "jitter": 0.2}),
        (Jitter, {"by": 0.1}, {"action": "delay", "side": "response", "by": 0.1, "jitter": 0.1}),
        (SlowClose, {}, {"action": "close", "by": 2.0, "probability": 0.05}),
        (Reset, {"probability": 0.5}, {"action": "reset", "probability": 0.5}),
    ],
)
def test_the_taps_are_told_by_a_rule(kind: type[AtTheTap], options: dict[str, Any], wanted: dict[str, Any]) -> None:
    """For the nodes in their role, by the name of the injection."""
    rule = kind(context_on(PaperNetwork(), kind, **options)).rule((1, 3))
    assert rule == Rule(name="tg1", node=(1, 3), **wanted)


@pytest.mark.parametrize("kind", [fault for fault in FAULTS if issubclass(fault, AtTheTap)])
def test_a_rule_comes_acts_and_goes(cluster: PaperNetwork, kind: type[AtTheTap]) -> None:
    """Proven by what it has done."""
    rules: dict[str, Rule] = {}
    acted: dict[str, int] = {}
    taps = SimpleNamespace(
        bend=lambda rule: rules.update({rule.name: rule}),
        unbend=lambda name: rules.pop(name, None),
        release=lambda _: None,
        acted=lambda name: acted.get(name, 0),
    )
    fault = kind(context_on(cluster, kind, "leader"))
    object.__setattr__(fault.context, "taps", cast("Any", taps))
    aim = fault.aim()
    assert aim is not None
    fault.inject()
    assert rules["tg1"].nodes == {1}
    assert fault.proof() is None
    acted["tg1"] = 1234
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence.startswith("1,234 ")
    fault.undo()
    fault.undo()
    assert not rules
