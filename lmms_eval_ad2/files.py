"""Files that appear whole or not at all; lines, too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import TextIO


@contextmanager
def whole_file(path: Path, errors: str = "strict") -> Iterator[TextIO]:
    """A text handle (UTF-8) whose content stands at `path` once the block ends well: temporary name, fsync, rename.

    Folders above are made. If the block raises, `path` is as before and nothing is left behind.
    """
    with _in_place_of(path) as temporary, temporary.open("w", encoding="utf-8", errors=errors) as handle:
        yield handle
        handle.flush()
        os.fsync(handle.fileno())


def write_whole(path: Path, content: bytes) -> None:
    """The same for bytes that are there already, a picture's say."""
    with _in_place_of(path) as temporary, temporary.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def append_whole(handle: FileIO, path: Path, line: bytes, sync: Callable[[], object]) -> int:
    """Add `line` to `path`, opened unbuffered to append, then `sync()`; where in the file the line begins.

    What a write or sync that failed (a full disk) left of it is taken back before the OSError is raised again.
    """
    before = path.stat().st_size
    rest = memoryview(line)
    try:
        while rest:
            rest = rest[handle.write(rest) :]
        sync()
    except OSError:
        os.truncate(path, before)
        raise
    return before


def cut_torn_line(path: Path) -> None:
    """Drop what follows the last line end: half a line that a kill or a full disk left."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


@contextmanager
def _in_place_of(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` that takes its place when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
