# ruff: noqa: S608 - made of constants and of the names of our own files
"""The five core questions in plain SQL for DuckDB, on the files of a history: what Spark is measured against.

They are asked of histories as `bench.histories` makes them: nobody deletes a topic, nothing is compacted, and of the
transactional topic only what was committed counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.foundation.protocol import FETCH_OF_FOLLOWERS, Api
from harness.history.schema import F, Kind, OffsetView, Type
from harness.history.sealed import Sealed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LOST = f"""
    with sends as (
        select topic, partition, "offset", value, txn from complete
        where f = {F.SEND:d} and type = {Type.OK:d} and "offset" >= 0
    ), reached as (
        select topic, partition, max("offset") as reached from record where process not in ($members)
        group by topic, partition
    )
    select topic, partition, "offset" from sends join reached using (topic, partition)
    where "offset" <= reached and not exists (
        select 1 from record where record.value = sends.value and (sends.txn is null or process not in ($uncommitted))
    )
"""
DUPLICATE = f"""
    select any_value(topic), any_value(partition), min(place) from (
        select value, topic, partition, "offset" as place from record where status = 0
        union all select value, topic, partition, "offset" from complete
        where f = {F.SEND:d} and type = {Type.OK:d} and "offset" >= 0
    ) group by value having min(place) < max(place)
"""
INCONSISTENT = f"""
    select topic, partition, "offset" from (
        select topic, partition, "offset", value from record where status in (0, 2)
        union all select topic, partition, "offset", value from complete
        where f = {F.SEND:d} and type = {Type.OK:d} and "offset" >= 0
    ) group by topic, partition, "offset" having min(value) < max(value)
"""
POLL_ORDER = """
    select topic, partition, "offset" from (
        select topic, partition, "offset",
            lag("offset") over (partition by process, topic, partition order by event) as before
        from record where process not in ($members)
    ) where "offset" <= before
"""
_ANSWERS = f"""
    answers as (
        select api, topic, partition, -1 as scope, invoked, time,
            case api when {Api.FETCH:d} then high_watermark else "offset" end as shown
        from probe
        where error = 0 and (api = {Api.FETCH:d} or (api = {Api.LIST_OFFSETS:d} and "view" = {OffsetView.LATEST:d}))
        union all
        select api, topic, partition,
            case when api_version < {FETCH_OF_FOLLOWERS} and leader_epoch is not null then -1 else node end,
            invoked, time, case api when {Api.FETCH:d} then high_watermark else "offset" end
        from exchange where error = 0 and type = {Type.OK:d}
            and (api = {Api.FETCH:d} or (api = {Api.LIST_OFFSETS:d} and "view" = {OffsetView.LATEST:d}))
    )
"""
REGRESSION = f"""
    with {_ANSWERS}, points as (
        select api, topic, partition, scope, invoked as instant, 0 as raises, null as mark, shown from answers
        union all select api, topic, partition, scope, time, 1, shown, null from answers
    )
    select topic, partition, shown from (
        select topic, partition, shown, max(mark) over (
            partition by api, topic, partition, scope order by instant, raises rows unbounded preceding
        ) as before from points
    ) where before > shown
"""
VISIBILITY = f"""
    with {_ANSWERS}, points as (
        select topic, partition, invoked as instant, 0 as raises, null as acknowledged, shown from answers
        union all select topic, partition, time, 1, "offset", null from complete
        where f = {F.SEND:d} and type = {Type.OK:d} and "offset" >= 0
    )
    select topic, partition, shown from (
        select topic, partition, shown, max(acknowledged) over (
            partition by topic, partition order by instant, raises rows unbounded preceding
        ) as highest from points
    ) where highest >= shown
"""
QUESTIONS = {
    "lost-write": LOST,
    "duplicate": DUPLICATE,
    "inconsistent-offset": INCONSISTENT,
    "nonmonotonic-poll": POLL_ORDER,
    "watermark-regression": REGRESSION,
    "watermark-behind-ack": VISIBILITY,
}


@dataclass(frozen=True)
class Duck:
    """The files of a history as views of a database in memory."""

    sealed: Sealed
    scratch: Path
    threads: int = 2

    def ask(self) -> dict[str, list[tuple[int, int, int]]]:
        """Of each question: topic, partition and offset, or what was shown, of all that is wrong."""
        import duckdb

        with duckdb.connect(config={"threads": self.threads, "temp_directory": str(self.scratch)}) as database:
            for kind in (Kind.COMPLETE, Kind.RECORD, Kind.PROBE, Kind.EXCHANGE):
                self._view(database, kind)
            return {name: sorted(database.execute(self._filled(sql)).fetchall()) for name, sql in QUESTIONS.items()}

    def _view(self, database: DuckDBPyConnection, kind: Kind) -> None:
        files = ", ".join(f"'{path}'" for path in self.sealed.files[kind])
        database.execute(f"create view {kind.name.lower()} as select * from read_parquet([{files}])")

    def _filled(self, sql: str) -> str:
        return sql.replace("$members", self._processes("group", value=True)).replace(
            "$uncommitted", self._processes("isolation", value="read_uncommitted")
        )

    def _processes(self, what: str, value: object) -> str:
        numbers = [str(number) for number, about in self.sealed.processes.items() if about.get(what) == value]
        return ", ".join(numbers) or "null"
