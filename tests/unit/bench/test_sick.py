"""Histories of sick brokers look like what a run records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.compute
import pyarrow.parquet
import pytest

from bench.check import shapes_of
from bench.sick.shapes import SHAPES, generate
from harness.foundation.errors import UsageError
from harness.history.schema import ID_BITS, F, Kind, Type
from harness.history.sealed import Sealed
from harness.history.sealing import open_history

EVENTS = 25_000
WIDE = "10,000 partitions"  # it takes two events for each of them


@pytest.fixture(scope="module", params=SHAPES)
def sealed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    """One of each shape."""
    events = 2 * EVENTS if request.param == WIDE else EVENTS
    return open_history(generate(tmp_path_factory.mktemp("sick"), request.param, events))


def _table(sealed: Sealed, kind: Kind) -> pyarrow.Table:
    return pyarrow.concat_tables([pyarrow.parquet.read_table(path) for path in sealed.files[kind]])


def _column(sealed: Sealed, kind: Kind, name: str) -> np.ndarray:
    return np.asarray(_table(sealed, kind)[name].to_numpy())


def test_sealed_whole_and_about_as_large_as_asked_for(sealed: Sealed) -> None:
    """Nothing is damaged, and every process is known."""
    assert not sealed.damage
    assert 0.8 * EVENTS < sealed.events < 2.4 * EVENTS
    seen = {number for kind in Kind for number in np.unique(_column(sealed, kind, "process")).tolist()}
    assert seen <= sealed.processes.keys()


def test_events_are_unique_and_carry_their_process(sealed: Sealed) -> None:
    """In all kinds together."""
    events = np.concatenate([_column(sealed, kind, "event") for kind in Kind])
    processes = np.concatenate([_column(sealed, kind, "process") for kind in Kind])
    assert len(np.unique(events)) == len(events)
    assert (events >> ID_BITS == processes).all()


def test_rows_are_in_the_order_of_time_and_end_after_they_began(sealed: Sealed) -> None:
    """In each kind."""
    for kind in Kind:
        table = _table(sealed, kind)
        times = table["time"].to_numpy()
        assert (times[:-1] <= times[1:]).all(), kind
        if "invoked" in table.column_names:
            assert (table["invoked"].to_numpy() <= times).all(), kind


def test_every_operation_begins_once_and_ends_once(sealed: Sealed) -> None:
    """As the same thing."""
    columns = ["op", "process", "f", "topic", "partition", "value", "sequence", "txn", "member", "name"]
    begun, ended = (_table(sealed, kind).sort_by("op") for kind in (Kind.INVOKE, Kind.COMPLETE))
    assert begun.select(columns).equals(ended.select(columns))
    assert len(pyarrow.compute.unique(begun["op"])) == len(begun)
    assert begun["time"].equals(ended["invoked"])
    assert (begun["event"].to_numpy() < ended["event"].to_numpy()).all()


def test_records_are_of_reads_that_ended_and_were_sent(sealed: Sealed) -> None:
    """A poll has as many as it says."""
    ended = _table(sealed, Kind.COMPLETE).to_pylist()
    reads = {row["op"]: row for row in ended if row["f"] in {F.POLL, F.FINAL, F.RAW}}
    sent = {row["value"] for row in ended if row["f"] == F.SEND}
    records = _table(sealed, Kind.RECORD).to_pylist()
    assert all(row["value"] in sent and row["time"] <= reads[row["op"]]["time"] for row in records)
    handed = Counter(row["op"] for row in records)
    assert all(handed[op] == row["count"] for op, row in reads.items() if row["f"] == F.POLL)


def _of(name: str, directory: Path) -> Sealed:
    return open_history(generate(directory, name, EVENTS))


def test_every_second_value_is_lost_and_the_others_are_read_twice(tmp_path: Path) -> None:
    """Acknowledged at the offset of the one before."""
    sealed = _of("read twice, lost and shared", tmp_path)
    sends = [row for row in _table(sealed, Kind.COMPLETE).to_pylist() if row["f"] == F.SEND and row["txn"] is None]
    shared = Counter((row["topic"], row["partition"], row["offset"]) for row in sends)
    assert set(shared.values()) == {2}
    read = {row["value"] for row in _table(sealed, Kind.RECORD).to_pylist()}
    assert sum(row["value"] not in read for row in sends) == len(sends) // 2


@pytest.mark.parametrize(("name", "type_"), [("all info", Type.INFO), ("acks=0", Type.OK)])
def test_nothing_is_acknowledged(name: str, type_: Type, tmp_path: Path) -> None:
    """Beside what little is sent in transactions."""
    rows = _table(_of(name, tmp_path), Kind.COMPLETE).to_pylist()
    sends = [row for row in rows if row["f"] == F.SEND and row["txn"] is None]
    assert {row["type"] for row in sends} == {type_}
    assert {row["offset"] for row in sends} <= {None, -1}


def test_shapes_are_chosen_by_their_names() -> None:
    """Which may have commas."""
    assert shapes_of("none") == []
    assert shapes_of("refusals,10,000 partitions,all info") == ["refusals", "10,000 partitions", "all info"]
    assert shapes_of(",".join(SHAPES)) == [*SHAPES]
    with pytest.raises(UsageError, match="gloom is no sort of sickness"):
        shapes_of("refusals,gloom")
