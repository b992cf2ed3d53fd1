"""Taking a foreign history into the store: whole and right, or not at all."""

from __future__ import annotations

import fcntl
import gc
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import Field

import harness
from harness.foundation.config import Model, parse
from harness.foundation.errors import UsageError, from_os_error
from harness.foundation.view import View
from harness.history.exchange import jsonl, parquet
from harness.history.exchange.batch import Names
from harness.history.exchange.event_validation import EventValidator
from harness.history.exchange.external_sort import SortedRuns
from harness.history.exchange.file_format import DEFAULT_ROLE, IMPORTED, FileHeader, Wrong, facts_from
from harness.history.exchange.jepsen import JepsenReader
from harness.history.exchange.jepsen_processes import read_all
from harness.history.exchange.jsonl_fast import LinesReader
from harness.history.exchange.lines import Chunk, Hashed, chunks, opened, unpacked
from harness.history.places import HISTORY
from harness.history.schema import NEMESIS_PROCESS, SCHEMA_VERSION
from harness.history.store import LATEST, RUN_FILE, Run, create

FORMATS = ("jsonl", "parquet", "jepsen")
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".edn": "jepsen"}
_PACKED = (".gz", ".zst")
_SCRATCH = ".import-"
_OWNER = "owner"
_NEW_S = 60
_TITLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


class Setup(Model):
    """What the user knows of how the history came about."""

    acks: Literal["0", "1", "all"] | None = None
    idempotence: bool | None = None
    retries: int | None = Field(default=None, ge=0)
    client: str | None = None
    unclean_election: bool | None = None


@dataclass(frozen=True)
class Imported:
    """A history that is in the store now."""

    run: Run
    source: dict[str, Any]
    events: dict[str, int]
    processes: int
    span_s: float
    set_up: bool  # whether it is known how
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {**vars(self), "run": str(self.run.path)}


class FileReader(Protocol):
    """What turned a file into rows."""

    runs: SortedRuns
    completed_at_the_end: int


@dataclass
class ParsedFile:
    """A file that was read to its end."""

    reader: FileReader
    header: FileHeader
    lines: int
    unit: str
    notes: list[str] = field(default_factory=list)


def import_history(  # noqa: PLR0913 - what to take, as what, and where to
    file: Path,
    store: Path,
    view: View,
    *,
    form: str | None = None,
    name: str | None = None,
    settings: Sequence[str] = (),
) -> Imported:
    """Take a file into the store; when anything is wrong with it nothing is left."""
    title = _title(file, name)
    setup = _setup(settings)
    with _scratch(store) as scratch, opened(file) as raw:
        form = form or _form_of(file)
        view.phase("import")
        names = Names()
        try:
            with _no_search_for_cycles():
                taken = _take(file, raw, form, (scratch, names), view)
        except Wrong as wrong:
            unit = "row" if form == "parquet" else "line"
            raise UsageError(f"{file} {unit} {wrong.line}: {wrong.reason}", wrong.remedy) from None
        while raw.read(1 << 20):  # what a reader did not need belongs to the file as well
            pass
        view.phase("write")
        runs = taken.reader.runs
        runs.finish(scratch, names.texts, _manifest(taken, names))
        source = {
            "file": file.name,
            "format": form,
            taken.unit: taken.lines,
            "bytes": raw.bytes,
            "sha256": raw.digest.hexdigest(),
        }
        facts = facts_from(taken.header, setup)
        run = _place(store, title, scratch, facts | {"imported": source})
    if count := taken.reader.completed_at_the_end:
        taken.notes.append(f"{count:,} operations were open at its end and are info")
    return Imported(
        run=run,
        source=source,
        events={kind.name.lower(): count for kind, count in runs.rows.items() if count},
        processes=len(runs.processes),
        span_s=(runs.last_ns - (runs.first_ns or 0)) / 1e9,
        set_up=bool(facts["scenario"]["settings"]),
        notes=taken.notes,
    )


def _title(file: Path, name: str | None) -> str:
    title = name
    if title is None:
        title = file.name
        for suffix in (*_PACKED, *_SUFFIXES):
            title = title.removesuffix(suffix)
        title = re.sub(r"[^A-Za-z0-9._+-]+", "-", title).lstrip("._+-")[:100] or IMPORTED
    if not _TITLE.fullmatch(title) or title == LATEST:
        raise UsageError(f"'{title}' cannot be the name of a run", "take letters, digits, dots and dashes (--name)")
    return title


def _setup(settings: Sequence[str]) -> dict[str, Any]:
    given = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text} has no value", "write KEY=VALUE")
        given[key.strip()] = value.strip()
    return parse(Setup, given, "--set").model_dump(exclude_unset=True)


def _form_of(file: Path) -> str:
    """By the name, or by how it begins."""
    packed = file.suffix in _PACKED
    if found := _SUFFIXES.get(file.with_suffix("").suffix if packed else file.suffix):
        return found
    if not packed and file.is_file():
        with file.open("rb") as beginning:
            start = beginning.read(64).lstrip()
        if start.startswith(b"PAR1"):
            return "parquet"
        if start.startswith(b'{"'):
            return "jsonl"
        if start.startswith((b"{:", b"[{:", b"#jepsen")):
            return "jepsen"
    raise UsageError(f"{file} does not say what it is", f"give --format: one of {', '.join(FORMATS)}")


