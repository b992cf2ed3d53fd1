"""What is found out before anything starts."""

from pathlib import Path

import pytest

from harness.clusters.base import Capability, Missing
from harness.clusters.local import LocalCluster
from harness.clusters.spec import ClusterSpec
from harness.errors import CannotHere, UsageError
from harness.suite.feasible import planned
from tests.suites import STREAM, suite


def same(spec: ClusterSpec) -> ClusterSpec:
    """As it is."""
    return spec


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that can do everything but set clocks."""
    missing = Missing("libfaketime is missing", "install it")
    monkeypatch.setattr(LocalCluster, "cannot", lambda _, what: missing if what is Capability.CLOCK else None)


def test_cases_on_one_cluster_come_together_and_those_that_spoil_it_last(tmp_path: Path) -> None:
    """Otherwise the order of the file is kept."""
    text = STREAM + "matrix = { nemesis = ['none', 'disk-wipe', 'isolate'], version = ['4.3.1', '3.9.2'] }"
    found = planned(suite(tmp_path, text).cases, same)
    assert [each.case.name for each in found] == [
        "stream+none+4.3.1",
        "stream+isolate+4.3.1",
        "stream+disk-wipe+4.3.1",
        "stream+none+3.9.2",
        "stream+isolate+3.9.2",
        "stream+disk-wipe+3.9.2",
    ]
    assert [each.spoils for each in found[:3]] == [False, False, True]
    assert Capability.PARTITION in found[1].needs


def test_what_is_not_possible_here_is_skipped_with_the_reason(tmp_path: Path) -> None:
    """And nothing is left out."""
    calm, skewed = planned(suite(tmp_path, STREAM + "matrix = { nemesis = ['none', 'clock-skew'] }").cases, same)
    assert not calm.skipped
    assert "libfaketime is missing" in skewed.skipped


def test_an_image_that_cannot_be_had_skips_what_needs_it(tmp_path: Path) -> None:
    """Whatever else the suite has is run."""

    def prepare(spec: ClusterSpec) -> ClusterSpec:
        if spec.version:
            raise CannotHere("there is no such image", "build it")
        return spec

    text = STREAM + STREAM.replace('"stream"', '"old"', 1) + 'cluster = { version = "3.9.2" }'
    assert [bool(each.skipped) for each in planned(suite(tmp_path, text).cases, prepare)] == [False, True]


@pytest.mark.parametrize("nemesis", ["no-such-fault", "leader-kill:producer"])
def test_what_could_never_be_run_is_an_error_of_the_suite(tmp_path: Path, nemesis: str) -> None:
    """With the name of the case."""
    with pytest.raises(UsageError, match="the case stream\\+"):
        planned(suite(tmp_path, STREAM + f"matrix = {{ nemesis = ['{nemesis}'] }}").cases, same)


def test_a_fault_that_does_not_fit_into_the_time_is_an_error_too(tmp_path: Path) -> None:
    """The run would have none."""
    with pytest.raises(UsageError, match="the case stream"):
        planned(suite(tmp_path, STREAM + "time = '3s'\nnemesis = 'leader-kill'").cases, same)
