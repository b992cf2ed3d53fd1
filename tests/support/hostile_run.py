"""A run on paper whose broker, records, logs and clients all say things that a page might take for markup."""

from __future__ import annotations

import json
from typing import Any

from checkers.core.families import FAMILIES
from checkers.core.results import Anomaly, CheckResults, Finding
from checkers.core.timeline import Fault
from checkers.summaries.coverage import FaultCoverage, Span
from checkers.summaries.drawn_series import VERSION, fingerprint
from checkers.summaries.figures import Figures, PartitionRow, Stall
from harness.judging.checking import RESULTS_VERSION

S = 1_000_000_000
FIRST_NS = 5 * S
HOSTILE = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(2)>'
STEERING = "\x1b[31m\u202egnp.exe\x00"
SENT, SENT_TOO, SHOWN = 6597069766705, 6597069766709, 2199023255584
ILLEGAL = {"status": "illegal", "code": "", "why": ""}


def facts() -> dict[str, Any]:
    """run.json."""
    return {
        "title": f"stream {HOSTILE}",
        "state": "finished",
        "seed": 7,
        "started_at": "2026-11-15T12:30:05+0000",
        "anchor": {"monotonic_ns": FIRST_NS, "wall_ns": 1_794_745_805 * S},
        "command_line": ["tidegauge", "run", IMAGE],
        "schedule": [{"fault": f"leader-kill{HOSTILE}", "number": 1}],
        "scenario": {
            "workload": "stream",
            "settings": {"client": "kafka-python", "acks": "all", "partitions": 1, "idempotence": False},
            "limits": {"stall_s": 5.0},
            "tap": {"broken": []},
        },
        "cluster": {"product": "kafka", "version": IMAGE, "kind": "local", "nodes": [{}, {}, {}]},
        "versions": {"tidegauge": "0.1.0"},
        "machine": {"system": "Linux", "cpus": 2, "memory_bytes": 2**33},
        "phases": [{"name": "load", "took_s": 12.0}],
    }


