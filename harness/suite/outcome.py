"""How cases ended: each try as plain data that can be kept and read back, and what all tries make of a case.

    passed        as many tries as have to went as expected
    failed        too few did, and at least one of the others has a verdict that says something
    trouble       too few did: the harness or the cluster failed, also when it was tried again
    unknown       too few did: too little was seen to decide
    skipped       this machine, or this kind of cluster, cannot do it, and the tries that there are do not decide
    pending       not run, or not to its end

A finding outweighs trouble, and trouble outweighs what nobody knows: the exit code is that of the worst case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self

from harness.foundation.errors import Exit

Status = Literal["passed", "failed", "trouble", "unknown", "skipped", "pending"]
EXITS: dict[Status, Exit] = {"failed": Exit.INVALID, "trouble": Exit.HARNESS_ERROR, "unknown": Exit.UNKNOWN}


@dataclass(frozen=True)
class Try:
    """One try, with all its attempts: those before the last ended in trouble that was not the broker's."""

    number: int
    seed: int
    took_s: float = 0.0
    verdict: str = ""  # none if it ended in trouble
    unmet: tuple[str, ...] = ()  # what is not as expected, in sentences
    seen: tuple[str, ...] = ()  # anomalies with their counts; those that are allowed say so
    reasons: tuple[str, ...] = ()  # for anything but valid
    cause: str = ""  # the name of the one on top
    sentences: tuple[str, ...] = ()  # what each cause says, the most harmful first
    run: str = ""
    report: str = ""
    trouble: str = ""  # of the last attempt
    retried: tuple[str, ...] = ()  # the troubles of the attempts before

    @property
    def met(self) -> bool:
        """Whether it went as expected."""
        return bool(self.verdict) and not self.unmet

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """As it was kept."""
        known = {each.name for each in fields(cls)}
        kept: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items() if key in known
        }
        return cls(**kept)


@dataclass(frozen=True)
class UncheckedRun:
    """A run that was recorded for a try and is to be checked, be it by who goes on with a suite that was killed."""

    number: int  # of the try
    run: str
    took_s: float = 0.0  # so far, with the attempts before
    retried: tuple[str, ...] = ()  # what those ended with

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """As it was kept."""
        retried = tuple(map(str, data.get("retried", ())))
        return cls(int(data["number"]), str(data["run"]), float(data.get("took_s", 0)), retried)


@dataclass(frozen=True)
class CaseOutcome:
    """What is known of a case so far."""

    name: str
    expected: str
    repeat: int = 1
    needed: int = 1  # tries that have to go as expected
    digest: str = ""
    skipped: str = ""  # why the tries that are missing cannot be made here
    tries: tuple[Try, ...] = field(default=())
    unchecked: tuple[UncheckedRun, ...] = field(default=())  # one for a try at most

    @property
    def status(self) -> Status:
        """What all tries make of it."""
        met, missing = sum(each.met for each in self.tries), max(self.repeat - len(self.tries), 0)
        if missing and not self.skipped:
            return "pending"
        if met < self.needed <= met + missing:
            return "skipped"
        if met >= self.needed:
            return "passed"
        others = [each for each in self.tries if not each.met]
        if any(each.verdict not in {"", "unknown"} for each in others):
            return "failed"
        return "trouble" if any(each.trouble for each in others) else "unknown"

    @property
    def telling(self) -> Try | None:
        """The try that says most: the first one that did not go as expected where that decides, else the last one."""
        wrong = [each for each in self.tries if not each.met]
        graver = sorted(wrong, key=lambda each: (each.verdict in {"", "unknown"}, not each.trouble))
        fine = [each for each in self.tries if each.met]
        return next(iter(fine if self.status == "passed" else graver), self.tries[-1] if self.tries else None)

    @property
    def took_s(self) -> float:
        """All tries."""
        return sum(each.took_s for each in self.tries)

    @property
    def rate(self) -> str:
        """How often out of how many tries; nothing where there is but one."""
        return f"{sum(each.met for each in self.tries)} of {self.repeat}" if self.repeat > 1 else ""

    def with_try(self, one: Try) -> CaseOutcome:
        """And one try more."""
        return replace(self.settled(one.number), tries=(*self.tries, one))

    def with_run(self, one: UncheckedRun) -> CaseOutcome:
        """And a run that is to be checked, in place of an older one for the same try."""
        return replace(self, unchecked=(*self.settled(one.number).unchecked, one))

    def settled(self, number: int) -> CaseOutcome:
        """Without the run that was to be checked for this try."""
        return replace(self, unchecked=tuple(each for each in self.unchecked if each.number != number))

    def not_here(self, why: str) -> CaseOutcome:
        """What is missing cannot be made here; what was found before stays found."""
        return replace(self, skipped=why) if self.status == "pending" else self

    def without_trouble(self) -> CaseOutcome:
        """Without the tries of which nobody knows anything, so that they are made again; nor what was not possible."""
        return replace(self, skipped="", tries=tuple(each for each in self.tries if each.verdict))

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "status": self.status}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """As it was kept."""
        known = {each.name for each in fields(cls)}
        kept = {key: value for key, value in data.items() if key in known}
        tries = tuple(Try.from_json(each) for each in data.get("tries", ()))
        unchecked = tuple(UncheckedRun.from_json(each) for each in data.get("unchecked", ()))
        return cls(**{**kept, "tries": tries, "unchecked": unchecked})


def exit_code(outcomes: Iterable[CaseOutcome], *, interrupted: bool = False) -> Exit:
    """Of the worst; nothing but skipped cases is no success."""
    if interrupted:
        return Exit.INTERRUPTED
    found = [each.status for each in outcomes]
    for status, code in EXITS.items():
        if status in found:
            return code
    if "pending" in found:
        return Exit.INTERRUPTED
    return Exit.CANNOT_HERE if found and all(status == "skipped" for status in found) else Exit.VALID
