"""Order: what consumers were handed in turn, and what producers got in turn."""

from __future__ import annotations

from checkers.frame import Family, Study

FAMILIES: tuple[Family, ...] = ()
STUDIES: tuple[Study, ...] = ()
