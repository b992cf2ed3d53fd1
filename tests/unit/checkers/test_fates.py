"""What becomes of values, whichever way they are looked at: from scratch, or by what pieces of a log have settled."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest

from checkers import delivery, log_starts
from checkers import flawed_records as odd
from checkers.core.arrays import NEVER, NONE
from checkers.core.engine import CheckState
from checkers.core.families import families_of
from checkers.core.family import Family
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.core.tables import empty
from checkers.shared import settled_values as values
from checkers.shared.fates import Fates, fates
from checkers.shared.settled_values import GatheredValues, Split
from harness.history.schema import F, Kind, Status, Type
from tests.oracle import compacted
from tests.oracle import delivery as oracle
from tests.support.histories import SECOND_NS, Rows, write
from tests.support.kernels import SIZES, WHOLE, Size, context, findings_of, frame_of, steps_of

FAMILIES: list[Family] = [*values.FAMILIES, *families_of(delivery), *log_starts.FAMILIES, *odd.FAMILIES]
SMALL = SIZES[1:]

HEALTHY = """p1 send a ─ ok @0
    p1 send b ─ ok @1 txn
    p1 send c ─ ok @3
    i1 send d ─ info
    p1 send e ─ fail
    p2 send f ─ ok 1@0
    p2 send g ─ ok 1@1
    c1 poll ─ @0:a @1:b @3:c @4:d
    g1 poll ─ 1@0:f
    r1 poll ─ @0:a @1:b @3:c @4:d
    r1 poll ─ 1@0:f 1@1:g
    w1 poll ─ @0:a @1:b @3:c @4:d
    w1 raw ─ ok @5
    r1 final ─ ok @5
    r1 final ─ ok 1@2"""


def look(text: str, size: Size = WHOLE, families: list[Family] = FAMILIES) -> CheckState:
    """All steps but the last, of a history of one topic."""
    rows = Rows()
    write(rows, 0, text)
    steps = steps_of(rows, families, context(rows), size)
    assert not steps.failures
    return steps


def gathered(steps: CheckState) -> GatheredValues:
    """How values were looked at."""
    found: GatheredValues = steps.gathered["fates"]
    return found


def said(steps: CheckState) -> tuple[Any, ...]:
    """Findings with all that proves them, in how much was looked, and what is known of partitions."""
    outcomes = steps.conclude()
    assert not steps.failures
    rows = sorted(repr(row) for each in outcomes.values() for kept in each.findings.rows.values() for row in kept)
    places = steps.gathered["values"].places.sort("topic", "partition", nulls_last=True)
    return rows, {name: each.looked_at for name, each in outcomes.items()}, places.to_dicts()


@pytest.mark.parametrize("size", SMALL, ids=str)
def test_a_healthy_history_is_not_judged_from_scratch(size: Size) -> None:
    """Only what nobody has settled is looked at by value: here what was not acknowledged."""
    steps = look(HEALTHY, size)
    assert gathered(steps).settled_count
    assert len(gathered(steps).sends) == 2
    assert set(gathered(steps).records["offset"]) == {4}
    assert said(steps) == said(look(HEALTHY))
    assert not steps.judged["values"][0].findings.counts
    assert sum(each.counts["values"].sum() for each in steps.judged["values"]) == 2


def test_figures_count_what_is_settled_and_what_is_loose() -> None:
    """As many sends and reads as there are."""
    for size in SIZES:
        places = look(HEALTHY, size).gathered["values"].places.sort("partition")
        counted = places.select("sent", "acknowledged", "failed", "info", "read", "distinct", "transactional")
        assert counted.rows() == [(5, 3, 1, 1, 4, 4, 1), (2, 2, 0, 0, 1, 1, 0)]
        ends = places.select("reached", "final_ok", "final_offset", "final_end", "raw_ok", "never_read")
        assert ends.rows() == [(4, True, 5, 5, True, 0), (1, True, 2, 2, None, 0)]


@pytest.mark.parametrize(
    "flaw",
    [
        "c1 poll ─ @9:a",  # a second copy of what is settled
        "c1 poll ─ 1@9:~a",
        "c1 poll ─ @9:x",
    ],
)
@pytest.mark.parametrize("size", SMALL, ids=str)
def test_what_may_belong_to_a_settled_value_is_judged_from_scratch(flaw: str, size: Size) -> None:
    """A record without a send may be a duplicate or a phantom: pieces cannot tell."""
    text = f"{HEALTHY}\n{flaw}"
    assert gathered(look(text, size)).by_value
    assert said(look(text, size)) == said(look(text))


@pytest.mark.parametrize(
    "flaw",
    [
        "p1 send h ─ ok @2",  # lost
        "p1 send h ─ ok 1@2",  # after the final read, and perhaps there
        "p1 send h ─ ok 0@-1",
        "c1 poll ─ @3:!",  # a corrupt copy of what others read whole
        "w1 poll ─ @4:e",  # aborted, or two values
        "p1 send h ─ ok @3",  # of two acknowledgements of one offset nothing is settled
    ],
)
@pytest.mark.parametrize("size", SMALL, ids=str)
def test_other_flaws_are_found_in_what_is_loose(flaw: str, size: Size) -> None:
    """All rows of a value that is not settled are loose."""
    text = f"{HEALTHY}\n{flaw}"
    assert gathered(look(text, size)).settled_count
    assert said(look(text, size)) == said(look(text))


@pytest.mark.parametrize(("of_a_piece", "at_most"), [(0, 1000), (1000, 1), (0, 0)])
def test_many_loose_rows_are_judged_from_scratch(
    of_a_piece: int, at_most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver looks at few rows by itself."""
    monkeypatch.setattr(values, "LOOSE_OF_A_PIECE", of_a_piece)
    monkeypatch.setattr(values, "LOOSE_AT_MOST", at_most)
    for size in SMALL:
        steps = look(HEALTHY, size)
        assert gathered(steps).by_value
        assert said(steps) == said(look(HEALTHY))


