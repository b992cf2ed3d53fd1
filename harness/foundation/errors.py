"""Everything that can go wrong, and the exit code it ends with.

    TidegaugeError              3   the harness could not do its work
    ├── ClusterError            3   a cluster did not start, answer or stop as it should
    │   └── NodeDied            3   a node ended during start-up; carries its last log lines
    ├── UsageError              4   a flag, a file or a value is wrong; nothing was started
    ├── CannotHere              6   right as asked, but this machine cannot do it (now)
    └── Interrupted             2   the user stopped it, and everything was undone

Exit codes 0 (valid), 1 (invalid) and 5 (unknown) are verdicts, not errors.

A message is one sentence that says what happened and where; the remedy says what to do next. Both are required: an
error nobody can act on is a bug in the harness.
"""

from __future__ import annotations

import errno
import re
import traceback
from enum import IntEnum
from typing import ClassVar

_OBJECT = re.compile(r"\b[A-Z]\w*(?:Request|Response)(?:_v\d+)?\(")  # a protocol object, as its repr begins


class Exit(IntEnum):
    """What the process returns, everywhere."""

    VALID = 0
    INVALID = 1
    INTERRUPTED = 2
    HARNESS_ERROR = 3
    USAGE = 4
    UNKNOWN = 5
    CANNOT_HERE = 6


class TidegaugeError(Exception):
    """The harness could not do its work."""

    exit_code: ClassVar[Exit] = Exit.HARNESS_ERROR

    def __init__(self, message: str, remedy: str, log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.log_tail = log_tail
        if log_tail:
            self.add_note("\n".join(log_tail))  # who meets it as an exception sees the log as well

    def add_lines(self, lines: tuple[str, ...]) -> None:
        """More of a log than was known when it was raised."""
        self.log_tail += lines
        self.add_note("\n".join(lines))

    def __str__(self) -> str:
        return f"{self.message}: {self.remedy}"


class ClusterError(TidegaugeError):
    """A cluster did not start, answer or stop as it should."""


class NodeDied(ClusterError):
    """A node ended during start-up; `log_tail` holds its last log lines."""


class UsageError(TidegaugeError):
    """A flag, a file or a value is wrong; nothing was started."""

    exit_code = Exit.USAGE


class CannotHere(TidegaugeError):
    """Right as asked, but this machine cannot do it, or cannot do it now."""

    exit_code = Exit.CANNOT_HERE


class Interrupted(TidegaugeError):
    """The user stopped it, and everything was undone."""

    exit_code = Exit.INTERRUPTED


LINE_AT_MOST = 200


def one_line(error: BaseException) -> str:
    """What an error says, short enough to be quoted; kafka-python puts whole requests and responses into its texts."""
    if isinstance(error, TidegaugeError):
        return " ".join(str(error).split())
    code = getattr(error, "errno", None)
    is_kafkas = isinstance(code, int) and not isinstance(error, OSError)
    text = " ".join(" ".join(map(str, error.args) if is_kafkas else [str(error)]).split())
    if is_kafkas:
        text = text if text and not _OBJECT.search(text) else str(getattr(error, "description", "") or "")
        text = f"{type(error).__name__.removesuffix('Error')}{f': {text}' if text else ''}"
    elif cut := _OBJECT.search(text):
        text = text[: cut.start()].rstrip(" :'\"(") or type(error).__name__
    text = text or type(error).__name__
    return text if len(text) <= LINE_AT_MOST else f"{text[: LINE_AT_MOST - 1]}…"


def unexpected(error: Exception) -> TidegaugeError:
    """What nobody foresaw, with its traceback: a bug in the harness."""
    return TidegaugeError(
        f"the harness met an error it did not expect ({type(error).__name__}: {error})",
        "please report it with the lines below",
        tuple("".join(traceback.format_exception(error)).splitlines()),
    )


def from_os_error(error: OSError, doing: str) -> TidegaugeError:
    """The sentence for an operating-system error met while `doing` something."""
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CannotHere(
            f"the disk is full: {doing} failed{where}",
            "free some space, or set TIDEGAUGE_HOME to a directory on another disk",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return CannotHere(
            f"{doing} is not permitted{where}",
            "check the owner and mode, or set TIDEGAUGE_HOME to a directory you can write to",
        )
    return TidegaugeError(f"{doing} failed: {error.strerror or error}{where}", "see the path and try again")
