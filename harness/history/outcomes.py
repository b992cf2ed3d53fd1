"""What an error of a client library says about the operation that it ended: one table for both libraries.

`fail` is a claim: what was asked for certainly did not happen, and never will. A record that turns up later although
its send failed is an anomaly. So only those errors fail an operation after which no attempt of it can have been carried
out. All others are `info`, NOT_LEADER and time-outs above all: libraries send again, and an earlier attempt may have
been carried out although its answer was lost, whatever the last attempt was told.

An error that is not in the table is `info` as well, and counted as one that nobody has thought about
(`is_classified`). A row that names what was asked goes before one that holds for everything. The parts of a
transaction end as the transaction does: its row is about the call that ends it.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.foundation.error_codes import NUMBERS, UNNUMBERED, name_of
from harness.history.schema import F, Type

ANYTHING = frozenset(F)
QUESTIONS = frozenset({F.POLL, F.COMMITTED, F.FINAL, F.RAW})
OF_GROUPS = frozenset({F.SUBSCRIBE, F.ASSIGN, F.REVOKE, F.LEAVE})
OF_TOPICS = frozenset({F.CREATE, F.DELETE, F.GROW})


@dataclass(frozen=True)
class OutcomeRule:
    """What these errors mean for these operations, and why."""

    asked: frozenset[F]
    errors: str  # names, separated by spaces; empty: every error that has a name
    type: Type
    reason: str

    @property
    def codes(self) -> tuple[int, ...]:
        """Their numbers."""
        names = self.errors.split() or NUMBERS.keys() - {name_of(UNNUMBERED)}
        return tuple(NUMBERS[name] for name in names)


TABLE: tuple[OutcomeRule, ...] = (
    OutcomeRule(
        frozenset({F.SEND}),
        "MESSAGE_TOO_LARGE INVALID_TOPIC_EXCEPTION RECORD_LIST_TOO_LARGE INVALID_REQUIRED_ACKS"
        " UNSUPPORTED_FOR_MESSAGE_FORMAT UNSUPPORTED_COMPRESSION_TYPE INVALID_RECORD _INVALID_DIFFERENT_RECORD",
        Type.FAIL,
        "the broker rejects the batch itself, at every attempt: nothing was appended",
    ),
    OutcomeRule(
        ANYTHING,
        "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED"
        " TRANSACTIONAL_ID_AUTHORIZATION_FAILED UNSUPPORTED_VERSION _UNSUPPORTED_FEATURE _NOT_IMPLEMENTED",
        Type.FAIL,
        "the client may or can not do this; rights and versions are the same from the beginning of a run to its end",
    ),
    OutcomeRule(
        ANYTHING,
        "_STATE _INVALID_ARG _QUEUE_FULL _NOT_CONFIGURED _CONFLICT _EXISTING_SUBSCRIPTION",
        Type.FAIL,
        "librdkafka rejected the call: nothing left the client",
    ),
    OutcomeRule(
        ANYTHING,
        "IllegalArgumentError KafkaConfigurationError UnsupportedCodecError",
        Type.FAIL,
        "kafka-python rejected the call: nothing left the client",
    ),
    OutcomeRule(
        frozenset({F.COMMIT}),
        "OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE INVALID_GROUP_ID _NO_OFFSET",
        Type.FAIL,
        "there was nothing to commit, or the broker rejects it at every attempt",
    ),
    OutcomeRule(
        frozenset({F.INIT}), "INVALID_TRANSACTION_TIMEOUT", Type.FAIL, "the broker rejects it at every attempt"
    ),
    OutcomeRule(
        frozenset({F.CREATE, F.GROW}),
        "INVALID_TOPIC_EXCEPTION INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG POLICY_VIOLATION INVALID_REQUEST",
        Type.FAIL,
        "the broker rejects it at every attempt",
    ),
    OutcomeRule(frozenset({F.CREATE}), "INVALID_PARTITIONS", Type.FAIL, "the broker rejects it at every attempt"),
    OutcomeRule(frozenset({F.DELETE}), "TOPIC_DELETION_DISABLED", Type.FAIL, "the cluster deletes no topics"),
    OutcomeRule(
        frozenset({F.SUBSCRIBE}),
        "INVALID_GROUP_ID INVALID_SESSION_TIMEOUT INCONSISTENT_GROUP_PROTOCOL UNSUPPORTED_ASSIGNOR"
        " INVALID_REGULAR_EXPRESSION",
        Type.FAIL,
        "the group does not take a member that is set up like this",
    ),
    OutcomeRule(
        QUESTIONS,
        "",
        Type.INFO,
        "a question changes nothing, and an error answers nothing",
    ),
    OutcomeRule(
        ANYTHING,
        "REQUEST_TIMED_OUT _MSG_TIMED_OUT _TIMED_OUT _TIMED_OUT_QUEUE KafkaTimeoutError _IN_PROGRESS"
        " _PREV_IN_PROGRESS _RETRY",
        Type.INFO,
        "no answer came in time; the request may have been carried out, or may be yet",
    ),
    OutcomeRule(
        ANYTHING,
        "NETWORK_EXCEPTION BROKER_NOT_AVAILABLE SASL_AUTHENTICATION_FAILED _TRANSPORT _FAIL _RESOLVE _SSL"
        " _AUTHENTICATION _ALL_BROKERS_DOWN _UNKNOWN_BROKER _NODE_UPDATE _CRIT_SYS_RESOURCE KafkaConnectionError"
        " NodeNotReadyError MetadataEmptyBrokerList UnknownBrokerIdError TooManyInFlightRequests"
        " UnrecognizedBrokerVersion",
        Type.INFO,
        "the connection broke or there was none; an attempt before may have got through",
    ),
    OutcomeRule(
        ANYTHING,
        "CORRUPT_MESSAGE _BAD_MSG _BAD_COMPRESSION _PARTIAL _UNDERFLOW CorrelationIdError InvalidReceiveError"
        " KafkaProtocolError",
        Type.INFO,
        "a request or its answer was garbled on the way; an attempt before, or this one, may have been carried out",
    ),
    OutcomeRule(
        ANYTHING,
        "NOT_LEADER_OR_FOLLOWER LEADER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH"
        " NEW_LEADER_ELECTED PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE LISTENER_NOT_FOUND"
        " REBOOTSTRAP_REQUIRED KAFKA_STORAGE_ERROR StaleMetadata",
        Type.INFO,
        "the leader changed; the one before may have carried out an attempt",
    ),
    OutcomeRule(
        ANYTHING,
        "UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID _UNKNOWN_TOPIC _UNKNOWN_PARTITION _NOENT"
        " TOPIC_ALREADY_EXISTS RESOURCE_NOT_FOUND",
        Type.INFO,
        "the topic came or went; an attempt before may have been carried out, or may be the reason for this answer",
    ),
    OutcomeRule(
        frozenset({F.SEND, F.TXN}),
        "NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND _ISR_INSUFF INVALID_TIMESTAMP",
        Type.INFO,
        "too few replicas, or clocks apart, which was perhaps not so when an attempt before was appended",
    ),
    OutcomeRule(
        frozenset({F.SEND, F.INIT, F.TXN, F.COMMIT}),
        "OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID INVALID_PRODUCER_EPOCH"
        " PRODUCER_FENCED _FENCED INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING CONCURRENT_TRANSACTIONS"
        " TRANSACTION_COORDINATOR_FENCED TRANSACTION_ABORTABLE TRANSACTIONAL_ID_NOT_FOUND _FATAL _INCONSISTENT"
        " _GAPLESS_GUARANTEE TransactionAbortedError KafkaError",
        Type.INFO,
        "the producer is out of step or was replaced; an attempt before may have been taken",
    ),
    OutcomeRule(
        ANYTHING,
        "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR NOT_CONTROLLER _WAIT_COORD _WAIT_CACHE"
        " STALE_CONTROLLER_EPOCH",
        Type.INFO,
        "the coordinator or controller moved; the one before may have carried out an attempt",
    ),
    OutcomeRule(
        OF_GROUPS | {F.COMMIT},
        "ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS MEMBER_ID_REQUIRED FENCED_INSTANCE_ID"
        " FENCED_MEMBER_EPOCH STALE_MEMBER_EPOCH UNRELEASED_INSTANCE_ID GROUP_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED"
        " UNSTABLE_OFFSET_COMMIT _ASSIGNMENT_LOST _MAX_POLL_EXCEEDED _UNKNOWN_GROUP _ASSIGN_PARTITIONS"
        " _REVOKE_PARTITIONS _NOOP CommitFailedError",
        Type.INFO,
        "the group has moved on without this member; an attempt before that may have been taken",
    ),
    OutcomeRule(
        frozenset({F.TXN}),
        "_CONFLICT",
        Type.INFO,
        "another call of this producer is under way, which may end the transaction",
    ),
    OutcomeRule(
        frozenset({F.TXN}),
        "ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH"
        " STALE_MEMBER_EPOCH UNSTABLE_OFFSET_COMMIT CommitFailedError",
        Type.INFO,
        "the group rejects the offsets of the transaction; the call that ends it reports its outcome",
    ),
    OutcomeRule(
        OF_TOPICS,
        "INVALID_PARTITIONS INVALID_REPLICATION_FACTOR REASSIGNMENT_IN_PROGRESS THROTTLING_QUOTA_EXCEEDED"
        " OPERATION_NOT_ATTEMPTED QuotaViolationError",
        Type.INFO,
        "not possible as things are; they may have been otherwise at an attempt before, or be so because of it",
    ),
    OutcomeRule(
        ANYTHING,
        "_DESTROY _DESTROY_BROKER _PURGE_QUEUE _PURGE_INFLIGHT _INTR _OUTDATED Cancelled IllegalStateError",
        Type.INFO,
        "the client gave up on it or was closed; it may have been sent before, and wait to be sent again",
    ),
    OutcomeRule(ANYTHING, "UNKNOWN_SERVER_ERROR", Type.INFO, "the broker itself does not know what happened"),
    OutcomeRule(
        ANYTHING,
        "REFUSED_LOCALLY",
        Type.FAIL,
        "the client library did not take it: nothing was ever sent",
    ),
)


def _by_operation() -> dict[tuple[F, int], Type]:
    """The table as it is looked up, narrower rows over wider ones."""
    found: dict[tuple[F, int], Type] = {}
    for row in sorted(TABLE, key=lambda row: len(row.asked), reverse=True):
        found |= {(f, code): row.type for f in row.asked for code in row.codes}
    return found


_TYPES = _by_operation()


def outcome(f: F, code: int) -> Type:
    """How an operation ended that a library reports with this error."""
    return _TYPES.get((f, code), Type.INFO)


def is_classified(f: F, code: int) -> bool:
    """Whether the table knows what this error means for this operation."""
    return (f, code) in _TYPES
