"""Checks before the slow start of a run: model, output folder, prompts, judge. Nothing heavy is imported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.harness import model_requirements


def faults(
    model: str | None, model_args: str | Mapping[str, Any] | None = None, out: str | None = None, *,
    force_simple: bool = False, ours: bool = True,
) -> list[str]:  # fmt: skip
    """Everything that would end the run after its start, one line each. `ours`: a task on records is
    among those asked."""
    found = model_requirements.faults(model, model_args, force_simple) if model else []
    for check in (lambda: check_output(out), *((check_prompts, check_judge) if ours else ())):
        try:
            check()
        except Ad2Error as exc:
            found.append(str(exc))
    return found


def check_output(path: str | None) -> None:
    """Raise Ad2Error for a folder that cannot be written."""
    if not path:
        return
    folder = Path(path)
    nearest = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not nearest.is_dir():
        raise Ad2Error(f"--output_path {path}: {nearest} is a file; name a folder")
    if not os.access(nearest, os.W_OK):
        raise Ad2Error(f"--output_path {path}: {nearest} cannot be written to")


def check_prompts() -> None:
    """Raise Ad2Error for an unreadable or invalid file of prompts (AD2_PROMPTS)."""
    from lmms_eval_ad2.prompts.prompt_set import PromptSet

    PromptSet.load()


def check_judge() -> None:
    """Raise Ad2Error for an invalid specification of the judge (AD2_JUDGE)."""
    from lmms_eval_ad2 import judge

    judge.check_judge(None)
