"""Import a file of scripts/ or benchmarks/, which imports its neighbours by their bare names as when it is run."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from support.running import REPO


def script(name: str, folder: str = "scripts") -> ModuleType:
    path = str(REPO / folder)
    sys.path.insert(0, path)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(path)
