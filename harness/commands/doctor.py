"""`tidegauge doctor`: what this machine, or a product, supports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from harness.clusters.flags import DEFAULT_KIND, parts
from harness.commands.console import clean_up, consent, err, out
from harness.commands.kind_option import kind_option
from harness.commands.options import TARGET_HELP, JsonFlag
from harness.foundation.errors import Exit
from harness.foundation.progress import shown_on

if TYPE_CHECKING:  # they take long to import
    from harness.clusters.spec import ClusterSpec
    from harness.runs.machine import MachineCheck
    from harness.runs.product import ProductReport


def doctor(
    *,
    target: Annotated[str | None, typer.Option(help=f"Show what a product supports. {TARGET_HELP}")] = None,
    cluster: Annotated[str, kind_option()] = DEFAULT_KIND,
    bootstrap: Annotated[
        str, typer.Option(metavar="HOST:PORT,...", help="Show what an external cluster supports.")
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Show what this machine supports, what each missing thing costs, and how to get it.

    --target starts the product, tries each admin request that the harness may need on every node, and stops it.
    --bootstrap tries them on a cluster that is already running.
    """
    if target is not None or bootstrap:
        report = _examined(_spec(target, cluster, bootstrap))
        product(out, report, as_json=as_json)
        raise typer.Exit(Exit.VALID if report.can_run else Exit.HARNESS_ERROR)
    from harness.runs.machine import examine, examine_faults

    found = [*examine(), *examine_faults()]
    checks(out, found, as_json=as_json)
    able = all(check.ok for check in found if check.needed_for_local)
    raise typer.Exit(Exit.VALID if able else Exit.CANNOT_HERE)


def _spec(target: str | None, kind: str, bootstrap: str) -> ClusterSpec:
    from harness.clusters.spec import ClusterSpec
    from harness.foundation.config import parse

    addresses = {"kind": "external", "bootstrap": parts(bootstrap)} if bootstrap else {"kind": kind}
    given = {**addresses, **({} if target is None else {"target": target})}
    return parse(ClusterSpec, given, "the command line").checked()


def _examined(spec: ClusterSpec) -> ProductReport:
    from harness.clusters.spec import make_cluster
    from harness.runs.product import examine_product

    clean_up()
    with shown_on(err) as progress, make_cluster(spec.with_image(consent(None), progress), progress) as cluster:
        progress.step("asking every node what it can do")
        return examine_product(cluster)


def product(console: Console, report: ProductReport, *, as_json: bool) -> None:
    """What a product can do: a line for each admin request."""
    from harness.clusters.admin_calls import CALLS
    from harness.report.terminal.tables import as_json_text, line
    from harness.runs.product import in_words

    if as_json:
        as_json_text(console, report.as_json())
        return
    line(console, (report.product, "bold"))
    width = max(len(name) for name in report.calls)
    for call in CALLS:
        found = report.calls[call.name]
        works = sum(outcome.works for outcome in found.values())
        mark = ("✓", "green") if works == len(found) else ("~" if works else "✗", "yellow")
        line(console, mark, f" {call.name:<{width}} {in_words(found)}")
        if not works:
            line(console, f"{'':{width + 3}}needed for: {call.use}")
    line(console, ("✓", "green") if report.topic_is_made else ("✗", "yellow"), f" {'topic':<{width}} {report.topic}")
    for sentence in report.odd_metadata:
        line(console, ("✗", "yellow"), f" {'Metadata':<{width}} {sentence}")


def checks(console: Console, found: list[MachineCheck], *, as_json: bool) -> None:
    """What this machine has and has not."""
    from harness.report.terminal.tables import as_json_text, line

    if as_json:
        as_json_text(console, [check.as_json() for check in found])
        return
    width = max(len(check.name) for check in found)
    for check in found:
        mark = ("✓", "green") if check.ok else ("✗", "yellow")
        line(console, mark, f" {check.name:<{width}} {check.found}")
        if not check.ok:
            line(console, f"{'':{width + 3}}costs: {check.costs}")
            line(console, f"{'':{width + 3}}remedy: {check.remedy}")
