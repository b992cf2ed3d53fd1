"""What a verdict covers, in a few rows: messages that arrived, faults that took effect, how much was checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from harness.judging.checking import Checked
from harness.judging.sentences.wording import Wording
from harness.report.terminal.layout import Row
from harness.report.terminal.names import Names

ERRORS_SHOWN = 3
GIVEN_UP_SHOWN = 2
KINDS_SHOWN = 4


def is_ours(checked: Checked) -> bool:
    """Whether clients of ours made the load: of what others at taps did, nobody knows the operations."""
    return checked.facts.get("kind") != "tap" and not checked.facts.get("traffic_only")


def reached(checked: Checked) -> list[str]:
    """What became of the messages, if nothing is wrong."""
    figures, tap = checked.results.figures, checked.facts.get("tap") or {}
    if not is_ours(checked):
        return [f"nothing wrong in {Wording.count(int(tap.get('exchanges', 0)), 'exchange')} at the taps"]
    unread, acknowledged = _unread(checked), figures.acknowledged
    expected = figures.sent - figures.aborted  # what was aborted is not to arrive
    if unread:
        said = f"{acknowledged - unread:,} of {acknowledged:,} acknowledged messages read"
    elif acknowledged < expected:
        said = f"{acknowledged:,} of {expected:,} sends acknowledged, all of them read"
    else:
        said = f"all {acknowledged:,} acknowledged messages read"
    linear = _linearizable(checked.results.summaries)
    return [said, linear] if linear else [said]


def coverage_rows(checked: Checked, names: Names) -> Iterator[Row]:
    """Faults, then how much was looked at, then what was not."""
    covered = checked.verdict.coverage
    if is_ours(checked):
        yield from _faults(covered, names)
    yield Row("checked", _checked(checked))
    for text in _not_covered(checked):
        yield Row("", text, least=6)


def _unread(checked: Checked) -> int:
    """Acknowledged messages that nobody read, allowed or not."""
    results = checked.results
    missing = sum(row.missing for row in results.figures.table)
    found = sum(each.found for each in checked.verdict.seen if each.anomaly in {"lost-write", "lost-tail", "unseen"})
    return min(max(missing, found), results.figures.acknowledged)


def _linearizable(summaries: Mapping[str, Any]) -> str:
    """Said only of all partitions: with acks=1 some never are."""
    told = summaries.get("linearizability") or {}
    count = told.get("linearizable", 0)
    others = sum(each for name, each in told.items() if name not in {"linearizable", "partitions"})
    return f"{Wording.count(count, 'partition')} linearizable" if count and not others else ""


def _faults(covered: Coverage, names: Names) -> Iterator[Row]:
    """One fault with its proof; of several how many took effect."""
    faults = covered.faults
    if len(faults) == 1:
        yield Row("fault", names.short(_fault(faults[0])), lines=2)
    elif faults:
        kinds = Counter(each.fault.name for each in faults)
        told = ", ".join(f"{name} ×{count}" for name, count in kinds.most_common(KINDS_SHOWN))
        more = f" and {len(kinds) - KINDS_SHOWN} more kinds" if len(kinds) > KINDS_SHOWN else ""
        bit = sum(each.fault.bit for each in faults)
        yield Row("faults", f"{bit} of {len(faults)} took effect: {told}{more}; {_meanwhile(covered)}", lines=2)


def _fault(covered: FaultCoverage) -> str:
    fault = covered.fault
    if not fault.bit:
        return f"{fault.name} had no effect; {_span(covered.during)}"
    return f"{fault.name}: {fault.detail}; {_span(covered.during)}"


def _meanwhile(covered: Coverage) -> str:
    spans = [each.during for each in covered.faults if each.during is not None]
    sends, reads = sum(each.sends for each in spans), sum(each.reads for each in spans)
    return f"{sends:,} sends and {reads:,} reads meanwhile"


def _span(span: Span | None) -> str:
    if span is None:
        return "what happened meanwhile is unknown"
    return f"{span.sends:,} sends, {span.reads:,} reads meanwhile"


def _checked(checked: Checked) -> str:
    """How much, and how long it took."""
    verdict, results = checked.verdict, checked.results
    parts = [Wording.count(verdict.looked_for, "anomaly", "anomalies"), Wording.count(results.events, "event")]
    whole = verdict.coverage.finals_complete + verdict.coverage.finals_incomplete_count
    if is_ours(checked):
        ends = f"{verdict.coverage.finals_complete:,} of {whole:,} partitions to the end"
        parts.append(ends if whole else "no final read")
    took = f" ({results.seconds:.1f} s)" if results.seconds else ""
    return f"{', '.join(parts)}{took}"


def _not_covered(checked: Checked) -> Iterator[str]:
    """What the verdict does not stand for."""
    given_up = checked.verdict.given_up
    for text in given_up[:GIVEN_UP_SHOWN]:
        yield f"not tested: {text}"
    if len(given_up) > GIVEN_UP_SHOWN:
        yield f"and {len(given_up) - GIVEN_UP_SHOWN} more not tested (--verbose)"
    if not checked.results.verified:
        yield "checksums not verified: the history is not on this machine"
    covered = checked.verdict.coverage
    if covered.unclassified:
        names = list(dict.fromkeys(f"{row['f']}: {row['name']}" for row in covered.errors if not row["classified"]))
        named = ", ".join(names[:ERRORS_SHOWN]) + (", …" if len(names) > ERRORS_SHOWN else "")
        yield f"{Wording.count(covered.unclassified, 'unknown error')} ({named})"
