"""Jepsen histories from the file to the verdict, judged as Jepsen's own checker judges them (docs/jepsen.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness.history.exchange import lines
from harness.history.opening import open_run, read_facts
from harness.history.schema import F, Kind, Type
from harness.judging.checking import CheckOptions, run_facts_of, setting_of
from harness.judging.verdict import Verdict, decide
from tests.support.foreign_histories import complete, edn, invoke, jsonl, rows_of, take
from tests.support.kernels import check_here

KEY = 3
SETTINGS = ["acks=all", "idempotence=true"]
Anomalies = dict[str, str]


def op(process: int, f: str, asked: str, told: str | None, type_: str = "ok", *, more: str = "") -> tuple[str, str]:
    """An operation: its invocation and its completion."""
    return (
        f":type :invoke, :process {process}, :f :{f}, :value {asked}{more}",
        f":type :{type_}, :process {process}, :f :{f}, :value {asked if told is None else told}{more}",
    )


def send(process: int, *offsets: int, type_: str = "ok") -> tuple[str, str]:
    """Sends of values that are as their offsets."""
    asked = " ".join(f"[:send {KEY} {offset}]" for offset in offsets)
    told = " ".join(f"[:send {KEY} [{offset} {offset}]]" for offset in offsets)
    return op(process, "send", f"[{asked}]", f"[{told}]", type_)


def apart(*offsets: int) -> list[tuple[str, str]]:
    """Each a send by itself."""
    return [send(0, offset) for offset in offsets]


def poll(process: int, *offsets: int, f: str = "poll", type_: str = "ok", key: int = KEY) -> tuple[str, str]:
    """A poll of one key."""
    return op(process, f, "[[:poll]]", f"[[:poll {pairs(key, offsets)}]]", type_)


def pairs(key: int, offsets: Sequence[int]) -> str:
    """What a poll returned."""
    return f"{{{key} [{' '.join(f'[{offset} {offset}]' for offset in offsets)}]}}" if offsets else "{}"


def assign(process: int, *keys: int, f: str = "assign", type_: str = "ok", seek: bool = False) -> tuple[str, str]:
    """An assign, or a subscribe."""
    more = ", :seek-to-beginning? true" if seek else ""
    return op(process, f, f"[{' '.join(map(str, keys))}]", None, type_, more=more)


def final_polls(process: int, *offsets: int, silent: int = 0) -> list[tuple[str, str]]:
    """What Jepsen does at the end."""
    return [assign(process, KEY, seek=True), poll(process, *offsets), *[poll(process)] * silent]


def verdict_of(path: Path, *operations: tuple[str, str], settings: Sequence[str] = SETTINGS) -> Verdict:
    """Import, check in this process, and decide."""
    path.mkdir(parents=True, exist_ok=True)
    file = edn(path / "h.edn", [line for operation in operations for line in operation])
    return judged(file, path, settings)


def judged(file: Path, path: Path, settings: Sequence[str] = SETTINGS) -> Verdict:
    """The verdict of a file."""
    run = take(file, path / "store", settings=settings).run
    facts = read_facts(run)
    return decide(check_here(open_run(run), setting_of(run, facts, CheckOptions())), run_facts_of(facts))


def anomalies(verdict: Verdict) -> Anomalies:
    """What was seen, and how it is marked."""
    return {seen.anomaly: f"{seen.found} {seen.mark.status}" for seen in verdict.seen}


# 1. transactions that do not commit


@pytest.mark.parametrize("end", ["fail", "info"])
def test_an_aborted_transaction_is_read_again(tmp_path: Path, end: str) -> None:
    """The reader is rewound, and reads the same once more: that is right, however often it happens."""
    aborted = poll(1, 1, 2, f="txn", type_=end)
    again = poll(1, 1, 2, f="txn")
    verdict = verdict_of(tmp_path, *apart(0, 1, 2), poll(1, 0, f="txn"), aborted, aborted, again)
    assert anomalies(verdict) == {}


@pytest.mark.parametrize("end", ["fail", "info"])
def test_a_reader_that_is_not_rewound_skips(tmp_path: Path, end: str) -> None:
    """It goes on behind what an aborted transaction read: that is nobody's any more."""
    operations = [*apart(0, 1, 2, 3), poll(1, 0, f="txn"), poll(1, 1, 2, f="txn", type_=end), poll(1, 3, f="txn")]
    assert anomalies(verdict_of(tmp_path, *operations)) == {"poll-skip": "1 illegal"}


