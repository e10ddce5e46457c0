"""lmms-eval-ad2: driving benchmarks for vision-language models as plain lmms-eval tasks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.version import __version__

if TYPE_CHECKING:
    from lmms_eval_ad2.evaluation import EvaluationResult, evaluate

__all__ = ["EvaluationResult", "__version__", "evaluate"]


def __getattr__(name: str) -> Any:
    """The public functions, imported on first use, since every command imports this package."""
    if name in ("EvaluationResult", "evaluate"):
        return getattr(importlib.import_module("lmms_eval_ad2.evaluation"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
