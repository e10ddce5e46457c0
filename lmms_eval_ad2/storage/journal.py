"""Append-only journals: one JSON object per line, safe against kill -9, a full disk and several writers.

Torn tails: a line is complete once its newline is in the file. Anything after the last newline is a torn tail, left by
a kill, a crash or a full disk. The next writer truncates it before appending; a reader ignores it and never changes the
file.

Why a torn tail is truncated and not completed with a newline: `JournalFile.append` returns after the newline is
written, so no caller relies on a torn tail and no completed line is lost. A completed torn tail would remain as a line
that is not JSON, and every later reader would have to decide whether a broken line is harmless or real damage (an edit
by hand, a faulty disk). Real damage is reported with its row.

Writers hold a lock on the file (flock) while they truncate, append, or undo a failed write, so that no writer truncates
a line that another one is writing. On a file system without locks, a journal is safe with one writer only.
"""

from __future__ import annotations

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

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.storage.files import sync_folder
from lmms_eval_ad2.storage.lock import unlock, wait_for_lock
from lmms_eval_ad2.storage.untrusted_json import parse as parse_json

LONGEST_LINE = 32 << 20  # bytes; a reader holds one line in memory
_BLOCK = 1 << 16
_BROKEN = (ValueError, TypeError, AttributeError, LookupError, RecursionError)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JournalLine(Generic[T]):
    """A completed line: its number from 1, its byte range [start, end) in the file, and its parsed value."""

    number: int
    start: int
    end: int
    value: T


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A completed line that cannot be parsed: `content` is its beginning, `error` the exception."""

    number: int
    start: int
    end: int
    content: bytes
    error: Exception


def parse_object(content: bytes) -> dict[str, Any]:
    """Parse a line as a JSON object, with or without a byte order mark. Raises ValueError or TypeError for others."""
    value = parse_json(content, finite=False)  # an earlier version may have written NaN
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {type(value).__name__}")
    return value


def scan(
    path: Path, parse: Callable[[bytes], T], *, start: int = 0, before: int = 0, longest: int = LONGEST_LINE
) -> Iterator[JournalLine[T] | BrokenLine]:
    """Yield all completed lines of `path`, one in memory at a time; none if there is no file.

    `parse` gets the line without its newline. A line for which it raises ValueError, TypeError, AttributeError,
    LookupError or RecursionError, and a line of more than `longest` bytes, is yielded as a BrokenLine; other exceptions
    propagate. `start`: byte at which to continue, the `end` of an earlier line; `before`: the number of that line.
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
    """Like `scan`, but raises DataError at the first broken line, with its row, `expected` and `hint`."""
    for line in scan(path, parse, start=start, before=before, longest=longest):
        if isinstance(line, BrokenLine):
            found = line.content[:80].rstrip(b"\n").decode(errors="replace")
            text = f"({line.error}) {hint}".strip()
            raise DataError(path, line.number, "line", expected, found, text) from line.error
        yield line


def has_lines(path: Path) -> bool:
    """Whether `path` has a completed line."""
    if not path.is_file():
        return False
    with path.open("rb") as handle:
        return _skip_line(handle) is not None


class JournalFile:
    """A journal opened for appending; created if missing, its torn tail truncated. A context manager; thread-safe.

    `sync_s`: seconds that a line may wait for its fsync. 0: `append` returns after the fsync; inf: never synced. In all
    cases kill -9 loses no appended line; the fsync protects against a crash of the machine.
    `shared`: several processes append, so a file system without locks is an OSError. Otherwise such a file system is
    accepted, and the caller must be the only writer (by holding the folder's lock, or by a unique file name).
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
                pass  # entering truncates the torn tail
            if new and sync_s < math.inf:
                sync_folder(path.parent)
        except BaseException:
            self._file.close()
            raise

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Exclude other writers during the block; the file ends with a completed line. May be nested."""
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
        """Append lines, given without newlines, all of them or none; returns the byte offset of the first.

        Raises OSError (such as a full disk) if nothing was added; a partial write is undone.
        """
        if any(b"\n" in line for line in lines):
            raise ValueError("a line of a journal must not contain a newline")
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
        """Write all appended lines to the disk."""
        os.fsync(self._file.fileno())
        self._synced, self._dirty = time.monotonic(), False

    def close(self) -> None:
        """Sync pending lines and close the file; a second call does nothing."""
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
    rest = memoryview(content)
    while rest:  # a write to a full disk is partial; the next one raises
        rest = rest[file.write(rest) :]


def _cut_torn_tail(file: FileIO) -> None:
    """Truncate after the last newline; reads backwards from the end, so that a large file costs one block."""
    number = file.fileno()
    end = size = os.fstat(number).st_size
    while end:
        start = max(0, end - (_BLOCK if end < size else 1))  # usually the last byte is a newline
        file.seek(start)
        found = (file.read(end - start) or b"").rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        os.ftruncate(number, end)


def _skip_line(handle: BinaryIO) -> int | None:
    """Read to the next newline; the number of bytes read, including it, or None if the file ends first."""
    count = 0
    while part := handle.readline(_BLOCK):
        count += len(part)
        if part.endswith(b"\n"):
            return count
    return None
