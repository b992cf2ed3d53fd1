"""The journal, and undoing what it says."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import docker.errors
import pytest

from harness.clusters.cleanup import undo
from harness.clusters.cleanup.undo import FORGOTTEN, JOURNAL, Entry, read, record, undo_all
from harness.foundation import namespaces as networks
from harness.foundation.namespaces import COMPOSE_PROJECT_LABEL
from harness.foundation.processes import TOKEN_VARIABLE, Identity
from tests.support import PATIENCE_S, unique

IMPLIED = "processes cluster"  # what carries the directory's name as its token is always undone, and first
COMPOSE = {"kind": "compose", "value": "docker-1", "host": "tcp://10.1.2.3:2375", "engine": "ours"}


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is really undone, only written down; and the clock jumps instead of waiting."""
    calls: list[str] = []
    now = [0.0]

    def remember(kind: str) -> Callable[[Entry], None]:
        def call(entry: Entry) -> None:
            assert entry["kind"] == kind
            calls.append(f"{kind} {entry['value']}")
            if entry["value"] == "stuck":
                raise OSError("busy\nmore")
            if entry["value"] == "silent":
                raise RuntimeError

        return call

    for kind in undo._UNDO:
        monkeypatch.setitem(undo._UNDO, kind, remember(kind))
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    monkeypatch.setattr(undo, "time", clock)
    return calls


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of a cluster."""
    made = tmp_path / "cluster"
    made.mkdir()
    return made


def test_the_journal_keeps_order_and_text(directory: Path) -> None:
    """What is recorded is read back, in order, whatever characters it has."""
    entries = [{"kind": "netns", "value": value} for value in ("a", 'q"uo\\te', "new\nline", "é\u2028☃", "")]
    for entry in entries:
        record(directory, entry)
    assert read(directory) == entries
    assert (directory / JOURNAL).stat().st_mode & 0o777 == 0o600


def test_no_journal_is_an_empty_one(tmp_path: Path) -> None:
    """A cluster that made nothing has nothing to undo."""
    assert read(tmp_path) == []
    assert read(tmp_path / "nowhere") == []


@pytest.mark.parametrize("torn", [b"{", b'{"kind": "netns", "value": "b"', b'{"kind": "\xc3', b"\x00\x00\x00"])
def test_a_torn_last_line_is_ignored(directory: Path, torn: bytes) -> None:
    """It names something that was never made; what was written before it counts."""
    record(directory, {"kind": "netns", "value": "a"})
    with (directory / JOURNAL).open("ab") as file:
        file.write(torn)
    assert read(directory) == [{"kind": "netns", "value": "a"}]


def test_a_short_write_is_not_taken_for_a_whole_one(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A nearly full disk takes part of a line: either the rest follows, or the caller hears of it."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
    try:
        record(directory, {"kind": "netns", "value": "a"})
    except OSError:
        return
    assert read(directory) == [{"kind": "netns", "value": "a"}]


def test_what_makes_things_is_undone_first(directory: Path, undone: list[str]) -> None:
    """Processes before containers before namespaces before links, in whatever order they were made."""
    for kind in ("link", "netns", "compose", "processes"):
        record(directory, {"kind": kind, "value": "x"})
    assert undo_all(directory) == []
    assert undone == [IMPLIED, "processes x", "compose x", "netns x", "link x"]
    assert not directory.exists()


def test_things_of_one_kind_keep_their_order_and_are_undone_once(directory: Path, undone: list[str]) -> None:
    """A thing recorded twice is undone once."""
    for value in ("b", "a", "b"):
        record(directory, {"kind": "netns", "value": value})
    assert undo_all(directory) == []
    assert undone == [IMPLIED, "netns b", "netns a"]


def test_undoing_is_idempotent(directory: Path, undone: list[str]) -> None:
    """A second time only the token is looked for, nothing is left to do, and that is no error."""
    record(directory, {"kind": "netns", "value": "a"})
    assert undo_all(directory) == undo_all(directory) == []
    assert undone == [IMPLIED, "netns a", IMPLIED]


def test_the_token_is_undone_once(directory: Path, undone: list[str]) -> None:
    """A journal that names the cluster's processes as well does not have them killed twice."""
    record(directory, {"kind": "processes", "value": directory.name})
    assert undo_all(directory) == []
    assert undone == [IMPLIED]


