"""What a run records, a method for each phase: set up, load with faults, heal, recover, final read, seal, tear down.

`harness.runs.runner` calls them in this order. A recording owns the cluster, the workers, the faults and the run's
directory; it makes no load itself and decides nothing about correctness. Workers may die at any time.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from harness.clusters.base import Cluster
from harness.clusters.cleanup.guard import keep_all_supervised
from harness.clusters.cluster_view import observe
from harness.foundation import optional_work
from harness.foundation.errors import TidegaugeError, one_line
from harness.foundation.interrupts import StopRequest
from harness.foundation.processes import TOKEN_VARIABLE
from harness.foundation.reasons import LOAD_NOT_OVER, NOT_WHOLE, NOTED, Reason
from harness.foundation.view import View
from harness.history.recorder import Recorder
from harness.history.schema import NEMESIS_PROCESS, RUNNER_PROCESS, FaultStage, Kind
from harness.history.sealing import seal
from harness.history.sources import read_unsealed, segment_path
from harness.history.store import Run
from harness.runs import provenance
from harness.runs.client_endpoints import client_endpoints, start_taps
from harness.runs.load import Load
from harness.runs.preparing import look_at, make_topics
from harness.runs.scenario import Scenario
from nemesis import FAULTS, faults_on
from nemesis.conductor import Conductor
from nemesis.outcome import FaultOutcome
from nemesis.schedule import Slot
from workloads import find_workload
from workloads.base import FinalTarget
from workloads.fleet import Fleet
from workloads.topics import delete_topics

FINAL_READERS = 2
FINAL_LIMIT_S = 900.0
FINISH_TIMEOUT_S = 10.0
TICK_S = 0.1
MACHINE_TIMEOUT_S = 20.0
LOG_LINES = 1_000_000


@dataclass
class RunRecording:
    """One run of one scenario, up to a sealed history. What it starts goes to `undo`, and has the token."""

    scenario: Scenario
    plan: list[Slot]
    cluster: Cluster
    cluster_is_shared: bool  # then it is up, and stays
    store: Run
    stop: StopRequest
    view: View
    phases: list[dict[str, Any]] = field(default_factory=list)
    troubles: list[Reason] = field(default_factory=list)
    failure: Exception | None = None  # of ours, in its middle; all that was recorded until then can be checked
    topics_removed: bool = False
    prefix: str = ""  # of topic names

    def __post_init__(self) -> None:
        self.prefix = self.prefix or self.scenario.settings.topic or f"tg-{secrets.token_hex(4)}"

    def set_up(self, undo: ExitStack, token: str) -> None:
        """A cluster that is up and has the topics; and whoever will load it, and break it, ready to begin."""
        about = _in_background(self._describe_machine)
        undo.callback(about.join, MACHINE_TIMEOUT_S)
        self._logged = self._log_lengths() if self.cluster_is_shared else {}
        self._recorder = self._recorder_of(RUNNER_PROCESS, "runner", undo)
        self._taps = (
            start_taps(self.cluster, self.scenario, self.store, self.prefix, {TOKEN_VARIABLE: token}, undo)
            if self.scenario.tap.on
            else None
        )
        with self._phase("set up"):
            self.scenario.settings.stack.prepare(self.view)
            if not self.cluster_is_shared:
                undo.callback(self.cluster.stop)
                undo.push(optional_work.give_up_on_error)
                self.cluster.start()
            undo.callback(self._remove_topics)
            about.join(MACHINE_TIMEOUT_S)
            self._prepare()
            endpoints = client_endpoints(self.cluster, self.scenario, self._taps, self.view)
        self._fleet = Fleet({TOKEN_VARIABLE: token}, self.store.path / "logs")
        undo.callback(self._fleet.stop, 0)
        self._load = Load(
            self.scenario, self.cluster, endpoints, self._fleet, self.store.path, self.prefix, len(self.plan)
        )
        self._nemesis = self._recorder_of(NEMESIS_PROCESS, "nemesis", undo)
        self._conductor = self._make_conductor()
        undo.callback(self._conductor.stop)
        self.stop.may_wait = True

    @property
    def has_loaded(self) -> bool:
        """Whether the load has begun."""
        return any(phase["name"] == "load" for phase in self.phases)

    def load(self) -> None:
        """Clients work, and faults come and go."""
        if self._load.no_probes and self.scenario.settings.probes:
            self.view.happened(f"no probes: {self._load.no_probes}")
        with self._phase("load", self._load.expected_s):
            self._load.run(self._conductor, self.stop, self.view)
        self.stop.load_is_over = True

    def heal(self) -> None:
        """Undo what is still broken; what resists is told, and the run goes on to see what that means."""
        with self._phase("heal"):
            for sentence in self._conductor.heal():
                self.view.happened(sentence)
        self._keep_faults()

    def recover(self) -> None:
        """Wait until every node answers and every partition has a leader and all its replicas in sync."""
        limits = self.scenario.limits
        limit_s = limits.whole_s if self.plan else min(limits.whole_s, limits.idle_s)
        with self._phase("recover"):
            began_s = time.monotonic()
            while not self.stop.asked:
                troubles = observe(self.cluster.nodes, self._load.topics_in_use(), self.cluster.security).troubles()
                waited_s = time.monotonic() - began_s
                if not troubles or waited_s > limit_s:
                    break
                keep_all_supervised()
                self.view.detail(f"waiting for the cluster to be whole: {troubles[0]}")
                time.sleep(TICK_S)
            else:
                return
            said = (
                f"not recovered after {waited_s:.0f} s: {troubles[0]}"
                if troubles
                else f"recovered after {waited_s:.1f} s"
            )
            self.view.happened(said)
            self.troubles += [Reason(NOT_WHOLE, f"the cluster was {said}")] if troubles else []
            self._recorder.write(Kind.PHASE, name="recovered" if not troubles else "not recovered", detail=said)
            if not troubles:
                self._conductor.whole()
                self._keep_faults()

    def final_read(self) -> None:
        """Fresh consumers read every partition from its start to its end, wherever that is in a topic begun again."""
        with self._phase("final"):
            written = read_unsealed(self.store.path)
            if self.stop.asked and not self._fleet.totals()["ok"]:
                self.view.happened("nothing was acknowledged, so there is nothing to read back")
                return
            names = _of_the_run(written.topics, self.prefix)
            places = sorted(set(written.acknowledged) | self._partitions_at_the_end(names))
            anew = _begun_again(self._conductor.outcomes) | written.deleted
            known = {place: end for place, end in written.acknowledged.items() if not {None, names[place[0]]} & anew}
            targets = [
                FinalTarget(topic=topic, name=names[topic], partition=p, last_acked=known.get((topic, p), -1))
                for topic, p in places
            ]
            shares = [targets[number::FINAL_READERS] for number in range(FINAL_READERS)]
            self._load.read_to_the_end(shares, FINAL_LIMIT_S, self.stop, self.view)

    def seal(self) -> None:
        """Everybody ends, what all wrote becomes one history, and the logs are kept; then the run can be checked."""
        with self._phase("seal"):
            self._fleet.stop(FINISH_TIMEOUT_S)
            if self._taps:
                self._taps.stop()
            self._nemesis.close()
            self._recorder.close()
            seal(self.store.path, self._fleet.killed)
            self._keep_logs()
        self._note_what_no_event_says()

    def tear_down(self) -> None:
        """Remove the cluster, or from one that stays our topics; an error is told, and changes no verdict."""
        try:
            self._remove_topics()
            if not self.cluster_is_shared:
                self.cluster.stop()
        except TidegaugeError as error:
            self.view.happened(str(error))
            self.store.update(tear_down_error=str(error))

    @contextmanager
    def failure_kept(self) -> Iterator[None]:
        """A failure of ours ends what is under way; what was recorded until then is still healed, sealed and judged."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - told, kept, and raised again after the verdict
            optional_work.give_up()
            self.view.happened(f"the run failed, and what was recorded is checked: {one_line(error)}")
            self.heal()
            self.failure = error

    def _recorder_of(self, process: int, role: str, undo: ExitStack) -> Recorder:
        return undo.enter_context(Recorder(segment_path(self.store.path, process), process, {"role": role}))

    @property
    def _has_own_topics(self) -> bool:
        """Whether its user has created them."""
        return bool(self.scenario.settings.topic)

    def _make_conductor(self) -> Conductor:
        load = self._load
        faults = faults_on(self.cluster, load.topics_in_use, self._taps, load.clients)
        return Conductor(
            self.plan, faults, self._nemesis, load.topic_number, self._fault, troubles_since=load.troubles_since
        )

    def _prepare(self) -> None:
        """Find out what there is to run on, and make the topics; what was given up is kept and told."""
        topics = find_workload(self.scenario.workload).topics(self.scenario.settings)
        self.view.step("asking the nodes what they can do")
        tapped = self._taps is not None
        found = look_at(self.cluster, self.plan, probes=self.scenario.settings.probes, tapped=tapped)
        self.plan = found.plan
        for topic in topics:
            self._recorder.topic(topic.number, topic.full_name(self.prefix))
        self.view.step(f"creating {len(topics)} topic{'s' if len(topics) != 1 else ''}")
        make_topics(self.cluster, topics, self.prefix, found, own=self._has_own_topics)
        self.troubles += found.reasons
        self.store.update(**found.as_json())
        for sentence in found.sentences:
            self.view.happened(sentence)
        compacted = [topic for topic in topics if topic.config.get("cleanup.policy") == "compact"]
        names = [topic.full_name(self.prefix) for topic in compacted]
        self.store.update(cluster=self.cluster.describe().as_json(), compacted=names)
        if age_s := self.scenario.settings.topic_age_s:
            self.view.step(f"letting the topics grow {age_s:g} s old")
            time.sleep(age_s)

    def _describe_machine(self) -> None:
        self.store.update(machine=provenance.this_machine())

    def _fault(self, stage: FaultStage, slot: Slot, text: str) -> None:
        how = "took effect" if stage is FaultStage.BIT else stage.name.lower()
        self.view.happened(f"{slot.fault} {slot.number} {how}: {text}")

    def _keep_faults(self) -> None:
        outcomes = self._conductor.outcomes
        self.store.update(
            faults=[_as_json(outcome) for outcome in outcomes],
            fault_errors=self._conductor.errors,
            elections=_elections(outcomes),
        )

    def _partitions_at_the_end(self, names: Mapping[int, str]) -> set[tuple[int, int]]:
        """Those that the load began with, and all that its topics have now: some may have grown."""
        found = {(topic.number, at) for topic in self._load.topics for at in range(topic.partitions)}
        numbers = {name: number for number, name in names.items()}
        seen = observe(self.cluster.nodes, list(numbers), self.cluster.security)
        return found | {(numbers[name], partition) for name, partition in seen.partitions}

    def _note_what_no_event_says(self) -> None:
        """What else the verdict has to know; from here on the run can be checked again."""
        if self._load.not_over:
            self.troubles.append(Reason(LOAD_NOT_OVER, self._load.not_over))
        if self._taps:
            said = [
                *self._taps.troubles,
                *(f"'{name}' matched no traffic" for name in self._taps.current.idle),
                *(() if self._taps.counts["exchanges"] else ("the taps saw no exchange",)),
            ]
            self.troubles += [Reason(NOTED, sentence) for sentence in said]
        if self.failure:
            self.store.write_failure(self.failure)
            self.store.update(error=one_line(self.failure))
        dead = self._fleet.dead()
        self.store.update(
            state="failed" if self.failure else "interrupted" if self.stop.asked else "recorded",
            interrupted=self.stop.asked > 0,
            phases=self.phases,
            troubles=[each.as_json() for each in self.troubles],
            dead_workers=[*map(str, dead), *(self._taps.deaths if self._taps else ())],
            dead_roles=[each.role for each in dead],
            tap=self._taps.counts if self._taps else None,
            no_probes=self._load.no_probes,
            ends_by_itself=self._load.ends_by_itself,
        )

    def _keep_logs(self) -> None:
        """All of them; of a cluster that was there before, what it has logged since.

        Those of nodes that are gone, their logs with them, are missing; that is told, and changes no verdict.
        """
        for node in self.cluster.nodes:
            try:
                lines, before = self.cluster.log_tail(node.id, LOG_LINES), self._logged.get(node.id, 0)
            except Exception as error:  # noqa: BLE001 - whatever an engine says about what is not there
                self.view.happened(f"the log of node {node.id} could not be kept: {error}")
            else:
                self.store.write_log(node.id, lines[before if before <= len(lines) else 0 :])

    def _log_lengths(self) -> dict[int, int]:
        return {node.id: len(self.cluster.log_tail(node.id, LOG_LINES)) for node in self.cluster.nodes}

    def _remove_topics(self) -> None:
        """From a cluster that stays, what we made there; our own goes as a whole."""
        if self._has_own_topics:
            return
        if (self.cluster.stays or self.cluster_is_shared) and not self.topics_removed:
            self.topics_removed = True
            try:
                delete_topics(self.cluster.nodes, self.cluster.security, self.prefix)
            except TidegaugeError as error:
                self.view.happened(str(error))
                self.store.update(tear_down_error=str(error))

    @contextmanager
    def _phase(self, name: str, expected_s: float | None = None) -> Iterator[None]:
        began_s = time.monotonic()
        self._recorder.write(Kind.PHASE, name=name)
        self.view.phase(name, expected_s)
        try:
            yield
        finally:
            self.phases.append({"name": name, "took_s": round(time.monotonic() - began_s, 2)})


