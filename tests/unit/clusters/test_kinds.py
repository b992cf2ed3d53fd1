"""The kinds of clusters: found by name in one place, asked for what they can do, and a new one is a module."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from harness.clusters import kinds
from harness.clusters.base import Cluster
from harness.clusters.detached import Detached, log_lines
from harness.clusters.flags import DEFAULT_KIND
from harness.clusters.kinds import KINDS, kind_named, kinds_in
from harness.clusters.kinds.base import OF_A_PRODUCT, ClusterKind, KindSettings
from harness.clusters.node import Capability, Unavailable
from harness.clusters.requirements import Requirement, RequirementMissing
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.commands.main import app
from harness.foundation.errors import UsageError
from harness.foundation.progress import Progress, SilentProgress
from harness.judging.broker_logs import logs_of
from harness.runs.machine import examine, examine_faults
from harness.runs.planning import plan_of
from harness.runs.scenario import load, merged
from harness.suite.feasibility import planned
from harness.suite.spec import load_suite
from tests.support.fake_cluster import CAPABLE, Paper

if TYPE_CHECKING:
    from harness.clusters.image_choice import Consent

SCENARIO = 'workload = "stream"\nnemesis = "kill"\ncluster = { kind = "paper", version = "4.1", netns = false }\n'
MODULE = """
from tests.unit.clusters.test_kinds import OnPaper

KIND = OnPaper()
"""


class OnPaper(ClusterKind):
    """Nodes of which nothing exists; it has its own way in all that kinds differ in."""

    cluster = Paper
    about = "nodes on paper"
    takes = OF_A_PRODUCT | {"image"}
    extra_settings = (KindSettings(("image",), "An image does", "use --cluster paper"),)
    can_be_shared = False
    logs_in_utc = True

    def why_unfit(self, spec: ClusterSpec) -> str:
        """Apache Kafka alone."""
        return "" if spec.target == "kafka" else "that does not fit on paper"

    def prepared(self, spec: ClusterSpec, consent: Consent, progress: Progress) -> ClusterSpec:
        """With paper."""
        return spec.model_copy(update={"image": "white"})

    def make(self, spec: ClusterSpec, progress: Progress) -> Cluster:
        """Able to be killed."""
        return Paper(*CAPABLE)

    def log_lines(self, directory: Path, node_id: int, lines: int) -> list[str]:
        """A line for each."""
        return [f"{directory.name} {node_id} {lines}"]

    def unstarted(self) -> Cluster:
        """The same."""
        return Paper(*(set(Capability) - {Capability.CLOCK}))

    def requirements(self) -> tuple[Requirement, ...]:
        """Paper, which is missing."""
        return (Requirement("paper", "no --cluster paper", _paper),)


def _paper() -> str:
    raise RequirementMissing("no paper is here", "buy some")


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> ClusterKind:
    """A kind that only this test knows."""
    kind = OnPaper()
    monkeypatch.setitem(KINDS, kind.name, kind)
    return kind


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    """A scenario on such a cluster."""
    path = tmp_path / "on-paper.toml"
    path.write_text(SCENARIO)
    return path


def test_the_kinds_that_there_are() -> None:
    """The default comes first; each has its clusters' name, and takes settings that there are."""
    assert list(KINDS) == [DEFAULT_KIND, "docker", "external"]
    settings = set(ClusterSpec.model_fields) - {"kind"}
    assert set().union(*(kind.takes for kind in KINDS.values())) == settings
    for name, kind in KINDS.items():
        assert (kind.name, kind.cluster.kind, kind_named(name)) == (name, name, kind)
        assert kind.about
        assert all(set(brought.settings) <= kind.takes for brought in kind.extra_settings)


def test_what_each_of_them_owns() -> None:
    """Somebody else's cluster is not broken, not lent, and there when the run is over."""
    said = {name: (kind.ours, kind.can_be_shared, kind.cluster.stays) for name, kind in KINDS.items()}
    assert said == {"local": (True, True, False), "docker": (True, True, False), "external": (False, False, True)}


@pytest.mark.parametrize(("name", "remedy"), [("dokcer", "did you mean 'docker'?"), ("cloud", "choose one of them")])
def test_an_unknown_kind_is_refused_with_those_that_there_are(tmp_path: Path, name: str, remedy: str) -> None:
    """Wherever somebody names it: a file, a flag, the description of a cluster."""
    said = f"there is no kind of cluster '{name}', only local, docker, external: {remedy}"
    with pytest.raises(UsageError) as refused:
        kind_named(name)
    assert str(refused.value) == said
    file = tmp_path / "there.toml"
    for text in (f'cluster = "{name}"', f'cluster = {{ kind = "{name}" }}'):
        file.write_text(text)
        with pytest.raises(UsageError) as refused:
            load(file, {})
        assert f"'cluster.kind' is wrong: {said}" in str(refused.value)
    with pytest.raises(UsageError, match="there is no kind of cluster"):
        log_lines(Detached(tmp_path, {"kind": name, "nodes": [{"id": 1}]}), 1, 5)
    for command in (["run"], ["demo"], ["cluster", "up"]):
        ran = CliRunner().invoke(app, [*command, "--cluster", name])
        assert ran.exit_code
        assert said in " ".join(ran.output.replace("│", " ").split())


