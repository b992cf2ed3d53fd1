"""What can be done to networks here, by trials that this test answers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

import pytest

from harness.clusters import network_support
from harness.clusters.network_support import NETWORK, NO_TOOL, TOOLS, TRIALS, why_no_namespaces, why_not
from harness.clusters.node import Capability, Unavailable


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """A machine that can do everything, and what was tried on it."""
    commands: list[list[str]] = []
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name, path: f"/sbin/{name}")
    monkeypatch.setattr(network_support, "run_command", commands.append)
    network_support.missing.cache_clear()
    yield commands
    network_support.missing.cache_clear()


@pytest.mark.parametrize("capability", sorted(NETWORK))
def test_each_thing_is_tried_once_in_a_namespace_of_its_own(tried: list[list[str]], capability: Capability) -> None:
    """Nothing outside of it is changed, so nothing has to be undone; the answer does not change while we run."""
    assert network_support.missing(capability) is None
    assert network_support.missing(capability) is None
    assert [command[:2] for command in tried] == [["unshare", "--net"]] * 2
    assert [TRIALS[capability].script in command[-1] for command in tried] == [False, True]


@pytest.mark.usefixtures("tried")
@pytest.mark.parametrize(
    ("module", "name", "value", "said", "remedy"),
    [
        (sys, "platform", "darwin", "Linux only", "docker"),
        (os, "geteuid", lambda: 1000, "only be changed by root", "run as root"),
        *(
            (shutil, "which", lambda n, path, t=t: None if n == t else n, f"`{t}` is missing", p)
            for t, p in TOOLS.items()
        ),
    ],
)
def test_what_is_missing_is_named(  # noqa: PLR0917 - one case
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, value: object, said: str, remedy: str
) -> None:
    """Before anything is tried, with a remedy, for every capability."""
    monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(network_support, "run_command", lambda _: pytest.fail("tried"))
    for missing in (why_no_namespaces(), *map(network_support.missing, NETWORK)):
        assert missing
        assert said in missing.what
        assert remedy in missing.remedy


@pytest.mark.usefixtures("tried")
def test_root_without_rights_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container: root, but no namespace may be made."""

    def refuse(_: list[str]) -> None:
        raise OSError("unshare failed: Operation not permitted")

    monkeypatch.setattr(network_support, "run_command", refuse)
    missing = network_support.missing(Capability.PARTITION)
    assert missing
    assert missing.what == "network namespaces cannot be made here (unshare failed: Operation not permitted)"
    assert "CAP_SYS_ADMIN" in missing.remedy


@pytest.mark.parametrize(
    ("capability", "what", "remedy"),
    [
        (Capability.PARTITION, "iptables cannot drop and refuse packets here (no)", "nf_tables"),
        (Capability.LOSS, "iptables cannot drop packets by chance here (no)", "xt_statistic"),
        (Capability.SHAPE, "the kernel cannot limit bandwidth here (no)", "sch_tbf"),
    ],
)
def test_what_the_kernel_lacks_is_told(capability: Capability, what: str, remedy: str) -> None:
    """With what the tool said, and what would do it."""

    def refuse(_: str) -> None:
        raise OSError("no")

    missing = why_not(capability, refuse)
    assert missing
    assert missing.what == what
    assert remedy in missing.remedy


def test_a_missing_tool_is_not_blamed_on_the_kernel() -> None:
    """The remedy is the caller's: here, or in the image."""

    def refuse(_: str) -> None:
        raise OSError(NO_TOOL)

    assert why_not(Capability.SHAPE, refuse) == Unavailable("the command `tc` is missing", "install iproute2")
    assert why_not(Capability.LOSS, refuse, "bake {package}") == Unavailable(
        "the command `iptables` is missing", "bake iptables"
    )


def test_scripts_say_that_their_tool_is_missing() -> None:
    """For real: a shell without it."""
    from harness.foundation.namespaces import run_command

    def run(script: str) -> str:
        return run_command(["/bin/sh", "-c", script], {"PATH": "/nowhere"})

    for capability, trial in TRIALS.items():
        assert why_not(capability, run) == Unavailable(
            f"the command `{trial.tool}` is missing", f"install {trial.package}"
        )
