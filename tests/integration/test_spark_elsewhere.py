"""The same verdict wherever Spark runs: on a standalone cluster with two workers, and behind a Spark Connect server.

They need Spark's own servers: what has to be shipped to them is seen nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from harness.foundation import class_archive
from harness.foundation.class_archive import Archive
from harness.history.remote_runs import RemoteRun
from harness.history.sealed import Sealed
from harness.history.store import RESULTS_FILE, Run
from harness.judging.checking import Checked, CheckOptions, check_again
from harness.spark.place import Place
from tests.support.foreign_histories import QUIET, take
from tests.support.golden_histories import GOLDEN, SUFFIX, expected
from tests.support.spark_servers import connect_server, standalone_cluster

pytestmark = pytest.mark.usefixtures("spark_of_its_own")
NAMES = ("tears-transactions", "forgets-group-offsets", "watermark-frozen")  # cycles, groups, taps
Server = Callable[[Path], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Recorded runs in a store."""
    store = tmp_path_factory.mktemp("store")
    return {name: take(GOLDEN / f"{name}{SUFFIX}", store, name=name).run for name in NAMES}


@pytest.fixture(scope="module")
def whole(runs: dict[str, Run]) -> dict[str, dict[str, Any]]:
    """What one task says of each, on this machine."""
    return {name: everything(check_again([run], QUIET)[0]) for name, run in runs.items()}


@pytest.fixture(autouse=True)
def _no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """No JVM writes down what it has loaded: nobody would use it again."""
    monkeypatch.setattr(class_archive, "record", lambda *_: Archive())


def everything(checked: Checked) -> dict[str, Any]:
    """results.json, but for times and for where the run is."""
    told = json.loads(json.dumps(checked.as_json()))
    return {name: value for name, value in told.items() if name not in {"seconds", "run", "verified"}}


def _drawn_afterwards(checked: Checked, _: Sealed) -> None:
    """What the report draws of a history that many tasks looked at is made when the verdict is there."""
    assert checked.results.drawn is None
    checked.results.draw()
    assert checked.results.drawn, checked.results.undrawn
    assert checked.results.drawn["around"]


def test_many_tasks_say_what_one_task_says(
    runs: dict[str, Run], whole: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of histories that are cut into small stretches."""
    assert whole[NAMES[0]]["verdict"] == expected()[NAMES[0]]["verdict"]
    monkeypatch.setattr("checkers.core.spark.ONE_TASK_EVENTS", 0)
    monkeypatch.setattr("checkers.core.spark.EVENTS_OF_A_BUCKET", 1_000)
    monkeypatch.setattr("checkers.core.spark.STRETCH", 64)
    many = check_again(list(runs.values()), QUIET, after=_drawn_afterwards)
    assert {name: everything(each) for name, each in zip(runs, many, strict=True)} == whole


@pytest.mark.timeout(600)
@pytest.mark.parametrize("server", [standalone_cluster, connect_server])
def test_a_cluster_says_the_same(
    tmp_path: Path, runs: dict[str, Run], whole: dict[str, dict[str, Any]], server: Server
) -> None:
    """Of a run in the store, and of runs that are named by a path which only Spark reads."""
    first, *others = NAMES
    named: list[Run | RemoteRun] = [runs[first], *(RemoteRun(runs[name].path.as_uri()) for name in others)]
    for name in NAMES:
        (runs[name].path / RESULTS_FILE).unlink()
    with server(tmp_path) as url:
        checked = check_again(named, QUIET, CheckOptions(Place(url)))
    assert {name: everything(each) for name, each in zip(NAMES, checked, strict=True)} == whole
    assert (runs[first].path / RESULTS_FILE).exists()
    assert not any((runs[name].path / RESULTS_FILE).exists() for name in others)
    for run in runs.values():  # as they were, for whoever comes next
        (run.path / RESULTS_FILE).touch()