def test_a_new_kind_is_used_from_a_scenario_file(scenario_file: Path, paper: ClusterKind) -> None:
    """Checked, prepared, made and planned for, by what it says of itself."""
    scenario = load(scenario_file, {})
    spec = scenario.cluster
    assert spec.of is paper
    assert load(None, {"cluster": "paper"}).cluster == ClusterSpec(kind="paper")
    assert ClusterSpec.model_validate_json(spec.model_dump_json()) == spec
    assert spec.with_image(lambda _: False, SilentProgress()).image == "white"
    assert spec.log_patterns == ClusterSpec(version="4.1").log_patterns != {}
    cluster = make_cluster(spec, SilentProgress())
    assert isinstance(cluster, Paper)
    assert {slot.fault for slot in plan_of(scenario, cluster)} == {"kill"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "paper", "netns": True}, "--netns does not apply to --cluster paper: use it with --cluster local"),
        ({"kind": "paper", "tls": True}, "TLS and SASL flags do not apply to --cluster paper: use --cluster external"),
        ({"image": "white"}, "An image does not apply to --cluster local: use --cluster paper"),
    ],
)
@pytest.mark.usefixtures("paper")
def test_a_new_kind_refuses_and_brings_settings(given: dict[str, object], said: str) -> None:
    """Those of others in their words, and others its own in its words."""
    with pytest.raises(UsageError) as refused:
        ClusterSpec.model_validate(given).checked()
    assert str(refused.value) == said


@pytest.mark.usefixtures("paper")
def test_a_new_kind_takes_what_it_can_be_told() -> None:
    """Of a layer that was written for another one."""
    below = {"cluster": {"version": "4.1", "netns": True, "image": "white"}}
    assert merged(below, {"cluster": {"kind": "paper"}})["cluster"] == {
        "kind": "paper",
        "version": "4.1",
        "image": "white",
    }


def test_a_new_kind_in_a_suite(tmp_path: Path, paper: ClusterKind) -> None:
    """A case on it is planned like any other, and one that does not fit is skipped with its words."""
    file = tmp_path / "mine.toml"
    file.write_text(f'[[scenario]]\nname = "on-paper"\n{SCENARIO}')
    (case,) = planned(load_suite(file, {}).cases, paper.assumed)
    assert (case.skipped, case.cluster.kind, Capability.KILL in case.needs) == ("", "paper", True)
    (case,) = planned(load_suite(file, {"target": "kafka-zookeeper"}).cases, lambda spec: spec)
    assert "does not fit on paper" in case.skipped


@pytest.mark.usefixtures("paper")
def test_the_logs_of_a_new_kind(tmp_path: Path) -> None:
    """Where it says, in the time that it says."""
    assert log_lines(Detached(tmp_path, {"kind": "paper", "nodes": [{"id": 2}]}), 2, 9) == [f"{tmp_path.name} 2 9"]
    (tmp_path / "logs" / "1").mkdir(parents=True)
    (tmp_path / "logs" / "1" / "broker.log").touch()
    facts = {"log_patterns": {"leader": "x"}, "anchor": {"monotonic_ns": 1, "wall_ns": 1},
             "started_at": "2026-01-01T00:00:00+0200"}  # fmt: skip
    offsets = {}
    for kind in ("paper", "docker", "local", "of-a-plugin-that-is-gone"):
        logs = logs_of(tmp_path, {**facts, "cluster": {"kind": kind}})
        assert logs is not None
        offsets[kind] = logs.utc_offset_s
    assert offsets == {"paper": 0, "docker": 0, "local": 7200, "of-a-plugin-that-is-gone": 7200}


@pytest.mark.usefixtures("paper")
def test_the_doctor_looks_for_what_a_new_kind_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says what faults it cannot have."""
    for name in set(KINDS) - {"paper"}:
        monkeypatch.setattr(type(KINDS[name]), "requirements", lambda _: ())
        monkeypatch.setattr(type(KINDS[name]), "unstarted", lambda _: None)
    (look,) = (check for check in examine() if check.name == "paper")
    assert (look.ok, look.found, look.costs, look.remedy) == (
        False,
        "no paper is here",
        "no --cluster paper",
        "buy some",
    )
    monkeypatch.setattr(
        Paper, "cannot", lambda self, each: None if each in self.able else Unavailable("no clocks", "none")
    )
    (faults,) = examine_faults()
    assert (faults.name, faults.found) == ("faults on paper", "no clocks")


def test_a_module_is_all_that_a_new_kind_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found beside the others, which keep their order."""
    (tmp_path / "on_paper.py").write_text(MODULE)
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(tmp_path)])
    monkeypatch.setitem(sys.modules, f"{kinds.__name__}.on_paper", None)  # as it was, afterwards
    del sys.modules[f"{kinds.__name__}.on_paper"]
    found = kinds_in(kinds.__path__)
    assert list(found) == [DEFAULT_KIND, "docker", "external", "paper"]
    assert {name: found[name] for name in KINDS} == KINDS
