"""A contradiction is found exactly where no order of the operations has moments for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from random import Random

import pytest

from harness.history.schema import F, Kind, OffsetView, Status, Type
from tests.support.histories import Rows, value_of
from tests.support.kernels import WHOLE, Size, check_rows, chosen, findings_of

ANOMALIES = ("realtime-order", "not-linearizable")
HISTORIES = 300
NEVER = 10**6


@dataclass(frozen=True)
class Done:
    """An operation: an append at an offset, or an answer that the end is there."""

    sort: str  # ok, info or end
    offset: int
    invoked: int
    complete: int
    first_read: int = NEVER

    @property
    def over(self) -> int:
        """When it has certainly taken effect."""
        if self.sort == "end":
            return self.complete
        return self.first_read if self.sort == "info" else min(self.complete, self.first_read)


def _history(random: Random) -> list[Done]:
    """Up to six operations; each offset is appended to at most once."""
    operations = []
    offsets = random.sample(range(5), random.randint(1, 4))
    for offset in offsets:
        invoked = random.randint(0, 12)
        complete = invoked + random.randint(0, 6)
        info = random.random() < 0.25
        read = invoked + random.randint(-1, 8) if info or random.random() < 0.5 else NEVER
        operations.append(Done("info" if info else "ok", offset, invoked, complete, read))
    for _ in range(random.randint(0, 6 - len(offsets))):
        invoked = random.randint(0, 14)
        operations.append(Done("end", random.randint(0, 5), invoked, invoked + random.randint(0, 4)))
    return operations


def _feasible(operations: list[Done]) -> bool:
    """Whether some order is that of a log and has a moment for each operation that does not lie before the last one."""
    return any(_is_a_log(order) and _has_moments(order) for order in permutations(operations))


def _is_a_log(order: tuple[Done, ...]) -> bool:
    """Appends take rising offsets, and an end has all below it before it and nothing else."""
    for number, operation in enumerate(order):
        for later in order[number + 1 :]:
            # of an append after an end at its offset: it was not there; of two ends there: both saw the same
            if later.offset < operation.offset or (later.offset == operation.offset and operation.sort != "end"):
                return False
    return True


def _has_moments(order: tuple[Done, ...]) -> bool:
    moment = -NEVER
    for operation in order:
        moment = max(moment, operation.invoked)
        if moment > operation.over:
            return False
    return True


def _write(rows: Rows, topic: int, operations: list[Done]) -> None:
    rows.topics[topic] = f"t{topic}"
    for operation in operations:
        place = {"topic": topic, "partition": 0}
        during = {"invoked": operation.invoked, "time": operation.complete}
        if operation.sort == "end":
            of_end = {"api": 2, "view": OffsetView.LATEST, "error": 0, "node": 1, "offset": operation.offset}
            rows.add(Kind.PROBE, "n1", **of_end, **place, **during)
            continue
        value = value_of(topic, chr(97 + operation.offset), 1)
        ok = operation.sort == "ok"
        rows.add(
            Kind.COMPLETE, "p1", f=F.SEND, op=value, value=value, type=Type.OK if ok else Type.INFO,
            offset=operation.offset if ok else None, **place, **during,
        )  # fmt: skip
        if operation.first_read < NEVER:
            read = {"invoked": operation.first_read - 1, "time": operation.first_read}
            rows.add(Kind.RECORD, "c1", status=Status.GOOD, value=value, offset=operation.offset, **place, **read)


@pytest.mark.parametrize("size", [WHOLE, Size(2, 7, 50)], ids=["one stretch", "stretches of two offsets"])
def test_a_contradiction_is_found_exactly_where_there_are_no_moments(size: Size) -> None:
    """Against all orders of the operations."""
    random = Random(7)
    histories = [_history(random) for _ in range(HISTORIES)]
    rows = Rows()
    for topic, operations in enumerate(histories):
        _write(rows, topic, operations)
    outcomes, _ = check_rows(rows, chosen(*ANOMALIES), size)
    findings = [each for each in findings_of(rows, outcomes) if each.anomaly in ANOMALIES]
    found = {int(str(each.topic)[1:]) for each in findings}
    feasible = {topic for topic, operations in enumerate(histories) if _feasible(operations)}
    assert 0.2 * HISTORIES < len(feasible) < 0.8 * HISTORIES
    assert found == set(range(HISTORIES)) - feasible
