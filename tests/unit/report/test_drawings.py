"""What a chart is drawn from."""

from harness.report.charts import PlotArea
from harness.report.drawings import _stretches

NS = 1_000_000_000


def test_leaders_are_drawn_from_one_change_to_the_next() -> None:
    """And to the end of what is shown; a partition of which nobody said who leads it has nothing to draw."""
    changes = [[2 * NS, 1, 0, "1,2,3"], [5 * NS, 2, 1, "2,3"]]
    drawn = _stretches("p0", changes, PlotArea(0, 9))
    assert [(each["from"], each["to"], each["whole"]) for each in drawn] == [(2, 5, True), (5, 9, False)]
    assert _stretches("p0", [], PlotArea(0, 9)) == []
