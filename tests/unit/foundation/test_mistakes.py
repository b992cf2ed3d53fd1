"""Mistakes in configuration: all of them at once, and what is allowed instead of a validator's words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, PositiveInt, SecretStr, model_validator

from harness.foundation.config import Model, parse
from harness.foundation.durations import Duration
from harness.foundation.errors import UsageError
from harness.foundation.mistakes import Mistake, refusal


class Inner(Model):
    """A table."""

    low: int = Field(default=1, ge=1, le=10_000)
    mode: Literal["first", "all"] | tuple[str, ...] = "all"


class Everything(Model):
    """One key of each kind."""

    count: PositiveInt = 1
    share: Annotated[float, Field(ge=0, lt=1)] = 0.5
    colour: Literal["red", "green", "blue"] = "red"
    on: bool = False
    some: PositiveInt | None = None
    wait: Duration = Field(default=1.0, gt=0)
    word: str = Field(default="a", pattern="^[a-z]+$")
    words: tuple[str, ...] = Field(default=("a",), min_length=1)
    secret: SecretStr = SecretStr("")
    inner: Inner = Inner()
    several: tuple[Inner, ...] = ()
    numbers: dict[str, Annotated[int, Field(le=5)]] = {}

    @model_validator(mode="after")
    def _red_is_off(self) -> Everything:
        if self.on and self.colour == "red":
            raise ValueError("what is on cannot be red: choose green")
        return self


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"count": 0}, "'count' cannot be 0: use a whole number at least 1"),
        ({"count": 2.5}, "'count' cannot be 2.5: use a whole number at least 1"),
        ({"count": "many"}, "'count' cannot be 'many': use a whole number at least 1"),
        ({"some": -1}, "'some' cannot be -1: use a whole number at least 1"),
        ({"share": 1}, "'share' cannot be 1: use a number at least 0, below 1"),
        ({"share": float("nan")}, "'share' cannot be nan: use a number at least 0, below 1"),
        ({"colour": "gold"}, "'colour' cannot be 'gold': use red, green or blue"),
        ({"on": "maybe"}, "'on' cannot be 'maybe': use true or false"),
        (
            {"wait": "soon"},
            "'wait' is wrong: 'soon' is not a valid duration: write 500ms, 20s, 2m, 1h or a number of seconds",
        ),
        ({"wait": 0}, "'wait' cannot be 0.0: use a duration above 0 s"),
        ({"word": "A"}, "'word' cannot be 'A': use text that matches ^[a-z]+$"),
        ({"words": []}, "'words' cannot be []: use a list that is not empty"),
        ({"secret": 5}, "'secret' is wrong: use text"),
        ({"inner": 5}, "'inner' cannot be 5: use a table"),
        ({"inner": {"low": 0}}, "'inner.low' cannot be 0: use a whole number from 1 to 10,000"),
        ({"inner": {"mode": 7}}, "'inner.mode' cannot be 7: use first or all or a list"),
        ({"several": [{}, {"low": -1}]}, "'several.1.low' cannot be -1: use a whole number from 1 to 10,000"),
        ({"numbers": {"a": 6}}, "'numbers.a' cannot be 6: use a whole number at most 5"),
        ({"on": True}, "what is on cannot be red: choose green"),
        ({"word": "A" * 100}, f"'word' cannot be '{'A' * 58}…: use text that matches ^[a-z]+$"),
    ],
)
def test_a_mistake_says_what_is_allowed(data: dict[str, Any], said: str) -> None:
    """In words, with the range."""
    with pytest.raises(UsageError) as caught:
        parse(Everything, data, "x.toml")
    assert str(caught.value) == f"x.toml: {said}"


def test_all_mistakes_of_a_file_are_reported_at_once() -> None:
    """A line each, in the order of the model; a value of several kinds is one mistake."""
    with pytest.raises(UsageError) as caught:
        parse(Everything, {"count": 0, "inner": {"mode": 7, "lo": 3}, "colour": "gold"}, "x.toml")
    assert str(caught.value).splitlines() == [
        "x.toml has 4 mistakes: ",
        "  'count' cannot be 0: use a whole number at least 1",
        "  'colour' cannot be 'gold': use red, green or blue",
        "  'inner.mode' cannot be 7: use first or all or a list",
        "  unknown key 'inner.lo': did you mean 'low'?",
    ]


def test_mistakes_of_several_sources_name_each() -> None:
    """What has no source stands for itself, and the same mistake is listed once."""
    one, other = Mistake(("a",), "'a' cannot be 1", "use 2"), Mistake((), "b is wrong", "fix it")
    refused = refusal([("x.toml", one), ("", other), ("x.toml", one)])
    assert str(refused).splitlines() == [
        "there are 2 mistakes: ",
        "  x.toml: 'a' cannot be 1: use 2",
        "  b is wrong: fix it",
    ]
