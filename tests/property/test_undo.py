"""The journal: wherever the file ends, what is read is a beginning of what was written."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.clusters.cleanup.undo import JOURNAL, Entry, read, record

entries = st.lists(st.fixed_dictionaries({"kind": st.text(max_size=8), "value": st.text(max_size=20)}), max_size=6)


@given(entries, st.data())
def test_a_truncated_journal_is_a_prefix(written: list[Entry], data: st.DataObject) -> None:
    """Every line that is whole is read, in order, and nothing else; the whole file gives everything."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for entry in written:
            record(directory, entry)
        assert read(directory) == written
        journal = directory / JOURNAL
        content = journal.read_bytes() if written else b""
        end = data.draw(st.integers(0, len(content)))
        journal.write_bytes(content[:end])
        left = read(directory)
    assert left == written[: len(left)]
    assert len(left) >= content[:end].count(b"\n")
