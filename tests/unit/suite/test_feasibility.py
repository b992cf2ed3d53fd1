"""What is found out before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from harness.clusters.local import LocalCluster
from harness.clusters.node import Capability, Unavailable
from harness.clusters.spec import ClusterSpec
from harness.foundation.errors import CannotHere, UsageError
from harness.suite.command import assumed
from harness.suite.feasibility import planned
from harness.suite.spec import find_suite, load_suite
from tests.support.scripted_suites import STREAM, suite


def same(spec: ClusterSpec) -> ClusterSpec:
    """As it is."""
    return spec


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that can do everything but set clocks."""
    missing = Unavailable("libfaketime is missing", "install it")
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


OTHER = 'name = "other"\n[{part}]\n{what}\n'
JAVA = '[java]\njars = ["com.example:broker:{version}"]\n'


def other_product(directory: Path, *, container: bool = False, java: bool = False) -> str:
    """A target that is not Apache Kafka."""
    file = directory / "other.toml"
    part, what = ("container", 'image = "other:1"') if container else ("process", 'command = ["other"]')
    file.write_text(OTHER.format(part=part, what=what) + (JAVA if java else ""))
    return str(file)


def skipped(directory: Path, text: str, **flags: Any) -> dict[str, str]:
    """What each case is skipped for; nothing for those that are run."""
    return {each.case.name: each.skipped for each in planned(suite(directory, text, **flags).cases, assumed)}


OLD = STREAM.replace('"stream"', '"old"', 1) + 'cluster = { version = "2.8.2" }'


def test_what_a_kind_of_cluster_cannot_do_is_skipped_and_the_rest_is_run(tmp_path: Path) -> None:
    """A product without containers, one without processes, and a setting of another kind."""
    said = skipped(tmp_path, STREAM + OLD, kind="docker")
    assert said == {"stream": "", "old": "the target 'kafka-zookeeper' cannot run in containers: use --cluster local"}
    text = STREAM + STREAM.replace('"stream"', '"other"', 1)
    text += f"cluster = {{ target = '{other_product(tmp_path, container=True)}' }}"
    said = skipped(tmp_path, text, kind="local")
    assert said == {"stream": "", "other": "the target 'other' cannot run as local processes: use --cluster docker"}
    said = skipped(tmp_path, STREAM + "matrix = { 'cluster.netns' = [true, false] }", kind="docker")
    assert [(name, "--netns does not apply" in why) for name, why in said.items()] == [
        ("stream+netns", True),
        ("stream+no-netns", False),
    ]


def test_we_ship_nothing_that_ends_a_suite_in_containers() -> None:
    """Cases about versions that have no image are skipped."""
    found = planned(load_suite(find_suite("track-record"), {"kind": "docker"}).cases, assumed)
    reasons = {each.case.name: each.skipped for each in found}
    assert "cannot run in containers" in reasons["kafka-2334"]
    assert "cannot run in containers" not in reasons["kip-966"]


@pytest.mark.parametrize("java", [False, True])
def test_a_case_about_a_version_is_not_for_another_product(tmp_path: Path, *, java: bool) -> None:
    """Not even if that has versions as well; what the defaults say of versions is not for it, either."""
    target = other_product(tmp_path, java=java)
    text = f'[defaults]\ncluster = {{ version = "4.1" }}\n{STREAM}{OLD}'
    plain, old = suite(tmp_path, text, target=target).cases
    assert (plain.scenario.cluster.target, plain.scenario.cluster.version, plain.cannot) == (target, None, "")
    assert "the case is about version 2.8.2 of 'kafka'" in old.cannot
    assert skipped(tmp_path, text, target=target) == {"stream": "", "old": old.cannot}


def test_a_case_about_a_version_is_for_the_same_product_with_other_settings(tmp_path: Path) -> None:
    """A target that extends one of ours has its versions."""
    file = tmp_path / "mine-too.toml"
    file.write_text('extends = "kafka"\nname = "mine-too"\n')
    text = STREAM + 'cluster = { version = "4.1" }'
    (case,) = suite(tmp_path, text, target=str(file)).cases
    assert (case.scenario.cluster.target, case.scenario.cluster.version, case.cannot) == (str(file), "4.1", "")


def test_a_version_of_kafka_is_not_asked_of_the_product_that_a_case_names(tmp_path: Path) -> None:
    """Flags say what is tested where the scenario does not."""
    text = f"{STREAM}cluster = {{ target = '{other_product(tmp_path, java=True)}' }}"
    (case,) = suite(tmp_path, text, version="4.1").cases
    assert (case.scenario.cluster.version, case.cannot) == (None, "")


@pytest.mark.parametrize(
    "flags",
    [{"version": "new"}, {"target": "none.toml"}, {"bootstrap": ["a:1"]}, {"kind": "moon"}, {"target": "kafak"}],
)
def test_flags_that_make_no_sense_are_a_mistake(tmp_path: Path, flags: dict[str, Any]) -> None:
    """Whatever the cases are; so is a version where another product was asked for."""
    with pytest.raises(UsageError):
        suite(tmp_path, STREAM, **flags)
    with pytest.raises(UsageError, match="--kafka-version does not apply"):
        suite(tmp_path, STREAM, target=other_product(tmp_path), version="4.1")


def test_what_the_suite_itself_says_wrongly_is_an_error(tmp_path: Path) -> None:
    """No flag has to do with it."""
    text = STREAM + 'cluster = { kind = "docker", target = "kafka-zookeeper" }'
    with pytest.raises(UsageError, match="could never be run: the target 'kafka-zookeeper' cannot run in containers"):
        skipped(tmp_path, text)


@pytest.mark.parametrize("nemesis", ["no-such-fault", "leader-kill:producer"])
def test_what_could_never_be_run_is_an_error_of_the_suite(tmp_path: Path, nemesis: str) -> None:
    """With the name of the case."""
    with pytest.raises(UsageError, match=r"scenario stream \(stream\+"):
        planned(suite(tmp_path, STREAM + f"matrix = {{ nemesis = ['{nemesis}'] }}").cases, same)


def test_a_fault_that_does_not_fit_into_the_time_is_an_error_too(tmp_path: Path) -> None:
    """The run would have none."""
    with pytest.raises(UsageError, match="the case stream"):
        planned(suite(tmp_path, STREAM + "time = '3s'\nnemesis = 'leader-kill'").cases, same)
