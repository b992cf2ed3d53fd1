"""Whoever creates topics: what "already exists" means, and what is left of one that finds nobody."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kafka.errors import KafkaError, TopicAlreadyExistsError

from harness.foundation.security import Security
from tests.support import eventually
from tests.support.worker_sessions import NOBODY, PREFIX, silent_broker
from workloads import topics
from workloads.base import Settings
from workloads.topics import TopicAdmin

SPEC = Settings().topic_spec(0, "t")


class Admin:
    """A cluster that has every topic already."""

    def __init__(self, **_: Any) -> None:
        self.asked: list[str] = []

    def create_topics(self, wanted: dict[str, Any]) -> None:
        """There is one."""
        self.asked += wanted
        raise TopicAlreadyExistsError


def test_a_topic_that_is_there_already_is_as_good_unless_it_shall_be_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever deleted it has to know."""
    monkeypatch.setattr(topics, "Admin", Admin)
    admin = TopicAdmin([NOBODY], Security(), "test")
    admin.create(SPEC, PREFIX)
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_anew(SPEC, PREFIX)


def test_nothing_is_left_of_one_that_finds_nobody() -> None:
    """It is tried again every second, for as long as a fault lasts."""
    before = set(threading.enumerate())
    with silent_broker() as address:
        for _ in range(2):
            with pytest.raises(KafkaError):
                TopicAdmin([address], Security(), "test", 0.1)
    eventually(lambda: set(threading.enumerate()) <= before, "the threads of the library are gone")
