"""What anomalies come to, in a few words."""

from typing import Any

from checkers.core.results import CheckResults, Finding
from checkers.summaries.figures import Figures
from harness.judging.diagnosis.harm import HARM_OF
from harness.judging.policies import Mark
from harness.judging.policies.marks import WORDS
from harness.judging.sentences.consequences import CONSEQUENCES, CYCLES, allowed, broken_promises
from harness.judging.verdict import MarkedFinding, SeenAnomaly
from harness.report.meanings import MEANINGS

ACKS = (("acks", "1"),)


def seen(anomaly: str, found: int, mark: Mark | None = None, **facts: Any) -> SeenAnomaly:
    """An anomaly, with a finding that has these facts."""
    mark = mark or Mark("illegal")
    one = Finding(anomaly, "t", 0, 5, (7,), (), (), 1, None, (), (), "", facts)
    return SeenAnomaly(anomaly, found, mark, (MarkedFinding(one, mark),))


def results(**figures: Any) -> CheckResults:
    """What a run did."""
    return CheckResults(figures=Figures(sent=100, acknowledged=90, **figures))


def test_every_anomaly_has_its_words() -> None:
    """But for cycles of transactions, which share theirs; none is there that nobody looks for."""
    cycles = {name for name in MEANINGS if name[0] == "G"}
    assert set(MEANINGS) - cycles == set(CONSEQUENCES)
    assert set(HARM_OF) - cycles <= set(CONSEQUENCES)


def test_the_gravest_comes_first() -> None:
    """Lost messages together, sends that were never acknowledged after what is lost and before what is slow."""
    found = [seen("stall", 1), seen("lost-tail", 2), seen("lost-write", 3), seen("torn", 1)]
    assert broken_promises(found, results()) == [
        "5 of 90 acknowledged messages lost", "1 transaction torn", "1 consumer stalled",
    ]  # fmt: skip
    assert broken_promises(found, results(info=10))[1] == "10 of 100 sends never acknowledged"
    assert broken_promises([seen("not-leader-loop", 7)], results(info=10)) == [
        "10 of 100 sends never acknowledged", "clients bounced between brokers",
    ]  # fmt: skip
    assert broken_promises([seen("G2", 2)], results()) == [f"2 {CYCLES[1]}"]


def test_what_is_allowed_is_one_line_with_its_consequence() -> None:
    """The gravest of it, with the reason in a few words."""
    weak = Mark("allowed", "weak-acks-visibility", ACKS)
    late = seen("watermark-behind-ack", 1, weak, proofs=4, x_at=0, y_at=500_000_000)
    order = seen("not-linearizable", 9, Mark("allowed", "weak-acks-end", ACKS))
    said = "acks=1: 4 acknowledged messages were not yet visible for up to 500 ms"
    assert allowed([late, order]) == allowed([order, late]) == said
    assert allowed([order]) == "acks=1: 9 acknowledged messages were not yet visible"
    lost = seen("lost-write", 1, Mark("allowed", "weak-acks", ACKS))
    assert allowed([late, lost, order]) == "acks=1: 1 acknowledged message lost (and 1 other kind)"
    assert allowed([seen("lost-write", 1)]) == ""


def test_waits_are_told_by_how_long_they_were() -> None:
    """In a unit that people think in."""
    stall = seen("stall", 3, Mark("allowed", "within-limit"), lasted_ns=9_600_000_000)
    assert allowed([stall]) == "within the limits: a consumer waited up to 9.6 s for records that were there"


def test_a_reason_without_short_words_is_told_in_full() -> None:
    """As it is in the report."""
    said = f"{WORDS['renumbered']}: 1 message stored twice"
    assert allowed([seen("duplicate", 1, Mark("allowed", "renumbered"))]) == said
