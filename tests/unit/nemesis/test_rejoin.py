"""A follower that rejoins with nothing, on a cluster that exists on paper only: each step after the one before it."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from harness.clusters.cluster_view import PartitionView
from harness.clusters.wire import Metadata, WireError
from nemesis import base, rejoin
from nemesis.rejoin import LateRejoin
from tests.support.fake_cluster import CAPABLE, WHOLE, Paper, context_on

T0 = "t", 0
ALONE = PartitionView(1, 4, (1, 2, 3), (1,))
COUNTED = PartitionView(1, 4, (1, 2, 3), (1, 2))
LED_BY_2 = PartitionView(2, 5, (1, 2, 3), (2,))
NOBODY = PartitionView(-1, 5, (1, 2, 3), (1,))
BATCH = struct.pack(">qi11xi", 0, 40, 9) + bytes(52 - 27)


class Stage(Paper):
    """Node 1 leads, node 3 is the controller; what node 2 says of itself is up to the test."""

    data = Path()
    now_s = 100.0
    unfenced: bool | None = False  # None: it does not answer

    def data_dir(self, node_id: int) -> Path:
        """Below the test's own."""
        return self.data / str(node_id)

    def clock(self) -> float:
        """Stands still until it is told otherwise."""
        return self.now_s

    def metadata(self, address: str, timeout_s: float) -> Metadata:
        """As the follower tells it."""
        assert (address, timeout_s > 0) == ("h:2", True)
        if self.unfenced is None:
            raise WireError("h:2 refuses connections")
        return Metadata(None, 1, {1: "h:1", **({2: "h:2"} if self.unfenced else {})})

    def since(self) -> list[tuple[str, int]]:
        """What was done to nodes since the last look."""
        found, self.done = self.done, []
        return found


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stage:
    """One partition, all in sync; nodes 1 and 2 have ten records of it."""
    made = Stage(*CAPABLE)
    made.views[T0] = WHOLE
    made.data = tmp_path
    monkeypatch.setattr(base, "observe", made.look)
    monkeypatch.setattr(rejoin, "quorum_leader", lambda _: 3)
    monkeypatch.setattr(rejoin, "ask_metadata", made.metadata)
    for node in (1, 2):
        directory = tmp_path / str(node) / "t-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(BATCH)
        (tmp_path / str(node) / "meta.properties").write_text("who it is")
    return made


def begun(stage: Stage) -> LateRejoin:
    """Aimed and injected."""
    fault = LateRejoin(replace(context_on(stage, LateRejoin), clock=stage.clock))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence.startswith("node 2, follower of t-0, loses its disk while node 1, its leader, asks node 3,")
    fault.inject()
    return fault


def wiped(stage: Stage) -> LateRejoin:
    """Until the follower was started without anything."""
    fault = begun(stage)
    stage.views[T0] = ALONE
    fault.proof()
    stage.now_s += rejoin.ELECTED_S
    fault.proof()
    stage.now_s += rejoin.ASKED_S
    fault.proof()
    assert stage.since() == [("pause", 3), ("kill", 2), ("start", 2)]
    return fault


def thawed(stage: Stage) -> LateRejoin:
    """Until it is back, and the controller goes on."""
    fault = wiped(stage)
    stage.unfenced = True
    fault.proof()
    assert stage.since() == [("resume", 3)]
    return fault


@pytest.mark.parametrize("topic", ["t", "__consumer_offsets"])
def test_a_disk_that_alone_holds_something_is_not_wiped(stage: Stage, topic: str) -> None:
    """What would be lost with it is nothing that the broker has lost; the controller stands still and cannot help."""
    stage.views[topic, 1] = PartitionView(2, 4, (2, 3), (2, 3))
    assert LateRejoin(context_on(stage, LateRejoin)).aim() is None
    del stage.views[topic, 1]
    fault = begun(stage)
    stage.views[T0] = ALONE
    fault.proof()
    stage.now_s += rejoin.ELECTED_S
    fault.proof()
    stage.views[topic, 1] = PartitionView(2, 5, (2, 3), (2,))
    stage.now_s += rejoin.ASKED_S
    assert (fault.proof(), stage.since()) == (None, [("pause", 3)])


