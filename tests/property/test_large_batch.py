"""The table of the large batch, against a naive computation."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from workloads.large_batch import Outcome, Settings

Records = dict[int, list[tuple[int, int]]]


@st.composite
def outcomes(draw: st.DrawFn) -> Outcome:
    """Any number of messages, received in any partition at any offset, any number of times."""
    settings = Settings(messages=draw(st.integers(1, 30)), partitions=draw(st.integers(1, 4)))
    record = st.tuples(st.integers(0, 40), st.integers(0, settings.messages - 1))
    received: Records = draw(st.dictionaries(st.integers(0, settings.partitions - 1), st.lists(record, max_size=30)))
    return Outcome(settings, acknowledged=draw(st.integers(0, settings.messages)), received=received)


@given(outcomes())
def test_rows_agree_with_counting(outcome: Outcome) -> None:
    """Expected, arrived, share, deviation, offsets and gaps of every partition, counted one by one."""
    settings = outcome.settings
    for partition, row in enumerate(outcome.rows()):
        records = outcome.received.get(partition, [])
        offsets = sorted({offset for offset, _ in records})
        assert row.partition == partition
        assert row.expected == sum(1 for n in range(settings.messages) if n % settings.partitions == partition)
        assert row.messages == len(records)
        assert row.share == len(records) / settings.messages
        assert row.deviation == len(records) - row.expected
        assert (row.first_offset, row.last_offset) == ((offsets[0], offsets[-1]) if offsets else (None, None))
        missing = [n for n in range(offsets[0], offsets[-1]) if n not in offsets] if offsets else []
        assert row.gaps == len(missing)


@given(outcomes())
def test_totals_agree_with_counting(outcome: Outcome) -> None:
    """Distinct, duplicates, imbalance and completeness, and the table adds up."""
    numbers = Counter(number for records in outcome.received.values() for _, number in records)
    counts = [len(outcome.received.get(partition, [])) for partition in range(outcome.settings.partitions)]
    assert outcome.distinct == len(numbers)
    assert outcome.duplicates == sum(times - 1 for times in numbers.values())
    assert outcome.imbalance() == max(counts) - min(counts)
    once = all(numbers[n] == 1 for n in range(outcome.settings.messages))
    assert outcome.complete == (once and outcome.acknowledged == outcome.settings.messages)
    assert sum(row.messages for row in outcome.rows()) == outcome.distinct + outcome.duplicates
    assert sum(row.expected for row in outcome.rows()) == outcome.settings.messages


@given(st.integers(0, 200), st.integers(1, 6))
def test_a_perfect_run_is_complete(messages: int, partitions: int) -> None:
    """Every message once, where it belongs: no deviation, no gaps, an imbalance of at most one."""
    received: Records = {}
    for number in range(messages):
        received.setdefault(number % partitions, []).append((number // partitions, number))
    outcome = Outcome(Settings(messages=messages, partitions=partitions), acknowledged=messages, received=received)
    assert outcome.complete
    assert outcome.imbalance() <= 1
    assert [(row.deviation, row.gaps, row.low) for row in outcome.rows()] == [(0, 0, False)] * partitions
