"""What a fault is: it takes aim, breaks one thing, proves that the cluster felt it, and takes it back.

A fault is made for one slot of the schedule and used by one thread, in this order:

    aim()      looks for a victim by its role and says what will be done; changes nothing. None: there is no victim yet.
    inject()   does it. An error may leave it half done, so `undo` is called after an error, too.
    proof()    asked again and again: None until the effect has been seen from outside, then the evidence.
    undo()     takes it back. May be called at any time after `inject` began, and again: done twice, it does no harm.
    healed()   asked after `undo`: nothing when it is gone, else what is still there.

What a fault leaves on this machine while it lasts, beyond the processes, containers and namespaces of its cluster, is
written into the cluster's journal before it comes into being (`Cluster.guard`): it goes however the harness ends.
Victims are named by role and not by number (`nemesis.roles`), and chosen with the slot's own random numbers.
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from harness.clusters.base import Cluster
from harness.clusters.cluster_view import ClusterView, PartitionView, TopicPartition, observe
from harness.clusters.node import Capability
from harness.foundation.errors import CannotHere, ClusterError, UsageError

if TYPE_CHECKING:
    from harness.tap.taps import Taps

STOP_TIMEOUT_S = 60.0
T = TypeVar("T")
LONGEST_PERIOD_S = 30.0  # a fault that repeats itself does so several times before it is given up


@dataclass(frozen=True)
class Client:
    """A process of the load that can be made a victim."""

    process: int  # its number in the history
    role: str
    pid: int
    done: int  # operations it has completed so far, as far as it has said


class Clients(Protocol):
    """The load's own processes; every method may be called from any thread."""

    def running(self) -> list[Client]:
        """Producers and consumers that live now."""

    def kill(self, process: int) -> None:
        """SIGKILL, on purpose: nobody will miss it."""

    def pause(self, process: int) -> None:
        """SIGSTOP."""

    def resume(self, process: int) -> None:
        """SIGCONT."""

    def replace(self, process: int) -> None:
        """Start another one in the place of one that was killed."""

    def replaced(self, process: int) -> bool:
        """Whether that other one runs."""


@dataclass(frozen=True)
class FaultContext:
    """Where a fault happens, and with whom."""

    cluster: Cluster
    topics: Callable[[], Sequence[str]]  # those in use at this moment
    rng: random.Random
    target: str = "leader"
    clock: Callable[[], float] = time.monotonic
    options: Mapping[str, Any] = field(default_factory=dict)  # all that the fault takes, with the defaults filled in
    tag: str = "tg"  # names this injection and no other of the cluster: chains, rules and files are called by it
    taps: Taps | None = None
    clients: Clients | None = None
    out_of_service: Callable[[], Collection[int]] = (
        lambda: ()
    )  # nodes that other faults keep from the cluster at this moment

    def look(self) -> ClusterView:
        """What the nodes say now about the topics in use."""
        return self.look_at(sorted(self.topics()))

    def look_at(self, topics: Sequence[str]) -> ClusterView:
        """What the nodes say now about these topics."""
        return observe(self.cluster.nodes, topics, self.cluster.security)

    def look_again(self, partitions: Iterable[TopicPartition]) -> ClusterView:
        """What the nodes say now about the topics of these partitions, in use or not."""
        return self.look_at(sorted({topic for topic, _ in partitions}))


@dataclass(frozen=True)
class Victim:
    """A node in its role, at the moment it was chosen."""

    node: int
    topic: str
    partition: int
    view: PartitionView
    heirs: tuple[int, ...] = ()  # other replicas that are alive and in sync

    @property
    def leader(self) -> int:
        """Who led the partition."""
        return self.view.leader

    @property
    def leader_epoch(self) -> int:
        """The epoch of that leader."""
        return self.view.leader_epoch

    @property
    def key(self) -> TopicPartition:
        """The partition as views name it."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """The partition as logs name it."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class Aim:
    """What a fault is about to do, and to whom."""

    sentence: str
    victim: Victim | None = None  # when it is about a partition
    node: int | None = None  # when it is about a node and no partition
    topic: str | None = None  # when it is about a topic as a whole


@dataclass(frozen=True)
class FaultEvidence:
    """The evidence that a fault was felt; what does not apply is None."""

    sentence: str
    node: int | None = None
    topic: str | None = None
    partition: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    unclean: bool | None = None  # whether its election made a leader of a replica that may have missed something


