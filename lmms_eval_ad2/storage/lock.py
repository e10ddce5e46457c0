"""Locks between processes by flock, which the system releases when the holder dies, kill -9 included.

Why not the library filelock: docs/decisions/0009-flock-not-filelock.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import DISK_FULL

try:
    import fcntl
except ImportError:  # Windows has no flock: the user must not start two processes at once
    fcntl = None  # type: ignore[assignment]


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file until it is closed or unlocked; False if another handle holds the lock.

    Raises OSError if the file system does not support locks.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(file: IO[Any]) -> None:
    """Lock an open file, waiting as long as necessary. Raises OSError if the file system does not support locks."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX)


def unlock(file: IO[Any]) -> None:
    """Release the lock of an open file; no effect if none is held."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_UN)


def lock_folder(folder: Path) -> IO[bytes]:
    """Create the folder and lock FOLDER/lock until the returned handle is closed: one process at a time writes there.

    Raises Ad2Error if another process holds the lock or the folder is not writable, OSError (of DISK_FULL) for a full
    disk.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / "lock").open("ab")
    except FileExistsError as exc:
        raise Ad2Error(f"{folder} is a file; a folder is needed: choose another --out") from exc
    except OSError as exc:
        if exc.errno in DISK_FULL:
            raise
        raise Ad2Error(
            f"{folder}: cannot be written to ({exc.strerror}); choose another path, or fix its permissions"
        ) from exc
    try:
        free = try_lock(handle)
    except OSError as exc:
        handle.close()
        raise Ad2Error(f"{folder}: cannot be locked ({exc.strerror}); choose an --out on another file system") from exc
    if not free:
        handle.close()
        raise Ad2Error(f"{folder}: another process is writing to this folder; wait for it, or choose another --out")
    return handle


@contextmanager
def lock_in_turn(path: Path, busy: Callable[[], object] = lambda: None) -> Iterator[bool]:
    """Hold the lock file `path`; yields True if another process held it first (and may have done the work).

    `busy` is called before waiting.
    """
    with path.open("ab") as file:
        waited = not try_lock(file)
        if waited:
            busy()
            wait_for_lock(file)
        yield waited
