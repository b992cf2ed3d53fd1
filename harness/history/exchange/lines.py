"""A file as lines with their numbers, a few megabytes at a time; compressed ones too."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast, overload

from harness.foundation.errors import UsageError
from harness.history.exchange.file_format import Wrong

BLOCK_BYTES = 1 << 20
LINE_BYTES = 10 * 1000 * 1000
TORN = "the file is cut off here: its last line has no end"


class CannotUnpack(Exception):
    """What is packed in a file is damaged."""


class Text(Sequence[str]):
    """Lines of UTF-8 as they are in the file; they become strings when somebody asks for one."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._count = raw.count(b"\n") + 1
        self._strings: list[str] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        if self._strings is None:
            self._strings = self.raw.decode().split("\n")
        return self._strings[place]

    def __reduce__(self) -> tuple[type[Text], tuple[bytes]]:
        """It travels to helpers, who may need no strings."""
        return Text, (self.raw,)


def raw_of(lines: Sequence[str]) -> bytes:
    """Lines as UTF-8."""
    return lines.raw if isinstance(lines, Text) else "\n".join(lines).encode()


@dataclass(frozen=True)
class Chunk:
    """Some whole lines; `number` is that of the first. `torn` says that the last one has no line end."""

    number: int
    lines: Sequence[str]
    torn: bool = False
    wrong: Wrong | None = None  # with the line after these


class Hashed(io.RawIOBase):
    """A file that adds up what is read of it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.bytes = 0

    def readable(self) -> bool:
        """It is for reading only."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read, and take note."""
        with memoryview(buffer) as view:  # type: ignore[arg-type]
            count = self._file.readinto(view)  # type: ignore[attr-defined]
            self.digest.update(view[:count])
        self.bytes += count
        return int(count)


@contextmanager
def opened(path: Path) -> Iterator[Hashed]:
    """A file that may be read; whatever keeps it from that is a sentence."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory", "name a file")
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}", "check the path") from None
    except PermissionError:
        raise UsageError(f"{path} may not be read", "check its owner and mode") from None
    try:
        with file:
            yield Hashed(file)
    except (EOFError, gzip.BadGzipFile, zlib.error, CannotUnpack) as error:
        raise UsageError(f"{path} cannot be unpacked ({error})", "bring the whole file here again") from error


def unpacked(path: Path, file: Hashed) -> IO[bytes]:
    """What is in a file, by its name: packed with gzip or zstd, or plain."""
    buffered = io.BufferedReader(file, BLOCK_BYTES)
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.GzipFile(fileobj=buffered))
    if path.suffix == ".zst":
        import pyarrow as pa  # here, because helpers of the import need it not

        return pa.CompressedInputStream(pa.PythonFile(buffered, "r"), "zstd")  # type: ignore[no-any-return]
    return buffered


def chunks(stream: IO[bytes]) -> Iterator[Chunk]:
    """The lines; what is no text, or too long for a line, ends them."""
    number, rest = 1, b""
    while block := _block(stream):
        whole, end, rest = (rest + block).rpartition(b"\n")
        if end:
            chunk = _decoded(number, whole)
            yield chunk
            number += len(chunk.lines)
        if len(rest) > LINE_BYTES:
            said = f"the line is longer than {LINE_BYTES // 1_000_000} MB"
            yield Chunk(number, [], wrong=Wrong(number, said, "write one event on each line"))
            return
    if rest:
        chunk = _decoded(number, rest)
        yield Chunk(number, chunk.lines, torn=True, wrong=chunk.wrong)


def _block(stream: IO[bytes]) -> bytes:
    try:
        return stream.read(BLOCK_BYTES)
    except OSError as error:
        if error.errno is not None or isinstance(error, gzip.BadGzipFile):
            raise
        raise CannotUnpack(str(error)) from error  # which is how zstd says so


def _decoded(number: int, raw: bytes) -> Chunk:
    if len(raw) <= LINE_BYTES and (raw.isascii() or _is_utf8(raw)):
        return Chunk(number, Text(raw))
    good: list[str] = []
    for place, line in enumerate(raw.split(b"\n")):
        if len(line) > LINE_BYTES:
            said = f"the line is longer than {LINE_BYTES // 1_000_000} MB"
            return Chunk(number, good, wrong=Wrong(number + place, said, "write one event on each line"))
        try:
            good.append(line.decode())
        except UnicodeDecodeError as error:
            return Chunk(
                number, good, wrong=Wrong(number + place, f"byte {error.start + 1} is no UTF-8", "write UTF-8")
            )
    return Chunk(number, good)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
