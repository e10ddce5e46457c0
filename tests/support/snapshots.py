"""Texts compared with files under tests/; `UPDATE_SNAPSHOTS=1` writes the files, to be read before a commit."""

from __future__ import annotations

import os
from pathlib import Path


def snapshot(path: Path, text: str) -> str:
    """The stored text of `path`; with UPDATE_SNAPSHOTS=1 `text` is stored first."""
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return path.read_text("utf-8")
