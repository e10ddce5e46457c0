"""Tasks to export, and the distinction between training and evaluation splits."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.data.home import Dataset, DatasetManifest, list_datasets
from lmms_eval_ad2.scoring.variant import TaskVariant

TRAIN = "train"
# Names of evaluation splits in the releases and in common use.
EVALUATION = frozenset(("test", "val", "valid", "validation", "dev", "devel", "mini", "eval", "evaluation", "minival"))


@dataclass(frozen=True, slots=True)
class ExportTask:
    """A task as in its YAML file. `dataset`: name in the data home; `tested`: the split that the task evaluates."""

    name: str
    dataset: str
    tested: str
    variant: TaskVariant


def is_training(split: str) -> bool:
    """True for train, train_front, train-2, ...; False for train_val."""
    return _words(split)[0] == TRAIN and not is_evaluation(split)


def is_evaluation(split: str) -> bool:
    """True for test, val, val_q_only, ...

    A split of any other name (`spring`) can be exported; otherwise the leak check treats it as held out.
    """
    return bool(EVALUATION.intersection(_words(split)))


def _words(split: str) -> list[str]:
    return re.split(r"[_.-]", split.lower())


def refuse_evaluation(tasks: Sequence[ExportTask], split: str, tested: Mapping[str, Collection[str]]) -> None:
    """Raise Ad2Error if `split` has the name of an evaluation split, or if a task evaluates on it (`tested`)."""
    for task in tasks:
        if is_evaluation(split) or split in tested.get(task.dataset, ()):
            raise Ad2Error(
                f"--split {split}: {task.dataset} is evaluated on this split; training files are made of training "
                f"splits only: ad2 data import {task.dataset} SOURCE --split train, then --split train"
            )


def held_out(exported: Collection[Dataset]) -> list[DatasetManifest]:
    """Every imported split that is neither a training split nor among the exported ones."""
    exporting = {(d.name, d.split) for d in exported}
    return [m for m in list_datasets() if not is_training(m.split) and (m.name, m.split) not in exporting]
