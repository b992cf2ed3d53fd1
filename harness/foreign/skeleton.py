"""Text without its numbers: what many lines of a history have in common, so that one of them is read for all.

Lines that differ in whole numbers alone have one skeleton. numpy takes the numbers out of a megabyte of text at once;
what a skeleton means is found out by reading it as a line with other numbers in the places of those, twice: what is
different then is made of them (`filled`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.foreign.columns import Numbers

PLACE = b"\xff"  # of a number; as UTF-8 has no such byte, no text has it
DIGITS_AT_MOST = 19
FIRST_FILLING, SECOND_FILLING = 1_000_000_000_000, 2_000_000_000_000
_PADDING = 24  # so that a number is read in words of eight digits, wherever it is
# Digits that are no number on their own stay; while the others go, control characters stand for them.
_KEPT = np.arange(14, 24, dtype=np.uint8)
_HIDE = bytes.maketrans(b"0123456789", _KEPT.tobytes())
_SHOW = bytes.maketrans(_KEPT.tobytes(), b"0123456789")

Bytes = npt.NDArray[np.uint8]


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
    if ((padded - _KEPT[0]) < len(_KEPT)).any():
        return None
    digits = (padded - ord("0")) < 10
    edges = np.flatnonzero(digits[1:] != digits[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    lengths = ends - starts
    plain = grammar.before[padded[starts - 1]] & grammar.after[padded[ends]]
    plain &= ((padded[starts] != ord("0")) | (lengths == 1)) & (lengths <= DIGITS_AT_MOST)
    numbers = _numbers(padded, ends, lengths)
    plain &= numbers < 1 << 63
    marked = padded.copy()
    if not plain.all():
        for start, end in zip(starts[~plain].tolist(), ends[~plain].tolist(), strict=True):
            marked[start:end] = np.frombuffer(padded[start:end].tobytes().translate(_HIDE), np.uint8)
        starts, numbers = starts[plain], numbers[plain]
    marked[starts] = PLACE[0]
    text = marked[_PADDING:-1].tobytes().translate(None, b"0123456789")
    return text if plain.all() else text.translate(_SHOW), numbers.astype(np.int64)


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


_DIGITS_OF_WORD = np.array([0xFFFF_FFFF_FFFF_FFFF << 8 * (8 - count) & 0x0F0F_0F0F_0F0F_0F0F for count in range(9)], np.uint64)


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
