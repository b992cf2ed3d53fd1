"""The init process of one local node: whatever the node starts stays below this process, even what daemonises.

A product that forks itself into the background, with a new session and an empty environment, would otherwise be lost
from sight: neither its parent nor our token leads to it any more. Linux hands orphans to the nearest ancestor that
asked for them, and this process asks. It lives as long as anything below it: a node that daemonises counts as running.

Run as a plain file with the node's command as arguments; needs nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
AWAITED = {signal.SIGCHLD, signal.SIGTERM}
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def main() -> int:
    """Run the command and wait for the last process it leaves; the exit code is the command's own."""
    command = sys.argv[1:]
    if sys.platform != "linux":
        os.execvp(command[0], command)  # noqa: S606 - the node's command, as the target gives it
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # blocked and waited for, so that none is lost, whenever it comes; the node itself starts as if we were not there
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    first = os.posix_spawnp(command[0], command, os.environ, setsigmask=(), setsigdef=IGNORED_BY_PYTHON)
    code = 0
    while True:
        if signal.sigwait(AWAITED) == signal.SIGTERM:
            _send_to_children(signal.SIGTERM)
        try:
            pid = 1
            while pid:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == first:
                    code = os.waitstatus_to_exitcode(status)
                    code = code if code >= 0 else 128 - code
        except ChildProcessError:
            return code
        if code:  # the node failed: what it left behind is of no use
            _send_to_children(signal.SIGKILL)


def _send_to_children(signal_number: signal.Signals) -> None:
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        os.kill(int(child), signal_number)  # one that has ended stays a zombie until we wait for it


if __name__ == "__main__":
    sys.exit(main())