def results(verdict: str = "invalid", *, diagnosed: bool = True) -> dict[str, Any]:
    """results.json."""
    found = Finding(
        "realtime-order", HOSTILE, 0, 26, (SENT, SENT_TOO), (6,), (), FIRST_NS + 3 * S, FIRST_NS + 4 * S,
        (SENT, SENT_TOO), (IMAGE,), f"offset 26: {IMAGE} {STEERING}",
        {"x_value": SENT, "y_value": SENT_TOO, "by_ns": S // 2},
    )  # fmt: skip
    checked = CheckResults(
        events=1234,
        anomalies={name: Anomaly(name, about, 9) for each in FAMILIES for name, about in each.anomalies.items()},
        figures=Figures(
            sent=20, acknowledged=18, info=2, read=17, distinct=17, partitions=1, stalls_count=1,
            table=[PartitionRow(HOSTILE, 0, 20, 18, 0, 2, 17, 17, 1.0, 0, 19, 1)],
            stalls=[Stall(3, FIRST_NS + S, 6 * S, at_end=True)],
        ),
        damage=[f"a log line says {HOSTILE}"],
    )  # fmt: skip
    checked.anomalies["realtime-order"].findings = [found]
    checked.anomalies["realtime-order"].found = 1
    fault = Fault(1, f"leader-kill{HOSTILE}", FIRST_NS + 2 * S, FIRST_NS + 5 * S, bit=True, detail=IMAGE)
    checked.coverage.faults = [FaultCoverage(fault, Span(1, 2), Span(3, 4), None)]
    checked.coverage.operations = {"send": {"ok": 18, "info": 2}}
    checked.coverage.errors = [{"f": "send", "error": 7, "name": IMAGE, "type": "info", "count": 2, "classified": True}]
    checked.summaries["linearizability"] = {
        "violated": 1,
        "partitions": [
            {"partition": f"{HOSTILE}-0", "verdict": "violated", "offset": 26},
            {"partition": "quiet-0", "verdict": "linearizable"},
        ],
    }
    cause = {
        "name": "offsets-assigned-twice",
        "sentence": f"offsets are assigned twice {HOSTILE}",
        "confidence": "certain",
        "because": [IMAGE],
        "against": [],
        "remedies": ["reserve the base offset and append in one step"],
        "explains": ["realtime-order"],
        "allowed": False,
        "first": {
            "anomaly": "realtime-order",
            "place": "",
            "time_ns": found.time_ns,
            "events": list(found.events),
            "detail": found.detail,
        },
        "findings": [],
    }
    diagnosis = {
        "causes": [cause] if verdict == "invalid" else [],
        "allowed": [],
        "excluded": [{"name": "time-outs", "sentence": "", "because": "measured, none"}],
        "measured": [{"name": "watermark lag", "outcome": "none", "sentence": "measured, none"}],
        "unexplained": [],
    }
    seen = [{"anomaly": "realtime-order", "found": 1, "mark": ILLEGAL, "marks": [ILLEGAL]}]
    reason = {"code": "illegal", "sentence": "realtime-order ×1"}
    failed = {"code": "run-failed", "sentence": f"the run failed: {HOSTILE}"}
    plain = checked.as_json()
    told: dict[str, Any] = json.loads(
        json.dumps(
            {
                "version": RESULTS_VERSION,
                "verdict": verdict,
                "exit_code": 1,
                "expected": None,
                "run": "store/stream/2026-11-15T12-30-05",
                "tidegauge": "0.1.0",
                "seed": 7,
                "outcome": verdict,
                "reasons": [reason] if verdict == "invalid" else [failed],
                "seen": seen if verdict == "invalid" else [],
                "looked_for": 38,
                "not_looked_at": {"torn": f"nothing to look at {IMAGE}"},
                "given_up": [f"a setting {IMAGE}"],
                **({"diagnosis": diagnosis} if diagnosed else {}),
                **plain,
            }
        )
    )
    return told


def series(partitions: int = 1, nodes: int = 2, points: int = 40) -> dict[str, Any]:
    """series.json."""
    names = [f"{HOSTILE}-{number}" for number in range(partitions)]
    rising = [[bucket, 3 * bucket] for bucket in range(points)]
    send = {"kind": "complete", "process": 6, "f": 1, "type": 1, "topic": HOSTILE, "partition": 0, "error": 0}
    around = [
        {**send, "rank": 0, "event": SENT, "from": 2 * S, "to": 3 * S, "offset": 27, "value": SENT, "detail": HOSTILE},
        {**send, "rank": 0, "event": SENT_TOO, "from": 3 * S + S // 2, "to": 4 * S, "offset": 26, "value": SENT_TOO},
        {"kind": "exchange", "rank": 1, "event": 1, "process": 1_000_000, "from": 2 * S, "to": 3 * S, "type": 1,
         "node": 1, "api": 0, "error": 6, "client": IMAGE, "name": HOSTILE, "detail": STEERING},
        {"kind": "record", "rank": 1, "event": SHOWN, "process": 7, "from": 9 * S, "to": 9 * S + 1, "offset": 26,
         "value": SENT},
    ]  # fmt: skip
    appended = [
        {"offset": n, "process": 6, "value": n, "event": n, "end": False, "from": n * S // 4, "to": (n + 3) * S // 4,
         "point": n * S // 4}
        for n in range(1, 8)
    ]  # fmt: skip
    return {
        "version": VERSION,
        "of": fingerprint(results()),
        "first_ns": FIRST_NS,
        "lasted": 12 * S,
        "start": S,
        "bucket": 100_000_000,
        "load": [S, 10 * S],
        "phases": [["load", S]],
        "faults": [
            {"number": 1, "name": f"leader-kill{HOSTILE}", "from": 2 * S, "to": 5 * S, "healed": None, "bit": True,
             "detail": IMAGE, "evidence": HOSTILE}
        ],
        "processes": {"6": {"role": HOSTILE}, "7": {"role": "final"}},
        "partitions": names,
        "others": 3,
        "flow": {name: {"ok": rising[1:], "acknowledged": rising[1:], "read": rising[1:]} for name in names},
        "errors": {HOSTILE: [[3, 4]]},
        "latency": [[bucket, 1.0, 2.0, 3.0, 4.5] for bucket in range(points)],
        "marks": {
            name: {str(1 + n): {"high_watermark": rising, "end": [[0, 4], [9, None], [30, 9]]} for n in range(nodes)}
            for name in names
        },
        "leaders": {
            name: {"1": [[S, 1, 0, "1,2,3"], [5 * S, 2, 1, "2,3"]], "2": [[S, 1, 0, "1,2,3"]]} for name in names
        },
        "refusals": [
            {"client": HOSTILE, "node": 1, "api": 0, "topic": IMAGE, "partition": 0, "count": 66, "first": S,
             "last": 2 * S}
        ],
        "seen": {"probes": True, "exchanges": True},
        "around": {"realtime-order/0": around},
        "replicas": {"realtime-order/0": [[1, "has it", [[SENT, 27]]], [2, "not looked at", []]]},
        "witness": {"quiet-0": {"operations": appended}},
    }  # fmt: skip
