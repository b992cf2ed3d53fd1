"""What several oracles look up in the rows."""

from __future__ import annotations

from collections.abc import Iterator

from harness.history.schema import ID_BITS, F, Kind, Type
from tests.oracle import Event
from tests.support.histories import VALUES_OF_A_TOPIC, Rows, process_of


def operations(rows: Rows, *functions: F) -> Iterator[Event]:
    """How operations ended."""
    return (event for event in rows.events[Kind.COMPLETE] if event["f"] in functions)


def records(rows: Rows) -> Iterator[Event]:
    """What any client was handed; what replicas were asked for is not theirs."""
    return (event for event in rows.events[Kind.RECORD] if rows.processes[event["process"]]["role"] != "replica")


def deleted_topics(rows: Rows) -> set[int | None]:
    """Topics that the workload deleted, or may have."""
    return {event.get("topic") for event in operations(rows, F.DELETE) if event["type"] != Type.FAIL}


def reads_uncommitted(rows: Rows, process: int) -> bool:
    """Whether the manifest says that it also reads what was not committed."""
    return rows.processes[process].get("isolation") == "read_uncommitted"


def value_of(topic: int, number: int, sender: str) -> int:
    """The id of a value, and of its send; up to 900 of a topic."""
    return (process_of(sender) << ID_BITS) + topic * VALUES_OF_A_TOPIC + number


def op_of(topic: int, number: int, who: str) -> int:
    """The id of an operation that is no send."""
    return value_of(topic, number, who) + (1 << 32)


APART_NS = 3_600_000_000_000  # later than everything else


def alone_ns(topic: int) -> int:
    """When a history begins that has a time of its own: a millisecond, so that none comes before or after another."""
    return APART_NS + topic * 1_000_000
