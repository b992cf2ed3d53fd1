"""What `make detection` runs: each broken broker before each client, and correct brokers with everything else.

A broken broker names the anomalies it is *meant* for, of which at least one has to be found, and those that follow from
them. Whatever else is found is unexplained. On correct brokers nothing illegal may be found, and nothing either while
other processes keep the machine busy (STARVED).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

CONFLUENT, KAFKA_PYTHON = "confluent-kafka", "kafka-python"
CLIENTS = (CONFLUENT, KAFKA_PYTHON)
SHORT = {CONFLUENT: "ck", KAFKA_PYTHON: "kp"}
SEED = 7

MODEST: dict[str, Any] = {"final_read_timeout_s": 6, "probe_rate": 5}
STREAM: dict[str, Any] = MODEST | {"rate": 200, "partitions": 3}
IMPATIENT: dict[str, Any] = STREAM | {"delivery_timeout_ms": 8000, "request_timeout_ms": 3000}
SLOW: dict[str, Any] = MODEST | {"rate": 100}
IDEMPOTENT: dict[str, Any] = STREAM | {"idempotence": True}


@dataclass(frozen=True)
class DetectionCase:
    """One run of the matrix."""

    name: str
    client: str
    workload: str
    settings: dict[str, Any]
    time_s: int
    broken: str = ""  # broken brokers
    nemesis: str = ""  # faults, each as fault or fault:role
    meant: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()  # of several bugs, in the order in which they have to be told; a/b in either
    hidden: tuple[str, ...] = ()  # those of them that another bug may keep this client from ever meeting

    def as_file(self) -> dict[str, Any]:
        """As the data of a scenario file."""
        data: dict[str, Any] = {
            "name": self.name,
            "workload": {"name": self.workload, "client": self.client, **self.settings},
            "time": f"{self.time_s}s",
            "seed": SEED,
        }
        if self.broken:
            data["tap"] = {"broken": self.broken.split(", ")}
        if self.nemesis:
            data["nemesis"] = [_step(fault, place) for place, fault in enumerate(self.nemesis.split(", "))]
        return data


def _step(nemesis: str, place: int) -> dict[str, Any]:
    """A fault of a scenario file, some time after the ones before it."""
    fault, _, role = nemesis.partition(":")
    aimed = {"target": role} if role else {}
    return {"fault": fault, **aimed, "after": f"{4 + 20 * place}s", "every": "120s", "for": "6s", "times": 1}


@dataclass(frozen=True)
class Bug:
    """A broken broker, what makes it show, what it is meant for, and what follows from that."""

    broken: str
    meant: tuple[str, ...]
    follows: tuple[str, ...] = ()
    workload: str = "stream"
    settings: dict[str, Any] = field(default_factory=lambda: STREAM)
    time_s: int = 12
    variant: str = ""

    def cases(self) -> Iterator[DetectionCase]:
        """With each client."""
        title = "-".join(filter(None, ("broken", self.broken.replace(":", "-"), self.variant)))
        for client in CLIENTS:
            yield DetectionCase(
                f"{title}-{SHORT[client]}",
                client,
                self.workload,
                self.settings,
                self.time_s,
                broken=self.broken,
                meant=self.meant,
                follows=self.follows,
            )


WATERMARKS_FALL = (
    "watermark-regression",
    "end-offset-regression",
    "watermark-behind-ack",
    "watermark-ahead",
    "retry-watermark-regression",
    "lso-regression",
    "lso-above-hw",
)
STALLS = ("stall", "watermark-frozen", "no-progress-in-fault", "slow-recovery")
OVERWRITTEN = ("inconsistent-offset", "shared-offset", "duplicate")
LOST = ("lost-write", "lost-tail", "gap")
SKIPS = ("poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll")
UNORDERED = ("nonmonotonic-send", "realtime-order", "not-linearizable")
LEADERS = (
    "not-leader-loop",
    "metadata-incomplete",
    "metadata-disagreement",
    "impostor-leader",
    "epoch-regression",
    "leaderless",
    "split-brain",
)

BUGS = (
    Bug(
        "watermark-is-next-offset",
        ("watermark-regression", "end-offset-regression", "watermark-ahead"),
        (*OVERWRITTEN, "aborted-read", *LOST, *SKIPS, *UNORDERED, *WATERMARKS_FALL),
    ),
    Bug(
        "watermark-overwritten-by-retry",
        ("retry-watermark-regression", "watermark-regression", "end-offset-regression"),
        (*WATERMARKS_FALL, *UNORDERED),
        settings=IDEMPOTENT,
    ),
    Bug("watermark-frozen:300", ("watermark-frozen", "stall"), (*WATERMARKS_FALL, *STALLS, *LOST, *UNORDERED)),
    Bug("metadata-lists-self-only", ("metadata-incomplete",), (*LEADERS, *STALLS, *LOST, "unseen"), settings=IMPATIENT),
    Bug("not-leader-forever", ("not-leader-loop",), (*LEADERS, *STALLS, *LOST), settings=IMPATIENT),
    Bug("fetch-hangs", ("stall",), (*STALLS, *LOST, "unseen")),
    Bug("slow-partition", ("stall",), (*STALLS, *LOST), settings=STREAM | {"linger_ms": 500}, time_s=16),
    Bug(
        "acks-then-forgets",
        ("lost-write", "lost-tail"),
        (*LOST, *SKIPS, *WATERMARKS_FALL, *UNORDERED, "watermark-frozen"),
    ),
    Bug(
        "appends-retries-twice",
        ("retry-duplicate", "duplicate", "retry-offset-changed"),
        ("retry-reorder", *SKIPS, *UNORDERED, "inconsistent-offset"),
        settings=IDEMPOTENT,
    ),
    Bug(
        "appends-retries-twice",
        ("retry-duplicate", "duplicate", "retry-offset-changed"),
        ("retry-reorder", *SKIPS, *UNORDERED, "inconsistent-offset"),
        workload="retries",
        settings=MODEST | {"rate": 200},
        variant="retries",
    ),
    Bug(
        "serves-stale-reads",
        ("watermark-behind-ack", "watermark-regression", "end-offset-regression"),
        (*UNORDERED, *WATERMARKS_FALL),
    ),
    Bug(
        "reorders",
        ("nonmonotonic-send", "retry-reorder"),
        ("realtime-order", *UNORDERED, *SKIPS),
        settings=STREAM | {"rate": 1000, "idempotence": False, "linger_ms": 0},
    ),
    Bug(
        "reuses-offsets",
        ("shared-offset", "inconsistent-offset"),
        (*UNORDERED, *LOST, "duplicate", "retry-offset-changed", "watermark-ahead", "watermark-behind-ack"),
    ),
    Bug("acks-without-offset", ("false-ack",), (*UNORDERED, *OVERWRITTEN, "watermark-ahead")),
    Bug(
        "answers-as-leader",
        ("impostor-leader",),
        (*LEADERS, *WATERMARKS_FALL, *STALLS, *LOST, *UNORDERED),
        settings=IMPATIENT,
    ),
    Bug("coordinator-lies", ("coordinator-mismatch",), (*STALLS, *LOST), "groups", SLOW, 20),
    Bug("coordinator-lies", ("coordinator-mismatch",), (*STALLS, *LOST), "exactly-once", SLOW, 20, "eo"),
    Bug("skips-records", ("poll-skip", "int-poll-skip"), ("gap", "lost-write")),
    Bug("flips-bits", ("corrupt",), (*LOST, "phantom", *SKIPS)),
    Bug("misroutes", ("misrouted",), (*LOST, "duplicate", "inconsistent-offset", *SKIPS, *UNORDERED)),
    Bug(
        "leaks-aborted",
        ("aborted-read",),
        ("wrong-outcome", "precommitted-read", "zombie-write", "G1c", *SKIPS),
        "transactions",
        MODEST,
    ),
    Bug("tears-transactions", ("torn", "lost-write"), (*LOST, *SKIPS, "wrong-outcome"), "transactions", MODEST),
    Bug(
        "splits-brain",
        ("split-brain", "inconsistent-offset", "shared-offset"),
        (*LEADERS, *LOST, *SKIPS, *WATERMARKS_FALL, *UNORDERED, *STALLS, "replica-divergence"),
        settings=IMPATIENT,
    ),
    Bug("forgets-group-offsets", ("committed-offset-vanished",), ("rebalance-loss", *SKIPS), "groups", SLOW, 20),
    Bug(
        "forgets-group-offsets",
        ("committed-offset-vanished", "offsets-not-atomic"),
        ("rebalance-loss", "duplicate", *SKIPS),
        "exactly-once",
        SLOW,
        20,
        "eo",
    ),
    Bug("end-offset-goes-back", ("end-offset-regression",), (*WATERMARKS_FALL, *UNORDERED, "watermark-frozen")),
)


def clean(
    workload: str, client: str, nemesis: str = "", time_s: int = 12, title: str = "", **settings: Any
) -> DetectionCase:
    """A run before correct brokers."""
    usual = STREAM if workload == "stream" else MODEST | RATES.get(workload, {})
    name = f"clean-{title or '+'.join(filter(None, (workload, nemesis.replace(':', '-'))))}-{SHORT[client]}"
    return DetectionCase(name, client, workload, usual | settings, time_s, nemesis=nemesis)


RATES: dict[str, dict[str, Any]] = {
    "groups": {"rate": 100},
    "exactly-once": {"rate": 100},
    "topics": {"rate": 200},
    "retries": {"rate": 200},
    "compacted": {"rate": 200},
    "large-batch": {"messages": 3000},
}
LONG = frozenset({"groups", "exactly-once"})
WORKLOADS = ("stream", "large-batch", "groups", "transactions", "exactly-once", "retries", "compacted", "topics")
ON_STREAM = (  # faults that one client's stream goes through
    "leader-churn",
    "leader-move",
    "preferred-election",
    "controller-kill",
    "unclean-election",
    "kill",
    "stop",
    "pause",
    "kill-all",
    "pause-all",
    "rolling-restart",
    "restart-storm",
    "isolate",
    "minority",
    "one-way",
    "controller-cut",
    "ring",
    "bridge",
    "replication-cut",
    "client-cut",
    "flapping",
    "packet-loss",
    "bandwidth",
    "latency",
    "jitter",
    "slow-close",
    "reset",
    "drop-responses",
    "hold-produce",
    "stale-metadata",
    "client-pause",
    "disk-full",
    "disk-slow",
    "disk-fail",
    "disk-wipe",
    "cut-tail",
    "clock-skew",
    "add-partitions",
    "shrink-replicas",
    "recreate-topic",
    "min-isr",
)
# these take their time
SEQUENCES = ("cut-kill", "pause-kill", "stale-heir", "double-kill", "last-standing", "late-rejoin")

CLEAN = (
    *(clean(workload, client, "", 20 if workload in LONG else 12) for workload in WORKLOADS for client in CLIENTS),
    clean("groups", CONFLUENT, "", 20, "groups-kip848", group_protocol="consumer"),
    *(clean(workload, client, "leader-kill", 24) for workload in WORKLOADS[2:5] for client in CLIENTS),
    *(clean("stream", client, "leader-kill", 22) for client in CLIENTS),
    clean("stream", CONFLUENT, "leader-kill", 24, "stream+leader-kill+acks1", acks="1"),
    clean("compacted", CONFLUENT, "leader-kill", 24),
    clean("topics", CONFLUENT, "leader-kill", 26),
    clean("retries", CONFLUENT, "leader-move", 22),
    *(clean(workload, CONFLUENT, "isolate", 24) for workload in WORKLOADS[2:5]),
    *(clean(workload, KAFKA_PYTHON, "client-kill", 24) for workload in WORKLOADS[2:5]),
    clean("transactions", CONFLUENT, "pause:transaction-coordinator", 26),
    clean("groups", CONFLUENT, "pause:group-coordinator", 26),
    clean("exactly-once", CONFLUENT, "pause", 26),
    clean("transactions", CONFLUENT, "hold-end-txn", 20),
    clean("transactions", KAFKA_PYTHON, "reset", 22),
    clean("exactly-once", CONFLUENT, "reset", 22),
    clean("groups", KAFKA_PYTHON, "latency", 22),
    clean("stream", CONFLUENT, "duplicate-requests", 18, idempotence=True),
    clean("stream", KAFKA_PYTHON, "duplicate-requests", 18),
    clean("stream", KAFKA_PYTHON, "drop-responses", 18),
    *(clean("stream", CONFLUENT, fault, 26) for fault in ON_STREAM),
    *(clean("stream", CONFLUENT, fault, 45) for fault in SEQUENCES),
)
MATRIX: tuple[DetectionCase, ...] = (*(case for bug in BUGS for case in bug.cases()), *CLEAN)


def starved(workload: str, client: str, *faults: str) -> DetectionCase:
    """A run of correct brokers while eight other processes keep the machine busy."""
    settings = STREAM if workload == "stream" else MODEST | RATES.get(workload, {})
    name = "-".join(("starved", "+".join((workload, *faults)).replace(":", "-"), SHORT[client]))
    return DetectionCase(name, client, workload, settings, 14 + 20 * len(faults), nemesis=", ".join(faults))


SPINNING = 8
_EARLY = ("leader-kill", "client-kill", *ON_STREAM[::2])
_LATE = (*ON_STREAM[1::2], "duplicate-requests")
STARVED = (
    *(starved("stream", CLIENTS[place % 2], *both) for place, both in enumerate(zip(_EARLY, _LATE, strict=False))),
    *(starved("stream", CONFLUENT, fault) for fault in SEQUENCES),
    starved("stream", KAFKA_PYTHON, *_EARLY[len(_LATE) :]),
    starved("transactions", CONFLUENT, "hold-end-txn", "pause:transaction-coordinator"),
    starved("groups", KAFKA_PYTHON, "pause:group-coordinator", "client-kill"),
    starved("exactly-once", CONFLUENT, "leader-kill", "isolate"),
)  # every fault that clusters of processes have, at least once
