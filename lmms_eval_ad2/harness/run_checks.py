"""Checks before the slow start of a run: model, output folder, prompts, judge. Nothing heavy is imported."""

from __future__ import annotations

import difflib
import math
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import EllipsisType
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.harness import model_requirements

_LEVELS = ("TRACE", "DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL")  # of lmms-eval's logger
_DEVICE = re.compile(r"auto|(?:cpu|cuda|hip|hpu|ipu|meta|mlu|mps|mtia|musa|npu|vulkan|xla|xpu)(?::\d+)?")
_GENERATION = ("max_new_tokens", "temperature", "top_p", "top_k", "num_beams", "do_sample", "repetition_penalty")
_NUMBERS = ("max_new_tokens", "temperature", "top_p", "top_k", "num_beams", "repetition_penalty")
_COUNTS = ("max_new_tokens", "num_beams")


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


def option_faults(options: Any) -> list[str]:
    """One line for each option of lmms-eval that cannot be used with our tasks. `options`: its parsed command line."""
    given = {
        name: value for name, value in vars(options).items() if not (value is None or value is False or value == "")
    }
    found = []
    if "limit" in given and not _is_limit(given["limit"]):
        value = f"{given['limit']:.15g}"
        found.append(f"--limit {value}: a number of records (1 or more), a share of them below 1, or -1 for all")
    for name, least in (("offset", 0), ("repeats", 1), ("max_batch_size", 1)):
        if given.get(name, least) < least:
            found.append(f"--{name} {given[name]}: {least} or more")
    for name in ("num_fewshot", "fewshot_as_multiturn"):
        if given.get(name):
            found.append(f"--{name} {given[name]}: the tasks of this package are asked without examples; omit it")
    if "use_cache" in given:
        found.append("--use_cache ignores image content and keeps failures; omit it: with --output_path a run resumes")
    if "baseline" in given:
        baseline = given["baseline"]
        found.append(f"--baseline {baseline}: not used by these tasks; compare two runs with: ad2 report compare A B")
    if not re.fullmatch(r"auto(:\d+(\.\d+)?)?|[1-9]\d*", str(given.get("batch_size", "1"))):
        found.append(f"--batch_size {given['batch_size']}: a whole number of 1 or more, or auto")
    if str(given.get("verbosity", "INFO")).upper() not in _LEVELS:
        found.append(f"--verbosity {given['verbosity']}: one of {', '.join(_LEVELS)}")
    if "device" in given and not _DEVICE.fullmatch(given["device"]):
        found.append(f"--device {given['device']}: no device of torch; for example cuda, cuda:0 or cpu")
    if "config" in given and not Path(given["config"]).is_file():
        found.append(f"--config {given['config']}: no such file")
    return found + generation_faults(given.get("gen_kwargs", ""))


def generation_faults(text: str) -> list[str]:
    """One line for each entry of `--gen_kwargs` that is no KEY=VALUE, misspelt, or no number where one is needed."""
    found = []
    if any(mark in text for mark in "{}[]\"'"):  # a structured value: lmms-eval reads it
        return []
    for entry in filter(None, text.split(",")):
        name, equals, value = (part.strip() for part in entry.partition("="))
        near = difflib.get_close_matches(name, _GENERATION, 1, 0.8)
        if not (name and equals and value):
            found.append(f"--gen_kwargs {entry}: expected KEY=VALUE")
        elif near and name not in _GENERATION:
            found.append(f"--gen_kwargs {entry}: did you mean {near[0]}?")
        elif name in _NUMBERS and not is_number_text(value):
            found.append(f"--gen_kwargs {entry}: expected a number")
        elif name in _COUNTS and not re.fullmatch(r"[1-9]\d*", value):
            found.append(f"--gen_kwargs {entry}: expected a whole number of 1 or more")
    return found


def is_number_text(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _is_limit(value: float) -> bool:
    """-1, a share below 1, or a whole number."""
    return value == -1 or 0 < value < 1 or (1 <= value < math.inf and float(value).is_integer())


def check_output(path: str | None) -> None:
    """Raise Ad2Error for a folder that cannot be written: a temporary folder is made at its place."""
    if path is None:
        return
    if not path.strip():
        raise Ad2Error("--output_path: the name is empty; name a folder")
    folder = Path(path)
    try:
        nearest = next(p for p in (folder, *folder.absolute().parents) if p.exists())
        if not nearest.is_dir():
            raise Ad2Error(f"--output_path {path}: {nearest} is a file; name a folder")
        with tempfile.TemporaryDirectory(prefix=".ad2_", dir=nearest):
            pass
    except OSError as exc:
        raise Ad2Error(f"--output_path {path}: cannot be written to: {exc.strerror}; name another folder") from None


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