@pytest.mark.parametrize("size", SMALL, ids=str)
def test_nothing_is_settled_in_a_topic_that_was_deleted(size: Size) -> None:
    """Its offsets begin again."""
    text = """p1 send a ─ ok @0
        c1 poll ─ @0:a
        k1 delete ─ ok
        k1 create ─ ok
        p1 send b ─ ok @0
        r1 poll ─ @0:b
        r1 final ─ ok @1"""
    steps = look(text, size)
    assert len(gathered(steps).sends) == 2
    assert said(steps) == said(look(text))


@pytest.mark.parametrize("seed", range(12))
def test_every_size_says_the_same(seed: int) -> None:
    """Findings and their facts, what was looked at, and figures, of histories in which anything may go wrong."""
    rows, random = Rows(), Random(seed)
    for topic in range(1 + seed % 3):
        rows.topics[topic] = f"t{topic}"
        oracle.write(rows, topic, random)
    run = context(rows, compact=[topic for topic in rows.topics if compacted(rows, topic)])
    whole = said(steps_of(rows, FAMILIES, run))
    for size in (Size(1, 5, 7), Size(2, 3, 50), *SMALL):
        assert said(steps_of(rows, FAMILIES, run, size)) == whole


def test_a_history_without_anything_is_looked_at() -> None:
    """No rows, no pieces, or no place at all."""
    for size in SIZES:
        nothing = steps_of(Rows(), FAMILIES, context(Rows()), size)
        assert said(nothing)[0] == said(nothing)[2] == []
        lonely = look("p1 send a ─ fail", size)
        assert said(lonely)[1]["values"]["aborted-read"] == 1
        assert said(look("p1 send a ─ ok 0@", size)) == said(look("p1 send a ─ ok 0@"))


