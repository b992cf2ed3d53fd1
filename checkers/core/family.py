"""A family of checkers: what it looks at, and what it makes of that. Whoever writes a new one derives from `Family`.

A check is made in steps, so that a history of any size is read once by as many tasks as there are:

survey     each piece by itself: sums, maxima, small tables; whatever can be put together afterwards
gather     all surveys put together, where the check was asked for
judge      each piece once more, knowing what was gathered: only if `needs_judging` says that something may be wrong
           which the surveys cannot tell by themselves
conclude   what was found, in how much it was looked for, and what results.json is to tell beside that

Families `by_value` judge first, and always: pieces that hold all rows of a value, or what no piece has settled
(`checkers.shared.settled_values`). A family that needs nothing but its surveys has no `judge`. A small history is one
piece, and all steps are made in one task. `others` holds what other families gathered, by their names; those that it
names in `after` are there when it gathers. Where a piece holds all that is compared, `PiecewiseFamily` adds the surveys
up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from checkers.core.findings import Findings, merge_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext

ByFamily = Mapping[str, Any]  # what families gathered, by their names


@dataclass
class FamilyResult:
    """What a family found."""

    findings: Findings = field(default_factory=Findings)
    looked_at: dict[str, int] = field(default_factory=dict)  # by anomaly
    summary: Any = None  # for results.json
    cut: str = ""  # a sentence: what was left out, which makes `unknown`


class Family:
    """Kernels that belong together."""

    name: ClassVar[str]
    anomalies: ClassVar[Mapping[str, str]] = {}  # and what each is, in a line
    needs_acknowledgements: ClassVar[frozenset[str]] = frozenset()  # anomalies that mean nothing with acks=0
    reads: ClassVar[Mapping[str, Sequence[str]]] = {}  # columns by table
    after: ClassVar[Sequence[str]] = ("values",)  # families whose gathered results it asks for
    by_value: ClassVar[bool] = False  # `judge` wants pieces that hold all sends and records of a value, always

    def needs(self, run: RunContext) -> bool:
        """Whether the history has anything that this looks at."""
        return True

    def survey(self, piece: Piece, run: RunContext) -> Any:
        """What a piece says; has to be put together with that of others, and travels."""
        raise NotImplementedError

    def gather(self, surveys: Sequence[Any], run: RunContext, others: ByFamily) -> Any:
        """All of them as one."""
        raise NotImplementedError

    def needs_judging(self, gathered: Any, run: RunContext, others: ByFamily) -> bool:
        """Whether pieces have to be judged."""
        return False

    def judge(self, piece: Piece, gathered: Any, run: RunContext, others: ByFamily) -> Any:
        """What is wrong with a piece, given what was gathered."""
        raise NotImplementedError

    def resume(self, gathered: Any, judged: Sequence[Any], run: RunContext, others: ByFamily) -> Any:
        """What others may know of it once values were judged (`by_value`)."""
        return gathered

    def conclude(self, gathered: Any, judged: Sequence[Any], run: RunContext, others: ByFamily) -> FamilyResult:
        """The end of it; `judged` is empty if pieces were not looked at again."""
        raise NotImplementedError


class PiecewiseFamily(Family):
    """A family for which a piece holds all that it compares: surveys are results, and only have to be added up."""

    def gather(self, surveys: Sequence[FamilyResult], run: RunContext, others: ByFamily) -> FamilyResult:
        """The sum of all pieces."""
        looked_at = {name: sum(each.looked_at.get(name, 0) for each in surveys) for name in self.anomalies}
        return FamilyResult(merge_findings((each.findings for each in surveys), run.limit), looked_at)

    def conclude(
        self, gathered: FamilyResult, judged: Sequence[Any], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """That sum."""
        return gathered
