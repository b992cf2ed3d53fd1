"""The steps of a check, wherever they are made: in one task, in many, or in a test without Spark.

A kernel that fails, or takes longer than its budget, is named; the others still report.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkers.core.budget import OverBudgetError
from checkers.core.family import Family, FamilyResult
from checkers.core.piece import Piece
from checkers.core.run import RunContext

ERROR_CHARACTERS = 300
STEPS = 4  # survey, gather, judge, conclude


@dataclass
class CheckState:
    """What came of each family so far; `failures` has the first sentence about each that failed."""

    run: RunContext
    families: Sequence[Family]
    budget_s: float = 600.0
    surveys: dict[str, list[Any]] = field(default_factory=dict)
    gathered: dict[str, Any] = field(default_factory=dict)
    judged: dict[str, list[Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    spent_s: dict[str, float] = field(default_factory=dict)
    progress_file: str = ""  # where to say how far it is; nowhere unless given
    step: int = 0  # of STEPS
    asked: int = 0  # families, in this step

    def survey(self, piece: Piece) -> None:
        """Every family, of one piece."""
        for family in self._whole():
            with self._failing(family):
                self.surveys.setdefault(family.name, []).append(family.survey(piece, self.run))

    def gather(self) -> None:
        """When all pieces were surveyed."""
        for family in self._whole():
            with self._failing(family):
                self.gathered[family.name] = family.gather(self.surveys.pop(family.name, []), self.run, self.gathered)

    def by_value(self) -> list[Family]:
        """Those that want pieces of whole values; none if what no piece settled is little: then that is judged here."""
        families = [family for family in self._whole() if family.by_value]
        fates = self.gathered.get("fates")
        if not self.run.many or fates is None or fates.by_value:
            return families
        self.judge(Piece({"sends": fates.sends, "records": fates.records}, self.run), families)
        self.resume(families)
        return []

    def to_judge(self) -> list[Family]:
        """Those whose pieces have to be judged."""
        wanting = []
        for family in self._whole():
            with self._failing(family):
                if not family.by_value and family.needs_judging(self.gathered[family.name], self.run, self.gathered):
                    wanting.append(family)
        return wanting

    def judge(self, piece: Piece, families: Sequence[Family]) -> None:
        """These families, of one piece."""
        for family in families:
            if family.name not in self.failures:
                with self._failing(family):
                    judged = family.judge(piece, self.gathered[family.name], self.run, self.gathered)
                    self.judged.setdefault(family.name, []).append(judged)

    def resume(self, families: Sequence[Family]) -> None:
        """When these judged all pieces by value."""
        for family in families:
            if family.name not in self.failures:
                with self._failing(family):
                    gathered, judged = self.gathered[family.name], self.judged.get(family.name, [])
                    self.gathered[family.name] = family.resume(gathered, judged, self.run, self.gathered)

    def conclude(self) -> dict[str, FamilyResult]:
        """What each has to say, by its name."""
        outcomes = {}
        for family in self._whole():
            with self._failing(family):
                gathered, judged = self.gathered[family.name], self.judged.get(family.name, [])
                outcomes[family.name] = family.conclude(gathered, judged, self.run, self.gathered)
        return outcomes

    def _whole(self) -> list[Family]:
        return [family for family in self.families if family.name not in self.failures]

    def _note(self, family: Family) -> None:
        """How many steps of how many are made, and what is asked now; that nobody can read it changes nothing."""
        if self.progress_file:
            self.asked += 1
            count = len(self.families)
            done = self.step * count + min(self.asked, count) - 1
            with suppress(OSError):
                Path(self.progress_file).write_text(f"{done} {STEPS * count} {family.name}", encoding="utf-8")

    def begin(self, step: int) -> None:
        """The next step begins."""
        self.step, self.asked = step, 0

    @contextmanager
    def _failing(self, family: Family) -> Iterator[None]:
        self._note(family)
        began = time.monotonic()
        try:
            with _at_most(self.budget_s - self.spent_s.get(family.name, 0.0), self.budget_s):
                yield
        except OverBudgetError as error:
            self.failures[family.name] = failure(family.name, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other checks have to go on
            self.failures[family.name] = failure(family.name, str(error) or type(error).__name__)
            self.errors[family.name] = error
        finally:
            self.spent_s[family.name] = self.spent_s.get(family.name, 0.0) + time.monotonic() - began


@contextmanager
def _at_most(seconds: float, budget_s: float) -> Iterator[None]:
    """Raise when it takes longer; in threads nobody can be interrupted, and there it takes as long as it does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(*_: object) -> None:
        raise OverBudgetError(budget_s)

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def failure(name: str, said: str) -> str:
    """A sentence about a check that could not be made."""
    first_line = (said.strip().splitlines() or ["nothing was said"])[0]
    return f"the check of {name} failed ({first_line[:ERROR_CHARACTERS]})"


def check_piece(
    piece: Piece, run: RunContext, families: Sequence[Family], budget_s: float = 600.0, progress_file: str = ""
) -> CheckState:
    """All steps of a history that is one piece."""
    state = CheckState(run, families, budget_s, progress_file=progress_file)
    state.survey(piece)
    state.begin(1)
    state.gather()
    state.begin(2)
    by_value = state.by_value()
    state.judge(piece, by_value)
    state.resume(by_value)
    state.judge(piece, state.to_judge())
    state.begin(3)  # conclude
    return state


def wanted_columns(
    families: Sequence[Family], more: Mapping[str, Sequence[str]] | None = None
) -> Mapping[str, tuple[str, ...]]:
    """What has to be read for these, and for whoever else looks at the same pieces."""
    wanted: dict[str, dict[str, None]] = {}
    for reads in (*(family.reads for family in families), more or {}):
        for table, names in reads.items():
            wanted.setdefault(table, {}).update(dict.fromkeys(names))
    return {table: tuple(names) for table, names in wanted.items()}
