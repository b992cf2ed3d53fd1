"""Who does what when in a made history: everything is a function of the number of a message, a run or a probe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from harness.history import parquet
from harness.history.schema import COLUMNS, ID_BITS, KINDS, Kind, row_type
from harness.history.sources import Rows

RUN = 10  # messages of a batch
RUNS_OF_A_POLL = 5
PROBES_OF_100 = 25  # of a hundred messages
EVENTS_OF_100 = 450  # about, of a hundred messages
BLOCK = 200_000
START_NS = 1_000_000_000_000
PACE_NS = 20_000  # from one message to the next
LEAST_NS = 20_000_000_000  # of the load
MS = 1_000_000
FINAL_POLL = 500
TOPIC, TXN_TOPIC = 0, 1
PROBE, FIRST_PRODUCER, FIRST_CONSUMER, FIRST_FINAL = 2, 10, 20, 30
TXN_PRODUCER, TXN_MEMBER, TXN_FINAL, TXN_RAW = 40, 50, 60, 61
TXN_PARTITIONS = 4
TXN_SENDS = 5
MESSAGES_OF_A_TXN = 2_000  # one transaction for so many other messages
TEXTS = (
    *("1,2,3", "2,3", "load", "heal", "recover", "recovered", "final", "seal", "group"),
    *("leader-kill", "leader 1 → 2 (epoch 0 → 1)"),
    *(f"tidegauge-producer-{FIRST_PRODUCER + n}" for n in range(4)),
    *(f"tidegauge-consumer-{FIRST_CONSUMER + n}" for n in range(4)),
    *(f"txn-{n}" for n in range(TXN_PARTITIONS)),
)
TEXT = {text: number for number, text in enumerate(TEXTS)}
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Planted:
    """Flaws, by the numbers of messages and of probes."""

    lost: tuple[int, ...] = ()  # acknowledged, and nobody was handed it
    doubled: tuple[int, ...] = ()  # the final read was handed it a second time, in place of the next
    backward: tuple[int, ...] = ()  # in its place the load's consumer was handed the one before it again
    fallen: tuple[int, ...] = ()  # probes that showed less than one before them
    stale: tuple[int, ...] = ()  # probes that showed no more than one before them, although more was acknowledged


@dataclass(frozen=True)
class Plan:
    """Who does what when, by numbers of messages (m), runs (r) and probes (j)."""

    partitions: int
    runs: int

    @classmethod
    def of(cls, events: int, partitions: int) -> Self:
        """For about so many events."""
        whole = RUNS_OF_A_POLL * min(4, partitions)
        return cls(partitions, max(1, 100 * events // EVENTS_OF_100 // RUN // whole) * whole)

    @property
    def messages(self) -> int:
        """Sent to the topic of the load."""
        return self.runs * RUN

    @property
    def clients(self) -> int:
        """Consumers, and producers: each has its own partitions."""
        return next(n for n in (4, 3, 2, 1) if self.partitions % n == 0)

    @property
    def probes(self) -> int:
        """Questions about its partitions."""
        return self.messages * PROBES_OF_100 // 100

    @property
    def polls(self) -> int:
        """Of all consumers of the load."""
        return self.runs // RUNS_OF_A_POLL

    @property
    def transactions(self) -> int:
        """Beside the load."""
        return max(TXN_PARTITIONS, self.messages // MESSAGES_OF_A_TXN)

    @property
    def pace_ns(self) -> int:
        """From one message to the next."""
        return max(PACE_NS, LEAST_NS // self.messages)

    @property
    def probe_pace_ns(self) -> int:
        """From one probe to the next."""
        return self.pace_ns * 100 // PROBES_OF_100

    @property
    def end_ns(self) -> int:
        """Of the load, with all that it began."""
        return START_NS + self.messages * self.pace_ns + 10 * MS

    @property
    def final_ns(self) -> int:
        """When the final read begins."""
        return self.end_ns + 1_000 * MS

    @property
    def fault_ns(self) -> tuple[int, int]:
        """When the fault begins and ends."""
        lasted = self.end_ns - START_NS
        return START_NS + lasted * 2 // 5, START_NS + lasted * 3 // 5

    @cached_property
    def starts(self) -> Numbers:
        """Of the final read: how many records come before each partition's."""
        runs = (self.runs - np.arange(self.partitions) + self.partitions - 1) // self.partitions
        return np.concatenate([[0], np.cumsum(np.maximum(runs, 0) * RUN)])

    def partition(self, messages: Numbers) -> Numbers:
        """Runs go round."""
        return messages // RUN % self.partitions

    def offset(self, messages: Numbers) -> Numbers:
        """Of a message in its partition."""
        return messages // RUN // self.partitions * RUN + messages % RUN

    def producer(self, partitions: Numbers) -> Numbers:
        """Who sends to a partition."""
        return FIRST_PRODUCER + partitions % self.clients

    def consumer(self, partitions: Numbers) -> Numbers:
        """Who reads a partition."""
        return FIRST_CONSUMER + partitions % self.clients

    def value(self, messages: Numbers) -> Numbers:
        """Of a message: the operation that sends it."""
        return (self.producer(self.partition(messages)) << ID_BITS) + messages

    def invoked(self, messages: Numbers) -> Numbers:
        """When a message is sent."""
        return START_NS + messages * self.pace_ns

    def acknowledged(self, runs: Numbers) -> Numbers:
        """When a run is."""
        return self.invoked(runs * RUN + RUN - 1) + 2 * MS

    def polled(self, polls: Numbers) -> Numbers:
        """When the poll of that number, of all consumers, ended."""
        return self.acknowledged(self.last_run(polls)) + 3 * MS

    def last_run(self, polls: Numbers) -> Numbers:
        """The last run that a poll hands out."""
        consumers = self.clients
        return polls % consumers + consumers * (polls // consumers * RUNS_OF_A_POLL + RUNS_OF_A_POLL - 1)

    def run_read(self, numbers: Numbers) -> Numbers:
        """The run of the record that is so many records after the first one that the load's consumers were handed."""
        polls, inside = numbers // (RUN * RUNS_OF_A_POLL), numbers % (RUN * RUNS_OF_A_POLL)
        consumers = self.clients
        return polls % consumers + consumers * (polls // consumers * RUNS_OF_A_POLL + inside // RUN)

    def watermark(self, partitions: Numbers, at_ns: Numbers) -> Numbers:
        """What is appended a millisecond before it is acknowledged."""
        runs = np.clip(((at_ns - START_NS - MS) // self.pace_ns - RUN + 1) // RUN + 1, 0, self.runs)
        whole: Numbers = np.maximum(0, (runs - partitions + self.partitions - 1) // self.partitions)
        return whole * RUN

    def leader(self, partitions: Numbers, at_ns: Numbers) -> tuple[Numbers, Numbers]:
        """The leader and its epoch: the fault takes those of node 1 to node 2."""
        first = partitions % 3 + 1
        moved = (first == 1) & (at_ns >= self.fault_ns[0])
        return np.where(moved, 2, first), moved.astype(np.int64)

    def probe(self, probes: Numbers) -> tuple[Numbers, Numbers]:
        """The partition that is asked about, and when."""
        return probes // 4 % self.partitions, START_NS + probes * self.probe_pace_ns

    @property
    def back(self) -> int:
        """How many probes before it another one of the same sort had certainly ended."""
        around = 4 * self.partitions
        return (MS // (around * self.probe_pace_ns) + 1) * around

    def shown_before(self, probes: Numbers) -> Numbers:
        """What a probe showed that had certainly ended before this one."""
        partitions, at_ns = self.probe(probes - self.back)
        return self.watermark(partitions, at_ns + MS // 2)

    def plant(self, rng: np.random.Generator, count: int) -> Planted:
        """Half of the flaws where files are cut, and the others anywhere."""
        free = np.ones(self.runs, np.bool_)
        free[: self.partitions] = free[-self.partitions :] = False

        def chosen(wanted: Numbers) -> Numbers:
            """These runs if possible, and others; nothing else is done to their neighbours in the partition."""
            kept: list[int] = []
            for run in np.concatenate([wanted[: count // 2], rng.permutation(self.runs)[: 50 * count]]).tolist():
                around = [max(0, run - self.partitions), run, min(self.runs - 1, run + self.partitions)]
                if len(kept) < count and free[around].all():
                    kept.append(run)
                    free[around] = False
            return np.array(sorted(kept), np.int64)

        step = -(-parquet.FILE_ROWS // block_rows()) * block_rows()
        cuts = np.arange(step, self.messages, step)
        places = np.searchsorted(self.starts, cuts, "right") - 1
        in_final = (cuts - self.starts[places]) // RUN * self.partitions + places
        backward = chosen(self.run_read(cuts))
        lost, doubled = chosen(self.run_read(cuts) + 1), chosen(in_final)
        inside = np.arange(len(backward)) % 2 * (1 + np.arange(len(backward)) % 7)
        fallen, stale = self._flawed_probes(rng, count)
        return Planted(
            lost=tuple((lost * RUN + 1 + lost % 8).tolist()),
            doubled=tuple((doubled * RUN + 1 + doubled % 8).tolist()),
            backward=tuple((backward * RUN + inside).tolist()),
            fallen=fallen,
            stale=stale,
        )

    def _flawed_probes(self, rng: np.random.Generator, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Answers to Fetch; where files are cut if such an answer is near."""
        cuts = np.arange(parquet.FILE_ROWS, self.probes, parquet.FILE_ROWS)[:, None] + np.arange(-2, 3) * 4
        anywhere = rng.permutation(self.probes)[: 200 * count]
        found = np.unique(np.concatenate([cuts.ravel(), anywhere]) // 4 * 4)
        found = found[(found > self.back + 4 * self.partitions) & (found < self.probes)]
        partitions, at_ns = self.probe(found)
        _, epoch_before = self.leader(partitions, at_ns - self.back * self.probe_pace_ns - MS)
        same = self.leader(partitions, at_ns)[1] == epoch_before
        shown, acknowledged = self.shown_before(found), self.watermark(partitions, at_ns - MS)
        wrong = found[same & (shown > 0) & (shown < acknowledged)]
        rng.shuffle(wrong)
        _, first = np.unique(wrong // 4 % self.partitions if self.partitions > 4 * count else wrong, return_index=True)
        wrong = wrong[np.sort(first)]
        return tuple(sorted(wrong[:count].tolist())), tuple(sorted(wrong[count : 2 * count].tolist()))

    def told(self, planted: Planted) -> dict[str, Any]:
        """Flaws as partitions and offsets."""

        def places(messages: tuple[int, ...]) -> frozenset[tuple[int, int]]:
            numbers = np.array(messages, np.int64)
            return frozenset(zip(self.partition(numbers).tolist(), self.offset(numbers).tolist(), strict=True))

        def of_probes(probes: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(sorted((np.array(probes, np.int64) // 4 % self.partitions).tolist()))

        return {
            **{name: places(getattr(planted, name)) for name in ("lost", "doubled", "backward")},
            "fallen": of_probes(planted.fallen),
            "behind": of_probes((*planted.fallen, *planted.stale)),
        }


def _blank(kind: Kind, count: int) -> Rows:
    row = np.empty((), row_type(kind))
    for name in KINDS[kind]:
        row[name] = COLUMNS[name].null
    return np.full(count, row)


def make_rows(kind: Kind, count: int, /, **columns: Any) -> Rows:
    """Rows with these columns, as far as the kind has them; `counter` is the lower part of `event`."""
    rows = _blank(kind, count)
    columns["event"] = (np.asarray(columns["process"], np.int64) << ID_BITS) + columns.pop("counter")
    if kind is Kind.INVOKE and "invoked" in columns:
        columns["time"] = columns["invoked"]
        for name in ("offset", "count"):
            columns.pop(name, None)
    for name, values in columns.items():
        if name in KINDS[kind]:
            rows[name] = values
    return rows


def block_rows() -> int:
    """Files are cut between blocks, so that none may be larger than a file; whole polls."""
    return min(BLOCK, parquet.FILE_ROWS) // (RUN * RUNS_OF_A_POLL) * RUN * RUNS_OF_A_POLL


def blocks(count: int) -> Iterator[Numbers]:
    """Numbers up to a count, some at a time."""
    for start in range(0, count, block_rows()):
        yield np.arange(start, min(count, start + block_rows()), dtype=np.int64)
