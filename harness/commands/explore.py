"""`tidegauge explore`: search random faults and settings for failures."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.clusters.flags import parts
from harness.commands.console import clean_up, err, out
from harness.commands.option_groups import with_options
from harness.commands.options import BrokenOption, ClusterOptions, JsonFlag, SparkOptions, StoreOption, duration
from harness.foundation.progress import SilentProgress
from harness.foundation.view import viewed_on

if TYPE_CHECKING:  # it takes long to import
    from harness.experiments.explore.search_space import SearchSpace


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What to search for, where, and for how long."""

    find: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="What counts as a finding: illegal (not allowed by the settings), any (also what the settings allow, "
            "such as a loss with acks=1), or anomalies by name, allowed or not (`tidegauge list checkers`).",
        ),
    ] = "illegal"
    budget: Annotated[str, typer.Option(metavar="DURATION", help="Total time limit: 90s, 10m, 2h.")] = "10m"
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", "-w", help="Use only these workloads; may be repeated.", show_default="all"),
    ] = None
    nemesis: Annotated[
        list[str] | None,
        typer.Option(
            "--nemesis",
            "-n",
            metavar="NAME[:ROLE]",
            help="Use only these faults; may be repeated.",
            show_default="all that `random` draws from",
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="KEY=VALUE",
            help="Setting for every try (acks=all, client=kafka-python), as for `run`.",
        ),
    ] = None
    broken: BrokenOption = None
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Random seed (default: random).")] = None
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE.toml",
            help="Write the found scenario to this file.",
            show_default="found.toml next to its runs",
        ),
    ] = None


@with_options
def explore(
    *,
    search: SearchOptions,
    on: ClusterOptions,
    store: StoreOption = None,
    spark: SparkOptions,
    as_json: JsonFlag = False,
) -> None:
    """Search for failures: run random settings and faults, and shrink findings.

    Each try is a short run with random settings, faults, victims and times. The first finding ends the search. It is
    shrunk to fewer faults, plainer settings and shorter times while it still reproduces, and saved as a scenario file
    with the command that repeats it. All runs are kept in the store, in explore-SEED.

    Exit codes: 0 nothing was found (which does not mean valid), 1 something was found, 2 interrupted, 5 no try reached
    a verdict. Ctrl-C heals the cluster and keeps the best finding so far.

    [dim]tidegauge explore --budget 30m --set acks=all[/]
    [dim]tidegauge explore --find lost-write --seed 7[/]
    """
    from harness.experiments.explore import command, output
    from harness.experiments.explore.goal import goal_of
    from harness.experiments.explore.runs import ExplorationRuns
    from harness.experiments.explore.search import Exploration
    from harness.experiments.explore.search_space import candidates
    from harness.experiments.explore.weights import weights_for
    from harness.history.store import store_dir
    from harness.report.terminal.tables import as_json_text, line

    budget_s = duration("--budget", search.budget)
    goal = goal_of(parts(search.find))
    seed = secrets.randbits(31) if search.seed is None else search.seed
    name = f"explore-{seed}"
    file = command.writable(search.out_file) if search.out_file else store_dir(store) / name / output.FILE
    clean_up()
    space = replace(_space(name, search, on), weights=weights_for(goal))
    known = Exploration(space, goal, seed, budget_s)
    line(err, (f"looking for {goal} · seed {seed} · {search.budget} at most", "bold"))
    ground = ExplorationRuns(space, store_dir(store), sys.argv, err, spark.place())
    played = command.play(known, candidates(space, seed), ground, file, err)
    if as_json:
        as_json_text(out, output.as_json(known, played.file, played.report))
    else:
        output.shown(out, known, played.file, played.report)
    raise typer.Exit(known.exit_code)


def _space(name: str, search: SearchOptions, on: ClusterOptions) -> SearchSpace:
    """All the runs that could be drawn on this cluster."""
    from harness.clusters.spec import make_cluster
    from harness.experiments.explore.search_space import search_space_on
    from harness.runs.scenario import load

    spec = load(None, {"cluster": on.as_scenario()}).cluster
    with viewed_on(err) as view:
        spec = on.with_image(spec, view)
    flags = {
        "name": name,
        "cluster": spec.model_dump(exclude_defaults=True),
        "tap": {"broken": search.broken} if search.broken else None,
    }
    cluster = make_cluster(spec, SilentProgress())
    return search_space_on(cluster, search.workload or (), search.nemesis or (), search.settings or (), flags)