def test_processes_are_found_without_journal_and_directory(tmp_path: Path) -> None:
    """Somebody deleted the directory of a running cluster: its name is enough to find what runs."""
    name = unique("undone")
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, TOKEN_VARIABLE: name})
    try:
        identity = Identity.of(process.pid)
        assert identity
        assert undo_all(tmp_path / "nowhere" / name) == []
        assert not identity.alive()
    finally:
        process.kill()
        process.wait()


def test_processes_that_resist_keep_the_directory(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The implied entry is reported like any other."""

    def fail(token: str) -> None:
        raise TimeoutError(f"{token} cannot be killed")

    monkeypatch.setattr(undo, "kill_marked", fail)
    assert undo_all(directory, patience_s=-1) == ["processes cluster: cluster cannot be killed"]
    assert directory.exists()


def test_an_unknown_kind_is_reported_and_kept(directory: Path, undone: list[str]) -> None:
    """What a newer version wrote stays, with the directory, for somebody who can undo it; the rest is undone."""
    for kind in ("zeppelin", "airship", "netns"):
        record(directory, {"kind": kind, "value": "x"})
    assert undo_all(directory, patience_s=0) == [
        "do not know how to undo 'airship'",
        "do not know how to undo 'zeppelin'",
    ]
    assert set(undone) == {IMPLIED, "netns x"}
    assert read(directory)


@pytest.mark.parametrize(("value", "said"), [("stuck", "netns stuck: busy"), ("silent", "netns silent: RuntimeError")])
def test_one_thing_that_resists_does_not_keep_the_others(
    directory: Path, undone: list[str], value: str, said: str
) -> None:
    """The rest is undone, the reason is told in one line, and the directory stays."""
    for kind, each in (("netns", value), ("netns", "a"), ("link", "b")):
        record(directory, {"kind": kind, "value": each})
    assert undo_all(directory, patience_s=0) == [said]
    assert {IMPLIED, "netns a", "link b"} <= set(undone)
    assert directory.exists()


def test_undoing_is_tried_again(directory: Path, undone: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is busy now may be free in a moment."""
    attempts: list[str] = []

    def busy_twice(entry: Entry) -> None:
        attempts.append(entry["value"])
        if len(attempts) < 3:
            raise OSError("busy")

    monkeypatch.setitem(undo._UNDO, "link", busy_twice)
    record(directory, {"kind": "link", "value": "a"})
    assert undo_all(directory, patience_s=5) == []
    assert attempts == ["a", "a", "a"]
    assert undone == [IMPLIED] * 3


@pytest.mark.parametrize("kind", ["netns", "link"])
def test_what_never_came_needs_no_tool(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace or link that does not exist is not deleted: `ip` may not even be installed."""
    monkeypatch.setenv("PATH", "")
    undo._UNDO[kind]({"kind": kind, "value": "tg-no-such-thing"})


def test_a_failing_tool_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What `ip` says on standard error becomes the reason."""
    fake = tmp_path / "ip"
    fake.write_text("#!/bin/sh\necho 'Cannot find device' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match="Cannot find device"):
        undo._ip("link", "delete", "x")


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "netns"}',
        '{"value": "a"}',
        '{"kind": 5, "value": "a"}',
        '{"kind": "netns", "value": 5}',
        '{"kind": "netns", "value": null}',
        '{"kind": ["netns"], "value": "a"}',
        "5",
        "[]",
        "null",
        '"netns"',
    ],
)
def test_a_line_without_sense_does_not_stop_the_rest(directory: Path, undone: list[str], line: str) -> None:
    """A line that is JSON but no entry, by whatever accident, is no reason to leave everything else alive."""
    with (directory / JOURNAL).open("a") as file:
        file.write(f"{line}\n")
    record(directory, {"kind": "link", "value": "a"})
    assert read(directory) == [{"kind": "link", "value": "a"}]
    assert undo_all(directory, patience_s=0) == []
    assert undone == [IMPLIED, "link a"]


