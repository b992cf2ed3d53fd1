"""What can be drawn: a workload, settings of its clients and topics, and one to three faults with victims and times.

A draw says in what it differs from the *plainest* load: the workload's defaults with acks=all, the smallest numbers of
everything, and clients that wait as little as those of an investigation. So a draw without differences and faults is
the smallest there is, and shrinking takes differences away.

Chances are uneven, so that much is met soon, and lean to what is sought by name (`leaning`):

    workload    the stream four times as often as each other one: it takes all settings, and any fault
    settings    acks and the number of partitions always, and up to three others; acks=1 as often as acks=all; none that
                is the same in every draw (`--set`)
    faults      all that this machine can do to this cluster and that `random` draws from; those that change leaders
                three times as often, and those that cut nodes off from each other twice as often as the others: that
                is when most promises were ever seen to be broken
    victims     the fault's own choice as often as any other role
    times       faults begin together, or one after the other, and last 1 to 6 s, or until they have bitten

Hypothesis draws (`candidates`): the same seed gives the same draws in the same order. Each is drawn by itself, because
what hypothesis makes of one seed are mostly variations of a few examples, and a run is too dear for these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir
from pydantic import ValidationError

from harness.clusters.base import Cluster
from harness.clusters.node import Capability
from harness.experiments.explore.weights import Weights
from harness.experiments.investigate.experiments import IMPATIENT
from harness.foundation.errors import UsageError
from harness.foundation.paths import cache_dir
from harness.runs.scenario import Scenario, derived_seed
from harness.runs.scenario import load as load_scenario
from nemesis import FAMILIES, FAULTS, check_sense, fault_named, resolve, schedule
from nemesis.base import Fault, refuse_unless_possible
from nemesis.schedule import RANDOM, FaultPlan
from workloads import WORKLOADS, find_workload
from workloads.clients.stacks import STACKS

STREAM = "stream"
STREAM_SHARE = 4
LEADERS_SHARE = 3  # of faults that change leaders
CUTS_SHARE = 2  # of faults that cut nodes off from each other
LAST_S = 1.0  # of the load, after the last fault was to end
UNDISTURBED_S = 5.0  # of a load without faults
FIRST_S = (1.0, 2.0, 3.0)  # when the first fault begins
GAPS_S = (0.0, 1.0, 2.0, 4.0)  # from one beginning to the next
LASTING_S = (1.0, 3.0, 6.0)
TURNS = (1, 2, 2, 3)
OTHERS_AT_MOST = 3
KNOWN_AT_MOST = 100  # draws in a row that there were before: then there is hardly another one
PARTITIONS = (1, 2, 3, 6)
PLAIN: Mapping[str, Any] = {
    "acks": "all",
    "partitions": 1,
    "producers": 1,
    "consumers": 1,
    "rate": 50,
    "messages": 1000,
    "probe_rate": 2,
}
OTHERS: Mapping[str, tuple[Any, ...]] = {
    "client": tuple(STACKS),
    "idempotence": (True, False),
    "max_in_flight": (1, 5),
    "min_insync_replicas": (1, 3),
    "replication_factor": (2,),
    "unclean_election": (True,),
    "producers": (2, 3),
    "consumers": (2, 3),
    "rate": (200, 1000),
    "retries": (0,),
    "linger_ms": (0, 50),
    "compression": ("gzip",),
    "value_bytes": (1000,),
    "consume_by": ("subscribe",),
    "bootstrap": ("first",),
    "isolation_level": ("read_committed",),
    "group_protocol": ("consumer",),
}


@dataclass(frozen=True)
class CandidateFault:
    """One fault of a schedule."""

    fault: str
    target: str
    at_s: float
    for_s: float

    @property
    def end_s(self) -> float:
        """When it is to end."""
        return round(self.at_s + self.for_s, 3)

    @property
    def data(self) -> dict[str, Any]:
        """As a scenario file has it."""
        return {"fault": self.fault, "target": self.target, "at": [self.at_s], "for": self.for_s}

    def __str__(self) -> str:
        return f"{self.fault}:{self.target} at {self.at_s:g} s for {self.for_s:g} s"


@dataclass(frozen=True)
class Candidate:
    """A load and its faults; `settings` are those in which it differs from the plainest one, by name."""

    workload: str
    settings: tuple[tuple[str, Any], ...] = ()
    turns: tuple[CandidateFault, ...] = ()

    def __str__(self) -> str:
        told = " ".join([self.workload, *(f"{key}={value}" for key, value in self.settings)])
        return " · ".join([told, *map(str, self.turns)])

    def only(self, settings: Sequence[tuple[str, Any]]) -> Candidate:
        """With nothing but these differences."""
        return replace(self, settings=tuple(settings))


@dataclass(frozen=True)
class SearchSpace:
    """All there is to draw from, and what is the same in every draw."""

    faults: Mapping[str, Mapping[str, tuple[str, ...]]]  # by workload and name: the roles that it may be aimed at
    fixed: tuple[str, ...] = ()  # settings as `--set` has them
    flags: Mapping[str, Any] = field(default_factory=dict)  # of every scenario
    weights: Weights = field(default_factory=Weights)

    @property
    def fixed_keys(self) -> frozenset[str]:
        """The settings of the workload that are the same in every draw."""
        keys = (text.partition("=")[0].rpartition(".") for text in self.fixed)
        return frozenset(key for table, _, key in keys if table in {"", "workload"})

    def scenario(self, draw: Candidate, seed: int) -> Scenario:
        """What a draw is run as; UsageError for settings that do not go together."""
        flags = {
            **self.flags,
            "workload": {"name": draw.workload, **plainest(draw.workload), **dict(draw.settings)},
            "nemesis": [turn.data for turn in draw.turns],
            "time": max((turn.end_s + LAST_S for turn in draw.turns), default=UNDISTURBED_S),
            "seed": seed,
        }
        return load_scenario(None, flags, self.fixed)

    def allows(self, draw: Candidate) -> bool:
        """Whether a scenario can be made of it, with a turn for every fault."""
        try:
            scenario = self.scenario(draw, 0)
            return len(schedule(scenario.nemesis, scenario.time, 0)) == len(draw.turns)
        except UsageError:
            return False

    def role(self, fault: str) -> str:
        """Whom a fault is aimed at unless told otherwise."""
        return next(faults[fault][0] for faults in self.faults.values() if fault in faults)

    @property
    def needs(self) -> frozenset[Capability]:
        """What a cluster has to have for every fault there is."""
        names = {name for faults in self.faults.values() for name in faults}
        return frozenset[Capability]().union(*(FAULTS[name].needs for name in names))


def search_space_on(
    cluster: Cluster,
    workloads: Sequence[str] = (),
    nemeses: Sequence[str] = (),
    fixed: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
) -> SearchSpace:
    """What can be drawn for this cluster, which need not be up: everything, or what is named."""
    names = [find_workload(name).name for name in workloads] or list(WORKLOADS)
    space = SearchSpace(
        {name: _faults(name, cluster, nemeses or (RANDOM,)) for name in names}, tuple(fixed), flags or {}
    )
    if "name" in space.fixed_keys:
        raise UsageError("--set cannot name the workload, which is drawn", "name it with --workload")
    usable = {name: faults for name, faults in space.faults.items() if faults and space.allows(Candidate(name))}
    if not usable:
        space.scenario(Candidate(names[0]), 0)  # says what is wrong with the settings, if that is the reason
        raise UsageError("no workload that was named can have a fault that was named", "name others, or none")
    return replace(space, faults=usable)


def candidates(space: SearchSpace, seed: int) -> Iterator[Candidate]:
    """One after the other, without an end; none twice before all have come that are to be had."""
    set_hypothesis_home_dir(cache_dir() / "hypothesis")  # not into the directory that somebody works in
    known: set[Candidate] = set()
    in_a_row = 0
    for number in count():
        drawn = _drawn(space, derived_seed(seed, "draw", number))
        in_a_row = in_a_row + 1 if drawn in known else 0
        if in_a_row > KNOWN_AT_MOST:  # almost everything was fixed or named
            known.clear()
        if drawn not in known:
            known.add(drawn)
            yield drawn


@cache
def plainest(workload: str) -> Mapping[str, Any]:
    """The settings of the smallest and most impatient load; each only where the workload has it and takes it."""
    model = find_workload(workload).model
    told: dict[str, Any] = {}
    for key, value in {**PLAIN, **IMPATIENT}.items():
        if key not in model.model_fields:
            continue
        default = model.model_fields[key].default
        small = value if not default or isinstance(value, str) else min(value, default)
        try:
            model.model_validate({**told, key: small})
        except ValidationError:
            continue
        told[key] = small
    return told


def _drawn(space: SearchSpace, seed: int) -> Candidate:
    """The second example of a seed: the first is always the simplest there is, and later ones are variations of it."""
    found: list[Candidate] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=2,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(_any(space))
    def note(draw: Candidate) -> None:
        found.append(draw)

    note()
    return found[-1]


@st.composite
def _any(draw: st.DrawFn, space: SearchSpace) -> Candidate:
    """A draw that can be run."""
    weights = space.weights
    names = [
        name for name in space.faults for _ in range((STREAM_SHARE if name == STREAM else 1) * weights.workload(name))
    ]
    workload = draw(st.sampled_from(names))
    found = Candidate(workload, draw(_settings(workload, space)), draw(_turns(space.faults[workload], weights)))
    hypothesis.assume(space.allows(found))
    return found


@st.composite
def _settings(draw: st.DrawFn, workload: str, space: SearchSpace) -> tuple[tuple[str, Any], ...]:
    """The differences, in order of their names; what is fixed would win over them."""
    model, plain = find_workload(workload).model, plainest(workload)
    always: Mapping[str, tuple[Any, ...]] = {"acks": space.weights.acks, "partitions": PARTITIONS}
    told = {key: draw(st.sampled_from(values)) for key, values in always.items() if key not in space.fixed_keys}
    others = sorted((set(OTHERS) & set(model.model_fields)) - space.fixed_keys)
    for key in draw(st.lists(st.sampled_from(others), max_size=OTHERS_AT_MOST, unique=True)) if others else ():
        told[key] = draw(st.sampled_from(OTHERS[key]))
    as_it_is = {key: plain.get(key, model.model_fields[key].default) for key in told}
    return tuple(sorted((key, value) for key, value in told.items() if value != as_it_is[key]))


@st.composite
def _turns(draw: st.DrawFn, faults: Mapping[str, tuple[str, ...]], weights: Weights) -> tuple[CandidateFault, ...]:
    """Different faults, in order of their beginning."""
    names = [name for name in faults for _ in range(_share(FAULTS[name]) * weights.fault(FAULTS[name]))]
    wanted = min(draw(st.sampled_from(TURNS)), len(faults))
    turns: list[CandidateFault] = []
    at_s = draw(st.sampled_from(FIRST_S))
    for name in draw(st.lists(st.sampled_from(names), min_size=wanted, max_size=wanted, unique=True)):
        target = draw(st.sampled_from(weights.victims(faults[name])))
        turns.append(CandidateFault(name, target, at_s, draw(st.sampled_from(LASTING_S))))
        at_s += draw(st.sampled_from(GAPS_S))
    return tuple(turns)


def _share(fault: type[Fault]) -> int:
    """How many chances a fault has."""
    leaders = LEADERS_SHARE if fault.changes_leaders else 1
    return leaders * (CUTS_SHARE if fault in FAMILIES["partition"] else 1)


def _faults(workload: str, cluster: Cluster, nemeses: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Those that are possible with this workload; an error for one that this cluster can never have."""
    kind = find_workload(workload)
    stages = kind.stages(kind.model.model_validate(plainest(workload)), 1)
    endless = not all(role.finite for stage in stages for role in stage)
    found: dict[str, tuple[str, ...]] = {}
    for text in nemeses:
        names, _, role = text.partition(":")
        plan = FaultPlan(fault=names, target=role)
        check_sense([plan])
        for name in resolve([plan], cluster, endless=endless)[0].faults:
            fault = fault_named(name)
            try:
                refuse_unless_possible(fault, cluster, endless=endless)
            except UsageError:  # this load ends too soon for it
                continue
            found[name] = (*found.get(name, ()), *([role] if role else fault.roles))
    return found
