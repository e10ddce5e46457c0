"""The closed loop: Bench2ADVLM on Bench2Drive's routes, in an embedded simulator or in CARLA (docs/closed-loop.md).

This file is also imported on vehicles, with Python 3.6 and the standard library.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from closedloop_plugin.interfaces.evaluation import DriveResult, evaluate

__all__ = ["DriveResult", "evaluate"]


def __getattr__(name: str) -> Any:
    """The public functions, imported on first use, since every module of the package imports it."""
    if name in __all__:
        return getattr(importlib.import_module("closedloop_plugin.interfaces.evaluation"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
