"""What errors of client libraries mean: the table, its numbers and names, and its documentation."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka import errors

from harness.foundation.error_codes import NAMES, NUMBERS, REFUSED_LOCALLY, UNNUMBERED, code_of, name_of
from harness.history.outcomes import ANYTHING, TABLE, OutcomeRule, is_classified, outcome
from harness.history.schema import F, Type
from tests.support import REPOSITORY

OLD_NAMES = {0, 2, 3, 4, 6, 10, 11, 17, 39, -1}  # what libraries call otherwise than Kafka does


@pytest.mark.parametrize("code", [REFUSED_LOCALLY, 10, 18, 29, 31, 87, KafkaError._STATE, KafkaError._QUEUE_FULL])
def test_what_was_certainly_not_appended_failed(code: int) -> None:
    """Refused before it was sent, too large, not allowed, invalid."""
    assert outcome(F.SEND, code) is Type.FAIL


@pytest.mark.parametrize("code", [6, 7, 19, 20, 32, 45, 46, 47, 90, -1, -192, -195, -152, -151, 3, 5, 74])
@pytest.mark.parametrize("f", [F.SEND, F.TXN])
def test_what_an_attempt_before_may_have_written_is_unknown(f: F, code: int) -> None:
    """NOT_LEADER and time-outs above all; also what was purged while it waited, perhaps to be sent again."""
    assert outcome(f, code) is Type.INFO
    assert is_classified(f, code)


@pytest.mark.parametrize("f", F)
def test_what_is_not_in_the_table_is_unknown_and_known_as_such(f: F) -> None:
    """Whatever was asked."""
    for code in (999, UNNUMBERED, -500):
        assert outcome(f, code) is Type.INFO
        assert not is_classified(f, code)


@pytest.mark.parametrize("f", F)
def test_time_outs_and_leaders_that_moved_are_never_a_failure(f: F) -> None:
    """The rule that every table has to keep."""
    names = "REQUEST_TIMED_OUT _TIMED_OUT _MSG_TIMED_OUT KafkaTimeoutError NOT_LEADER_OR_FOLLOWER NOT_COORDINATOR"
    for name in [*names.split(), "_TRANSPORT", "KafkaConnectionError", "NETWORK_EXCEPTION"]:
        assert (outcome(f, NUMBERS[name]), is_classified(f, NUMBERS[name])) == (Type.INFO, True)


@pytest.mark.parametrize(
    ("f", "name", "type_"),
    [
        (F.CREATE, "TOPIC_ALREADY_EXISTS", Type.INFO),  # perhaps by its own first attempt
        (F.CREATE, "INVALID_PARTITIONS", Type.FAIL),
        (F.GROW, "INVALID_PARTITIONS", Type.INFO),  # perhaps it has grown already
        (F.DELETE, "UNKNOWN_TOPIC_OR_PARTITION", Type.INFO),
        (F.DELETE, "TOPIC_DELETION_DISABLED", Type.FAIL),
        (F.COMMIT, "ILLEGAL_GENERATION", Type.INFO),
        (F.COMMIT, "_NO_OFFSET", Type.FAIL),
        (F.TXN, "_STATE", Type.FAIL),
        (F.TXN, "_CONFLICT", Type.INFO),
        (F.TXN, "PRODUCER_FENCED", Type.INFO),
        (F.INIT, "INVALID_TRANSACTION_TIMEOUT", Type.FAIL),
        (F.SUBSCRIBE, "INVALID_GROUP_ID", Type.FAIL),
        (F.POLL, "TOPIC_AUTHORIZATION_FAILED", Type.INFO),
    ],
)
def test_it_matters_what_was_asked(f: F, name: str, type_: Type) -> None:
    """One error, two meanings."""
    assert outcome(f, NUMBERS[name]) is type_
    assert is_classified(f, NUMBERS[name])


def test_no_two_rows_contradict_each_other() -> None:
    """Of two rows about one error and operation the one for fewer operations counts: it has to be one."""
    said = Counter((f, code, len(row.asked)) for row in TABLE for f in row.asked for code in row.codes)
    assert [key for key, count in said.items() if count > 1] == []


def test_numbers_and_names_are_those_of_the_libraries() -> None:
    """All of them; a library that has new ones makes this fail."""
    rdkafka = {
        value: name
        for name in dir(KafkaError)
        if isinstance(value := getattr(KafkaError, name), int) and not name.startswith("__")
    }
    assert {code: name for code, name in rdkafka.items() if NAMES.get(code) != name and code not in OLD_NAMES} == {}
    python: list[Any] = [
        kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.KafkaError)
    ]
    numbered = {kind.errno: kind.message for kind in python if getattr(kind, "errno", None) is not None}
    assert {code: name for code, name in numbered.items() if NAMES.get(code) != name and code not in OLD_NAMES} == {}
    bases = {"AuthorizationError", "BrokerResponseError", "InvalidMetadataError", "RetriableError"}
    assert {kind.__name__ for kind in python if getattr(kind, "errno", None) is None} <= NUMBERS.keys() | bases


def test_an_exception_has_the_number_of_kafka_or_of_its_class() -> None:
    """Or of the one that it passes on; one that nobody knows has none, whatever its errno means to the system."""
    assert code_of(errors.ProducerFencedError()) == 90
    assert name_of(code_of(errors.KafkaTimeoutError("late"))) == "KafkaTimeoutError"
    assert code_of(errors.KafkaError("cannot send", errors.ProducerFencedError())) == 90
    lost = errors.KafkaConnectionError(ConnectionResetError(104, "reset"))
    assert name_of(code_of(lost)) == "KafkaConnectionError"
    assert code_of(OSError(7, "argument list too long")) == code_of(KafkaException(1)) == UNNUMBERED
    assert name_of(12345) == "error 12345"


def _documented(row: OutcomeRule) -> str:
    asked = "anything" if row.asked == ANYTHING else ", ".join(f.name.lower() for f in sorted(row.asked))
    names = ", ".join(f"`{name}`" for name in row.errors.split()) or "every error that has a name"
    return f"| {asked} | {names} | {row.type.name.lower()} | {row.reason} |\n"


def test_the_documentation_has_the_table_as_the_code_has_it() -> None:
    """docs/errors.md: row by row, in the same order, and no row more."""
    text = (REPOSITORY / "docs" / "errors.md").read_text(encoding="utf-8")
    assert "".join(_documented(row) for row in TABLE) in text
    assert text.count("\n| ") == len(TABLE) + 2