def _in_background(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _of_the_run(topics: Mapping[int, str], prefix: str) -> dict[int, str]:
    """Its own topics: taps number all that they hear of, and those of others are not for us to read."""
    return {number: name for number, name in topics.items() if name.startswith(f"{prefix}-")}


def _begun_again(outcomes: Sequence[FaultOutcome]) -> set[str | None]:
    """The topics that faults have deleted; None stands for all."""
    deleting = (each for each in outcomes if each.injected_at is not None and FAULTS[each.slot.fault].deletes)
    return {each.evidence.topic if each.evidence else None for each in deleting}


def _elections(outcomes: Iterable[FaultOutcome]) -> dict[str, bool]:
    """By the number of a fault that brought an election about whether it was unclean."""
    told = ((outcome.slot.number, outcome.evidence.unclean) for outcome in outcomes if outcome.evidence)
    return {str(number): unclean for number, unclean in told if unclean is not None}


def _as_json(outcome: FaultOutcome) -> dict[str, Any]:
    """How a fault went, for run.json."""
    return {
        "number": outcome.slot.number,
        "fault": outcome.slot.fault,
        "stage": outcome.stage.name.lower() if outcome.stage else None,
        "bit": outcome.evidence is not None,
        "injected_at": outcome.injected_at,
        "undone_at": outcome.undone_at,
        "healed_at": outcome.healed_at,
        "recovered_after_s": outcome.recovered_after_s,
        "sentence": outcome.evidence.sentence if outcome.evidence else outcome.sentence,
    }
