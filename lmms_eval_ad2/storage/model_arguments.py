"""Arguments of lmms-eval's model classes, as results name them: `pretrained=Qwen/Qwen2.5-VL-7B-Instruct,device=cpu`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
