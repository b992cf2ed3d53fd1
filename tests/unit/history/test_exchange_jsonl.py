"""The exchange format as JSON Lines: what is right is taken as it is, and what is wrong is named by its line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.foundation.errors import CannotHere, UsageError
from harness.history.exchange import batch, external_sort, lines
from harness.history.schema import ID_BITS, F, Kind, Status, Type
from harness.history.sealing import OPEN, open_history
from harness.judging.checking import run_facts_of
from harness.judging.policies import PlannedFault
from tests.support.foreign_histories import HEADER, SETTINGS, complete, give, invoke, jsonl, recorded, rows_of, take

RECORD = {"kind": "record", "time": 9, "process": 2, "op": 2, "topic": "t", "partition": 0, "offset": 4, "value": 1}
POLL = [invoke(2, 7, f="poll"), complete(2, 8, f="poll", count=1)]
PHASE = {"kind": "phase", "time": 1, "process": 0, "name": "load"}


def without(event: dict[str, Any], key: str) -> dict[str, Any]:
    """An event that lacks something."""
    return {name: value for name, value in event.items() if name != key}


def test_a_round_trip_changes_nothing(tmp_path: Path) -> None:
    """Export, import, export: the same bytes, of every kind of event, packed or not."""
    run = recorded(tmp_path / "run")
    first = give(run, tmp_path / "first.jsonl")
    taken = take(first.file, tmp_path / "store")
    second = give(taken, tmp_path / "second.jsonl")
    third = give(take(give(taken, tmp_path / "packed.jsonl.gz").file, tmp_path / "store"), tmp_path / "third.jsonl")
    content = [json.loads(line) for line in first.file.read_text().splitlines()]
    assert {event["kind"] for event in content[1:]} == {kind.name.lower() for kind in Kind}
    assert first.events == len(content) - 1 == content[0]["events"]
    assert [event["time"] for event in content[1:]] == sorted(event["time"] for event in content[1:])
    assert first.file.read_bytes() == second.file.read_bytes() == third.file.read_bytes()
    for kind in Kind:
        assert rows_of(taken.run, kind) == [
            row | ({"topic": {0: 0, 3: 1}[row["topic"]]} if "topic" in row else {}) for row in rows_of(run, kind)
        ]


def test_what_the_verdict_needs_travels(tmp_path: Path) -> None:
    """Settings, faults, topics, processes; not where it ran."""
    run = recorded(tmp_path / "run", troubles=["the cluster was not whole"])
    run.update(state="failed", error="node 1 died")
    exported = give(run, tmp_path / "run.jsonl")
    header = json.loads(exported.file.read_text().splitlines()[0])
    assert header["topics"] == ["orders", "päivä"]
    assert header["processes"]["2"] == {"role": "producer", "isolation": "read_committed"}
    assert "machine" not in json.dumps(header)
    taken = take(exported.file, tmp_path / "store", settings=["unclean_election=true"])
    before, after = run_facts_of(run.facts), run_facts_of(taken.run.facts)
    assert after.faults == before.faults != ()
    assert isinstance(after.faults[0], PlannedFault)
    assert after.failures == before.failures
    assert len(after.failures) == 2
    assert (after.idempotence, after.unclean_election, after.client) == (True, True, SETTINGS["client"])
    assert taken.run.facts["compacted"] == ["orders"]
    assert taken.run.facts["kind"] == "import"
    assert open_history(taken.run.path).processes[2] == {"role": "producer", "isolation": "read_committed"}


def test_a_history_with_holes_is_not_given_out(tmp_path: Path) -> None:
    """Nobody could tell what is missing; a process that left nothing is a hole."""
    run = recorded(tmp_path / "run", processes={"2": "producer", "9": "consumer"})
    with pytest.raises(CannotHere, match="process 9"):
        give(run, tmp_path / "run.jsonl")
    assert not (tmp_path / "run.jsonl").exists()


def test_damage_that_is_no_hole_travels(tmp_path: Path) -> None:
    """A history that was never `valid` does not become so on its way."""
    manifest = recorded(tmp_path / "run").path / "history" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"damage": ["0002.segment is torn"], "damaged_processes": [2]}))
    from harness.history.store import Run

    taken = take(give(Run(tmp_path / "run"), tmp_path / "run.jsonl").file, tmp_path / "store")
    sealed = open_history(taken.run.path)
    assert sealed.damage == ["0002.segment is torn"]
    assert sealed.damaged_processes == {2}


def test_little_is_enough(tmp_path: Path) -> None:
    """No events' numbers, no times of invocations, no processes, no order of time among processes."""
    file = jsonl(
        tmp_path / "app.jsonl",
        invoke(1, 50),
        invoke(77, 10, process=5),
        complete(1, 60, offset=3),
        complete(77, 20, process=5, type="fail"),
        *POLL,
        RECORD,
        invoke(5, 61),
    )
    taken = take(file, tmp_path / "store")
    assert taken.events == {"invoke": 4, "complete": 4, "record": 1}
    assert (taken.processes, taken.source["lines"], taken.set_up) == (2, 9, False)
    assert taken.notes == ["1 operations were open at its end and are info"]
    completions = {row["op"]: row for row in rows_of(taken.run, Kind.COMPLETE)}
    assert [row["op"] for row in rows_of(taken.run, Kind.COMPLETE)] == [2, 77, 1, 5]
    assert completions[1]["invoked"] == 50
    assert completions[77]["type"] == Type.FAIL
    assert (completions[5]["type"], completions[5]["time"], completions[5]["detail"]) == (Type.INFO, 61, OPEN)
    (record,) = rows_of(taken.run, Kind.RECORD)
    assert record["status"] == Status.GOOD
    events = [row["event"] for kind in Kind for row in rows_of(taken.run, kind)]
    assert len(set(events)) == len(events) == 9
    assert {event >> ID_BITS for event in events} == {2, 5}
    assert {about["role"] for about in open_history(taken.run.path).processes.values()} == {"consumer"}


