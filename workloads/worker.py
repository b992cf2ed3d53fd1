"""A worker process: `python -P -m workloads.worker`.

It reads one line of JSON from standard input (`workloads.base.WorkerConfig`) and then lines of control; it writes
statuses to standard output. Everything it does is in its segment. It ends by itself when its work is done, when it is
told to stop, and when the runner is gone; never at Ctrl-C, which is the runner's. SIGTERM ends it in order as well, but
before its time. That and whatever else happens is its last status, and exit code 1.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from typing import Any

from harness.foundation.config import parse
from harness.foundation.errors import TidegaugeError
from harness.foundation.known_addresses import keep_to
from harness.history.recorder import Recorder
from workloads import find_workload
from workloads.base import FINAL, PROBE, RAW, REPLICA, Settings, WorkerConfig, Workload
from workloads.session import STDOUT, Control, WorkerSession, WorkerStatus, collect_garbage_less_often

ENDED, FAILED = "ended", "failed"


def main() -> int:
    """Be a worker; the exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    os.set_blocking(STDOUT, False)
    collect_garbage_less_often()
    control, status = Control(), WorkerStatus()
    line = control.first_line()
    if not line:
        return 0
    control.listen()
    try:
        work(parse(WorkerConfig, json.loads(line), "the worker's configuration"), control, status)
    except Exception as error:  # noqa: BLE001 - whatever it is, the runner has to hear of it
        traceback.print_exc()
        status.detail = str(error) if isinstance(error, TidegaugeError) else f"{type(error).__name__}: {error}"
        status.last(FAILED)
        return 1
    if control.terminated:
        status.detail = "SIGTERM"
        status.last(FAILED)
        return 1
    status.last(ENDED)
    return 0


def work(config: WorkerConfig, control: Control, status: WorkerStatus) -> None:
    """Record, and do what the role asks; the segment is closed at a normal end only."""
    workload = find_workload(config.workload)
    settings = parse(workload.model, config.settings, "the worker's settings")
    about = about_of(config, workload, settings)
    own = {"isolation_level": about["isolation"], "idempotence": about["idempotent"]}
    settings = settings.model_copy(update=own)  # as this worker has them
    if not config.tapped:
        keep_to(node.address for node in config.nodes)
    recorder = Recorder(config.segment, config.process, about)
    for topic in config.topics:
        recorder.topic(topic.number, topic.full_name(config.prefix))
    session = WorkerSession(config, config.security.with_secrets(), recorder, control, status)
    if config.role == PROBE:
        from workloads.probe import probe

        probe(session, settings)
    elif config.role in {FINAL, RAW}:
        from workloads.final_read import final_read

        final_read(session, settings)
    elif config.role == REPLICA:
        from workloads.replica_read import replica_read

        replica_read(session, settings)
    else:
        workload.work(session, settings)
    recorder.close()


def about_of(config: WorkerConfig, workload: Workload[Any], settings: Settings) -> dict[str, object]:
    """What the manifest says of this process; checkers judge by it what it read and sent."""
    about: dict[str, object] = {
        "role": config.role,
        "number": config.number,
        "workload": config.workload,
        "client": settings.client,
        "isolation": isolation_of(config, workload, settings),
        "idempotent": workload.idempotent(settings, config.as_role),
    }
    if config.task:
        about["task"] = config.task
    if workload.in_group(settings, config.as_role):
        about["group"] = True
    if config.role == REPLICA:
        about["node"] = config.nodes[config.number].id
    return about


def isolation_of(config: WorkerConfig, workload: Workload[Any], settings: Settings) -> str:
    """How this worker reads."""
    if config.role in {RAW, REPLICA}:
        return "read_uncommitted"
    if config.role == FINAL and workload.reads_raw(settings):
        return "read_committed"
    return workload.isolation(settings, config.as_role)


if __name__ == "__main__":
    sys.exit(main())
