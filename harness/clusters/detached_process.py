"""The harness of a detached cluster: brings it up, reports how that goes, then stays and holds it until told to stop.

`tidegauge cluster up` starts this process, reads its reports from standard output, and says `keep` on its standard
input when the cluster is up. If standard input ends before that, the command was killed: we end too, and the
supervisor undoes everything. Once we are kept, our standard streams go nowhere: the command is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from typing import Any

from harness.clusters.base import Cluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.errors import Exit, TidegaugeError, from_os_error, unexpected

KEEP = "keep"
HEARTBEAT_S = 0.5


class Reports:
    """Progress, as JSON lines."""

    def step(self, text: str) -> None:
        """A step begins."""
        say(step=text)

    def detail(self, text: str) -> None:
        """How far it has come."""
        say(detail=text)

    def part(self, done: float, total: float, unit: str = "") -> None:
        """How much of it is done."""
        say(part=[done, total, unit])


def say(**message: Any) -> None:
    """One line to the command that started us."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def stay(cluster: Cluster, stop_asked: threading.Event) -> None:
    """Hold a cluster, with a supervisor that lives, until we are asked to stop."""
    while not stop_asked.wait(HEARTBEAT_S):
        cluster.guard.keep_supervised()


def main() -> None:
    """One cluster, from its specification to the signal that ends it."""
    spec = ClusterSpec.model_validate_json(sys.stdin.readline())
    stop_asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop_asked.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch_the_command, daemon=True).start()
    try:
        cluster = make_cluster(spec, Reports())
        cluster.held_by_tidegauge = True
        say(name=cluster.name)
        cluster.start()
    except TidegaugeError as error:
        _fail(error)
    except OSError as error:
        _fail(from_os_error(error, "starting the cluster"))
    except Exception as error:  # noqa: BLE001 - the command has to tell the user
        _fail(unexpected(error))
    say(up=cluster.describe().as_json())
    stay(cluster, stop_asked)
    cluster.stop()


def _watch_the_command() -> None:
    if sys.stdin.readline().strip() == KEEP:
        sink = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(sink, standard)
        return
    os._exit(Exit.INTERRUPTED)


def _fail(error: TidegaugeError) -> None:
    say(
        error={
            "message": error.message,
            "remedy": error.remedy,
            "notes": getattr(error, "__notes__", []),
            "exit_code": error.exit_code,
        }
    )
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
