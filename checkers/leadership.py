"""Leadership and metadata, as the taps and probes saw them."""

from __future__ import annotations

from checkers.frame import Family, Study

FAMILIES: tuple[Family, ...] = ()
STUDIES: tuple[Study, ...] = ()
