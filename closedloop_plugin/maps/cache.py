"""A folder of map files named by their content."""

from __future__ import annotations

from pathlib import Path as File

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write_bytes


def keep(data: bytes, folder: File, name: str) -> File:
    """Write once, whole or not at all; a file that is there already with these bytes is left alone."""
    folder = File(folder)
    file = folder / name
    try:
        if file.is_file() and file.read_bytes() == data:
            return file
        atomic_write_bytes(file, data, durable=False)
    except OSError as exc:
        raise Ad2Error(f"{folder}: cannot keep a map there ({exc.strerror}); choose another cache folder") from exc
    return file
