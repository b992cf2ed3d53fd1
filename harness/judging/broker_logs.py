"""Where the logs of a run's brokers are, and how their lines are to be read."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from checkers.broker_logs import BrokerLogFiles
from harness.clusters.kinds import KINDS


def logs_of(run: Path, facts: dict[str, Any]) -> BrokerLogFiles | None:
    """The logs that the run kept, if run.json says what their lines mean."""
    patterns, anchor = facts.get("log_patterns"), facts.get("anchor")
    files = {int(path.parent.name): str(path) for path in run.glob("logs/*/broker.log") if path.parent.name.isdigit()}
    if not (files and isinstance(patterns, dict) and patterns and isinstance(anchor, dict)):
        return None
    kind = KINDS.get(str((facts.get("cluster") or {}).get("kind")))
    return BrokerLogFiles(
        files,
        patterns,
        monotonic_ns=int(anchor["monotonic_ns"]),
        wall_ns=int(anchor["wall_ns"]),
        utc_offset_s=0 if kind and kind.logs_in_utc else _utc_offset_s(str(facts.get("started_at", ""))),
    )


def _utc_offset_s(started_at: str) -> int:
    """Of the machine that the run was on."""
    try:
        offset = datetime.strptime(started_at, "%Y-%m-%dT%H:%M:%S%z").utcoffset()
    except ValueError:
        return 0
    return int(offset.total_seconds()) if offset else 0
