"""The process that cleans up, however the harness ends.

It is started first, leaves the harness's process tree and session, and then only reads from a pipe whose other end the
harness holds. The end of that pipe is the end of the harness: a normal stop closes it, SIGKILL closes it too, and
both are answered in the same way, so the way out after a crash is the one that every normal run has tested. One that
was killed while a thread of it waits for a disk that a fault has frozen cannot close anything before the disk is
thawed, which is our part: so we look for the harness itself as well.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
from pathlib import Path

from harness.clusters.cleanup.undo import undo_all
from harness.foundation.processes import Identity, claim

DIRECTORY_VARIABLE = "TIDEGAUGE_SUPERVISED"
HARNESS_VARIABLE = "TIDEGAUGE_HARNESS"
IDENTITY_FILE = "supervisor.json"
READY = "ready"
LOOK_EVERY_S = 0.5


def main() -> None:
    """Wait for the end of the pipe on standard input, undo everything, say on standard output what is left."""
    directory = Path(os.environ[DIRECTORY_VARIABLE])
    if os.fork():
        os._exit(0)  # the harness's direct child is gone at once: who kills its tree does not find us
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)
    os.chdir("/")
    new = not directory.exists()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        claim(directory / IDENTITY_FILE)
    except OSError as error:
        if new:  # a supervisor that replaces another one must not take the journal with it
            shutil.rmtree(directory, ignore_errors=True)
        _say(json.dumps([error.errno, error.strerror, str(directory)]))
        return
    _say(READY)
    _wait_for_the_end(Identity(**json.loads(os.environ[HARNESS_VARIABLE])))
    _say(json.dumps(undo_all(directory)))


def _wait_for_the_end(harness: Identity) -> None:
    """Until the pipe is closed, or the harness is dead; one that still has a thread in the kernel is dead, too."""
    pipe = sys.stdin.fileno()
    while harness.alive():
        if select.select([pipe], [], [], LOOK_EVERY_S)[0] and not os.read(pipe, 4096):
            return


def _say(line: str) -> None:
    try:
        os.write(sys.stdout.fileno(), f"{line}\n".encode())
    except BrokenPipeError:
        return  # nobody listens any more: the harness is dead, which is why we are here


if __name__ == "__main__":
    main()
