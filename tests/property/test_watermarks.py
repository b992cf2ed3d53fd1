"""However a history is cut, the same is found of watermarks; and running maxima are what they are said to be."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.core.arrays import NONE
from checkers.shared.epochs import FAMILIES as EPOCHS
from checkers.watermarks.earlier_answers import EarlierAnswers
from checkers.watermarks.family import FAMILIES as WATERMARKS
from tests.oracle.watermarks import write
from tests.support.histories import Rows
from tests.support.kernels import Size, check_rows, findings_of

FAR = 1 << 61
MOMENTS = st.one_of(st.integers(0, 8), st.sampled_from([-FAR, FAR - 1, FAR]))
ANSWERS = st.lists(
    st.tuples(
        st.integers(0, 2) | st.just(1000), MOMENTS, MOMENTS, st.integers(0, 4) | st.sampled_from([NONE, -FAR, FAR])
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**32),
    stretch=st.sampled_from([1, 4, 64]),
    buckets=st.integers(1, 9),
    chunk=st.integers(5, 400),
)
def test_the_same_is_found_in_pieces(seed: int, stretch: int, buckets: int, chunk: int) -> None:
    """With all of their evidence, in as much that was looked at."""
    random, rows = Random(seed), Rows()
    for topic in range(40):
        rows.topics[topic] = f"t{topic}"
        write(rows, topic, random)
    whole, failures = check_rows(rows, [*EPOCHS, *WATERMARKS])
    cut, others = check_rows(rows, [*EPOCHS, *WATERMARKS], Size(stretch, buckets, chunk))
    assert not failures + others
    findings = [sorted(map(repr, findings_of(rows, outcomes))) for outcomes in (whole, cut)]
    assert findings[0]
    assert findings[0] == findings[1]
    for name in whole:
        assert whole[name].looked_at == cut[name].looked_at
        assert whole[name].findings.counts == cut[name].findings.counts


@given(answers=ANSWERS)
def test_what_had_been_shown_before(answers: list[tuple[int, int, int, int]]) -> None:
    """By every answer that had ended, whatever the order of the rows; the last of those that had shown most is told."""
    lane, invoked, time, mark = (np.array(column, np.int64) for column in zip(*answers, strict=True))
    before = EarlierAnswers(lane, invoked, time, np.arange(len(answers)))
    for number, (mine, asked, _, _) in enumerate(answers):
        over = [
            (shown, ended, other)
            for other, (of, _, ended, shown) in enumerate(answers)
            if of == mine and ended < asked and shown != NONE
        ]
        expected = max(over, default=(NONE, 0, -1))
        assert before.highest(mark)[number] == expected[0]
        assert before.who(mark)[number] == expected[2]
