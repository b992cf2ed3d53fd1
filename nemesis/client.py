"""Faults of clients: their exchanges are bent at the taps so that they try again, and they are killed and paused.

A response that is dropped with its connection makes a client send again what the broker has already: the fault has
bitten when such a batch was seen again. The load's own processes are victims by their role, `producer` or `consumer`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import psutil

from harness.foundation.errors import ClusterError
from harness.tap.rules import Rule
from nemesis.base import Aim, Client, Clients, Fault, FaultContext, FaultEvidence
from nemesis.leadership import LeaderMove
from nemesis.tap_rules import AtTheTap

STILL_S = 1.0  # a client that has done nothing for that long stands still
ASK_EVERY = 10  # requests to produce and to fetch


class OfProducing(AtTheTap):
    """What becomes of messages on their way: only leaders get any."""

    roles = ("all", "leader")


class DropResponses(OfProducing):
    """The broker has done it, and the client does not hear of it."""

    name = "drop-responses"
    description = "drops responses to Produce and closes the connection, so that clients send again"
    options: ClassVar = {"probability": 0.5}
    done = "responses dropped"

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """The response goes, and the connection with it: otherwise a client would wait half a minute."""
        return Rule(
            name=self.context.tag,
            action="drop-response",
            api="Produce",
            node=nodes,
            client=self.whose,
            then="close",
            probability=self.context.options["probability"],
        )

    def proof(self) -> FaultEvidence | None:
        """A batch whose response was dropped was sent again."""
        dropped, again = self.taps.acted(self.context.tag), self.taps.resent(self.context.tag)
        if not again:
            return None
        return FaultEvidence(f"{dropped:,} {self.done}, {again:,} batches sent again", self.chosen.node)


class DuplicateRequests(OfProducing):
    """The broker gets a request twice."""

    name = "duplicate-requests"
    description = "has the broker get Produce requests twice"
    options: ClassVar = {"probability": 0.5}
    done = "requests sent twice"

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """The client gets one answer."""
        return Rule(
            name=self.context.tag,
            action="duplicate-request",
            api="Produce",
            node=nodes,
            client=self.whose,
            probability=self.context.options["probability"],
        )


class HoldProduce(OfProducing):
    """Messages are on their way for a long time, and arrive in the end."""

    name = "hold-produce"
    description = "holds Produce requests back until it ends"
    blocks = True
    done = "requests held"

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """Until it is undone."""
        return Rule(name=self.context.tag, action="hold", side="request", api="Produce", node=nodes, client=self.whose)


class HoldEndTxn(AtTheTap):
    """Transactions stay open although their producers have ended them."""

    name = "hold-end-txn"
    description = "holds the ends of transactions back until it ends"
    roles = ("all", "transaction-coordinator", "random")
    blocks = True
    tame = False  # without transactions nobody feels it
    done = "ends of transactions held"

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """Until it is undone."""
        return Rule(name=self.context.tag, action="hold", side="request", api="EndTxn", node=nodes, client=self.whose)


class StaleMetadata(AtTheTap):
    """Clients go on hearing who led what when it began, while a leader moves.

    Clients ask seldom of their own accord, and again whenever they have lost a connection: some are closed. When an
    answer has been given again, leadership of a partition is moved; it has bitten when one was given after that.
    """

    name = "stale-metadata"
    description = "serves old Metadata while a leader moves, and closes some connections so that clients ask again"
    needs = AtTheTap.needs | LeaderMove.needs
    calls = LeaderMove.calls
    roles = ("all",)  # from the others clients would hear the truth
    changes_leaders = True
    done = "old answers to Metadata given"

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self.move: Fault = LeaderMove(context)
        self._moving = False
        self._given_before: int | None = None  # answers that were given again before the leader had moved

    def aim(self) -> Aim | None:
        """All nodes, and a partition whose leader moves."""
        aim, move = super().aim(), self.move.aim()
        return Aim(f"{aim.sentence}; {move.sentence}", move.victim) if aim and move else None

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """Probes hear the truth."""
        return Rule(name=self.context.tag, action="stale", api="Metadata", node=nodes, client=self.whose)

    def inject(self) -> None:
        """Both rules come."""
        super().inject()
        self.taps.bend(
            Rule(name=self._asking, action="close", api=("Produce", "Fetch"), every=ASK_EVERY, client=self.whose)
        )

    def proof(self) -> FaultEvidence | None:
        """An answer that was no longer true."""
        given = self.taps.acted(self.context.tag)
        if given and not self._moving:
            self._moving = True
            self.move.inject()
        if self._given_before is None:
            self._given_before = given if self._moving and self.move.proof() else None
            return None
        late = given - self._given_before
        return FaultEvidence(f"{late:,} {self.done} after a leader had moved") if late else None

    def undo(self) -> None:
        """Both rules go, and the leader comes back."""
        self.taps.unbend(self._asking)
        super().undo()
        if self._moving:
            self.move.undo()

    def healed(self) -> str:
        """Both are gone, and the leader is back."""
        if self.taps.is_bent(self._asking):
            return f"the rule {self._asking} is still at work"
        return super().healed() or (self.move.healed() if self._moving else "")

    @property
    def _asking(self) -> str:
        return f"{self.context.tag}-ask"


class ToAClient(Fault):
    """One of the load's own processes is the victim."""

    needs = frozenset()
    roles = ("producer", "consumer", "random")
    blocks = True  # where it is the only one of its role
    of_clients = True

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._victim: Client | None = None

    @property
    @abstractmethod
    def signal(self) -> str:
        """What it is sent, for sentences."""

    @property
    def clients(self) -> Clients:
        """Those of the run."""
        if self.context.clients is None:
            raise ClusterError(f"{self.name} needs a client of the load, and there is none", "run it with a workload")
        return self.context.clients

    @property
    def victim(self) -> Client:
        """Whom `aim` chose."""
        return self.aimed(self._victim)

    @property
    def called(self) -> str:
        """How sentences call it."""
        return f"{self.victim.role} {self.victim.process} (pid {self.victim.pid})"

    def aim(self) -> Aim | None:
        """A client in the role that is not stopped already, and has begun to work."""
        role = self.context.target
        found = [
            client
            for client in self.clients.running()
            if role in {client.role, "random"} and client.done and not is_stopped(client.pid)
        ]
        if not found:
            return None
        self._victim = self.context.rng.choice(found)
        return Aim(f"{self.signal} of {self.called}")

    def now(self) -> Client | None:
        """The victim as it is now; None when it is gone."""
        return next((client for client in self.clients.running() if client.process == self.victim.process), None)


