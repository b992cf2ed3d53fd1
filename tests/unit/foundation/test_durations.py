"""Durations as people write them."""

from __future__ import annotations

import pytest

from harness.foundation.config import Model, parse
from harness.foundation.durations import Duration, seconds
from harness.foundation.errors import UsageError


class Wait(Model):
    """One duration."""

    long: Duration


@pytest.mark.parametrize(
    ("written", "meant_s"),
    [("20s", 20), ("500ms", 0.5), ("2m", 120), ("1h", 3600), ("1.5 m", 90), (" 7 ", 7), (3, 3), (0.25, 0.25), (0, 0)],
)
def test_what_people_write(written: object, meant_s: float) -> None:
    """With a unit, with a fraction, with spaces, or as a number of seconds."""
    assert seconds(written) == meant_s


@pytest.mark.parametrize("written", ["", "s", "-1s", "1 day", "1e3", "٣s", "5s5", "inf", True, None, [1]])
def test_what_is_no_duration(written: object) -> None:
    """Is refused with how to write one."""
    with pytest.raises(ValueError, match="is not a valid duration: write 500ms"):
        seconds(written)


@pytest.mark.parametrize("written", [-1, float("nan"), float("inf"), "169h", "9" * 400])
def test_what_nobody_waits_for(written: object) -> None:
    """Less than nothing, and more than a week."""
    with pytest.raises(ValueError, match="use 0 s to 7 days"):
        seconds(written)


def test_in_a_file() -> None:
    """A wrong one is a sentence with its place."""
    assert parse(Wait, {"long": "2m"}, "x.toml").long == 120
    with pytest.raises(UsageError, match=r"x\.toml: 'long' is wrong: 'soon' is not a valid duration"):
        parse(Wait, {"long": "soon"}, "x.toml")


def test_in_a_schema() -> None:
    """A number or a text, both described."""
    schema = Wait.model_json_schema()["properties"]["long"]
    assert [kind["type"] for kind in schema["anyOf"]] == ["number", "string"]
    assert "500ms" in schema["description"]
