"""What a scenario says about the tap."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from harness.foundation.config import Model
from harness.tap.broken import make_broken
from harness.tap.rules import Rules


class TapSpec(Model):
    """On, and bending nothing, unless told otherwise."""

    on: bool = Field(default=True, description="Whether clients reach the brokers through taps.")
    broken: tuple[str, ...] = Field(
        default=(), description="Bugs that the taps play, so that correct brokers misbehave: names of `list broken`."
    )
    rule: Rules = Field(default=(), description="What is done to which requests and responses.")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for text in self.broken:
            make_broken(text, 0)
        if not self.on and (self.broken or self.rule):
            raise ValueError("rules and broken brokers need taps: turn taps on, or remove broken and rule")
        return self
