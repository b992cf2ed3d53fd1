"""The last write of each key of a compacted topic: what is found lost and what is left alone, at every size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkers import keys
from checkers.core.deletions import Deletions
from checkers.core.results import Finding
from checkers.keys import FAMILIES, LAST_OF_ITS_KEY
from harness.history.schema import F, Kind, Status, Type
from tests.support.histories import SECOND_NS, Rows
from tests.support.kernels import SIZES, WHOLE, Size, context, findings_of, steps_of

COMPACTED, PLAIN = 1, 2
READ_AT_NS = 100 * SECOND_NS  # when the final read begins
END = 99
LOST = 1  # a value that shares its offset with another one


class Story:
    """A history in the making: each key is a case of its own, and its offsets begin with it."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.rows.topics = {COMPACTED: "compacted", PLAIN: "plain"}

    def send(self, key: int | None, offset: int | None, **more: Any) -> None:
        """An acknowledged write, unless told otherwise; its value is its offset and a thousand."""
        value = 1000 + (offset or 0)
        whole = {"topic": COMPACTED, "partition": 0, "type": Type.OK, "time": 5 * SECOND_NS, "invoked": SECOND_NS}
        columns = whole | {"op": value, "value": value, "key": key, "offset": offset} | more
        self.rows.add(Kind.COMPLETE, "p1", f=F.SEND, **columns)

    def read(self, key: int, offset: int, who: str = "r1", **more: Any) -> None:
        """A record that the final reader, or another one, was handed."""
        whole = {"topic": COMPACTED, "partition": 0, "status": Status.GOOD, "value": 1000 + offset}
        columns = whole | {"key": key, "offset": offset, "time": READ_AT_NS + 1, "invoked": READ_AT_NS} | more
        self.rows.add(Kind.RECORD, who, **columns)

    def final(self, partition: int, type_: Type = Type.OK, topic: int = COMPACTED) -> None:
        """How the final read of a partition ended."""
        columns = {"topic": topic, "partition": partition, "type": type_, "offset": END, "end": END}
        self.rows.add(Kind.COMPLETE, "r1", f=F.FINAL, time=READ_AT_NS + 2, invoked=READ_AT_NS, **columns)


def of_keys(story: Story) -> None:
    """What is in partition 0: lost are 21, 30, 60 and 70, and one of those at 82."""
    story.send(1, 10)  # gone for good reasons
    story.send(1, 11)
    story.read(1, 11)
    story.send(2, 20)
    story.send(2, 21)
    story.read(2, 20)  # an earlier one is not enough
    story.send(3, 30)  # nothing of that key
    story.send(4, 40)
    story.read(4, 45)  # superseded by a send that nobody knows the end of
    story.send(5, 50)
    story.read(5, 51, status=Status.CORRUPT, value=None)  # compaction goes by keys
    story.send(6, 60)
    story.read(6, 60, value=9999)  # its offset holds something else
    story.send(7, 70)
    story.read(7, 70, who="c1")  # read in time, and gone at the end
    story.send(8, 82)  # of two that were acknowledged at one offset one is there
    story.send(8, 82, value=LOST, op=LOST)
    story.read(8, 82)
    story.send(9, 92)
    story.read(9, 91, value=1092)  # elsewhere than acknowledged
    story.send(10, 95)
    story.read(10, 95, value=9999)  # of two final readers one was handed something else
    story.read(10, 95)
    story.read(10, 95, value=1000, who="r2")
    story.final(partition=0)


def of_what_proves_nothing(story: Story) -> None:
    """Sends that were not acknowledged, reads that did not end or began too early, other topics, no keys."""
    story.send(11, 11, type=Type.INFO)
    story.send(12, 12, type=Type.FAIL)
    story.send(13, None)
    story.send(13, -1)
    story.send(14, 14, time=READ_AT_NS + 1)
    story.send(None, 15)
    story.send(1, 16, partition=1)
    story.final(partition=1, type_=Type.INFO)
    story.send(1, 17, partition=2)  # no final read at all
    story.send(1, 18, topic=PLAIN)
    story.final(partition=0, topic=PLAIN)


