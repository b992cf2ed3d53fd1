"""The load of a run: its workers in stages, cued by the faults, watched while they work.

A workload that ends by itself is waited for; one that does not is stopped when its time is over, but not before the
last fault is and clients have had a few seconds on the healed cluster. A stage in which nothing moves any more is ended
early (`harness.runs.idleness`): its clients are told to leave, and what has no outcome by then has none.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.clusters.base import Cluster
from harness.clusters.cleanup.guard import keep_all_supervised
from harness.clusters.cluster_view import ClusterView, observe
from harness.foundation.errors import ClusterError
from harness.foundation.interrupts import StopRequest
from harness.foundation.limits import patience_s
from harness.foundation.security import Security, SecuritySpec
from harness.foundation.view import LoadStatus, View
from harness.history.schema import FIRST_WORKER, now
from harness.history.sources import segment_path
from harness.history.store import Run
from harness.runs.client_victims import ClientVictims
from harness.runs.consumer_churn import ConsumerChurn
from harness.runs.idleness import Idleness, waited_for
from harness.runs.scenario import Scenario, derived_seed
from harness.runs.strangers import StrangerWatch
from harness.tap.taps import Taps
from nemesis.conductor import Conductor
from workloads import find_workload
from workloads.base import (
    ADMIN,
    CONSUMER,
    COUNTS,
    FINAL,
    PROBE,
    PRODUCER,
    RAW,
    REPLICA,
    FinalTarget,
    NodeAddress,
    Role,
    TopicSpec,
    WorkerConfig,
)
from workloads.fleet import Fleet, WorkerProcess

TICK_S = 0.1
LOOK_EVERY_S = 1.0
CUE_DELAY_NS = 300_000_000  # after a fault was announced, so that it is there when the load goes on
AFTER_FAULTS_S = 5.0
CLIENTS_START_S = 30.0  # for clients to begin with their work, on a machine that may be busy
GRACE_S = 240.0  # for a load that ends by itself, beyond its time and its consumers' patience
FINISH_TIMEOUT_S = 150.0  # for workers to flush: longer than clients try to deliver, unless they were told how long
FINISH_GRACE_S = 30.0  # beyond what they were told
LEAVE_S = 15.0  # for workers to leave what is outstanding
AGAIN_S = 15.0  # for a final read after a load in which nothing moved any more
READERS_END_S = 60.0  # for final readers, beyond their own patience
LEADERS_SHOWN = 6
WORKING = (ADMIN, PRODUCER, CONSUMER)


@dataclass(frozen=True)
class ClientEndpoints:
    """What clients connect to: the brokers themselves, or the taps before them."""

    nodes: tuple[NodeAddress, ...]
    security: Security
    bootstrap: Literal["first", "all"] | tuple[str, ...] = "all"  # where clients begin
    taps: Taps | None = None


@dataclass
class Load:
    """The workers of a run, and what they are told."""

    scenario: Scenario
    cluster: Cluster
    endpoints: ClientEndpoints
    fleet: Fleet
    run_dir: Path
    prefix: str  # of topic names
    faults: int  # that will come

    def __post_init__(self) -> None:
        settings = self.scenario.settings
        self._nonce = derived_seed(self.scenario.seed, self.prefix)
        self._began, self._ended = now(), 0
        self._workload = find_workload(self.scenario.workload)
        self.topics: list[TopicSpec] = self._workload.topics(settings)
        self._numbers = {topic.full_name(self.prefix): topic.number for topic in self.topics}  # of all ever in use
        self._stages: list[list[Role]] = self._workload.stages(settings, self.faults)
        self._next_process = FIRST_WORKER
        self._roles: dict[int, Role] = {}
        self.clients = ClientVictims(self.fleet, lambda killed: Run(self.run_dir).update(killed_on_purpose=killed))
        churn, chances = self._workload.churn(settings), derived_seed(self.scenario.seed, "churn")
        self._churning = ConsumerChurn(churn, self.clients, chances)
        self._leaders = ""
        self._last_look: tuple[int, list[str]] | None = None
        self._supervised_until_s = 0.0  # as far as is known
        self._waited_in_vain = False  # for a stage that then was given up
        self.not_over = ""  # why the load ended before all of it was done
        protocol = self.endpoints.security.protocol
        self.no_probes = "" if protocol == "PLAINTEXT" else f"nodes cannot be asked one by one over {protocol}"
        self.ends_by_itself = all(role.finite for stage in self._stages for role in stage)
        consumers_s = settings.consumer_timeout_ms / 1000 if self.ends_by_itself else 0
        self.limit_s = self.scenario.time + GRACE_S + consumers_s
        # how long it takes, and how much is to be sent: whichever ends it
        self.expected_s = None if self.ends_by_itself else self.scenario.time
        self._messages = settings.model_dump().get("messages") if self.ends_by_itself else None
        self._idle = Idleness(self._patience_s())
        self._gave_up, self._stage_began_s = False, time.monotonic()  # of the stage that works now
        self._strangers = StrangerWatch(self.cluster)

    def _patience_s(self) -> float:
        """How long nothing may move before waiting is in vain."""
        settings = self.scenario.settings
        roles = [role for stage in self._stages for role in stage]
        return patience_s(
            self.scenario.limits.model_dump(),
            settings.model_dump(),
            watched=self.endpoints.taps is not None or (settings.probes and not self.no_probes),
            in_group=any(self._workload.in_group(settings, role) for role in roles),
            faults=self.faults > 0,
        )

    def topics_in_use(self) -> list[str]:
        """The names of the topics that clients use at the moment."""
        return [topic.full_name(self.prefix) for topic in self._in_use()]

    def topic_number(self, name: str) -> int | None:
        """The number in the history of a topic that is or was in use."""
        return self._numbers.get(name)

    def troubles_since(self, time_ns: int) -> list[str] | None:
        """What keeps the cluster from being whole, by the last look; None when that began before this time."""
        look = self._last_look
        return look[1] if look and look[0] > time_ns else None

    def _in_use(self) -> list[TopicSpec]:
        found = self._workload.topics_in_use(self.scenario.settings, self._ended or now(), self._began)
        self._numbers.update({topic.full_name(self.prefix): topic.number for topic in found})
        return found

    def run(self, conductor: Conductor, stop: StopRequest, view: View) -> None:
        """Start everything, and return when the load is over or its user has had enough of it."""
        began_s = time.monotonic()
        self._began = now()
        over = threading.Event()
        threading.Thread(target=self._watch_leaders, args=(over,), name="leaders", daemon=True).start()
        if self.endpoints.taps is None:
            self._strangers.begin(over)
        try:
            self._run_stages(began_s, conductor, stop, view)
            self._ended = now()
            if not all(outcome.over for outcome in conductor.outcomes):
                conductor.end()  # whoever is paused or held cannot finish
            self._finish(conductor, stop, view)
        except ClusterError:
            self._have_all_leave()
            raise
        finally:
            over.set()

    def _run_stages(self, began_s: float, conductor: Conductor, stop: StopRequest, view: View) -> None:
        if self.scenario.settings.probes and not self.no_probes:
            self._start(Role(PROBE, finite=False))
        stages = iter(self._stages)
        finite = self._start_stage(next(stages))
        cue, begun = 0, not conductor.outcomes
        while not stop.asked:
            self._tick(conductor, view)
            self._strangers.check()
            cue = self._cue(conductor, cue)
            elapsed_s = time.monotonic() - began_s
            if not begun and (self._clients_work() or elapsed_s > CLIENTS_START_S):
                begun = True
                conductor.start()
            if self._nobody_gets_through or self._is_given_up(elapsed_s, view):
                break
            if self.ends_by_itself:
                if self._over(finite):
                    stage = next(stages, None)
                    if stage is None and all(outcome.over for outcome in conductor.outcomes):
                        break
                    finite = self._start_stage(stage) if stage else finite
            elif elapsed_s >= self.scenario.time and _healed_for_a_while(conductor):
                break

    def _clients_work(self) -> bool:
        """Whether something was acknowledged and, where there are consumers already, read: else no fault is felt."""
        done = self.fleet.totals()
        return done["ok"] > 0 and (done["read"] > 0 or not any(self.fleet.of(CONSUMER)))

    def _finish(self, conductor: Conductor, stop: StopRequest, view: View) -> None:
        """Have the clients end, with what they still have to send and to hear."""
        self._churning.close()
        self.clients.close()
        for role in WORKING:
            self.fleet.tell({"stop": True}, role)
        told_ms = self.scenario.settings.delivery_timeout_ms
        patience_s = min(FINISH_TIMEOUT_S, told_ms / 1000 + FINISH_GRACE_S) if told_ms else FINISH_TIMEOUT_S
        leaving = self._gave_up
        deadline_s = time.monotonic() + (LEAVE_S if leaving or stop.asked else patience_s)
        self._idle.begin()
        while stop.asked < 2 and time.monotonic() < deadline_s and not self._nobody_gets_through:
            self._tick(conductor, view)
            if all(self.fleet.over(role) for role in WORKING):
                return
            if self._idle.in_vain and not leaving:
                view.happened(f"nothing has moved for {self._idle.limit_s:.0f} s: clients leave what is outstanding")
                self._have_all_leave()
                deadline_s, leaving = time.monotonic() + LEAVE_S, True

    def _is_given_up(self, elapsed_s: float, view: View) -> bool:
        """Whether the load is to end before all of it is done."""
        if elapsed_s > self.limit_s:
            self.not_over = f"the load was not over after {self.limit_s:.0f} s and was stopped"
            view.happened(self.not_over)
            return True
        return self._idle.in_vain and self._waits_in_vain(view)

    def _waits_in_vain(self, view: View) -> bool:
        """End a stage in which nothing moves any more; whether the load is over with that."""
        said = f"nothing moved for {self._idle.lasted_s:.0f} s: {self._waits_for()}"
        view.happened(f"{said}; more waiting would change nothing")
        again, self._gave_up = self._gave_up, True
        self._waited_in_vain = True
        sending = any(not worker.over for role in (ADMIN, PRODUCER) for worker in self.fleet.of(role))
        if sending or again:
            self.not_over = f"the load ended early, because {said}"
        self._have_all_leave()
        self._idle.begin()
        return again or not self.ends_by_itself

    def _have_all_leave(self) -> None:
        for role in WORKING:
            self.fleet.tell({"stop": True, "leave": True}, role)

    def _waits_for(self) -> str:
        sending = not self.fleet.over(PRODUCER)
        return waited_for(self.fleet.totals(PRODUCER), self.fleet.totals(CONSUMER), sending=sending)

    def read_to_the_end(
        self, targets: Sequence[Sequence[FinalTarget]], limit_s: float, stop: StopRequest, view: View
    ) -> None:
        """Fresh consumers, each with its share of the partitions, and a reader of each node; until all have ended."""
        deadline_s = time.monotonic() + limit_s
        self._waited_in_vain = self._waited_in_vain or stop.asked > 0  # who wants the end waits no longer than need be
        roles = (FINAL, RAW) if self._workload.reads_raw(self.scenario.settings) else (FINAL,)
        for role in roles:
            for number, share in enumerate(targets):
                if share:
                    self._start(Role(role, number, len(targets)), share)
        if self._reads_replicas:
            roles = (*roles, REPLICA)
            for number in range(len(self.endpoints.nodes)):
                self._start(Role(REPLICA, number, len(self.endpoints.nodes)), [at for share in targets for at in share])
        expected = sum(at.last_acked + 1 for share in targets for at in share)
        asked, idle = stop.asked, Idleness(self._final_patience_s + READERS_END_S)
        while time.monotonic() < deadline_s and stop.asked == asked and not self._nobody_gets_through:
            if all(self.fleet.over(role) for role in roles):
                break
            self._look_after(view)
            readers = [worker for role in roles for worker in self.fleet.of(role)]
            idle.look(self._counts(readers), sum(worker.over for worker in readers))
            if idle.in_vain:
                view.happened(f"the final read is ended: nothing of it has moved for {idle.lasted_s:.0f} s")
                break
            waits = next((worker.detail for worker in readers if worker.detail and not worker.over), "")
            read, waiting = (
                self.fleet.totals(FINAL)["read"],
                idle.sentence(waits or "readers to end", self._final_patience_s),
            )
            if waiting or read > expected:
                view.detail(" · ".join(part for part in (f"{read:,} read", waiting) if part))
            else:
                view.part(read, expected, "messages")
            time.sleep(TICK_S)

    @property
    def _final_patience_s(self) -> float:
        """How long final readers wait in vain; where the load did so already, they need not do it all over."""
        settings = self.scenario.settings
        waited = self._waited_in_vain and "transaction_timeout_ms" not in type(settings).model_fields
        return min(settings.final_read_timeout_s, AGAIN_S) if waited else settings.final_read_timeout_s

    @property
    def _reads_replicas(self) -> bool:
        """Whether every node is asked for what it has: our own ones, in plain text."""
        ours = self.cluster.nodes_are_ours and self.endpoints.security.protocol == "PLAINTEXT"
        return ours and self.scenario.settings.replica_records > 0

    def _start_stage(self, stage: list[Role]) -> list[int]:
        """Start a stage's workers, and return the processes of those that end by themselves."""
        self._idle.begin()
        self._gave_up, self._stage_began_s = False, time.monotonic()
        started = [(self._start(role), role.finite) for role in stage]
        if any(worker.over for worker in self.fleet.of(PRODUCER)):
            self._tell_acknowledged()
        return [process for process, finite in started if finite]

    def _take_place(self, killed: int) -> int:
        """Another worker that does what one did which a fault has killed."""
        return self._start(self._roles[killed], follows=killed)

    def _start(self, role: Role, targets: Sequence[FinalTarget] = (), follows: int | None = None) -> int:
        process = self._next_process
        self._next_process += 1
        self._roles[process] = role
        own = () if follows is None else (process,)
        Run(self.run_dir).started(process, role.name)  # first: a run that is killed has to know whom to miss
        self.fleet.start(
            WorkerConfig(
                process=process,
                role=role.name,
                number=role.number,
                of=role.of,
                parts=role.parts,
                task=role.task,
                workload=self.scenario.workload,
                settings={
                    **self.scenario.settings.model_dump(mode="json", by_alias=True),
                    "bootstrap": self.endpoints.bootstrap,
                    "final_read_timeout_s": self._final_patience_s,
                },
                segment=segment_path(self.run_dir, process),
                run=self._nonce,
                prefix=self.prefix,
                began=self._began,
                topics=tuple(self.topics),
                nodes=self.endpoints.nodes,
                tapped=self.endpoints.taps is not None,
                security=SecuritySpec.of(self.endpoints.security),
                seed=derived_seed(self.scenario.seed, role.name, role.number, *own),
                targets=tuple(targets),
            )
        )
        return process

    def _over(self, processes: list[int]) -> bool:
        over = all(self.fleet.workers[process].over for process in processes)
        if self.fleet.over(PRODUCER):
            self._tell_acknowledged()
        return over

    def _tell_acknowledged(self) -> None:
        """Consumers end when they have read what was acknowledged; only now is that known."""
        self.fleet.tell({"acked": self.fleet.totals(PRODUCER)["ok"]}, CONSUMER)

    def _cue(self, conductor: Conductor, told: int) -> int:
        """Tell producers how many beginnings and ends of faults there were: they have a part of the load for each."""
        settled = now() - CUE_DELAY_NS
        cue = sum(
            2 if outcome.over else int(outcome.injected_at is not None and outcome.injected_at < settled)
            for outcome in conductor.outcomes
        )
        if cue > told:
            self.fleet.tell({"cue": cue}, PRODUCER)
        return cue

    def _tick(self, conductor: Conductor, view: View) -> None:
        self._look_after(view)
        self._churning.tick(time.monotonic())
        self.clients.take_places(self._take_place)
        faults = tuple(f"{one.slot.fault}: {one.sentence}" for one in conductor.current())
        self._look_whether_idle(conductor)
        waits = self._idle.sentence(self._waits_for())
        counts = self.fleet.totals()
        share = counts["ok"] / self._messages if self._messages else None
        view.standing(LoadStatus(counts, faults, self._leaders, waits, share))
        time.sleep(TICK_S)

    def _look_whether_idle(self, conductor: Conductor) -> None:
        """Nobody is expected to move while a fault is to come or at work, nor workers that start or have a break."""
        working = [worker for role in WORKING for worker in self.fleet.of(role)]
        starting = time.monotonic() - self._stage_began_s < CLIENTS_START_S
        excused = not all(outcome.over for outcome in conductor.outcomes)
        excused = excused or (starting and any(not (worker.spoke or worker.over) for worker in working))
        excused = excused or (not self.ends_by_itself and self._has_nothing_outstanding())
        self._idle.look(self._counts(working), sum(worker.over for worker in working), excused=excused)

    def _has_nothing_outstanding(self) -> bool:
        """Whether everybody got what there was: producers that send seldom wait for nobody between two sends."""
        sent, read = self.fleet.totals(PRODUCER), self.fleet.totals(CONSUMER)
        return 0 < sent["ok"] <= read["read"] and sent["sent"] == sent["ok"] + sent["fail"] + sent["info"]

    @staticmethod
    def _counts(workers: Sequence[WorkerProcess]) -> Counter[str]:
        counts = Counter(dict.fromkeys(COUNTS, 0))
        for worker in workers:
            counts.update(worker.counts)
        return counts

    def _look_after(self, view: View) -> None:
        self.fleet.poll()
        if time.monotonic() >= self._supervised_until_s:
            self._supervised_until_s = time.monotonic() + LOOK_EVERY_S
            keep_all_supervised()
        for sentence in self.endpoints.taps.watch() if self.endpoints.taps else ():
            view.happened(sentence)

    @property
    def _nobody_gets_through(self) -> bool:
        return self.endpoints.taps is not None and self.endpoints.taps.lost

    def _watch_leaders(self, over: threading.Event) -> None:
        """Beside the load, because a node that is paused answers late."""
        while not over.wait(LOOK_EVERY_S):
            looked_at = now()
            seen = observe(self.cluster.nodes, self.topics_in_use(), self.cluster.security)
            self._leaders, self._last_look = _leaders(seen), (looked_at, seen.troubles())


def _healed_for_a_while(conductor: Conductor) -> bool:
    """Whether all faults are over, and the last one for long enough to see clients work after it."""
    ends = [outcome.undone_at for outcome in conductor.outcomes if outcome.undone_at is not None]
    return all(outcome.over for outcome in conductor.outcomes) and now() - max(ends, default=0) > AFTER_FAULTS_S * 1e9


def _leaders(view: ClusterView) -> str:
    """Who leads what, with the replicas in sync: as much as fits a line."""
    seen = []
    for (_, partition), known in list(view.partitions.items())[:LEADERS_SHOWN]:
        leader = known.leader if known.leader >= 0 else "nobody"
        seen.append(f"p{partition} led by {leader}, in sync {','.join(map(str, sorted(known.isr)))}")
    more = len(view.partitions) - len(seen)
    silent = [f"node {node} silent" for node in view.silent]
    return " · ".join([*seen, *([f"{more} more partitions"] if more > 0 else []), *silent])
