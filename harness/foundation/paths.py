"""Where Tidegauge keeps things: downloads that last (cache) and what exists only while something runs (state).

`TIDEGAUGE_HOME` moves both; otherwise the XDG directories are used. The store of runs is elsewhere: `TIDEGAUGE_STORE`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from harness.foundation.errors import CannotHere

HOME_VARIABLE = "TIDEGAUGE_HOME"
STORE_VARIABLE = "TIDEGAUGE_STORE"
PACKAGE = Path(str(files("harness")))


def _base(xdg_variable: str, default: str, part: str) -> Path:
    try:
        if home := os.environ.get(HOME_VARIABLE):
            return Path(home).expanduser().absolute() / part
        base = Path(os.environ.get(xdg_variable, ""))
        if not base.is_absolute():  # the XDG specification has relative ones ignored
            base = Path.home() / default
    except RuntimeError as error:
        raise CannotHere(f"there is no home directory ({error})", f"set HOME or {HOME_VARIABLE}") from None
    return base / "tidegauge"


def cache_dir() -> Path:
    """Jars and other downloads: kept between runs, safe to delete."""
    return _base("XDG_CACHE_HOME", ".cache", "cache")


def state_dir() -> Path:
    """One directory per running cluster, and port leases: empty when nothing runs."""
    return _base("XDG_STATE_HOME", ".local/state", "state")


def nearest(path: Path) -> Path:
    """The directory itself, or the one above it in which it would be made."""
    while not path.exists():
        path = path.parent
    return path


def clusters_dir() -> Path:
    """The parent of every running cluster's directory."""
    return state_dir() / "clusters"


def cluster_dirs() -> Iterator[Path]:
    """The directories of the clusters that exist now."""
    parent = clusters_dir()
    if parent.is_dir():
        yield from sorted(p for p in parent.iterdir() if p.is_dir())


def compose_file() -> Path:
    """docker-compose.yml: at the top of a checkout, inside the package when installed from a wheel."""
    packaged = PACKAGE / "clusters" / "docker-compose.yml"
    return packaged if packaged.exists() else PACKAGE.parent / "docker-compose.yml"
