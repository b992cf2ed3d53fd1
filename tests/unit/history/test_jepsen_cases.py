"""The cases that Jepsen's checker is tested with, in histories of our own: docs/jepsen.md is the table of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import REPOSITORY
from tests.unit.history.test_foreign_verdicts import anomalies, op, verdict_of

Operations = list[tuple[str, str]]


def send(process: int, *sent: str, type_: str = "ok") -> tuple[str, str]:
    """Sends, each as `key value` or `key value@offset`."""
    asked, told = [], []
    for each in sent:
        key, _, rest = each.partition(" ")
        value, _, offset = rest.partition("@")
        asked.append(f"[:send {key} {value}]")
        told.append(f"[:send {key} [{offset} {value}]]" if offset else asked[-1])
    return op(process, "send", f"[{' '.join(asked)}]", f"[{' '.join(told)}]", type_)


def poll(process: int, *parts: str) -> tuple[str, str]:
    """A poll, or several of one operation: each what was polled, as `key value@offset value@offset`."""
    told = []
    for part in parts:
        key, *found = part.split()
        records = " ".join("[{1} {0}]".format(*each.split("@")) for each in found)
        told.append(f"[:poll {{{key} [{records}]}}]")
    return op(process, "poll", f"[{' '.join(['[:poll]'] * len(parts))}]", f"[{' '.join(told)}]")


def at_once(*operations: tuple[str, str]) -> Operations:
    """All of them invoked before any of them ends; lines come in pairs."""
    lines = [operation[0] for operation in operations] + [operation[1] for operation in operations]
    return list(zip(lines[::2], lines[1::2], strict=True))


# name in docs/jepsen.md: the history, and what is found in it
CASES: dict[str, tuple[Operations, set[str]]] = {
    "two sends acknowledged at one offset": (
        [send(0, "1 5@7"), send(1, "1 6@7")],
        {"shared-offset", "inconsistent-offset", "not-linearizable"},
    ),
    "an `info` send at an offset that another has": ([send(0, "1 5@7", type_="info"), send(1, "1 6@7")], set()),
    "the same, and a sibling of it was read": (
        [send(0, "1 5@7", "2 5", type_="info"), send(1, "1 6@7"), poll(2, "2 5@3")],
        {"inconsistent-offset"},
    ),
    "two `info` sends at one offset, and siblings of both were read": (
        [
            send(0, "1 5@7", "2 5", type_="info"),
            send(1, "1 6@7", "2 6", type_="info"),
            poll(2, "2 5@3 6@4"),
        ],
        {"inconsistent-offset"},
    ),
    "an `info` send at an offset that another has, and it was read elsewhere": (
        [send(0, "1 5@7", type_="info"), send(1, "1 6@7"), poll(2, "1 6@7 5@8")],
        {"inconsistent-offset", "duplicate"},
    ),
    "a failed send at an offset that another has": ([send(0, "1 5@7", type_="fail"), send(1, "1 6@7")], set()),
    "a failed send was read": ([send(0, "1 5", type_="fail"), poll(1, "1 5@7")], {"aborted-read"}),
    "acknowledged, and passed by a read": ([send(0, "1 5@7"), send(0, "1 6@8"), poll(1, "1 6@8")], {"lost-write"}),
    "acknowledged at an offset where another was read": (
        [send(0, "1 5@7"), send(0, "1 6@7", "1 8@9"), poll(1, "1 6@7 8@9")],
        {"lost-write", "shared-offset", "inconsistent-offset", "not-linearizable"},
    ),
    "an `info` send that a sibling proves, passed by a read": (
        [send(0, "1 5", "2 6@0", type_="info"), send(1, "2 7", type_="info"), poll(2, "1 5@0"), poll(3, "2 7@1")],
        {"torn"},
    ),
    "a poll goes on behind a message that others know": (
        [send(0, "1 5", "1 6", "1 7", type_="info"), poll(1, "1 5@1"), poll(2, "1 6@2"), poll(1, "1 7@3")],
        {"poll-skip"},
    ),
    "a poll goes back": (
        [send(0, "1 5", "1 6", type_="info"), poll(1, "1 5@1 6@2"), poll(1, "1 6@2")],
        {"nonmonotonic-poll"},
    ),
    "inside a poll, a message is left out": (
        [send(0, "1 5", "1 6", "1 7", type_="info"), poll(1, "1 5@1 7@4"), poll(2, "1 6@2")],
        {"int-poll-skip"},
    ),
    "the same between two polls of one operation": (
        [send(0, "1 5", "1 6", "1 7", type_="info"), poll(1, "1 5@1", "1 7@4"), poll(2, "1 6@2")],
        {"int-poll-skip"},
    ),
    "inside a poll, it goes back": (
        [send(0, "1 5", "1 7", type_="info"), poll(1, "1 7@3 5@1")],
        {"int-nonmonotonic-poll"},
    ),
    "a later operation's sends have lower offsets": (
        [send(0, "1 5@3", "1 6@4"), send(0, "1 7@1", "1 8@2")],
        {"nonmonotonic-send", "realtime-order", "G0-realtime"},
    ),
    "inside an operation, a later send has a lower offset": (
        [send(0, "1 5@3", "1 6@1")],
        {"int-nonmonotonic-send"},
    ),
    "the same, as polls alone tell": (
        [send(0, "1 5", "1 6", type_="info"), poll(1, "1 6@2 5@4")],
        set(),
    ),
    "inside an operation, others' sends lie between": (
        [*at_once(send(0, "1 5@1", "1 6@3"), send(1, "1 7@2")), poll(2, "1 5@1 7@2 6@3")],
        set(),
    ),
    "one value at two offsets": ([send(0, "1 5@7"), poll(1, "1 5@7"), poll(2, "1 5@9")], {"duplicate"}),
    "two transactions write two keys in opposite orders": (
        at_once(send(0, "1 5@0", "2 5@1"), send(1, "1 6@1", "2 6@0")),
        {"G0"},
    ),
    "two transactions see each other": (
        at_once(
            op(0, "txn", "[[:send 1 5] [:poll]]", "[[:send 1 [0 5]] [:poll {2 [[0 6]]}]]"),
            op(1, "txn", "[[:send 2 6] [:poll]]", "[[:send 2 [0 6]] [:poll {1 [[0 5]]}]]"),
        ),
        {"G1c"},
    ),
    "a transaction polls what it sent itself": (
        [op(0, "txn", "[[:send 1 5] [:poll]]", "[[:send 1 [0 5]] [:poll {1 [[0 5]]}]]")],
        {"precommitted-read"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_judged_as_the_table_says(name: str, tmp_path: Path) -> None:
    """What is expected is found, and nothing else."""
    operations, expected = CASES[name]
    assert set(anomalies(verdict_of(tmp_path, *operations))) == expected


def test_the_table_has_every_case() -> None:
    """Each by the name that it has here."""
    page = (REPOSITORY / "docs" / "jepsen.md").read_text()
    assert [name for name in CASES if f"| {name} |" not in page] == []
