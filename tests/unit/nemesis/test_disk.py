"""Faults of disks, on a cluster that exists on paper and data that exists in a directory."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.cluster_view import PartitionView
from harness.clusters.node import Capability, NodeState
from harness.foundation.errors import ClusterError
from nemesis import base, on_disks
from nemesis.base import Fault
from nemesis.disk import CutTail, DiskFail, DiskFull, DiskSlow, DiskWipe
from nemesis.log_files import Tail, batches, recovery_points
from nemesis.node_states import start
from nemesis.process import Kill
from tests.support.fake_cluster import CAPABLE, WHOLE, Paper, context_on, stepped

MOVED = PartitionView(2, 5, (1, 2, 3), (2, 3))


class PaperDisk:
    """A disk that notes what is done to it."""

    def __init__(self, cluster: PaperCluster, node: int) -> None:
        self.cluster, self.node = cluster, node
        self.mount, self.image = Path(f"/mount/{node}"), Path(f"/image/{node}")
        self.filled = self.broken = self.frozen = self.attached = False
        self.free = 0  # bytes that somebody gave back since it was filled
        self.elsewhere = False  # whether the node's data does not lie on it
        self.took_s = [0.001]
        self.stuck = False

    def _note(self, what: str) -> None:
        if self.stuck:
            raise ClusterError(f"cannot {what}", "none")
        self.cluster.done.append((what, self.node))

    def fill(self) -> int:
        """Full."""
        self._note("fill")
        self.filled, self.free = True, 0
        return 2_000_000_000

    def drain(self) -> None:
        """No longer."""
        self._note("drain")
        self.filled = False

    def is_filled(self) -> bool:
        """Whether it is."""
        return self.filled

    def free_bytes(self) -> int:
        """None, or some."""
        return self.free if self.filled else 1000

    def names(self) -> frozenset[str]:
        """What lies on it."""
        return frozenset() if self.elsewhere else frozenset({"t-0", "meta.properties"})

    def fail(self) -> None:
        """Broken."""
        self._note("fail")
        self.broken = True

    def detach(self) -> None:
        """Not broken any more, and not there."""
        self._note("detach")
        self.broken = False

    def attach(self) -> None:
        """There again."""
        self._note("attach")

    def freeze(self) -> None:
        """Frozen."""
        self._note("freeze")
        self.frozen = True

    def thaw(self) -> bool:
        """No longer."""
        self.frozen, was = False, self.frozen
        return was

    def write_s(self) -> float:
        """The next time in the list, the last one for ever."""
        if self.broken:
            raise OSError(5, "Input/output error")
        return self.took_s.pop(0) if len(self.took_s) > 1 else self.took_s[0]


class Notes:
    """A guard."""

    def __init__(self) -> None:
        self.entries: list[dict[str, str]] = []

    def record(self, **entry: str) -> None:
        """Noted."""
        self.entries.append(entry)


class PaperCluster(Paper):
    """With a disk and data for each node."""

    def __init__(self, data: Path) -> None:
        super().__init__(*CAPABLE, Capability.FILES, Capability.DISK)
        self.disks: Any = {n: PaperDisk(self, n) for n in (1, 2, 3)}
        self.data = data
        self.notes = Notes()

    @property
    def guard(self) -> Any:
        """Notes."""
        return self.notes

    def disk(self, node_id: int) -> Any:
        """On paper."""
        return self.disks[node_id]

    def data_dir(self, node_id: int) -> Path:
        """For real."""
        return self.data / f"node-{node_id}"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PaperCluster:
    """Node 1 leads the only partition, all are in sync, and each has data of it."""
    made = PaperCluster(tmp_path)
    made.views["t", 0] = WHOLE
    monkeypatch.setattr(base, "observe", made.look)
    monkeypatch.setattr(on_disks, "LEFT_OUT_TIMEOUT_S", 0)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    for node in (1, 2, 3):
        data = made.data_dir(node)
        for name in ("t-0", "__consumer_offsets-1", "__cluster_metadata-0"):
            (data / name).mkdir(parents=True)
            (data / name / f"{0:020}.log").write_bytes(b"")
        for name in ("meta.properties", "bootstrap.checkpoint", "replication-offset-checkpoint", ".lock"):
            (data / name).write_text("x")
        append(log_of(made, node), 0, 3, 2)
    return made


def log_of(cluster: PaperCluster, node: int, base_offset: int = 0) -> Path:
    """A segment of the partition."""
    return cluster.data_dir(node) / "t-0" / f"{base_offset:020}.log"


def append(log: Path, offset: int, *counts: int) -> None:
    """Batches of so many records."""
    with log.open("ab") as file:
        for count in counts:
            body = struct.pack(">ibIhi", 0, 2, 0, 0, count - 1) + b"r" * 40 * count
            file.write(struct.pack(">qi", offset, len(body)) + body)
            offset += count


def injected(cluster: PaperCluster, kind: type[Fault], target: str = "", seed: int = 0) -> Fault:
    """A fault that was aimed and injected."""
    fault = kind(context_on(cluster, kind, target, seed=seed))
    assert fault.aim() is not None
    fault.inject()
    return fault


def moved(cluster: PaperCluster) -> None:
    """Another leader, and node 1 out of sync."""
    cluster.views["t", 0] = MOVED


def test_a_full_disk_bites_when_the_node_died_of_it(cluster: PaperCluster) -> None:
    """And somebody else leads; it is emptied before the node starts."""
    fault = injected(cluster, DiskFull)
    assert cluster.disks[1].filled
    assert fault.proof() is None
    cluster.dead.add(1)
    assert fault.proof() is None
    moved(cluster)
    bite = fault.proof()
    assert bite
    assert bite.sentence == (
        "0 bytes are free on the disk of node 1 (2000 MB taken); node 1 does not answer while 2 of 3 do, "
        "leader of t-0: 1 → 2 (epoch 4 → 5), 0.0 s after the filling"
    )
    assert (bite.node, bite.leader, bite.leader_epoch) == (1, 2, 5)
    assert "full" in fault.healed()
    fault.undo()
    fault.undo()
    assert cluster.done == [("fill", 1), ("drain", 1), ("start", 1)]
    assert fault.healed() == ""


def test_a_node_that_may_be_dying_is_killed_before_it_is_started(cluster: PaperCluster) -> None:
    """It would die a moment later, with nobody left to start it."""
    fault = injected(cluster, DiskFull)
    fault.undo()
    assert cluster.done == [("fill", 1), ("kill", 1), ("drain", 1), ("start", 1)]


def test_an_undo_that_failed_is_made_up_for(cluster: PaperCluster) -> None:
    """The second time all of it is done."""
    fault = injected(cluster, DiskFull)
    cluster.disks[1].stuck = True
    with pytest.raises(ClusterError, match="cannot drain"):
        fault.undo()
    cluster.disks[1].stuck = False
    fault.undo()
    assert cluster.done == [("fill", 1), ("kill", 1), ("drain", 1), ("start", 1)]


def test_what_could_not_be_injected_is_undone_all_the_same(cluster: PaperCluster) -> None:
    """Half of it may have been done."""
    cluster.disks[1].stuck = True
    fault = DiskFull(context_on(cluster, DiskFull))
    fault.aim()
    with pytest.raises(ClusterError, match="cannot fill"):
        fault.inject()
    cluster.disks[1].stuck = False
    fault.undo()
    assert cluster.done == [("kill", 1), ("drain", 1), ("start", 1)]


@pytest.mark.parametrize("kind", [DiskFull, DiskFail, DiskWipe, CutTail])
def test_the_last_one_that_has_everything_is_spared(cluster: PaperCluster, kind: type[Fault]) -> None:
    """So is one without which there is no majority."""
    cluster.views["u", 0] = PartitionView(2, 1, (1, 2, 3), (2,))
    cluster.views["u", 1] = PartitionView(3, 1, (1, 2, 3), (3,))
    topics = ("t", "u")
    assert kind(context_on(cluster, kind, topics=topics)).aim() is not None
    cluster.views["u", 1] = PartitionView(1, 1, (1, 2, 3), (1,))
    assert kind(context_on(cluster, kind, topics=topics)).aim() is None
    cluster.views["u", 1] = WHOLE
    cluster.dead.add(3)
    assert kind(context_on(cluster, kind, topics=topics)).aim() is None


def test_a_broken_disk_is_mounted_anew(cluster: PaperCluster) -> None:
    """It bites by an error of our own write, and the end of the node."""
    fault = injected(cluster, DiskFail)
    moved(cluster)
    assert fault.proof() is None
    cluster.dead.add(1)
    bite = fault.proof()
    assert bite
    assert bite.sentence.startswith("a write to the disk of node 1 ends in EIO; node 1 does not answer")
    assert "EIO" in fault.healed()
    fault.undo()
    assert cluster.done == [("fail", 1), ("detach", 1), ("attach", 1), ("start", 1)]
    assert fault.healed() == ""
    fault.undo()
    assert cluster.done[-1] == ("start", 1)


def test_a_disk_that_does_not_fail_proves_nothing(cluster: PaperCluster) -> None:
    """However dead the node is."""
    fault = injected(cluster, DiskFail)
    cluster.disks[1].broken = False
    cluster.dead.add(1)
    moved(cluster)
    assert fault.proof() is None


def test_who_lost_data_comes_back_only_when_left_out(cluster: PaperCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it could lead without what it had acknowledged."""
    monkeypatch.setattr(on_disks, "LEFT_OUT_TIMEOUT_S", 60)
    looks = []

    def look(*given: Any) -> Any:
        looks.append(list(cluster.done))
        if len(looks) > 3:
            moved(cluster)
        return cluster.look(*given)

    fault = injected(cluster, DiskWipe)
    monkeypatch.setattr(base, "observe", look)
    fault.undo()
    assert len(looks) == 4
    assert all(("start", 1) not in done for done in looks)
    assert cluster.done[-1] == ("start", 1)


