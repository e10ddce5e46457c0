"""Atomic files: a reader finds the old content or the new one, never a part, also after kill -9 or a power cut."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # full, over the quota, over the limit of a file's size
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF)


@contextmanager
def atomic_path(path: Path, durable: bool = True) -> Iterator[Path]:
    """A temporary path in the folder of `path`; the file written there replaces `path` when the block ends well.

    Order: write, fsync, rename, fsync of the folder. Folders above are made. If the block raises, `path` is as before
    and the temporary file is removed.

    `durable=False` leaves out the fsync of the folder (about half of the time): after a power cut the new name may be
    absent, never its content in part. It is for files that the same command makes again where they are missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # of a killed process of the same number; some writers refuse an existing file
    try:
        yield temporary
        with temporary.open("r+b") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)


@contextmanager
def atomic_write(path: Path, errors: str = "strict") -> Iterator[TextIO]:
    """A text handle (UTF-8) whose content appears at `path` when the block ends well; as `atomic_path`."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", errors=errors) as handle:
        yield handle


def atomic_write_bytes(path: Path, content: bytes, durable: bool = True) -> None:
    """The same for bytes, for example an encoded picture."""
    with atomic_path(path, durable) as temporary:
        temporary.write_bytes(content)


def atomic_write_json(path: Path, value: Any, errors: str = "strict") -> None:
    """The same for a JSON value: indented by 1, in UTF-8, with a line end."""
    with atomic_write(path, errors) as handle:
        json.dump(value, handle, ensure_ascii=False, indent=1)
        handle.write("\n")


def sync_folder(folder: Path) -> None:
    """Make renames and new files inside `folder` durable, where the system can (not on Windows, nor everywhere)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    except OSError as exc:
        if exc.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes left in `folder`. Only for the owner of its lock."""
    for left in folder.glob(".*.tmp"):
        left.unlink(missing_ok=True)
