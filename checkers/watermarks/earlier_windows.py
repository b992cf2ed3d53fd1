"""For each answer the highest mark of its lane that had been shown before, one window of time after the other.

Of a partition of any length a window is all that is looked at together. What windows before it showed is carried as one
maximum of each lane. An answer belongs to the window in which it ended; if it was asked for in an earlier one, that is
where it is held against others: it is *late*, and there are no more late answers than requests were under way when a
window began.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, Ints, ints
from checkers.core.piece import Piece, Window
from checkers.watermarks.earlier_answers import EarlierAnswers
from checkers.watermarks.fallen_marks import LIFE, ShownMarks

LANE = ("api", *LIFE, "scope")


@dataclass(frozen=True)
class AskedWindow:
    """Answers that were asked for in one window, and what had been shown before each."""

    answers: pl.DataFrame
    shown: ShownMarks
    asked: Bools  # whether it was asked for in this window: the others are here for what they show
    highest: Mapping[str, Ints]  # by mark


def asked_windows(piece: Piece, marks: Collection[str]) -> Iterator[AskedWindow]:
    """All answers of a piece, each asked for once."""
    if piece.is_short:
        answers = pl.concat(piece.answer_parts())
        if len(answers):
            yield _asked(Window(answers, NONE, NEVER), answers.clear(), marks, {})
        return
    late, lanes = _late_and_lanes(piece)
    carried = {mark: np.full(len(lanes), NONE) for mark in marks}
    for window in piece.answer_windows():
        here = late.filter((pl.col("invoked") >= window.begin) & (pl.col("invoked") < window.end))
        mine, theirs = (
            rows.join(lanes, on=LANE, how="left", nulls_equal=True, maintain_order="left")
            for rows in (window.answers, here)
        )
        yield _asked(Window(mine, window.begin, window.end), theirs, marks, carried)
        for mark, highest in carried.items():
            np.maximum.at(highest, ints(mine, "lane"), ints(mine, mark))


def in_lanes(piece: Piece, fallen: pl.DataFrame) -> pl.DataFrame:
    """All answers of some lanes, whatever their length."""
    return pl.concat([
        answers.join(fallen, on=LANE, how="semi", nulls_equal=True, maintain_order="left")
        for answers in piece.answer_parts()
    ])  # fmt: skip


def _late_and_lanes(piece: Piece) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Answers that were asked for before the window began in which they ended; and all lanes, numbered."""
    late, lanes = [], []
    for answers, begin, _ in piece.answer_windows():
        late.append(answers.filter(pl.col("invoked") < begin))
        lanes.append(answers.select(LANE).unique())
    return pl.concat(late), pl.concat(lanes).unique().with_row_index("lane")


def _asked(window: Window, late: pl.DataFrame, marks: Collection[str], carried: Mapping[str, Ints]) -> AskedWindow:
    rows = pl.concat([window.answers, late]) if len(late) else window.answers
    shown = ShownMarks.of(rows)
    ended = np.arange(len(shown.time)) < len(window.answers)
    before = EarlierAnswers(shown.lane, shown.invoked, shown.time)
    highest = {mark: before.highest(np.where(ended, shown.marks[mark], NONE)) for mark in marks}
    for mark, below in carried.items():
        highest[mark] = np.maximum(highest[mark], below[shown.lane])
    return AskedWindow(rows, shown, ~ended | (shown.invoked >= window.begin), highest)
