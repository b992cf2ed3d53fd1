"""The verdict on traffic alone says what it could and could not judge."""

from __future__ import annotations

import pytest

from checkers.core.results import Anomaly, CheckResults
from harness.judging.policies import RunFacts
from harness.judging.verdict import decide


def reasons(*looked_at: str, exchanges: int) -> list[str]:
    """Of a recording in which these anomalies could be looked for."""
    names = {"watermark-regression", "end-offset-regression", "metadata-regression", "not-leader-loop", *looked_at}
    anomalies = {name: Anomaly(name, "", int(name in looked_at)) for name in sorted(names)}
    results = CheckResults(events=max(exchanges, 1), anomalies=anomalies)
    return [
        str(each) for each in decide(results, RunFacts(traffic_only=True, known=False, exchanges=exchanges)).reasons
    ]


def test_producers_alone_are_judged_as_far_as_they_go() -> None:
    """It said that nothing passed that can be checked, above hundreds of sends that had passed and were checked."""
    (said,) = reasons("not-leader-loop", "metadata-regression", exchanges=652)
    assert said.startswith("of 652 exchanges at the taps none showed watermarks twice")
    assert said.endswith("judged were metadata-regression, not-leader-loop")


def test_many_names_are_cut() -> None:
    """The rest is in the results."""
    (said,) = reasons(*(f"anomaly-{number}" for number in range(9)), exchanges=5)
    assert said.endswith("anomaly-5 and 3 more")


@pytest.mark.parametrize(
    ("exchanges", "said"),
    [(0, "nothing passed the taps"), (12, "12 exchanges passed the taps, and none of them can be checked")],
)
def test_nothing_to_judge(exchanges: int, said: str) -> None:
    """Because nothing came, or nothing of use."""
    assert reasons(exchanges=exchanges) == [said]


def test_watermarks_are_enough() -> None:
    """What moves them was judged."""
    assert reasons("watermark-regression", exchanges=12) == []
