"""Checks before the slow start of a run: model, output folder, prompts, judge. Nothing heavy is imported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import EllipsisType
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.harness import model_requirements

OPTIONS = ("--limit", "--num_fewshot", "--baseline")  # of lmms-eval, as `option_faults` reads them


def faults(
    model: str | None, model_args: str | Mapping[str, Any] | None = None, out: str | None = None, *,
    force_simple: bool = False, ours: bool = True, device: str | EllipsisType | None = ...,
) -> list[str]:  # fmt: skip
    """Everything that would end the run after its start, one line each. `ours`: a task on records is among those asked.

    device: of `--device`, None if it is not given; without it, whether the model needs a GPU is not judged.
    """
    found = model_requirements.faults(model, model_args, force_simple, device) if model else []
    for check in (lambda: check_output(out), *((check_prompts, check_judge, check_subtasks) if ours else ())):
        try:
            check()
        except Ad2Error as exc:
            found.append(str(exc))
    return found


def option_faults(values: Mapping[str, Any]) -> list[str]:
    """One line for each of these options of lmms-eval whose value cannot be used with our tasks; None: not given."""
    limit, fewshot, baseline = (values.get(name) for name in OPTIONS)
    found = []
    if limit is not None and not _is_limit(limit):
        found.append(f"--limit {limit}: a number of records (1 or more), a share of them below 1, or -1 for all")
    if fewshot not in (None, 0, "0"):
        found.append(f"--num_fewshot {fewshot}: the tasks of this package are asked without examples; omit it")
    if baseline:
        found.append(f"--baseline {baseline}: not used by these tasks; compare two runs with: ad2 report compare A B")
    return found


def _is_limit(value: Any) -> bool:
    try:
        number = float(value)
    except ValueError:
        return False
    return number > 0 or number == -1


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


def check_subtasks() -> None:
    """Raise Ad2Error for an unreadable or invalid table of sub-tasks (AD2_SUBTASKS)."""
    from lmms_eval_ad2.scoring.score_columns import subtasks

    subtasks(os.environ.get("AD2_SUBTASKS"))


def check_judge() -> None:
    """Raise Ad2Error for an invalid specification of the judge (AD2_JUDGE)."""
    from lmms_eval_ad2 import judge

    judge.check_judge(None)
