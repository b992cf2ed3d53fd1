"""Wherever time is cut for the running maxima of watermarks, the same is found."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.frame import History, tally
from checkers.watermarks import WATERMARKS
from tests.histories import Rows
from tests.oracle.watermarks import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@settings(max_examples=2)
@given(seed=st.integers(0, 2**32), chunk_rows=st.integers(2, 60))
def test_a_running_maximum_is_the_same_in_chunks(spark: SparkSession, seed: int, chunk_rows: int) -> None:
    """The same answers have fallen."""
    random = Random(seed)
    rows = Rows()
    for topic in range(40):
        rows.topics[topic] = f"t{topic}"
        write(rows, topic, random)
    with tempfile.TemporaryDirectory() as directory:
        sealed = rows.store(Path(directory))
        whole, chunked = History(spark, sealed), History(spark, sealed, chunk_rows=chunk_rows)
        counts = [sorted(tally(WATERMARKS, h, WATERMARKS.rules).collect()) for h in (whole, chunked)]
        columns = ("anomaly", "topic", "partition", "nodes", "tags", "time")
        findings = [
            sorted(map(str, WATERMARKS.findings(history).select(*columns).collect())) for history in (whole, chunked)
        ]
    assert counts[0] == counts[1]
    assert findings[0]
    assert findings[0] == findings[1]
