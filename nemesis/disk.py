"""Faults of disks: the nodes' data, and what it lies on.

A broker whose disk is full or fails ends by itself. One that loses data, as by a failed disk, a new one or a power cut,
is not started again before the others have left it out of the replicas in sync: a machine that lost its power takes
longer to come back than a process, and what a product does with one that comes back sooner is another question.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import ClassVar

from harness.clusters.disk import NodeDisk
from harness.clusters.node import Capability, NodeState
from harness.foundation.errors import ClusterError
from nemesis.base import Aim, Fault, FaultContext, FaultEvidence, RepeatingFault
from nemesis.log_files import KEPT, Tail, batches, last_segment, recovery_points
from nemesis.node_states import bring_to_state
from nemesis.on_disks import OnDisk, lies_on_its_disk
from nemesis.roles import NODE_ROLES, ChosenNodes, choose

FROZEN_PART = 0.8  # of a period
FELT_PART = 0.5  # of that, by a write that may have begun in the middle of it
MEGABYTE = 1e6


class DiskFull(OnDisk):
    """All that is free is taken."""

    name = "disk-full"
    description = "fills a node's disk to the last block"
    needs = frozenset({Capability.DISK, Capability.KILL, Capability.RESTART})
    doing = "the disk is filled of"
    done = "filling"
    loses_data = False

    def damage(self, node: int) -> None:
        """To the last block."""
        self._taken = self.context.cluster.disk(node).fill()

    def damage_seen(self, node: int) -> str:
        """That nothing is free, and how much was taken; what the node has freed since is taken, too."""
        disk = self.context.cluster.disk(node)
        if not disk.is_filled():
            return ""
        if disk.free_bytes():
            self._taken = disk.fill()
        free_bytes = disk.free_bytes()
        if free_bytes:
            return ""
        return f"{free_bytes} bytes are free on the disk of node {node} ({self._taken / MEGABYTE:.0f} MB taken)"

    def repair(self, node: int) -> None:
        """Give it back."""
        self.context.cluster.disk(node).drain()

    def healed(self) -> str:
        """Nothing is taken any more, and the node runs."""
        full = [node for node in self._hit if self.context.cluster.disk(node).is_filled()]
        return f"the disk of node {full[0]} is still full" if full else super().healed()


class DiskFail(OnDisk):
    """Every access ends in an error, and what was not flushed is lost."""

    name = "disk-fail"
    description = "makes every access to a node's disk fail, and loses what was not flushed"
    needs = frozenset({Capability.DISK, Capability.KILL, Capability.RESTART})
    doing = "the disk fails of"
    done = "failure"

    def damage(self, node: int) -> None:
        """From now on."""
        self.context.cluster.disk(node).fail()

    def damage_seen(self, node: int) -> str:
        """By a write of our own."""
        try:
            self.context.cluster.disk(node).write_s()
        except OSError as error:
            return f"a write to the disk of node {node} ends in {errno.errorcode.get(error.errno or 0, 'an error')}"
        except ClusterError as error:
            return error.message
        return ""

    def repair(self, node: int) -> None:
        """Mounted anew it works, with what had been flushed."""
        disk = self.context.cluster.disk(node)
        disk.detach()
        disk.attach()

    def healed(self) -> str:
        """It can be written to, and the node runs."""
        broken = [seen for node in self._hit if (seen := self.damage_seen(node))]
        return broken[0] if broken else super().healed()


class DiskWipe(OnDisk):
    """As after the exchange of a disk: the node is who it was, and has nothing."""

    name = "disk-wipe"
    description = "kills a node and removes all of its partitions, so that it must replicate them again"
    needs = frozenset({Capability.FILES, Capability.KILL, Capability.RESTART})
    doing = "SIGKILL, and removal of all partitions of"
    done = "kill"

    def damage(self, node: int) -> None:
        """Everything but the node's identity and the log of the controllers."""
        bring_to_state(node, self.context.cluster, self.context.cluster.kill, (NodeState.DEAD,))
        rest = self._rest(node)
        self._removed = sum(path.is_dir() for path in rest)
        self._bytes = sum(file.stat().st_blocks * 512 for path in rest for file in (path, *path.rglob("*")))
        for path in rest:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def damage_seen(self, node: int) -> str:
        """What is gone."""
        if self._removed == 0 or self._rest(node):
            return ""
        return f"{self._removed} partitions of node {node} are gone ({self._bytes / MEGABYTE:.1f} MB)"

    def _rest(self, node: int) -> list[Path]:
        return [path for path in self.context.cluster.data_dir(node).iterdir() if path.name not in KEPT]


