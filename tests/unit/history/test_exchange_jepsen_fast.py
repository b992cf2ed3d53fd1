"""What is read many lines at a time, and that it is: the same as one line at a time, for a fraction of the cost."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.foundation.errors import UsageError
from harness.history.exchange import external_sort, jepsen_lines, jsonl, line_templates, parquet
from harness.history.exchange.batch import Names, blank
from harness.history.exchange.columns import (
    absent,
    before_each,
    distinct,
    first_places,
    grouped,
    joined,
    runs_of,
    taken,
)
from harness.history.exchange.edn import EdnError, parse, parse_quickly
from harness.history.exchange.jepsen_fast import FastChunkParser
from harness.history.exchange.jsonl_fast import LinesReader
from harness.history.exchange.line_templates import PLACE, Grammar, TemplateCache, filled, without_numbers
from harness.history.exchange.lines import Chunk, Text, raw_of
from harness.history.schema import Kind
from tests.support.foreign_histories import complete, edn, give, invoke, passages_are_equal, recorded, take
from tests.support.foreign_histories import jsonl as jsonl_file

LARGEST = (1 << 63) - 1


def lines_of_jepsen(count: int) -> list[str]:
    """Operations of four processes, as Jepsen's Kafka workload writes them; some fail, and the nemesis is there."""
    lines: list[str] = []

    def say(type_: str, process: object, f: str, value: str, more: str = "") -> None:
        lines.append(
            f"#jepsen.history.Op{{:index {len(lines)}, :time {len(lines) * 1000}, :type {type_}, "
            f":process {process}, :f {f}, :value {value}{more}}}"
        )

    for number in range(count):
        process, key = number % 4, number % 7
        say(":invoke", process, ":txn", f"[[:poll] [:send {key} {number}] [:poll]]", ", :poll-ms 1000")
        records = " ".join(f"[{offset} {offset + 5}]" for offset in range(number % 5))
        told = f"[[:poll {{}}] [:send {key} [{number} {number}]] [:poll {{{key} [{records}], 9 [[1 2]]}}]]"
        if number % 10 == 3:
            asked = f"[[:poll] [:send {key} {number}] [:poll]]"
            say(":info", process, ":txn", asked, f', :error [:timeout "Expiring {number} record(s)"]')
        else:
            say(":ok", process, ":txn", told, ", :poll-ms 1000")
        if number % 50 == 0:
            say(":info", ":nemesis", ":kill", f'#{{"n{number}"}}')
    return lines


def test_ordinary_operations_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the nemesis, and lines before anything is learned, are read one at a time."""
    alone: list[int] = []
    say = jepsen_lines.ChunkParser.say

    def counted(reader: jepsen_lines.ChunkParser, number: int, line: str, value: Any) -> None:
        alone.append(number)
        say(reader, number, line, value)

    maker, lines = FastChunkParser(), lines_of_jepsen(500)
    maker.read(Chunk(1, Text("\n".join(lines).encode())))
    chunk = Chunk(1 + len(lines), Text("\n".join(lines).encode()))
    monkeypatch.setattr(jepsen_lines.ChunkParser, "say", counted)
    found = maker.read(chunk)
    assert len(alone) == sum(":nemesis" in line for line in lines) == 10
    alone.clear()
    assert passages_are_equal(found, jepsen_lines.read(chunk))
    assert len(alone) == len(lines)


def test_operations_that_go_on_in_another_passage_are_handed_on() -> None:
    """At its beginning and at its end, beside those that are whole."""
    lines = lines_of_jepsen(100)
    maker = FastChunkParser()
    maker.read(Chunk(1, lines))
    part = Chunk(2, lines[1:-1])
    found = maker._quickly(part, "")
    assert (len(found.ends), len(found.opened)) == (1, 1)
    assert passages_are_equal(found, jepsen_lines.read(part))


def test_lines_of_an_export_are_packed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever kind they are of; a text that never comes again is read on its own."""
    monkeypatch.setattr(line_templates, "LEARNED_FROM", 2)
    _, *lines = give(recorded(tmp_path / "run"), tmp_path / "h.jsonl").file.read_text().splitlines()
    odd = json.dumps({"kind": "phase", "time": 1, "process": 0, "name": "once"})
    chunk = Chunk(2, Text("\n".join([*lines, *lines, odd]).encode()))
    names, others = Names(), Names()
    found = LinesReader(names)._quickly(chunk)
    wanted = jsonl.read(chunk, others)
    assert found is not None
    assert found.parts.keys() == wanted.parts.keys()
    for kind, part in wanted.parts.items():
        assert found.parts[kind].lines.tolist() == part.lines.tolist()
        assert found.parts[kind].rows.tolist() == part.rows.tolist()
    assert (names, list(names.texts), list(names.topics)) == (others, list(others.texts), list(others.topics))