class Thing:
    """A container, network or volume of a fake engine."""

    def __init__(self, shelf: list[Thing], how: dict[str, Any], error: Exception | None = None) -> None:
        self.shelf = shelf
        self.how = how
        self.error = error

    def remove(self, **how: Any) -> None:
        """It goes, the way it should; the error comes once."""
        assert how == self.how
        error, self.error = self.error, None
        if error:
            raise error
        self.shelf.remove(self)


class Engine:
    """A fake Docker engine, and how it was asked for."""

    def __init__(self, engine_id: str = "ours") -> None:
        self.id = engine_id
        self.asked: list[dict[str, Any]] = []
        self.filters: list[Any] = []
        self.closed = 0
        self.shelves: dict[str, list[Thing]] = {"containers": [], "networks": [], "volumes": []}
        self.containers, self.networks, self.volumes = (
            SimpleNamespace(list=partial(self.listed, name)) for name in self.shelves
        )

    def from_env(self, **how: Any) -> Engine:
        """In place of `docker.from_env`."""
        self.asked.append(how)
        return self

    def info(self) -> dict[str, str]:
        """Who it is."""
        return {"ID": self.id}

    def listed(self, name: str, *, filters: Any, **_: Any) -> list[Thing]:
        """What a shelf holds now."""
        self.filters.append(filters)
        return list(self.shelves[name])

    def put(self, name: str, *, error: Exception | None = None, **how: Any) -> None:
        """Something to remove."""
        self.shelves[name].append(Thing(self.shelves[name], how, error))

    def close(self) -> None:
        """The connection is given back."""
        self.closed += 1


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine that answers, whoever asks; and a clock that jumps instead of waiting."""
    made = Engine()
    now = [0.0]
    monkeypatch.setattr(docker, "from_env", made.from_env)
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    monkeypatch.setattr(undo, "time", clock)
    return made


def test_a_compose_project_is_removed_where_it_was_made(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its label, on the host in the journal whatever DOCKER_HOST says now; until nothing turns up any more."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///elsewhere.sock")
    for _ in range(2):
        engine.put("containers", force=True, v=True)
    engine.put("networks")
    engine.put("volumes")
    undo._UNDO["compose"](COMPOSE)
    assert not any(engine.shelves.values())
    assert [how["environment"]["DOCKER_HOST"] for how in engine.asked] == [COMPOSE["host"]]
    assert {filters["label"] for filters in engine.filters} == {f"{COMPOSE_PROJECT_LABEL}=docker-1"}
    assert len(engine.filters) == 9  # three kinds, three looks: one that finds all, two that find nothing
    assert engine.closed == 1


def test_another_engine_is_left_alone(engine: Engine, directory: Path) -> None:
    """What has the same label on another engine is not ours; the entry stays until the right one answers."""
    engine.id = "theirs"
    engine.put("containers", force=True, v=True)
    record(directory, COMPOSE)
    said = ["compose docker-1: another Docker engine answers at tcp://10.1.2.3:2375 now"]
    assert undo_all(directory, patience_s=0) == said
    assert len(engine.shelves["containers"]) == 1
    assert engine.filters == []
    assert engine.closed == len(engine.asked) > 0
    assert read(directory) == [COMPOSE]
    engine.id = "ours"
    assert undo_all(directory) == []
    assert not any(engine.shelves.values())
    assert not directory.exists()


@pytest.mark.parametrize("missing", ["host", "engine"])
def test_a_compose_entry_that_does_not_say_where_is_kept(engine: Engine, directory: Path, missing: str) -> None:
    """Nobody guesses at an engine: it is reported, and nothing is removed."""
    engine.put("containers", force=True, v=True)
    record(directory, {name: value for name, value in COMPOSE.items() if name != missing})
    (said,) = undo_all(directory, patience_s=0)
    assert said.startswith("compose docker-1: ")
    assert len(engine.shelves["containers"]) == 1
    assert directory.exists()


def api_error(status: int) -> docker.errors.APIError:
    """What the engine answers."""
    response: Any = SimpleNamespace(status_code=status, url="", reason="")
    return docker.errors.APIError("no", response=response)


@pytest.mark.parametrize("error", [docker.errors.NotFound("gone"), api_error(409)], ids=["gone", "in progress"])
def test_what_goes_by_itself_is_no_error(engine: Engine, error: Exception) -> None:
    """Somebody else removed it, or it is being removed: the next look tells."""
    engine.put("containers", error=error, force=True, v=True)
    engine.put("networks", error=error)
    undo._UNDO["compose"](COMPOSE)
    assert not any(engine.shelves.values())


def test_what_the_engine_refuses_is_an_error(engine: Engine) -> None:
    """Any other answer is told, and the connection is given back."""
    engine.put("containers", error=api_error(500), force=True, v=True)
    with pytest.raises(docker.errors.APIError):
        undo._UNDO["compose"](COMPOSE)
    assert engine.closed == 1


def test_removing_containers_has_an_end(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers that always come back do not keep us for ever."""
    monkeypatch.setattr(Thing, "remove", lambda self, **how: None)
    engine.put("containers")
    with pytest.raises(TimeoutError, match="its containers cannot be removed"):
        undo._UNDO["compose"](COMPOSE)
    assert engine.closed == 1


