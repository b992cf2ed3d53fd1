"""`tidegauge demo`: one test against real Kafka, and the same test against brokers with a built-in bug.

Both runs share one cluster: first as it is, while a leader changes; then through taps that simulate brokers that list
only themselves. The first run has to be valid; the second has to be invalid, with the cause named.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console

from harness.clusters.flags import DEFAULT_KIND
from harness.commands.console import clean_up, consent, out, progress_console, tell_reports
from harness.commands.kind_option import kind_option
from harness.commands.option_groups import with_options
from harness.commands.options import DetailOptions, ImageOption, JsonFlag, StoreOption, VersionOption
from harness.foundation.errors import Exit
from harness.foundation.view import viewed_on
from harness.spark.place import Place

if TYPE_CHECKING:  # they take long to import
    from harness.clusters.spec import ClusterSpec
    from harness.judging.checking import Checked
    from harness.runs.shared_resources import SharedResources

SEED = 7
BROKEN = "metadata-lists-self-only"
# With a broken broker, clients would wait for minutes.
IMPATIENT = (
    "delivery_timeout_ms=8000",
    "request_timeout_ms=3000",
    "consumer_timeout_ms=5000",
    "final_read_timeout_s=4",
)


class Act(NamedTuple):
    """One of the two runs and its expected verdict."""

    title: str
    flags: dict[str, Any]
    settings: tuple[str, ...]
    expected: str


ACTS = (
    Act(
        "Apache Kafka as it is, while a leader changes",
        {"workload": "large-batch", "nemesis": ["leader-move"]},
        (),
        "valid",
    ),
    Act(
        "the same test, against brokers that list only themselves",
        {"workload": "large-batch", "tap": {"broken": [BROKEN]}},
        IMPATIENT,
        "invalid",
    ),
)


@with_options
def demo(
    *,
    cluster: Annotated[str, kind_option("Run brokers as processes or as containers.", ours=True)] = DEFAULT_KIND,
    kafka_version: VersionOption = None,
    store: StoreOption = None,
    build_image: ImageOption = None,
    show: DetailOptions,
    as_json: JsonFlag = False,
) -> None:
    """Test real Kafka while a leader changes, then test brokers with a built-in bug.

    Each run sends 5,000 messages. The first run should be valid; the second should be invalid, with the cause named.
    The exit code is 0 if both are as expected. Both reports are kept.
    """
    from harness.history.store import store_dir
    from harness.report.terminal.run import verdicts
    from harness.runs.scenario import load

    clean_up()
    given = load(None, {"cluster": {"kind": cluster, "version": kafka_version}})
    progress = progress_console(show.level)
    with viewed_on(progress) as view:
        spec = given.cluster.with_image(consent(build_image), view)

    def tell(each: Checked) -> None:
        if not as_json:
            verdicts(out, [each], as_json=False, detail=show.level)

    checked = _play(spec, store_dir(store), progress, tell)
    if as_json:
        verdicts(out, checked, as_json=True)
    tell_reports(checked, as_json=as_json, detail=show.level)
    raise typer.Exit(_exit_code(checked))


def _play(cluster: ClusterSpec, store: Path, progress: Console, tell: Callable[[Checked], None]) -> list[Checked]:
    """Play both runs, showing each verdict as soon as it is known."""
    from harness.report.terminal.tables import line
    from harness.runs.runner import run_scenario
    from harness.runs.scenario import load
    from harness.runs.shared_resources import sharing

    def run(act: Act, shared: SharedResources) -> Checked:
        given = load(None, {**act.flags, "seed": SEED}, list(act.settings)).with_cluster(cluster)
        line(progress, "")
        line(progress, (act.title, "bold"))
        with viewed_on(progress) as view:
            return run_scenario(given, store, sys.argv, view, tell, shared=shared)

    with sharing("demo", cluster, progress, Place()) as shared:
        checked: list[Checked] = []
        for act in ACTS:
            checked.append(run(act, shared))
            if checked[-1].facts.get("interrupted"):
                break
        return checked


def _exit_code(checked: list[Checked]) -> Exit:
    """Success if both runs ended as expected."""
    from harness.report.terminal.run import worst

    if any(each.facts.get("interrupted") for each in checked):
        return Exit.INTERRUPTED
    ended = [each.verdict.outcome for each in checked]
    return Exit.VALID if ended == [act.expected for act in ACTS] else worst(checked)
