"""Undoes what was left behind by a harness that died together with its supervisor; what lives is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.clusters.cleanup.guard import is_abandoned
from harness.clusters.cleanup.undo import Entry, read, undo_all
from harness.foundation.paths import cluster_dirs

PATIENCE_S = 5.0
_DONE = {
    "thaw": "the file system at {} was thawed",
    "network": "restored the network of {}",
    "processes": "the processes of {} were ended",
    "compose": "the containers and networks of {} were removed",
    "netns": "the network namespace {} was removed",
    "link": "the network link {} was removed",
    "shared": "the file {} was removed",
    "mount": "the file system at {} was unmounted",
}


@dataclass
class Healed:
    """What `heal` found: sentences, and the names of clusters that somebody still watches."""

    undone: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        """All of it, for people."""
        nothing = [] if self.undone or self.left else ["nothing was left behind"]
        alive = [f"{name} is in use and was not touched" for name in self.alive]
        return [*nothing, *self.undone, *(f"could not be undone: {each}" for each in self.left), *alive]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def heal() -> Healed:
    """Undo the journal of every cluster that nobody watches any more; done twice, it finds nothing to do."""
    found = Healed()
    for directory in cluster_dirs():
        if not is_abandoned(directory):
            found.alive.append(directory.name)
            continue
        entries = read(directory)
        left = undo_all(directory, PATIENCE_S)
        found.left += [f"{directory.name}: {each}" for each in left]
        found.undone += [f"{directory.name}: {each}" for each in _sentences(directory, entries, left)]
    return found


def _sentences(directory: Path, entries: list[Entry], left: list[str]) -> Iterator[str]:
    for kind, value in {(entry["kind"], entry["value"]): None for entry in entries}:
        if kind in _DONE and not any(each.startswith(f"{kind} {value}: ") for each in left):
            yield _DONE[kind].format(value)
    if not directory.exists():
        yield "its directory was removed"
