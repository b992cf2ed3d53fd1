"""Changes of topics: creates, deletes, recreates and grows them, one at a time, and records each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.foundation.error_codes import code_of
from harness.history.outcomes import outcome
from harness.history.schema import F, Type
from workloads.shifting_topics import LASTING, TopicsSettings
from workloads.topics import CHANGE_TIMEOUT_S, LiveTopic, TopicAdmin

if TYPE_CHECKING:
    from workloads.session import WorkerSession

GONE_WITHIN_S = 10.0
ALL_BACK_WITHIN_S = 60.0
AGAIN_S = 0.2
GROWS_BY_AT_MOST = 3


def change_topics(session: WorkerSession, settings: TopicsSettings) -> None:
    """One change after the other until told to stop; then everything that should be there is brought back."""
    changer = TopicChanger(session, settings)
    while not session.control.wait(settings.change_every):
        changer.change()
    changer.bring_back()
    changer.close()


@dataclass(frozen=True)
class MissingTopic:
    """A topic that should be there, and may not be."""

    id: str | None = None  # of the one that was deleted: it is not the one that should be there
    certain: bool = True  # that it was deleted, if not yet everywhere


class TopicChanger:
    """Knows which topics there should be, with how many partitions."""

    def __init__(self, session: WorkerSession, settings: TopicsSettings) -> None:
        self._session = session
        self._settings = settings
        self._prefix = session.config.prefix
        self._chances = random.Random(session.config.seed)  # noqa: S311 - repeatable on purpose
        self._admin: TopicAdmin | None = None
        self.partitions = {topic.number: topic.partitions for topic in session.config.topics}
        self.missing: dict[int, MissingTopic] = {}
        self.changes = {F.CREATE: 0, F.DELETE: 0, F.GROW: 0}

    def change(self) -> None:
        """One change; a topic that could not be created goes before."""
        if self.missing:
            self._restore(self._live())
        else:
            self._chances.choice(self._possible())()
        self._say()

    def bring_back(self) -> None:
        """Create whatever is not there, until all of it is: a deletion nobody knows of may have come through late."""
        give_up_at = time.monotonic() + ALL_BACK_WITHIN_S
        while not self._session.control.gone and time.monotonic() < give_up_at:
            live = self._live()
            if live is not None:
                gone = [number for number in self.partitions if self._name(number) not in live]
                self.missing = {number: MissingTopic() for number in gone} | self.missing
            self._restore(live)
            self._say()
            if live is not None and not self.missing:
                return
            time.sleep(AGAIN_S)

    def close(self) -> None:
        """Let go of the connection."""
        if self._admin is not None:
            self._admin.close()

    def _possible(self) -> list[Callable[[], None]]:
        settings, possible = self._settings, []
        if len(self.partitions) < settings.topics_at_most:
            possible.append(self._create_another)
        if self.partitions.keys() - {LASTING}:
            possible.append(self._make_anew)
        if any(count < settings.partitions_at_most for count in self.partitions.values()):
            possible.append(self._grow)
        return possible or [lambda: None]

    def _create_another(self) -> None:
        number = max(self.partitions) + 1
        self._session.recorder.topic(number, self._name(number))
        self.partitions[number] = self._settings.partitions
        self.missing[number] = MissingTopic()
        self._create(number)

    def _make_anew(self) -> None:
        number = self._chances.choice(sorted(self.partitions.keys() - {LASTING}))
        name = self._name(number)
        live = self._live() or {}
        if name not in live or not self._delete(number, live[name].id):
            return
        give_up_at = time.monotonic() + GONE_WITHIN_S
        while time.monotonic() < give_up_at and not self._session.control.stopped:
            looked = self._live()
            if looked is not None and name not in looked:
                break
            self._session.control.wait(AGAIN_S)
        self._create(number)

    def _restore(self, live: Mapping[str, LiveTopic] | None) -> None:
        """See to it that what is missing is there again, given what there is, where anybody says."""
        for number, missing in sorted(self.missing.items()):
            found = (live or {}).get(self._name(number))
            if found is None:
                self._create(number)
            elif found.id != missing.id:
                del self.missing[number]
            elif not missing.certain:
                self._delete(number, found.id)

    def _delete(self, number: int, id_: str) -> bool:
        """Delete a topic, the one of this id; whether that may have happened."""
        ended = self._do(F.DELETE, number, lambda admin: admin.delete(self._name(number)))
        if ended != Type.FAIL:
            self.missing[number] = MissingTopic(id_, certain=ended == Type.OK)
        return ended != Type.FAIL

    def _grow(self) -> None:
        most = self._settings.partitions_at_most
        number = self._chances.choice([n for n, count in sorted(self.partitions.items()) if count < most])
        count = min(most, self.partitions[number] + self._chances.randint(1, GROWS_BY_AT_MOST))
        if self._do(F.GROW, number, lambda admin: admin.grow(self._name(number), count), count) != Type.FAIL:
            self.partitions[number] = count

    def _create(self, number: int) -> None:
        """Create a topic that is missing, as it should be; it stays missing unless that is certain."""
        topic = self._settings.numbered(number).model_copy(update={"partitions": self.partitions[number]})
        created = self._do(F.CREATE, number, lambda admin: admin.create_anew(topic, self._prefix), topic.partitions)
        if created == Type.OK:
            del self.missing[number]

    def _do(self, f: F, number: int, ask: Callable[[TopicAdmin], object], count: int | None = None) -> Type:
        """One operation, recorded whatever comes of it."""
        recorder = self._session.recorder
        op = recorder.begin(f, topic=number, count=count)
        self.changes[f] += 1
        try:
            ask(self._connected())
        except Exception as error:  # noqa: BLE001 - whatever the library raises is an answer
            code = code_of(error)
            ended = outcome(f, code)
            recorder.end(op, ended, topic=number, count=count, error=code, detail=str(error))
            return ended
        recorder.end(op, Type.OK, topic=number, count=count, error=0)
        return Type.OK

    def _live(self) -> dict[str, LiveTopic] | None:
        """The topics that there are; None when nobody says."""
        try:
            return self._connected().live_topics(self._prefix)
        except Exception:  # noqa: BLE001 - whatever the library raises, the next look may succeed
            return None

    def _connected(self) -> TopicAdmin:
        if self._admin is None:
            session = self._session
            self._admin = TopicAdmin(session.addresses, session.security, session.client_id, CHANGE_TIMEOUT_S)
        return self._admin

    def _name(self, number: int) -> str:
        return self._settings.numbered(number).full_name(self._prefix)

    def _say(self) -> None:
        created, deleted, grown = self.changes.values()
        self._session.status.detail = f"topics: {created} created, {deleted} deleted, {grown} grown"
        self._session.status.show()
