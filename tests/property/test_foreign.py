"""Foreign histories: the quick reader agrees with the strict one, and what is taken in comes out again."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.history.exchange import line_templates
from harness.history.exchange.batch import Names
from harness.history.exchange.edn import EdnError, parse, parse_quickly
from harness.history.exchange.file_format import REQUIRED, WORDS, is_text, limits
from harness.history.exchange.jepsen_fast import FastChunkParser
from harness.history.exchange.jepsen_lines import read
from harness.history.exchange.jsonl import read as jsonl_alone
from harness.history.exchange.jsonl_fast import LinesReader
from harness.history.exchange.line_templates import PLACE, Grammar, without_numbers
from harness.history.exchange.lines import Chunk
from harness.history.schema import KINDS, Kind
from tests.support.foreign_histories import complete, give, invoke, jsonl, passages_are_equal, take

KEYWORDS = [":send", ":poll", ":poll-ms", ":f", ":fail", ":txn", ":index", ":type", ":ok", ":sendx", ":nil", ":a/b"]
SCALARS = [
    "nil",
    "true",
    "null",
    "NaN",
    "0",
    "-7",
    "12",
    "007",
    "1.5",
    "1e3",
    "5N",
    "x",
    "nilly",
    '"a b"',
    '":f {"',
    '"@0$"',
    "@0$",
    "#x 1",
]
ATOMS = st.sampled_from([*KEYWORDS, *SCALARS])
GAPS = st.sampled_from([" ", ", ", ",", "  ", "\t", ""])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Something like EDN: mostly right, brackets that do not always fit."""
    parts = draw(
        st.lists(st.one_of(ATOMS, st.sampled_from([*"[](){}", "#{", "#jepsen.history.Op{", ";"])), max_size=12)
    )
    text = draw(GAPS).join(parts)
    return draw(st.sampled_from([text, f"[{text}]", f"{{:value [{text}]}}", f"{{:f {text}}}", f"({text})"]))


@given(st.lists(texts(), min_size=1, max_size=5))
@example(["[1", "2]"])
@example(["{:value null}", "{:a nil}"])
@example(["{:ok :send :poll}", "{:value {1}}"])
@example(['["a" "b, c"]', "[@0$]", '["a""b"]', '["nil" :send "null"]', '[1 ; "a"', '["\\"]', '[@0$ "a"]'])
@example(["(1]", "{:send-all 1}", "[:send:poll 1]"])
def test_the_quick_reader_agrees_with_the_strict_one(lines: list[str]) -> None:
    """It gives the same value, or declines."""
    for line, value in zip(lines, parse_quickly(lines), strict=True):
        if value is not None:
            assert parse(line) == value
            # 1, 1.0 and true are not the same
            assert json.dumps(parse(line), default=repr) == json.dumps(value, default=repr)


@given(st.text(alphabet=' ,:[](){}"#\\;-+.0123456789abnilxNM\t\n', max_size=30))
def test_any_text_is_a_value_or_an_error(text: str) -> None:
    """Nothing else is raised."""
    with suppress(EdnError):
        parse(text)


def _value(kind: Kind, name: str) -> st.SearchStrategy[Any]:
    if name in WORDS:
        return st.sampled_from(sorted(WORDS[name]))
    if name == "topic" or is_text(name):
        characters = st.characters(codec="utf-8")
        return st.text(characters, min_size=name == "topic", max_size=10)
    return st.integers(*limits(kind, name))


