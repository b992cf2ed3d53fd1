"""Healing: what nobody watches any more is undone and told, what lives is left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.clusters.cleanup import heal as module
from harness.clusters.cleanup import undo
from harness.clusters.cleanup.guard import OWNER_FILE, YOUNG_S
from harness.clusters.cleanup.heal import Healed, heal
from harness.clusters.cleanup.supervisor import IDENTITY_FILE
from harness.clusters.cleanup.undo import record
from harness.foundation.paths import clusters_dir
from harness.foundation.processes import claim

OLD_S = 1_000_000.0


@pytest.fixture(autouse=True)
def _undone(monkeypatch: pytest.MonkeyPatch, state_home: Path) -> None:
    """Everything can be undone but what is called stuck."""

    def pretend(entry: undo.Entry) -> None:
        if entry["value"] == "stuck":
            raise OSError("busy")

    for kind in undo._UNDO:
        monkeypatch.setitem(undo._UNDO, kind, pretend)
    monkeypatch.setattr(module, "PATIENCE_S", -1)


def cluster(name: str, *entries: tuple[str, str]) -> Path:
    """The directory of a cluster that nobody watches, with this in its journal."""
    directory = clusters_dir() / name
    directory.mkdir(parents=True)
    for kind, value in entries:
        record(directory, {"kind": kind, "value": value})
    os.utime(directory, (OLD_S, OLD_S))
    return directory


def test_nothing_to_do_is_told() -> None:
    """Where nothing ever ran."""
    assert heal() == Healed()
    assert heal().sentences == ["nothing was left behind"]


def test_what_was_left_behind_is_undone_and_told() -> None:
    """A sentence each, once, and a second time there is nothing."""
    directory = cluster("local-1", ("network", "node-1/tg1"), ("netns", "tg1-1"), ("netns", "tg1-1"), ("link", "tg1"))
    healed = heal()
    assert (
        healed.undone
        == healed.sentences
        == [
            "local-1: restored the network of node-1/tg1",
            "local-1: the network namespace tg1-1 was removed",
            "local-1: the network link tg1 was removed",
            "local-1: its directory was removed",
        ]
    )
    assert (healed.left, healed.alive) == ([], [])
    assert not directory.exists()
    assert heal() == Healed()


def test_what_resists_is_told_and_kept() -> None:
    """The rest is undone; the next one tries again, and other clusters do not suffer."""
    directory = cluster("local-1", ("netns", "stuck"), ("link", "a"))
    other = cluster("local-2", ("link", "b"))
    healed = heal()
    assert healed.left == ["local-1: netns stuck: busy"]
    assert healed.undone == [
        "local-1: the network link a was removed",
        "local-2: the network link b was removed",
        "local-2: its directory was removed",
    ]
    assert "could not be undone: local-1: netns stuck: busy" in healed.sentences
    assert "nothing was left behind" not in healed.sentences
    assert directory.exists()
    assert not other.exists()
    assert heal().left == healed.left


@pytest.mark.parametrize("file", [OWNER_FILE, IDENTITY_FILE])
def test_what_somebody_watches_is_left_alone(file: str) -> None:
    """Be it the harness or only its supervisor, which is at work already."""
    directory = cluster("local-1", ("link", "a"))
    descriptor = claim(directory / file)
    try:
        assert heal() == Healed(alive=["local-1"])
        assert heal().sentences == ["nothing was left behind", "local-1 is in use and was not touched"]
        assert directory.exists()
    finally:
        os.close(descriptor)
    os.utime(directory, (OLD_S, OLD_S))
    assert heal().alive == []


def test_what_is_being_made_is_left_alone() -> None:
    """A directory so young that nobody has written themselves into it yet."""
    directory = cluster("local-1")
    os.utime(directory)
    assert YOUNG_S > 1
    assert heal().alive == ["local-1"]


def test_every_kind_has_a_sentence() -> None:
    """Whatever can be undone can be told."""
    cluster("local-1", *((kind, f"{kind}-x") for kind in undo._UNDO))
    told = heal().undone
    assert all(any(f"{kind}-x" in sentence for sentence in told) for kind in undo._UNDO)


def test_what_nobody_knows_how_to_undo_is_left() -> None:
    """Something that a newer version made."""
    cluster("local-1", ("zeppelin", "x"))
    assert (heal().left, heal().undone) == (["local-1: do not know how to undo 'zeppelin'"], [])


def test_as_data() -> None:
    """For `--json`."""
    assert Healed(["a"], ["b"], ["c"]).as_json() == {"undone": ["a"], "left": ["b"], "alive": ["c"]}
