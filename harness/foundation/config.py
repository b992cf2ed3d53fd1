"""TOML in, frozen models out; every mistake is a sentence with its place and, where one is near, the right name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.foundation.errors import UsageError
from harness.foundation.mistakes import Mistake, mistakes_in, refusal, suggestion

__all__ = ["Model", "attempt", "parse", "read_toml", "suggestion"]


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


def attempt(model: type[M], data: Mapping[str, Any]) -> tuple[M | None, list[Mistake]]:
    """`data` as a `model`, or all that is wrong with it."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, mistakes_in(model, error)


def parse(model: type[M], data: Mapping[str, Any], source: str) -> M:
    """`data` as a `model`; `source` is how messages call the place it came from."""
    made, mistakes = attempt(model, data)
    if made is None:
        raise refusal([(source, each) for each in mistakes])
    return made
