"""Mistakes in configuration: what a validator found, as sentences that say where, what, and what is allowed there.

Every mistake of a file is reported at once. What is allowed comes from the schema of the model, so that no model has to
repeat its ranges as text.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from harness.foundation.durations import HOW_TO_WRITE, PATTERN
from harness.foundation.errors import UsageError

Place = tuple[str | int, ...]
SHOWN_CHARACTERS = 60  # of a wrong value
UNKNOWN, MISSING, OWN = "extra_forbidden", "missing", "value_error"  # pydantic's names
BOUNDS = {"greater_than": "above", "greater_than_equal": "at least", "less_than": "below", "less_than_equal": "at most"}


@dataclass(frozen=True)
class Mistake:
    """One mistake: where it is, what it is, and what to do about it."""

    place: Place
    what: str
    remedy: str
    of_table: bool = False  # not of one key, but of several together

    def within(self, table: str) -> Mistake:
        """The same, with the name of the table that it is in."""
        return replace(self, what=f"{table}: {self.what}")

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


def refusal(found: Sequence[tuple[str, Mistake]]) -> UsageError:
    """The error for mistakes, each with the source that it is in; a list if there are several."""
    found = list(dict.fromkeys(found))
    if len(found) == 1:
        ((source, only),) = found
        return UsageError(f"{source}: {only.what}" if source else only.what, only.remedy)
    sources = {source for source, _ in found}
    if len(sources) == 1 and "" not in sources:
        return UsageError(f"{sources.pop()} has {len(found)} mistakes", _list(str(each) for _, each in found))
    lines = (f"{source}: {each}" if source else str(each) for source, each in found)
    return UsageError(f"there are {len(found)} mistakes", _list(lines))


def all_of(errors: Sequence[UsageError], title: str) -> UsageError:
    """The only error, or one below the title that lists several."""
    return (
        errors[0] if len(errors) == 1 else UsageError(title, _list(str(each).replace("\n", "\n  ") for each in errors))
    )


def _list(lines: Iterable[str]) -> str:
    return "".join(f"\n  {line}" for line in lines)


def suggestion(name: str, known: list[str]) -> str:
    """'did you mean X?' when something near is known, else what is known."""
    if near := nearest(name, known):
        return f"did you mean '{near}'?"
    return f"known here: {', '.join(sorted(known))}" if known else "remove it"


def nearest(name: str, known: list[str]) -> str:
    """The known name that was probably meant; nothing if none is near."""

    def likeness(each: str) -> tuple[float, int]:
        """Of names that have as much in common, the one with more letters in the same places comes first."""
        in_place = sum(a == b for a, b in zip(name, each, strict=False))
        return difflib.SequenceMatcher(None, each, name).ratio(), in_place

    return max(difflib.get_close_matches(name, known), key=likeness, default="")


def mistakes_in(model: type[BaseModel], error: ValidationError) -> list[Mistake]:
    """All that the validator found, each place once; a misspelled key explains the missing one that it stands for."""
    schema = _Schema(model)
    problems = error.errors(include_url=False)
    meant = {
        (*place, nearest(str(key), schema.keys(place)))
        for problem in problems
        if problem["type"] == UNKNOWN
        for place, key in [(problem["loc"][:-1], problem["loc"][-1])]
    }
    found: dict[Place, Mistake] = {}
    for problem in problems:
        place = (
            (*schema.place(problem["loc"][:-1]), problem["loc"][-1])
            if problem["type"] in {UNKNOWN, MISSING}
            else schema.place(problem["loc"])
        )
        if problem["type"] != MISSING or place not in meant:
            found.setdefault(place, _mistake(problem, place, schema))
    tables = {place[:length] for place in found for length in range(1, len(place))}
    return [each for place, each in found.items() if place not in tables or each.of_table]


def _mistake(problem: Mapping[str, Any], place: Place, schema: _Schema) -> Mistake:
    name = ".".join(map(str, place))
    if problem["type"] == UNKNOWN:
        return Mistake(place, f"unknown key '{name}'", suggestion(str(place[-1]), schema.keys(place[:-1])))
    if problem["type"] == MISSING:
        return Mistake(place, f"the key '{name}' is missing", "add it")
    if problem["type"] == OWN:
        said = str(problem["msg"]).removeprefix("Value error, ")
        if place and "properties" not in next(schema.branches(schema.at(place)), {}):
            return Mistake(place, f"'{name}' is wrong", said)
        what, _, remedy = said.partition(": ")
        return Mistake(place, what, remedy or "correct it", of_table=True)
    allowed = _allowed(schema.at(place), schema) or "another value"
    if problem["type"] in BOUNDS and allowed == _A_DURATION:
        (bound,) = problem["ctx"].values()
        allowed = f"a duration {BOUNDS[problem['type']]} {bound:g} s"
    secret = schema.at(place).get("writeOnly", False)
    what = f"'{name}' is wrong" if secret else f"'{name}' cannot be {_shown(problem['input'])}"
    return Mistake(place, what, f"use {allowed}")


def _shown(value: object) -> str:
    text = "a table" if isinstance(value, Mapping) else repr(value)
    if isinstance(value, bool):
        text = str(value).lower()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


class _Schema:
    """The JSON schema of a model, walked by the keys of a file."""

    def __init__(self, model: type[BaseModel]) -> None:
        try:
            self._whole = model.model_json_schema(by_alias=True)
        except PydanticInvalidForJsonSchema:  # a model for programs, whose mistakes no file has
            self._whole = {}

    def place(self, loc: Place) -> Place:
        """Where in a file an error is: without the names of branches that the validator adds."""
        place: Place = ()
        for part in loc:
            if self.at((*place, part)):
                place = (*place, part)
        return place

    def at(self, place: Place) -> dict[str, Any]:
        """What may stand there; nothing where no key leads."""
        here = [self._whole]
        for part in place:
            here = [inner for each in here for inner in self._inner(each, part)]
        return here[0] if here else {}

    def keys(self, place: Place) -> list[str]:
        """The keys that a table of the file may have."""
        return [key for each in self.branches(self.at(self.place(place))) for key in each.get("properties", ())]

    def branches(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """A schema, or those that it is one of."""
        if "$ref" in schema:
            yield from self.branches(self._whole["$defs"][schema["$ref"].rpartition("/")[2]])
        elif "anyOf" in schema:
            for each in schema["anyOf"]:
                yield from self.branches(each)
        else:
            yield schema

    def _inner(self, schema: dict[str, Any], part: str | int) -> Iterator[dict[str, Any]]:
        for each in self.branches(schema):
            if isinstance(part, int):
                yield from each.get("prefixItems", [])[part : part + 1] or filter(None, [each.get("items")])
            elif part in each.get("properties", {}):
                yield each["properties"][part]
            else:
                others = [each.get("additionalProperties"), *each.get("patternProperties", {}).values()]
                yield from (other for other in others if isinstance(other, dict))


_A_DURATION = f"a duration ({HOW_TO_WRITE.removeprefix('write ')})"
_PLAIN = {"boolean": "true or false", "array": "a list", "object": "a table", "string": "text"}


def _allowed(schema: dict[str, Any], whole: _Schema) -> str:
    """What a value may be, in words."""
    branches = [each for each in whole.branches(schema) if each.get("type") != "null"]
    if any(each.get("pattern") == PATTERN for each in branches):
        return _A_DURATION
    return " or ".join(dict.fromkeys(filter(None, map(_allowed_by, branches))))


def _allowed_by(schema: dict[str, Any]) -> str:
    if "const" in schema or "enum" in schema:
        *first, last = map(str, schema.get("enum", [schema.get("const")]))
        return f"{', '.join(first)} or {last}" if first else last
    kind = schema.get("type", "")
    if kind in {"integer", "number"}:
        return f"a {'whole number' if kind == 'integer' else 'number'}{_range(schema, whole=kind == 'integer')}"
    if kind == "string" and "pattern" in schema:
        return f"text that matches {schema['pattern']}"
    if schema.get("minLength") or schema.get("minItems"):
        return f"{_PLAIN.get(kind, kind)} that is not empty"
    return _PLAIN.get(kind, "")


def _range(schema: dict[str, Any], *, whole: bool) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if whole:
        low = low if above is None else max(above + 1, low or above + 1)
        high, above, below = (high if below is None else below - 1), None, None
    if low is not None and high is not None:
        return f" from {low:,} to {high:,}"
    limits = {"above": above, "at least": low, "below": below, "at most": high}
    return ",".join(f" {word} {limit:,}" for word, limit in limits.items() if limit is not None)
