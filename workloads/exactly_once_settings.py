"""What the exactly-once workload can be told."""

from __future__ import annotations

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from harness.foundation.durations import Duration
from workloads.base import (
    MemberSettings,
    Settings,
    TransactingSettings,
)
from workloads.groups import BEYOND_THE_SESSION_S

INPUT, OUTPUT = 0, 1  # numbers of the topics


class ExactlyOnceSettings(TransactingSettings, MemberSettings):
    """Two transformers and two hundred records a second unless told otherwise."""

    partitions: PositiveInt = Field(default=6, le=10_000, description=Settings.model_fields["partitions"].description)
    producers: PositiveInt = Field(default=1, description="processes that feed the input")
    transformers: PositiveInt = Field(default=2, description="processes that make outputs from inputs, in one group")
    consumers: PositiveInt = Field(default=1, description="processes that read the output")
    rate: NonNegativeFloat = Field(
        default=200.0, description="inputs per second of all producers together; 0 is as fast as possible"
    )
    batch: PositiveInt = Field(default=100, description="a transaction that has read that many records is ended")
    max_poll_records: PositiveInt = Field(
        default=100, description=Settings.model_fields["max_poll_records"].description
    )
    linger: Duration = Field(default=0.1, description="a transaction is ended that long after its first record")
    abort: float = Field(default=0.05, ge=0, le=1, description="share of transactions that are aborted on purpose")
    restart_every: Duration = Field(
        default=10.0,
        description="how often a transformer loses its producer, its consumer or both in mid-transaction; 0 is never",
    )
    churn_every: Duration = Field(
        default=15.0, description="how often a transformer or a reader is killed or stands still; 0 is never"
    )
    pause: Duration | None = Field(
        default=None,
        description="how long one that stands still does so: longer than its session, by 3 s unless set; 0 is never",
    )
    drain: Duration = Field(
        default=20.0,
        description="how long transformers may go on after the load until all that was fed is through: longer than"
        " the session of a member that is gone",
    )

    @property
    def pause_s(self) -> float:
        """How long one that stands still does so."""
        return self.session_s + BEYOND_THE_SESSION_S if self.pause is None else self.pause

    @model_validator(mode="after")
    def _past_the_session(self) -> ExactlyOnceSettings:
        """Refuse pauses that no group notices."""
        if 0 < self.pause_s <= self.session_s:
            raise ValueError(
                f"pause={self.pause_s:g} is not longer than the session of {self.session_s:g} s:"
                " make it longer, 0 for never, or leave it out"
            )
        return self