HEIRLESS = PartitionView(-1, 5, (1, 2, 3), ())


def _others_are_silent(cluster: PaperCluster) -> None:
    moved(cluster)
    cluster.dead |= {2, 3}


def _one_other_is_silent(cluster: PaperCluster) -> None:
    moved(cluster)
    cluster.dead.add(2)


def _the_partition_is_not_seen(cluster: PaperCluster) -> None:
    del cluster.views["t", 0]


def _one_has_not_heard_of_it(cluster: PaperCluster) -> None:
    moved(cluster)
    cluster.told[3] = {("t", 0): PartitionView(2, 5, (1, 2, 3), (1, 2, 3))}


def _nobody_leads(cluster: PaperCluster) -> None:
    cluster.views["t", 0] = HEIRLESS


def _offsets_are_still_in_sync(cluster: PaperCluster) -> None:
    moved(cluster)
    cluster.views["__consumer_offsets", 0] = WHOLE


@pytest.mark.parametrize("kind", [DiskWipe, DiskFail, CutTail])
@pytest.mark.parametrize(
    "happens",
    [
        lambda _: None,
        _others_are_silent,
        _one_other_is_silent,
        _the_partition_is_not_seen,
        _one_has_not_heard_of_it,
        _nobody_leads,
        _offsets_are_still_in_sync,
    ],
)
def test_who_lost_data_stays_down_until_the_others_say_so(
    cluster: PaperCluster, kind: type[Fault], happens: Callable[[PaperCluster], None]
) -> None:
    """However often that is tried, and whoever else would start it; an undo that comes later does it."""
    fault = injected(cluster, kind)
    happens(cluster)
    for _ in range(2):
        with pytest.raises(ClusterError, match="the others still count on node 1, which lost data"):
            fault.undo()
        start([1], cluster)
    assert ("start", 1) not in cluster.done
    assert cluster.state(1) is NodeState.DEAD
    assert "node 1 is dead" in fault.healed()
    cluster.dead -= {2, 3}
    cluster.told.clear()
    cluster.views = {("t", 0): MOVED}
    fault.undo()
    assert cluster.done[-1] == ("start", 1)
    assert fault.healed() == ""


