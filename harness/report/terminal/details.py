"""What `--verbose` adds to a verdict: partitions, figures, all reasons and causes, and what was not checked."""

from __future__ import annotations

from collections.abc import Iterator

from checkers.summaries.figures import Figures
from harness.judging.checking import Checked
from harness.judging.sentences.wording import Wording
from harness.judging.verdict import SeenAnomaly
from harness.report.terminal.coverage import is_ours
from harness.report.terminal.layout import Row
from harness.report.terminal.names import Names

TABLE_WIDTH = 72
STALLS_SHOWN = 3


def detail_rows(checked: Checked, names: Names, width: int) -> list[Row]:
    """All of it, in groups."""
    figures = checked.results.figures
    ours = is_ours(checked)
    rows = list(_titled("partition", _table(figures, names))) if ours and width >= TABLE_WIDTH else []
    rows += _titled("load", _load(figures)) if ours else []
    rows += _titled("faults", (names.short(text) for text in _faults(checked)))
    rows += _titled("reasons", (names.short(f"{each}") for each in checked.verdict.reasons))
    rows += _titled("evidence", (names.short(text) for text in _evidence(checked)))
    rows += _titled("findings", (names.short(text) for seen in checked.verdict.seen for text in _seen(seen, names)))
    rows += _titled("measured", (names.short(str(each)) for each in checked.diagnosis.measured))
    rows += _titled("taps", _taps(checked))
    rows += _titled("untested", checked.verdict.given_up)
    return [Row("", ""), *rows, *_titled("unchecked", _unchecked(checked))]


def _titled(title: str, texts: Iterator[str] | tuple[str, ...]) -> Iterator[Row]:
    """The first of them has the title."""
    yield from (Row("" if number else title, text) for number, text in enumerate(texts))


def _table(figures: Figures, names: Names) -> Iterator[str]:
    """Per partition what was sent, acknowledged and read."""
    for row in figures.table:
        offsets = "none" if row.first_offset is None else f"{row.first_offset:,} to {row.last_offset:,}"
        gaps = f", {Wording.count(row.gaps, 'gap')}" if row.gaps else ""
        low = " LOW" if row.low else ""
        place = names.short(f"{row.topic}-{row.partition}")
        missing = f", {row.missing:,} missing" if row.missing else ""
        counts = f"{row.sent:,} sent, {row.acknowledged:,} acked, {row.read:,} read{missing}"
        yield f"{place}: {counts}; offsets {offsets}{gaps}{low}"


def _load(figures: Figures) -> Iterator[str]:
    """How much, and how fast; what else was done."""
    expected = figures.sent - figures.aborted
    rates = f"produced at {_rate(figures.produce_rate)}, consumed at {_rate(figures.consume_rate)}"
    yield f"{figures.distinct:,} of {expected:,} messages read during the load; {rates}"
    if figures.transactions:
        ends = ", ".join(f"{count:,} {name}" for name, count in figures.transactions.items())
        yield f"transactions: {ends}"
    if figures.topics:
        yield "topics: " + ", ".join(f"{count:,} {name}" for name, count in figures.topics.items())
    counts = {
        "messages made from others": figures.made,
        "rebalances": figures.rebalances,
        "offsets committed": figures.commits,
        "batches resent": figures.resends,
    }
    if done := [f"{count:,} {name}" for name, count in counts.items() if count]:
        yield ", ".join(done)
    for stall in figures.stalls[:STALLS_SHOWN]:
        end = " until it gave up" if stall.at_end else ""
        yield f"consumer {stall.process} received no records for {Wording.lasted(stall.lasted_ns)}{end}"
    if figures.stalls_count > STALLS_SHOWN:
        yield f"and {figures.stalls_count - STALLS_SHOWN} more pauses of consumers"


def _rate(rate: float | None) -> str:
    return "an unknown rate" if rate is None else f"{rate:,.0f}/s"


def _faults(checked: Checked) -> Iterator[str]:
    for covered in checked.verdict.coverage.faults:
        fault, during = covered.fault, covered.during
        how = f"{fault.detail}" if fault.bit else f"had no effect ({fault.detail or 'no reason was recorded'})"
        meanwhile = "" if during is None else f"; {during.sends:,} sends, {during.reads:,} reads meanwhile"
        yield f"{fault.number} {fault.name}: {how}{meanwhile}"


def _evidence(checked: Checked) -> Iterator[str]:
    """Of every cause, what is allowed included."""
    diagnosis = checked.diagnosis
    for cause in (*diagnosis.causes, *diagnosis.allowed):
        yield f"{cause.sentence} ({cause.confidence}{', allowed' if cause.allowed else ''})"
        yield from (f"- {text}" for text in cause.because)
        yield from (f"- against it: {text}" for text in cause.against)


def _seen(seen: SeenAnomaly, names: Names) -> Iterator[str]:
    yield f"{seen.anomaly} ×{seen.found:,}, {seen.mark}"
    for judged in seen.findings[:1]:
        place = names.place(judged.finding)
        yield f"- {place}{': ' if place else ''}{judged.finding.detail}"


def _taps(checked: Checked) -> Iterator[str]:
    tap = checked.facts.get("tap") or {}
    if tap:
        changed = f", {tap['bent']:,} changed" if tap["bent"] else ""
        yield f"{Wording.count(tap['exchanges'], 'exchange')}{changed}, {tap['not_understood']:,} not understood"


def _unchecked(checked: Checked) -> Iterator[str]:
    """Anomalies that nobody could look for, by the reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in sorted(checked.verdict.not_looked_at.items()):
        reasons.setdefault(why, []).append(name)
    yield from (f"{', '.join(names)}: {why}" for why, names in reasons.items())