@pytest.mark.parametrize("end", ["fail", "info"])
def test_a_poll_that_failed_moves_no_reader(tmp_path: Path, end: str) -> None:
    """What it says it returned is read again; going on behind it skips."""
    failed = poll(1, 1, 2, type_=end)
    again = verdict_of(tmp_path / "again", *apart(0, 1, 2, 3), poll(1, 0), failed, failed, poll(1, 1, 2, 3))
    assert anomalies(again) == {}
    skipped = verdict_of(tmp_path / "skipped", *apart(0, 1, 2, 3), poll(1, 0), failed, poll(1, 3))
    assert anomalies(skipped) == {"poll-skip": "1 illegal"}


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("end", ["fail", "info"])
def test_a_poll_that_failed_moves_no_reader_in_the_exchange_format(tmp_path: Path, end: str, *, counted: bool) -> None:
    """The same, whether or not the poll says how many records it returned."""
    events: list[dict[str, object]] = []
    for value in range(4):
        events += [invoke(value, 10 * value), complete(value, 10 * value + 5, offset=value)]
    for op, (type_, values) in enumerate([("ok", [0]), (end, [1, 2]), ("ok", [1, 2, 3])], 100):
        of_reader = {"op": op, "process": 3}
        events.append(invoke(time=10 * op, f="poll", **of_reader))
        record = {"kind": "record", "time": 10 * op + 5, "topic": "t", "partition": 0, **of_reader}
        events += [record | {"offset": value, "value": value} for value in values]
        said = {"count": len(values)} if counted else {}
        events.append(complete(time=10 * op + 5, f="poll", type=type_, **of_reader, **said))
    verdict = judged(jsonl(tmp_path / "h.jsonl", *events), tmp_path)
    assert anomalies(verdict) == {}


def test_a_transaction_that_aborts_may_skip_too(tmp_path: Path) -> None:
    """Each is compared with the last that committed, also when it aborts itself."""
    operations = [
        *apart(0, 1, 2, 3, 4, 5),
        poll(1, 0, f="txn"),
        poll(1, 1, 2, f="txn", type_="fail"),
        poll(1, 3, 4, f="txn", type_="fail"),
        poll(1, 5, f="txn"),
    ]
    assert anomalies(verdict_of(tmp_path, *operations)) == {"poll-skip": "2 illegal"}


def transactions(count: int) -> Iterator[tuple[str, str]]:
    """A correct history: each transaction sends a message and polls what committed ones sent; every third aborts."""
    offset, read = 0, 0
    visible: list[int] = []
    yield assign(0, KEY)
    for number in range(count):
        end = "fail" if number % 3 == 1 else "ok"
        found = visible[read : read + 2]
        asked = f"[[:send {KEY} {offset}] [:poll]]"
        told = f"[[:send {KEY} [{offset} {offset}]] [:poll {pairs(KEY, found)}]]"
        yield op(0, "txn", asked, told, end)
        if end == "ok":
            visible.append(offset)
            read += len(found)
        offset += 2  # the marker is one as well
    yield from final_polls(1, *visible)


def test_a_correct_transactional_history_is_clean(tmp_path: Path) -> None:
    """Two thousand operations, a third of which aborted, and a final read: valid."""
    verdict = verdict_of(tmp_path, *transactions(2000))
    assert anomalies(verdict) == {}
    assert verdict.outcome == "valid", verdict.reasons


# 2. what an assign does to positions


