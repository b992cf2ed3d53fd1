"""`tidegauge demo`: the notes' test before real Kafka, and before a broker with the bug that the notes were about.

Both on one cluster, which is started once: first as it is, while a leader changes, then through taps that play brokers
of which each lists nobody but itself. The first has to be valid, and of the second the cause has to be named.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from harness.clusters.flags import DEFAULT_KIND
from harness.commands.console import clean_up, consent, err, out, tell_reports
from harness.commands.kind_option import kind_option
from harness.commands.options import ImageOption, JsonFlag, StoreOption, VersionOption
from harness.foundation.errors import Exit
from harness.foundation.view import viewed_on
from harness.spark.place import Place

if TYPE_CHECKING:  # they take long to import
    from harness.clusters.spec import ClusterSpec
    from harness.judging.checking import Checked
    from harness.runs.shared_resources import SharedResources

SEED = 7
BROKEN = "metadata-lists-self-only"
# Clients of a broker that lies would wait for minutes.
IMPATIENT = (
    "delivery_timeout_ms=8000",
    "request_timeout_ms=3000",
    "consumer_timeout_ms=5000",
    "final_read_timeout_s=4",
)


class Act(NamedTuple):
    """One of the two runs, and how it has to end."""

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
        "the same test, before brokers of which each lists nobody but itself",
        {"workload": "large-batch", "tap": {"broken": [BROKEN]}},
        IMPATIENT,
        "invalid",
    ),
)


def demo(
    cluster: Annotated[str, kind_option("Processes or containers.", ours=True)] = DEFAULT_KIND,
    kafka_version: VersionOption = None,
    store: StoreOption = None,
    build_image: ImageOption = None,
    as_json: JsonFlag = False,
) -> None:
    """The notes' test, 5,000 messages, twice: before real Kafka while a leader changes, and before brokers with a bug.

    The first is valid; of the second the cause is named. Both reports are kept. Exit code 0 if both ended so.
    """
    from harness.history.store import store_dir
    from harness.report.terminal.run import verdicts
    from harness.runs.scenario import load

    clean_up()
    given = load(None, {"cluster": {"kind": cluster, "version": kafka_version}})
    with viewed_on(err) as view:
        spec = given.cluster.with_image(consent(build_image), view)
    checked = _play(spec, store_dir(store), lambda each: None if as_json else verdicts(out, [each], as_json=False))
    if as_json:
        verdicts(out, checked, as_json=True)
    tell_reports(checked, as_json=as_json)
    raise typer.Exit(_exit_code(checked))


def _play(cluster: ClusterSpec, store: Path, tell: Callable[[Checked], None]) -> list[Checked]:
    """Both runs, each told as soon as its verdict is there."""
    from harness.report.terminal.tables import line
    from harness.runs.runner import run_scenario
    from harness.runs.scenario import load
    from harness.runs.shared_resources import sharing

    def run(act: Act, shared: SharedResources) -> Checked:
        given = load(None, {**act.flags, "seed": SEED}, list(act.settings)).with_cluster(cluster)
        line(err, "")
        line(err, (act.title, "bold"))
        with viewed_on(err) as view:
            return run_scenario(given, store, sys.argv, view, tell, shared=shared)

    with sharing("demo", cluster, err, Place()) as shared:
        return [run(act, shared) for act in ACTS]


def _exit_code(checked: list[Checked]) -> Exit:
    """Fine if both ended as they had to."""
    from harness.report.terminal.run import worst

    ended = [each.verdict.outcome for each in checked]
    return Exit.VALID if ended == [act.expected for act in ACTS] else worst(checked)
