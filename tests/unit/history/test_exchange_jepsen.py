"""Histories of Jepsen's Kafka workload: what its operations become, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.foundation.errors import UsageError
from harness.history.exchange.edn import EdnError, Quoted, Symbol, parse, parse_quickly, written
from harness.history.schema import ID_BITS, NEMESIS_PROCESS, F, Kind, Status, Type
from harness.history.sealing import OPEN, open_history
from tests.support.foreign_histories import LOST_AND_ABORTED, edn, rows_of, take

SEND = ":type :invoke, :process 0, :f :send, :value [[:send 5 1]]"
SENT = ":type :ok, :process 0, :f :send, :value [[:send 5 [7 1]]]"
POLL = ":type :invoke, :process 0, :f :poll, :value [[:poll]]"


def said(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    """Some columns of an event."""
    return tuple(row.get(name) for name in names)


def test_a_history_becomes_operations_of_ours(tmp_path: Path) -> None:
    """Transactions with their parts, records, phases; every invocation has one completion."""
    taken = take(edn(tmp_path / "history.edn", LOST_AND_ABORTED), tmp_path / "store", settings=["acks=all"])
    assert taken.events == {"invoke": 9, "complete": 9, "record": 2, "phase": 1}
    assert taken.set_up
    invoked, completed = rows_of(taken.run, Kind.INVOKE), rows_of(taken.run, Kind.COMPLETE)
    assert sorted(row["op"] for row in invoked) == sorted(row["op"] for row in completed)
    ends = {row["op"]: row for row in completed}
    key = 5 << ID_BITS
    assert [said(ends[op], "f", "type", "partition", "offset", "value") for op in sorted(ends)] == [
        (F.ASSIGN, Type.OK, 5, None, None),
        (F.TXN, Type.OK, None, None, None),
        (F.SEND, Type.OK, 5, 10, key | 1),
        (F.POLL, Type.OK, None, None, None),
        (F.SEND, Type.OK, 5, 11, key | 2),
        (F.SEND, Type.FAIL, 5, None, key | 3),
        (F.SEND, Type.INFO, 6, None, 6 << ID_BITS | 1),
        (F.POLL, Type.OK, None, None, None),
        (F.CRASH, Type.INFO, None, None, None),
    ]
    (txn,) = [row for row in completed if row["f"] == F.TXN]
    assert [row["f"] for row in completed if row.get("txn") == txn["op"]] == [F.SEND, F.POLL, F.SEND]
    assert said(txn, "count", "invoked", "time", "process") == (3, 2000, 3000, 2)
    assert not any("offset" in row for row in invoked)
    failed = next(row for row in completed if row["type"] == Type.FAIL)
    assert failed["detail"] == '[:aborted "by us"]'
    opened = next(row for row in completed if row.get("partition") == 6)
    assert said(opened, "detail", "time", "invoked") == (OPEN, 11_000, 11_000)
    assert [said(row, "partition", "offset", "value", "status") for row in rows_of(taken.run, Kind.RECORD)] == [
        (5, 11, key | 2, Status.GOOD),
        (5, 13, key | 3, Status.GOOD),
    ]
    (phase,) = rows_of(taken.run, Kind.PHASE)
    assert said(phase, "process", "name") == (NEMESIS_PROCESS, "nemesis :start-partition")
    assert phase["detail"] == '[:isolated {"n1" #{"n2"}}]'
    assert taken.notes == [
        "1 lines of the nemesis, or of other operations, are phases",
        "nothing is made of the keys :poll-ms (2)",
        "1 operations were open at its end and are info",
    ]
    sealed = open_history(taken.run.path)
    assert sealed.topics == {0: "jepsen"}
    assert {about["role"] for number, about in sealed.processes.items() if number != 1} == {"consumer"}
    events = [row["event"] for kind in Kind for row in rows_of(taken.run, kind)]
    assert len(set(events)) == len(events)


@pytest.mark.parametrize(
    "shape",
    [
        lambda lines: lines,
        lambda lines: [f"#jepsen.history.Op{line}" for line in lines],
        lambda lines: ["[" + lines[0], *lines[1:-1], lines[-1] + "]"],
        lambda lines: ["(", *lines, ")"],
        lambda lines: [f"  {line.replace(', ', ',,  ')} ; a remark" for line in lines],
    ],
)
def test_the_shapes_that_histories_have(tmp_path: Path, shape: Any) -> None:
    """Maps, tagged records, one vector of all; with or without the index."""
    lines = edn(tmp_path / "plain.edn", [SEND, SENT, POLL]).read_text().splitlines()
    (tmp_path / "shaped.edn").write_text("\n".join(shape(lines)))
    taken = take(tmp_path / "shaped.edn", tmp_path / "store")
    assert taken.events == {"invoke": 2, "complete": 2}


def test_several_micro_operations_are_a_transaction(tmp_path: Path) -> None:
    """Whatever :f says: Jepsen calls a transaction of sends alone :send."""
    lines = [
        ":type :invoke, :process 0, :f :send, :value ([:send 5 1] [:send 5 2])",
        ":type :info, :process 0, :f :send, :value ([:send 5 [nil 1]] [:send 5 [8 2]])",
    ]
    rows = rows_of(take(edn(tmp_path / "h.edn", lines), tmp_path / "store").run, Kind.COMPLETE)
    assert [said(row, "f", "type", "offset") for row in rows] == [
        (F.TXN, Type.INFO, None),
        (F.SEND, Type.INFO, None),
        (F.SEND, Type.INFO, 8),
    ]


def test_assignments_subscriptions_and_what_nobody_knows(tmp_path: Path) -> None:
    """A key each, from the start when it was asked for; a subscription is one; other operations are phases."""
    lines = [
        ":type :invoke, :process 0, :f :assign, :value [1 2], :seek-to-beginning? true",
        ":type :ok, :process 0, :f :assign, :value [1 2]",
        ":type :invoke, :process 0, :f :subscribe, :value [1 2]",
        ":type :ok, :process 0, :f :subscribe, :value [1 2]",
        ":type :invoke, :process 0, :f :debug-topic-partitions, :value [1]",
        ":type :ok, :process 0, :f :debug-topic-partitions, :value {1 {:x 1.5}}",
        ":type :invoke, :process 0, :f :poll, :value [[:poll]]",
        ":type :fail, :process 0, :f :poll, :value [[:poll]], :error :rebalance",
    ]
    run = take(edn(tmp_path / "h.edn", lines), tmp_path / "store").run
    assert [said(row, "f", "partition", "offset", "type") for row in rows_of(run, Kind.COMPLETE)] == [
        (F.ASSIGN, 1, 0, Type.OK),
        (F.ASSIGN, 2, 0, Type.OK),
        (F.FINAL, 1, 0, Type.OK),
        (F.FINAL, 2, 0, Type.OK),
        (F.SUBSCRIBE, None, None, Type.OK),
        (F.POLL, None, None, Type.FAIL),
    ]
    assert [said(row, "name", "detail") for row in rows_of(run, Kind.PHASE)] == [
        (":debug-topic-partitions :invoke", "[1]"),
        (":debug-topic-partitions :ok", "{1 {:x 1.5}}"),
    ]


OK = "{:type :invoke, :process 0, :f :send, :time 1, :value [[:send 5 1]]}"
DAMAGES: dict[str, tuple[list[str], int, str]] = {
    "not closed": ([SEND, "{:type :ok, :value [[:send"], 2, "'[' is not closed at column"),
    "closed too often": ([SEND, "{:type :ok}}"], 2, "'}' closes nothing"),
    "wrong bracket": (["{:type :ok, :value [1)}"], 1, "')' closes '['"),
    "odd map": (["{:type :ok, :process}"], 1, "a key without a value"),
    "string without end": (['{:type "ok}'], 1, "a string has no end"),
    "no number": (["{:time 007}"], 1, "'007' is no number"),
    "text after the map": ([OK + " 7"], 1, "something comes after the value"),
    "two maps": ([OK + OK], 1, "something comes after the value"),
    "empty line": ([SEND, "", SENT], 2, "the line is empty"),
    "odd map in a poll": (
        [POLL, POLL.replace(":invoke", ":ok").replace("[:poll]", "[:poll {5}]")],
        2,
        "without a value",
    ),
    "a vector in a line": ([SEND, "[1 2]"], 2, "this is no map"),
    "a tag before nothing": (["{:type #foo}"], 1, "stands before nothing"),
    "no process": (["{:type :invoke, :f :send, :time 1}"], 1, ":process is missing"),
    "no type": (["{:process 1, :f :send, :time 1}"], 1, ":type is missing"),
    "no f": (["{:process 1, :type :ok, :time 1}"], 1, ":f is missing"),
    "no time": (["{:process 1, :type :ok, :f :send}"], 1, ":time is missing"),
    "a key twice": (["{:process 1, :process 1, :type :ok, :f :send, :time 1}"], 1, ":process is there twice"),
    "a key that is a vector": (["{[1] 1}"], 1, "no keyword"),
    "unknown type": ([SEND.replace(":invoke", ":begin")], 1, ":type is :begin"),
    "type is a string": ([SEND.replace(":invoke", '"invoke"')], 1, ':type is "invoke"'),
    "f is a number": ([SEND.replace(":f :send", ":f 1")], 1, ":f is 1"),
    "process is a name": ([SEND.replace(":process 0", ":process :bob")], 1, ":process is :bob"),
    "negative process": ([SEND.replace(":process 0", ":process -1")], 1, ":process is -1"),
    "time is a float": ([OK.replace(":time 1", ":time 1.5")], 1, ":time is 1.5"),
    "time goes back": (
        [OK.replace(":time 1", ":time 9"), OK.replace("process 0", "process 1")],
        2,
        "goes back from 9 to 1",
    ),
    "index does not rise": (["{:index 5, " + OK[1:], "{:index 5, " + OK[1:]], 2, ":index is 5 after 5"),
    "completion without invocation": ([SENT], 1, "completes :send, and invoked nothing"),
    "completed twice": ([SEND, SENT, SENT], 3, "invoked nothing"),
    "invoked while open": ([SEND, POLL], 2, "what it invoked on line 1 is still open"),
    "completed as another": ([SEND, SENT.replace(":f :send", ":f :txn")], 2, "completes :txn, and invoked :send"),
    "value is no vector": ([SEND.replace("[[:send 5 1]]", "5")], 1, "5 stands where a vector should"),
    "no micro-operation": ([SEND.replace("[:send 5 1]", "[:sned 5 1]")], 1, "[:sned 5 1] is no micro-operation"),
    "micro-operation too short": ([SEND.replace("[:send 5 1]", "[:send 5]")], 1, "is no micro-operation"),
    "a send in a poll": ([POLL.replace("[:poll]", "[:send 5 1]")], 1, ":poll holds something else"),
    "key is a name": ([SEND.replace("5 1", ":k 1")], 1, "the key is :k"),
    "key is a float": ([SEND.replace("5 1", "5.0 1")], 1, "the key is 5.0"),
    "negative value": ([SEND.replace("5 1", "5 -1")], 1, "the value is -1"),
    "value too large": ([SEND.replace("5 1", f"5 {1 << 40}")], 1, "the value is"),
    "value is true": ([SEND.replace("5 1", "5 true")], 1, "the value is true"),
    "negative offset": ([SEND, SENT.replace("[7 1]", "[-7 1]")], 2, "the offset is -7"),
    "bad pair": ([SEND, SENT.replace("[7 1]", "[7 1 2]")], 2, "[7 1 2] is no pair"),
    "another value": ([SEND, SENT.replace("[7 1]", "[7 2]")], 2, "the invocation sends 1 to key 5"),
    "another key": ([SEND, SENT.replace("5 [7", "6 [7")], 2, "the invocation sends 1 to key 5"),
    "a micro-operation less": ([SEND, SENT.replace("[:send 5 [7 1]]", "")], 2, "has 0 micro-operations"),
    "a poll of a vector": (
        [POLL, POLL.replace(":invoke", ":ok").replace("[:poll]", "[:poll [1]]")],
        2,
        "no micro-operation",
    ),
    "a record is no pair": (
        [POLL, POLL.replace(":invoke", ":ok").replace("[:poll]", "[:poll {5 [[1]]}]")],
        2,
        "[1] is no pair",
    ),
    "value sent twice": (
        [SEND, SENT, SEND, SENT],
        3,
        "value 1 is sent twice to key 5 (first on line 1)",
    ),
    "sent again and still open": ([SEND, SEND.replace("process 0", "process 1")], 2, "(first on line 1)"),
    "sent again before other damage": ([SEND, SENT, SEND, "{"], 3, "value 1 is sent twice to key 5"),
    "a record without offset": (
        [POLL, POLL.replace(":invoke", ":ok").replace("[:poll]", "[:poll {5 [[nil 1]]}]")],
        2,
        "the offset is nil",
    ),
    "a key twice in a poll": (
        [POLL, POLL.replace(":invoke", ":ok").replace("[:poll]", "[:poll {5 [[0 1]] 5 [[1 2]]}]")],
        2,
        "a key is there twice",
    ),
    "ok without a value": ([SEND, SENT.replace("[[:send 5 [7 1]]]", "nil")], 2, "nil stands where a vector should"),
    "nil on a line": (["[", "(nil)", "]"], 2, "this is no map"),
    "seeking to a number": ([SEND + ", :seek-to-beginning? 5"], 1, ":seek-to-beginning? is 5"),
    "half a character": ([SEND + ', :error "\\ud800"'], 1, "half a character"),
    "the vector is not closed": (["[" + OK], 1, "is not closed by ']'"),
    "text after the vector": (["[" + OK, "]", OK], 3, "something comes after the end of the vector"),
}


@pytest.mark.parametrize(("lines", "line", "told"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_named_by_its_line(tmp_path: Path, lines: list[str], line: int, told: str) -> None:
    """And nothing is left."""
    file = edn(tmp_path / "h.edn", lines)
    with pytest.raises(UsageError) as refused:
        take(file, tmp_path / "store")
    assert refused.value.message.startswith(f"{file} line {line}: ")
    assert told in refused.value.message
    assert [path.name for path in tmp_path.iterdir()] == ["h.edn"]


def test_what_jepsen_leaves_out(tmp_path: Path) -> None:
    """Keys of an assignment, values of failures, offsets that nobody knows, the end of what is no operation."""
    lines = [
        ":type :invoke, :process 0, :f :assign, :value nil, :seek-to-beginning? true",
        ":type :ok, :process 0, :f :assign, :value nil",
        ":type :invoke, :process 0, :f :txn, :value [[:send 5 1] [:poll]]",
        ":type :fail, :process 0, :f :txn, :value nil, :error :aborted",
        ":type :invoke, :process 0, :f :send, :value [[:send 5 2]]",
        ":type :ok, :process 0, :f :send, :value [[:send 5 [nil 2]]]",
        ":type :invoke, :process 0, :f :txn, :value [[:send 5 3] [:poll]]",
        ":type :info, :process 0, :f :txn, :value [[:send 5 3] [:poll nil]]",
        ":type :invoke, :process 20, :f :debug-topic-partitions, :value nil",
    ]
    taken = take(edn(tmp_path / "h.edn", lines), tmp_path / "store")
    assert [said(row, "f", "type", "offset") for row in rows_of(taken.run, Kind.COMPLETE)] == [
        (F.ASSIGN, Type.OK, 0),
        (F.TXN, Type.FAIL, None),
        (F.SEND, Type.FAIL, None),
        (F.POLL, Type.FAIL, None),
        (F.SEND, Type.OK, None),
        (F.TXN, Type.INFO, None),
        (F.SEND, Type.INFO, None),
        (F.POLL, Type.INFO, None),
    ]
    assert not any("open" in note for note in taken.notes)


def test_a_torn_last_line(tmp_path: Path) -> None:
    """It says that the file is cut off."""
    file = edn(tmp_path / "h.edn", [SEND, SENT])
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(UsageError, match="line 2: the file is cut off here"):
        take(file, tmp_path / "store")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("[true false -5 +5 5N 1.5 2e3 1.5M]", [True, False, -5, 5, 5, 1.5, 2000.0, 1.5]),
        ('"a\\n\\"\\u2603"', Quoted('a\n"☃')),
        ("{:a/b [], 1 (2)}", {"m": [":a/b", [], 1, {"l": [2]}]}),
        ("#{1 2}", {"s": [1, 2]}),
        ('#inst "2020"', {"t": ["inst", Quoted("2020")]}),
        ("[1 #_ [2 3] 4] ; 5", [1, 4]),
        ("[a.b/c \\x 1/2 nilly]", [Symbol("a.b/c"), Symbol("\\x"), Symbol("1/2"), Symbol("nilly")]),
        ("#jepsen.history.Op{:f 1}", {"m": [":f", 1]}),
    ],
)
def test_edn(text: str, value: Any) -> None:
    """What there is in it, and written again."""
    assert parse(text) == value
    assert parse(written(value)) == value


@pytest.mark.parametrize(
    "text", ["", "1 2", "[", "]", "(1]", "{1}", "::a", ":", '"', '"\\q"', "#", "#_", "1x", "[" * 300]
)
def test_what_is_no_edn(text: str) -> None:
    """It says in which column."""
    with pytest.raises(EdnError, match="at column"):
        parse(text)


def test_ordinary_lines_are_read_quickly(tmp_path: Path) -> None:
    """Otherwise a million operations would take minutes."""
    lines = edn(tmp_path / "h.edn", LOST_AND_ABORTED).read_text().splitlines()
    declined = [line for line, value in zip(lines, parse_quickly(lines), strict=True) if value is None]
    assert len(declined) == sum("#{" in line for line in lines) == 1
