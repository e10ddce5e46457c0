"""A folder of map files named by their content."""

from __future__ import annotations

import os
from pathlib import Path as File

from lmms_eval_ad2.errors import Ad2Error


def keep(data: bytes, folder: File, name: str) -> File:
    """Write once, whole or not at all; a file that is there already with these bytes is left alone."""
    folder = File(folder)
    file = folder / name
    try:
        if file.is_file() and file.read_bytes() == data:
            return file
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{name}.{os.getpid()}.part"
        try:
            part.write_bytes(data)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as exc:
        raise Ad2Error(f"{folder}: cannot keep a map there ({exc.strerror}); choose another cache folder") from exc
    return file
