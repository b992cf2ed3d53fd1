"""Where things are kept."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from harness.foundation.errors import CannotHere, Exit
from harness.foundation.paths import cache_dir, cluster_dirs, clusters_dir, state_dir


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home directory, and no variable that leads elsewhere."""
    for name in ("TIDEGAUGE_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_without_variables_the_home_is_used(home: Path) -> None:
    """At the places that XDG names."""
    assert cache_dir() == home / ".cache" / "tidegauge"
    assert state_dir() == home / ".local" / "state" / "tidegauge"
    assert clusters_dir() == state_dir() / "clusters"
    assert list(cluster_dirs()) == []


def test_xdg_directories_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each for its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/c")
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere/s")
    assert cache_dir() == Path("/somewhere/c/tidegauge")
    assert state_dir() == Path("/somewhere/s/tidegauge")


@pytest.mark.parametrize("relative", ["", ".", "here", "./here", "../up", "~/here"])
def test_relative_xdg_directories_are_ignored(monkeypatch: pytest.MonkeyPatch, home: Path, relative: str) -> None:
    """As the specification has it: else what is made depends on where one stands."""
    monkeypatch.setenv("XDG_CACHE_HOME", relative)
    monkeypatch.setenv("XDG_STATE_HOME", relative)
    assert cache_dir() == home / ".cache" / "tidegauge"
    assert state_dir() == home / ".local" / "state" / "tidegauge"


@pytest.mark.parametrize(("given", "place"), [("/x", "/x"), ("~/x", "{home}/x"), ("x/y", "{cwd}/x/y"), (".", "{cwd}")])
def test_our_own_variable_wins(monkeypatch: pytest.MonkeyPatch, home: Path, given: str, place: str) -> None:
    """It moves both, and may be relative."""
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    monkeypatch.setenv("TIDEGAUGE_HOME", given)
    expected = Path(place.format(home=home, cwd=Path.cwd()))
    assert (cache_dir(), state_dir()) == (expected / "cache", expected / "state")


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """As if it were not set."""
    monkeypatch.setenv("TIDEGAUGE_HOME", "")
    assert cache_dir() == home / ".cache" / "tidegauge"


@pytest.mark.parametrize("look", [cache_dir, state_dir, clusters_dir, lambda: list(cluster_dirs())])
def test_no_home_is_told(monkeypatch: pytest.MonkeyPatch, look: object) -> None:
    """A user without home, as in many containers: said in a sentence that names the variables."""

    def homeless() -> NoReturn:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert callable(look)
    with pytest.raises(
        CannotHere, match=r"there is no home directory \(Could not.*\): set HOME or TIDEGAUGE_HOME"
    ) as c:
        look()
    assert c.value.exit_code == Exit.CANNOT_HERE


def test_no_home_is_needed_where_variables_say_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks for what is not used."""
    monkeypatch.setattr(Path, "home", lambda: pytest.fail("not needed"))
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert (cache_dir(), state_dir()) == (Path("/c/tidegauge"), Path("/s/tidegauge"))
    monkeypatch.setenv("TIDEGAUGE_HOME", "/h")
    assert (cache_dir(), state_dir()) == (Path("/h/cache"), Path("/h/state"))


def test_the_home_of_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user that does not exist has none."""
    monkeypatch.setenv("TIDEGAUGE_HOME", "~no-such-user-here/x")
    with pytest.raises(CannotHere, match=r"there is no home directory \(.+\): set HOME or TIDEGAUGE_HOME"):
        state_dir()