class ClientKill(ToAClient):
    """A client dies without a word, and another one takes its place at the end."""

    name = "client-kill"
    description = "kills a client (SIGKILL) and starts another in its place"
    endless = True
    signal = "SIGKILL"

    def inject(self) -> None:
        """SIGKILL."""
        self._injected_at = self.context.clock()
        self.clients.kill(self.victim.process)

    def proof(self) -> FaultEvidence | None:
        """It is gone."""
        if self.now() is not None:
            return None
        after_s = self.context.clock() - self._injected_at
        return FaultEvidence(f"{self.called} is gone {after_s:.1f} s after the SIGKILL, with {self.victim.done:,} done")

    def undo(self) -> None:
        """Another one."""
        self.clients.replace(self.victim.process)

    def healed(self) -> str:
        """Whether the other one works."""
        return "" if self.clients.replaced(self.victim.process) else f"nothing replaced {self.called}"


class ClientPause(ToAClient):
    """A client is silent for so long that others give it up, and goes on as if nothing had been."""

    name = "client-pause"
    description = "pauses a client (SIGSTOP)"
    signal = "SIGSTOP"

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._still: tuple[float, int] | None = None  # since when, and at which count

    def inject(self) -> None:
        """SIGSTOP."""
        self.clients.pause(self.victim.process)

    def proof(self) -> FaultEvidence | None:
        """It is stopped, and has done nothing for a while: what it had said before may come late."""
        client = self.now()
        if client is None or not is_stopped(client.pid):
            self._still = None
            return None
        if self._still is None or client.done != self._still[1]:
            self._still = self.context.clock(), client.done
        still_s = self.context.clock() - self._still[0]
        if still_s < STILL_S:
            return None
        return FaultEvidence(f"{self.called} is stopped, and stands at {client.done:,} done for {still_s:.1f} s")

    def undo(self) -> None:
        """SIGCONT."""
        self.clients.resume(self.victim.process)

    def healed(self) -> str:
        """Whether it goes on, or has ended."""
        client = self.now()
        return f"{self.called} is still stopped" if client is not None and is_stopped(client.pid) else ""


def is_stopped(pid: int) -> bool:
    """Whether the system has it stopped."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


FAULTS: tuple[type[Fault], ...] = (
    DropResponses,
    DuplicateRequests,
    ClientKill,
    ClientPause,
    HoldEndTxn,
    HoldProduce,
    StaleMetadata,
)