class Fault(ABC):
    """One injection of one kind of fault."""

    name: ClassVar[str]
    description: ClassVar[str]  # one line, for `tidegauge list nemeses`
    needs: ClassVar[frozenset[Capability]]
    calls: ClassVar[frozenset[str]] = frozenset()  # admin requests that the product has to know for it
    longest_s: ClassVar[float] = 120.0  # from the injection on; whatever has not bitten by then is undone
    roles: ClassVar[tuple[str, ...]]  # what it can be aimed at; the first one unless told otherwise
    options: ClassVar[Mapping[str, Any]] = {}  # what else it can be told, with the defaults; keys of `schedule.Plan`
    ports: ClassVar[tuple[str, ...]] = ()  # listeners that the product must have apart from the clients'
    changes_leaders: ClassVar[bool] = False
    blocks: ClassVar[bool] = False  # whether nothing need be acknowledged or read while it lasts
    deletes: ClassVar[bool] = False  # whether it takes acknowledged messages with it, by design
    unclean: ClassVar[bool] = False  # whether a replica that lags may become leader by it
    of_clients: ClassVar[bool] = False  # whether only clients are touched: the cluster may be whole while it lasts
    endless: ClassVar[bool] = False  # whether the load has to be one that goes on until it is told to end
    tame: ClassVar[bool] = True  # whether `random` may draw it: nothing stays changed, and any workload feels it

    def __init__(self, context: FaultContext) -> None:
        self.context = context

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> str:  # noqa: ARG003 - most take any
        """Why it could never bite with these options, in a sentence; nothing when it could."""
        return ""

    @property
    def out_of_service(self) -> frozenset[int]:
        """The nodes that the cluster has to do without while it lasts, once they are chosen."""
        return frozenset()

    @abstractmethod
    def aim(self) -> Aim | None:
        """Choose the victim; None when there is none at the moment."""

    def aimed(self, chosen: T | None) -> T:
        """What `aim` chose; an error when nothing was."""
        if chosen is None:
            raise ClusterError(f"{self.name} was injected without a victim", "call aim() first")
        return chosen

    @abstractmethod
    def inject(self) -> None:
        """Break it."""

    @abstractmethod
    def proof(self) -> FaultEvidence | None:
        """The effect as seen from outside; None as long as there is none."""

    @abstractmethod
    def undo(self) -> None:
        """Take it back."""

    def healed(self) -> str:
        """What is still there of it after `undo`, in a few words; nothing when all is as it was."""
        return ""


class LeaderFault(Fault):
    """A fault whose victim is chosen as the leader of a partition."""

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._victim: Victim | None = None
        self._injected_at = 0.0

    @property
    def victim(self) -> Victim:
        """Whom `aim` chose."""
        return self.aimed(self._victim)


class RepeatingFault(Fault):
    """A fault that does something again and again while it lasts, on a thread of its own.

    `inject` does not wait for the first step, and `undo` ends with `rest`. An error of a step ends the steps, and is
    raised by the next `proof`, or by `undo` when everything is as it was.
    """

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self.steps = 0  # that are done

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> str:
        """It has to come round again and again."""
        longest_s = min(LONGEST_PERIOD_S, cls.longest_s)
        if (options.get("period") or 0) > longest_s:
            return f"the period of '{cls.name}' is {longest_s:g} s at most"
        return super().refuse(options)

    @property
    @abstractmethod
    def period_s(self) -> float:
        """From the end of one step to the beginning of the next."""

    @abstractmethod
    def step(self) -> None:
        """Once more; may look at `self.over` to end early."""

    @abstractmethod
    def rest(self) -> None:
        """Leave everything as it was; done twice, it does no harm."""

    @property
    def over(self) -> bool:
        """Whether it shall end."""
        return self._over.is_set()

    def inject(self) -> None:
        """Begin with the steps."""
        self._thread = threading.Thread(target=self._go_on, name=self.name, daemon=True)
        self._thread.start()

    def undo(self) -> None:
        """No further step, and everything as it was."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT_S)
            if self._thread.is_alive():
                raise ClusterError(f"a step of {self.name} hangs", "see the logs of the nodes")
        self.rest()
        self.fail_if_a_step_failed()

    def fail_if_a_step_failed(self) -> None:
        """To be called by `proof`; each error is raised once."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _go_on(self) -> None:
        try:
            while not self.over:
                self.step()
                self.steps += 1
                self._over.wait(self.period_s)
        except Exception as error:  # noqa: BLE001 - told by the next proof, or by the undo
            self._error = error


def refuse_unless_possible(fault: type[Fault], cluster: Cluster, *, taps: bool = True, endless: bool = True) -> None:
    """An error for a fault that this cluster, or this load, cannot have; the cluster need not be up."""
    if fault.endless and not endless:
        raise UsageError(
            f"the fault '{fault.name}' needs a load that runs until it is stopped, and this one ends by itself",
            "use --workload stream",
        )
    if Capability.TAP in fault.needs and not taps:
        raise CannotHere(f"the fault '{fault.name}' is made at the taps, and there are none", "leave --no-tap out")
    for capability in sorted(fault.needs):
        if missing := cluster.cannot(capability):
            raise CannotHere(f"the fault '{fault.name}' is not possible here: {missing.what}", missing.remedy)
    if absent := [port for port in fault.ports if port not in cluster.listeners]:
        raise CannotHere(
            f"the fault '{fault.name}' is not possible here: {cluster.product} has no listener '{absent[0]}'",
            "name such a port in the target, or choose another fault",
        )
