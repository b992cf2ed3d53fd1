"""Foreign histories: the quick reader agrees with the strict one, and what is taken in comes out again."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.foreign.edn import EdnError, parse, parse_quickly
from harness.foreign.form import REQUIRED, WORDS, is_text, limits
from harness.history import KINDS, Kind
from tests.foreign import complete, give, invoke, jsonl, take

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
