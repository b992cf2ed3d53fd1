"""The check of histories that runs of `exactly-once` are judged by: clean ones, and each broken promise planted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.history.schema import F, Kind, Type
from tests.support.exactly_once_histories import broken_promises
from tests.support.histories import Rows


@dataclass
class Planted:
    """A history of one partition: inputs 0, 1, 2 in two transactions, as one wants it to be."""

    sent: Sequence[int] = (0, 1, 2)
    outputs: Sequence[tuple[int, int]] = ((0, 10), (1, 11), (2, 20))  # source and value, in the order of offsets
    ended: Sequence[Type] = (Type.OK, Type.OK)  # of transaction 1, which made 10 and 11, and 2, which made 20
    committed: int = 3
    partition: int = 0  # of the outputs

    def broken(self, directory: Path, *, drained: bool = True) -> list[str]:
        """What the check says."""
        made = Rows(topics={0: "tg-input", 1: "tg-output"})
        times = itertools.count(1)
        for value in self.sent:
            self._ended(made, times, F.SEND, op=value, value=value, type=Type.OK, topic=0, partition=0, offset=value)
        for transaction, values in ((1, (10, 11)), (2, (20,))):
            for value in values:
                self._ended(
                    made, times, F.SEND, op=value, value=value, type=self.ended[transaction - 1], topic=1,
                    partition=self.partition, txn=1000 + transaction,
                )  # fmt: skip
            self._ended(made, times, F.TXN, op=1000 + transaction, type=self.ended[transaction - 1])
        for topic in (0, 1):
            self._ended(made, times, F.FINAL, op=2000 + topic, type=Type.OK, topic=topic, partition=0, offset=9, end=9)
        for value in self.sent:
            made.add(
                Kind.RECORD, "r1", time=90, invoked=80, op=2000, topic=0, partition=0, offset=value, value=value,
                status=0,
            )  # fmt: skip
        for offset, (made_from, value) in enumerate(self.outputs):
            made.add(
                Kind.RECORD, "r1", time=90, invoked=80, op=2001, topic=1, partition=self.partition, offset=offset,
                value=value, source=made_from, status=0,
            )  # fmt: skip
        for offset in (1, self.committed):  # what is answered last counts
            self._ended(
                made, times, F.COMMITTED, op=3000 + next(times), type=Type.OK, topic=0, partition=0, offset=offset
            )
        return broken_promises(made.store(directory), drained=drained)

    @staticmethod
    def _ended(made: Rows, times: itertools.count[int], f: F, **columns: Any) -> None:
        time_ns = next(times)
        made.add(Kind.COMPLETE, "c1", time=time_ns, invoked=time_ns, f=f, **columns)


def test_a_history_in_which_all_is_well(tmp_path: Path) -> None:
    """Nothing to say; and a transaction that nobody knows of may have happened."""
    assert Planted().broken(tmp_path) == []
    assert Planted(ended=(Type.INFO, Type.OK)).broken(tmp_path) == []


def test_what_was_not_processed_is_a_matter_of_the_drain(tmp_path: Path) -> None:
    """The second transaction never happened, nobody knows why."""
    early = Planted(outputs=((0, 10), (1, 11)), ended=(Type.OK, Type.INFO), committed=2)
    assert early.broken(tmp_path, drained=False) == []
    assert early.broken(tmp_path) == ["input 2 at 0@2 was acknowledged and has no output"]


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (Planted(outputs=((0, 10), (1, 11), (1, 20)), committed=2), "input 1 has 2 outputs"),
        (Planted(outputs=((0, 10), (1, 11), (7, 20)), committed=2), "made from 7, which is not in the input"),
        (Planted(outputs=((0, 10), (2, 20), (1, 11))), "the output of 0@1 comes after that of 0@2"),
        (Planted(partition=1), "input 0 of partition 0 has its output in 1"),
        (Planted(committed=2), "the group is at 0@2, and outputs were committed up to 0@3"),
        (Planted(outputs=((0, 10), (1, 11)), ended=(Type.OK, Type.INFO)), "the group is at 0@3, and outputs were"),
        (Planted(outputs=((2, 20),), ended=(Type.INFO, Type.OK)), "inputs before 0@3 without an output"),
        (Planted(outputs=((0, 10), (2, 20)), ended=(Type.INFO, Type.OK)), "1 of 2 outputs of transaction 1001"),
        (Planted(ended=(Type.OK, Type.FAIL)), "transaction 1002 was aborted, and its outputs are there"),
        (Planted(outputs=((0, 10), (1, 11)), committed=2), "transaction 1002 was committed, and its outputs are not"),
    ],
)
def test_every_broken_promise_is_told(tmp_path: Path, planted: Planted, said: str) -> None:
    """One planted at a time."""
    assert any(said in sentence for sentence in planted.broken(tmp_path, drained=False))
