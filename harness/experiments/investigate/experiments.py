"""The experiments of an investigation: what is changed, one thing at a time, and what it would mean if that helped.

They are the phases of the investigation notes. Each is data: a question, the settings that it changes (given those of
the scenario), and what follows from its outcome. An experiment is compared with the baseline, or with another
experiment where it cannot change one thing alone: idempotence needs acks=all.

An investigation waits less than a user would: IMPATIENT caps what clients wait for, so that a run that stalls is over
soon. The time-outs of the scenario, or these, are what `patience` then extends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from harness.runs.scenario import Scenario, derived_seed
from workloads.base import Settings
from workloads.clients.stacks import STACKS

BASELINE = "baseline"
IMPATIENT = {
    "consumer_timeout_ms": 5_000,
    "delivery_timeout_ms": 6_000,
    "request_timeout_ms": 3_000,
    "final_read_timeout_s": 3.0,
}
TIME_AT_MOST_S = 15.0  # of the load of one run
EXTENDED = 3  # times as long
POLL_EXTENDED = 10  # times as many records
AGED_S = 10.0  # a topic that is older than this is not fresh

Change = Callable[[Settings], dict[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """One thing that is changed."""

    name: str
    question: str
    suspect: str  # what is to blame if the outcome follows the change, and what is excluded if it does not
    change: Change
    if_it_follows: str  # what it means
    against: Callable[[Settings], str] = field(default=lambda _: BASELINE)  # what it is compared with


@dataclass(frozen=True)
class PlannedExperiment:
    """An experiment as it can be made with a scenario, or why it cannot."""

    experiment: Experiment
    scenario: Scenario | None
    changed: Mapping[str, Any]
    against: str
    impossible: str = ""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.experiment.name

    @property
    def change(self) -> str:
        """The settings it changes, as one would give them to --set."""
        return " ".join(f"{key}={value}" for key, value in self.changed.items())


def _patience(now: Settings) -> dict[str, Any]:
    longer = {
        name: value * EXTENDED
        for name in ("consumer_timeout_ms", "delivery_timeout_ms", "request_timeout_ms")
        if (value := getattr(now, name)) is not None
    }
    return {**longer, "max_poll_records": now.max_poll_records * POLL_EXTENDED}


def _acks(now: Settings) -> dict[str, Any]:
    return {"acks": "1" if now.acks == "all" else "all", "idempotence": False}


def _idempotence(now: Settings) -> dict[str, Any]:
    return {"idempotence": False} if now.idempotence else {"acks": "all", "idempotence": True}


def _other_client(now: Settings) -> dict[str, Any]:
    """The first one that takes the settings; of those that do not, the first, which says why."""
    others = [name for name in STACKS if name != now.client]
    return {"client": next((name for name in others if _takes(now, name)), others[0])}


def _takes(settings: Settings, client: str) -> bool:
    try:
        _with(settings, {"client": client})
    except ValidationError:
        return False
    return True


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "bootstrap",
        "does it depend on which brokers clients know at first?",
        "the bootstrap list",
        lambda now: {"bootstrap": "first" if now.bootstrap == "all" else "all"},
        "clients reach only the brokers in their bootstrap list: Metadata is incomplete",
    ),
    Experiment(
        "patience",
        "do messages only need more time, or larger polls?",
        "time-outs and poll size",
        _patience,
        "nothing is lost: clients give up too early, or take too little at a time",
    ),
    Experiment(
        "single partition",
        "does it happen with one partition?",
        "several partitions (imbalance, leaders on several nodes)",
        lambda _: {"partitions": 1},
        "it takes several partitions: one that is behind the others, or a leader that clients do not find",
    ),
    Experiment(
        "in flight",
        "does it happen with one request at a time?",
        "several requests in flight",
        lambda now: {"max_in_flight": 5 if now.max_in_flight == 1 else 1},
        "requests of one connection that are handled at the same time get in each other's way",
    ),
    Experiment(
        "acks",
        "does it depend on how many replicas acknowledge?",
        "acks",
        _acks,
        "what is acknowledged, and when, differs between acks=1 and acks=all",
        against=lambda now: "idempotence" if now.idempotence else BASELINE,
    ),
    Experiment(
        "topic age",
        "does it happen with topics that have been there for a while?",
        "fresh topics",
        lambda _: {"topic_age_s": AGED_S},
        "the first requests to a new topic come before its leaders or metadata have settled",
    ),
    Experiment(
        "client",
        "does it happen with another client library?",
        "the client library",
        _other_client,
        "one client library meets it and another does not: it may be the client's, or what only one of them asks for",
    ),
    # the last one: an idempotent producer may not give up for a long time
    Experiment(
        "idempotence",
        "does it depend on numbered batches?",
        "idempotence",
        _idempotence,
        "resends are handled differently when batches are numbered",
        against=lambda now: BASELINE if now.idempotence or now.acks == "all" else "acks",
    ),
)


def baseline_of(scenario: Scenario) -> Scenario:
    """The scenario, as impatient as an investigation is, and with idempotence said, which libraries else decide."""
    now = scenario.settings
    capped: dict[str, Any] = {
        name: min(most, value) if (value := getattr(now, name)) is not None else most
        for name, most in IMPATIENT.items()
    }
    capped["request_timeout_ms"] = min(capped["request_timeout_ms"], capped["delivery_timeout_ms"] // 2)
    settings = _with(now, {**capped, "idempotence": now.idempotent})
    return scenario.model_copy(
        update={"settings": settings, "time": min(scenario.time, TIME_AT_MOST_S), "name": _name(scenario, BASELINE)}
    )


def plan(scenario: Scenario, experiments: Iterable[Experiment] = EXPERIMENTS) -> list[PlannedExperiment]:
    """The baseline, and after it each experiment with what it changes in it."""
    base = baseline_of(scenario)
    nothing = Experiment(BASELINE, "what happens as it is?", "", lambda _: {}, "")
    planned = [PlannedExperiment(nothing, base, {}, "")]
    planned += [_planned(each, base, _name(scenario, each.name)) for each in experiments]
    return planned


def _planned(experiment: Experiment, base: Scenario, name: str) -> PlannedExperiment:
    now, against = base.settings, experiment.against(base.settings)
    wanted = experiment.change(now)
    changed = {key: value for key, value in wanted.items() if getattr(now, key, None) != value}
    missing = [key for key in changed if key not in type(now).model_fields]
    why = "" if changed else "the scenario has it so already"
    if missing:
        why = f"'{base.workload}' has no setting {', '.join(missing)}"
    if why:
        return PlannedExperiment(experiment, None, changed, against, why)
    try:
        settings = _with(now, changed)
    except ValidationError as error:
        return PlannedExperiment(experiment, None, changed, against, str(error.errors()[0]["msg"]))
    made = base.model_copy(update={"settings": settings, "name": name})
    return PlannedExperiment(experiment, made, changed, against)


def repetition(scenario: Scenario, number: int) -> Scenario:
    """The same again, with chances of its own: those of the n-th repetition, whatever the experiment."""
    return scenario.model_copy(update={"seed": derived_seed(scenario.seed, "repetition", number)})


def _with(settings: Settings, changed: Mapping[str, Any]) -> Settings:
    """These settings with some changed, checked as if somebody had written them."""
    return type(settings).model_validate({**settings.model_dump(by_alias=True), **changed})


def _name(scenario: Scenario, experiment: str) -> str:
    return f"{scenario.title}+{experiment.replace(' ', '-')}"
