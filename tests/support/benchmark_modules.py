"""Modules of benchmarks/, which is no package."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from support.running import REPO


def benchmark_module(name: str) -> ModuleType:
    folder = str(REPO / "benchmarks")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)