@pytest.mark.parametrize(
    ("damage", "line", "said"),
    [
        ({"partition": -1}, 1990, "'partition' is -1, out of range"),
        ({"partition": 1 << 31}, 1990, "'partition' is 2147483648, out of range"),
        ({"value": 1 << 63}, 1990, "'value' is 9223372036854775808, out of range"),
        ({"partition": 0.5}, 1990, "'partition' is 0.5"),
        ({"topic": ""}, 1990, "'topic' is empty"),
        ({"frob": 1}, 1990, "'frob' is no column of invoke"),
    ],
)
def test_damage_among_many_lines_that_are_alike(tmp_path: Path, damage: dict[str, Any], line: int, said: str) -> None:
    """It is told as if each line was looked at."""
    events = [each for op in range(1000) for each in (invoke(op, 2 * op), complete(op, 2 * op + 1))]
    events[line - 2] |= damage
    events[line + 5] |= {"time": -1}
    with pytest.raises(UsageError, match=f"line {line}: {said}"):
        take(jsonl_file(tmp_path / "h.jsonl", *events), tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_more_than_can_be_learned_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """And learned anew; nothing depends on it."""
    monkeypatch.setattr(line_templates, "LEARNED_AT_MOST", 3)
    monkeypatch.setattr(line_templates, "LEARNED_FROM", 1)
    reader, names = LinesReader(Names()), Names()
    for start in range(0, 60, 6):
        events = [invoke(op, op, topic=f"t{op % 7}") for op in range(start, start + 6)]
        chunk = Chunk(start + 2, [json.dumps(event) for event in events])
        found, wanted = reader.read(chunk), jsonl.read(chunk, names)
        assert found.parts[Kind.INVOKE].rows.tolist() == wanted.parts[Kind.INVOKE].rows.tolist()


@pytest.mark.parametrize(
    ("text", "without", "numbers"),
    [
        ("[1 22, 333]", "[@ @, @]", [1, 22, 333]),
        (f"[0 {LARGEST}]", "[@ @]", [0, LARGEST]),
        (f"[{LARGEST + 1} {10**30} 12]", f"[{LARGEST + 1} {10**30} @]", [12]),
        ("[007 1.5 1e5 5N a5 +5 -5 5]", "[007 1.5 1e5 5N a5 +5 -5 @]", [5]),
        ("5 [12345678 123456789 1234567890123456 12345678901234567]", "5 [@ @ @ @]", None),
        ("\n\n", "\n\n", []),
        ("", "", []),
    ],
)
def test_text_without_its_numbers(text: str, without: str, numbers: list[int] | None) -> None:
    """Only whole numbers that stand on their own, and fit, go."""
    found = without_numbers(text.encode(), Grammar(before=b" [", after=b" ,]"))
    assert found is not None
    assert found[0] == without.encode().replace(b"@", PLACE)
    wanted = [int(word) for word in text.strip("5 []").split()] if numbers is None else numbers
    assert found[1].tolist() == wanted


def test_control_characters_are_not_taken_for_digits() -> None:
    """Such text is left to others, but where no digit has to be hidden."""
    grammar = Grammar(before=b" ", after=b" ")
    assert without_numbers(b"\x0e a5", grammar) is None
    assert without_numbers(b"\x0e 5 ", grammar) == (b"\x0e \xff ", np.array([5]))


def test_what_comes_again_is_learned() -> None:
    """What it means is asked for once; some mean nothing."""
    asked: list[bytes] = []

    def learn(text: bytes) -> str | None:
        asked.append(text)
        return None if text == b"?" else text.decode().upper()

    learner = TemplateCache(learn)
    texts = [b"a", b"?", b"b"]
    for _ in range(line_templates.LEARNED_FROM - 1):
        assert learner.which(texts).tolist() == [-1, -1, -1]
    assert learner.which(texts).tolist() == [0, -1, 1]
    assert learner.which([b"b", b"?"]).tolist() == [1, -1]
    assert (learner.meanings, asked) == (["A", "B"], texts)
    assert filled(b"x" + PLACE + b"y" + PLACE, 7) == "x7y8"


def test_lines_are_kept_as_they_are() -> None:
    """And are strings for those who ask."""
    text = Text("a\nä\n".encode())
    assert (len(text), text[1], text[1:], list(text)) == (3, "ä", ["ä", ""], ["a", "ä", ""])
    assert raw_of(text) == text.raw == raw_of(["a", "ä", ""])


@pytest.mark.parametrize("largest", [5, 1 << 40])
def test_columns(largest: int) -> None:
    """As numpy would have it, only faster."""
    numbers = np.array([largest, 0, 3, largest, 3, 3])
    found, places = grouped(numbers)
    assert found[places].tolist() == numbers.tolist()
    assert found.tolist() == distinct(numbers).tolist() == [0, 3, largest]
    assert [each.tolist() for each in first_places(np.array([4, 1, 4, 0]), 6)] == [[4, 1, 0], [0, 1, 3]]
    assert absent(numbers, np.array([3, 9])).tolist() == [0, largest, largest]
    assert absent(numbers, np.array([], np.int64)).tolist() == sorted(numbers.tolist())
    assert before_each(np.array([2, 0, 3])).tolist() == [0, 2, 2]
    assert runs_of(np.array([10, 5, 20]), np.array([2, 0, 3])).tolist() == [10, 11, 20, 21, 22]
    rows = blank(Kind.PHASE, 4)
    rows["time"] = [1, 2, 3, 4]
    assert taken(rows, np.array([2, 0]))["time"].tolist() == [3, 1]
    assert taken(rows, rows["time"] > 2)["time"].tolist() == [3, 4]
    assert joined([rows, rows[:1]])["time"].tolist() == [1, 2, 3, 4, 1]


def test_rows_in_any_order_come_out_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in order are written as they come, the others in runs."""
    monkeypatch.setattr(external_sort, "RUN_ROWS", 7)
    monkeypatch.setattr(external_sort, "LARGEST_BLOCK", 2)
    monkeypatch.setattr(external_sort, "LEAST_BLOCK", 1)
    rng = random.Random(5)
    runs, times = external_sort.SortedRuns(tmp_path), []
    for event in range(60):
        rows = blank(Kind.PHASE, 3)
        start = rng.choice([event * 10, rng.randrange(600)])
        rows["time"] = [start, start + rng.randrange(2), start + 1]
        rows["event"], rows["process"] = range(3 * event, 3 * event + 3), event % 3
        times += rows["time"].tolist()
        runs.add(Kind.PHASE, rows)
    runs.finish(tmp_path, {}, {})
    found = pq.read_table(tmp_path / "history" / "kind=phase" / "part-00000.parquet")
    assert found["time"].to_pylist() == sorted(times)
    assert sorted(found["event"].to_pylist()) == list(range(180))
    assert (runs.rows[Kind.PHASE], runs.first_ns, runs.last_ns) == (180, min(times), max(times))
    assert runs.processes == {0, 1, 2}


def test_row_groups_of_any_size_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts come in dictionaries, and each row group has its own."""
    file = give(recorded(tmp_path / "run"), tmp_path / "h.parquet").file
    wanted = give(take(file, tmp_path / "store"), tmp_path / "h.jsonl").file.read_bytes()
    table = pq.read_table(file)
    monkeypatch.setattr(parquet, "BATCH_ROWS", 3)
    for size in (1, 2, 5):
        pq.write_table(table, tmp_path / "again.parquet", row_group_size=size, write_statistics=size != 2)
        again = take(tmp_path / "again.parquet", tmp_path / "store", name="h")
        assert give(again, tmp_path / f"{size}.jsonl").file.read_bytes() == wanted


def test_a_history_read_together_is_that_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file to the store, byte for byte."""
    file = edn(tmp_path / "h.edn", lines_of_jepsen(300))
    wanted = give(take(file, tmp_path / "store"), tmp_path / "wanted.jsonl").file.read_bytes()
    monkeypatch.setattr(FastChunkParser, "read", lambda _, chunk, wrapped="": jepsen_lines.read(chunk, wrapped))
    alone = take(file, tmp_path / "store", name="h")
    assert give(alone, tmp_path / "alone.jsonl").file.read_bytes() == wanted


def test_a_first_line_that_is_no_text(tmp_path: Path) -> None:
    """There is none before it that could be read."""
    (tmp_path / "h.edn").write_bytes(b'{:time "\xff"}\n')
    with pytest.raises(UsageError, match="line 1: byte 9 is no UTF-8"):
        take(tmp_path / "h.edn", tmp_path / "store")


@pytest.mark.parametrize("text", ["{:a 1)", "(1}", "[(1])", "({:a 1)}", "(1] [2)", "(1], [2)"])
def test_brackets_that_do_not_fit(text: str) -> None:
    """Neither reader takes one for another."""
    assert parse_quickly([text]) == [None]
    with pytest.raises(EdnError):
        parse(text)
