"""Judges: rate free text from 1 to 10, or return a reason for no rating. docs/judge.md lists the backends' limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.judge import spec as _spec
from lmms_eval_ad2.judge.base import Judge, JudgeItem, JudgeRating

__all__ = ["Judge", "JudgeItem", "JudgeRating", "backend_of", "check_judge", "make_judge"]


def make_judge(spec: str | Path | Mapping[str, Any] | None, *, cache: Path | None = None) -> Judge:
    """Create the judge named by `spec`; None means the environment variable AD2_JUDGE, else "lexical".

    "lexical" | "fake" | "embedding:NAME_OR_FOLDER" | "evaluate:SCRIPT.py" | "openai:model=…,base_url=…,concurrency=…" |
    a YAML file | a mapping with `backend`. `cache` is the sqlite file for the replies of an LLM judge; without it no
    reply is kept.
    Raises Ad2Error for an unknown backend or key, a missing library or model, a missing API key.
    """
    return _spec.build(_spec.read(spec), cache)


def backend_of(spec: str | Path | Mapping[str, Any] | None) -> str:
    """The backend that a specification names. Raises Ad2Error as `make_judge` for one that cannot be read."""
    return str(_spec.read(spec)["backend"])


def check_judge(spec: str | Path | Mapping[str, Any] | None) -> None:
    """Raise Ad2Error for a specification that `make_judge` refuses, without loading a model or a metric's script."""
    _spec.check(_spec.read(spec))
