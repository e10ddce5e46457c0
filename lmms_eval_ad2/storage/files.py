"""Atomic file writes: a reader sees the old content or the new content, never a part, even after kill -9."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

# The data home: the folder for imported data and for what all runs of a user share.


def home() -> Path:
    """$AD2_HOME, else $XDG_CACHE_HOME/lmms-eval-ad2, else ~/.cache/lmms-eval-ad2; the folder may not exist yet."""
    if given := os.environ.get("AD2_HOME"):
        return Path(given).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "lmms-eval-ad2"


DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # disk full, over quota, over the file size limit
_CHUNK = 1 << 20
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF)


@contextmanager
def atomic_path(path: Path, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; the file written there replaces `path` if the block succeeds.

    Order: write, fsync, rename, fsync of the folder. Parent folders are created. If the block raises, `path` is
    unchanged and the temporary file is removed. Raises OSError, before the block, if `path` is a device or a pipe
    (/dev/null), which must not be replaced by a file.

    `durable=False` skips the fsync of the folder (about half of the time): after a power failure the new name may be
    missing, but the content is never partial. Use it for files that the same command creates again if missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EEXIST, "not a regular file", str(path))
    # Two threads may write the same path, and so may processes of two containers, with equal ids.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
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
    """Yield a text handle (UTF-8) whose content appears at `path` if the block succeeds; see `atomic_path`.

    Temporary files of the same path that killed processes left are removed.
    """
    remove_abandoned(path.parent, glob.escape(path.name))
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", errors=errors) as handle:
        yield handle


def atomic_write_bytes(path: Path, content: bytes, durable: bool = True) -> None:
    """Write bytes atomically; see `atomic_path`."""
    with atomic_path(path, durable) as temporary:
        temporary.write_bytes(content)


def atomic_write_json(path: Path, value: Any, errors: str = "strict") -> None:
    """Write a JSON value atomically: indented by 1, UTF-8, with a final newline."""
    with atomic_write(path, errors) as handle:
        json.dump(value, handle, ensure_ascii=False, indent=1)
        handle.write("\n")


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading, without waiting.

    Raises OSError for a folder, and for a FIFO, socket or device, which may have no end or block.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EACCES, "not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def file_sha256(path: Path) -> str:
    """Hexadecimal sha256 of a regular file's content, read in chunks of 1 MiB."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Make renames and new files in `folder` durable, if the system supports it (Windows and some others do not)."""
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


def remove_leftovers(*folders: Path) -> None:
    """Remove the temporary files that killed processes left in `folders`, not below. The caller holds their lock."""
    for folder in folders:
        for leftover in folder.glob(".*.tmp"):
            leftover.unlink(missing_ok=True)


def remove_abandoned(folder: Path, pattern: str = "*") -> None:
    """Remove the temporary files of `atomic_path` in a folder whose processes no longer run; needs no lock.

    pattern: glob pattern of the names of the files that were to be written.
    """
    for leftover in folder.glob(f".{pattern}.*.tmp"):
        writer = re.search(r"\.(\d+)(?:-[0-9a-f]{8})?\.tmp$", leftover.name)
        if writer and not _runs(int(writer[1])):
            leftover.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to another user, or the number is none of a process
        return True
    return True
