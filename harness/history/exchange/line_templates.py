"""Text without its numbers: what many lines of a history have in common, so that one of them is read for all.

Lines that differ in whole numbers alone have one skeleton. numpy takes the numbers out of a megabyte of text at once;
what a skeleton means is found out by reading it as a line with other numbers in the places of those, twice: what is
different then is made of them (`filled`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from harness.history.exchange.columns import Numbers, runs_of

PLACE = b"\xff"  # of a number; as UTF-8 has no such byte, no text has it
DIGITS_AT_MOST = 19
FIRST_FILLING, SECOND_FILLING = 1_000_000_000_000, 2_000_000_000_000
_PADDING = 24  # so that a number is read in words of eight digits, wherever it is
# Digits that are no number on their own stay; while the others go, control characters stand for them.
_DIGITS, _HIDDEN = b"0123456789", bytes(range(14, 24))
_SHOW = bytes.maketrans(_HIDDEN, _DIGITS)

LEARNED_FROM = 4  # lines that are alike: to learn from one costs as much as to read a few
LEARNED_AT_MOST = 1_000  # skeletons, with all their texts
OTHERS_AT_MOST = 0.5  # of all lines
_UNKNOWN, _MEANINGLESS = -1, -2

Bytes = npt.NDArray[np.uint8]
T = TypeVar("T")


class Grammar:
    """What may stand before and after a whole number that stands on its own."""

    def __init__(self, before: bytes, after: bytes) -> None:
        self.before, self.after = np.zeros(256, np.bool_), np.zeros(256, np.bool_)
        self.before[np.frombuffer(before, np.uint8)] = True
        self.after[np.frombuffer(after, np.uint8)] = True


def without_numbers(raw: bytes, grammar: Grammar) -> tuple[bytes, Numbers] | None:
    """The text with a place for each number, and the numbers; None for a text with odd control characters.

    Numbers are what JSON and EDN take for one: without a leading zero, and here such as fit into 63 bits. A sign stays
    where it is.
    """
    padded = np.frombuffer(b"%b%b\n" % (b"\n" * _PADDING, raw), np.uint8)
    edges = _edges(padded)
    starts, ends = edges[::2], edges[1::2]
    lengths = ends - starts
    plain = grammar.before[padded[starts - 1]] & grammar.after[padded[ends]]
    plain &= ((padded[starts] != ord("0")) | (lengths == 1)) & (lengths <= DIGITS_AT_MOST)
    numbers = _numbers(padded, ends, lengths)
    plain &= numbers < 1 << 63
    marked = padded.copy()
    if plain.all():
        marked[starts] = PLACE[0]
        return marked[_PADDING:-1].tobytes().translate(None, _DIGITS), numbers.astype(np.int64)
    if len(raw.translate(None, _HIDDEN)) != len(raw):
        return None
    marked[runs_of(starts[~plain], lengths[~plain])] -= ord("0") - _HIDDEN[0]
    marked[starts[plain]] = PLACE[0]
    text = marked[_PADDING:-1].tobytes().translate(None, _DIGITS).translate(_SHOW)
    return text, numbers[plain].astype(np.int64)


def _edges(padded: Bytes) -> npt.NDArray[np.intp]:
    """Where digits begin and where they end, in turn."""
    shifted = padded - ord("0")
    digits = np.less(shifted, 10, out=shifted.view(np.bool_))
    return np.flatnonzero(digits[1:] != digits[:-1]) + 1


def _numbers(padded: Bytes, ends: npt.NDArray[np.intp], lengths: npt.NDArray[np.intp]) -> npt.NDArray[np.uint64]:
    """What digits say, of numbers of at most 19 digits; eight digits at a time."""
    words = np.ndarray((len(padded) - 7,), np.dtype("<u8"), padded, strides=(1,))
    numbers = _eight_digits(words[ends - 8], lengths)
    for digits, factor in ((8, 10**8), (16, 10**16)):
        longer = np.flatnonzero(lengths > digits)
        if len(longer):
            higher = _eight_digits(words[ends[longer] - digits - 8], lengths[longer] - digits)
            numbers[longer] += higher * np.uint64(factor)
    return numbers


_DIGITS_OF_WORD = np.array(
    [0xFFFF_FFFF_FFFF_FFFF << 8 * (8 - count) & 0x0F0F_0F0F_0F0F_0F0F for count in range(9)], np.uint64
)


def _eight_digits(words: npt.NDArray[np.uint64], lengths: npt.NDArray[np.intp]) -> npt.NDArray[np.uint64]:
    """The numbers that the last digits of words are: pairs of digits first, then pairs of those, and of those."""
    words &= _DIGITS_OF_WORD[np.minimum(lengths, 8)]
    words = (words * np.uint64(10) + (words >> np.uint64(8))) & np.uint64(0x00FF_00FF_00FF_00FF)
    words = (words * np.uint64(100) + (words >> np.uint64(16))) & np.uint64(0x0000_FFFF_0000_FFFF)
    return (words * np.uint64(10_000) + (words >> np.uint64(32))) & np.uint64(0xFFFF_FFFF)


def filled(skeleton: bytes, first: int) -> str:
    """A line with this skeleton: its numbers rise from `first`."""
    pieces = skeleton.split(PLACE)
    numbers = [str(first + place).encode() for place in range(len(pieces) - 1)]
    return b"".join(part for pair in zip(pieces, [*numbers, b""], strict=True) for part in pair).decode()


class TemplateCache(Generic[T]):
    """Numbers what skeletons mean, and learns that of those that come again."""

    def __init__(self, learn: Callable[[bytes], T | None]) -> None:
        self._learn = learn  # None: it means nothing that could be said of all lines with it
        self._known: dict[bytes, int] = {}
        self._met: Counter[bytes] = Counter()  # how often skeletons came that are not known
        self.meanings: list[T] = []

    def full(self) -> bool:
        """Whether so much was learned that it is time to begin anew."""
        return max(len(self.meanings), len(self._met) // LEARNED_FROM) > LEARNED_AT_MOST

    def which(self, skeletons: Sequence[bytes]) -> Numbers:
        """The number of each one's meaning; -1 where it has none, or none yet."""
        found = np.fromiter(map(self._known.get, skeletons, repeat(_UNKNOWN)), np.int64, len(skeletons))
        unknown = np.flatnonzero(found == _UNKNOWN).tolist()
        for place in unknown:
            skeleton = skeletons[place]
            self._met[skeleton] += 1
            if self._met[skeleton] == LEARNED_FROM:
                meaning = self._learn(skeleton)
                self._known[skeleton] = _MEANINGLESS if meaning is None else len(self.meanings)
                self.meanings += [] if meaning is None else [meaning]
        for place in unknown:
            found[place] = self._known.get(skeletons[place], _UNKNOWN)
        return np.maximum(found, _UNKNOWN)


def too_many(others: int, lines: int) -> bool:
    """Whether so many lines have to be read one at a time that it does not pay to read the rest together."""
    return others > OTHERS_AT_MOST * lines
