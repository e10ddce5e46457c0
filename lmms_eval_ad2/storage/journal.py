"""Append-only journals: one JSON object a line, safe against kill -9, a full disk and several writers.

The rule for torn tails: a line counts once its line end is in the file. What follows the last line end is a torn tail,
left by a kill, a crash or a full disk. The next writer cuts it off before it appends; a reader leaves it out, and never
changes the file.

Why cut, and not end it with a line end: `JournalFile.append` returns after the line end is written, so a torn tail is
nothing that anybody was told of, and cutting loses no completed line. An ended one would stay in the file as a line
that is no JSON. Every later reader would then have to guess whether a broken line is harmless or real damage (an edit
by hand, a faulty disk), which this module reports with its row.

Writers lock the file (flock) while they cut, append, or take back what a failed write left. So no writer cuts a line
that another one is still writing. Where the file system has no locks, a journal is safe with one writer only.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.storage.files import sync_folder
from lmms_eval_ad2.storage.lock import unlock, wait_for_lock

LONGEST_LINE = 64 << 20  # bytes; a reader holds one line in memory
_BLOCK = 1 << 16
_BROKEN = (ValueError, TypeError, AttributeError, LookupError, RecursionError)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JournalLine(Generic[T]):
    """A completed line: its number from 1, its bytes' place in the file [start, end), and what it holds."""

    number: int
    start: int
    end: int
    value: T


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A completed line that cannot be read: `content` is its beginning, `error` says why."""

    number: int
    start: int
    end: int
    content: bytes
    error: Exception


def parse_object(content: bytes) -> dict[str, Any]:
    """A line as a JSON object; ValueError, TypeError or RecursionError where it is none. A byte order mark may lead."""
    value = json.loads(content.decode("utf-8-sig"))
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {type(value).__name__}")
    return value


def scan(
    path: Path, parse: Callable[[bytes], T], *, start: int = 0, before: int = 0, longest: int = LONGEST_LINE
) -> Iterator[JournalLine[T] | BrokenLine]:
    """All completed lines of `path`, one in memory at a time; none where there is no file.

    `parse` gets the line without its line end. A line on which it raises ValueError, TypeError, AttributeError,
    LookupError or RecursionError, and one of more than `longest` bytes, comes as a BrokenLine; other errors are
    raised. `start`: the byte to read on from, the `end` of an earlier line; `before`: the number of that line.
    """
    if not path.is_file():
        return
    with path.open("rb") as handle:
        handle.seek(start)
        number, end = before, start
        while content := handle.readline(longest + 1):
            begin, end, number = end, end + len(content), number + 1
            if not content.endswith(b"\n"):
                rest = _skip_line(handle)
                if rest is None:
                    return  # a torn tail, or a line that another process is writing
                end += rest
                error: Exception = ValueError(f"longer than {longest} bytes")
                yield BrokenLine(number, begin, end, content[:_BLOCK], error)
                continue
            try:
                value = parse(content[:-1])
            except _BROKEN as exc:
                yield BrokenLine(number, begin, end, content[:_BLOCK], exc)
            else:
                yield JournalLine(number, begin, end, value)


def read(
    path: Path,
    parse: Callable[[bytes], T],
    *,
    expected: str = "one JSON object in UTF-8",
    hint: str = "",
    start: int = 0,
    before: int = 0,
    longest: int = LONGEST_LINE,
) -> Iterator[JournalLine[T]]:
    """As `scan`; raises DataError with the row of the first broken line, what was `expected` there, and a `hint`."""
    for line in scan(path, parse, start=start, before=before, longest=longest):
        if isinstance(line, BrokenLine):
            found = line.content[:80].rstrip(b"\n").decode(errors="replace")
            text = f"({line.error}) {hint}".strip()
            raise DataError(path, line.number, "line", expected, found, text) from line.error
        yield line


def has_lines(path: Path) -> bool:
    """Whether `path` holds a completed line."""
    if not path.is_file():
        return False
    with path.open("rb") as handle:
        return _skip_line(handle) is not None


class JournalFile:
    """`path`, opened for appending; made where absent, its torn tail cut off. Use as a context manager. Thread-safe.

    `sync_s`: seconds that a line may wait for its fsync. 0: every append returns with its lines on the disk; inf:
    never synced. In all cases kill -9 loses no appended line; the fsync is for a crash of the machine.
    `shared`: several processes append by design, so a file system without locks is an OSError. Else such a file system
    is accepted: then the caller is the only writer (it holds the folder's lock, or the name is its own).
    """

    def __init__(self, path: Path, sync_s: float = 0.0, shared: bool = False) -> None:
        self.path = path
        self._sync_s, self._shared = sync_s, shared
        self._thread_lock, self._depth = threading.RLock(), 0
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        self._file = path.open("a+b", buffering=0)
        self._synced, self._dirty = time.monotonic(), False
        try:
            with self.exclusive():
                pass  # cuts the torn tail
            if new and sync_s < math.inf:
                sync_folder(path.parent)
        except BaseException:
            self._file.close()
            raise

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """No other process appends during the block, and the file ends in a completed line. May be nested."""
        with self._thread_lock:
            if not self._depth:
                self._lock()
            self._depth += 1
            try:
                if self._depth == 1:
                    _cut_torn_tail(self._file)
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    with suppress(OSError):
                        unlock(self._file)

    def append(self, *lines: bytes) -> int:
        """Add lines, given without their line ends, all of them or none; the place of the first in the file.

        OSError: nothing was added (a full disk, say), and what a part of the write left is taken back.
        """
        if any(b"\n" in line for line in lines):
            raise ValueError("a line of a journal has no line end inside")
        content = b"".join(line + b"\n" for line in lines)
        with self.exclusive():
            start = os.fstat(self._file.fileno()).st_size
            try:
                _write_all(self._file, content)
                self._dirty = True
                if time.monotonic() - self._synced >= self._sync_s:
                    self.sync()
            except OSError:
                os.ftruncate(self._file.fileno(), start)
                raise
        return start

    def sync(self) -> None:
        """Bring everything appended so far to the disk."""
        os.fsync(self._file.fileno())
        self._synced, self._dirty = time.monotonic(), False

    def close(self) -> None:
        """Sync what waits for it, and close; a second call does nothing."""
        if self._file.closed:
            return
        try:
            if self._dirty and self._sync_s < math.inf:
                self.sync()
        finally:
            self._file.close()

    def __enter__(self) -> JournalFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            wait_for_lock(self._file)
        except OSError:
            if self._shared:
                raise


def _write_all(file: FileIO, content: bytes) -> None:
    """A write to a disk that fills up takes a part; the next one then raises with the reason."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _cut_torn_tail(file: FileIO) -> None:
    """Truncate behind the last line end; reads backwards from the end, so a large file costs one block."""
    number = file.fileno()
    end = size = os.fstat(number).st_size
    while end:
        start = max(0, end - (_BLOCK if end < size else 1))  # nearly always the last byte is a line end
        file.seek(start)
        found = (file.read(end - start) or b"").rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        os.ftruncate(number, end)


def _skip_line(handle: BinaryIO) -> int | None:
    """Read to the next line end; the number of bytes up to and with it, None where the file ends before."""
    count = 0
    while part := handle.readline(_BLOCK):
        count += len(part)
        if part.endswith(b"\n"):
            return count
    return None
