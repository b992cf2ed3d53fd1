"""Making the report of a run, beside the run: `series.json`, which its check brought, and `report.html`, made from it.

`trace.json` is written with the series, for those who want every operation on a time line of their own. A report is
made from what the check said; later from what is kept, unless another check has found other things since: then the run
is checked once more. A report never fails because its pictures do: without series it says that nothing could be drawn,
and why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkers.summaries.drawn_series import VERSION, fingerprint
from harness.foundation.errors import TidegaugeError
from harness.foundation.view import View
from harness.history.opening import open_run
from harness.history.sealed import Sealed
from harness.history.store import Run, write_whole
from harness.judging.checking import Checked, CheckOptions, check_again, checked_before
from harness.report.trace import TRACE_FILE, write_trace
from harness.spark.place import Place

REPORT_FILE = "report.html"
SERIES_FILE = "series.json"
ERROR_CHARACTERS = 300
Results = Mapping[str, Any]


def report_checked(checked: Checked, sealed: Sealed, view: View) -> Path | None:
    """Right after a check, with its session; nothing of a part of it or of a run that is elsewhere. It never raises."""
    if not isinstance(checked.run, Run) or checked.results.only:
        return None
    series = keep_series(checked.run, checked, view)
    _trace(checked.run, sealed, view)
    try:
        return _write_page(checked.run, checked, series)
    except Exception as error:  # noqa: BLE001 - a run that came to its end is not to fail because of a page
        view.happened(f"there is no report ({_first_line(error)}): try `tidegauge report {checked.run.path}`")
        return None


def report_again(run: Run, view: View, place: Place | None = None) -> Path:
    """Of a stored run that was checked; it is checked once more only if nothing that fits is kept."""
    checked = checked_before(run)
    series = kept_series(run, checked.as_json())
    again = _asked(run, view, place or Place()) if series is None else None
    with run.held():
        if again is not None:
            checked, series = again, keep_series(run, again, view)
            _trace(run, open_run(run), view)
        return _write_page(run, checked, series)


def report_of(checked: Checked) -> Path | None:
    """The report of a run, if it has one."""
    path = checked.run.path / REPORT_FILE if isinstance(checked.run, Run) else None
    return path if path and path.is_file() else None


def kept_series(run: Run, results: Results) -> dict[str, Any] | None:
    """The series that were made for these results."""
    try:
        kept = json.loads((run.path / SERIES_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    fits = isinstance(kept, dict) and (kept.get("version"), kept.get("of")) == (VERSION, fingerprint(results))
    return kept if fits else None


def _asked(run: Run, view: View, place: Place) -> Checked | None:
    """Another check, with a session of our own."""
    try:
        (checked,) = check_again([run], view, CheckOptions(place), lambda each, _: each.results.draw())
    except TidegaugeError as error:  # somebody removed the history to save space, perhaps
        view.happened(f"nothing is drawn: {error}")
        return None
    return checked


def keep_series(run: Run, checked: Checked, view: View) -> dict[str, Any] | None:
    """What a check brought to be drawn, written beside the run with whose findings it shows."""
    checked.results.draw()
    if checked.results.undrawn:
        view.happened(f"nothing is drawn: {checked.results.undrawn}")
    if checked.results.drawn is None:
        return None
    series = {**checked.results.drawn, "of": fingerprint(checked.as_json())}
    try:
        write_whole(run.path / SERIES_FILE, json.dumps(series, separators=(",", ":")))
    except Exception as error:  # noqa: BLE001 - the same; what is drawn now needs no file
        view.happened(f"there is no {SERIES_FILE} ({_first_line(error)})")
    return series


def _trace(run: Run, sealed: Sealed, view: View) -> None:
    try:
        write_trace(sealed, run.path / TRACE_FILE, run.facts)
    except Exception as error:  # noqa: BLE001 - as above
        view.happened(f"there is no {TRACE_FILE} ({_first_line(error)})")


def _write_page(run: Run, checked: Checked, series: Mapping[str, Any] | None) -> Path:
    from harness.report.page import render  # what draws takes a moment to load

    path = run.path / REPORT_FILE
    write_whole(path, render(checked.facts, checked.as_json(), series, str(run.path)))
    return path


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:ERROR_CHARACTERS]
