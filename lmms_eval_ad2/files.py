"""Files that appear whole or not at all; lines, too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
