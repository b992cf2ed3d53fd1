"""The Spark jobs around the kernels: Spark reads files, moves blobs and starts tasks; it never sees a row.

A history of up to ONE_TASK_EVENTS is one task: it reads the files, and makes all steps of the check. A larger one is
cut: tasks decode files some rows at a time and cut them into tables of buckets, each of them a blob of Arrow's
format; Spark brings the blobs of a bucket together; and tasks survey pieces. What they say is put together here, and if
something may be wrong, the files are cut once more, and pieces are judged with what is known by then.

Where our code is not installed, it travels with the job as an archive; executors need numpy, Polars and pyarrow only.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from checkers.core.run import ROWS_AT_ONCE, STRETCH, RunContext
from harness.history.schema import Kind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from checkers.core.engine import CheckState
    from checkers.core.family import Family
    from harness.history.sealed import Sealed

ONE_TASK_EVENTS = 1_500_000
EVENTS_OF_A_BUCKET = 500_000
LEAST_BUCKETS = 4
READ = (Kind.COMPLETE, Kind.RECORD, Kind.PROBE, Kind.EXCHANGE, Kind.BROKER)
BLOB = "blob binary"
PART = "bucket int, kind string, blob binary"
SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "16", "spark.sql.adaptive.enabled": "false"}
_KIND = re.compile(r"kind=(\w+)/[^/]*$")

Batches = Iterable["pa.RecordBatch"]


@dataclass(frozen=True)
class CheckJob:
    """What tasks have to know; it travels with the job."""

    run: RunContext
    families: tuple[str, ...]  # by name: what is made of code stays with the code
    budget_s: float
    buckets: int = 1
    gathered: dict[str, Any] = field(default_factory=dict)
    by_value: bool = False
    progress_file: str = ""  # on this machine


def events(sealed: Sealed) -> int:
    """How many events tasks have to read."""
    return sum(sealed.rows.get(kind, 0) for kind in READ)


def fits_one_task(sealed: Sealed) -> bool:
    """Whether a history is small."""
    return events(sealed) <= ONE_TASK_EVENTS


def files(spark: SparkSession, sealed: Sealed, kinds: Collection[Kind] = READ) -> DataFrame | None:
    """The whole files of a history, each a row; None if there are none with anything in them."""
    urls = [url for kind in kinds if sealed.rows.get(kind) for url in sealed.urls(kind)]
    if not urls:
        return None
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    return spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet").load(urls).select("path", "content")


def in_one_task(spark: SparkSession, sealed: Sealed, job: CheckJob, answer: Callable[[CheckState, Any], Any]) -> Any:
    """All steps in one task; what `answer` makes of them."""
    found = files(spark, sealed)
    if found is None:
        from checkers.core.engine import check_piece
        from checkers.core.piece import Piece

        piece = Piece({}, job.run)
        return answer(check_piece(piece, job.run, _families(job), job.budget_s, job.progress_file), piece)

    def make(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield _packed(_check_in_task(batches, job, answer))

    (row,) = found.coalesce(1).mapInArrow(make, BLOB).collect()
    return pickle.loads(row["blob"])  # noqa: S301 - made by our own tasks


def _check_in_task(batches: Batches, job: CheckJob, answer: Callable[[CheckState, Any], Any]) -> Any:
    """The task of a small history."""
    import polars as pl

    from checkers.core.engine import check_piece, wanted_columns
    from checkers.core.piece import Piece
    from checkers.core.tables import columns_of, tables_of
    from checkers.summaries.context import READS

    families = _families(job)
    wanted = wanted_columns(families, READS)
    parts: dict[str, list[pl.DataFrame]] = {}
    for kind, content in _contents(batches):
        for rows in _rows(content, columns_of(kind, wanted), ONE_TASK_EVENTS):
            for table, frame in tables_of(kind, rows, wanted, job.run).items():
                parts.setdefault(table, []).append(frame)
    piece = Piece({table: pl.concat(frames) for table, frames in parts.items()}, job.run)
    return answer(check_piece(piece, job.run, families, job.budget_s, job.progress_file), piece)


def in_many_tasks(spark: SparkSession, sealed: Sealed, job: CheckJob) -> CheckState:
    """All steps but the last, of a large history."""
    from checkers.core.engine import CheckState

    buckets = max(LEAST_BUCKETS, events(sealed) // EVENTS_OF_A_BUCKET)
    run = replace(job.run, many=True, stretch=STRETCH)
    job = replace(job, run=run, buckets=buckets)
    state = CheckState(run, _families(job), job.budget_s)
    for surveys, failures in _answers_of_pieces(spark, sealed, job, _survey):
        state.failures.update(failures)
        for name, survey in surveys.items():
            state.surveys.setdefault(name, []).append(survey)
    state.gather()
    _judge_all(spark, sealed, replace(job, by_value=True), state, state.by_value())
    _judge_all(spark, sealed, job, state, state.to_judge())
    return state


def _judge_all(
    spark: SparkSession, sealed: Sealed, job: CheckJob, state: CheckState, families: Sequence[Family]
) -> None:
    if not families:
        return
    chosen = replace(job, families=tuple(family.name for family in families), gathered=state.gathered)
    for judged, failures in _answers_of_pieces(spark, sealed, chosen, _judge):
        state.failures.update(failures)
        for name, each in judged.items():
            state.judged.setdefault(name, []).append(each)
    if job.by_value:
        state.resume(families)


Part = tuple[dict[str, Any], dict[str, str]]  # by family: what it says, and what failed


def context_in_many_tasks(spark: SparkSession, sealed: Sealed, job: CheckJob, chosen: Any) -> list[Any]:
    """What is around findings of a large history: files are looked through once more, as far as they are needed."""
    from checkers.core.tables import TABLES
    from checkers.summaries import context

    wanted = context.columns_for(chosen)
    found = files(spark, sealed, sorted({TABLES[table] for table in wanted})) if chosen else None
    if found is None:
        return []

    def look(batches: Batches) -> Iterator[pa.RecordBatch]:
        from checkers.core.piece import Piece
        from checkers.core.tables import columns_of, tables_of

        for kind, content in _contents(batches):
            for rows in _rows(content, columns_of(kind, wanted)):
                piece = Piece(tables_of(kind, rows, wanted, job.run), job.run)
                yield _packed(context.find_context(piece, chosen, job.run))

    return [pickle.loads(row["blob"]) for row in found.mapInArrow(look, BLOB).collect()]  # noqa: S301 - of our own tasks


def _answers_of_pieces(
    spark: SparkSession, sealed: Sealed, job: CheckJob, ask: Callable[[Any, CheckJob], Part]
) -> Iterator[Part]:
    """What pieces say."""
    found = files(spark, sealed)
    if found is None:
        return

    def cut(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from _cut(batches, job)

    def say(batches: Batches) -> Iterator[pa.RecordBatch]:
        if (piece := _piece(batches, job)) is not None:
            yield _packed(ask(piece, job))

    from pyspark.sql import functions as sql

    parts = found.mapInArrow(cut, PART).repartitionById(job.buckets, sql.col("bucket"))
    for row in parts.mapInArrow(say, BLOB).collect():
        yield pickle.loads(row["blob"])  # noqa: S301 - made by our own tasks


def _cut(batches: Batches, job: CheckJob) -> Iterator[pa.RecordBatch]:
    """Files as parts of tables, each with its bucket."""
    import pyarrow as pa

    from checkers.core.cutting import cut
    from checkers.core.engine import wanted_columns
    from checkers.core.long_tables import blob_of
    from checkers.core.tables import columns_of

    wanted = wanted_columns(_families(job))
    for kind, content in _contents(batches):
        for rows in _rows(content, columns_of(kind, wanted)):
            for bucket, table, part in cut(kind, rows, wanted, job.run, job.buckets, by_value=job.by_value):
                yield pa.record_batch(
                    {"bucket": pa.array([bucket], pa.int32()), "kind": pa.array([table], pa.string()),
                     "blob": pa.array([blob_of(part)], pa.binary())}
                )  # fmt: skip


def _piece(batches: Batches, job: CheckJob) -> Any:
    """What came for one bucket."""
    from checkers.core.cutting import put_together
    from checkers.core.piece import Piece

    tables = put_together(
        (table, memoryview(blob.as_buffer()))
        for batch in batches
        for table, blob in zip(batch.column("kind").to_pylist(), batch.column("blob"), strict=True)
    )
    return Piece(tables, job.run) if tables else None


def _survey(piece: Any, job: CheckJob) -> Part:
    from checkers.core.engine import CheckState

    state = CheckState(job.run, _families(job), job.budget_s)
    state.survey(piece)
    return {name: surveys[0] for name, surveys in state.surveys.items()}, state.failures


def _judge(piece: Any, job: CheckJob) -> Part:
    from checkers.core.engine import CheckState

    families = _families(job)
    state = CheckState(job.run, families, job.budget_s, gathered=job.gathered)
    state.judge(piece, families)
    return {name: judged[0] for name, judged in state.judged.items()}, state.failures


def _families(job: CheckJob) -> list[Family]:
    from checkers.core.families import FAMILIES

    return [family for family in FAMILIES if family.name in job.families]


def _contents(batches: Batches) -> Iterator[tuple[Kind, Any]]:
    """The files of a task, with what kind of events each holds."""
    for batch in batches:
        for path, content in zip(batch.column("path").to_pylist(), batch.column("content"), strict=True):
            match = _KIND.search(path)
            assert match, path
            yield Kind[match[1].upper()], content.as_buffer()


def _rows(content: Any, columns: Sequence[str], at_once: int = ROWS_AT_ONCE) -> Iterator[Any]:
    """The rows of a file, some at a time: a whole file, or a row group, would need too much memory."""
    import polars as pl
    import pyarrow as pa
    from pyarrow import parquet

    if not columns:
        return
    file = parquet.ParquetFile(pa.BufferReader(content))
    for batch in file.iter_batches(at_once, columns=list(columns), use_threads=False):
        if batch.num_rows:
            yield pl.from_arrow(batch)


def _packed(answer: Any) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.record_batch({"blob": pa.array([pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)], pa.binary())})


def warm_up(spark: SparkSession) -> None:
    """Start the process that kernels run in, with all that it loads: a first check then takes as long as any other."""

    def load(batches: Batches) -> Iterator[pa.RecordBatch]:
        from checkers.core.families import FAMILIES

        for _ in batches:
            yield _packed(len(FAMILIES))

    spark.range(1).coalesce(1).mapInArrow(load, BLOB).collect()
