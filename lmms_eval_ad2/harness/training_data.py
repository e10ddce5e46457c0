"""What the model of an evaluation was trained on, compared with the questions of its tasks.

A model names its training data in ad2_training.json of its folder (storage/training_card.py). The numbers of leaking
questions are in the block `data` of each task's table, which rescoring and merging keep. Scores do not change.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.export.leaks import TrainedQuestions
from lmms_eval_ad2.data.export.trained_questions import TrainedShare, compared
from lmms_eval_ad2.harness.task_data import TASKS, LoadedTask
from lmms_eval_ad2.storage.training_card import STRICT_ENV, TRAINED_ON, TrainingCard


def mark_tasks(cards: Sequence[TrainingCard], tasks: Collection[str], *, quiet: bool = False) -> dict[str, Any]:
    """Compare the loaded tasks with the model's training data; returns the block "training" of the run's description.

    All questions of a task's split are compared, whatever --limit selects. Raises Ad2Error for a leak if
    AD2_STRICT_CONTAMINATION is set.
    """
    if not cards:
        return {"named": False}
    trained = TrainedQuestions(one for card in cards for one in card.sets)
    shares = {name: _share(TASKS[name], trained) for name in tasks if name in TASKS}
    for name, share in shares.items():
        TASKS[name].data[TRAINED_ON] = {"questions": share.n, "kinds": dict(sorted(share.kinds.items()))}
    leaking = {name: share for name, share in shares.items() if share.leaking}
    lines = [f"{name}: {share.text()}, e.g. {share.examples[0]}" for name, share in leaking.items()]
    if lines and os.environ.get(STRICT_ENV) == "1":
        raise Ad2Error(f"strict_contamination: {'; '.join(lines)}; nothing was asked")
    for line in () if quiet else lines:
        show(f"ad2: {line}", file=sys.stderr, flush=True)
    return {"named": True, "cards": [card.about() for card in cards]}


def _share(task: LoadedTask, trained: TrainedQuestions) -> TrainedShare:
    return compared(f"{task.data['name']}/{task.data['split']}", _records(task), task.image_root, trained)


def _records(task: LoadedTask) -> Iterator[Record]:
    """Each question once: a task may ask it in several rotations of its options."""
    seen: set[str] = set()
    for value in task.records:
        record = Record.from_json(value.as_py())
        if record.id not in seen:
            seen.add(record.id)
            yield record
