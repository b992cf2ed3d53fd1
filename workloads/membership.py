"""A member of a group, and the record of all it does.

A membership is an operation (subscribe); its id is the `member` of whatever belongs to it. A partition is the member's
own from the completion of its assign to the completion of its revoke, to the member's leave or crash, or to the end of
the process. What the library commits by itself is recorded when it tells; such an operation is written as if invoked
when the library may have begun at the earliest: when it was asked for the first time to hand out what comes after the
last record that the commit covers.

A revoke is `info` when the group has taken the partition, and also when the process stood still for so long that it may
have: its library may not know of it when it lets go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.history.outcomes import outcome
from harness.history.recorder import Op
from harness.history.schema import F, Type, now
from workloads.base import MemberSettings
from workloads.clients import make_member
from workloads.clients.base import ClientError, PolledRecords, TopicPartition
from workloads.clients.member import ASK_S, GroupConsumer, Joining
from workloads.consuming import POLL_S, end_poll
from workloads.partition_ops import PartitionOps, begin_ops, end_ops, end_ops_by_error
from workloads.session import WorkerSession

POSITIONS_KEPT = 2000


def _nothing(partitions: Sequence[TopicPartition]) -> None:
    """What a member does whose owner has no wishes."""


@dataclass
class OwnedPartition:
    """A partition that is the member's own."""

    assigned: int  # when
    position: int | None = None  # after the last record that was read
    past: deque[tuple[int, int]] = field(
        default_factory=lambda: deque(maxlen=POSITIONS_KEPT)
    )  # positions, and since when

    def moved(self, position: int, time_ns: int) -> None:
        """The poll that was called at this time read up to here."""
        self.position = position
        self.past.append((position, time_ns))

    def reached(self, position: int) -> int:
        """Since when the member may have been there; older positions are forgotten."""
        while self.past and self.past[0][0] < position:
            self.past.popleft()
        return self.past[0][1] if self.past and self.past[0][0] == position else self.assigned


