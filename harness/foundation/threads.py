"""Threads that nobody has to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class Threads(Executor):
    """A thread for each piece of work; one that hangs keeps nobody from leaving, as those of a pool would."""

    def __init__(self, name: str) -> None:
        self._name = name

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begin at once."""
        done: Future[T] = Future()

        def do() -> None:
            try:
                done.set_result(work(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - whoever asks for the result meets it
                done.set_exception(error)

        threading.Thread(target=do, name=self._name, daemon=True).start()
        return done
