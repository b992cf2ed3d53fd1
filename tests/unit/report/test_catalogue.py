"""The page of all anomalies is what the code says."""

from __future__ import annotations

from harness.report.catalogue import PAGE, page
from harness.report.meanings import MEANINGS


def test_the_page_is_up_to_date() -> None:
    """`make schema` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_anomaly_has_a_meaning() -> None:
    """And every meaning an anomaly."""
    rows = [line.split(" | ") for line in page().splitlines() if line.startswith("| ")][2:]
    assert {name.removeprefix("| ") for name, *_ in rows} == set(MEANINGS)
