"""File systems in image files: on a real one where this machine allows it, and on paper."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters import disk as disks
from harness.clusters import docker, docker_engine, local
from harness.clusters.base import Cluster
from harness.clusters.cleanup import undo
from harness.clusters.disk import NodeDisk, is_mounted, loops_of, why_no_disks
from harness.clusters.docker import DockerCluster
from harness.clusters.local import LocalCluster
from harness.clusters.node import Capability, Node
from harness.clusters.target import Target, load_target
from harness.foundation.config import parse
from harness.foundation.errors import ClusterError
from tests.support import eventually

WHY_NOT = why_no_disks()
real = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


class Notes:
    """A guard that notes what is recorded, and what was mounted at that moment."""

    def __init__(self) -> None:
        self.entries: list[dict[str, str]] = []
        self.mounted: list[bool] = []

    def record(self, **entry: str) -> None:
        """Noted."""
        self.entries.append(entry)
        self.mounted.append(is_mounted(Path(entry["value"])))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[NodeDisk]:
    """One that is mounted, in a directory with a blank in its name."""
    place = tmp_path / "a place"
    place.mkdir()
    made = NodeDisk(place / "image", place / "mount")
    notes: Any = Notes()
    made.make(notes)
    assert notes.entries == [{"kind": "mount", "value": str(made.mount), "image": str(made.image)}]
    assert notes.mounted == [False]
    try:
        yield made
    finally:
        made.detach()
        assert not is_mounted(made.mount)
        assert loops_of(made.image) == []


@real
def test_a_new_disk_is_empty_and_open_to_all(disk: NodeDisk) -> None:
    """Not even lost+found is there, which a broker would take for a partition."""
    assert is_mounted(disk.mount)
    assert len(loops_of(disk.image)) == 1
    assert list(disk.mount.iterdir()) == []
    assert disk.mount.stat().st_mode & 0o777 == 0o777
    assert disk.write_s() >= 0
    assert list(disk.mount.iterdir()) == []


@real
def test_a_full_disk_has_no_byte_left(disk: NodeDisk) -> None:
    """And all of them again afterwards."""
    free_bytes = disk.free_bytes()
    assert disk.fill() >= free_bytes - disks.BLOCK_BYTES
    assert disk.is_filled()
    assert disk.free_bytes() == 0
    with pytest.raises(OSError, match="No space left"):
        (disk.mount / "file").write_bytes(b"x" * 10_000)
    disk.drain()
    disk.drain()
    assert not disk.is_filled()
    assert disk.free_bytes() >= free_bytes - 10 * disks.BLOCK_BYTES


@real
def test_a_write_waits_for_the_thaw(disk: NodeDisk) -> None:
    """Freezing and thawing twice is the same as once."""
    disk.freeze()
    disk.freeze()
    written = threading.Event()

    def write() -> None:
        (disk.mount / "file").write_bytes(b"x")
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert not written.wait(0.2)
    assert disk.thaw()
    writer.join(30)
    assert written.is_set()
    assert not disk.thaw()


@real
def test_a_broken_disk_is_whole_when_mounted_anew(disk: NodeDisk) -> None:
    """What says whose disk it is survives, although nobody had flushed it."""
    (disk.mount / "identity").write_text("me")
    (disk.mount / "partition").mkdir()
    disk.fail()
    with pytest.raises(OSError, match="Input/output error") as failed:
        disk.write_s()
    assert failed.value.errno == errno.EIO
    disk.detach()
    disk.attach()
    disk.attach()
    assert (disk.mount / "identity").read_text() == "me"
    assert disk.write_s() >= 0


@real
def test_what_vanishes_while_a_disk_breaks_is_no_error(disk: NodeDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node removes files at any time."""
    (disk.mount / "partition").mkdir()
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda root: ["vanished", *listed(root)])
    disk.fail()
    with pytest.raises(OSError, match="Input/output error"):
        disk.write_s()


