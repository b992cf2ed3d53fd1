"""What Java's exceptions mean, in the words that all client libraries share."""

from __future__ import annotations

from typing import Any

from harness.foundation.error_codes import NUMBERS, UNNUMBERED
from workloads.clients.base import ClientError
from workloads.clients.java.machine import java_class
from workloads.clients.transactional import FENCED

UNKNOWN = -1  # of Kafka's: an exception that is none of a broker's errors
OWN = {  # exceptions of the client itself, by what kafka-python calls the same
    "CommitFailedException": "CommitFailedError",
    "RetriableCommitFailedException": "CommitFailedError",
    "NoOffsetForPartitionException": "NoOffsetForPartitionError",
    "LogTruncationException": "LogTruncationError",
    "DisconnectException": "KafkaConnectionError",
    "BootstrapResolutionException": "KafkaConnectionError",
    "TransactionAbortedException": "TransactionAbortedError",
    "InterruptException": "Cancelled",
    "WakeupException": "Cancelled",
    "IllegalStateException": "IllegalStateError",
    "IllegalArgumentException": "IllegalArgumentError",
    "ConfigException": "KafkaConfigurationError",
    "ConcurrentModificationException": "IllegalStateError",
    "KafkaException": "KafkaError",
}


def failure(thrown: Any) -> ClientError:
    """What a call or a future threw."""
    cause = innermost(thrown)
    code = int(java_class("common.protocol.Errors").forException(cause).code())
    name = str(cause.getClass().getSimpleName())
    if code == UNKNOWN and name != "UnknownServerException":
        code = NUMBERS[OWN[name]] if name in OWN else UNNUMBERED
    return ClientError(code, f"{name}: {cause.getMessage()}", fenced=code in FENCED)


def innermost(thrown: Any) -> Any:
    """What a wrapper is about: an ExecutionException, or a KafkaException that passes on what came before."""
    while (cause := thrown.getCause()) is not None and str(thrown.getClass().getSimpleName()) in {
        "ExecutionException",
        "CompletionException",
        "KafkaException",
    }:
        thrown = cause
    return thrown
