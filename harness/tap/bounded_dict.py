"""A dictionary that forgets its oldest entries: what clients can make grow must not grow without end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

REMEMBERED = 10_000


class BoundedDict(OrderedDict[K, V]):
    """A dictionary that forgets its oldest entries."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self.limit:
            self.popitem(last=False)