class CutTail(OnDisk):
    """As after a power failure: what the kernel had not written yet is missing at the end of a log."""

    name = "cut-tail"
    description = "kills a node and cuts off the end of a partition's log that was not flushed, as a power failure does"
    needs = frozenset({Capability.FILES, Capability.KILL, Capability.RESTART})
    roles = ("leader", "follower")
    doing = "SIGKILL, and a cut at the end of a log, of"
    done = "kill"

    def aim(self) -> Aim | None:
        """A replica of which something has not been flushed."""
        aim = super().aim()
        return aim if aim and self.chosen.node is not None and self._unflushed(self.chosen.node) else None

    def damage(self, node: int) -> None:
        """Whole batches, one at least, how many is up to chance."""
        bring_to_state(node, self.context.cluster, self.context.cluster.kill, (NodeState.DEAD,))
        self._records = self._bytes = 0
        if unflushed := self._unflushed(node):
            first = self.context.rng.randrange(len(unflushed))
            log = last_segment(self._directory(node))
            self._records = sum(each.records for each in unflushed[first:])
            self._bytes = log.stat().st_size - unflushed[first].position
            with log.open("r+b") as file:
                file.truncate(unflushed[first].position)

    def damage_seen(self, node: int) -> str:
        """How much was cut off."""
        if self._records == 0:
            return ""
        name = self._directory(node).name
        return f"{self._bytes} bytes with {self._records} records were cut off {name} of node {node}"

    def _directory(self, node: int) -> Path:
        if self.chosen.victim is None:
            raise ClusterError(f"{self.name} was aimed at no partition", "aim it at a leader or a follower")
        return self.context.cluster.data_dir(node) / self.chosen.victim.name

    def _unflushed(self, node: int) -> list[Tail]:
        directory = self._directory(node)
        flushed = recovery_points(directory.parent).get(directory.name, 0)
        try:
            return [tail for offset, tail in batches(last_segment(directory)) if offset >= flushed]
        except FileNotFoundError:
            return []


class DiskSlow(RepeatingFault):
    """Frozen most of the time: a write waits for the moment in which it is not."""

    name = "disk-slow"
    description = "freezes a node's disk most of the time, so that every write takes long"
    needs = frozenset({Capability.DISK})
    roles = NODE_ROLES
    options: ClassVar = {"period": 0.5}
    changes_leaders = True

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._chosen: ChosenNodes | None = None
        self._usual_s = 0.0

    @property
    def period_s(self) -> float:
        """How long it works between two times that it does not."""
        return (1 - FROZEN_PART) * self._every_s

    @property
    def out_of_service(self) -> frozenset[int]:
        """The node: what it has to write may wait for long."""
        return frozenset(self._chosen.nodes if self._chosen else ())

    @property
    def _every_s(self) -> float:
        return float(self.context.options["period"])

    @property
    def _node(self) -> int:
        return self.aimed(self._chosen).nodes[0]

    @property
    def _disk(self) -> NodeDisk:
        return self.context.cluster.disk(self._node)

    def aim(self) -> Aim | None:
        """A node in its role, and how long a write takes there now."""
        self._chosen = chosen = choose(self.context, self.context.look())
        if chosen is None or not lies_on_its_disk(self.context, chosen):
            return None
        self._usual_s = self._disk.write_s()
        led = chosen.victim if chosen.victim and chosen.victim.node == chosen.node else None
        sentence = f"the disk of {chosen.called} stands still {FROZEN_PART:.0%} of every {self._every_s:g} s"
        return Aim(sentence, led, chosen.node)

    def inject(self) -> None:
        """Whatever happens to us, it is thawed."""
        disk = self._disk
        self.context.cluster.guard.record(kind="thaw", value=str(disk.mount), image=str(disk.image))
        super().inject()

    def step(self) -> None:
        """Frozen for a while."""
        disk = self._disk
        disk.freeze()
        try:
            self._over.wait(FROZEN_PART * self._every_s)
        finally:
            disk.thaw()

    def rest(self) -> None:
        """Thawed."""
        if self._chosen is not None:
            self._disk.thaw()

    def proof(self) -> FaultEvidence | None:
        """A write of our own has to wait."""
        self.fail_if_a_step_failed()
        took_s = self._disk.write_s()
        if took_s < FELT_PART * FROZEN_PART * self._every_s or took_s < 2 * self._usual_s:
            return None
        sentence = (
            f"a write to the disk of node {self._node} took {took_s * 1000:.0f} ms instead of "
            f"{self._usual_s * 1000:.1f} ms; it stood still {self.steps} times so far"
        )
        return FaultEvidence(sentence, self._node)

    def healed(self) -> str:
        """It was not frozen any more."""
        return f"the disk of node {self._node} was still frozen" if self._disk.thaw() else ""


FAULTS: tuple[type[Fault], ...] = (DiskFull, DiskSlow, DiskFail, DiskWipe, CutTail)
