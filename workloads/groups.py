"""Groups: consumers that share a topic by subscribing, while members come and go in every way that there is.

Each member stays for a while, drawn from its seed around `stay`, leaves in order and joins again. Besides, the harness
kills members and makes them stand still until the group has thrown them out (`churn_every`). A member with manual
commits commits what it has read every now and then, before it lets go of a partition and before it leaves; with
automatic ones its library does so. After each assignment, and now and then, a member asks what the group has committed.

When the load is over, members read on until nothing more comes, as far as a session and a little more allow: the group
may just then wait for somebody who is gone.

What is recorded: memberships, who owned which partition from when to when, in which generation as far as the library
tells, every commit and every answer of the group about one. A record may be read again after a rebalance that came
before its commit, and must not be skipped.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from harness.foundation.durations import Duration
from workloads.base import CONSUMER, PRODUCER, Churn, MemberSettings, Role, Settings, TopicSpec, Workload
from workloads.clients.base import TopicPartition

if TYPE_CHECKING:
    from workloads.session import WorkerSession

BEYOND_THE_SESSION_S = 3.0  # a pause is longer than the session by that much, and so is the wait at the end
NOTHING_MORE_S = 1.0  # after that long without a record, there is none
ASK_EVERY_S = 2.0
AGAIN_S = 1.0  # after a library that could not even be set up


class GroupsSettings(MemberSettings):
    """Three members, and one that comes, goes, dies or sleeps every few seconds."""

    producers: PositiveInt = Field(default=1, description="producer processes")
    members: PositiveInt = Field(
        default=3, description="consumer processes, each a member of the group again and again"
    )
    rate: NonNegativeFloat = Field(
        default=300.0, description="messages per second of all producers together; 0 is as fast as possible"
    )
    partitions: PositiveInt = Field(default=6, le=10_000, description=Settings.model_fields["partitions"].description)
    commits: Literal["manual", "automatic", "mixed"] = Field(
        default="mixed", description="who commits: the member, its library, or the one or the other by turns"
    )
    commit_every: Duration = Field(default=0.5, description="how often a member commits that does so itself")
    read_back: bool = Field(
        default=True, description="whether members query committed offsets after each assignment, and now and then"
    )
    stay: Duration = Field(
        default=8.0,
        description="how long a member stays before it leaves and joins again, give or take a half; 0: to the end",
    )
    churn_every: Duration = Field(
        default=15.0,  # until the group has noticed, which takes a session, nobody reads
        description="how often a member is killed, or paused until its session is over; 0: never",
    )

    def commits_itself(self, number: int) -> bool:
        """Whether this member does, and not its library."""
        return self.commits == "manual" or (self.commits == "mixed" and number % 2 == 0)


class Groups(Workload[GroupsSettings]):
    """Producers, and members of one group."""

    name = "groups"
    about = "members of a group that join, leave, crash and fall asleep, with manual and automatic commits"
    model = GroupsSettings

    def topics(self, settings: GroupsSettings) -> list[TopicSpec]:
        """One."""
        return [settings.topic_spec(0, "shared")]

    def stages(self, settings: GroupsSettings, faults: int) -> list[list[Role]]:  # noqa: ARG002 - the same with faults
        """One stage without an end of its own."""
        return [
            [
                Role(name, number, count, finite=False)
                for name, count in ((CONSUMER, settings.members), (PRODUCER, settings.producers))
                for number in range(count)
            ]
        ]

    def in_group(self, settings: GroupsSettings, role: Role) -> bool:  # noqa: ARG002 - however it is set up
        """All consumers are."""
        return role.name == CONSUMER

    def churn(self, settings: GroupsSettings) -> Churn | None:
        """Crashes, and pauses that the group does not wait for."""
        if not settings.churn_every:
            return None
        return Churn(settings.churn_every, pause_s=settings.session_s + BEYOND_THE_SESSION_S)

    def work(self, session: WorkerSession, settings: GroupsSettings) -> None:
        """Produce, or be a member again and again."""
        if session.config.role == PRODUCER:
            from workloads.pacing import feed

            feed(session, settings, settings.rate, session.config.topics[0])
            return
        chances = random.Random(session.config.seed)  # noqa: S311 - chances, not secrets
        while not session.control.stopped:
            Stay(session, settings, settings.stay * chances.uniform(0.5, 1.5)).run()


WORKLOAD = Groups()


class Stay:
    """One membership, from its join to its leave."""

    def __init__(self, session: WorkerSession, settings: GroupsSettings, stay_s: float) -> None:
        from workloads.membership import open_member

        config = session.config
        self._session = session
        self._settings = settings
        self._stay_s = stay_s
        self._numbers = {topic.full_name(config.prefix): topic.number for topic in config.topics}
        self._commits = settings.commits_itself(config.number)
        self._member = open_member(session, settings, f"{config.prefix}-groups", automatic=not self._commits)
        self._member.on_assign = self._given
        self._member.on_revoke = self._taken
        self._committed: dict[TopicPartition, int] = {}
        self._new: list[TopicPartition] = []  # whose committed offsets nobody has asked for
        self._news_at = time.monotonic()  # when something was read or given
        self._stopped_at: float | None = None

    def run(self) -> None:
        """Poll, commit and ask until it is time to go; whoever could not even join goes at once."""
        if not self._member.join(self._numbers):
            self._member.leave()
            self._session.control.wait(AGAIN_S)
            return
        began_at = committed_at = asked_at = time.monotonic()
        while not self._over(began_at):
            polled = self._member.poll()
            now_s = time.monotonic()
            self._news_at = now_s if polled.payloads else self._news_at
            if self._commits and now_s - committed_at >= self._settings.commit_every:
                committed_at = now_s
                self._commit(list(self._member.owned))
            if self._settings.read_back and (self._new or now_s - asked_at >= ASK_EVERY_S):
                asked_at = now_s
                self._ask()
        if self._commits:  # here it is waited for no longer than a member may stand still
            self._commit(list(self._member.owned))
        self._member.leave()

    def _over(self, began_at: float) -> bool:
        now_s, control = time.monotonic(), self._session.control
        if not control.stopped:
            return self._stay_s > 0 and now_s - began_at >= self._stay_s
        self._stopped_at = self._stopped_at or now_s
        waited_s = now_s - self._stopped_at
        nothing_more = bool(self._member.owned) and min(waited_s, now_s - self._news_at) >= NOTHING_MORE_S
        return control.gone or nothing_more or waited_s >= self._settings.session_s + BEYOND_THE_SESSION_S

    def _given(self, partitions: Sequence[TopicPartition]) -> None:
        self._new += partitions
        self._news_at = time.monotonic()
        for tp in partitions:
            self._committed.pop(tp, None)

    def _taken(self, partitions: Sequence[TopicPartition]) -> None:
        """Still in time: commit what was read of them."""
        if self._commits:
            self._commit(partitions)

    def _commit(self, partitions: Sequence[TopicPartition]) -> None:
        """What was read and not yet committed."""
        positions = self._member.positions
        offsets = {
            tp: positions[tp] for tp in partitions if tp in positions and self._committed.get(tp) != positions[tp]
        }
        errors = self._member.commit(offsets)
        self._committed.update({tp: offset for tp, offset in offsets.items() if tp not in errors})

    def _ask(self) -> None:
        """After an assignment of what came with it, otherwise of everything."""
        owned = self._member.owned
        partitions = [tp for tp in self._new if tp in owned] or sorted(owned)
        self._new.clear()
        self._member.committed(partitions)
