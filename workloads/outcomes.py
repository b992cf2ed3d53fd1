"""What an error of a client library says about a send: that it certainly did not happen, or that nobody knows.

`fail` is a claim: a record that turns up later although its send failed is an anomaly. So only those errors are in the
table after which no copy of the record can be in any log; time-outs, NOT_LEADER and all others are `info`, because an
earlier attempt of the same library may have been appended although its answer was lost.
"""

from __future__ import annotations

from harness.history import Type

REFUSED_LOCALLY = -1001  # the library did not take the message: nothing was ever sent

# by Kafka's number
CERTAINLY_NOT_APPENDED = {
    REFUSED_LOCALLY: "refused by the client library",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    18: "RECORD_LIST_TOO_LARGE",
    21: "INVALID_REQUIRED_ACKS",
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    32: "INVALID_TIMESTAMP",
    35: "UNSUPPORTED_VERSION",
    43: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
    87: "INVALID_RECORD",
}


def outcome(code: int) -> Type:
    """How a send ended that a library reports with this error."""
    return Type.FAIL if code in CERTAINLY_NOT_APPENDED else Type.INFO
