"""The process that cleans up, however the harness ends.

It is started first, leaves the harness's process tree and session, and then only reads from a pipe whose other end the
harness holds. The end of that pipe is the end of the harness: a normal stop closes it, SIGKILL closes it too, and
both are answered in the same way, so the way out after a crash is the one that every normal run has tested.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from harness.processes import claim
from harness.undo import undo_all

DIRECTORY_VARIABLE = "TIDEGAUGE_SUPERVISED"
IDENTITY_FILE = "supervisor.json"
READY = "ready"


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
    while os.read(sys.stdin.fileno(), 4096):
        pass
    _say(json.dumps(undo_all(directory)))


def _say(line: str) -> None:
    try:
        os.write(sys.stdout.fileno(), f"{line}\n".encode())
    except BrokenPipeError:
        return  # nobody listens any more: the harness is dead, which is why we are here


if __name__ == "__main__":
    main()
