"""TOML in, frozen models out; every mistake is a sentence with its place and, where one is near, the right name."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.foundation.errors import UsageError


class Model(BaseModel):
    """A part of a configuration file: nothing unknown gets in, nothing changes later."""

    model_config = ConfigDict(frozen=True, extra="forbid")


M = TypeVar("M", bound=Model)


def read_toml(path: Path) -> dict[str, Any]:
    """The file as plain data."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}", "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read ({error})", "check that it is a readable UTF-8 file") from error
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply", "no configuration needs that") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML ({error})", "fix that line") from error


def parse(model: type[M], data: Mapping[str, Any], source: str) -> M:
    """`data` as a `model`; `source` is how messages call the place it came from."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise UsageError(*_explain(model, error, source)) from None


def suggestion(name: str, known: list[str]) -> str:
    """'did you mean X?' when something near is known, else what is known."""
    if near := difflib.get_close_matches(name, known):
        return f"did you mean '{max(near, key=lambda each: _likeness(name, each))}'?"
    return f"known here: {', '.join(sorted(known))}" if known else "remove it"


def _likeness(one: str, other: str) -> tuple[float, int]:
    """Of names that have as much in common, the one with more letters in the same places comes first."""
    return difflib.SequenceMatcher(None, other, one).ratio(), sum(a == b for a, b in zip(one, other, strict=False))


def _explain(model: type[Model], error: ValidationError, source: str) -> tuple[str, str]:
    """The first mistake as message and remedy; a misspelled key explains the missing one that follows from it."""
    problems = sorted(error.errors(include_url=False), key=lambda p: p["type"] != "extra_forbidden")
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = _keys_at(model, first["loc"][:-1])
        return f"{source}: unknown key '{place}'", suggestion(str(first["loc"][-1]), known)
    if first["type"] == "missing":
        return f"{source}: the key '{place}' is missing", "add it"
    said = first["msg"].removeprefix("Value error, ")
    return f"{source}: '{place}' is wrong ({said})" if place else f"{source}: {said}", "correct the value"


def _keys_at(model: type[Model], place: tuple[int | str, ...]) -> list[str]:
    """The keys a table of the file may have."""
    for part in (part for part in place if isinstance(part, str)):
        field = model.model_fields.get(part)
        if field is None:
            return []
        inner = next(_models_in(field.annotation), None)
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


def _models_in(annotation: Any) -> Iterator[type[Model]]:
    """The models in a type: itself, one of a union, the items of a tuple."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
