"""A file system for one node: an image file, mounted, which can be filled, stalled, broken and made whole again.

Freezing, breaking and filling a file system that is not ours would be the end of this machine. So nothing of it is done
by path: a directory is opened, the kernel is asked which image its file system comes from, and only then it is done, to
what was opened.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.foundation.errors import ClusterError
from harness.foundation.namespaces import with_system_path
from harness.foundation.paths import nearest, state_dir

if TYPE_CHECKING:
    from harness.clusters.cleanup.guard import Guard

SIZE_BYTES = 16 * 2**30  # what is not written takes no space
JOURNAL_MB = 16  # which is written
BLOCK_BYTES = 4096
TRIAL_BYTES = 16 * 2**20
COMMAND_TIMEOUT_S = 30.0
BUSY_PATIENCE_S = 5.0
RETRY_EVERY_S = 0.1
FILLER = "tidegauge-filler"
LOST_AND_FOUND = "lost+found"  # which brokers take for a partition
MOUNTS = Path("/proc/self/mountinfo")
LOOPS = Path("/sys/block")
DEVICES = Path("/sys/dev/block")
TOOLS = {"mkfs.ext4": "e2fsprogs", "mount": "mount", "umount": "mount", "unshare": "util-linux"}

_FREEZE, _THAW, _SHUT_DOWN = 0xC0045877, 0xC0045878, 0x8004587D  # FIFREEZE, FITHAW, EXT4_IOC_SHUTDOWN
_WITHOUT_FLUSHING = struct.pack("I", 2)
_DELETED = " (deleted)"


@dataclass(frozen=True)
class NodeDisk:
    """One node's file system."""

    image: Path
    mount: Path  # where it is mounted; the node's data lies directly in it

    def make(self, guard: Guard) -> None:
        """The image, with an empty file system that any user may write to, mounted."""
        with self.image.open("wb") as file:
            file.truncate(SIZE_BYTES)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-J", f"size={JOURNAL_MB}", str(self.image))
        self.mount.mkdir(parents=True, exist_ok=True)
        guard.record(kind="mount", value=str(self.mount), image=str(self.image))
        self.attach()
        (self.mount / LOST_AND_FOUND).rmdir()
        self.mount.chmod(0o777)

    def attach(self) -> None:
        """Mount it, unless it is."""
        if not is_mounted(self.mount):
            _run("mount", "-o", "loop,noinit_itable", str(self.image), str(self.mount))

    def detach(self) -> None:
        """Unmount it, frozen or broken or busy, and give its loop device back; nothing to do when it is not mounted."""
        self.thaw()
        deadline = time.monotonic() + BUSY_PATIENCE_S
        while is_mounted(self.mount):
            patient = time.monotonic() < deadline
            try:
                _run("umount", *([] if patient else ["--lazy"]), str(self.mount))
            except ClusterError:
                if not patient:
                    raise
                time.sleep(RETRY_EVERY_S)
        while loops := loops_of(self.image):
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{', '.join(loops)} still holds {self.image}", "end the processes that use files on it"
                )
            time.sleep(RETRY_EVERY_S)

    def freeze(self) -> None:
        """Let every write wait; nothing to do when it is frozen already."""
        with self.opened() as root:
            _ioctl(root, _FREEZE, struct.pack("i", 0), done=errno.EBUSY)

    def thaw(self) -> bool:
        """Let writes go on; whether they had to wait. Nothing to do when it is not there."""
        try:
            with self.opened() as root:
                return _ioctl(root, _THAW, struct.pack("i", 0), done=errno.EINVAL)
        except (ClusterError, FileNotFoundError):
            return False

    def fail(self) -> None:
        """Let every access end in an I/O error, with what was not flushed lost, until it is mounted anew.

        What lies directly in the root says whose disk it is: in truth it was written long ago, so it is flushed first.
        """
        with self.opened() as root:
            for name in os.listdir(root):  # noqa: PTH208 - what was opened, not what is at a path
                with contextlib.suppress(FileNotFoundError):  # the node removes files, too
                    _flush(name, root)
            fcntl.ioctl(root, _SHUT_DOWN, _WITHOUT_FLUSHING)

    def fill(self) -> int:
        """Take all that is free, to the last block; returns how many bytes that is."""
        with self.opened() as root:
            filler = os.open(FILLER, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=root)
            try:
                return _take_all(filler)
            finally:
                os.close(filler)

    def drain(self) -> None:
        """Give back what `fill` took."""
        with self.opened() as root, contextlib.suppress(FileNotFoundError):
            os.unlink(FILLER, dir_fd=root)

    def is_filled(self) -> bool:
        """Whether there is anything of `fill` left."""
        return (self.mount / FILLER).exists()

    def free_bytes(self) -> int:
        """What is left for the node."""
        with self.opened() as root:
            space = os.fstatvfs(root)
            return space.f_bavail * space.f_frsize

    def names(self) -> frozenset[str]:
        """What lies directly in its root, of whoever uses it."""
        with self.opened() as root:
            return frozenset(os.listdir(root)) - {FILLER}  # noqa: PTH208 - what was opened, not what is at a path

    def write_s(self) -> float:
        """How long a small write of our own takes until it is on the disk; it leaves nothing. OSError: it failed."""
        with self.opened() as root:
            began_s = time.monotonic()
            probe = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o600, dir_fd=root)
            try:
                os.write(probe, b"\0" * BLOCK_BYTES)
                os.fsync(probe)
            finally:
                os.close(probe)
            return time.monotonic() - began_s

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Its root directory, and certainly its own: with nothing mounted there, the path is this machine's."""
        root = os.open(self.mount, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if _image_of(os.fstat(root).st_dev) != str(self.image.resolve()):
                raise ClusterError(f"{self.image} is not mounted at {self.mount}", "restart the cluster")
            yield root
        finally:
            os.close(root)


@cache
def why_no_disks() -> tuple[str, str] | None:
    """What is missing for file systems of our own and how to get it, or nothing; tried for real, leaving nothing."""
    if sys.platform != "linux":
        return "file systems in image files are made on Linux only", "run it on Linux"
    if os.geteuid() != 0:
        return "only root may mount a file system", "run as root"
    for tool, package in TOOLS.items():
        if shutil.which(tool, path=with_system_path()["PATH"]) is None:
            return f"the command `{tool}` is missing", f"install {package}"
    place = nearest(state_dir())
    try:
        with tempfile.TemporaryFile(dir=place) as file:  # without a name: it goes however this ends
            file.truncate(TRIAL_BYTES)
            image = f"/proc/self/fd/{file.fileno()}"
            _run("mkfs.ext4", "-q", "-F", image, keep=file.fileno())
            # in a mount namespace of its own, with which the mount goes
            script = 'mount -o loop "$1" "$2" && : > "$2"/written'
            _run("unshare", "--mount", "sh", "-c", script, "sh", image, str(place), keep=file.fileno())
    except (ClusterError, OSError) as error:
        why = error.message if isinstance(error, ClusterError) else str(error)
        return f"a file system in an image file cannot be mounted ({why})", "allow loop devices and mounts here"
    return None


def is_mounted(path: Path) -> bool:
    """By the word of the kernel: a file system that fails would not tell itself."""
    wanted = str(path.resolve())
    return any(_unescaped(line.split()[4]) == wanted for line in MOUNTS.read_text().splitlines())


def loops_of(image: Path) -> list[str]:
    """The loop devices that hold this image."""
    wanted = str(image.resolve())
    return sorted(device.name for device in LOOPS.glob("loop*") if _backing(device) == wanted)


def _image_of(device: int) -> str:
    return _backing(DEVICES / f"{os.major(device)}:{os.minor(device)}")


def _backing(device: Path) -> str:
    try:
        return (device / "loop" / "backing_file").read_text().removesuffix("\n").removesuffix(_DELETED)
    except OSError:
        return ""


def _unescaped(path: str) -> str:
    """The kernel writes blanks and the like as backslash and three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _ioctl(descriptor: int, request: int, argument: bytes, done: int) -> bool:
    """Whether it changed something; the error `done` says that there was nothing to change."""
    try:
        fcntl.ioctl(descriptor, request, argument)
    except OSError as error:
        if error.errno != done:
            raise
        return False
    return True


def _flush(name: str, root: int) -> None:
    descriptor = os.open(name, os.O_RDONLY, dir_fd=root)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_all(filler: int) -> int:
    space = os.fstatvfs(filler)
    chunk = space.f_bavail * space.f_frsize
    while chunk >= BLOCK_BYTES:
        try:
            os.posix_fallocate(filler, os.fstat(filler).st_size, chunk)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            chunk //= 2
    return os.fstat(filler).st_blocks * 512


def _run(*command: str, keep: int | None = None) -> None:
    """Run a command, with an open file of ours if it needs one."""
    environment = {**with_system_path(), "LC_ALL": "C"}
    try:
        ran = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            pass_fds=() if keep is None else (keep,),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"`{' '.join(command)}` hangs", "see the kernel's log") from None
    if ran.returncode != 0:
        said = (ran.stderr or ran.stdout).strip().splitlines()
        raise ClusterError(
            f"`{' '.join(command)}` failed ({said[-1] if said else f'exit code {ran.returncode}'})",
            "see the kernel's log",
        )