def test_a_follower_loses_its_disk_while_it_is_asked_for(stage: Stage) -> None:
    """Not before the leader is alone, the others have a controller, and all was copied; who it is is kept."""
    fault = begun(stage)
    assert (fault.proof(), stage.since()) == (None, [])
    stage.views[T0] = ALONE
    assert (fault.proof(), stage.since()) == (None, [("pause", 3)])
    assert stage.networks[-1] != ("mend", 1)
    stage.now_s += rejoin.ELECTED_S
    (stage.data / "2/t-0" / f"{0:020}.log").write_bytes(b"")
    assert (fault.proof(), stage.networks[-1]) == (None, ("mend", 1))
    stage.now_s += rejoin.ASKED_S
    assert (fault.proof(), stage.since()) == (None, [])
    (stage.data / "2/t-0" / f"{0:020}.log").write_bytes(BATCH)
    fault.proof()
    stage.now_s += rejoin.ASKED_S
    assert (fault.proof(), stage.since()) == (None, [("kill", 2), ("start", 2)])
    assert [path.name for path in (stage.data / "2").iterdir()] == ["meta.properties"]
    assert "--dport 9001 -j DROP" in stage.networks[-1][0]


def test_the_controller_stands_still_until_the_follower_is_back(stage: Stage) -> None:
    """It answers, and it is no longer fenced."""
    fault = wiped(stage)
    assert fault.out_of_service == frozenset({1, 2, 3})
    for unfenced in (None, False):
        stage.unfenced = unfenced
        assert (fault.proof(), stage.since()) == (None, [])
    stage.unfenced = True
    assert (fault.proof(), stage.since()) == (None, [("resume", 3)])


def test_the_leader_dies_at_once_when_the_follower_counts_as_in_sync(stage: Stage) -> None:
    """By the word of anybody."""
    fault = thawed(stage)
    stage.told[3] = {T0: COUNTED}
    assert (fault.proof(), stage.since()) == (None, [("kill", 1)])
    stage.told.clear()
    stage.views[T0] = LED_BY_2
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == (
        "node 2 lost its disk and was counted as in sync with nothing; node 1, leader of t-0, died, and 2 leads"
    )
    fault.undo()
    assert (stage.since(), fault.healed()) == ([("start", 1)], "")


def test_the_leader_dies_later_when_the_request_was_refused(stage: Stage) -> None:
    """And is back when it was missed."""
    fault = thawed(stage)
    assert (fault.proof(), stage.since()) == (None, [])
    stage.now_s += rejoin.REFUSED_S
    assert (fault.proof(), stage.since()) == (None, [("kill", 1)])
    stage.views[T0] = NOBODY
    assert (fault.proof(), stage.since()) == (None, [("start", 1)])
    stage.views[T0] = replace(ALONE, leader_epoch=6)
    bite = fault.proof()
    assert bite is not None
    assert "was not counted as in sync before it had all" in bite.sentence


def test_an_undo_in_the_middle_leaves_nobody_frozen_or_down(stage: Stage) -> None:
    """Whatever step it had come to."""
    fault = begun(stage)
    stage.views[T0] = ALONE
    fault.proof()
    fault.undo()
    assert (stage.paused, stage.dead, fault.healed()) == (set(), set(), "")


@pytest.mark.parametrize("controller", [1, None])
def test_the_controller_is_a_third_node(stage: Stage, monkeypatch: pytest.MonkeyPatch, controller: int | None) -> None:
    """Neither the leader nor the follower; and there is one."""
    monkeypatch.setattr(rejoin, "quorum_leader", lambda _: controller)
    assert LateRejoin(context_on(stage, LateRejoin)).aim() is None