@st.composite
def events(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events of kinds that stand for themselves, with any columns, and some operations."""
    found: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from([Kind.PROBE, Kind.EXCHANGE, Kind.FAULT, Kind.BROKER, Kind.PHASE]))
        columns = [name for name in KINDS[kind] if name != "event"]
        needed = {"time", "process"} | REQUIRED[kind]
        chosen = [name for name in columns if name in needed or draw(st.booleans())]
        found.append(
            {"kind": kind.name.lower()} | {name: draw(_value(kind, name)) for name in draw(st.permutations(chosen))}
        )
    for op in range(draw(st.integers(0, 4))):
        began = draw(st.integers(0, 1000))
        found.append(invoke(op, began))
        if draw(st.booleans()):
            found.append(
                complete(op, began + draw(st.integers(0, 1000)), type=draw(st.sampled_from(sorted(WORDS["type"]))))
            )
    return found


@settings(max_examples=15)
@given(events())
def test_what_is_taken_in_comes_out_again(made: list[dict[str, Any]]) -> None:
    """As lines and as Parquet; and from then on each export is the same, byte for byte."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        taken = take(jsonl(directory / "h.jsonl", *made), directory / "store")
        first = give(taken, directory / "first.jsonl").file
        header, *lines = [json.loads(line) for line in first.read_text().splitlines()]
        assert header["events"] == len(lines)
        plain = [{name: value for name, value in line.items() if name not in {"event", "invoked"}} for line in lines]
        for event in made:
            assert {name: value for name, value in event.items() if name != "invoked"} in plain
        assert len(lines) == len(made) + _open(made)
        again = give(take(first, directory / "store", name="h"), directory / "second.jsonl").file
        parquet = give(taken, directory / "h.parquet").file
        third = give(take(parquet, directory / "store"), directory / "third.jsonl").file
        assert first.read_bytes() == again.read_bytes() == third.read_bytes()


def _open(made: list[dict[str, Any]]) -> int:
    kinds = [str(event["kind"]) for event in made]
    return kinds.count("invoke") - kinds.count("complete")


ERRORS = [
    '[:timeout "Expiring 1 record(s)"]',
    ":aborted",
    "nil",
    '"[[:poll]] :error 5"',
    '["a" [[:send 5 1]]]',
    '"\\"5\\" ; }"',
]
LARGEST = (1 << 63) - 1
EDITS = [
    *' ,:[](){}"#\\;-+.0123nil',
    ":poll",
    "[:poll]",
    " [5 6]",
    "nil",
    "00",
    ":value ",
    ":error ",
    "\x0e",
    "é",
    "9" * 19,
]


@st.composite
def told(draw: st.DrawFn, asked: tuple[int, int] | None, *, ok: bool) -> str:
    """How a micro-operation ended; a send has a key and a value."""
    if asked is None:
        pairs = st.tuples(st.sampled_from([0, 3, LARGEST]), st.sampled_from([1, 77, (1 << 40) - 1]))
        found = draw(st.dictionaries(st.sampled_from([0, 5, 11]), st.lists(pairs, max_size=4), max_size=2))
        entries = (f"{key} [{' '.join(f'[{one} {other}]' for one, other in pairs)}]" for key, pairs in found.items())
        said = f"[:poll {{{', '.join(entries)}}}]"
        return said if ok else draw(st.sampled_from([said, "[:poll]", "[:poll nil]"]))
    key, value = asked
    said = f"[:send {key} [{draw(st.sampled_from([0, 5, 10**15]))} {value}]]"
    return said if ok else draw(st.sampled_from([said, f"[:send {key} {value}]", f"[:send {key} [nil {value}]]"]))


@st.composite
def jepsen_lines(draw: st.DrawFn) -> list[str]:
    """A right history, of which the first lines may be missing."""
    before, behind = draw(st.sampled_from([("{", "}"), ("#jepsen.history.Op{", "}"), (" {", " } ; 5")]))
    keys = draw(st.permutations([":time", ":type", ":process", ":f", ":value"]))
    keys = [":index", *keys] if draw(st.booleans()) else keys
    opened: dict[int, tuple[str, list[tuple[int, int] | None]]] = {}
    lines: list[str] = []
    time = draw(st.sampled_from([0, 10**12]))
    for number in range(draw(st.integers(0, 24))):
        process = draw(st.integers(0, 2))
        more = draw(st.sampled_from(["", "", "", ", :poll-ms 1000", ", :rebalance-log [5]"]))
        said = {":index": number, ":time": time, ":type": ":invoke", ":process": process}
        time += draw(st.sampled_from([0, 1, 10**9]))
        if process in opened:
            f, micro = opened.pop(process)
            type_ = draw(st.sampled_from([":ok", ":ok", ":info", ":fail"]))
            value = f"[{' '.join(draw(told(each, ok=type_ == ':ok')) for each in micro)}]"
            more += f", :error {draw(st.sampled_from(ERRORS))}" if type_ != ":ok" and draw(st.booleans()) else ""
            said |= {":type": type_, ":f": f, ":value": value}
        elif draw(st.integers(0, 9)) == 0:
            said |= {":type": ":info", ":process": ":nemesis", ":f": ":kill", ":value": "[[:poll] 5]"}
        else:
            f = draw(st.sampled_from([":send", ":poll", ":txn", ":txn", ":assign", ":crash"]))
            count = draw(st.integers(0, 3)) if f in {":send", ":poll", ":txn"} else 0
            sends = [f == ":send" or (f == ":txn" and draw(st.booleans())) for _ in range(count)]
            micro = [(number % 3, 10 * number + place) if send else None for place, send in enumerate(sends)]
            opened[process] = (f, micro)
            value = " ".join("[:poll]" if each is None else f"[:send {each[0]} {each[1]}]" for each in micro)
            said |= {":f": f, ":value": draw(st.sampled_from([f"[{value}]", f"[{value}]", f"({value})"]))}
        lines.append(f"{before}{', '.join(f'{key} {said[key]}' for key in keys)}{more}{behind}")
    return lines[draw(st.integers(0, 2)) :]


@st.composite
def edited(draw: st.DrawFn, lines: list[str]) -> list[str]:
    """The same with something put in, left out or put somewhere else."""
    lines = list(lines)
    for _ in range(draw(st.integers(0, 2)) if lines else 0):
        place = draw(st.integers(0, len(lines) - 1))
        line = lines.pop(place)
        at, less = draw(st.integers(0, len(line))), draw(st.integers(0, 1))
        line = f"{line[:at]}{draw(st.sampled_from(['', *EDITS]))}{line[at + less :]}"
        lines.insert(draw(st.sampled_from([place, place, place, 0, len(lines)])), line)
    return lines


@contextmanager
def learning_at_once() -> Iterator[None]:
    """From one line, and however many are like no others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_templates, "LEARNED_FROM", 1)
        patch.setattr(line_templates, "OTHERS_AT_MOST", 1)
        yield


@given(jepsen_lines(), st.data())
def test_a_passage_read_together_is_that_read_line_by_line(lines: list[str], data: st.DataObject) -> None:
    """Rows, what is handed on, and what is wrong; also when something was changed, and with what was learned before."""
    maker = FastChunkParser()
    with learning_at_once():
        for chunk in (Chunk(2, lines), Chunk(data.draw(st.sampled_from([1, 70])), data.draw(edited(lines)))):
            assert passages_are_equal(maker.read(chunk), read(chunk))
        if lines:
            maker._quickly(Chunk(2, lines), "")  # it is not declined


@given(st.lists(events(), min_size=1, max_size=3), st.data())
def test_lines_packed_together_are_those_packed_alone(made: list[list[dict[str, Any]]], data: st.DataObject) -> None:
    """Rows, numbers of texts and topics, and what is wrong."""
    names, others = Names(), Names()
    reader, number = LinesReader(names), 2
    with learning_at_once():
        for each in made:
            plain = [json.dumps(event, ensure_ascii=len(each) % 2 == 0) for event in each]
            chunk = Chunk(number, data.draw(edited(plain)))
            found, wanted = reader.read(chunk), jsonl_alone(chunk, others)
            assert str(found.wrong) == str(wanted.wrong)
            if wanted.wrong:
                return
            assert {kind: part.rows.tolist() for kind, part in found.parts.items()} == {
                kind: part.rows.tolist() for kind, part in wanted.parts.items()
            }
            assert (list(names.texts), list(names.topics)) == (list(others.texts), list(others.topics))
            number += len(plain)


@given(st.text(alphabet=' ,:[](){}"-.0159abx', max_size=40))
def test_text_and_its_numbers_are_the_whole_text(text: str) -> None:
    """Nothing is lost, and what is left has no number that stands on its own."""
    found = without_numbers(text.encode(), Grammar(before=b" ,[", after=b" ,]"))
    assert found is not None
    left, numbers = found
    pieces = left.split(PLACE)
    assert len(pieces) == len(numbers) + 1
    assert (
        b"".join(b"%b%d" % pair for pair in zip(pieces, numbers.tolist(), strict=False)) + pieces[-1] == text.encode()
    )
    assert not re.search(rb"(?<=[ ,\[])(0|[1-9][0-9]{0,17})(?=[ ,\]])", left)
