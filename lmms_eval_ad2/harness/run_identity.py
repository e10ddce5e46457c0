"""Identity of an evaluation run: model, arguments, weights, seeds, endpoint; secrets are redacted.

Imports nothing of lmms-eval, so that the folder of a run is known before lmms-eval is imported.
"""

from __future__ import annotations

import argparse
import os
import platform
import uuid
from importlib import metadata
from typing import Any

from lmms_eval_ad2.storage.identity import code_label
from lmms_eval_ad2.storage.local_weights import local_weights
from lmms_eval_ad2.storage.redaction import redacted

_ENDPOINTS = ("OPENAI_API_BASE", "OPENAI_BASE_URL", "AZURE_OPENAI_API_BASE")
VERSIONS = ("lmms_eval", "torch", "transformers", "pillow", "pycocoevalcap", "jiwer", "ms_swift", "openai")


class LibraryArguments(argparse.Namespace):
    """Stands for lmms-eval's parsed command line in a run that is called as a library: its errors are raised.

    `model_name`: the caller's name of a model object and its weights; None: each run of an object is one of its own.
    """

    model_name: str | None


def redact(model_args: Any) -> str:
    """Return the model arguments as text, without keys, tokens and passwords."""
    if isinstance(model_args, dict):
        model_args = ",".join(f"{k}={v}" for k, v in sorted(model_args.items()))
    return redacted(str(model_args or ""))


def identity(model: Any, model_args: Any, cli: Any) -> dict[str, Any]:
    """All inputs of the answers besides the request itself; the run's folder is named by its hash."""
    if not isinstance(model, str):  # an object made by the caller: a later one is recognised only by a given name
        name = getattr(cli, "model_name", None)
        return {"model": type(model).__name__, "object": name or uuid.uuid4().hex}
    return {
        "model": model,
        "args": redact(model_args),
        "seed": getattr(cli, "seed", None),
        "force_simple": bool(getattr(cli, "force_simple", False)),
        "system": getattr(cli, "system_instruction", None),
        "endpoint": {k: redact(os.environ[k]) for k in _ENDPOINTS if k in os.environ},
        "weights": local_weights(model_args or ""),
    }


def versions() -> dict[str, str]:
    """The versions of the packages that can change a score."""
    found = {"lmms_eval_ad2": code_label(), "python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
