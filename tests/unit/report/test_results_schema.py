"""results.json against its published schema, by a validator that knows the part of JSON Schema which we use."""

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from checkers.core.results import Anomaly, CheckResults, Finding
from checkers.core.timeline import Fault
from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from checkers.summaries.figures import Figures, PartitionRow, Stall
from harness.history.store import Run
from harness.judging.checking import Checked
from harness.judging.diagnosis.cause import Cause, Diagnosis, Excluded, Measured
from harness.judging.policies import RunFacts
from harness.judging.verdict import decide
from harness.report.schema import SCHEMA_FILE, json_schema

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
MARK = {"status": "allowed", "code": "weak-acks", "why": "acks=1"}
KNOWN = {
    "type", "properties", "required", "items", "anyOf", "enum", "$ref", "additionalProperties", "description",
    "$schema", "$defs", "title", "uniqueItems",
}  # fmt: skip


def problems(value: Any, schema: dict[str, Any], top: dict[str, Any], where: str = "$") -> Iterator[str]:
    """What is wrong with a value, a sentence each."""
    assert set(schema) <= KNOWN, f"a keyword that this validator does not know: {set(schema) - KNOWN}"
    if "$ref" in schema:
        yield from problems(value, top["$defs"][schema["$ref"].removeprefix("#/$defs/")], top, where)
    if "anyOf" in schema and all(any(problems(value, each, top)) for each in schema["anyOf"]):
        yield f"{where} is nothing of what it may be"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is {value!r}"
    if "type" in schema and not is_a(value, schema["type"]):
        yield f"{where} is no {schema['type']}: {value!r}"
    elif isinstance(value, dict):
        yield from (f"{where}.{name} is missing" for name in schema.get("required", []) if name not in value)
        named, rest = schema.get("properties", {}), schema.get("additionalProperties")
        for name, each in value.items():
            inner = named.get(name, rest)
            yield from problems(each, inner, top, f"{where}.{name}") if isinstance(inner, dict) else ()
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from problems(each, schema.get("items", {}), top, f"{where}[{number}]")
        if schema.get("uniqueItems") and len(set(value)) < len(value):
            yield f"{where} names something twice"


def is_a(value: Any, type_: str) -> bool:
    """Whether a value is of a type of JSON Schema: a boolean is no number there."""
    return isinstance(value, TYPES[type_]) and not (isinstance(value, bool) and type_ in {"integer", "number"})


def full() -> dict[str, Any]:
    """Results with something in every place."""
    finding = Finding(
        "lost-write", "t", 0, 3, (1,), (2,), (3,), 4, None, (5,), ("tag",), "gone", {"acknowledged": 3, "at_ns": [1]}
    )
    cut = Finding("stall", None, None, None, (), (), (), None, None, (), (), "")
    row = PartitionRow("t", 0, 10, 10, 0, 0, 8, 8, 1.0, 0, 9, None)
    fault = FaultCoverage(Fault(1, "kill", 1, 2, bit=True), Span(1, 1), None, Span(0, 0))
    results = CheckResults(
        events=10,
        first_ns=4,
        drawn={"version": 1},
        anomalies={
            "lost-write": Anomaly("lost-write", "about", 5, 2, [finding]),
            "stall": Anomaly("stall", "", 1, 1, [cut]),
        },
        figures=Figures(10, 10, 0, 0, 8, 8, 1.0, 2.0, 1, [row], [Stall(4, 0, 7, at_end=True)], 1),
        coverage=Coverage({"send": {"ok": 10}}, 8, 8, [{"api": 1, "node": 1, "asked": 2, "answered": 2}], [fault]),
        damaged_processes=frozenset({3}),
        summaries={"latency": []},
    )
    cause = Cause("c", "because", "certain", (finding,), (), ("a",), ("b",), ("r",))
    diagnosis = Diagnosis((cause,), (), (Excluded("n", "s", "b"),), (Measured("m", "none", "s"),), ("stall ×1",))
    checked = Checked(Run(Path("/store/x/y")), {"seed": 7}, results, decide(results, RunFacts()))
    return {**json.loads(json.dumps(checked.as_json())), "diagnosis": diagnosis.as_json()}


def test_results_are_what_the_schema_says() -> None:
    """All of them, with findings, faults, stalls and a diagnosis."""
    assert list(problems(full(), json_schema(), json_schema())) == []


def test_everything_that_is_written_is_described() -> None:
    """A field that the schema does not know would be a secret."""
    schema, results = json_schema(), full()
    assert set(results) <= set(schema["properties"])
    assert set(results["figures"]) == set(schema["$defs"]["Figures"]["properties"])
    assert set(results["coverage"]) == set(schema["$defs"]["Coverage"]["properties"])
    assert {field.name for field in fields(Finding)} == set(schema["$defs"]["Finding"]["properties"])


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "perhaps"},
        {"exit_code": 3},
        {"version": 2},
        {"reasons": "one"},
        {"reasons": ["one"]},
        {"reasons": [{"sentence": "one"}]},
        {"events": "10"},
        {"seen": [{"anomaly": "x"}]},
        {"seen": [{"anomaly": "x", "found": 1, "mark": "illegal", "marks": []}]},
        {"seen": [{"anomaly": "x", "found": 1, "mark": {**MARK, "status": "perhaps"}, "marks": []}]},
        {"seen": [{"anomaly": "x", "found": 1, "mark": MARK, "marks": ["illegal"]}]},
        {"figures": {}},
        {"diagnosis": {"causes": []}},
    ],
)
def test_what_is_wrong_is_refused(change: dict[str, Any]) -> None:
    """The schema says something."""
    assert list(problems({**full(), **change}, json_schema(), json_schema()))


def test_a_missing_verdict_is_refused() -> None:
    """What is required is required."""
    results = full()
    del results["verdict"]
    assert list(problems(results, json_schema(), json_schema())) == ["$.verdict is missing"]


def test_the_published_schema_is_up_to_date() -> None:
    """After a change: `make schema`."""
    assert json.loads(SCHEMA_FILE.read_text(encoding="utf-8")) == json_schema()
