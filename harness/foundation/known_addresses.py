"""The addresses of the cluster under test: what nothing of ours connects beyond."""

from __future__ import annotations

from collections.abc import Collection, Iterable

_LOCAL = {"localhost": "127.0.0.1", "[::1]": "127.0.0.1"}
_kept_to: set[str] = set()  # of this process; empty: it has no cluster of its own


def plain(address: str) -> str:
    """An address as it is compared with others: this machine has several names."""
    host, _, port = address.rpartition(":")
    return f"{_LOCAL.get(host, host)}:{port}"


def outside(addresses: Iterable[str], known: Collection[str]) -> list[str]:
    """Those of the addresses that are not of the cluster, in order."""
    return sorted(set(map(plain, addresses)) - set(map(plain, known)))


def keep_to(addresses: Iterable[str]) -> None:
    """From now on, clients of this process connect to these addresses, and to those that they are given to start."""
    _kept_to.update(addresses)


def known_with(servers: Collection[str]) -> frozenset[str]:
    """Where clients of this process may connect to that start from these; nothing if nobody said so."""
    return frozenset({*_kept_to, *servers}) if _kept_to else frozenset()
