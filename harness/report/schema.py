"""The published schema of results.json: `python -m harness.report.schema` writes docs/results.schema.json.

It is made from the dataclasses that results are made of, so that it cannot say anything else than they do; what is
written beside their fields is added here. Programs that read results may rely on what is required; fields may be added.
"""

from __future__ import annotations

import json
from typing import Any, get_args

from pydantic import TypeAdapter

from checkers.core.results import CheckResults
from harness.foundation.errors import Exit
from harness.foundation.paths import PACKAGE
from harness.judging.checking import RESULTS_VERSION
from harness.judging.diagnosis.cause import Confidence, MeasurementOutcome
from harness.judging.policies.case import MarkStatus
from harness.judging.verdict import VerdictOutcome

SCHEMA_FILE = PACKAGE.parent / "docs" / "results.schema.json"
Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
WHOLE: Schema = {"type": "integer"}
MAYBE_WHOLE: Schema = {"anyOf": [WHOLE, {"type": "null"}]}
MAYBE_NUMBER: Schema = {"anyOf": [{"type": "number"}, {"type": "null"}]}
RATES = ("produce_rate", "consume_rate", "success_rate", "transaction_rate")


def json_schema() -> Schema:
    """What results.json holds, for other programs."""
    schema = TypeAdapter(CheckResults).json_schema(mode="serialization")
    definitions: dict[str, Schema] = schema.pop("$defs")
    for name in ("drawn", "undrawn", "drawing"):  # what goes into series.json
        schema["properties"].pop(name)
    for each in definitions.values():
        _plain(each)
    _plain(schema)
    definitions["Finding"]["properties"]["detail"]["description"] = "what proves it, in words for people"
    definitions["Finding"]["properties"]["facts"]["description"] = (
        "what its words are made of: names by anomaly, times in ns; what is not known is left out"
    )
    _with(definitions["Figures"], {**dict.fromkeys(RATES, MAYBE_NUMBER), "imbalance": WHOLE})
    _with(definitions["PartitionRow"], {"deviation": WHOLE, "low": {"type": "boolean"}})
    # a connection that failed is an answer to no request in particular
    definitions["Coverage"]["properties"]["probes"]["items"]["additionalProperties"] = MAYBE_WHOLE
    errors = definitions["Coverage"]["properties"].pop("errors")
    definitions["Coverage"]["required"].remove("errors")
    _with(schema, {"errors": errors, "unclassified": WHOLE, **_verdict(), "diagnosis": _diagnosis()})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "$defs": definitions,
        "title": "Tidegauge results",
        "description": "The verdict of a run, its evidence and the figures: results.json.",
    }


def _plain(schema: Schema) -> None:
    """Without titles and defaults, and with every field required: all are always written."""
    schema.pop("title", None)
    for each in schema["properties"].values():
        each.pop("title", None)
        each.pop("default", None)
    schema["required"] = list(schema["properties"])


def _with(schema: Schema, more: dict[str, Schema]) -> None:
    schema["properties"] |= more
    schema["required"] += list(more)


def _verdict() -> dict[str, Schema]:
    """What `Checked` and its verdict add."""
    outcome: Schema = {"enum": list(get_args(VerdictOutcome))}
    reason = _object({"code": {**TEXT, "description": "for programs"}, "sentence": TEXT})
    mark = _object({
        "status": {"enum": list(get_args(MarkStatus))},
        "code": {**TEXT, "description": "why, for programs; empty where the status says it all"},
        "why": {**TEXT, "description": "the same in words"},
    })  # fmt: skip
    seen = _object({"anomaly": TEXT, "found": WHOLE, "mark": mark, "marks": {"type": "array", "items": mark}})
    return {
        "version": {
            "enum": [RESULTS_VERSION],
            "description": "of this file; what another version wrote is checked again",
        },
        "verdict": {**outcome, "description": "the answer"},
        "outcome": {**outcome, "description": "the same as verdict"},
        "exit_code": {"enum": sorted(int(each) for each in (Exit.VALID, Exit.INVALID, Exit.UNKNOWN))},
        "expected": {
            "enum": [*get_args(VerdictOutcome), None],
            "description": "the expected verdict",
        },
        "run": {**TEXT, "description": "where the run is"},
        "tidegauge": {**TEXT, "description": "the version that checked it"},
        "seed": MAYBE_WHOLE,
        "reasons": {"type": "array", "items": reason, "description": "why the verdict is what it is"},
        "seen": {
            "type": "array",
            "items": seen,
            "description": "anomalies; the gravest mark, and those of its findings",
        },
        "looked_for": {**WHOLE, "description": "anomalies that there was something to look at for"},
        "not_looked_at": {"type": "object", "additionalProperties": TEXT, "description": "anomalies, and why"},
        "given_up": {**TEXTS, "description": "what the product could not be made to do, so that it was not tested"},
    }


def _diagnosis() -> Schema:
    """Causes, what is excluded, and what was measured whatever was found."""
    events: Schema = {"type": "array", "items": WHOLE}
    pointer = {"anomaly": TEXT, "place": TEXT, "time_ns": MAYBE_WHOLE, "events": events, "detail": TEXT}
    cause = {
        "name": TEXT,
        "sentence": TEXT,
        "confidence": {"enum": list(get_args(Confidence))},
        **dict.fromkeys(("because", "against", "remedies", "explains"), TEXTS),
        "allowed": {"type": "boolean"},
        "first": {"anyOf": [_object(pointer), {"type": "null"}]},
        "findings": {"type": "array", "items": _object(pointer)},
    }
    causes: Schema = {"type": "array", "items": _object(cause)}
    excluded = _object({"name": TEXT, "sentence": TEXT, "because": TEXT})
    measured = _object({"name": TEXT, "outcome": {"enum": list(get_args(MeasurementOutcome))}, "sentence": TEXT})
    return _object({
        "causes": causes,
        "allowed": causes,
        "excluded": {"type": "array", "items": excluded},
        "measured": {"type": "array", "items": measured},
        "unexplained": TEXTS,
    })  # fmt: skip


def _object(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


if __name__ == "__main__":
    SCHEMA_FILE.write_text(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
