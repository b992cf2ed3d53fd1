"""Faults in a row, on a cluster that exists on paper only: each step when the one before has had its effect."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from harness.clusters.cluster_view import PartitionView
from harness.clusters.node import NodeState
from harness.foundation.errors import ClusterError
from nemesis import base
from nemesis.base import Fault
from nemesis.log_files import batches
from nemesis.network import Bandwidth
from nemesis.sequences import FAULTS, CutKill, DoubleKill, LastStanding, PauseKill, StaleHeir
from tests.support.fake_cluster import CAPABLE, WHOLE, Paper, context_on

T0 = "t", 0
ALONE = PartitionView(1, 4, (1, 2, 3), (1,))
LED_BY_2 = PartitionView(2, 5, (1, 2, 3), (2, 3))
LED_BY_3 = PartitionView(3, 6, (1, 2, 3), (3,))
NOBODY = PartitionView(-1, 5, (1, 2, 3), (1,))


class PaperCluster(Paper):
    """With data in directories."""

    data = Path()

    def data_dir(self, node_id: int) -> Path:
        """Below the test's own."""
        return self.data / str(node_id)


class Clock:
    """Stands still until it is told otherwise."""

    now_s = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PaperCluster:
    """One partition, led by node 1, all in sync, of which node 1 has three batches and node 2 one."""
    made = PaperCluster(*CAPABLE)
    made.views[T0] = WHOLE
    made.data = tmp_path
    monkeypatch.setattr(base, "observe", made.look)
    for node, count in ((1, 4), (2, 1)):
        directory = tmp_path / str(node) / "t-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(b"".join(batch(10 * number) for number in range(count)))
    return made


def batch(offset: int) -> bytes:
    """Ten records, as far as anybody looks."""
    return struct.pack(">qi11xi", offset, 40, 9) + bytes(52 - 27)


def begun(fault: Fault) -> str:
    """Aimed and injected; what it said it would do."""
    aim = fault.aim()
    assert aim is not None
    fault.inject()
    return aim.sentence


def done(cluster: Paper) -> list[tuple[str, int]]:
    """What was done to nodes since the last look."""
    found, cluster.done = cluster.done, []
    return found


@pytest.mark.parametrize(("kind", "held"), [(CutKill, []), (PauseKill, [("pause", 2), ("pause", 3)])])
def test_a_leader_is_killed_when_its_followers_have_fallen_behind(
    cluster: PaperCluster, kind: type[Fault], held: list[tuple[str, int]]
) -> None:
    """Not before the time that was asked for, and while they count as in sync; then they may go on."""
    clock = Clock()
    fault = kind(replace(context_on(cluster, kind), clock=clock))
    assert begun(fault).endswith(" for 3 s, then node 1, leader of t-0, dies")
    assert done(cluster) == held
    clock.now_s += 2.9
    assert fault.proof() is None
    assert done(cluster) == []
    clock.now_s += 0.2
    assert fault.proof() is None
    assert done(cluster) == [("kill", 1), *(("resume", node) for _, node in held)]
    cluster.views[T0] = LED_BY_2
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == "leader of t-0: 1 → 2 (epoch 4 → 5) 0.0 s after the kill"
    fault.undo()
    assert done(cluster) == [("start", 1)]
    assert fault.healed() == ""
    assert cluster.networks[-1:] in ([("mend", 1)], [])


def test_followers_that_were_missed_make_no_such_kill(cluster: PaperCluster) -> None:
    """Nobody could lead then, which is another fault; it is said, and undone."""
    clock = Clock()
    fault = CutKill(replace(context_on(cluster, CutKill), clock=clock))
    begun(fault)
    clock.now_s += 4
    cluster.views[T0] = ALONE
    with pytest.raises(ClusterError, match="left out of the replicas in sync after"):
        fault.proof()
    fault.undo()
    assert cluster.state(1) is NodeState.RUNNING


@pytest.mark.parametrize("kind", [CutKill, PauseKill])
def test_a_lag_begins_with_everybody_in_sync(cluster: PaperCluster, kind: type[Fault]) -> None:
    """Otherwise the heir may be one that lags for another reason."""
    cluster.views[T0] = replace(WHOLE, isr=(1, 2))
    assert kind(context_on(cluster, kind)).aim() is None


