"""The rules, in the order in which they are asked: whatever accounts for most comes first.

A rule is a function from what is left of the evidence to a cause, or None. What a cause accounts for, its findings and
their consequences, is not there for the rules after it: a client that was refused and gave up, or sent twice, is no
second cause.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.judging.diagnosis import (
    acknowledgements,
    clients,
    coordinators,
    delivery,
    leadership,
    refusals,
    stalls,
    transactions,
    watermarks,
)
from harness.judging.diagnosis.cause import Cause
from harness.judging.diagnosis.evidence import Evidence

CauseRule = Callable[[Evidence], Cause | None]

RULES: tuple[CauseRule, ...] = (
    # who leads, and whether clients find it
    leadership.clients_cannot_find_leaders,
    leadership.split_brain,
    leadership.stale_leader,
    leadership.answers_as_leader,
    refusals.leaders_disputed,
    refusals.leader_refuses,
    leadership.no_leader,
    coordinators.coordinator_differs,
    coordinators.coordinator_refuses,
    # what the configuration costs, before it is taken for something else
    clients.weak_acks,
    clients.unclean_election,
    # acknowledgements that contradict each other
    acknowledgements.acknowledged_without_offset,
    watermarks.shown_before_replicated,
    acknowledgements.leader_lacked_acknowledged,
    acknowledgements.offsets_assigned_twice,
    # marks
    watermarks.watermark_not_idempotent,
    watermarks.watermark_frozen,
    watermarks.stale_reads,
    watermarks.end_offset_goes_back,
    watermarks.log_start_goes_back,
    # transactions and groups
    transactions.hanging_transaction,
    transactions.torn_transactions,
    transactions.aborted_shown,
    transactions.wrong_outcome,
    transactions.offsets_forgotten,
    transactions.offsets_go_back,
    transactions.offsets_not_atomic,
    transactions.owned_twice,
    # records
    delivery.corrupted,
    delivery.misrouted,
    delivery.resend_not_recognised,
    delivery.acknowledged_then_lost,
    watermarks.watermark_behind,
    delivery.skipped_by_readers,
    delivery.reader_goes_back,
    delivery.appended_out_of_order,
    delivery.replicas_differ,
    delivery.not_as_sent,
    transactions.committed_unread,
    transactions.isolation,
    clients.client_duplicates,
    # what is left of readers and senders that wait
    stalls.fetch_hangs,
    stalls.partition_behind,
    stalls.reader_waits,
    stalls.sends_wait,
)

# the causes that there are: a rule is called like the cause that it finds
NAMES = frozenset(rule.__name__.replace("_", "-") for rule in RULES)
