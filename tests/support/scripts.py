"""Import a file of scripts/, which imports its neighbours by their bare names as it does when it is run."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from support.running import REPO


def script(name: str) -> ModuleType:
    folder = str(REPO / "scripts")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)
