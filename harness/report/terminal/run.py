"""What `run`, `check` and `list` print: the verdict on a screen, tables, JSON for scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from checkers.summaries.figures import Figures
from harness.foundation.detail import Detail
from harness.foundation.errors import Exit
from harness.foundation.reasons import ILLEGAL
from harness.judging.checking import Checked
from harness.judging.verdict import SeenAnomaly
from harness.report.terminal.diagnosis import allowed_lines, diagnosis_lines
from harness.report.terminal.tables import as_json_line, as_json_text, line
from harness.tap.taps import TapPlace

DURATIONS = ("by", "jitter", "period")  # among the options of faults
LINES_AT_MOST = 25
PARTITIONS_SHOWN = 6
TABLE_FRAME = 2  # lines: its titles, and what is not shown of it
REASONS_SHOWN = 3
ILLEGAL_SHOWN = 6
GIVEN_UP_SHOWN = 3
NAMES_SHOWN = 8
SEEN_SHOWN = 3
FAULTS_SHOWN = 3
STALLS_SHOWN = 2
ERRORS_SHOWN = 3
NS = 1_000_000_000
COLOURS = {"valid": "bold green", "invalid": "bold red", "unknown": "bold yellow"}
_GRAVEST = (Exit.HARNESS_ERROR, Exit.INVALID, Exit.UNKNOWN, Exit.VALID)


def verdicts(console: Console, checked: Sequence[Checked], *, as_json: bool, detail: Detail = Detail.NORMAL) -> None:
    """One run as it is, or several one after the other."""
    if as_json:
        data = [each.as_json() for each in checked]
        as_json_text(console, data[0] if len(data) == 1 else data)
        return
    for each in checked:
        for parts in [_verdict(each)] if detail is Detail.QUIET else screen(each):
            line(console, *parts)


def worst(checked: Sequence[Checked]) -> Exit:
    """The exit code of several verdicts."""
    codes = [each.exit_code for each in checked]
    return next((code for code in _GRAVEST if code in codes), Exit.VALID)


Line = tuple[str | tuple[str, str], ...]


def screen(checked: Checked) -> list[Line]:
    """A verdict in at most 25 lines, unless it has more causes than that has room for: no cause is left out."""
    figures = checked.results.figures
    # not somebody's clients at taps, of whose operations nobody knows
    ours = checked.facts.get("kind") != "tap" and not checked.facts.get("traffic_only")
    numbers = _figures(figures) if ours else []
    answer, end = _answer(checked), _end(checked, ours=ours)
    covered: list[Line] = [
        (f"  {'covered' if not number else '':<10}{text}",) for number, text in enumerate(_covered(checked, ours=ours))
    ]
    # the answer has room, then the table, then the coverage, of which a line is always there
    numbers = numbers[: max(1, LINES_AT_MOST - len(answer) - len(end) - 1)]
    room = LINES_AT_MOST - len(numbers) - len(answer) - len(end)
    table = _table(figures, room - 1) if ours else []
    return [*table, *numbers, *answer, *covered[: max(1, room - len(table))], *end]


def _verdict(checked: Checked) -> Line:
    """The verdict and its first reason."""
    outcome = checked.verdict.outcome
    return ((f"  {outcome.upper():<10}", COLOURS[outcome]), _reasons(checked)[0])


def _answer(checked: Checked) -> list[Line]:
    """The verdict, and why: the cause if one is known, else what was seen."""
    verdict, diagnosis = checked.verdict, checked.diagnosis
    lines: list[Line] = [_verdict(checked)]
    lines += [(f"{'':<12}{text}",) for text in _reasons(checked)[1:]]
    lines += [(text,) for text in diagnosis_lines(diagnosis, checked.facts)]
    lines += [(text,) for text in allowed_lines(diagnosis)]
    told = {name for cause in (*diagnosis.causes, *diagnosis.allowed) for name in cause.explains}
    left = [seen for seen in verdict.seen if seen.anomaly not in told]
    if diagnosis.causes:  # the lines above say what they leave, but for what is allowed
        left = [replace(seen, findings=()) for seen in left if seen.mark.status == "allowed"]
    lines += [(f"{'':<12}{text}",) for seen in left[:SEEN_SHOWN] for text in _seen(seen)]
    if len(left) > SEEN_SHOWN:
        lines.append((f"{'':<12}and {len(left) - SEEN_SHOWN} anomalies more",))
    return lines


def _end(checked: Checked, *, ours: bool) -> list[Line]:
    """Where the run is, and how to repeat it."""
    lines: list[Line] = []
    outcome, expected = checked.verdict.outcome, checked.facts.get("scenario", {}).get("expect")
    if expected and expected != outcome:
        lines.append((f"  {'expected':<10}{expected}",))
    lines.append((f"  {'run':<10}{checked.run.path}",))
    told = outcome != "valid" or checked.diagnosis.causes
    if told and ours and checked.facts.get("kind") != "import" and checked.is_here:
        how = f"--replay {checked.run.path}" if checked.facts.get("schedule") else f"{checked.run.path}/scenario.toml"
        lines.append((f"  {'repeat':<10}tidegauge run {how}",))
    return lines


def _is_one_topic(figures: Figures) -> bool:
    return len({row.topic for row in figures.table}) == 1


def _table(figures: Figures, room: int) -> list[Line]:
    """The table of the notes, for as many partitions of one topic as fit; results.json has it for several."""
    shown = min(PARTITIONS_SHOWN, len(figures.table), room - TABLE_FRAME)
    if not _is_one_topic(figures) or shown < 1:
        return []
    titles = "".join(f"{title:>9}" for title in ("sent", "acked", "read", "share"))
    lines: list[Line] = [((f"  {'partition':<12}{titles}{'deviation':>11}{'gaps':>7}   offsets", "dim"),)]
    for row in figures.table[:shown]:
        offsets = "none" if row.first_offset is None else f"{row.first_offset}-{row.last_offset}"
        text = (
            f"  {row.partition:<12}{row.sent:>9,}{row.acknowledged:>9,}{row.read:>9,}{100 * row.share:>7.1f} %"
            f"{row.deviation:>+11,}{'-' if row.gaps is None else f'{row.gaps:,}':>7}   {offsets}"
        )
        lines.append((text, (" LOW", "yellow") if row.low else ""))
    if len(figures.table) > shown:
        lines.append((f"  and {len(figures.table) - shown} partitions more (results.json)",))
    return lines


def _figures(figures: Figures) -> list[Line]:
    arrived = f"{figures.distinct:,} of {figures.sent - figures.aborted:,} messages arrived"
    share = f" ({100 * figures.success_rate:.1f} %)" if figures.success_rate is not None else ""
    rates = f"; produced at {_rate(figures.produce_rate)}, consumed at {_rate(figures.consume_rate)}"
    balance = f"; imbalance {figures.imbalance:,}" if _is_one_topic(figures) else ""
    lines: list[Line] = [(f"  {arrived}{share}{rates}{balance}",)]
    lines += [(f"  {'; '.join(deeds)}",)] if (deeds := _deeds(figures)) else []
    for stall in figures.stalls[:STALLS_SHOWN]:
        end = ", and then it gave up" if stall.at_end else ""
        lines.append(
            ((f"  stall: consumer {stall.process} was handed nothing for {stall.lasted_ns / NS:.1f} s{end}", "yellow"),)
        )
    if figures.stalls_count > STALLS_SHOWN:
        lines.append((f"  and {figures.stalls_count - STALLS_SHOWN} stalls more",))
    return lines


def _deeds(figures: Figures) -> list[str]:
    """What was done beside sending and reading, in a few words each."""
    deeds = []
    if figures.transactions:
        ends = ", ".join(f"{count:,} {name}" for name, count in figures.transactions.items())
        deeds.append(f"transactions {ends}, {_rate(figures.transaction_rate)}")
    if figures.topics:
        deeds.append("topics " + ", ".join(f"{count:,} {name}" for name, count in figures.topics.items()))
    counts = {
        "messages made from others": figures.made,
        "rebalances": figures.rebalances,
        "offsets committed": figures.commits,
        "batches sent again": figures.resends,
    }
    return deeds + [f"{count:,} {name}" for name, count in counts.items() if count]


def _rate(rate: float | None) -> str:
    return "an unknown rate" if rate is None else f"{rate:,.0f}/s"


def _reasons(checked: Checked) -> list[str]:
    verdict = checked.verdict
    if verdict.outcome == "valid":
        return [
            f"nothing illegal was seen; {verdict.looked_for} anomalies looked for in {checked.results.events:,} events"
        ]
    illegal = [f"{seen.anomaly} ×{seen.found:,}" for seen in verdict.seen if seen.mark.status == "illegal"]
    named = " · ".join(illegal[:ILLEGAL_SHOWN])
    rest = [reason.sentence for reason in verdict.reasons if reason.code != ILLEGAL]
    more = f" · and {len(illegal) - ILLEGAL_SHOWN} more" if len(illegal) > ILLEGAL_SHOWN else ""
    unanswered = checked.results.figures.info
    more += f" · {unanswered:,} sends not acknowledged" if unanswered else ""
    shown = [*([named + more] if named else []), *rest[:REASONS_SHOWN]]
    left = len(rest) - REASONS_SHOWN
    return [*shown, f"and {left} reasons more (results.json)"] if left > 0 else shown


def _seen(seen: SeenAnomaly) -> list[str]:
    lines = [f"{seen.anomaly} ×{seen.found:,}, {seen.mark}"]
    for judged in seen.findings[:1]:
        finding = judged.finding
        who = f"value {finding.values[0]}, " if finding.values else ""
        lines.append(f"  {finding.place}: {who}{finding.detail}")
    return lines


def _covered(checked: Checked, *, ours: bool) -> list[str]:
    tap = checked.facts.get("tap") or {}
    passed = ""
    if tap:
        bent = f", {tap['bent']:,} bent" if tap["bent"] else ""
        passed = f"{tap['exchanges']:,} exchanges at the taps{bent}, {tap['not_understood']:,} not understood"
    if not ours:
        lines = [passed or "nothing is known of what passed", *_measured(checked)]
        return [*lines, *_not_verified(checked), *_not_looked_at(checked)]
    covered = checked.verdict.coverage
    sends, finals = covered.operations.get("send", {}), covered.finals_complete
    counts = " · ".join(f"{sends[name]:,} {name}" for name in ("ok", "info", "fail") if sends.get(name)) or "none"
    ends = f"ends reached on {finals}/{finals + covered.finals_incomplete_count} partitions"
    lines = [f"sends {counts} · {covered.records:,} reads · {ends} · checked in {checked.results.seconds:.1f} s"]
    lines += _measured(checked)
    lines += [passed] if passed else []
    lines += _linearizability(checked.results.summaries)
    lines += [_fault(each) for each in covered.faults[:FAULTS_SHOWN]]
    if len(covered.faults) > FAULTS_SHOWN:
        bit = sum(each.fault.bit for each in covered.faults)
        lines.append(f"{len(covered.faults)} faults in all, {bit} bit")
    return lines + _given_up(checked) + _not_verified(checked) + _not_in_the_table(covered) + _not_looked_at(checked)


def _measured(checked: Checked) -> list[str]:
    """The first of the usual suspects, unless the diagnosis tells it already."""
    diagnosis = checked.diagnosis
    return [str(each) for each in diagnosis.measured[:1] if each.name not in {out.name for out in diagnosis.excluded}]


def _linearizability(summaries: Mapping[str, Any]) -> list[str]:
    """How many partitions are what, and the first that is not as it has to be."""
    told = summaries.get("linearizability")
    if not told or not told["partitions"]:
        return []
    counts = ", ".join(f"{count:,} {name}" for name, count in told.items() if name != "partitions")
    first = told["partitions"][0]
    where = f" ({first['partition']} at offset {first['offset']:,})" if "offset" in first else ""
    return [f"partitions: {counts}{where}"]


def _not_in_the_table(covered: Coverage) -> list[str]:
    """Errors of which nobody has said what they mean."""
    if not covered.unclassified:
        return []
    names = list(dict.fromkeys(f"{row['f']}: {row['name']}" for row in covered.errors if not row["classified"]))
    more = ", …" if len(names) > ERRORS_SHOWN else ""
    named = ", ".join(names[:ERRORS_SHOWN])
    return [f"{covered.unclassified:,} errors that the table does not know ({named}{more})"]


def _not_verified(checked: Checked) -> list[str]:
    return [] if checked.results.verified else ["checksums not verified: the history is not on this machine"]


def _given_up(checked: Checked) -> list[str]:
    given_up = checked.verdict.given_up
    more = [f"given up: {len(given_up) - GIVEN_UP_SHOWN:,} things more (run.json)"]
    return [f"given up: {each}" for each in given_up[:GIVEN_UP_SHOWN]] + more * (len(given_up) > GIVEN_UP_SHOWN)


def _not_looked_at(checked: Checked) -> list[str]:
    names = sorted(checked.verdict.not_looked_at)
    more = f" and {len(names) - NAMES_SHOWN} more (results.json)" if len(names) > NAMES_SHOWN else ""
    return [f"not looked at: {', '.join(names[:NAMES_SHOWN])}{more}"] if names else []


def _fault(covered: FaultCoverage) -> str:
    fault = covered.fault
    bit = f"bit ({fault.detail})" if fault.bit else "did not bite"
    return f"{fault.name}: {bit}; during it {_span(covered.during)}"


def _span(span: Span | None) -> str:
    return "nothing is known" if span is None else f"{span.sends:,} sends and {span.reads:,} reads"


def taps(console: Console, places: Sequence[TapPlace], *, as_json: bool) -> None:
    """Where to point an application."""
    if as_json:
        rows = [{"tap": each.address, "upstream": each.upstream} for each in places]
        as_json_line(console, {"taps": rows, "bootstrap": ",".join(each.address for each in places)})
        return
    for each in places:
        line(console, (f"  {each.address}", "bold"), f" → {each.upstream}")
    line(console, ("  point the application at these; Ctrl-C ends the recording", "dim"))


def recorded(console: Console, seen: dict[str, Any], *, as_json: bool) -> None:
    """What passed the taps."""
    if as_json:
        as_json_line(console, seen)
        return
    bent = f", {seen['bent']:,} bent" if seen["bent"] else ""
    line(
        console,
        f"  {seen['exchanges']:,} exchanges on {seen['connections']:,} connections{bent}, "
        f"{seen['not_understood']:,} not understood",
    )
    for sentence in seen["troubles"]:
        line(console, (f"  {sentence}", "yellow"))
    line(console, f"  {'check it':<10}tidegauge check {seen['record']}")


def listing(console: Console, what: str, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    """A table of what there is."""
    if as_json:
        as_json_text(console, rows)
        return
    if not rows:
        line(console, f"there are no {what} here")
        return
    if what == "nemeses":
        _nemeses(console, rows)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    columns = [name for name in rows[0] if name != "settings"]
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row[name])) for name in columns))
    console.print(table)
    for row in rows:
        if "settings" in row:
            line(console)
            line(console, (f"settings of {row['name']}", "bold"), ", for --set and scenario files")
            for name, setting in row["settings"].items():
                default = "" if setting["default"] is None else f" [{setting['default']}]"
                line(console, f"  {name}{default}", (f"  {setting['about']}", "dim"))


def _nemeses(console: Console, rows: list[dict[str, Any]]) -> None:
    """Faults by family: a table would be too wide."""
    width = max(len(row["name"]) for row in rows)
    family = ""
    for row in rows:
        if row["family"] != family:
            family = row["family"]
            line(console, (family, "bold"))
        table = Table.grid(padding=(0, 2))
        table.add_column(width=width + 2)
        table.add_column(overflow="fold")
        table.add_row(Text(f"  {row['name']}"), Text(row["about"]))
        facts = [f"at {', '.join(row['targets'])}", *(_option(*each) for each in row["options"].items())]
        facts += [f"needs {', '.join(row['needs'])}"] if row["needs"] else []
        facts += [f"{row['longest_s']:g} s at most"]
        table.add_row("", Text(" · ".join(facts), "dim"))
        console.print(table)


def _option(name: str, value: object) -> str:
    """As it may be written in a scenario; alone when the fault finds a value by itself."""
    if value is None:
        return name
    return f"{name}={value:g}s" if name in DURATIONS and isinstance(value, int | float) else f"{name}={value}"


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
