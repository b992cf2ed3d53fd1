"""The store: directories and links of runs, names that find them, facts that are added, and secrets that stay out."""

import errno
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.commands.listing import listing
from harness.foundation.errors import CannotHere, UsageError
from harness.foundation.paths import STORE_VARIABLE
from harness.history import store
from harness.judging.checking import checked_before


def test_a_run_gets_a_directory_and_links(tmp_path: Path) -> None:
    """By scenario and time; `latest` leads to it from both levels."""
    run = store.create(tmp_path, "large-batch")
    assert run.path.parent == tmp_path / "large-batch"
    assert (tmp_path / "latest").resolve() == run.path == (tmp_path / "large-batch" / "latest").resolve()


def test_runs_of_one_second_do_not_mix(tmp_path: Path) -> None:
    """Each has its own directory, and the links follow."""
    paths = [store.create(tmp_path, "stream").path for _ in range(3)]
    assert len(set(paths)) == 3
    assert (tmp_path / "latest").resolve() == paths[-1]


def test_facts_are_added_to(tmp_path: Path) -> None:
    """What was known stays."""
    run = store.create(tmp_path, "stream")
    run.update(seed=1, state="running")
    run.update(state="finished")
    assert run.facts == {"seed": 1, "state": "finished"}
    assert run.results is None


def test_a_failure_is_kept_with_what_led_to_it(tmp_path: Path) -> None:
    """Protocol objects are here, and nowhere else; a log that cannot be written is not another failure."""
    run = store.create(tmp_path, "stream")
    failure = UsageError("no topic", "make one")
    failure.__cause__ = ValueError("CreateTopicsResponse(topics=[])")
    run.write_failure(failure)
    kept = (run.path / "logs" / "harness.log").read_text()
    assert "CreateTopicsResponse(topics=[])" in kept
    assert "no topic: make one" in kept
    (tmp_path / "file").touch()
    store.Run(tmp_path / "file").write_failure(ValueError("x"))


@pytest.mark.parametrize("name", ["latest", "stream", "stream/latest"])
def test_a_run_is_found_by_name(tmp_path: Path, name: str) -> None:
    """Or by its place."""
    run = store.create(tmp_path, "stream")
    run.update(seed=1)
    assert store.find(tmp_path, name).path == run.path.resolve()
    assert store.find(Path("/nowhere"), str(run.path)).path == run.path.resolve()


def test_an_unknown_run_is_an_error(tmp_path: Path) -> None:
    """With what to do."""
    with pytest.raises(UsageError, match="list runs"):
        store.find(tmp_path, "stream")


def test_runs_are_listed_once(tmp_path: Path) -> None:
    """Links are no runs."""
    for title in ("stream", "large-batch", "stream"):
        store.create(tmp_path, title).update(seed=1)
    assert len(store.runs(tmp_path)) == 3


def test_a_damaged_description_is_an_error(tmp_path: Path) -> None:
    """It names the file."""
    run = store.create(tmp_path, "stream")
    (run.path / "run.json").write_text("{")
    with pytest.raises(UsageError, match=r"run\.json cannot be read"):
        _ = run.facts


def test_what_is_written_is_whole(tmp_path: Path) -> None:
    """Results and logs are where the documentation says."""
    run = store.create(tmp_path, "stream")
    run.write_results({"verdict": "valid"})
    run.write_log(2, ["one", "two"])
    assert json.loads((run.path / "results.json").read_text()) == {"verdict": "valid"}
    assert (run.path / "logs" / "2" / "broker.log").read_text() == "one\ntwo\n"


def test_secrets_do_not_get_into_the_store() -> None:
    """Neither as values of flags nor of settings nor in addresses."""
    kept = store.without_secrets(
        [
            "tidegauge",
            "--set",
            "sasl_password=hush",
            "--api-key",
            "hush",
            "--token=hush",
            "https://me:hush@host/x",
            "acks=all",
        ]
    )
    assert "hush" not in " ".join(kept)
    assert kept[-1] == "acks=all"