def test_nothing_depends_on_where_the_file_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks of a few bytes, runs and ledgers of a few rows: the same history."""
    exported = give(recorded(tmp_path / "run"), tmp_path / "run.jsonl").file
    whole = give(take(exported, tmp_path / "store"), tmp_path / "whole.jsonl")
    monkeypatch.setattr(lines, "BLOCK_BYTES", 50)
    monkeypatch.setattr(external_sort, "RUN_ROWS", 2)
    monkeypatch.setattr(external_sort, "LEAST_BLOCK", 1)
    monkeypatch.setattr(external_sort, "MERGED_ROWS", 1)
    pieces = give(take(exported, tmp_path / "store"), tmp_path / "pieces.jsonl")
    assert pieces.file.read_bytes() == whole.file.read_bytes()


DAMAGES: dict[str, tuple[list[dict[str, Any] | str], int, str]] = {
    "no JSON": ([invoke(1, 1), "{nope"], 3, "no JSON"),
    "no object": (["[1]"], 2, "no JSON object"),
    "empty line": ([invoke(1, 1), "", PHASE], 3, "the line is empty"),
    "NaN": (['{"kind":"phase","time":NaN,"process":1,"name":"x"}'], 2, "NaN"),
    "nested too deeply": (["[" * 100_000], 2, "no JSON"),
    "a key twice": (['{"kind":"phase","time":1,"time":2,"process":1,"name":"x"}'], 2, "'time' is there twice"),
    "no kind": ([without(PHASE, "kind")], 2, "'kind' is missing"),
    "unknown kind": ([PHASE | {"kind": "frob"}], 2, "'kind' is \"frob\""),
    "unknown key": ([PHASE | {"topic": "t"}], 2, "'topic' is no column of phase"),
    "missing key": ([PHASE, without(PHASE, "name")], 3, "'name' is missing"),
    "no time": ([without(PHASE, "time")], 2, "'time' is missing"),
    "a float": ([PHASE | {"time": 1.0}], 2, "'time' is 1.0"),
    "a boolean": ([PHASE | {"time": True}], 2, "'time' is true"),
    "a null": ([PHASE | {"detail": None}], 2, "'detail' is null"),
    "a text for a number": ([PHASE | {"time": "1"}], 2, "'time' is \"1\""),
    "a number for a text": ([PHASE | {"name": 1}], 2, "'name' is 1"),
    "half a character": ([PHASE | {"name": "\ud800"}], 2, "half a character"),
    "too large": ([invoke(1 << 63, 1)], 2, "out of range"),
    "what stands for null": ([invoke(1, 1, value=-(1 << 63))], 2, "out of range"),
    "too large for its column": ([invoke(1, 1, partition=1 << 31)], 2, "out of range"),
    "negative partition": ([invoke(1, 1, partition=-1)], 2, "'partition' is -1, out of range"),
    "negative time": ([PHASE | {"time": -1}], 2, "out of range"),
    "process too large": ([PHASE | {"process": 1 << 23}], 2, "out of range"),
    "unknown word": ([invoke(1, 1, f="sned")], 2, "'f' is \"sned\""),
    "a number for a word": ([invoke(1, 1, f=1)], 2, "'f' is 1"),
    "empty topic": ([invoke(1, 1, topic="")], 2, "'topic' is empty"),
    "a second header": ([HEADER], 2, "a header is there a second time"),
    "completion without invocation": ([complete(1, 1)], 2, "no line before this one invokes it"),
    "completion before its invocation": ([complete(1, 1), invoke(1, 1)], 2, "no line before this one invokes it"),
    "completed twice": ([invoke(1, 1), complete(1, 2), complete(1, 2)], 4, "completed a second time"),
    "invoked twice at once": ([invoke(1, 1), invoke(1, 2)], 3, "operation 1 is invoked twice (first on line 2)"),
    "invoked again": (
        [invoke(1, 1), complete(1, 2), invoke(1, 3, value=9)],
        4,
        "operation 1 is invoked twice (first on line 2)",
    ),
    "value sent twice": ([invoke(1, 1), invoke(2, 1, value=1)], 3, "value 1 is sent twice (first on line 2)"),
    "completed too early": ([invoke(1, 5), complete(1, 4)], 3, "before the time of its invocation"),
    "completed by another": ([invoke(1, 1), complete(1, 2, process=3)], 3, "by another process"),
    "completed as another": ([invoke(1, 1), complete(1, 2, f="poll")], 3, "as something else"),
    "another time of invocation": ([invoke(1, 1), complete(1, 3, invoked=2)], 3, "was not invoked at the time"),
    "another value": ([invoke(1, 1), complete(1, 3, value=2)], 3, "another value"),
    "a send without value": ([without(invoke(1, 1), "value")], 2, "a send has no 'value'"),
    "a send without topic": ([without(without(invoke(1, 1), "topic"), "partition")], 2, "a send has no 'topic'"),
    "record of no poll": (
        [invoke(2, 7), complete(2, 8), RECORD],
        4,
        "'op' is 2, which is no poll or final or raw or replica",
    ),
    "record of nothing": ([RECORD], 2, "'op' is 2, which is no poll"),
    "record without value": ([*POLL, without(RECORD, "value")], 4, "a record has no 'value'"),
    "negative offset": ([*POLL, RECORD | {"offset": -1}], 4, "out of range"),
    "part of no transaction": ([invoke(1, 1), invoke(2, 1, txn=1)], 3, "'txn' is 1, which is no txn"),
    "member of no group": ([invoke(1, 1, f="poll", member=7)], 2, "'member' is 7, which is no subscribe"),
    "some events numbered": ([PHASE | {"event": 0}, PHASE], 3, "has no 'event'"),
    "some events not numbered": ([PHASE, PHASE | {"event": 0}], 3, "has 'event'"),
    "an event twice": ([PHASE | {"event": 5}, PHASE | {"event": 5}], 3, "event 5 is there twice (first on line 2)"),
    "an event of another process": ([PHASE | {"event": 1 << ID_BITS}], 2, "does not have its process"),
}


@pytest.fixture(params=[lines.BLOCK_BYTES, 40])
def _blocks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Files are read in large blocks, and in such that no line fits into one."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", request.param)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize(("events", "line", "said"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_named_by_its_line(tmp_path: Path, events: list[dict[str, Any] | str], line: int, said: str) -> None:
    """Wherever the file is cut into blocks; and nothing is left in the store, not even the store."""
    file = jsonl(tmp_path / "h.jsonl", *events)
    with pytest.raises(UsageError) as refused:
        take(file, tmp_path / "store")
    assert refused.value.message.startswith(f"{file} line {line}: ")
    assert said in refused.value.message
    assert refused.value.remedy
    assert [path.name for path in tmp_path.iterdir()] == ["h.jsonl"]


def test_damage_is_found_among_much_that_is_right(tmp_path: Path) -> None:
    """After events of the same kinds, whose values it must not take along."""
    right = [event for op in range(100, 150) for event in (invoke(op, op), complete(op, op))]
    for name, (events, line, said) in DAMAGES.items():
        if "numbered" in name or "an event" in name:
            continue  # what is right has no numbers
        with pytest.raises(UsageError) as refused:
            take(jsonl(tmp_path / "h.jsonl", *right, *events), tmp_path / "store")
        assert f"line {line + 100}: " in refused.value.message, name
        assert said.replace("line 2", "line 102") in refused.value.message


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (PHASE, "the header is missing"),
        ({"tidegauge": "history"} | {"version": 2}, "'version' cannot be 2: use 1"),
        ({"tidegauge": "story", "version": 1}, "'tidegauge' cannot be 'story': use history"),
        (HEADER | {"frob": 1}, "unknown key 'frob'"),
        (HEADER | {"about": {"setings": {}}}, "unknown key 'about.setings'"),
        (HEADER | {"about": {"seed": 1.5}}, "'about.seed' cannot be 1.5: use a whole number"),
        (HEADER | {"about": {"schedule": [{}]}}, "each slot names its fault"),
        (HEADER | {"processes": {"x": {"role": "producer"}}}, "'x' is no number of a process"),
        (HEADER | {"processes": {"2": {}}}, "process 2 has no role"),
        (HEADER | {"topics": ["a", "a"]}, "each topic is named once"),
        ('{"tidegauge":"history","version":1,"about":{"seed":1,"seed":2}}', "'seed' is there twice"),
        ("[]", "no JSON object"),
        ("", "the line is empty"),
    ],
)
def test_a_header_that_makes_no_sense(tmp_path: Path, header: dict[str, Any] | str, said: str) -> None:
    """It is on the first line."""
    with pytest.raises(UsageError) as refused:
        take(jsonl(tmp_path / "h.jsonl", PHASE, header=header), tmp_path / "store")
    assert "h.jsonl line 1: " in refused.value.message
    assert said in str(refused.value)


def test_a_file_that_ends_early(tmp_path: Path) -> None:
    """In the middle of a line, or where the header says that more should come."""
    file = jsonl(tmp_path / "h.jsonl", PHASE, PHASE, header=HEADER | {"events": 2})
    take(file, tmp_path / "store")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    take(file, tmp_path / "store")  # nothing but the end of the line is missing
    file.write_bytes(whole[:-5])
    with pytest.raises(UsageError, match="line 3: the file is cut off here"):
        take(file, tmp_path / "store")
    file.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])
    with pytest.raises(UsageError, match="line 2: the file ends after 1 events, and its header says 2"):
        take(file, tmp_path / "store")


def test_what_is_no_text_or_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a line that is right."""
    file = jsonl(tmp_path / "h.jsonl", PHASE, PHASE)
    good = file.read_bytes()
    file.write_bytes(good + b'{"kind":"\xff"}\n' + good)
    with pytest.raises(UsageError, match="line 4: byte 10 is no UTF-8"):
        take(file, tmp_path / "store")
    monkeypatch.setattr(lines, "LINE_BYTES", 300)
    for ending in ("\n", ""):
        file.write_bytes(good + json.dumps(PHASE | {"name": "x" * 300}).encode() + ending.encode())
        with pytest.raises(UsageError, match="line 4: the line is longer"):
            take(file, tmp_path / "store")