def test_partitions_of_others_keep_nobody_down(cluster: PaperCluster) -> None:
    """Nor does an old story of one that was cut off, or a topic that is no longer in use."""
    topics = ["t", "u", "old"]
    cluster.views["u", 0] = PartitionView(-1, 5, (2, 3), ())
    cluster.views["old", 0] = WHOLE
    fault = DiskWipe(replace(context_on(cluster, DiskWipe), topics=lambda: topics))
    assert fault.aim()
    fault.inject()
    moved(cluster)
    topics.remove("old")
    del cluster.views["old", 0]
    cluster.told[3] = {("t", 0): WHOLE}
    fault.undo()
    assert cluster.done[-1] == ("start", 1)


def test_another_fault_leaves_alone_who_is_held_down(cluster: PaperCluster) -> None:
    """It has healed all the same: the holder starts the node."""
    storm = Kill(context_on(cluster, Kill))
    assert storm.aim()
    storm.inject()
    cluster.start_node(1)
    wipe = DiskWipe(replace(context_on(cluster, DiskWipe), tag="wipe"))
    assert wipe.aim()
    wipe.inject()
    storm.undo()
    assert cluster.state(1) is NodeState.DEAD
    assert storm.healed() == ""
    assert wipe.healed() == "node 1 is dead"
    moved(cluster)
    wipe.undo()
    assert cluster.state(1) is NodeState.RUNNING


