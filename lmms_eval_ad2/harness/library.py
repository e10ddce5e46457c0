"""lmms-eval called as a library, with the checks and the result files of `ad2 eval`, and without its command line."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lmms_eval_ad2.core.coordinates import ENV as FRAME_ENV
from lmms_eval_ad2.core.coordinates import FrameSetting
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.harness import hooks, plugin, run_checks
from lmms_eval_ad2.harness.run import current
from lmms_eval_ad2.harness.run_identity import LibraryArguments
from lmms_eval_ad2.harness.task_selection import select

DEFAULT_SEEDS = (0, 1234, 1234, 1234)  # of lmms-eval's command line: random, numpy, torch, few-shot


def run_tasks(
    model: Any, tasks: str, *, model_args: str, out: Path, name: str | None, limit: float | None, repeats: int,
    batch_size: int, device: str | None, gen_kwargs: str, progress: Callable[[int, int], None] | None,
    settings: Mapping[str, str | None],
) -> Path:  # fmt: skip
    """Evaluate and return the folder of the run. `settings`: environment variables (AD2_JUDGE, ...) of this run only.

    model: a name of lmms-eval, a model object of lmms-eval, or a function, see FunctionModel. Raises Ad2Error for a
    mistake of the user; the state of the random number generators is the same afterwards.
    """
    with _environment(settings), _random_state():
        lm = model if isinstance(model, str) else model_object(model, name, batch_size)
        names = _checked(model if isinstance(model, str) else None, model_args, tasks, out)
        manager = _task_manager()  # first: it wraps functions of the evaluator
        with _kept(lm):
            _evaluator().simple_evaluate(
                model=lm,
                model_args=model_args,
                tasks=names,
                batch_size=str(batch_size),
                device=device,
                limit=limit,
                repeats=repeats,
                gen_kwargs=gen_kwargs or None,
                log_samples=False,
                task_manager=manager,
                cli_args=LibraryArguments(
                    model_name=name, output_path=str(out), limit=limit, repeats=repeats, offset=0,
                    seed=list(DEFAULT_SEEDS), process_with_media=False, gen_kwargs=gen_kwargs, device=device,
                    progress=progress,
                ),
            )  # fmt: skip
    folder = current().folder
    assert folder is not None  # since there is an output path
    return folder


def _checked(model: str | None, model_args: str, tasks: str, out: Path) -> list[str]:
    """The names of the tasks. Raises Ad2Error for a mistake that would end the run after its start."""
    if frame := os.environ.get(FRAME_ENV):
        FrameSetting.parse(frame, "frame")
    selection = select(tasks)
    faults = [f"no task '{name}' of this package; all: ad2 tasks" for name in selection.others]
    faults += selection.faults + run_checks.faults(model, model_args, str(out), ours=selection.on_records)
    if faults:
        raise Ad2Error("; ".join(faults))
    for line in selection.left_out:
        show(line, file=sys.stderr)
    return selection.names


def model_object(model: Any, name: str | None, batch_size: int) -> Any:
    """A model object of lmms-eval as it is; a function as one, see FunctionModel. Raises Ad2Error for anything else."""
    from lmms_eval.api.model import lmms

    if isinstance(model, lmms):
        return model
    if not callable(model):
        raise Ad2Error(f"model: expected a name, a model of lmms-eval or a function, found {type(model).__name__}")
    from lmms_eval_ad2.harness.models.engine_model import FunctionModel

    return FunctionModel(model, name or str(getattr(model, "__name__", type(model).__name__)), batch_size)


def _evaluator() -> Any:
    from lmms_eval import evaluator

    return evaluator


@cache
def _task_manager() -> Any:
    """The index of all tasks, which takes as long to make as many evaluations."""
    from lmms_eval.tasks import TaskManager

    plugin.install()
    return TaskManager("ERROR")


@contextmanager
def _environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables within the block; None leaves one as it is. The prompts are read again."""
    given = {name: value for name, value in values.items() if value is not None}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    hooks.prompts.cache_clear()
    try:
        yield
    finally:
        hooks.prompts.cache_clear()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _random_state() -> Iterator[None]:
    """Restore the random number generators, which lmms-eval seeds: a training must not depend on its evaluations."""
    import torch

    python, array, tensor = random.getstate(), np.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(array)
        torch.set_rng_state(tensor)
        torch.cuda.set_rng_state_all(devices)


@contextmanager
def _kept(lm: Any) -> Iterator[None]:
    """Keep the weights of a model object: lmms-eval deletes them after its requests (`lmms.clean`)."""
    if isinstance(lm, str):
        yield
        return
    lm.clean = lambda: None
    try:
        yield
    finally:
        del lm.clean
