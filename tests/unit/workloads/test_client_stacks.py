"""Client stacks: one that is registered takes part everywhere, and one that is not is refused by name."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.experiments.investigate.experiments import EXPERIMENTS
from harness.foundation import known_addresses
from harness.foundation.config import parse
from harness.foundation.errors import UsageError
from harness.foundation.security import Security
from harness.history.schema import F, Kind, Type
from harness.judging.policies.case import RunFacts
from harness.runs import provenance
from harness.runs.scenario import json_schema, load
from tests.support.client_in_memory import InMemory
from tests.support.worker_sessions import NOBODY, rows, worker_config
from workloads import WORKLOADS
from workloads.base import CONSUMER, FINAL, PRODUCER, FinalTarget
from workloads.clients import make_consumer, make_producer
from workloads.clients.settings import ClientSettings
from workloads.clients.stack import ClientStack
from workloads.clients.stacks import STACKS, find_stack, quirks_of
from workloads.groups import GroupsSettings
from workloads.large_batch import LargeBatchSettings
from workloads.session import Control, WorkerStatus
from workloads.transactions import TransactionsSettings
from workloads.worker import work

MESSAGES = 50
KNOWN = "known here: kafka-python, confluent-kafka, java"


@pytest.fixture
def in_memory(monkeypatch: pytest.MonkeyPatch) -> InMemory:
    """One stack more, without touching the product."""
    stack = InMemory()
    monkeypatch.setitem(STACKS, stack.name, stack)
    return stack


def worked(directory: Path, role: str, process: int, **more: Any) -> Any:
    """What a worker with this client recorded, from its start to its end."""
    settings, segment = {"client": "in-memory", "messages": MESSAGES}, directory / f"{process}.segment"
    config = worker_config(directory, role=role, process=process, settings=settings, segment=segment, **more)
    control = Control()
    control.acked = MESSAGES
    work(config, control, WorkerStatus())
    manifest, found = rows(segment)
    assert manifest.about["client"] == "in-memory"
    return found


def test_workers_go_through_a_stack_that_was_registered(tmp_path: Path, in_memory: InMemory) -> None:
    """A producer, a consumer and the final read, as their processes do it."""
    sent = worked(tmp_path, PRODUCER, 2)[Kind.COMPLETE]
    assert Counter(sent["f"].tolist()) == {F.SEND: MESSAGES}
    assert set(sent["type"].tolist()) == {Type.OK}
    assert sum(map(len, in_memory.log.values())) == MESSAGES
    read = worked(tmp_path, CONSUMER, 3)[Kind.RECORD]
    targets = [
        FinalTarget(topic=0, name=name, partition=partition, last_acked=len(records) - 1)
        for (name, partition), records in in_memory.log.items()
    ]
    finally_read = worked(tmp_path, FINAL, 4, targets=targets)[Kind.RECORD]
    for records in (read, finally_read):
        assert np.array_equal(np.sort(records["value"]), np.sort(sent["value"]))
        assert np.array_equal(np.sort(records["offset"]), np.sort(sent["offset"]))


@pytest.mark.parametrize(("tapped", "kept"), [(False, 1), (True, 0)])
@pytest.mark.usefixtures("in_memory")
def test_a_worker_is_kept_to_its_nodes_unless_they_are_taps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, tapped: bool, kept: int
) -> None:
    """Taps listen at other addresses too, for nodes that show up later, and refuse strangers themselves."""
    monkeypatch.setattr(known_addresses, "_kept_to", set())
    worked(tmp_path, PRODUCER, 2, tapped=tapped)
    assert len(known_addresses._kept_to) == kept


def test_everything_that_takes_a_client_takes_it(in_memory: InMemory) -> None:
    """Scenarios, schema, experiments, versions, and what the verdict knows of it."""
    assert load(None, {"workload": "stream"}, ["client=in-memory"]).settings.client == in_memory.name
    forms = [form for form in json_schema()["properties"]["workload"]["anyOf"] if "properties" in form]
    assert len(forms) == len(WORKLOADS)
    for form in forms:
        assert form["properties"]["client"]["enum"] == ["kafka-python", "confluent-kafka", "java", "in-memory"]
    (experiment,) = (each for each in EXPERIMENTS if each.name == "client")
    assert experiment.change(LargeBatchSettings(client="in-memory")) == {"client": "kafka-python"}
    assert RunFacts(client="in-memory").quirks.assumes_acks
    assert {"kafka-python", "confluent-kafka", "librdkafka"} <= provenance.versions().keys()


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        (
            ClientSettings,
            {"compression": "gzip"},
            "in-memory cannot compress with gzip here: .*client=kafka-python or con",
        ),
        (
            ClientSettings,
            {"consume_by": "subscribe"},
            "take consume_by=assign, or client=kafka-python or confluent-kafka",
        ),
        (GroupsSettings, {}, "in-memory has no members of groups: take client=kafka-python or confluent-kafka"),
        (TransactionsSettings, {}, "in-memory has no transactional producers: take client=kafka-python or confluent-"),
    ],
)
@pytest.mark.usefixtures("in_memory")
def test_what_a_stack_cannot_do_is_refused_before_anything_starts(
    model: type[ClientSettings], given: dict[str, Any], said: str
) -> None:
    """With the clients that can."""
    with pytest.raises(UsageError, match=said):
        parse(model, {"client": "in-memory", **given}, "here")


@pytest.mark.parametrize(("name", "near"), [("kafka-pyton", "did you mean 'kafka-python'?"), ("sarama", "")])
@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_a_client_that_nobody_knows_is_refused_with_those_that_there_are(workload: str, name: str, near: str) -> None:
    """Instead of falling through to one of them."""
    with pytest.raises(UsageError) as refused:
        load(None, {"workload": workload}, [f"client={name}"])
    assert f"there is no client '{name}'" in str(refused.value)
    assert KNOWN in str(refused.value)
    assert near in str(refused.value)


def test_what_is_not_a_name_is_no_client() -> None:
    """A number, for instance."""
    with pytest.raises(UsageError, match="client"):
        parse(ClientSettings, {"client": 5}, "here")


def test_nothing_is_known_of_clients_of_others() -> None:
    """Imported histories name whatever they like: nothing is excused by that."""
    assert not any(vars(quirks_of("sarama")).values())
    with pytest.raises(ValueError, match="there is no client 'sarama'"):
        find_stack("sarama")


@pytest.mark.parametrize("stack", STACKS.values(), ids=lambda stack: stack.name)
def test_stacks_say_what_takes_part(stack: ClientStack) -> None:
    """And are found under their own name."""
    assert STACKS[stack.name] is stack
    assert set(stack.versions()) >= set(stack.packages)
    assert "missing" not in stack.versions().values()


@pytest.mark.parametrize(
    ("client", "not_loaded"), [("kafka-python", "confluent_kafka"), ("confluent-kafka", "kafka.producer")]
)
def test_a_library_that_is_not_used_is_not_loaded(client: str, not_loaded: str) -> None:
    """In a process of its own, since this one has loaded all of them."""
    program = f"""
import sys
from workloads import find_workload
from workloads.clients import make_consumer, make_member
from harness.foundation.security import Security
settings = find_workload("groups").model(client={client!r})
assert not {{"kafka", "confluent_kafka"}} & set(sys.modules)
make_consumer(settings, ["127.0.0.1:1"], Security(), "test")
assert {not_loaded!r} not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_settings_make_clients_of_the_stack_that_they_name(in_memory: InMemory) -> None:
    """The same object for the same log."""
    settings = ClientSettings(client="in-memory")
    assert settings.stack is in_memory
    assert not settings.idempotent
    assert type(make_producer(settings, [NOBODY], Security(), "test")).__name__ == "LogProducer"
    assert type(make_consumer(settings, [NOBODY], Security(), "test")).__name__ == "LogConsumer"
    assert replace(in_memory.quirks, assumes_acks=False) == quirks_of("nobody")