def test_more_texts_than_can_be_held_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not dropped without a word."""
    monkeypatch.setattr(batch, "TEXTS_AT_MOST", 2)
    events = [PHASE | {"name": str(number)} for number in range(3)]
    with pytest.raises(UsageError, match="line 4: by here there are more than 2 different texts"):
        take(jsonl(tmp_path / "h.jsonl", *events), tmp_path / "store")


def test_packed_files(tmp_path: Path) -> None:
    """By their names; one that is cut off is refused."""
    packed = gzip.compress(jsonl(tmp_path / "h.jsonl", PHASE).read_bytes())
    file = tmp_path / "packed.jsonl.gz"
    file.write_bytes(packed)
    assert take(file, tmp_path / "store").events == {"phase": 1}
    file.write_bytes(packed[:-10])
    with pytest.raises(UsageError, match="cannot be unpacked"):
        take(file, tmp_path / "store")


def test_the_functions_of_operations_are_all_words() -> None:
    """Whatever is added to the schema can travel."""
    from harness.history.exchange.file_format import WORDS

    assert set(WORDS["f"].values()) == {int(f) for f in F}


LONE = '{"tidegauge": "history", "version": 1, "topics": ["\\ud800"]}'
DEEP = '{"tidegauge": "history", "version": 1, "about": {"settings": {"x": ' + "[" * 300 + "]" * 300 + "}}}"
HUGE = '{"tidegauge": "history", "version": 1, "about": {"settings": {"x": 1e999}}}'
FALSE = '{"tidegauge": "history", "version": 1, "about": {"settings": {"idempotence": "false"}}}'


@pytest.mark.parametrize(
    ("header", "said"),
    [(LONE, "half a character"), (DEEP, "nested too deeply"), (HUGE, "1e999"), (FALSE, "true or false")],
)
def test_headers_that_nobody_could_use(tmp_path: Path, header: str, said: str) -> None:
    """They would break an export, or be misunderstood by the verdict."""
    with pytest.raises(UsageError) as refused:
        take(jsonl(tmp_path / "h.jsonl", header=header), tmp_path / "store")
    assert "line 1: " in refused.value.message
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("events", "line", "said"),
    [
        ([invoke(1, 1), invoke(2, 1, value=1), "junk"], 3, "value 1 is sent twice"),
        ([invoke(1, 1, event=2 << 40), complete(5, 5, event=(2 << 40) + 1), invoke(2, 6)], 3, "operation 5 is"),
        ([invoke(1, 1), complete(1, 2, topic="u")], 3, "another topic"),
        ([invoke(1, 1), complete(1, 2, partition=3)], 3, "another partition"),
        (['{"kind": ' + "[" * 800 + "]" * 800 + "}"], 2, "'kind' is"),
    ],
)  # fmt: skip
def test_the_first_damage_is_told(tmp_path: Path, events: list[Any], line: int, said: str) -> None:
    """Of several, also when another kind of damage comes to light earlier."""
    file = jsonl(tmp_path / "h.jsonl", *events)
    with pytest.raises(UsageError) as refused:
        take(file, tmp_path / "store")
    assert refused.value.message.startswith(f"{file} line {line}: ")
    assert said in refused.value.message


def test_a_damaged_zstd_file(tmp_path: Path) -> None:
    """One sentence."""
    packed = pa.Codec("zstd").compress(jsonl(tmp_path / "h.jsonl").read_bytes() * 100, asbytes=True)
    for place, content in enumerate((packed[:-5], b"junkjunkjunk")):
        file = tmp_path / f"{place}.jsonl.zst"
        file.write_bytes(content)
        with pytest.raises(UsageError, match="cannot be unpacked"):
            take(file, tmp_path / "store")
