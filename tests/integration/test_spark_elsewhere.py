"""The same verdict wherever Spark runs: on a standalone cluster with two workers, and behind a Spark Connect server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from harness.checking import Asked, check_again
from harness.elsewhere import RunElsewhere
from harness.spark_place import Place
from harness.store import RESULTS_FILE, Run
from tests.foreign import QUIET, take
from tests.golden_histories import GOLDEN, SUFFIX, expected, summary
from tests.spark_servers import connect_server, standalone_cluster

pytestmark = pytest.mark.usefixtures("spark_of_its_own")
NAMES = ("tears-transactions", "forgets-group-offsets", "watermark-frozen")  # Arrow functions, cycles, groups, taps
Server = Callable[[Path], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Recorded runs in a store."""
    store = tmp_path_factory.mktemp("store")
    return {name: take(GOLDEN / f"{name}{SUFFIX}", store, name=name).run for name in NAMES}


def test_the_verdict_is_the_same_behind_a_server(tmp_path: Path, runs: dict[str, Run]) -> None:
    """Of a run that is named by a path which only Spark reads."""
    name = NAMES[0]
    with connect_server(tmp_path) as url:
        (checked,) = check_again([RunElsewhere(runs[name].path.as_uri())], QUIET, Asked(Place(url)))
    assert summary(checked) == expected()[name]


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("server", [standalone_cluster, connect_server])
def test_the_verdict_is_the_same(tmp_path: Path, runs: dict[str, Run], server: Server) -> None:
    """Of a run in the store, and of runs that are named by a path which only Spark reads."""
    first, *others = NAMES
    named: list[Run | RunElsewhere] = [runs[first], *(RunElsewhere(runs[name].path.as_uri()) for name in others)]
    with server(tmp_path) as url:
        checked = check_again(named, QUIET, Asked(Place(url)))
    found: dict[str, Any] = {name: summary(each) for name, each in zip(NAMES, checked, strict=True)}
    assert found == {name: expected()[name] for name in NAMES}
    assert (runs[first].path / RESULTS_FILE).exists()
    assert not any((runs[name].path / RESULTS_FILE).exists() for name in others)
