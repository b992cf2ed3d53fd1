"""The tests' own judgement of histories of groups: what it finds, and what it lets pass."""

from __future__ import annotations

from typing import Any

from harness.history.schema import KINDS, F, Kind, Type
from tests.support.group_histories import History, Row

BLANK = dict.fromkeys(KINDS[Kind.COMPLETE])


def ended(f: F, time: int, type_: Type = Type.OK, **columns: Any) -> Row:
    """A completion in partition 0, whose call took one."""
    return {**BLANK, "f": f, "time": time, "invoked": time - 1, "type": type_, "process": columns.get("member"),
            "topic": 0, "partition": 0, **columns}  # fmt: skip


def read(offset: int, time: int) -> Row:
    """A record of partition 0."""
    return {"topic": 0, "partition": 0, "offset": offset, "time": time, "process": 1}


def history(*completes: Row, records: tuple[Row, ...] = ()) -> History:
    """With these completions."""
    return History([], completes, records)


def owned(*intervals: tuple[int, int, int, Type]) -> History:
    """Members that had the partition from when to when."""
    return history(
        *(ended(F.ASSIGN, start, member=member) for member, start, _, _ in intervals),
        *(ended(F.REVOKE, end, type_, member=member) for member, _, end, type_ in intervals),
    )


def test_two_owners() -> None:
    """Found, unless the first one had lost the partition, or let go before the second one came."""
    assert len(owned((1, 10, 30, Type.OK), (2, 20, 40, Type.OK)).owned_twice()) == 1
    assert owned((1, 10, 30, Type.INFO), (2, 20, 40, Type.OK)).owned_twice() == []
    assert owned((1, 10, 30, Type.OK), (2, 30, 40, Type.OK)).owned_twice() == []


def test_owners_that_never_let_go() -> None:
    """They have it until they are gone, and that is no order."""
    for end in (ended(F.CRASH, 30, member=1), ended(F.POLL, 30, member=1)):
        (interval,) = history(ended(F.ASSIGN, 10, member=1), end).intervals()
        assert (interval.start, interval.end, interval.lost) == (10, 30, True)


def test_to_go_back_is_no_assignment() -> None:
    """It has an offset."""
    gone_back = history(ended(F.ASSIGN, 10, member=1), ended(F.ASSIGN, 20, member=1, offset=3))
    assert len(gone_back.intervals()) == gone_back.rebalances() == 1


def test_records_of_what_a_member_does_not_have() -> None:
    """Before it was given, or after it was taken."""
    polls = [ended(F.POLL, time, member=1, op=time) for time in (5, 20, 40)]
    records = tuple({**read(3, time - 1), "op": time} for time in (5, 20, 40))
    some = History([], [*owned((1, 10, 30, Type.OK)).completes, *polls], records)
    assert [row["op"] for row in some.read_unowned()] == [5, 40]


def test_commits_of_what_nobody_read() -> None:
    """By then."""
    commits = [ended(F.COMMIT, 20, member=1, offset=6), ended(F.COMMIT, 40, member=1, offset=6)]
    found = history(*commits, records=(read(4, 10), read(5, 30))).committed_unread()
    assert [row["time"] for row in found] == [20]


def test_answers() -> None:
    """Below what was acknowledged before they were asked for, or of a commit that nobody tried."""
    commits = [
        ended(F.COMMIT, 10, member=1, offset=4),
        ended(F.COMMIT, 20, Type.INFO, member=1, offset=6),
        ended(F.COMMIT, 20, Type.FAIL, member=1, offset=7),
        ended(F.COMMIT, 50, member=1, offset=8),
    ]
    for offset, time, wrong in (
        (4, 30, False), (6, 30, False), (-1, 30, True), (7, 30, True), (5, 30, True), (8, 30, True), (-1, 5, False),
        (8, 60, False), (6, 60, True),
    ):  # fmt: skip
        answer = ended(F.COMMITTED, time, member=1, offset=offset)
        assert bool(history(*commits, answer).wrong_answers()) == wrong, (offset, time)


def test_what_has_no_outcome() -> None:
    """Is info once it is sealed."""
    begun = {"op": 7, "f": F.COMMIT, "time": 5, "topic": 0, "partition": 0, "offset": 3, "process": 1}
    unsealed = History([begun], [], [])
    assert unsealed.without_outcome() == {7}
    assert unsealed.sealed().without_outcome() == set()
    assert [(row["type"], row["invoked"]) for row in unsealed.sealed().ended(F.COMMIT)] == [(Type.INFO, 5)]
