"""Identity of a run (model, arguments, weights, seeds, endpoint; secrets are redacted), and the model's training data.

Imports nothing of lmms-eval, so that the folder of a run is known before lmms-eval is imported.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import uuid
from collections.abc import Collection, Iterator, Sequence
from importlib import metadata
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.export.leaks import TrainedQuestions, compared
from lmms_eval_ad2.harness.task_data import TASKS, LoadedTask
from lmms_eval_ad2.storage.identity import code_label
from lmms_eval_ad2.storage.local_weights import local_weights
from lmms_eval_ad2.storage.redaction import redacted
from lmms_eval_ad2.storage.training_card import STRICT_ENV, TRAINED_ON, TrainingCard

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


# What the model of an evaluation was trained on, compared with the questions of its tasks.
#
# A model names its training data in ad2_training.json of its folder (storage/training_card.py). The numbers of leaking
# questions are in the block `data` of each task's table, which rescoring and merging keep. Scores do not change.


def mark_tasks(cards: Sequence[TrainingCard], tasks: Collection[str], *, quiet: bool = False) -> dict[str, Any]:
    """Compare the loaded tasks with the model's training data; returns the block "training" of the run's description.

    All questions of a task's split are compared, whatever --limit selects. Raises Ad2Error for a leak if
    AD2_STRICT_CONTAMINATION is set.
    """
    if not cards:
        return {"named": False}
    trained = TrainedQuestions(one for card in cards for one in card.sets)
    shares = {
        task.name: compared(f"{task.data['name']}/{task.data['split']}", _records(task), task.image_root, trained)
        for task in (TASKS[name] for name in tasks if name in TASKS)
    }
    for name, share in shares.items():
        TASKS[name].data[TRAINED_ON] = {"questions": share.n, "kinds": dict(sorted(share.kinds.items()))}
    leaking = {name: share for name, share in shares.items() if share.leaking}
    lines = [f"{name}: {share.text()}, e.g. {share.examples[0]}" for name, share in leaking.items()]
    if lines and os.environ.get(STRICT_ENV) == "1":
        raise Ad2Error(f"strict_contamination: {'; '.join(lines)}; nothing was asked")
    for line in () if quiet else lines:
        show(f"ad2: {line}", file=sys.stderr, flush=True)
    return {"named": True, "cards": [card.about() for card in cards]}


def _records(task: LoadedTask) -> Iterator[Record]:
    """Each question once: a task may ask it in several rotations of its options."""
    seen: set[str] = set()
    for value in task.records:
        record = Record.from_json(value.as_py())
        if record.id not in seen:
            seen.add(record.id)
            yield record
