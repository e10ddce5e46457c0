"""What scripts/first_hour.sh checks before its first stage, so that a mistake is not found hours later."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from huggingface_hub.constants import HF_HUB_CACHE

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.driver.agents.make import cameras_of
from closedloop_plugin.runner.options import DriverOptions
from closedloop_plugin.runner.prepare import check_decision_hz
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.harness.task_selection import select
from lmms_eval_ad2.storage.local_weights import is_path


def is_local(key: str, value: str) -> bool:
    """Whether the value of a model's argument is a path here, present or not, and no id of the Hugging Face Hub.

    An id is OWNER/NAME. A relative path of weights is distinguished from one if it has more parts, or if its first
    folder is here and the Hub's cache does not have that id.
    """
    if value.startswith(("/", "./", "../")):
        return True
    if not (key == "pretrained" or key.endswith("_path")) or "://" in value:
        return False
    first, *rest = Path(value).parts or ("",)
    return is_path(value) or (len(rest) == 1 and Path(first).is_dir() and not is_downloaded(value))


def is_downloaded(model_id: str) -> bool:
    """Whether the Hub's cache has a model."""
    return (Path(HF_HUB_CACHE) / f"models--{model_id.replace('/', '--')}").is_dir()


def absent_notes(pretrained: Mapping[str, str]) -> list[str]:
    """Lines about ids that are neither a folder here nor in the cache: offline they can only be of another source.

    pretrained: by the name of the model.
    """
    return [
        f"note: {name}: pretrained={value}: not here, not in {HF_HUB_CACHE}; docs/first-hour.md has the downloads"
        for name, value in pretrained.items()
        if re.fullmatch(r"[\w.-]+/[\w.-]+", value) and not Path(value).exists() and not is_downloaded(value)
    ]


def check_commands(decision_hz: float, size: str, tasks: str) -> None:
    """Raise Ad2Error for a value that `ad2 drive run` or `ad2 eval` would refuse in a later stage."""
    rules = profile(DriverOptions.profile)
    check_decision_hz(decision_hz, rules)
    cameras_of(f"front@{size}", rules)
    if not any(name.strip() for name in tasks.split(",")):
        raise Ad2Error(f"--tasks {tasks!r}: no task; all: ad2 tasks")
    for fault in select(tasks).faults:
        raise Ad2Error(f"--tasks: {fault}")
