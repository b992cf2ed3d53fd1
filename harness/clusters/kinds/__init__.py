"""The kinds of clusters: whatever module in here has a `KIND`. `base.py` says what a kind is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from harness.clusters.flags import DEFAULT_KIND
from harness.clusters.kinds.base import ClusterKind
from harness.foundation.discovery import modules_with
from harness.foundation.errors import UsageError


def kinds_in(directories: Iterable[str]) -> dict[str, ClusterKind]:
    """Those in the modules of this package that are in these directories: the default, and the others by name."""
    found: list[ClusterKind] = [each.KIND for each in modules_with("KIND", __name__, directories, (DEFAULT_KIND,))]
    return {kind.name: kind for kind in found}


KINDS: dict[str, ClusterKind] = kinds_in(__path__)


def kind_named(name: str) -> ClusterKind:
    """The kind of this name."""
    if name not in KINDS:
        raise UsageError(f"there is no kind of cluster '{name}', only {', '.join(KINDS)}", _nearest(name))
    return KINDS[name]


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, KINDS, n=1)
    return f"did you mean '{near[0]}'?" if near else "choose one of them"
