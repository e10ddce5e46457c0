"""What a run is, so that only the same run goes on in the same folder: model, arguments, weights, seeds, endpoint."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

import lmms_eval_ad2

_ENDPOINTS = ("OPENAI_API_BASE", "OPENAI_BASE_URL", "AZURE_OPENAI_API_BASE")
_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf", "config.json", "adapter_config.json")
_SECRETS = (
    (re.compile(r"://[^@/\s,]+@"), "://[REDACTED]@"),
    (re.compile(r"\bsk-[\w-]{8,}"), "[REDACTED]"),
    (re.compile(r"(?i)\bbearer\s+[^\s,;]+"), "Bearer [REDACTED]"),
    (re.compile(r"(?i)(\b\w*(?:key|auth|password|secret|token)\s*=)[^,\s]+"), r"\1[REDACTED]"),
)
VERSIONS = ("lmms_eval", "torch", "transformers", "pillow", "pycocoevalcap", "jiwer", "ms_swift", "openai")


def redact(model_args: Any) -> str:
    """Model arguments as text, without keys, tokens and passwords."""
    from lmms_eval.evaluator import _redact_eval_config_secrets as hide

    if isinstance(model_args, dict):
        model_args = ",".join(f"{k}={v}" for k, v in sorted(model_args.items()))
    text = str(hide(str(model_args or "")))
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def pairs(model_args: str) -> dict[str, str]:
    """`a=1,b=2` as a dictionary."""
    return dict(p.split("=", 1) for p in model_args.split(",") if "=" in p)


def model_label(model: str, model_args: str) -> str:
    """A short name for tables: the checkpoint's where there is one."""
    known = pairs(model_args)
    for key in ("pretrained", "model_version", "model"):
        if known.get(key):
            return known[key].rstrip("/").split("/")[-1]
    return model


def identity(model: Any, model_args: str, cli: Any) -> dict[str, Any]:
    """All that decides a model's answers beside the request itself; the run's folder is named by its hash."""
    if not isinstance(model, str):  # an object made by the caller: nobody can tell whether it is the same again
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
    """A checkpoint on disk by names, sizes and time stamps of its files: other weights are another model."""
    files = sorted({p for pattern in _WEIGHTS for p in folder.glob(pattern)})
    text = ";".join(f"{p.name}:{p.stat().st_size}:{p.stat().st_mtime_ns}" for p in files)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """The versions that can move a number."""
    found = {"lmms_eval_ad2": lmms_eval_ad2.__version__, "python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
