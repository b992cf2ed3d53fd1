"""Work that nobody waits for: done when all is well, and never once somebody or something wants an end.

After Ctrl-C, SIGTERM or a failure a process undoes what it made and ends. Whatever only makes later runs faster, such
as archives of classes, is then left to a run that comes to its end in good order.
"""

from __future__ import annotations

import threading
from types import TracebackType

_given_up = threading.Event()


def give_up() -> None:
    """From now on this process does nothing that is not needed."""
    _given_up.set()


def give_up_on_error(kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
    """For an `ExitStack`: the same, if it ends by an error."""
    if kind is not None:
        give_up()


def is_wanted() -> bool:
    """Whether there is time for it."""
    return not _given_up.is_set()


def start_over() -> None:
    """As in a process that has just begun."""
    _given_up.clear()
