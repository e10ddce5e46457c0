"""The data home: the folder for imported data and for what all runs of a user share."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """$AD2_HOME, else $XDG_CACHE_HOME/lmms-eval-ad2, else ~/.cache/lmms-eval-ad2; the folder may not exist yet."""
    if given := os.environ.get("AD2_HOME"):
        return Path(given).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "lmms-eval-ad2"
