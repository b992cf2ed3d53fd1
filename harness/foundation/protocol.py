"""Kafka's own numbers, as they go over the wire: requests, errors, and the values that stand for something else.

Each is defined here and nowhere else. `error_codes.py` has the names of all errors; here are those that code speaks of.
"""

from __future__ import annotations

from enum import IntEnum

from harness.foundation.error_codes import NUMBERS


class Api(IntEnum):
    """The requests that the harness knows by name."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    SASL_AUTHENTICATE = 36
    DESCRIBE_CLUSTER = 60
    CONSUMER_GROUP_HEARTBEAT = 68


class ErrorCode(IntEnum):
    """The errors that brokers answer with and that the harness looks for, or gives."""

    UNKNOWN_SERVER_ERROR = NUMBERS["UNKNOWN_SERVER_ERROR"]
    NONE = NUMBERS["NONE"]
    OFFSET_OUT_OF_RANGE = NUMBERS["OFFSET_OUT_OF_RANGE"]
    UNKNOWN_TOPIC_OR_PARTITION = NUMBERS["UNKNOWN_TOPIC_OR_PARTITION"]
    LEADER_NOT_AVAILABLE = NUMBERS["LEADER_NOT_AVAILABLE"]
    NOT_LEADER_OR_FOLLOWER = NUMBERS["NOT_LEADER_OR_FOLLOWER"]
    NOT_COORDINATOR = NUMBERS["NOT_COORDINATOR"]
    TOPIC_ALREADY_EXISTS = NUMBERS["TOPIC_ALREADY_EXISTS"]
    INVALID_PARTITIONS = NUMBERS["INVALID_PARTITIONS"]
    OUT_OF_ORDER_SEQUENCE_NUMBER = NUMBERS["OUT_OF_ORDER_SEQUENCE_NUMBER"]
    FETCH_SESSION_ID_NOT_FOUND = NUMBERS["FETCH_SESSION_ID_NOT_FOUND"]
    FENCED_LEADER_EPOCH = NUMBERS["FENCED_LEADER_EPOCH"]
    UNKNOWN_LEADER_EPOCH = NUMBERS["UNKNOWN_LEADER_EPOCH"]
    PREFERRED_LEADER_NOT_AVAILABLE = NUMBERS["PREFERRED_LEADER_NOT_AVAILABLE"]
    ELECTION_NOT_NEEDED = NUMBERS["ELECTION_NOT_NEEDED"]
    INVALID_RECORD = NUMBERS["INVALID_RECORD"]


# A node that is asked as a leader, and is none, or not of the epoch that it was asked for.
NOT_LEADING = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)

EARLIEST, LATEST = -2, -1  # what ListOffsets asks for, in place of a time
READ_UNCOMMITTED, READ_COMMITTED = 0, 1  # isolation levels
FETCH_OF_FOLLOWERS = 11  # the first version of Fetch that followers answer
CONSUMER_REPLICA = -1  # who asks for records, if it is no replica
NO_SESSION, OPENS_SESSION = -1, 0  # epochs of sessions of Fetch
NO_OFFSET = -1  # in place of an offset that nobody knows
MAGIC = 2  # of the format of batches that brokers keep