def test_an_undo_in_the_middle_lets_everybody_go_on(cluster: PaperCluster) -> None:
    """Before anybody was killed."""
    fault = PauseKill(context_on(cluster, PauseKill))
    begun(fault)
    fault.undo()
    assert (cluster.paused, cluster.dead, fault.healed()) == (set(), set(), "")


def test_nobody_can_copy_from_the_heir(cluster: PaperCluster) -> None:
    """The first replica in sync behind the leader, before whose port there is a wall when the leader dies."""
    fault = StaleHeir(context_on(cluster, StaleHeir))
    begun(fault)
    ((script, node),) = cluster.networks
    assert node == 2
    assert "-s 10.0.0.3 --dport 9002 -j DROP" in script
    assert done(cluster) == [("kill", 1)]
    assert fault.proof() is None
    cluster.views[T0] = LED_BY_2
    assert fault.proof() is not None
    fault.undo()
    assert (done(cluster), fault.healed()) == ([("start", 1)], "")


@pytest.mark.parametrize("kind", [StaleHeir, DoubleKill])
def test_two_heirs_are_needed(cluster: PaperCluster, kind: type[Fault]) -> None:
    """One to lead, and one to follow it."""
    cluster.views[T0] = replace(WHOLE, isr=(1, 2))
    assert kind(context_on(cluster, kind)).aim() is None


def test_the_heir_dies_as_well(cluster: PaperCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second after it was seen to lead; the first one comes back then, and the third leads."""
    slow: list[int] = []
    monkeypatch.setattr(Bandwidth, "limit", lambda _, node: slow.append(node))
    clock = Clock()
    fault = DoubleKill(replace(context_on(cluster, DoubleKill), clock=clock))
    assert begun(fault) == "SIGKILL of node 1, leader of t-0, and then of node 2"
    assert (slow, fault.out_of_service) == ([2], frozenset({1, 2}))
    cluster.views[T0] = LED_BY_2
    assert fault.proof() is None
    assert done(cluster) == [("kill", 1)]
    clock.now_s += 1
    assert fault.proof() is None
    assert done(cluster) == [("kill", 2), ("start", 1)]
    assert fault.proof() is None
    cluster.views[T0] = LED_BY_3
    bite = fault.proof()
    assert bite is not None
    assert bite.leader == 3
    fault.undo()
    assert (done(cluster), fault.healed()) == ([("start", 2)], "")


def test_the_last_one_in_sync_loses_its_power(cluster: PaperCluster) -> None:
    """When it is alone, and with it all that was not flushed; it comes back when it was missed."""
    (cluster.data / "1/recovery-point-offset-checkpoint").write_text("0\n1\nt 0 20\n")
    fault = LastStanding(context_on(cluster, LastStanding))
    begun(fault)
    assert fault.proof() is None
    assert done(cluster) == []
    cluster.views[T0] = ALONE
    assert fault.proof() is None
    assert done(cluster) == [("kill", 1)]
    assert [offset for offset, _ in batches(next((cluster.data / "1/t-0").glob("*.log")))] == [0, 10]
    assert fault.proof() is None
    assert done(cluster) == []
    cluster.views[T0] = NOBODY
    assert fault.proof() is None
    assert done(cluster) == [("start", 1)]
    cluster.views[T0] = replace(ALONE, leader_epoch=6)
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == "node 1 alone was in sync, lost 20 records of t-0 with its power; it leads again"
    fault.undo()
    assert fault.healed() == ""


def test_another_one_may_have_missed_nothing(cluster: PaperCluster) -> None:
    """Eligible leader replicas: nobody waits for the one that lost its power."""
    fault = LastStanding(context_on(cluster, LastStanding))
    begun(fault)
    cluster.views[T0] = ALONE
    fault.proof()
    cluster.views[T0] = LED_BY_2
    fault.proof()
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence.endswith("2 leads, which had missed nothing")


def test_none_of_them_is_drawn_by_chance() -> None:
    """They are made for one purpose, and while they last nothing need get through."""
    assert not any(fault.tame for fault in FAULTS)
    assert all(fault.blocks and fault.changes_leaders for fault in FAULTS)
