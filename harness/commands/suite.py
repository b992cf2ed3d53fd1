"""`tidegauge suite`: run many scenarios and show a table of results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.commands.console import clean_up, consent, out, progress_console
from harness.commands.option_groups import with_options
from harness.commands.options import ClusterOptions, DetailOptions, JsonFlag, SparkOptions, StoreOption
from harness.spark.place import Place

if TYPE_CHECKING:  # it takes long to import
    from harness.suite.command import SuiteRequest


@dataclass(frozen=True, kw_only=True)
class SuiteOptions:
    """Which cases to run, and how."""

    named: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE.toml", help="Built-in suite (ci, nightly, seeds, track-record) or suite file."
        ),
    ]
    expression: Annotated[
        str, typer.Option("-k", metavar="EXPRESSION", help="Run only matching cases: leader and not kafka-python.")
    ] = ""
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CASE", help="Run only this case; may be repeated.")
    ] = None
    list_only: Annotated[bool, typer.Option("--list", help="List the cases without running them.")] = False
    first: Annotated[bool, typer.Option("--exitfirst", "-x", help="Stop after the first case that does not pass.")] = (
        False
    )
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume the latest run of this suite; finished cases are not run again."),
    ] = False
    retries: Annotated[
        int, typer.Option(min=0, help="Retries of a case after trouble in the harness or on the machine.")
    ] = 1
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Random seed (default: random).")] = None


@with_options
def suite(
    *,
    what: SuiteOptions,
    on: ClusterOptions,
    store: StoreOption = None,
    spark: SparkOptions,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML, updated after each case.")
    ] = None,
    show: DetailOptions,
    as_json: JsonFlag = False,
) -> None:
    """Run many scenarios on as few clusters as is safe, and compare the results with what is expected.

    Results are on disk after each case, so a killed suite can be resumed (--resume). Ctrl-C ends the current run, heals
    the cluster and shows the table. Exit codes: 0 all cases passed, 1 a case failed, 2 interrupted, 3 the harness or a
    cluster failed, 5 a run did not see enough to decide, 6 no case is possible on this machine.

    [dim]tidegauge suite ci --cluster docker --junit junit.xml[/]
    [dim]tidegauge suite seeds -k metadata[/]
    """
    from harness.history.store import store_dir
    from harness.report.terminal.tables import as_json_text
    from harness.suite.command import play
    from harness.suite.outcome import exit_code
    from harness.suite.terminal import table

    wanted = _wanted(what, on, store_dir(store), spark.place(), junit)
    if what.list_only:
        _list(wanted, as_json=as_json)
        return
    clean_up()
    played = play(wanted, consent(on.build_image), progress_console(show.level))
    if as_json:
        as_json_text(out, {**played.state.as_json(), "directory": str(played.directory)})
    else:
        table(out, played.state, played.directory)
    raise typer.Exit(exit_code(played.state.outcomes, interrupted=played.state.interrupted))


def _wanted(what: SuiteOptions, on: ClusterOptions, store: Path, place: Place, junit: Path | None) -> SuiteRequest:
    """The request that the flags describe."""
    from harness.suite.command import SuiteRequest
    from harness.suite.spec import find_suite

    return SuiteRequest(
        find_suite(what.named),
        store,
        on.as_scenario() or {},
        what.expression,
        tuple(what.only or ()),
        what.seed,
        what.resume,
        what.retries + 1,
        what.first,
        place,
        junit,
    )


def _list(wanted: SuiteRequest, *, as_json: bool) -> None:
    """Print the cases without running any."""
    from harness.report.terminal.tables import as_json_text
    from harness.suite.command import listed
    from harness.suite.terminal import case_as_json, cases

    found = listed(wanted)
    if as_json:
        as_json_text(out, [case_as_json(each) for each in found])
    else:
        cases(out, found)
