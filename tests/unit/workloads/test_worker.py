"""What the manifest says of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.worker_sessions import worker_config
from workloads import find_workload
from workloads.base import CONSUMER, FINAL, PRODUCER, Role
from workloads.exactly_once import FEED, READ, TRANSFORM
from workloads.worker import about_of

SUBSCRIBES = {"consume_by": "subscribe"}


@pytest.mark.parametrize(
    ("workload", "role", "settings", "group"),
    [
        ("groups", Role(CONSUMER), {}, True),
        ("groups", Role(PRODUCER), {}, None),
        ("groups", Role(FINAL), {}, None),
        ("exactly-once", Role(CONSUMER, task=TRANSFORM), {}, True),
        ("exactly-once", Role(CONSUMER, task=READ), {}, None),
        ("exactly-once", Role(PRODUCER, task=FEED), {}, None),
        ("stream", Role(CONSUMER), SUBSCRIBES, True),
        ("stream", Role(CONSUMER), {}, None),
        ("stream", Role(PRODUCER), SUBSCRIBES, None),
        ("stream", Role(FINAL), SUBSCRIBES, None),
    ],
)
def test_members_of_groups_are_known_as_such(
    tmp_path: Path, workload: str, role: Role, settings: dict[str, str], group: object
) -> None:
    """Those alone: what a member skips says nothing about the log."""
    config = worker_config(tmp_path, workload, role=role.name, task=role.task, settings=settings)
    model = find_workload(workload)
    about = about_of(config, model, model.model(**config.settings))
    assert (about["role"], about.get("task", ""), about.get("group")) == (role.name, role.task, group)