@pytest.mark.parametrize("block_bytes", [lines.BLOCK_BYTES, 40, 700])
@pytest.mark.parametrize("f", ["assign", "subscribe"])
def test_an_assign_that_keeps_a_key_keeps_its_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int, f: str
) -> None:
    """And one that leaves it out forgets it, whatever the block that it is read in."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    begin = [send(0, 1, 2, 3, 4), poll(1, 1, 2)]
    for name, between, found in (
        ("kept", assign(1, KEY, KEY + 1, f=f), {"poll-skip"}),
        ("left out", assign(1, KEY + 1, f=f), set()),
        ("perhaps left out", assign(1, KEY + 1, f=f, type_="info"), set()),
        ("failed", assign(1, KEY + 1, f=f, type_="fail"), {"poll-skip"}),
    ):
        verdict = verdict_of(tmp_path / name, *begin, between, poll(1, 4), poll(2, 3))
        assert set(anomalies(verdict)) == found, name


def test_a_key_that_is_taken_back_begins_again(tmp_path: Path) -> None:
    """Left out and assigned once more; and from the beginning when that was asked for."""
    begin = [assign(1, KEY), send(0, 1, 2, 3), poll(1, 1, 2)]
    for name, between in (
        ("again", [assign(1, KEY + 1), assign(1, KEY)]),
        ("seek", [assign(1, KEY, seek=True)]),
    ):
        verdict = verdict_of(tmp_path / name, *begin, *between, poll(1, 1, 2, 3))
        assert anomalies(verdict) == {}, name
    assert anomalies(verdict_of(tmp_path / "kept", *begin, assign(1, KEY), poll(1, 1, 2, 3))) == {
        "nonmonotonic-poll": "1 illegal"
    }


def test_events_are_in_the_order_of_the_file(tmp_path: Path) -> None:
    """Of each process: an operation is invoked, its records come, it ends, and then comes the next one."""
    operations = [assign(1, KEY), poll(1, 1, f="txn"), assign(1, KEY, seek=True), poll(1, 2), send(0, 1, 2)]
    file = edn(tmp_path / "h.edn", [line for operation in operations for line in operation])
    run = take(file, tmp_path / "store").run
    rows = [(row["event"], kind, row.get("f")) for kind in Kind for row in rows_of(run, kind) if row["process"] == 3]
    assert [(kind, f) for _, kind, f in sorted(rows)] == [
        (Kind.INVOKE, F.ASSIGN), (Kind.COMPLETE, F.ASSIGN),
        (Kind.INVOKE, F.TXN), (Kind.INVOKE, F.POLL),
        (Kind.COMPLETE, F.TXN), (Kind.RECORD, None), (Kind.COMPLETE, F.POLL),
        (Kind.INVOKE, F.ASSIGN), (Kind.COMPLETE, F.ASSIGN),
        (Kind.INVOKE, F.POLL), (Kind.RECORD, None), (Kind.COMPLETE, F.POLL),
    ]  # fmt: skip


# 3. misrouted, by the evidence


@pytest.mark.parametrize("status", [None, "good", "misrouted"])
@pytest.mark.parametrize("place", [{"partition": 1}, {"topic": "other"}])
def test_a_value_in_another_place_is_misrouted(tmp_path: Path, status: str | None, place: dict[str, object]) -> None:
    """Whatever the record says of itself, and once; it is no duplicate."""
    events = [invoke(1, 1), complete(1, 2, offset=0), invoke(2, 3, f="poll"), complete(2, 4, f="poll", count=2)]
    record = {"kind": "record", "time": 4, "process": 2, "op": 2, "topic": "t", "partition": 0, "value": 1}
    astray = record | {"offset": 5} | place | ({"status": status} if status else {})
    verdict = judged(jsonl(tmp_path / "h.jsonl", *events, record | {"offset": 0}, astray), tmp_path)
    assert anomalies(verdict) == {"misrouted": "1 illegal"}


# 4. micro-operations are in their order


def test_sends_of_one_operation_are_in_their_order(tmp_path: Path) -> None:
    """Within an operation, and from one to the next."""
    inside = op(0, "send", f"[[:send {KEY} 1] [:send {KEY} 2]]", f"[[:send {KEY} [5 1]] [:send {KEY} [4 2]]]")
    assert anomalies(verdict_of(tmp_path / "inside", inside)) == {"int-nonmonotonic-send": "1 illegal"}
    after = anomalies(verdict_of(tmp_path / "after", send(0, 5), send(0, 4)))
    assert after["nonmonotonic-send"] == "1 illegal"
    assert anomalies(verdict_of(tmp_path / "right", send(0, 4, 5), send(0, 6))) == {}


# 6. completions that do not say everything


def test_what_says_no_offset_is_accepted(tmp_path: Path) -> None:
    """An ok send need not say where it is, nor an ok poll what it returned: neither is a fault."""
    unsaid = op(0, "send", f"[[:send {KEY} 1]]", f"[[:send {KEY} 1]]")
    verdict = verdict_of(tmp_path, send(0, 0), unsaid, op(1, "poll", "[[:poll]]", "[[:poll]]"), *final_polls(2, 0, 1))
    assert anomalies(verdict) == {"false-ack": "1 allowed"}
    assert verdict.outcome == "valid", verdict.reasons
    lost = verdict_of(tmp_path / "lost", send(0, 0), unsaid, *final_polls(2, 0))
    assert anomalies(lost)["lost-write"] == "1 illegal"


# 7. final polls


def test_final_polls_are_the_final_read(tmp_path: Path) -> None:
    """They have to begin at the beginning, after the last acknowledgement, and to get to what was acknowledged."""
    sends = [send(0, 0, 1), poll(1, 0, 1), send(0, 2)]
    for name, operations, outcome in (
        ("whole", [*sends, *final_polls(2, 0, 1, 2)], "valid"),
        ("short", [*sends, *final_polls(2, 0, 1)], "unknown"),
        ("none", sends, "unknown"),
        ("too early", [*sends[:2], *final_polls(2, 0, 1), sends[2]], "unknown"),
        ("not from the beginning", [*sends, assign(2, KEY), poll(2, 0, 1, 2)], "unknown"),
        ("a second attempt", [*sends, *final_polls(2), *final_polls(3, 0, 1, 2)], "valid"),
        ("the first was enough", [*sends, *final_polls(2, 0, 1, 2), *final_polls(3)], "valid"),
    ):
        verdict = verdict_of(tmp_path / name, *operations)
        assert (verdict.outcome, anomalies(verdict)) == (outcome, {}), (name, verdict.reasons)


def test_final_polls_need_not_read_what_was_never_acknowledged(tmp_path: Path) -> None:
    """They may stop below what another reader was handed of a send that is `info`."""
    verdict = verdict_of(tmp_path, send(0, 0), send(1, 1, type_="info"), poll(2, 0, 1), *final_polls(3, 0))
    assert (verdict.outcome, anomalies(verdict)) == ("valid", {}), verdict.reasons


def test_a_lost_tail_is_found(tmp_path: Path) -> None:
    """When the last polls return nothing, again and again, what was acknowledged above is not there."""
    sends = [send(0, 0, 1), send(0, 2)]
    verdict = verdict_of(tmp_path, *sends, *final_polls(2, 0, 1, silent=5))
    assert verdict.outcome == "invalid"
    assert anomalies(verdict)["lost-tail"] == "1 illegal"
    assert anomalies(verdict_of(tmp_path / "too few", *sends, *final_polls(2, 0, 1, silent=4))) == {}


def test_final_reads_are_operations(tmp_path: Path) -> None:
    """From the assign to the last poll, and what they got to."""
    file = edn(tmp_path / "h.edn", [line for each in [send(0, 7), *final_polls(2, 7, silent=1)] for line in each])
    run = take(file, tmp_path / "store").run
    (final,) = [row for row in rows_of(run, Kind.COMPLETE) if row["f"] == F.FINAL]
    (begun,) = [row for row in rows_of(run, Kind.INVOKE) if row["f"] == F.FINAL]
    told = [final.get(name) for name in ("type", "process", "partition", "offset", "end")]
    assert told == [Type.OK, 4, KEY, 8, None]
    assert (final["invoked"], final["time"], begun["time"]) == (2000, 7000, 2000)
