"""Identity of an evaluation run: model, arguments, weights, seeds, endpoint; secrets are redacted.

Imports nothing of lmms-eval, so that the folder of a run is known before lmms-eval is imported.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import uuid
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from lmms_eval_ad2.storage.code_state import code_label

_ENDPOINTS = ("OPENAI_API_BASE", "OPENAI_BASE_URL", "AZURE_OPENAI_API_BASE")
_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf", "config.json", "adapter_config.json")
_SECRETS = (
    (re.compile(r"://[^@/\s,]+@"), "://[REDACTED]@"),
    (re.compile(r"\bsk-[\w-]{8,}"), "[REDACTED]"),
    (re.compile(r"\bhf_[A-Za-z0-9]{20,}\b"), "[REDACTED]"),
    (re.compile(r"(?i)\bbearer\s+[^\s,;]+"), "Bearer [REDACTED]"),
    (re.compile(r"(?i)(\b\w*(?:key|auth|password|secret|token)\s*=)[^,\s]+"), r"\1[REDACTED]"),
)
VERSIONS = ("lmms_eval", "torch", "transformers", "pillow", "pycocoevalcap", "jiwer", "ms_swift", "openai")


def redact(model_args: Any) -> str:
    """Return the model arguments as text, without keys, tokens and passwords."""
    if isinstance(model_args, dict):
        model_args = ",".join(f"{k}={v}" for k, v in sorted(model_args.items()))
    text = str(model_args or "")
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def pairs(model_args: str | Mapping[str, Any] | None) -> dict[str, str]:
    """Parse `a=1,b=2` into a dictionary of texts."""
    if isinstance(model_args, Mapping):
        return {str(key): str(value) for key, value in model_args.items()}
    return dict(p.split("=", 1) for p in (model_args or "").split(",") if "=" in p)


def model_label(model: str, model_args: str) -> str:
    """A short name for tables: the checkpoint's, if there is one."""
    known = pairs(model_args)
    for key in ("pretrained", "model_version", "model"):
        if known.get(key):
            return known[key].rstrip("/").split("/")[-1]
    return model


def identity(model: Any, model_args: str, cli: Any) -> dict[str, Any]:
    """All inputs of the answers besides the request itself; the run's folder is named by its hash."""
    if not isinstance(model, str):  # an object made by the caller: a later one cannot be recognised as equal
        return {"model": type(model).__name__, "object": uuid.uuid4().hex}
    known = pairs(model_args)
    return {
        "model": model,
        "args": model_args,
        "seed": getattr(cli, "seed", None),
        "force_simple": bool(getattr(cli, "force_simple", False)),
        "system": getattr(cli, "system_instruction", None),
        "endpoint": {k: redact(os.environ[k]) for k in _ENDPOINTS if k in os.environ},
        "weights": {k: weights(Path(v)) for k, v in known.items() if k in ("pretrained", "model") and Path(v).is_dir()},
    }


def weights(folder: Path) -> str:
    """Return a hash of a checkpoint folder: names, sizes and time stamps of its files."""
    files = sorted({p for pattern in _WEIGHTS for p in folder.glob(pattern)})
    text = ";".join(f"{p.name}:{p.stat().st_size}:{p.stat().st_mtime_ns}" for p in files)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """The versions of the packages that can change a score."""
    found = {"lmms_eval_ad2": code_label(), "python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
