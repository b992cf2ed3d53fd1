"""How fast something goes, and how long the rest of it will take: for whoever shows progress."""

from __future__ import annotations

from collections.abc import Mapping

RATE_WINDOW_S = 2.0
SOON_S = 1.0  # a pace of less than this is none


class Rates:
    """Operations per second by outcome, over the last seconds."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, Mapping[str, int]]] = []

    def of(self, counts: Mapping[str, int], now_s: float) -> dict[str, float]:
        """The rates now, given the counts so far."""
        self._seen = [*(entry for entry in self._seen if now_s - entry[0] <= RATE_WINDOW_S), (now_s, dict(counts))]
        then_s, before = self._seen[0]
        passed_s = now_s - then_s
        return {name: (counts[name] - before.get(name, 0)) / passed_s if passed_s else 0.0 for name in counts}


class Pace:
    """Of one piece of work of a known size."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s

    def said(self, done: float, total: float, unit: str, now_s: float) -> str:
        """`45 of 127 archives, 9/s, 9 s left`; no rate before there is one."""
        passed_s = now_s - self._began_s
        size = f"{done:,.0f} of {total:,.0f}{' ' if unit else ''}{unit}"
        if passed_s < SOON_S or not 0 < done < total:
            return size
        rate = done / passed_s
        speed = f"{rate:,.0f}/s" if rate >= 1 else f"{rate * 60:,.0f}/min"
        return f"{size}, {speed}, {lasting((total - done) / rate)} left"


def bar(share: float, width: int) -> tuple[str, str]:
    """What is done and what is left, as lines of letters."""
    filled = round(width * min(1.0, max(0.0, share)))
    return "━" * filled, "╌" * (width - filled)


def lasting(seconds: float) -> str:
    """A duration that changes all the time: 9 s, 2 min 5 s."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
