"""Errors: the tree, its exit codes, and the sentences for errors of the operating system."""

from __future__ import annotations

import errno
import os
import re

import pytest
from kafka.errors import InvalidReplicationFactorError, NotControllerError, TopicAlreadyExistsError

from harness.foundation import errors
from harness.foundation.errors import (
    CannotHere,
    ClusterError,
    Exit,
    Interrupted,
    NodeDied,
    TidegaugeError,
    UsageError,
    from_os_error,
    one_line,
)

TREE: dict[type[TidegaugeError], Exit] = {
    TidegaugeError: Exit.HARNESS_ERROR,
    ClusterError: Exit.HARNESS_ERROR,
    NodeDied: Exit.HARNESS_ERROR,
    UsageError: Exit.USAGE,
    CannotHere: Exit.CANNOT_HERE,
    Interrupted: Exit.INTERRUPTED,
}


def family(kind: type[TidegaugeError]) -> set[type[TidegaugeError]]:
    """A class of errors and all below it."""
    return {kind}.union(*(family(below) for below in kind.__subclasses__()))


def test_the_tree_is_complete() -> None:
    """No error class of the harness is missing from the tests and from the drawing in the docstring."""
    shipped = {kind for kind in family(TidegaugeError) if kind.__module__.startswith("harness")}
    assert shipped == set(TREE)
    drawn = dict(re.findall(r"([A-Z]\w+) +(\d)  ", errors.__doc__ or ""))
    assert drawn == {kind.__name__: str(int(code)) for kind, code in TREE.items()}


@pytest.mark.parametrize(("kind", "code"), TREE.items())
def test_every_error_has_its_exit_code(kind: type[TidegaugeError], code: Exit) -> None:
    """The class decides the exit code; the text is the sentence and the remedy; log lines travel along."""
    error = kind("it broke", "mend it", ("last", "lines"))
    assert error.exit_code is code
    assert str(error) == "it broke: mend it"
    assert (error.message, error.remedy, error.log_tail) == ("it broke", "mend it", ("last", "lines"))


def test_exit_codes_are_distinct_and_small() -> None:
    """Seven codes, 0 to 6, each with one meaning."""
    assert [int(code) for code in Exit] == list(range(7))
    assert {Exit.VALID, Exit.INVALID, Exit.UNKNOWN}.isdisjoint(TREE.values())


@pytest.mark.parametrize(
    ("number", "kind", "said", "remedy"),
    [
        (errno.ENOSPC, CannotHere, "the disk is full: writing failed", "TIDEGAUGE_HOME"),
        (errno.EDQUOT, CannotHere, "the disk is full: writing failed", "TIDEGAUGE_HOME"),
        (errno.EACCES, CannotHere, "writing is not permitted", "owner and mode"),
        (errno.EPERM, CannotHere, "writing is not permitted", "owner and mode"),
        (errno.EROFS, CannotHere, "writing is not permitted", "owner and mode"),
        (errno.EIO, TidegaugeError, f"writing failed: {os.strerror(errno.EIO)}", "try again"),
    ],
)
@pytest.mark.parametrize("path", ["/some/file", None])
def test_errors_of_the_operating_system_are_sentences(
    number: int, kind: type[TidegaugeError], said: str, remedy: str, path: str | None
) -> None:
    """A full disk and missing rights are this machine's fault and say so; the path is named where there is one."""
    error = from_os_error(OSError(number, os.strerror(number), path), "writing")
    assert type(error) is kind
    assert error.message == (f"{said} ({path})" if path else said)
    assert remedy in error.remedy


def test_an_operating_system_error_without_number_keeps_its_text() -> None:
    """Some libraries raise OSError with a text only."""
    assert from_os_error(OSError("odd thing"), "reading").message == "reading failed: odd thing"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ECONNREFUSED, "refused"), f"[Errno {errno.ECONNREFUSED}] refused"),
        (ValueError("two\n  lines"), "two lines"),
        (ValueError(), "ValueError"),
        (ValueError("cannot decode: MetadataResponse_v9(brokers=[])"), "cannot decode"),
        (ValueError("CreateTopicsRequest(version=4)"), "ValueError"),
        (NotControllerError(), "NotController: This is not the correct controller for this cluster."),
        (TopicAlreadyExistsError("it is there"), "TopicAlreadyExists: it is there"),
        (
            InvalidReplicationFactorError(
                "Request 'CreateTopicsRequest(topics=[])' failed with 'CreateTopicsResponse()'"
            ),
            "InvalidReplicationFactor: Replication-factor is invalid.",
        ),
        (ValueError("x" * 300), "x" * 199 + "…"),
    ],
)
def test_an_error_in_one_line_quotes_no_protocol_objects(error: Exception, said: str) -> None:
    """Those are for the log."""
    assert one_line(error) == said
