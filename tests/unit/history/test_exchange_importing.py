"""Taking files into the store: which, under which name, and what is left when it does not work."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from harness.foundation.errors import UsageError
from harness.history.exchange import external_sort, importing
from harness.history.store import find, runs
from tests.support.foreign_histories import edn, give, jsonl, recorded, take

PHASE = {"kind": "phase", "time": 1, "process": 0, "name": "load"}


def test_the_run_says_where_it_is_from(tmp_path: Path) -> None:
    """Its name is that of the file; its state lets it be checked."""
    file = jsonl(tmp_path / "my app.jsonl", PHASE)
    taken = take(file, tmp_path / "store")
    facts = find(tmp_path / "store", "latest").facts
    assert facts["imported"] == {
        "file": "my app.jsonl",
        "format": "jsonl",
        "lines": 2,
        "bytes": file.stat().st_size,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }
    assert (facts["kind"], facts["state"], facts["title"]) == ("import", "recorded", "my-app")
    assert [run.path for run in runs(tmp_path / "store")] == [taken.run.path]
    assert sorted(path.name for path in taken.run.path.iterdir()) == ["history", "run.json"]
    assert not [path for path in (tmp_path / "store").iterdir() if path.name.startswith(".")]


def test_what_is_not_named_by_its_ending_is_known_by_its_beginning(tmp_path: Path) -> None:
    """Or has to be told."""
    lines = jsonl(tmp_path / "a", PHASE)
    jepsen = edn(tmp_path / "b", [":type :info, :process :nemesis, :f :x, :value nil"])
    parquet = give(recorded(tmp_path / "run"), tmp_path / "c.parquet").file.rename(tmp_path / "c")
    for file, form in ((lines, "jsonl"), (jepsen, "jepsen"), (parquet, "parquet")):
        assert take(file, tmp_path / "store").source["format"] == form
    odd = tmp_path / "odd"
    odd.write_text("hello\n")
    with pytest.raises(UsageError, match="does not say what it is"):
        take(odd, tmp_path / "store")
    with pytest.raises(UsageError, match="line 1: this is no JSON"):
        take(odd, tmp_path / "store", form="jsonl")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """One sentence each."""
    with pytest.raises(UsageError, match="there is no file"):
        take(tmp_path / "gone.jsonl", tmp_path / "store")
    with pytest.raises(UsageError, match="is a directory"):
        take(tmp_path, tmp_path / "store")
    for name in ("empty.jsonl", "empty.edn"):
        (tmp_path / name).touch()
        with pytest.raises(UsageError, match="is empty"):
            take(tmp_path / name, tmp_path / "store")
    if os.geteuid():
        (tmp_path / "empty.jsonl").chmod(0)
        with pytest.raises(UsageError, match="may not be read"):
            take(tmp_path / "empty.jsonl", tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_an_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At whatever moment; what was in the store before stays."""
    file = jsonl(tmp_path / "h.jsonl", PHASE)
    kept = take(file, tmp_path / "store", name="before")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    for target, name in ((external_sort.SortedRuns, "finish"), (importing, "_manifest"), (importing, "_place")):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                take(file, tmp_path / "store")
        assert sorted(path.name for path in (tmp_path / "store").iterdir()) == ["before", "latest"]
    assert find(tmp_path / "store", "latest").path == kept.run.path


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "latest", "x" * 101, "ä"])
def test_names_that_no_run_can_have(tmp_path: Path, name: str) -> None:
    """They would be another place, or nobody could type them."""
    with pytest.raises(UsageError, match="cannot be the name of a run"):
        take(jsonl(tmp_path / "h.jsonl", PHASE), tmp_path / "store", name=name)


@pytest.mark.parametrize(
    ("text", "said"),
    [("acks", "has no value"), ("ack=1", "did you mean 'acks'"), ("acks=2", "acks"), ("retries=-1", "retries")],
)
def test_settings_that_make_no_sense(tmp_path: Path, text: str, said: str) -> None:
    """Before the file is read."""
    with pytest.raises(UsageError) as refused:
        take(tmp_path / "gone.jsonl", tmp_path / "store", settings=[text])
    assert said in str(refused.value)


def test_settings_of_the_user_win(tmp_path: Path) -> None:
    """Over those in the file."""
    header = {"tidegauge": "history", "version": 1, "about": {"idempotent": True, "settings": {"acks": "1", "rate": 7}}}
    file = jsonl(tmp_path / "h.jsonl", PHASE, header=header)
    facts = take(file, tmp_path / "store", settings=["acks=all", "idempotence=false"]).run.facts
    assert facts["scenario"]["settings"] == {"acks": "all", "rate": 7, "idempotence": False}
    assert "idempotent" not in facts


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    """Nor written in a format that nobody named."""
    run = recorded(tmp_path / "run")
    give(run, tmp_path / "h.jsonl")
    with pytest.raises(UsageError, match="is there already"):
        give(run, tmp_path / "h.jsonl")
    with pytest.raises(UsageError, match="which format is wanted"):
        give(run, tmp_path / "h.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h.jsonl", "run"]
