"""The groups workload: its settings, and what one stay of a member does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness.history.schema import F, Type
from tests.support.group_histories import History
from tests.support.scripted_member import NOT_COORDINATOR, ONE, ZERO, Library, given, lost, records, some, taken
from tests.support.worker_sessions import session, settings_of
from workloads import groups, membership
from workloads.base import CONSUMER, PRODUCER, Role
from workloads.clients import make_member
from workloads.clients.confluent_group import ConfluentMember
from workloads.clients.kafka_python_group import KafkaPythonMember
from workloads.clients.member import GroupListener, Joining
from workloads.groups import Groups, GroupsSettings, Stay


@pytest.mark.parametrize(
    ("given_", "wrong"),
    [
        ({"client": "kafka-python", "group_protocol": "consumer"}, "kafka-python knows the classic protocol only"),
        ({"group_protocol": "consumer", "assignor": "cooperative-sticky"}, "has no assignor cooperative-sticky"),
        ({"assignor": "uniform"}, "group_protocol=classic has no assignor uniform: take range or roundrobin or"),
    ],
)
def test_what_cannot_be_is_refused(given_: dict[str, Any], wrong: str) -> None:
    """Before anything starts."""
    with pytest.raises(ValidationError, match=wrong):
        GroupsSettings(**given_)


def test_who_commits() -> None:
    """By turns, where both are wanted."""
    assert [GroupsSettings().commits_itself(number) for number in range(3)] == [True, False, True]
    assert GroupsSettings(commits="manual").commits_itself(1)
    assert not GroupsSettings(commits="automatic").commits_itself(0)


def test_roles_and_topics() -> None:
    """Members are consumers, so that faults and churn find them."""
    workload, settings = Groups(), GroupsSettings(members=2)
    (stage,) = workload.stages(settings, 0)
    assert stage == [
        Role(CONSUMER, 0, 2, finite=False), Role(CONSUMER, 1, 2, finite=False), Role(PRODUCER, 0, 1, finite=False),
    ]  # fmt: skip
    assert [(topic.name, topic.partitions) for topic in workload.topics(settings)] == [("shared", 6)]


def test_churn_outlasts_the_session() -> None:
    """A pause that the group does not notice would be none."""
    churn = Groups().churn(GroupsSettings(session_timeout_ms=8000, churn_every=5))
    assert churn is not None
    assert (churn.every_s, churn.crash) == (5, True)
    assert churn.pause_s > 8
    assert Groups().churn(GroupsSettings(churn_every=0)) is None


@pytest.mark.parametrize(
    ("client", "kind"), [("confluent-kafka", ConfluentMember), ("kafka-python", KafkaPythonMember)]
)
def test_members_of_both_stacks(tmp_path: Path, client: str, kind: type) -> None:
    """Made without anybody being asked."""
    at = session(tmp_path, "groups", settings={"client": client})
    member = make_member(settings_of(at), at.addresses, at.security, at.client_id, Joining("g", automatic=True))
    assert isinstance(member, kind)
    assert (member.member_id, member.generation) == ("", None)
    member.drop()


class Visit:
    """One stay of a member whose library does as it is told, and is told to stop when it has nothing more to do."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, number: int = 0, **settings: Any) -> None:
        self.library = Library()
        self.joined: list[Joining] = []
        self.session = session(directory, "groups", role=CONSUMER, number=number, of=2, settings=settings)

        def make(*given_: Any) -> Library:
            self.joined.append(given_[-1])
            return self.library

        monkeypatch.setattr(membership, "make_member", make)
        monkeypatch.setattr(groups, "NOTHING_MORE_S", 0)
        monkeypatch.setattr(groups, "BEYOND_THE_SESSION_S", -1000)

    def run(self, *polls: Any, stay_s: float = 0.0) -> list[Any]:
        """Poll after poll, each a list of what happens in it; then the end: what the library was asked."""
        waiting = [list(poll) for poll in polls]

        def poll(max_records: int, timeout_s: float) -> Any:
            if not waiting:
                self.session.control.stop()
            self.library.steps = waiting.pop(0) if waiting else []
            return Library.poll(self.library, max_records, timeout_s)

        self.library.poll = poll  # type: ignore[method-assign]
        Stay(self.session, settings_of(self.session), stay_s).run()
        return self.library.calls

    def ended(self, *kinds: F) -> list[Any]:
        """Completions of these kinds."""
        return History.of_segments([self.session.config.segment]).ended(*kinds)


def test_commits_as_often_as_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is new since the last commit that was not refused."""
    visit = Visit(tmp_path, monkeypatch, commit_every=0, read_back=False)
    calls = visit.run([given(ZERO, ONE), records((0, 4), (1, 6))], [records((0, 5))], [])
    assert calls == [("commit", {ZERO: 5, ONE: 7}), ("commit", {ZERO: 6})]
    assert visit.joined == [Joining("run-groups", automatic=False)]


def test_a_refused_commit_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new operation."""
    visit = Visit(tmp_path, monkeypatch, commit_every=0, read_back=False)
    visit.library.refuses = {ZERO: NOT_COORDINATOR}
    calls = visit.run([given(ZERO, ONE), records((0, 4), (1, 6))], [])
    assert calls == [("commit", {ZERO: 5, ONE: 7}), *[("commit", {ZERO: 5})] * 3]  # the last one as it leaves