STARTS = """p1 send a ─ ok @3
    p1 send b ─ ok @7
    n1 fetch ─ @9 from 5
    n2 fetch ─ @9 from 2
    {last}
    n1 fetch ─ @9 from 8"""


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_log_starts_are_compared_only_where_one_may_be_above(size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent before it was shown is below it, rightly."""
    monkeypatch.setattr(log_starts, "BLOCK", 4)
    healthy = look(STARTS.format(last="p1 send c ─ ok @9"), size)
    assert "log starts" not in healthy.judged
    wrong = look(STARTS.format(last="p1 send c ─ ok @4"), size)
    outcome = wrong.conclude()["log starts"]
    ((found,),) = outcome.findings.rows.values()
    assert found["facts"] == {"acknowledged": 4, "log_start": 5, "shown_ns": 25 * SECOND_NS}
    assert (found["offset"], outcome.looked_at["false-ack"]) == (4, 3)


def test_of_log_starts_those_below_one_that_was_shown_before_tell_nothing() -> None:
    """The lowest one above an offset is then the one that was shown first."""
    columns = {"topic": 0, "partition": 0, "error": 0}
    shown = [(5, 30), (9, 20), (7, 20), (12, 25), (12, 40), (0, 1), (3, 10)]
    rows = [{**columns, "log_start": start, "time": time, "invoked": time} for start, time in shown]
    probes = pl.DataFrame(rows, schema={name: empty("probes").schema[name] for name in rows[0]})
    starts = log_starts.starts(Piece({"probes": probes}, RunContext()), RunContext())
    assert sorted(starts.select("log_start", "shown").rows()) == [(3, 10), (9, 20), (12, 25)]


class World:
    """Rows of sends and records, of one partition unless told otherwise."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.rows.topics = {0: "t0"}

    def send(self, value: int, type_: Type = Type.OK, **more: Any) -> None:
        """How a send ended."""
        whole = {"topic": 0, "partition": 0, "op": value, "value": value, "invoked": 1, "time": 2}
        self.rows.add(Kind.COMPLETE, "p1", f=F.SEND, type=type_, **(whole | more))

    def read(self, value: int, offset: int, who: str = "c1", **more: Any) -> None:
        """A record that somebody was handed."""
        whole = {"topic": 0, "partition": 0, "invoked": 1, "time": 5, "status": Status.GOOD}
        self.rows.add(Kind.RECORD, who, **(whole | {"value": value, "offset": offset} | more))

    @property
    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Sends and records."""
        era = pl.lit(0, pl.Int32).alias("era")
        sends, records = (frame_of(self.rows, kind).with_columns(era) for kind in (Kind.COMPLETE, Kind.RECORD))
        return sends, records

    def fates(self) -> Fates:
        """What became of them."""
        return fates(*self.tables, context(self.rows))


def test_fates_by_value() -> None:
    """One entry for each value, in rising order."""
    world = World()
    world.send(7, offset=3, txn=9)
    world.send(5, Type.FAIL, offset=1, partition=None)
    world.send(3, offset=-1)
    world.read(7, 3, "u1", time=4)
    world.read(7, 8, "r1", time=9)
    world.read(5, 6, partition=2)
    world.read(9, 1, partition=1, status=Status.MISROUTED)
    world.read(11, 0, status=Status.CORRUPT)
    told = world.fates()
    assert len(told) == 4
    wanted = {
        "value": [3, 5, 7, 9],
        "type": [Type.OK, Type.FAIL, Type.OK, 0],
        "partition": [0, 2, 0, NONE],
        "acknowledged": [-1, 1, 3, NONE],
        "txn": [NONE, NONE, 9, NONE],
        "all_reads": [0, 1, 2, 1],
        "committed_reads": [0, 1, 1, 1],
        "load_reads": [0, 1, 1, 1],
        "reads": [0, 1, 1, 1],
        "seen_committed": [False, True, True, False],
        "seen_raw": [False, False, True, False],
        "low": [NEVER, 6, 3, NEVER],
        "high": [NONE, 6, 8, NONE],
        "low_committed": [NEVER, 6, 8, NEVER],
        "high_committed": [NONE, 6, 8, NONE],
        "seen": [2, 2, 2, 5],
    }
    assert {name: getattr(told, name).tolist() for name in wanted} == wanted
    assert told.frame("low").to_series().to_list() == [None, 6, 3, None]
    only = told.only(np.array([False, True, False, True]))
    assert (only.value.tolist(), only.low.tolist()) == ([5, 9], [6, NEVER])


def test_who_knew_first_where_a_value_is() -> None:
    """By time; of those at one moment the lowest event of the lowest offset, and the highest of the highest."""
    world = World()
    world.send(1, offset=3, time=6)
    for offset, times in ((3, (5, 5, 4, 4)), (4, (5, 5, 7))):
        for number, time in enumerate(times):
            world.read(1, offset, f"c{number + 1}", time=time)
    _, records = world.tables
    told = world.fates()
    ordered = records.filter((pl.col("offset") == 3) & (pl.col("time") == 4)).sort("event")["event"]
    assert told.low_event.tolist() == [ordered[0]]
    ordered = records.filter((pl.col("offset") == 4) & (pl.col("time") == 5)).sort("event")["event"]
    assert told.high_event.tolist() == [ordered[-1]]


def test_what_is_settled_has_fates_like_all_others() -> None:
    """Each is the one that it has from scratch."""
    world = World()
    for value in range(6):
        world.send(value, offset=value)
        world.read(value, value)
    world.send(6, Type.INFO)
    sends, records = world.tables
    run = context(world.rows)
    split = Split(Piece({"sends": sends, "records": records.filter(pl.col("value") != 2)}, run))
    assert split.settled.value.tolist() == [0, 1, 3, 4, 5]
    assert sorted(split.sends["value"]) == [2, 6]
    assert split.records.is_empty()
    whole = fates(sends, records, run)
    for name in ("type", "acknowledged", "reads", "low", "high", "send_event", "read_event", "seen"):
        assert getattr(split.settled, name).tolist() == getattr(whole, name)[[0, 1, 3, 4, 5]].tolist()


def test_readers_that_stand_before_what_is_unseen_are_told() -> None:
    """How far each got, and when it was handed anything last."""
    text = """p1 send a ─ ok @0
        p1 send b ─ ok @1
        c2 poll ─ @0:a
        c1 poll ─ @0:a
        c1 poll ─ @0:a
        g1 poll ─ @0:a
        r1 final ─ info @1 of 2 [80..95]"""
    for size in SIZES:
        rows = Rows()
        write(rows, 0, text)
        (unseen,) = findings_of(rows, steps_of(rows, FAMILIES, context(rows), size).conclude())
        assert unseen.facts == {
            "acknowledged": 1,
            "known_end": 2,
            "standing_process": [101, 102],
            "standing_offset": [0, 0],
            "standing_since_ns": [45 * SECOND_NS, 25 * SECOND_NS],
        }
