"""A cache folder that only this user can read or write, for content that is executed or unpickled when it is read.

The folder has mode 0700 and belongs to this user, and so does each entry, which is a regular file. Both are checked on
open descriptors, not by name, so that nothing can be exchanged in between. Entries that fail a check are not read. A
cache saves time only: what cannot be written or read is computed again.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from lmms_eval_ad2.storage.files import atomic_write_bytes


class PrivateCache:
    """Entries by name, at most `most`: the oldest are deleted."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self.most = Path(folder), most

    def open(self, name: str) -> int | None:
        """Descriptor of an entry for reading, which the caller closes; None if there is none of this user."""
        with _private_folder(self.folder) as folder:
            if folder is None:
                return None
            try:
                entry = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            except OSError:
                return None
        status = os.fstat(entry)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            return entry
        os.close(entry)
        return None

    def read(self, name: str) -> bytes | None:
        """Content of an entry."""
        entry = self.open(name)
        if entry is None:
            return None
        with os.fdopen(entry, "rb") as handle:
            return handle.read()

    def write(self, name: str, content: bytes) -> None:
        """Write an entry atomically, if the folder is private and the disk has room."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _private_folder(self.folder) as folder:
                if folder is None:
                    return
                atomic_write_bytes(self.folder / name, content, durable=False)
                self._delete_oldest(folder)

    def _delete_oldest(self, folder: int) -> None:
        names = os.listdir(folder)
        if len(names) <= self.most:
            return
        written = {name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime for name in names}
        for name in sorted(names, key=lambda name: written[name])[: len(names) - self.most]:
            os.unlink(name, dir_fd=folder)


@contextlib.contextmanager
def _private_folder(path: Path) -> Iterator[int | None]:
    """Descriptor of a folder that only this user can write; None if there is no such folder."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        yield None
        return
    try:
        status = os.fstat(folder)
        private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
        yield folder if private else None
    finally:
        os.close(folder)
