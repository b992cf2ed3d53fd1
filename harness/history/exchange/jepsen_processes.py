"""Processes that read passages of a Jepsen history for the one that puts them together.

A helper gets lines through one pipe and answers through the other, one passage at a time; it ends when its pipe does,
so that none outlives the import, however that ends.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any, cast

from harness.foundation.errors import TidegaugeError
from harness.history.exchange.jepsen_fast import FastChunkParser
from harness.history.exchange.jepsen_lines import ParsedChunk
from harness.history.exchange.lines import Chunk

HELPERS_AT_MOST = 4
_SIZE_BYTES = 8


def read_all(chunks: Iterable[Chunk]) -> Generator[tuple[Chunk, ParsedChunk], None, None]:
    """The passages of a file in their order; what is longer than one is read by several processes."""
    remaining = iter(chunks)
    first = next(remaining, None)
    if first is None:
        return
    passage = FastChunkParser().read(first)
    yield first, passage
    wrapped = passage.wrapped
    second = next(remaining, None)
    if second is None:
        return
    with _started(min(HELPERS_AT_MOST, len(os.sched_getaffinity(0)))) as helpers:
        waiting: deque[tuple[Chunk, subprocess.Popen[bytes]]] = deque()
        chunk: Chunk | None = second
        while chunk is not None:
            answered = None
            if len(waiting) < len(helpers):
                helper = helpers[len(waiting)]
            else:
                done, helper = waiting.popleft()
                answered = (done, _answer(helper))
            _send(cast(IO[bytes], helper.stdin), (chunk, wrapped))
            waiting.append((chunk, helper))
            if answered:
                yield answered
            chunk = next(remaining, None)
        while waiting:
            done, helper = waiting.popleft()
            yield done, _answer(helper)


@contextmanager
def _started(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    with ExitStack() as stack:
        helpers = []
        for _ in range(count):
            helper = subprocess.Popen(
                [sys.executable, "-P", "-m", "harness.history.exchange.jepsen_processes"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the import, which ends its helpers
            )
            stack.callback(_end, helper)
            helpers.append(helper)
        yield helpers


def _end(helper: subprocess.Popen[bytes]) -> None:
    helper.kill()
    helper.wait()
    for pipe in (helper.stdin, helper.stdout):
        with suppress(BrokenPipeError):  # of what it did not take
            cast(IO[bytes], pipe).close()


def _answer(helper: subprocess.Popen[bytes]) -> ParsedChunk:
    found = _receive(cast(IO[bytes], helper.stdout))
    if found is None:
        raise TidegaugeError("a process that helped to read the file has died", "see whether memory ran out, try again")
    return cast(ParsedChunk, found)


def _send(stream: IO[bytes], what: Any) -> None:
    body = pickle.dumps(what, pickle.HIGHEST_PROTOCOL)
    with suppress(BrokenPipeError):  # the other side is gone, which shows when its answer is due
        stream.write(len(body).to_bytes(_SIZE_BYTES, "little"))
        stream.write(body)
        stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    """What the other side sent; None when it is gone."""
    size = int.from_bytes(stream.read(_SIZE_BYTES), "little")
    body = stream.read(size)
    return pickle.loads(body) if size and len(body) == size else None  # noqa: S301 - from our own process


def main() -> None:
    """Answer until nobody asks."""
    gc.disable()  # millions of objects, and no cycle among them
    answers = os.fdopen(os.dup(1), "wb")
    maker = FastChunkParser()
    while (asked := _receive(sys.stdin.buffer)) is not None:
        _send(answers, maker.read(*asked))


if __name__ == "__main__":
    main()