def test_what_was_forgotten_is_not_undone_again(directory: Path, undone: list[str]) -> None:
    """Until it is recorded once more; another kind or another thing is not meant."""
    kinds = ("network", "network", "link", "netns")
    for kind, value in zip(kinds, ("a", "b", "a", "c"), strict=True):
        record(directory, {"kind": kind, "value": value})
    for of, value in (("network", "a"), ("netns", "c")):
        record(directory, {"kind": FORGOTTEN, "of": of, "value": value})
    record(directory, {"kind": "netns", "value": "c"})
    assert [(entry["kind"], entry["value"]) for entry in read(directory)] == [
        ("network", "b"),
        ("link", "a"),
        ("netns", "c"),
    ]
    assert undo_all(directory) == []
    assert undone == ["network b", IMPLIED, "netns c", "link a"]


def test_networks_are_mended_before_processes_end(directory: Path, undone: list[str]) -> None:
    """Rules go first, in whatever order they were made."""
    for kind in ("netns", "processes", "network"):
        record(directory, {"kind": kind, "value": "x"})
    assert undo_all(directory) == []
    assert undone == ["network x", IMPLIED, "processes x", "netns x"]


def test_networks_do_not_wait_for_each_other(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose script hangs keeps nobody: here each waits until the other one has begun."""
    meeting = threading.Barrier(2, timeout=PATIENCE_S)
    monkeypatch.setitem(undo._UNDO, "network", lambda _: [meeting.wait()])
    for value in ("a", "b"):
        record(directory, {"kind": "network", "value": value})
    assert undo_all(directory, patience_s=-1) == []


def test_a_network_is_mended_by_its_script(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the journal says, with little patience: a script that hangs must not keep the rest alive for long."""
    mended: list[tuple[networks.Place, str]] = []

    def remember(place: networks.Place, script: str, timeout_s: float) -> None:
        assert timeout_s < 10
        mended.append((place, script))

    monkeypatch.setattr(networks, "mend", remember)
    place = networks.Namespace("/run/netns/tg1-1")
    record(directory, networks.entry_of(place, "node-1/tg1", "undo it"))
    assert undo_all(directory) == []
    assert mended == [(place, "undo it")]


def test_a_network_that_is_gone_needs_no_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rules went with it."""
    monkeypatch.setenv("PATH", "")
    undo._UNDO["network"](networks.entry_of(networks.Namespace("/run/netns/tg-no-such-thing"), "x", "false"))
