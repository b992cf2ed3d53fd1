"""Short names."""

from __future__ import annotations

from harness.report.names import Names, counted

ONE = Names(("tg-1a2b3c4d-orders",))
TWO = Names(("tg-1a2b3c4d-orders", "tg-1a2b3c4d-outputs"))


def test_a_partition_of_a_run_with_one_topic_is_a_number() -> None:
    """The topic is said once, elsewhere."""
    assert ONE.partition("tg-1a2b3c4d-orders", 3) == ONE.place("tg-1a2b3c4d-orders-3") == "p3"
    assert ONE.topic == "tg-1a2b3c4d-orders"
    assert ONE.shortened("leader of tg-1a2b3c4d-orders-1: 2 → 1") == "leader of p1: 2 → 1"


def test_partitions_of_several_topics_have_theirs_without_what_all_share() -> None:
    """Cut at a hyphen."""
    assert TWO.place("tg-1a2b3c4d-outputs-0") == "outputs p0"
    assert TWO.topic is None
    assert TWO.shortened("leader of tg-1a2b3c4d-orders-1: 2 → 1") == "leader of orders p1: 2 → 1"


def test_what_is_not_known_is_not_made_up() -> None:
    """A finding may have no partition."""
    assert ONE.partition(None, None) == "p?"


def test_a_message_is_named_by_its_producer_and_number() -> None:
    """Unless the history came from elsewhere: then its bits mean nothing."""
    assert ONE.value((3 << 40) + 17) == "producer 3 #17"
    assert Names(foreign=True).value(17) == "value 17"


def test_anchors_hold_nothing_of_a_name() -> None:
    """Topics are numbered."""
    assert [TWO.anchor(place) for place in ("tg-1a2b3c4d-outputs-4", "unknown-0")] == ["1-4", "2-0"]


def test_counts() -> None:
    """One is singular."""
    assert (counted(1, "event"), counted(1_200, "event"), counted(2, "anomaly", "anomalies")) == (
        "1 event",
        "1,200 events",
        "2 anomalies",
    )