def of_partitions(story: Story) -> None:
    """A key is a key of its partition: another partition with the same key says nothing."""
    story.send(1, 80, partition=3)
    story.read(1, 85, partition=4)
    story.final(partition=3)
    story.final(partition=4)


def look(story: Story, size: Size, deletions: Deletions | None = None) -> tuple[list[Finding], int]:
    """What is lost, in the order of offsets, and in how much it was looked for."""
    run = context(story.rows, compact={COMPACTED})
    steps = steps_of(story.rows, FAMILIES, replace(run, deletions=deletions or run.deletions), size)
    outcomes = steps.conclude()
    assert not steps.failures
    found = sorted(findings_of(story.rows, outcomes), key=lambda each: each.offset or 0)
    return found, outcomes["keys"].looked_at["lost-write"]


def told(found: list[Finding]) -> list[tuple[int | None, list[int]]]:
    """Offsets and values."""
    return [(each.offset, list(each.values)) for each in found]


@pytest.mark.parametrize("tops_at_most", [0, 3, 1000])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_last_write_of_each_key_has_to_be_there_or_one_after_it(
    size: Size, tops_at_most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was before it may be gone, and what proves nothing is left alone; also where pieces leave tops out."""
    monkeypatch.setattr(keys, "TOPS_AT_MOST", tops_at_most)
    story = Story()
    for tell in (of_keys, of_what_proves_nothing, of_partitions):
        tell(story)
    found, looked_at = look(story, size)
    assert told(found) == [*((offset, [1000 + offset]) for offset in (21, 30, 60, 70, 80)), (82, [LOST])]
    assert {(each.anomaly, *each.tags) for each in found} == {("lost-write", LAST_OF_ITS_KEY)}
    assert found[0].facts == {"key": 2, "written": 21, "found": 20, "final_end": END}
    assert found[1].facts == {"key": 3, "written": 30, "final_end": END}
    assert found[0].processes == (1, 201)
    assert looked_at == 15


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_what_was_written_before_its_topic_was_deleted_may_be_gone(size: Size) -> None:
    """It is no last write, whatever its offset; what was sent when the deletion was over is one."""
    story = Story()
    story.send(1, 10)
    story.send(2, 20)
    story.send(2, 5, invoked=3 * SECOND_NS)
    story.send(3, 30, invoked=3 * SECOND_NS - 1)
    story.final(partition=0)
    deleted = Deletions({COMPACTED: ((2 * SECOND_NS, 3 * SECOND_NS),)})
    assert told(look(story, size, deleted)[0]) == [(5, [1005])]


def test_a_value_that_was_returned_elsewhere_is_not_lost() -> None:
    """Also where the stretch of that offset is in another piece; of two at one offset the other one is."""
    story = Story()
    story.send(1, 40)
    story.read(1, 3, value=1040)
    story.send(2, 50)
    story.send(2, 50, value=LOST, op=LOST)
    story.read(2, 7, value=1050)
    story.final(partition=0)
    for size in SIZES:
        assert told(look(story, size)[0]) == [(50, [LOST])]


def test_a_healthy_history_is_not_looked_at_again() -> None:
    """Also where compaction has left nothing of the stretches below."""
    story = Story()
    for offset in range(40):
        story.send(offset % 4, offset)
    for offset in range(36, 40):
        story.read(offset % 4, offset)
    story.final(partition=0)
    for size in SIZES:
        steps = steps_of(story.rows, FAMILIES, context(story.rows, compact={COMPACTED}), size)
        assert not steps.judged
        assert steps.conclude()["keys"].looked_at == {"lost-write": 40}
    assert look(story, WHOLE) == ([], 40)
