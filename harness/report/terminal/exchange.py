"""What `import` and `export` print."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from harness.history.exchange.exporting import Exported
from harness.history.exchange.importing import Imported
from harness.judging.checking import Checked
from harness.report.terminal.run import verdicts
from harness.report.terminal.tables import as_json_text, line


def imported(console: Console, taken: Imported, checked: Sequence[Checked], *, as_json: bool) -> None:
    """What was taken, and the verdict if it was asked for."""
    if as_json:
        data = taken.as_json()
        as_json_text(console, {**data, "check": checked[0].as_json()} if checked else data)
        return
    source = taken.source
    unit = "rows" if "rows" in source else "lines"
    line(
        console,
        (source["file"], "bold"),
        f" ({source['format']}): {source[unit]:,} {unit} · {taken.processes:,} processes · {taken.span_s:,.1f} s",
    )
    line(
        console, f"  {'events':<10}{' · '.join(f'{count:,} {kind}' for kind, count in taken.events.items()) or 'none'}"
    )
    for note in taken.notes:
        line(console, f"  {'':<10}{note}")
    if not taken.set_up:
        told = "how it was set up is unknown, which leaves much unproven: --set acks=all --set idempotence=true"
        line(console, (f"  {'':<10}{told}", "yellow"))
    if checked:
        verdicts(console, checked, as_json=False)
        return
    line(console, f"  {'run':<10}{taken.run.path}")
    line(console, f"  {'check it':<10}tidegauge check {taken.run.path}")


def exported(console: Console, written: Exported, *, as_json: bool) -> None:
    """What was given out."""
    if as_json:
        as_json_text(console, written.as_json())
        return
    size = f"{written.bytes / 1e6:,.1f} MB"
    line(console, (str(written.file), "bold"), f" ({written.format}): {written.events:,} events, {size}")