def test_two_that_hold_a_node_down_both_have_to_let_it_up(cluster: PaperCluster) -> None:
    """The last one starts it."""
    full = DiskFull(replace(context_on(cluster, DiskFull), tag="full"))
    assert full.aim()
    full.inject()
    wipe = DiskWipe(replace(context_on(cluster, DiskWipe), tag="wipe"))
    assert wipe.aim()
    wipe.inject()
    full.undo()
    assert full.healed() == ""
    assert cluster.state(1) is NodeState.DEAD
    moved(cluster)
    wipe.undo()
    assert cluster.state(1) is NodeState.RUNNING


@pytest.mark.parametrize("kind", [DiskFull, DiskFail, DiskWipe, CutTail])
@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_the_last_one_that_has_what_the_cluster_notes_is_spared(
    cluster: PaperCluster, kind: type[Fault], topic: str
) -> None:
    """Offsets and transactions are data, too."""
    cluster.views[topic, 3] = PartitionView(1, 1, (1, 2, 3), (1,))
    assert kind(context_on(cluster, kind)).aim() is None
    cluster.views[topic, 3] = PartitionView(1, 1, (1, 2, 3), (1, 2))
    assert kind(context_on(cluster, kind)).aim() is not None


@pytest.mark.parametrize("kind", [DiskFull, DiskFail, DiskSlow])
@pytest.mark.parametrize("target", ["leader", "random"])
def test_a_disk_without_the_nodes_data_is_left_alone(cluster: PaperCluster, kind: type[Fault], target: str) -> None:
    """As where the engine mounts something else at that path."""
    for disk in cluster.disks.values():
        disk.elsewhere = True
    assert kind(context_on(cluster, kind, target)).aim() is None
    for disk in cluster.disks.values():
        disk.elsewhere = False
    assert kind(context_on(cluster, kind, target)).aim() is not None


