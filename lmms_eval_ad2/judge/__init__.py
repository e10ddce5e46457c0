"""Judges: free text -> a mark of 1..10, or why there is none. docs/judge.md: what each backend can and cannot see."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.judge import spec as _spec
from lmms_eval_ad2.judge.base import Judge, JudgeItem, JudgeRating

__all__ = ["Judge", "JudgeItem", "JudgeRating", "make_judge"]


def make_judge(spec: str | Path | Mapping[str, Any] | None, *, cache: Path | None = None) -> Judge:
    """The judge that `spec` names; None: the environment's AD2_JUDGE, else "lexical".

    "lexical" | "fake" | "embedding:NAME_OR_FOLDER" | "openai:model=…,base_url=…,concurrency=…" | a YAML file | a
    mapping with `backend`. `cache` is the sqlite file of an LLM judge's replies; without one nothing is kept.
    Raises Ad2Error for an unknown backend or key, a missing library or model, a missing API key.
    """
    return _spec.build(_spec.read(spec), cache)
