"""Folders of models: a new model is never written over another one, and its weights appear last."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.lock import lock_folder

CONFIG, WEIGHTS = "config.json", "model.safetensors"
_TEMPORARY = "start"  # folder in the model folder


def holds_model(folder: Path) -> bool:
    return any((folder / name).exists() for name in (CONFIG, WEIGHTS, f"{WEIGHTS}.index.json"))


def refuse_model(folder: Path) -> None:
    """Raises Ad2Error if the folder holds a model."""
    if holds_model(folder):
        raise Ad2Error(f"{folder} holds a model already; choose another --out")


@contextmanager
def new_model(folder: Path) -> Iterator[Path]:
    """Lock `folder` and yield what `complete_model` yields. Raises Ad2Error if it holds a model, or is in use."""
    refuse_model(folder)  # before the lock file is written into the folder of a model
    with lock_folder(folder):
        refuse_model(folder)
        with complete_model(folder) as temporary:
            yield temporary


@contextmanager
def complete_model(folder: Path) -> Iterator[Path]:
    """Yield an empty folder, whose files are moved to `folder` if the block succeeds.

    The weights are moved last: where they are, all other files are. The caller holds the lock of `folder`. A killed
    process leaves `folder`/start, which the next call removes.
    """
    temporary = folder / _TEMPORARY
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in sorted(temporary.iterdir(), key=lambda file: file.name == WEIGHTS):
            file.replace(folder / file.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