class Member:
    """One membership; `on_assign`, `on_revoke` and `on_lost` are told within the callbacks of the library."""

    def __init__(self, session: WorkerSession, settings: MemberSettings, group: str, consumer: GroupConsumer) -> None:
        self.consumer = consumer
        self.group = group
        self.on_assign: Callable[[Sequence[TopicPartition]], None] = _nothing  # after they were recorded
        self.on_revoke: Callable[[Sequence[TopicPartition]], None] = _nothing  # while they are still the member's own
        self.on_lost: Callable[[Sequence[TopicPartition]], None] = _nothing
        self._session = session
        self._recorder = session.recorder
        self._max_records = settings.max_poll_records
        self._numbers: dict[str, int] = {}
        self._owned: dict[TopicPartition, OwnedPartition] = {}
        self._membership: Op | None = None
        self._doubt_ns = int(settings.session_s * 1e9 / 2)  # heartbeats stop with the process
        self._awake = self._slept = 0  # when it was last known to be, and until when it was not
        self._let_go_of: dict[TopicPartition, OwnedPartition] = {}  # what was committed there may be told later
        self._joined_at = now()

    @property
    def id(self) -> int | None:
        """The operation that subscribed."""
        return self._membership.id if self._membership else None

    @property
    def owned(self) -> set[TopicPartition]:
        """The partitions that are the member's own."""
        return set(self._owned)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where the member is in those of its partitions that it has read from, or was told to go on at."""
        return {tp: owned.position for tp, owned in self._owned.items() if owned.position is not None}

    def join(self, numbers: Mapping[str, int]) -> bool:
        """Subscribe to these topics, given with their numbers; whether the library took it."""
        self._numbers = dict(numbers)
        self._membership = self._recorder.begin(F.SUBSCRIBE, name=self.group)
        error = self.consumer.join(list(numbers), _Listener(self))
        self._end(self._membership, error)
        return error is None

    def poll(self, txn: int | None = None, timeout_s: float = POLL_S) -> PolledRecords:
        """One poll, recorded whatever comes of it."""
        op = self._recorder.begin(F.POLL, member=self.id, txn=txn)
        self._look_at_the_clock()
        polled = self.consumer.poll(self._max_records, timeout_s)
        self._look_at_the_clock()
        end_poll(self._session, op, polled, self._numbers, txn=txn, member=self.id, generation=self.consumer.generation)
        ends = dict(zip(zip(polled.topics, polled.partitions, strict=True), polled.offsets, strict=True))
        for tp, last in ends.items():
            if tp in self._owned:
                self._owned[tp].moved(last + 1, op.invoked)
        return polled

    def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Commit these, one operation per partition; those that were not committed."""
        if not offsets:
            return {}
        ops = self._begin(F.COMMIT, list(offsets), offset=np.array(list(offsets.values()), np.int64), name=self.group)
        errors = self.consumer.commit(offsets)
        self._end_ops(ops, [errors.get(tp) for tp in offsets])
        return errors

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float = ASK_S
    ) -> dict[TopicPartition, int] | ClientError:
        """What the group committed there, -1 for nothing; one operation per partition."""
        if not partitions:
            return {}
        ops = self._begin(F.COMMITTED, partitions, name=self.group)
        answer = self.consumer.committed(partitions, timeout_s)
        if isinstance(answer, ClientError):
            self._end_ops(ops, [answer] * len(partitions))
        else:
            found = np.array([answer.get(tp, -1) for tp in partitions], np.int64)
            end_ops(self._recorder, ops, Type.OK, offset=found, generation=self.consumer.generation, error=0)
        return answer

    def seek_back(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Go on at these offsets, in those of the partitions that are still the member's own: where it did not work."""
        own = {tp: offset for tp, offset in positions.items() if tp in self._owned}
        if not own:
            return {}
        ops = self._begin(F.ASSIGN, list(own), offset=np.array(list(own.values()), np.int64), name=self.group)
        errors = self.consumer.seek(own)
        self._end_ops(ops, [errors.get(tp) for tp in own])
        for tp in own.keys() - errors.keys():
            self._owned[tp].moved(own[tp], now())
        return errors

    def leave(self) -> None:
        """Leave the group in order; what the library does not mention then ends as well."""
        op = self._recorder.begin(F.LEAVE, member=self.id, name=self.group)
        error = self.consumer.leave()
        if self._owned:
            self._let_go(list(self._owned), _nothing, Type.INFO if error else Type.OK)
        self._end(op, error)

    def drop(self) -> None:
        """Be gone without a word, as after a crash."""
        op = self._recorder.begin(F.CRASH, member=self.id, name=self.group)
        self.consumer.drop()
        self._owned.clear()
        self._end(op, None)

    def take(self, partitions: Sequence[TopicPartition]) -> None:
        """The group gave these."""
        if partitions:
            ops = self._begin(F.ASSIGN, partitions, name=self.group)
            who = self.consumer.member_id or None
            end_ops(self._recorder, ops, Type.OK, generation=self.consumer.generation, error=0, detail=who)
            self._owned.update({tp: OwnedPartition(now()) for tp in partitions})
            self.on_assign(partitions)

    def give(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        """The group asks for these back, or has taken them already."""
        own = [tp for tp in partitions if tp in self._owned]
        if own:
            self._let_go(own, self.on_lost if lost else self.on_revoke, Type.INFO if lost else Type.OK)

    def committed_by_library(
        self, offsets: Mapping[TopicPartition, int], error: ClientError | None, began: int | None
    ) -> None:
        """What was committed without having been asked for; `began` is the time, where anybody knows it."""
        for tp, offset in offsets.items():
            owned = self._owned.get(tp) or self._let_go_of.get(tp)
            since = began or (owned.reached(offset) if owned else self._joined_at)
            ops = self._begin(F.COMMIT, [tp], offset=offset, name=self.group, time=since)
            self._end_ops(ops, [error])

    def _let_go(
        self, partitions: Sequence[TopicPartition], tell: Callable[[Sequence[TopicPartition]], None], type_: Type
    ) -> None:
        self._look_at_the_clock()
        ops = self._begin(F.REVOKE, partitions, name=self.group)
        tell(partitions)
        types = np.array([Type.INFO if self._owned[tp].assigned < self._slept else type_ for tp in partitions], np.int8)
        self._let_go_of.update({tp: self._owned.pop(tp) for tp in partitions})
        end_ops(self._recorder, ops, types, generation=self.consumer.generation, error=0)

    def _look_at_the_clock(self) -> None:
        time_ns = now()
        if self._awake and time_ns - self._awake > self._doubt_ns:
            self._slept = time_ns
        self._awake = time_ns

    def _begin(
        self, f: F, partitions: Sequence[TopicPartition], **columns: int | np.ndarray | str | None
    ) -> PartitionOps:
        return begin_ops(self._recorder, f, self._numbers, partitions, member=self.id, **columns)

    def _end_ops(self, ops: PartitionOps, errors: Sequence[ClientError | None]) -> None:
        end_ops_by_error(self._recorder, ops, errors, generation=self.consumer.generation)

    def _end(self, op: Op, error: ClientError | None) -> None:
        shared = {"member": self.id, "name": self.group, "generation": self.consumer.generation}
        if error is None:
            self._recorder.end(op, Type.OK, error=0, **shared)
        else:
            self._recorder.end(op, outcome(op.f, error.code), error=error.code, detail=error.text, **shared)


class _Listener:
    """What the library tells."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """The group gave these."""
        self._member.take(partitions)

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """The group asks for these back."""
        self._member.give(partitions, lost=False)

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These belong to somebody else already."""
        self._member.give(partitions, lost=True)

    def committed(self, offsets: Mapping[TopicPartition, int], error: ClientError | None, began: int | None) -> None:
        """The library committed these by itself, or tried to."""
        self._member.committed_by_library(offsets, error, began)


def open_member(session: WorkerSession, settings: MemberSettings, group: str, *, automatic: bool = False) -> Member:
    """A member over the client that the settings name, not yet joined; `automatic`: its library commits by itself."""
    servers = settings.servers(session.addresses)
    consumer = make_member(settings, servers, session.security, session.client_id, Joining(group, automatic))
    return Member(session, settings, group, consumer)