def test_the_store_is_where_one_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As given, else by the environment, else in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    assert store.store_dir() == tmp_path / "store"
    monkeypatch.setenv(STORE_VARIABLE, "/elsewhere")
    assert store.store_dir() == Path("/elsewhere")
    assert store.store_dir(Path("/given")) == Path("/given")


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    """Sealing under a runner's hands would take its history apart."""
    run = store.create(tmp_path, "stream")
    with run.held(), pytest.raises(CannotHere, match="still going on"), run.held():
        pass
    with run.held():
        pass


def test_facts_can_be_added_from_several_threads(tmp_path: Path) -> None:
    """None of them gets lost."""
    run = store.create(tmp_path, "stream")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: run.update(**{f"fact_{number}": number}), range(40)))
    assert len(run.facts) == 40


def test_a_full_store_is_named_and_keeps_what_it_had(tmp_path: Path) -> None:
    """What was half written is gone, and the file before it is whole."""
    run = store.create(tmp_path, "stream")
    run.update(seed=1)
    unfinished = run.path / "run.json.new"
    unfinished.symlink_to("/dev/full")  # whoever writes there meets a full disk
    with pytest.raises(CannotHere, match="the store is full") as raised:
        run.update(seed=2)
    assert str(run.path) in str(raised.value)
    assert "--store" in raised.value.remedy
    assert not unfinished.is_symlink()
    assert run.facts == {"seed": 1}


def test_a_store_that_cannot_be_written_to_is_named() -> None:
    """Nothing was started, and it says so."""
    with pytest.raises(CannotHere, match=r"cannot be written to.*nothing was started"):
        store.create(Path("/sys/kernel"), "stream")


@pytest.mark.parametrize(("checked", "said"), [(False, "nothing was checked"), (True, "the run was checked before")])
def test_it_says_truly_whether_anything_was_checked(tmp_path: Path, said: str, *, checked: bool) -> None:
    """As results.json is there or is not."""
    run = store.create(tmp_path, "stream")
    if checked:
        run.write_results({"verdict": "valid"})
    assert said in str(run.failure(OSError(errno.ENOSPC, "No space left on device"), "recording the run"))


def test_a_full_disk_elsewhere_is_not_the_store(tmp_path: Path) -> None:
    """An error that names another file, or no file while the store has room."""
    run = store.create(tmp_path, "stream")
    assert not run.is_meant_by(OSError(errno.ENOSPC, "", "/elsewhere/file"))
    assert run.is_meant_by(OSError(errno.ENOSPC, "", str(run.path / "segments" / "0001.segment")))
    assert not run.is_meant_by(OSError(errno.ENOSPC, ""))


def test_a_run_that_failed_before_its_load_is_not_kept(tmp_path: Path) -> None:
    """`latest` leads to the run before it again, and to nothing if there is none; logs are worth keeping."""
    assert store.discard_if_empty(store.create(tmp_path, "stream"))
    assert [path for path in tmp_path.rglob("*") if path.is_dir() or path.is_symlink()] == []
    before = store.create(tmp_path, "large-batch")
    before.update(state="finished")
    failed = store.create(tmp_path, "stream")
    failed.update(state="failed")
    failed.write_failure(ValueError("no"))
    assert store.discard_if_empty(failed)
    assert not failed.path.parent.exists()
    assert (tmp_path / "latest").resolve() == before.path
    kept = store.create(tmp_path, "stream")
    kept.write_log(1, ["a line"])
    assert not store.discard_if_empty(kept)
    assert (tmp_path / "latest").resolve() == kept.path


def test_damaged_results_are_not_called_unchecked(tmp_path: Path) -> None:
    """Somebody who checked the run would wonder."""
    run = store.create(tmp_path, "stream")
    run.update(state="finished")
    assert [row["verdict"] for row in listing("runs", tmp_path)] == ["not checked"]
    (run.path / "results.json").write_text('{"verdict": "val')
    assert [row["verdict"] for row in listing("runs", tmp_path)] == ["damaged results.json"]
    with pytest.raises(UsageError, match=r"results\.json is damaged: check the run again: tidegauge check "):
        checked_before(run)