def test_commits_what_it_has_to_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not what is lost; and again what it got back."""
    visit = Visit(tmp_path, monkeypatch, commit_every=1000, read_back=False)
    visit.library.at_the_end = taken(ZERO)
    calls = visit.run(
        [given(ZERO, ONE), records((0, 4), (1, 6))], [taken(ZERO)], [lost(ONE)], [given(ZERO), records((0, 4))]
    )
    assert calls == [("commit", {ZERO: 5}), ("commit", {ZERO: 5})]


def test_commits_before_it_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not within the leave, where a library may wait for a coordinator for a long time."""
    visit = Visit(tmp_path, monkeypatch, commit_every=1000, read_back=False)
    made: list[int] = []

    def letting_go(listener: GroupListener) -> None:
        made.append(len(visit.library.calls))
        listener.revoked([ZERO])

    visit.library.at_the_end = letting_go
    assert visit.run([given(ZERO), records((0, 4))]) == [("commit", {ZERO: 5})]
    assert made == [1]


def test_leaves_commits_to_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where these are automatic."""
    visit = Visit(tmp_path, monkeypatch, number=1, commit_every=0, read_back=False)
    assert visit.run([given(ZERO), records((0, 4))], [taken(ZERO)]) == []
    assert visit.joined == [Joining("run-groups", automatic=True)]


def test_asks_after_an_assignment_and_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what came, and later of everything."""
    monkeypatch.setattr(groups, "ASK_EVERY_S", 0)
    visit = Visit(tmp_path, monkeypatch, commit_every=1000)
    visit.run([given(ZERO)], [given(ONE)])
    assert [row["partition"] for row in visit.ended(F.COMMITTED)] == [0, 1, 0, 1]


def test_leaves_when_its_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without having been told to."""
    visit = Visit(tmp_path, monkeypatch)
    visit.run(*([given(ZERO)], *([],) * 10_000), stay_s=0.05)
    assert not visit.session.control.stopped
    assert [some(row, "type", "error") for row in visit.ended(F.LEAVE)] == [(Type.OK, 0)]


def test_goes_on_until_it_is_told_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One membership after the other, each of its own."""
    visit = Visit(tmp_path, monkeypatch, stay=0.02, read_back=False)

    def poll(max_records: int, timeout_s: float) -> Any:
        visit.session.control.wait(timeout_s / 100)
        if len(visit.ended(F.LEAVE)) >= 2:
            visit.session.control.stop()
        return Library.poll(visit.library, max_records, timeout_s)

    visit.library.poll = poll  # type: ignore[method-assign]
    Groups().work(visit.session, settings_of(visit.session))
    assert len(visit.joined) >= 3
    assert len({row["op"] for row in visit.ended(F.SUBSCRIBE)}) == len(visit.joined)


def test_who_cannot_join_goes_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next stay tries again; nothing is polled without a membership."""
    monkeypatch.setattr(groups, "AGAIN_S", 0)
    visit = Visit(tmp_path, monkeypatch)
    visit.library.error = NOT_COORDINATOR
    Stay(visit.session, settings_of(visit.session), 0).run()
    assert [row["type"] for row in visit.ended(F.SUBSCRIBE)] == [Type.INFO]
    assert len(visit.ended(F.LEAVE)) == 1
    assert visit.ended(F.POLL) == []


def test_reads_on_at_the_end_until_nothing_more_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that has nothing waits for what the group gives; then it reads all of it, and leaves."""
    visit = Visit(tmp_path, monkeypatch, read_back=False)
    monkeypatch.setattr(groups, "NOTHING_MORE_S", 0.1)
    monkeypatch.setattr(groups, "BEYOND_THE_SESSION_S", 1000)
    visit.session.control.stop()
    polls: list[list[Any]] = [[], [], [given(ZERO)], [records((0, 4))], [records((0, 5))]]

    def poll(max_records: int, timeout_s: float) -> Any:
        visit.library.steps = list(polls.pop(0)) if polls else []
        return Library.poll(visit.library, max_records, timeout_s)

    visit.library.poll = poll  # type: ignore[method-assign]
    Stay(visit.session, settings_of(visit.session), 0).run()
    assert polls == []
    assert sum(row["count"] for row in visit.ended(F.POLL)) == 2
    assert len(visit.ended(F.LEAVE)) == 1


def test_waits_at_the_end_no_longer_than_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not at all when nobody is there to wait with."""
    for gone, beyond_s in ((False, -6), (True, 1000)):
        visit = Visit(tmp_path / str(gone), monkeypatch)
        monkeypatch.setattr(groups, "BEYOND_THE_SESSION_S", beyond_s)
        visit.session.control.stop()
        visit.session.control.gone = gone
        Stay(visit.session, settings_of(visit.session), 0).run()
        assert len(visit.ended(F.LEAVE)) == 1
