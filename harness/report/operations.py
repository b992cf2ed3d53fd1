"""Operations in words: who did what, when, and how it ended, from the rows that `checkers.summaries.context` keeps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.foundation.error_codes import name_of
from harness.foundation.protocol import Api
from harness.history.schema import F, OffsetView, Type
from harness.report.names import Names, counted

NS = 1_000_000_000
MS = 1_000_000
OURS = "tidegauge-"  # as our clients call themselves
READERS = {"final": "final reader", "raw": "raw reader"}
DEEDS = {
    F.CREATE: "created the topic",
    F.ASSIGN: "was assigned the partition",
    F.SUBSCRIBE: "joined its group",
    F.REVOKE: "gave up the partition",
    F.LEAVE: "left its group",
    F.COMMIT: "committed offset {offset}",
    F.COMMITTED: "fetched its group's committed offset, {offset}",
    F.INIT: "initialised its transactional id",
    F.TXN: "ran a transaction",
    F.DELETE: "deleted the topic",
    F.GROW: "gave the topic more partitions",
    F.FINAL: "read the partition to {offset}",
    F.RAW: "read the partition to {offset}, aborted records included",
    F.CRASH: "crashed",
    F.REPLICA: "read its node's replica to {offset}",
}
ENDS = {Type.OK: "ok", Type.FAIL: "failed", Type.INFO: "outcome unknown"}
TXN_ENDS = {Type.OK: "committed", Type.FAIL: "aborted", Type.INFO: "outcome unknown"}


@dataclass(frozen=True)
class RunClock:
    """When something happened: since the history began, and by the wall clock if one moment of both is known."""

    first_ns: int
    anchor: Mapping[str, int] | None = None

    def wall(self, since_ns: int) -> str:
        """The time of day, to the millisecond; empty if nobody knows."""
        if not self.anchor:
            return ""
        wall_ns = self.anchor["wall_ns"] + self.first_ns + since_ns - self.anchor["monotonic_ns"]
        day = time.gmtime(wall_ns // NS)
        return f"{time.strftime('%H:%M:%S', day)}.{wall_ns % NS // MS:03}"

    def both(self, since_ns: int) -> str:
        """Both."""
        return f"{self.wall(since_ns)} ({since_ns / NS:.3f} s)".lstrip()


@dataclass(frozen=True)
class OperationLine:
    """An operation as the report tells it."""

    event: int
    actor: str
    order: int  # of its actor among others
    label: str
    sentence: str
    sort: str  # ok, fail, info, read, mark, refused: how it is drawn
    rank: int  # 0 named by the finding, 1 of its values or its offset, 2 near it
    began_ns: int
    ended_ns: int


def operation_line(row: Mapping[str, Any], names: Names) -> OperationLine:
    """One row of `series.json`."""
    actor, order = _actor(row, names)
    label, sentence, sort = _SENTENCES[row["kind"]](row, names)
    return OperationLine(row["event"], actor, order, label, sentence, sort, row["rank"], row["from"], row["to"])


def lasted(since_ns: int) -> str:
    """A duration as people say it."""
    if since_ns < MS:
        return f"{since_ns / 1_000:.0f} µs"
    return f"{since_ns / MS:.0f} ms" if since_ns < NS else f"{since_ns / NS:.1f} s"


def request(api: int | None) -> str:
    """What Kafka calls a request."""
    try:
        return Api(api).name.replace("_", " ").title().replace(" ", "") if api is not None else "a connection"
    except ValueError:
        return f"request {api}"


def _actor(row: Mapping[str, Any], names: Names) -> tuple[str, int]:
    about = names.about(row["process"])
    role = str(about.get("role", "process"))
    if row["kind"] == "probe":
        return f"probe of node {row.get('node', '?')}", 60
    if row["kind"] == "exchange":
        client = str(row.get("client") or "a client").removeprefix(OURS)
        return f"{client} → node {row.get('node', '?')}", 50
    if row["kind"] == "replica":
        return f"disk of node {about.get('node', '?')}", 70
    order = {"producer": 10, "consumer": 20}.get(role, 30)
    return f"{READERS.get(role, role)} {row['process']}", order


def _completion(row: Mapping[str, Any], names: Names) -> tuple[str, str, str]:
    end, function = Type(row["type"]), F(row["f"])
    error = f" ({name_of(row['error'])})" if row.get("error") else ""
    said = f": {row['detail']}" if row.get("detail") else ""
    sort = {Type.OK: "ok", Type.FAIL: "fail", Type.INFO: "info"}[end]
    if function is F.SEND:
        where = f"@{row['offset']}" if "offset" in row else "no offset"
        ended = f"acknowledged at offset {row['offset']}" if end is Type.OK and "offset" in row else ENDS[end]
        sent = names.value(row["value"]) if "value" in row else "a message"
        place = names.partition(row.get("topic"), row.get("partition"))
        return where, f"sent {sent} to {place}: {ended}{error}{said}", sort
    deed = DEEDS.get(function, function.name.lower()).format(offset=row.get("offset", "unknown"))
    ended = TXN_ENDS[end] if function is F.TXN else ENDS[end]
    return function.name.lower(), f"{deed}: {ended}{error}{said}", sort


def _record(row: Mapping[str, Any], names: Names) -> tuple[str, str, str]:
    value = names.value(row["value"]) if "value" in row else "a record that no producer of this run sent"
    return f"@{row.get('offset', '?')}", f"received {value} at offset {row.get('offset', '?')}", "read"


def _replica(row: Mapping[str, Any], names: Names) -> tuple[str, str, str]:
    offset = row.get("offset", "?")
    value = names.value(row["value"]) if "value" in row else "another record"
    return f"@{offset}", f"holds {value} at offset {offset}, read after the run", "read"


def _answer(row: Mapping[str, Any], _: Names) -> tuple[str, str, str]:
    """What a node answered, to a probe or to a client."""
    asked = request(row.get("api"))
    bent = f"; modified by the rule {row['name']}" if row.get("name") else ""
    said = f"; {row['detail']}" if row.get("detail") else ""
    if row.get("type", Type.OK) != Type.OK:
        return f"{asked}: no answer", f"{asked}: the client got no answer{bent}{said}", "info"
    if row.get("error"):
        name = name_of(row["error"])
        return name, f"{asked}: {name}{bent}{said}", "refused"
    label, told = asked, "ok"
    if row.get("api") == Api.PRODUCE and "offset" in row:
        label = f"@{row['offset']}" + (f" ×{row['count']}" if row.get("count", 1) > 1 else "")
        told = f"{counted(row.get('count', 1), 'record')} acknowledged, from offset {row['offset']}"
    elif row.get("api") == Api.FETCH and "high_watermark" in row:
        label = f"hw {row['high_watermark']}"
        told = f"high watermark {row['high_watermark']}"
        if row.get("count"):
            told += f", {counted(row['count'], 'record')} from offset {row.get('offset', '?')}"
    elif row.get("api") == Api.LIST_OFFSETS and "offset" in row:
        view: dict[int, str] = {
            OffsetView.EARLIEST: "start",
            OffsetView.LATEST: "end",
            OffsetView.LATEST_COMMITTED: "last stable offset",
        }
        label = told = f"{view.get(row.get('view', 0), 'offset')} {row['offset']}"
    elif row.get("api") == Api.METADATA and "leader" in row:
        label = f"leader {row['leader']}"
        told = f"leader {row['leader']}, epoch {row.get('leader_epoch', '?')}, in sync {row.get('isr') or 'unknown'}"
    return label, f"{asked}: {told}{bent}{said}", "mark"


_SENTENCES = {
    "complete": _completion,
    "record": _record,
    "replica": _replica,
    "probe": _answer,
    "exchange": _answer,
}