def test_a_full_disk_is_filled_again(cluster: PaperCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was freed meanwhile is no proof of a full one."""
    fault = injected(cluster, DiskFull)
    cluster.dead.add(1)
    moved(cluster)
    cluster.disks[1].free = 4096
    bite = fault.proof()
    assert bite
    assert bite.sentence.startswith("0 bytes are free on the disk of node 1")
    assert cluster.done == [("fill", 1), ("fill", 1)]
    monkeypatch.setattr(PaperDisk, "free_bytes", lambda _: 4096)
    assert fault.proof() is None


def test_a_wiped_node_knows_who_it_is_and_nothing_else(cluster: PaperCluster) -> None:
    """The log of the controllers stays, too: that one is no partition of a topic."""
    fault = injected(cluster, DiskWipe)
    assert cluster.done == [("kill", 1)]
    left = {path.name for path in cluster.data_dir(1).iterdir()}
    assert left == {"meta.properties", "bootstrap.checkpoint", "__cluster_metadata-0"}
    assert (cluster.data_dir(2) / "t-0").exists()
    assert fault.proof() is None
    moved(cluster)
    bite = fault.proof()
    assert bite
    assert bite.sentence.startswith("2 partitions of node 1 are gone (")
    assert fault.healed() == "node 1 is dead"
    fault.undo()
    assert cluster.done == [("kill", 1), ("start", 1)]
    assert fault.healed() == ""


def test_a_tail_is_cut_at_the_beginning_of_a_batch(cluster: PaperCluster) -> None:
    """By chance, at one or the other; what was cut off is told."""
    first, second = [tail.position for _, tail in batches(log_of(cluster, 1))]
    whole = log_of(cluster, 1).read_bytes()
    seen = {}
    for seed in range(20):
        log_of(cluster, 1).write_bytes(whole)
        fault = injected(cluster, CutTail, seed=seed)
        size = log_of(cluster, 1).stat().st_size
        moved(cluster)
        bite = fault.proof()
        assert bite
        seen[size] = bite.sentence.partition(";")[0]
        fault.undo()
        cluster.views["t", 0] = WHOLE
    assert seen == {
        first: f"{len(whole)} bytes with 5 records were cut off t-0 of node 1",
        second: f"{len(whole) - second} bytes with 2 records were cut off t-0 of node 1",
    }
    assert log_of(cluster, 2).read_bytes() == whole


def test_what_was_flushed_stays(cluster: PaperCluster) -> None:
    """Up to the point that the node has noted, and in all but the last segment."""
    points = cluster.data_dir(1) / "recovery-point-offset-checkpoint"
    points.write_text("0\n2\n__consumer_offsets 1 7\nt 0 3\n")
    second = list(batches(log_of(cluster, 1)))[1][1]
    for seed in range(10):
        fault = injected(cluster, CutTail, seed=seed)
        assert log_of(cluster, 1).stat().st_size == second.position
        append(log_of(cluster, 1), 3, 2)
        moved(cluster)
        fault.undo()
        cluster.views["t", 0] = WHOLE
    points.write_text("0\n1\nt 0 5\n")
    assert CutTail(context_on(cluster, CutTail)).aim() is None
    append(log_of(cluster, 1, 5), 5, 1)
    whole = log_of(cluster, 1).read_bytes()
    injected(cluster, CutTail)
    assert log_of(cluster, 1, 5).read_bytes() == b""
    assert log_of(cluster, 1).read_bytes() == whole


def test_a_log_that_was_flushed_meanwhile_is_left_alone(cluster: PaperCluster) -> None:
    """Then there is no proof, either."""
    fault = CutTail(context_on(cluster, CutTail, "follower"))
    aim = fault.aim()
    assert aim
    assert aim.node in (2, 3)
    whole = log_of(cluster, aim.node).read_bytes()
    (cluster.data_dir(aim.node) / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    fault.inject()
    assert log_of(cluster, aim.node).read_bytes() == whole
    assert fault.proof() is None


def test_batches_end_where_one_is_torn(tmp_path: Path) -> None:
    """Or where there is nothing any more, or nonsense."""
    log = tmp_path / "log"
    append(log, 10, 4, 1)
    length = log.stat().st_size
    found = list(batches(log))
    assert [(offset, tail.records) for offset, tail in found] == [(10, 4), (14, 1)]
    assert found[0][1] == Tail(0, 4)
    with log.open("r+b") as file:
        file.truncate(length - 1)
    assert list(batches(log)) == found[:1]
    log.write_bytes(b"\0" * 100)
    assert list(batches(log)) == []


def test_without_notes_nothing_was_flushed(tmp_path: Path) -> None:
    """As on a node that has just begun; and a partition without a log has no tail."""
    assert recovery_points(tmp_path) == {}


def test_a_partition_without_a_log_cannot_be_cut(cluster: PaperCluster) -> None:
    """Nor one that is empty."""
    log_of(cluster, 1).write_bytes(b"")
    assert CutTail(context_on(cluster, CutTail)).aim() is None
    log_of(cluster, 1).unlink()
    assert CutTail(context_on(cluster, CutTail)).aim() is None


def slow(cluster: PaperCluster, period: float = 1000.0) -> DiskSlow:
    """One that was aimed, and whose freezing is not waited for."""
    fault = DiskSlow(context_on(cluster, DiskSlow, period=period))
    aim = fault.aim()
    assert aim
    assert aim.sentence == f"the disk of node 1 (leader of t-0) stands still 80% of every {period:g} s"
    return fault


def test_a_slow_disk_is_in_the_journal_before_it_is_frozen(cluster: PaperCluster) -> None:
    """What is frozen while nobody lives to thaw it would keep every process from ending."""
    fault = slow(cluster, period=0.001)
    fault.inject()
    stepped(fault)
    fault.undo()
    fault.undo()
    assert cluster.notes.entries == [{"kind": "thaw", "value": "/mount/1", "image": "/image/1"}]
    assert ("freeze", 1) in cluster.done
    assert not cluster.disks[1].frozen
    assert fault.healed() == ""


def test_a_disk_that_is_frozen_still_is_not_healed(cluster: PaperCluster) -> None:
    """Once said, it is thawed."""
    fault = slow(cluster)
    cluster.disks[1].frozen = True
    assert fault.healed() == "the disk of node 1 was still frozen"
    assert fault.healed() == ""


def test_a_slow_disk_bites_when_a_write_has_to_wait(cluster: PaperCluster) -> None:
    """For half of the time in which it stands still, and longer than usual."""
    cluster.disks[1].took_s = [0.001, 0.1, 0.25]
    fault = slow(cluster, period=0.5)
    assert fault.proof() is None
    bite = fault.proof()
    assert bite
    assert bite.sentence == (
        "a write to the disk of node 1 took 250 ms instead of 1.0 ms; it stood still 0 times so far"
    )
    assert bite.node == 1


def test_a_disk_that_was_slow_already_proves_nothing(cluster: PaperCluster) -> None:
    """It has to be slower than it was."""
    cluster.disks[1].took_s = [0.2, 0.3]
    assert slow(cluster, period=0.5).proof() is None


def test_a_step_that_fails_is_told_and_the_disk_is_thawed(cluster: PaperCluster) -> None:
    """Whatever the first step meets."""
    fault = slow(cluster)
    cluster.disks[1].stuck = True
    fault.inject()
    stepped(fault)
    with pytest.raises(ClusterError, match="cannot freeze"):
        fault.proof()
    fault.undo()
    assert not cluster.disks[1].frozen


def test_without_a_victim_nothing_is_slowed(cluster: PaperCluster) -> None:
    """No node answers; an injection all the same is an error, and the undo is none."""
    cluster.dead |= {1, 2, 3}
    fault = DiskSlow(context_on(cluster, DiskSlow))
    assert fault.aim() is None
    with pytest.raises(ClusterError, match="without a victim"):
        fault.inject()
    fault.undo()