@real
def test_a_disk_is_large_and_takes_little(disk: NodeDisk) -> None:
    """Full or not: what a test writes fits, and the disk below does not feel it."""
    assert disk.free_bytes() > 15 * 2**30
    disk.fill()
    assert disk.image.stat().st_blocks * 512 < 64 * 2**20


@real
def test_what_lies_on_a_disk_is_named(disk: NodeDisk) -> None:
    """All but what we took."""
    (disk.mount / "t-0").mkdir()
    disk.fill()
    assert disk.names() == {"t-0"}


@real
def test_a_frozen_and_busy_disk_can_be_detached(disk: NodeDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a file open on it, the mount goes at once, and the device is named that is still held."""
    monkeypatch.setattr(disks, "BUSY_PATIENCE_S", 0.3)
    file = os.open(disk.mount, os.O_RDONLY)
    try:
        disk.freeze()
        with pytest.raises(ClusterError, match=r"loop\d+ still holds"):
            disk.detach()
        assert not is_mounted(disk.mount)
    finally:
        os.close(file)
    disk.detach()
    assert loops_of(disk.image) == []


@pytest.mark.parametrize("act", ["freeze", "fail", "fill", "drain", "free_bytes", "names", "write_s"])
def test_nothing_is_done_to_the_disk_of_this_machine(tmp_path: Path, act: str) -> None:
    """With nothing mounted there, the directory is one like any other."""
    (tmp_path / "mount").mkdir()
    disk = NodeDisk(tmp_path / "image", tmp_path / "mount")
    with pytest.raises(ClusterError, match="is not mounted at"):
        getattr(disk, act)()
    assert list((tmp_path / "mount").iterdir()) == []


def test_another_image_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is asked for the image; one that was deleted since is still the same."""
    (tmp_path / "mount").mkdir()
    device = (tmp_path / "mount").stat().st_dev
    backing = tmp_path / "dev" / f"{os.major(device)}:{os.minor(device)}" / "loop" / "backing_file"
    backing.parent.mkdir(parents=True)
    monkeypatch.setattr(disks, "DEVICES", tmp_path / "dev")
    disk = NodeDisk(tmp_path / "image", tmp_path / "mount")
    backing.write_text(f"{tmp_path / 'other'}\n")
    with pytest.raises(ClusterError, match="is not mounted at"), disk.opened():
        pass
    backing.write_text(f"{tmp_path / 'image'} (deleted)\n")
    with disk.opened() as root:
        assert os.fstat(root).st_dev == device


def test_what_is_not_there_need_not_be_thawed_or_detached(tmp_path: Path) -> None:
    """Neither a directory nor a mount."""
    disk = NodeDisk(tmp_path / "image", tmp_path / "mount")
    assert not disk.thaw()
    disk.detach()
    disk.mount.mkdir()
    assert not disk.thaw()
    disk.detach()


def test_mounts_are_read_as_the_kernel_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With blanks as octal numbers."""
    place = tmp_path / "a b"
    place.mkdir()
    table = tmp_path / "mountinfo"
    table.write_text("")
    monkeypatch.setattr(disks, "MOUNTS", table)
    assert not is_mounted(place)
    table.write_text(f"30 1 7:0 / {str(place).replace(' ', chr(92) + '040')} rw - ext4 /dev/loop0 rw\n")
    assert is_mounted(place)
    assert not is_mounted(tmp_path)


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, ...]]]:
    """A machine on which everything works, and the commands that were run on it."""
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool, path: f"/bin/{tool}")
    monkeypatch.setattr(disks, "_run", lambda *command, keep: ran.append(command))
    why_no_disks.cache_clear()
    yield ran
    why_no_disks.cache_clear()


def test_an_able_machine_is_tried_once(able: list[tuple[str, ...]], state_home: Path) -> None:
    """Where the images will lie, in a namespace that takes the mount along and a file that never had a name."""
    place = state_home.parent
    assert why_no_disks() is None
    assert why_no_disks() is None
    assert [command[0] for command in able] == ["mkfs.ext4", "unshare"]
    assert "--mount" in able[1]
    assert able[0][-1] == able[1][-2]
    assert able[0][-1].startswith("/proc/self/fd/")
    assert able[1][-1] == str(place)
    assert not state_home.exists()


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize(
    ("where", "name", "value", "said"),
    [
        (sys, "platform", "darwin", ("Linux only", "Linux")),
        (os, "geteuid", lambda: 1000, ("only root", "as root")),
        (shutil, "which", lambda tool, path: tool != "mkfs.ext4" or None, ("`mkfs.ext4` is missing", "e2fsprogs")),
    ],
)
def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, value: Any, said: tuple[str, str]
) -> None:
    """With a remedy."""
    monkeypatch.setattr(where, name, value)
    found = why_no_disks()
    assert found
    assert said[0] in found[0]
    assert said[1] in found[1]


@pytest.mark.usefixtures("able")
def test_a_machine_that_does_not_mount_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the words of what was tried."""

    def run(*command: str, keep: int) -> None:
        if command[0] == "unshare":
            raise ClusterError("no loop device", "none")

    monkeypatch.setattr(disks, "_run", run)
    found = why_no_disks()
    assert found
    assert "(no loop device)" in found[0]


def test_a_command_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its last line, or its code; or that it hangs."""
    with pytest.raises(ClusterError, match=r"`sh -c echo a >&2; echo b >&2; exit 3` failed \(b\)"):
        disks._run("sh", "-c", "echo a >&2; echo b >&2; exit 3")
    with pytest.raises(ClusterError, match=r"failed \(exit code 4\)"):
        disks._run("sh", "-c", "exit 4")

    def hang(*_: Any, **__: Any) -> None:
        raise subprocess.TimeoutExpired("x", 1)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(ClusterError, match="`x y` hangs"):
        disks._run("x", "y")


@real
def test_what_a_journal_names_is_thawed_and_unmounted(disk: NodeDisk, tmp_path: Path) -> None:
    """Twice does no harm, and a file that processes shared goes, too."""
    shared = tmp_path / "shared"
    shared.write_text("x")
    disk.freeze()
    entries = [
        {"kind": "mount", "value": str(disk.mount), "image": str(disk.image)},
        {"kind": "thaw", "value": str(disk.mount), "image": str(disk.image)},
        {"kind": "shared", "value": str(shared)},
    ]
    assert undo._undo_once(entries) == []
    assert not is_mounted(disk.mount)
    assert loops_of(disk.image) == []
    assert not shared.exists()
    assert undo._undo_once(entries) == []


def test_disks_are_thawed_first_and_unmounted_last() -> None:
    """Nothing that waits for a frozen disk can be killed, and nothing that is in use be unmounted."""
    assert next(iter(undo._UNDO)) == "thaw"
    assert list(undo._UNDO)[-1] == "mount"


BARE = {"name": "bare", "process": {"command": ["bare"]}, "container": {"image": "bare:1"}}


def cluster_of(kind: str, target: Target) -> Cluster:
    """One that is not up."""
    return LocalCluster(target) if kind == "local" else DockerCluster(target, image="image")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the Docker engine of this machine says of itself; root is here, and so is everything else."""
    info = {"KernelVersion": os.uname().release, "DockerRootDir": "/", "SecurityOptions": ["name=seccomp"], "ID": "id"}
    client = type("Engine", (), {"info": lambda _: info})()
    monkeypatch.setattr(docker, "connect", lambda timeout_s=0: client)
    for module in (docker, docker_engine):
        monkeypatch.setattr(module, "endpoint", lambda: "unix:///engine")
    monkeypatch.setattr(docker, "shares_files", lambda *_: True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(docker, "why_no_disks", lambda: None)
    monkeypatch.setattr(local, "why_no_disks", lambda: None)
    monkeypatch.setattr(local, "why_no_clocks", lambda: None)
    return info


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("kind", ["local", "docker"])
def test_disks_and_files_are_offered_where_the_data_is_known(kind: str) -> None:
    """Kafka's is; a product that does not tell can have neither."""
    known, unknown = cluster_of(kind, load_target("kafka")), cluster_of(kind, parse(Target, BARE, "bare"))
    for capability in (Capability.FILES, Capability.DISK):
        assert known.cannot(capability) is None
        missing = unknown.cannot(capability)
        assert missing
        assert "does not say where its nodes keep their data" in missing.what
        assert "`data`" in missing.remedy
    assert Capability.DISK not in known.capabilities
    known.equip([Capability.DISK])
    assert Capability.DISK in known.capabilities


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("kind", "module"), [("local", local), ("docker", docker)])
def test_a_disk_is_not_offered_on_a_machine_that_cannot_mount(
    monkeypatch: pytest.MonkeyPatch, kind: str, module: Any
) -> None:
    """Files are all the same."""
    monkeypatch.setattr(module, "why_no_disks", lambda: ("no mounts", "get some"))
    cluster = cluster_of(kind, load_target("kafka"))
    assert cluster.cannot(Capability.FILES) is None
    missing = cluster.cannot(Capability.DISK)
    assert missing
    assert (missing.what, missing.remedy) == ("no mounts", "get some")


@pytest.mark.parametrize(
    "another", [{"KernelVersion": "other"}, {"DockerRootDir": "/none"}, {"SecurityOptions": ["name=rootless"]}]
)
def test_data_of_an_engine_elsewhere_is_out_of_reach(engine: dict[str, Any], another: dict[str, Any]) -> None:
    """As in a virtual machine, or for a user who is another one inside."""
    engine.update(another)
    missing = cluster_of("docker", load_target("kafka")).cannot(Capability.FILES)
    assert missing
    assert "another file system" in missing.what


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("name", "value"), [("endpoint", "tcp://h:1"), ("shares_files", False)])
def test_an_engine_that_only_looks_like_ours_is_not(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    """The same kernel and the same directories prove nothing."""
    for module in (docker, docker_engine):
        monkeypatch.setattr(module, name, lambda *_: value)
    missing = cluster_of("docker", load_target("kafka")).cannot(Capability.FILES)
    assert missing
    assert "another file system" in missing.what


@pytest.mark.parametrize("here", [True, False])
def test_an_engine_shares_files_when_its_new_volume_turns_up(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    here: bool,  # noqa: FBT001
) -> None:
    """It is in the journal before it is made, and released whatever happens."""
    did: list[Any] = []

    class Volumes:
        """Of an engine."""

        def create(self, name: str, labels: dict[str, str]) -> Any:
            """A directory, here or elsewhere."""
            did.append(("create", name, list(labels.values())))
            place = tmp_path / name
            if here:
                place.mkdir()
            return SimpleNamespace(attrs={"Mountpoint": str(place)})

    class Journal:
        """A guard."""

        def __init__(self, directory: Path) -> None:
            did.append(("guard", directory.name))

        def record(self, **entry: str) -> None:
            """Noted."""
            did.append(("record", entry["value"], entry["host"], entry["engine"]))

        def release(self) -> None:
            """Noted."""
            did.append("release")

    monkeypatch.setattr(docker_engine, "connect", lambda: SimpleNamespace(volumes=Volumes()))
    monkeypatch.setattr(docker_engine, "Guard", Journal)
    docker_engine.shares_files.cache_clear()
    assert docker_engine.shares_files("unix:///x", "id") is here
    assert docker_engine.shares_files("unix:///x", "id") is here
    docker_engine.shares_files.cache_clear()
    name = did[0][1]
    assert did == [("guard", name), ("record", name, "unix:///x", "id"), ("create", name, [name]), "release"]


@pytest.mark.usefixtures("engine")
def test_data_of_containers_is_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """They write it as whoever they like."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    missing = cluster_of("docker", load_target("kafka")).cannot(Capability.FILES)
    assert missing
    assert missing.remedy == "run as root"


@pytest.mark.usefixtures("engine")
def test_clocks_are_set_in_processes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image has a C library of its own."""
    cluster = cluster_of("local", load_target("kafka"))
    assert cluster.cannot(Capability.CLOCK) is None
    monkeypatch.setattr(local, "why_no_clocks", lambda: ("no library", "install it"))
    missing = cluster.cannot(Capability.CLOCK)
    assert missing
    assert missing.what == "no library"
    missing = cluster_of("docker", load_target("kafka")).cannot(Capability.CLOCK)
    assert missing
    assert "C library" in missing.what
    assert missing.remedy == "use --cluster local"


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_what_a_cluster_was_not_equipped_with_it_does_not_have(kind: str) -> None:
    """An error with a remedy, and no path that belongs to something else."""
    cluster = cluster_of(kind, load_target("kafka"))
    cluster.nodes = cluster_nodes()
    for ask in (cluster.disk, lambda node: cluster.set_clock(node, 1)):
        with pytest.raises(ClusterError, match="equip the cluster"):
            ask(1)
    bare = cluster_of(kind, parse(Target, BARE, "bare"))
    bare.nodes = cluster_nodes()
    with pytest.raises(ClusterError, match="no data that can be reached"):
        bare.data_dir(1)


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_data_lies_in_the_directory_of_the_cluster(kind: str) -> None:
    """And the disk's image beside it."""
    cluster = cluster_of(kind, load_target("kafka"))
    cluster.nodes = cluster_nodes()
    cluster.equip([Capability.DISK])
    assert cluster.data_dir(1).is_relative_to(cluster.directory)
    assert cluster.disk(1).mount == cluster.data_dir(1)
    assert cluster.disk(1).image.parent == cluster.directory
    assert cluster.data_dir(1) != cluster.data_dir(2)


def cluster_nodes() -> tuple[Node, ...]:
    """Two of them."""
    return tuple(Node(number, f"h:{number}") for number in (1, 2))


def test_containers_get_their_data_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By a second definition; the directories are open to whatever user an image has."""
    monkeypatch.setattr(DockerCluster, "directory", tmp_path)
    cluster = DockerCluster(load_target("kafka"), image="image")
    cluster.nodes = cluster_nodes()
    assert cluster._place_data() == []
    cluster.equip([Capability.FILES])
    (definition,) = cluster._place_data()
    for number in (1, 2):
        place = tmp_path / f"data-{number}"
        assert place.stat().st_mode & 0o777 == 0o777
        (volume,) = json.loads(definition.read_text())["services"][f"node-{number}"]["volumes"]
        assert volume == {"type": "bind", "source": str(place), "target": "/tmp/kraft-combined-logs"}


STUCK = """
import sys, threading, time
from pathlib import Path
from harness.clusters.disk import NodeDisk
from harness.clusters.cleanup.guard import Guard

directory = Path(sys.argv[1])
guard = Guard(directory)
disk = NodeDisk(directory / "disk", directory / "data")
disk.make(guard)
guard.record(kind="thaw", value=str(disk.mount), image=str(disk.image))
disk.freeze()
threading.Thread(target=disk.write_s, daemon=True).start()
print("frozen", flush=True)
time.sleep(600)
"""


def waits_in_the_kernel(pid: int) -> bool:
    """Whether a thread of the process waits for what no signal ends."""
    tasks = Path(f"/proc/{pid}/task").glob("*/stat")
    return any(task.read_text().rpartition(")")[2].split()[0] == "D" for task in tasks)


@real
def test_a_harness_that_is_killed_while_it_waits_for_a_frozen_disk_is_cleaned_up_after(tmp_path: Path) -> None:
    """It cannot die, nor close a pipe, before the disk is thawed: its supervisor does not wait for that."""
    directory = tmp_path / "clusters" / "local-0"
    directory.parent.mkdir()
    harness = subprocess.Popen([sys.executable, "-c", STUCK, str(directory)], stdout=subprocess.PIPE)
    try:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"frozen\n"
        eventually(lambda: waits_in_the_kernel(harness.pid), "nobody waits for the disk")
        harness.kill()
        eventually(lambda: not directory.exists(), "the disk is still there")
    finally:
        NodeDisk(directory / "disk", directory / "data").thaw()
        harness.kill()
        harness.communicate()