@contextmanager
def _scratch(store: Path) -> Iterator[Path]:
    """A directory beside the runs, which goes whatever happens."""
    made = [path for path in (store, *store.parents) if not path.exists()]
    try:
        store.mkdir(parents=True, exist_ok=True)
        _sweep(store)
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=store))
        owner = (scratch / _OWNER).open("w")
    except OSError as error:
        raise from_os_error(error, "making a directory in the store") from error
    try:
        with owner:
            fcntl.flock(owner, fcntl.LOCK_EX)
            yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for path in made:
            with suppress(OSError):  # a run is in it
                path.rmdir()


def _sweep(store: Path) -> None:
    """Remove what imports left that were killed; those that live hold a lock."""
    for owner in store.glob(f"{_SCRATCH}*/{_OWNER}"):
        with suppress(OSError), owner.open() as file:
            if time.time() - owner.stat().st_mtime < _NEW_S:  # it may not have come to its lock
                continue
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(owner.parent, ignore_errors=True)


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """What is read makes millions of objects and no cycle; to look for some takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _take(file: Path, raw: Hashed, form: str, place: tuple[Path, Names], view: View) -> ParsedFile:
    if form == "parquet":
        return _take_parquet(file, *place, view)
    take = _take_jepsen if form == "jepsen" else _take_lines
    return take(_lines(file, raw, view), *place)


def _lines(file: Path, raw: Hashed, view: View) -> Iterator[Chunk]:
    """The lines of a file, of which there is at least one."""
    count = 0
    for chunk in chunks(unpacked(file, raw)):
        yield chunk
        count += len(chunk.lines)
        view.detail(f"{count:,} lines")
    if not count:
        raise UsageError(f"{file} is empty", "name a file that holds a history")


def _take_lines(lines: Iterator[Chunk], scratch: Path, names: Names) -> ParsedFile:
    header: FileHeader | None = None
    reader = LinesReader(names)
    count = 0
    for chunk in lines:
        rest = chunk
        if header is None:
            if chunk.wrong and not chunk.lines:
                raise chunk.wrong
            header = jsonl.header_of(chunk.lines[0])
            intake = _intake(scratch, header, names)
            rest = replace(chunk, number=chunk.number + 1, lines=chunk.lines[1:])
        intake.take(reader.read(rest))
        count += len(chunk.lines)
    assert header is not None, "there is a line"
    intake.finish()
    _check_count(header, count - 1, count)
    return ParsedFile(intake, header, count, "lines")


def _take_parquet(file: Path, scratch: Path, names: Names, view: View) -> ParsedFile:
    source, header = parquet.opened(file)
    with source:
        rows = source.metadata.num_rows
        intake = _intake(scratch, header, names)
        for batch in parquet.read(source, names, file):
            intake.take(batch)
            view.detail(f"{sum(intake.runs.rows.values()):,} of {rows:,} rows")
        intake.finish()
        _check_count(header, rows, rows)
    return ParsedFile(intake, header, rows, "rows")


def _take_jepsen(lines: Iterator[Chunk], scratch: Path, names: Names) -> ParsedFile:
    reader = JepsenReader(scratch, names)
    count = 0
    with closing(read_all(lines)) as passages:
        for chunk, passage in passages:
            reader.take(chunk.number, passage)
            count += len(chunk.lines)
    reader.finish()
    notes = [f"{reader.phases:,} lines of the nemesis, or of other operations, are phases"] if reader.phases else []
    if reader.left_out:
        keys = ", ".join(f"{key} ({count:,})" for key, count in reader.left_out.items())
        notes.append(f"nothing is made of the keys {keys}")
    return ParsedFile(reader, FileHeader(), count, "lines", notes)


def _intake(scratch: Path, header: FileHeader, names: Names) -> EventValidator:
    for topic in header.topics:
        names.topic(topic)
    return EventValidator(scratch, names)


def _check_count(header: FileHeader, found: int, line: int) -> None:
    if header.events is not None and header.events != found:
        said = f"the file ends after {found:,} events, and its header says {header.events:,}"
        raise Wrong(line, said, "bring the whole file here")


def _manifest(taken: ParsedFile, names: Names) -> dict[str, Any]:
    """What the manifest says beside the files."""
    described = taken.header.processes
    roles = {NEMESIS_PROCESS: "nemesis"} if isinstance(taken.reader, JepsenReader) else {}
    unnamed = {str(number): {"role": roles.get(number, DEFAULT_ROLE)} for number in taken.reader.runs.processes}
    processes = {**unnamed, **described}
    return {
        "processes": {number: processes[number] for number in sorted(processes, key=int)},
        "topics": {str(number): name for name, number in names.topics.items()},
        "damage": list(taken.header.about.damage),
        "damaged_processes": list(taken.header.about.damaged_processes),
        "has_holes": False,
    }


def _place(store: Path, title: str, scratch: Path, facts: Mapping[str, Any]) -> Run:
    """Make a run of what is finished."""
    finished = Run(scratch)
    finished.update(
        schema_version=SCHEMA_VERSION,
        kind=IMPORTED,
        state="recorded",
        started_at=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        versions={"tidegauge": harness.__version__},
        **{"title": title, **facts},  # that of the run which was exported, whatever its file is called
    )
    run = create(store, title)
    try:
        for name in (HISTORY, RUN_FILE):
            (scratch / name).rename(run.path / name)
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    return run
