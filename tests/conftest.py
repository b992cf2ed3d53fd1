"""Fixtures: a state directory of the tests' own, and Docker where a test is marked with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.foundation import optional_work
from tests.support import docker_or_skip
from tests.support.spark_sessions import end_spark_session, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTERS = "tests/integration/"
# in this order: a worker that got one of these last would be waited for
LONGEST = (
    "test_runs.py",
    "test_nothing_left_behind.py",
    "test_pages.py",
    "test_suites.py",
    "test_products.py",
    "test_strange_brokers.py",
    "test_errors.py",
    "test_spark.py",
    "test_clusters.py",
    "test_broken.py",
    "test_scale.py",
    "test_workloads.py",
    "test_nemeses.py",
    "test_killed_in_a_fault.py",
    "test_spark_elsewhere.py",
)


@pytest.fixture(autouse=True, scope="session")
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Clusters of the tests never mix with those of the user; downloads are shared."""
    with pytest.MonkeyPatch.context() as patch:
        if home := os.environ.get("TIDEGAUGE_HOME"):
            patch.setenv("XDG_CACHE_HOME", home)
            patch.delenv("TIDEGAUGE_HOME")
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _time_for_optional_work() -> None:
    """What one test gave up is not given up in the next."""
    optional_work.start_over()


@pytest.fixture(autouse=True, scope="session")
def _spark_ends() -> Iterator[None]:
    """What modules share does not outlive the tests."""
    yield
    end_spark_session()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """The session that all modules share."""
    with spark_session() as session:
        yield session


@pytest.fixture(scope="module")
def spark_of_its_own() -> None:
    """For modules that start sessions themselves: PySpark can have one in a process."""
    end_spark_session()


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory for this test alone, so that it can check that nothing is left in it."""
    home = tmp_path / "state-home"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home


def pytest_configure() -> None:
    """Heed Ctrl-C, also where tests run in the background: whoever ignores it has children that ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with clusters, whose tests wait most of the time, and of those with what takes longest."""
    items.sort(
        key=lambda item: (
            CLUSTERS not in item.nodeid,
            LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST),
        )
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Module by module: the first worker takes those with clusters as long as there are any, the others leave them."""
    from xdist.scheduler import LoadFileScheduling

    class Beside(LoadFileScheduling):  # type: ignore[misc]  # it has no annotations
        def _assign_work_unit(self, node: Any) -> None:
            wants_clusters = node is self.nodes[0]
            for module in self.workqueue:
                if (CLUSTERS in module) == wants_clusters:
                    self.workqueue.move_to_end(module, last=False)
                    break
            super()._assign_work_unit(node)

    return Beside(config, log)


@pytest.fixture(autouse=True)
def _docker_marker(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("docker"):
        docker_or_skip()
